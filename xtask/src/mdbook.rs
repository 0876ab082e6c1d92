//! mdBook, the program that renders the documentation site. It is built once, in the version of
//! `pins`, into the cache of this user.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::child_processes::{run_quiet, run_visible};
use crate::kubernetes_server::cache_dir;
use crate::pinned_versions::MDBOOK;
use crate::test_runner::retry_install;
use crate::workspace::{Workspace, cargo_program, file_error};

/// Returns a mdBook of the pinned version: from the search path, from the cache, or built now.
pub(crate) fn install(workspace: &Workspace) -> Result<PathBuf, String> {
    let on_path = PathBuf::from("mdbook");
    if has_pinned_version(&on_path) {
        return Ok(on_path);
    }
    let cache = cache_dir().unwrap_or_else(|| workspace.target_dir.join("real/cache"));
    let home = cache.join(format!("mdbook-{MDBOOK}"));
    fs::create_dir_all(&home).map_err(|e| file_error(&home, &e))?;
    // Checkouts share the cache: one of them builds, the others wait.
    let lock = File::create(home.join("lock")).map_err(|e| file_error(&home, &e))?;
    lock.lock().map_err(|e| file_error(&home, &e))?;
    let program = home.join("bin/mdbook");
    if has_pinned_version(&program) {
        return Ok(program);
    }
    println!("installing mdbook {MDBOOK} into {}: this takes some minutes, once", home.display());
    build(&home).map_err(|why| explain_failure(&why))?;
    if has_pinned_version(&program) {
        Ok(program)
    } else {
        Err(explain_failure("the program that was built does not start"))
    }
}

fn has_pinned_version(program: &Path) -> bool {
    run_quiet(Command::new(program).arg("--version"))
        .is_ok_and(|ended| ended.stdout_text.trim() == format!("mdbook v{MDBOOK}"))
}

fn build(home: &Path) -> Result<(), String> {
    let folder = home.join("build");
    let built = retry_install(&format!("mdbook {MDBOOK}"), || {
        let mut install = Command::new(cargo_program());
        install.args(["install", "--locked", "mdbook", "--version", MDBOOK]);
        // Without the web server and the file watcher, which are half of the build.
        install.args(["--no-default-features", "--features", "search", "--root"]);
        install.arg(home).env("CARGO_TARGET_DIR", &folder);
        run_visible(&mut install).map(|ended| ended.status.success())
    });
    drop(fs::remove_dir_all(&folder));
    built
}

fn explain_failure(why: &str) -> String {
    format!(
        "the site needs mdbook {MDBOOK}, which could not be installed: {why}; check that crates.io \
         can be reached, or put a `mdbook` of this version on the search path"
    )
}
