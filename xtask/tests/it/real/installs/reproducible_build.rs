//! Two runs of `dist` with one `SOURCE_DATE_EPOCH` give the same bytes.

use std::process::Command;

use super::built_packages::{built_packages, dist_command};
use super::command_run::CommandRun;

#[test]
fn a_second_run_elsewhere_gives_the_same_bytes() {
    let first = built_packages();
    let home = tempfile::tempdir().unwrap();
    let second = home.path().join("packages");
    let dist = dist_command(&second, &[]);
    // Another file mode mask, time zone, language, home and working directory.
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "umask 077; exec \"$@\"", "sh"])
        .arg(dist.get_program())
        .args(dist.get_args());
    for (name, value) in dist.get_envs() {
        shell.env(name, value.unwrap());
    }
    shell.env("TZ", "Asia/Kathmandu").env("LC_ALL", "C").current_dir(home.path());
    CommandRun::expect_success(&mut shell);
    let checksums =
        |folder: &std::path::Path| std::fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
    assert_eq!(checksums(&first), checksums(&second));
    assert_eq!(checksums(&first).lines().count(), 11, "{}", checksums(&first));
    let mut check = Command::new("sha256sum");
    check.args(["--check", "--strict", "SHA256SUMS"]).current_dir(&second);
    CommandRun::expect_success(&mut check);
}
