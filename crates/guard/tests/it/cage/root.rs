//! The same again as a user without rights, where the tests run as the superuser.

use std::process::Command;

#[test]
fn all_of_it_holds_for_a_user_without_rights() {
    if std::env::var_os("TK_UNPRIVILEGED").is_some() {
        return;
    }
    let again = std::env::current_exe().unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(again)
        .args(["cage::", "--test-threads", "2"])
        .env("TK_UNPRIVILEGED", "1")
        .env("HOME", "/tmp")
        .env_remove("TOOLKEEP_DEEP")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("writing_outside_leaves_nothing_there ... ok"), "{text}");
}
