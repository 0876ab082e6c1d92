//! The way this binary runs itself to start child processes.

use sandbox::process::Launcher;

/// The argument with which this binary runs itself as the supervisor of a child.
pub const LAUNCH: &str = "__launch";

/// Creates a launcher that starts programs through this binary.
pub fn launcher() -> Launcher {
    Launcher::this_binary(vec![LAUNCH.into()])
}
