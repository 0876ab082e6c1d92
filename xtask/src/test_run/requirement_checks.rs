//! Checks of the test requirements. Each tries what the tests do; none guesses.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::child_processes::run_quiet;
use crate::workspace::Workspace;

/// Open files that a test process needs: a thousand connections, both ends in one process.
const MIN_DESCRIPTORS: u64 = 4_096;

/// Checks that the shared data directory exists.
pub(super) fn check_data(workspace: &Workspace) -> Result<String, String> {
    let folder = data_folder(workspace);
    if folder.join("attacks").is_dir() {
        return Ok(folder.display().to_string());
    }
    Err(format!("`{}` has no folder `attacks`", folder.display()))
}

/// Checks the system's Python, which sandboxes can run, with the modules that tests import.
pub(super) fn check_python(_: &Workspace) -> Result<String, String> {
    let script = "import ctypes, fcntl, json, sqlite3, sys, zipfile, zlib; \
                  print('Python ' + sys.version.split()[0])";
    find_first_line(Command::new("/usr/bin/python3").args(["-c", script]))
}

/// Checks that `curl` starts.
pub(super) fn check_curl(_: &Workspace) -> Result<String, String> {
    find_first_line(Command::new("curl").arg("--version"))
}

/// Checks that `make` starts.
pub(super) fn check_make(_: &Workspace) -> Result<String, String> {
    find_first_line(Command::new("make").arg("--version"))
}

/// Checks that `bash` starts.
pub(super) fn check_bash(_: &Workspace) -> Result<String, String> {
    find_first_line(Command::new("bash").args(["-c", "echo \"bash $BASH_VERSION\""]))
}

/// Checks the programs that change limits and priorities, as tests use them.
pub(super) fn check_util_linux(_: &Workspace) -> Result<String, String> {
    let script = "prlimit --nofile=64:64 true && setsid true && ionice -c 3 true && \
                  chrt -b 0 true && taskset -p $$ >/dev/null && renice -n 19 $$ >/dev/null && \
                  prlimit --version";
    find_first_line(Command::new("sh").args(["-c", script]))
}

/// Checks the limit of open files, which the test task has raised as far as it may.
pub(super) fn check_descriptors(_: &Workspace) -> Result<String, String> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    match limit {
        Some(limit) if limit < MIN_DESCRIPTORS => {
            Err(format!("a process can have {limit} open files; {MIN_DESCRIPTORS} are needed"))
        }
        Some(limit) => Ok(format!("{limit} open files")),
        None => Ok("any number of open files".to_owned()),
    }
}

/// Checks that an ordinary process can make the namespaces of a full sandbox.
pub(super) fn check_namespaces(_: &Workspace) -> Result<String, String> {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "--pid", "--net", "--ipc", "--fork"]);
    find_first_line(command.args(["sh", "-c", "echo created"]))
}

/// Checks that a small disk can be mounted over a folder in its own mount namespace: for other users
/// than root, also in a user namespace. No mount remains.
pub(super) fn check_mount(workspace: &Workspace) -> Result<String, String> {
    try_mount(&workspace.target_dir)
}

fn try_mount(folder: &Path) -> Result<String, String> {
    let (mut command, is_root) = (Command::new("unshare"), rustix::process::geteuid().is_root());
    if !is_root {
        command.arg("--map-root-user");
    }
    let script = "mount -t tmpfs -o size=64k,mode=700 tmpfs \"$0\" && echo \"$1\"";
    command.args(["--mount", "sh", "-c", script]).arg(folder);
    command.arg(if is_root { "as root" } else { "in a user namespace" });
    find_first_line(&mut command)
        .map_err(|why| why.replace(&folder.display().to_string(), "the folder"))
}

/// Returns the first line of a program's output, or the last line of its errors if it failed.
fn find_first_line(command: &mut Command) -> Result<String, String> {
    let output = run_quiet(command)?;
    if output.status.success() {
        return Ok(output.stdout_text.lines().next().unwrap_or_default().to_owned());
    }
    let error = output.stderr_text.trim().lines().next_back();
    Err(error.unwrap_or("it ended with an error").to_owned())
}

/// Passes the data directory to a command in `TOOLKEEP_DATA`.
pub(super) fn set_data_folder(command: &mut Command, folder: &Path) {
    command.env("TOOLKEEP_DATA", folder);
}

/// Returns the shared data directory: `TOOLKEEP_DATA`, or `shared/data` beside the checkout.
pub(super) fn data_folder(workspace: &Workspace) -> PathBuf {
    let default = || workspace.root_dir.parent().unwrap_or(&workspace.root_dir).join("shared/data");
    let named = std::env::var_os("TOOLKEEP_DATA").map_or_else(default, PathBuf::from);
    // Tests run in the directories of their crates, so a relative path must be made absolute.
    std::path::absolute(&named).unwrap_or(named)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{find_first_line, try_mount};

    #[test]
    fn a_program_that_is_absent_or_fails_is_missing() {
        let absent = find_first_line(&mut Command::new("no-such-program-here")).unwrap_err();
        assert!(absent.starts_with("cannot start `no-such-program-here`"), "{absent}");
        let failed =
            find_first_line(Command::new("sh").args(["-c", "echo one >&2; echo two >&2; exit 1"]));
        assert_eq!(failed, Err("two".to_owned()));
        let silent = find_first_line(Command::new("sh").args(["-c", "exit 1"]));
        assert_eq!(silent, Err("it ended with an error".to_owned()));
        let good = find_first_line(Command::new("sh").args(["-c", "echo 1.2; echo more"]));
        assert_eq!(good, Ok("1.2".to_owned()));
    }

    #[test]
    fn mounting_is_tried_and_not_guessed() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        // A folder that is not there cannot be mounted over, whoever asks.
        let missing = try_mount(&folder.join("none")).unwrap_err();
        assert!(!missing.is_empty() && !missing.contains('\n'), "{missing}");
        let can = try_mount(folder);
        assert!(folder.join("Cargo.toml").exists(), "something stayed mounted: {can:?}");
        // By another way: the system call itself, in a namespace of its own.
        let user =
            if rustix::process::geteuid().is_root() { &[][..] } else { &["--map-root-user"] };
        let other = Command::new("unshare")
            .args(user)
            .args(["--mount", "mount", "--bind"])
            .args([folder, folder])
            .output()
            .unwrap();
        assert_eq!(can.is_ok(), other.status.success(), "{can:?} {other:?}");
    }
}
