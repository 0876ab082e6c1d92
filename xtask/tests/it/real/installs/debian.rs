//! The Debian package in a new system: installed, upgraded, removed and purged; and the judges.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::built_packages::{OLDER_VERSION, VERSION, built_packages, older_packages};
use super::command_run::{CommandRun, clean_command};
use super::debian_root::{DebianRoot, root_command};
use super::served_call::call_through_server;

/// Highest exposure of the unit, in tenths, of `systemd-analyze security`.
const EXPOSURE_LIMIT: &str = "45";

/// Data directory of the service.
const DATA: &str = "/var/lib/toolkeep";

fn package(folder: &Path, version: &str) -> PathBuf {
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    folder.join(format!("toolkeep_{version}-1_{architecture}.deb"))
}

fn current_package() -> PathBuf {
    package(&built_packages(), VERSION)
}

/// Installs by apt, as users do, and returns the seconds to the first call.
fn install_and_call(root: &DebianRoot, package: &Path) -> (f64, f64) {
    let inside = root.copy_in(package);
    let started = Instant::now();
    root.run("apt-get", &["install", "--yes", "--quiet", &inside]);
    let installed = started.elapsed().as_secs_f64();
    // As the unit starts it, but that nothing here is systemd.
    let command = || {
        let mut command = root.command("toolkeep");
        command.args(["--config", "/etc/toolkeep/toolkeep.yaml"]);
        command
    };
    call_through_server(&command, Path::new(DATA));
    (installed, started.elapsed().as_secs_f64())
}

fn installed_version(root: &DebianRoot) -> String {
    root.run(
        "dpkg-query",
        &["--showformat", "${db:Status-Status} ${Version}", "--show", "toolkeep"],
    )
}

#[test]
fn the_package_installs_upgrades_removes_and_purges() {
    let (older, current) = (package(&older_packages(), OLDER_VERSION), current_package());
    let root = DebianRoot::unpack();
    // As systemd lays the data out for a unit with DynamicUser.
    root.run(
        "mkdir",
        &["-p", "-m", "700", "/var/lib/private/toolkeep", "/var/cache/private/toolkeep"],
    );
    root.run("ln", &["-s", "private/toolkeep", DATA]);

    let (installed, answered) = install_and_call(&root, &older);
    println!("apt install {installed:.1} s, first call answered after {answered:.1} s");
    assert_eq!(installed_version(&root), format!("installed {OLDER_VERSION}-1"));
    assert_eq!(root.run("dpkg", &["--verify", "toolkeep"]), "");
    let enabled = "/etc/systemd/system/multi-user.target.wants/toolkeep.service";
    root.run("test", &["-L", enabled]);

    // What an administrator and the server wrote.
    root.run(
        "sh",
        &[
            "-c",
            "echo '# ours' >> /etc/toolkeep/toolkeep.yaml; echo A=b > /etc/toolkeep/secrets.env",
        ],
    );
    root.run("rm", &[enabled]);
    let read = |path: &str| root.run("cat", &[path]);
    let kept = |path: &str| read(&format!("{DATA}/{path}"));
    let (key, configuration) = (kept("owner.key"), read("/etc/toolkeep/toolkeep.yaml"));

    let (installed, answered) = install_and_call(&root, &current);
    println!("apt upgrade {installed:.1} s, first call answered after {answered:.1} s");
    assert_eq!(installed_version(&root), format!("installed {VERSION}-1"));
    assert_eq!(
        (kept("owner.key"), read("/etc/toolkeep/toolkeep.yaml")),
        (key.clone(), configuration.clone())
    );
    let was_disabled = CommandRun::run(root.command("test").args(["-e", enabled]));
    assert!(!was_disabled.is_success, "an upgrade enabled what was disabled");
    let records = root.run("toolkeep", &["--data", DATA, "record", "list", "-o", "json"]);
    assert_eq!(records.matches("calculator").count(), 2, "calls before and after: {records}");

    root.run("apt-get", &["remove", "--yes", "--quiet", "toolkeep"]);
    assert_eq!(installed_version(&root), format!("config-files {VERSION}-1"));
    assert!(!root.path("/usr/bin/toolkeep").exists());
    assert_eq!((kept("owner.key"), read("/etc/toolkeep/toolkeep.yaml")), (key, configuration));

    root.run("apt-get", &["purge", "--yes", "--quiet", "toolkeep"]);
    let left = root.run("find", &["/etc", "/var/lib", "/var/cache", "/usr", "-name", "*toolkeep*"]);
    let left: Vec<&str> = left.lines().filter(|path| !path.starts_with("/var/lib/dpkg/")).collect();
    assert_eq!(left, <[&str; 0]>::default(), "purge left files");
}

