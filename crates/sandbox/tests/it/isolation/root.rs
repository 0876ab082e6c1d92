//! Runs the tests again as an unprivileged user if they run as root.

use std::process::Command;

#[test]
fn all_of_it_holds_for_a_user_without_rights() {
    let again = std::env::current_exe().unwrap();
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(again);
        command
    } else {
        Command::new(again)
    };
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
