//! The smallest Debian system, as an archive, for tests that install a Debian package. It is made
//! once, by debootstrap, into the cache of this user.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use crate::child_processes::{run_quiet, run_visible};
use crate::kubernetes_server::cache_dir;
use crate::pinned_versions::DEBIAN_RELEASE;
use crate::test_runner::retry_install;
use crate::workspace::file_error;

/// Name of the archive in the folder of installed programs.
const ARCHIVE: &str = "debian-root.tar";

/// Content of the system that no test needs: packages that are already installed, and their lists.
const REMOVED_PATHS: &[&str] =
    &["var/cache/apt/archives", "var/lib/apt/lists", "var/cache/apt/pkgcache.bin"];

/// Ensures that `folder` has the archive. Returns what was made for it, if anything.
pub(crate) fn install_archive(folder: &Path) -> Result<Option<String>, String> {
    let cache = cache_dir().unwrap_or_else(|| folder.join("cache"));
    let home = cache.join(format!("debian-{DEBIAN_RELEASE}"));
    fs::create_dir_all(&home).map_err(|e| file_error(&home, &e))?;
    // Checkouts share the cache: one of them makes it, the others wait.
    let lock = File::create(home.join("lock")).map_err(|e| file_error(&home, &e))?;
    lock.lock().map_err(|e| file_error(&home, &e))?;
    let (archive, link) = (home.join("root.tar"), folder.join(ARCHIVE));
    let is_new = !archive.is_file();
    if is_new {
        println!(
            "making a Debian {DEBIAN_RELEASE} in {}: this takes a minute, once",
            home.display()
        );
        make_archive(&home, &archive)?;
    }
    drop(fs::remove_file(&link));
    std::os::unix::fs::symlink(&archive, &link).map_err(|e| file_error(&link, &e))?;
    Ok(is_new.then(|| format!("debootstrap {DEBIAN_RELEASE}")))
}

fn make_archive(home: &Path, archive: &Path) -> Result<(), String> {
    let (root, part) = (home.join("root"), home.join("root.tar.part"));
    let made = retry_install("a Debian system", || {
        remove_tree(&root)?;
        let mut debootstrap = root_command("debootstrap");
        debootstrap.args(["--variant=minbase", DEBIAN_RELEASE]).arg(&root);
        Ok(run_visible(&mut debootstrap)?.status.success())
    });
    let packed = made.and_then(|()| {
        for path in REMOVED_PATHS {
            remove_tree(&root.join(path))?;
        }
        let mut tar = root_command("tar");
        tar.args(["--numeric-owner", "-cf"]).arg(&part).arg("-C").arg(&root).arg(".");
        let output = run_quiet(&mut tar)?;
        if output.status.success() { Ok(()) } else { Err(output.stderr_text) }
    });
    remove_tree(&root)?;
    packed?;
    fs::rename(&part, archive).map_err(|e| file_error(&part, &e))
}

fn remove_tree(path: &Path) -> Result<(), String> {
    let output = run_quiet(root_command("rm").args(["-rf", "--one-file-system"]).arg(path))?;
    if output.status.success() { Ok(()) } else { Err(output.stderr_text) }
}

/// Creates a command that runs as root: directly, or by sudo without a password.
fn root_command(program: &str) -> Command {
    if rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut sudo = Command::new("sudo");
    sudo.args(["-n", program]);
    sudo
}
