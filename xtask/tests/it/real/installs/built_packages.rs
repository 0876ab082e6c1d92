//! The packages under test: built once by `cargo xtask dist`, and again when an input has changed.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::command_run::CommandRun;

/// Version of the packages under test.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Version of the packages that an upgrade starts from.
pub(crate) const OLDER_VERSION: &str = "0.0.9";

/// Time stamp of all packages under test.
pub(crate) const EPOCH_SECONDS: &str = "1700000000";

/// A file that `cargo xtask provision` installed.
#[track_caller]
pub(crate) fn installed_file(path: &str) -> PathBuf {
    let folder = std::env::var_os("TOOLKEEP_REAL").expect(
        "TOOLKEEP_REAL names no folder of installed programs: run `cargo xtask provision`, set what \
         it prints, and run again; or leave these tests out: `-E 'not test(/^real::/)'`",
    );
    let path = PathBuf::from(folder).join(path);
    assert!(path.exists(), "{} is missing; run `cargo xtask provision`", path.display());
    path
}

/// Returns the folder with the packages of this version.
pub(crate) fn built_packages() -> PathBuf {
    build_once("current", &[])
}

/// Returns the folder with the Debian package of [`OLDER_VERSION`], with the same program.
pub(crate) fn older_packages() -> PathBuf {
    build_once("older", &["--only", "debian", "--stamp-version", OLDER_VERSION])
}

/// The program that is packaged.
pub(crate) fn packaged_program() -> PathBuf {
    if let Some(named) = std::env::var_os("TOOLKEEP_DIST_BINARY") {
        return named.into();
    }
    let own = std::env::current_exe().unwrap();
    let built = own.ancestors().nth(2).unwrap().join("toolkeep");
    assert!(
        built.is_file(),
        "{} is missing: run `cargo build -p toolkeep`, or name a program in TOOLKEEP_DIST_BINARY",
        built.display()
    );
    built
}

/// Runs `cargo xtask dist` for the program under test.
pub(crate) fn dist_command(folder: &Path, flags: &[&str]) -> Command {
    let mut dist = Command::new(env!("CARGO_BIN_EXE_xtask"));
    dist.args(["dist", "--fast", "--out"]).arg(folder).arg("--binary").arg(packaged_program());
    dist.args(flags).env("SOURCE_DATE_EPOCH", EPOCH_SECONDS);
    dist.env("CARGO_MANIFEST_DIR", env!("CARGO_MANIFEST_DIR"));
    dist
}

fn build_once(name: &str, flags: &[&str]) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("installs");
    fs::create_dir_all(&root).unwrap();
    let lock = File::create(root.join(format!("{name}.lock"))).unwrap();
    lock.lock().unwrap();
    let (folder, stamp) = (root.join(name), root.join(format!("{name}.stamp")));
    let inputs = describe_inputs();
    if fs::read_to_string(&stamp).is_ok_and(|found| found == inputs) {
        return folder;
    }
    drop(fs::remove_file(&stamp));
    let printed = CommandRun::expect_success(&mut dist_command(&folder, flags));
    println!("{printed}");
    fs::write(stamp, inputs).unwrap();
    folder
}

/// Describes everything that goes into the packages by size and time of change.
fn describe_inputs() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut pending: Vec<PathBuf> = [
        "dist",
        "python/src",
        "python/pyproject.toml",
        "docs/reference/cli.md",
        "Cargo.lock",
        "CHANGELOG.md",
    ]
    .map(|path| root.join(path))
    .to_vec();
    pending.extend([packaged_program(), env!("CARGO_BIN_EXE_xtask").into()]);
    let mut lines = Vec::new();
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            pending.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            let found = fs::metadata(&path).unwrap();
            let mut line = String::new();
            write!(line, "{} {} {:?}", path.display(), found.len(), found.modified().unwrap())
                .unwrap();
            lines.push(line);
        }
    }
    lines.sort();
    lines.join("\n")
}
