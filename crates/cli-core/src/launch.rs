//! How this binary runs itself to start a child.

use sandbox::process::Launcher;

/// The word with which this binary runs itself as the supervisor of a child.
pub const LAUNCH: &str = "__launch";

/// Programs are started by this one.
pub fn launcher() -> Launcher {
    Launcher::this_binary(vec![LAUNCH.into()])
}
