//! Launcher that starts child processes through this binary.

use sandbox::process::ProcessLauncher;

/// The argument with which this binary runs itself as the supervisor of a child.
pub const SUPERVISOR_ARG: &str = "__launch";

/// Creates a launcher that starts programs through this binary.
pub fn child_launcher() -> ProcessLauncher {
    ProcessLauncher::this_binary(vec![SUPERVISOR_ARG.into()])
}
