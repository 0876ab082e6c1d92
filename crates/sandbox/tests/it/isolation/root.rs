//! Runs the tests again as an unprivileged user if they run as root.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use super::neighbours::NOBODY;

#[test]
fn all_of_it_holds_for_a_user_without_rights() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    if rustix::process::geteuid().is_root() {
        // Also leaves all supplementary groups.
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command
        .args(["isolation::", "--skip", "all_of_it_holds", "--test-threads", "2"])
        .env("TK_UNPRIVILEGED", "1")
        .env("HOME", "/tmp")
        .env_remove("TOOLKEEP_DEEP")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("writing_outside_leaves_nothing_there ... ok"), "{text}");
}
