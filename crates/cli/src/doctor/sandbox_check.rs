//! Check of the sandbox layers of this machine, and of the tools that need them.

use builtins::SandboxProvider;
use sandbox::{SandboxLevel, SandboxSupport};

use super::CheckFinding;
use cli_core::process_launcher::child_launcher;

/// The tools that need a sandbox.
const SANDBOXED_TOOLS: &str = "run_shell, python_eval, sql_query, git_status and symbolic_solve";

/// Checks each sandbox layer and the resulting tier. `min_level` is the least tier in which code
/// may run.
pub(super) async fn sandbox_findings(min_level: SandboxLevel) -> Vec<CheckFinding> {
    let cages = SandboxProvider::new(child_launcher(), None, min_level);
    let standing = cages.sandbox_support().await;
    let offered = match cages.usable_level().await {
        Ok(tier) => Ok((tier, escape_attempts(standing, tier))),
        Err(why) => Err((why, cages.fix_hint().await)),
    };
    tier_findings(standing, offered)
}

fn escape_attempts(standing: &SandboxSupport, tier: SandboxLevel) -> usize {
    let found = match tier {
        SandboxLevel::Full => Some(&standing.full),
        SandboxLevel::NoNamespaces => standing.no_namespaces.as_ref(),
    };
    found.and_then(|found| found.as_ref().ok()).map_or(0, |found| found.attempts.len())
}

type TierResult = Result<(SandboxLevel, usize), (String, &'static str)>;

fn tier_findings(standing: &SandboxSupport, offered: TierResult) -> Vec<CheckFinding> {
    let namespaces = match standing.missing_reason(SandboxLevel::Full) {
        None => CheckFinding::ok(
            "user namespaces",
            "available: sandboxed code sees and reaches nothing \
                                              else",
        ),
        Some(why) => CheckFinding::warning(
            "user namespaces",
            why,
            "without user namespaces, code has no sandbox for files, network and processes; allow \
             them for this user (sysctl user.max_user_namespaces, the container's seccomp profile, \
             AppArmor)",
        ),
    };
    let landlock = match standing.landlock_abi {
        0 => CheckFinding::warning(
            "landlock",
            "unavailable or denied",
            "without Landlock, file access has no second layer of protection; use kernel 5.13 or \
             later with Landlock enabled",
        ),
        version => {
            let detail = format!(
                "version {version}: second layer of protection for files, TCP and \
                                  signals"
            );
            CheckFinding::ok("landlock", detail)
        }
    };
    let seccomp = if standing.has_seccomp {
        CheckFinding::ok("seccomp", "available: dangerous system calls are denied")
    } else {
        CheckFinding::warning("seccomp", "not there", "use a kernel with CONFIG_SECCOMP_FILTER")
    };
    let cage = match offered {
        Ok((tier, trials)) => {
            let detail = format!(
                "{}: {trials} escape attempts failed; {SANDBOXED_TOOLS} run in it",
                tier.as_str()
            );
            CheckFinding::ok("cage", detail)
        }
        Err((why, fix)) => {
            CheckFinding::warning("cage", format!("{SANDBOXED_TOOLS} are unavailable: {why}"), fix)
        }
    };
    vec![namespaces, landlock, seccomp, cage]
}