#[test]
fn manual_pages_and_completions_are_found() {
    let root = DebianRoot::unpack();
    let inside = root.copy_in(&current_package());
    root.run("dpkg", &["--install", &inside]);
    let completion =
        "source /usr/share/bash-completion/completions/toolkeep && complete -p toolkeep";
    let printed = root.run("bash", &["-c", completion]);
    assert!(printed.ends_with(" toolkeep\n"), "{printed}");
    let folder = root.path("/usr/share/man/man1");
    let pages: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("toolkeep"))
        .collect();
    assert!(pages.len() > 20, "{pages:?}");
    for page in pages {
        let mut mandoc = clean_command("mandoc");
        CommandRun::expect_success(mandoc.args(["-T", "lint", "-W", "warning"]).arg(&page));
    }
    let mut mandoc = clean_command("mandoc");
    let text = CommandRun::expect_success(
        mandoc.args(["-T", "ascii"]).arg(folder.join("toolkeep-tool.1.gz")),
    );
    assert!(text.contains("toolkeep tool call calculator expression='6*7'"), "{text}");
}

#[test]
fn lintian_has_no_error_and_no_warning() {
    let mut lintian = clean_command("lintian");
    lintian.args(["--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0"]);
    let run = CommandRun::run(lintian.arg(current_package()));
    println!("lintian: {}", if run.stdout.is_empty() { "no findings" } else { &run.stdout });
    assert!(run.is_success, "{run:?}");
    // Control: a package with an error is refused.
    let home = tempfile::tempdir().unwrap();
    let tree = home.path().join("tree");
    CommandRun::expect_success(
        clean_command("dpkg-deb").arg("-R").arg(current_package()).arg(&tree),
    );
    // Without the program, which takes lintian a minute.
    for file in ["usr/share/doc/toolkeep/copyright", "usr/bin/toolkeep"] {
        fs::remove_file(tree.join(file)).unwrap();
    }
    let broken = home.path().join("toolkeep_1_all.deb");
    CommandRun::expect_success(
        clean_command("dpkg-deb")
            .args(["--root-owner-group", "-Zgzip", "-z1", "--build"])
            .arg(&tree)
            .arg(&broken),
    );
    let mut lintian = clean_command("lintian");
    lintian.args(["--allow-root", "--fail-on", "error,warning", "--tags", "no-copyright-file"]);
    assert!(!CommandRun::run(lintian.arg(&broken)).is_success);
}

#[test]
fn the_unit_is_hardened_and_leaves_the_sandbox_of_tools_whole() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dist/debian/toolkeep.service");
    let mut analyze = clean_command("systemd-analyze");
    analyze.args(["security", "--offline=true", "--no-pager", "--threshold", EXPOSURE_LIMIT]);
    let run = CommandRun::run(analyze.arg(&unit));
    println!("{}", run.stdout);
    assert!(run.is_success, "{run:?}");
    // Nothing here is systemd, so its restrictions are made by hand: see the script.
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/real/installs/unit_restrictions.sh");
    let home = tempfile::tempdir().unwrap();
    let mut enter = root_command("unshare");
    enter
        .args(["--mount", "sh"])
        .arg(script)
        .arg(super::built_packages::packaged_program())
        .arg(home.path());
    let printed = CommandRun::expect_success(&mut enter);
    let sandbox = printed.lines().find(|line| line.contains("sandbox:")).unwrap_or_default();
    println!("{sandbox}");
    assert!(sandbox.starts_with("ok     sandbox: whole"), "{printed}");
}
