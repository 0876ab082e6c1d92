//! A new Debian system in a folder, and commands in it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::built_packages::installed_file;
use super::command_run::{CommandRun, clean_command};

/// Mounts what programs expect, for this command only, and changes the root.
const ENTER_SCRIPT: &str = "mount -t proc proc \"$0/proc\" && mount --rbind /dev \"$0/dev\" \
    && cd / && exec chroot \"$0\" \"$@\"";

/// The smallest Debian system, unpacked. Removed when dropped.
pub(crate) struct DebianRoot {
    folder: tempfile::TempDir,
}

impl DebianRoot {
    /// Unpacks a system.
    pub(crate) fn unpack() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = Self { folder };
        let archive = installed_file("debian-root.tar");
        let mut tar = root_command("tar");
        CommandRun::expect_success(
            tar.args(["--numeric-owner", "-xf"]).arg(archive).arg("-C").arg(root.path("")),
        );
        // An ordinary user must see what is in it.
        CommandRun::expect_success(root_command("chmod").arg("755").arg(root.folder.path()));
        root
    }

    /// The path of one of its files, as seen from outside.
    pub(crate) fn path(&self, inside: &str) -> PathBuf {
        self.folder.path().join(inside.trim_start_matches('/'))
    }

    /// Creates a command that runs as root in the system.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = root_command("unshare");
        command.args(["--mount", "sh", "-c", ENTER_SCRIPT]).arg(self.folder.path());
        command.args(["env", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8"]);
        command.args(["DEBIAN_FRONTEND=noninteractive", program]);
        command
    }

    /// Runs a command in the system, which must succeed.
    #[track_caller]
    pub(crate) fn run(&self, program: &str, args: &[&str]) -> String {
        CommandRun::expect_success(self.command(program).args(args))
    }

    /// Copies a file into its `/tmp` and returns the path inside.
    pub(crate) fn copy_in(&self, file: &Path) -> String {
        let inside = format!("/tmp/{}", file.file_name().unwrap().to_string_lossy());
        CommandRun::expect_success(root_command("cp").arg(file).arg(self.path(&inside)));
        inside
    }
}

impl Drop for DebianRoot {
    fn drop(&mut self) {
        // Files of root, which the owner of the folder may not remove.
        drop(
            root_command("rm").args(["-rf", "--one-file-system"]).arg(self.folder.path()).status(),
        );
    }
}

/// Creates a command that runs as root: directly, or by sudo without a password.
pub(crate) fn root_command(program: impl AsRef<OsStr>) -> Command {
    if rustix::process::geteuid().is_root() {
        return clean_command(program);
    }
    let mut sudo = clean_command("sudo");
    sudo.arg("-n").arg(program);
    sudo
}
