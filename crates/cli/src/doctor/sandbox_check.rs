//! Check of the sandbox layers of this machine, and of the tools that need them.

use sandbox::SandboxLevel;

use super::CheckFinding;
use crate::sandbox_tiers::{SandboxTiers, sandbox_provider};

/// The tools that need a sandbox.
const SANDBOXED_TOOLS: &str = "run_shell, python_eval, sql_query, git_status and symbolic_solve";

/// Checks each sandbox layer and the resulting tier. `min_level` is the least tier in which code
/// may run.
pub(super) async fn sandbox_findings(min_level: SandboxLevel) -> Vec<CheckFinding> {
    let sandboxes = sandbox_provider(min_level);
    let tiers = SandboxTiers::from_support(sandboxes.sandbox_support().await);
    let usable = match sandboxes.usable_level().await {
        Ok(level) => {
            let attempts = tiers.tier(level).and_then(|tier| tier.escape_attempts).unwrap_or(0);
            Ok(UsableSandbox { level, attempts })
        }
        Err(reason) => Err(SandboxGap { reason, fix: sandboxes.fix_hint().await }),
    };
    tier_findings(&tiers, usable)
}

/// The sandbox that code runs in.
struct UsableSandbox {
    level: SandboxLevel,
    /// Number of escape attempts, all of which failed.
    attempts: usize,
}

/// The reason why code has no sandbox, with its fix.
struct SandboxGap {
    reason: String,
    fix: &'static str,
}

fn tier_findings(
    tiers: &SandboxTiers,
    usable: Result<UsableSandbox, SandboxGap>,
) -> Vec<CheckFinding> {
    let namespaces = match tiers.tier(SandboxLevel::Full).and_then(|tier| tier.reason.clone()) {
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
    let landlock = match tiers.landlock_abi {
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
    let seccomp = if tiers.has_seccomp {
        CheckFinding::ok("seccomp", "available: dangerous system calls are denied")
    } else {
        CheckFinding::warning("seccomp", "not there", "use a kernel with CONFIG_SECCOMP_FILTER")
    };
    let sandbox_spec = match usable {
        Ok(UsableSandbox { level, attempts }) => {
            let detail = format!(
                "{}: {attempts} escape attempts failed; {SANDBOXED_TOOLS} run in it",
                level.as_str()
            );
            CheckFinding::ok("sandbox", detail)
        }
        Err(SandboxGap { reason, fix }) => {
            let detail = format!("{SANDBOXED_TOOLS} are unavailable: {reason}");
            CheckFinding::warning("sandbox", detail, fix)
        }
    };
    vec![namespaces, landlock, seccomp, sandbox_spec]
}
