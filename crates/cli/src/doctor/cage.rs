//! The check of the sandbox layers of this machine, and of the tools that need them.

use builtins::Cages;
use sandbox::{Standing, Tier};

use super::Finding;
use cli_core::launch::launcher;

/// The tools that need a sandbox.
const TOOLS: &str = "run_shell, python_eval, sql_query, git_status and symbolic_solve";

/// Checks each sandbox layer and the resulting tier. `floor` is the least tier in which code may
/// run.
pub(super) async fn findings(floor: Tier) -> Vec<Finding> {
    let cages = Cages::new(launcher(), None, floor);
    let standing = cages.standing().await;
    let offered = match cages.tier().await {
        Ok(tier) => Ok((tier, trials(standing, tier))),
        Err(why) => Err((why, cages.advice().await)),
    };
    told(standing, offered)
}

fn trials(standing: &Standing, tier: Tier) -> usize {
    let found = match tier {
        Tier::Whole => Some(&standing.whole),
        Tier::Fenced => standing.fenced.as_ref(),
    };
    found.and_then(|found| found.as_ref().ok()).map_or(0, |found| found.trials.len())
}

type Offered = Result<(Tier, usize), (String, &'static str)>;

fn told(standing: &Standing, offered: Offered) -> Vec<Finding> {
    let namespaces = match standing.lacks(Tier::Whole) {
        None => {
            Finding::good("user namespaces", "made: what is caged sees and reaches nothing else")
        }
        Some(why) => Finding::doubtful(
            "user namespaces",
            why,
            "without them there is no cage of its own for files, net and processes: allow them for \
             this user (sysctl user.max_user_namespaces, the container's seccomp profile, AppArmor)",
        ),
    };
    let landlock = match standing.landlock {
        0 => Finding::doubtful(
            "landlock",
            "not there, or refused",
            "without it files have no second fence: a kernel from 5.13 that starts with it is needed",
        ),
        version => {
            let detail = format!("version {version}: files, TCP and signals have a second fence");
            Finding::good("landlock", detail)
        }
    };
    let seccomp = if standing.seccomp {
        Finding::good("seccomp", "there: dangerous system calls are refused")
    } else {
        Finding::doubtful("seccomp", "not there", "a kernel with CONFIG_SECCOMP_FILTER is needed")
    };
    let cage = match offered {
        Ok((tier, trials)) => {
            let detail = format!(
                "{}: {trials} attempts to get out failed; {TOOLS} run in it",
                tier.as_str()
            );
            Finding::good("cage", detail)
        }
        Err((why, fix)) => {
            Finding::doubtful("cage", format!("{TOOLS} are not offered: {why}"), fix)
        }
    };
    vec![namespaces, landlock, seccomp, cage]
}
