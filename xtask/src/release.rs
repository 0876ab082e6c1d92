//! `cargo xtask release`: the program as it is shipped, its hot path laid out by what calls did.
//!
//! It is built, watched while `bench` calls it, and built again with what was seen. Only the crates that
//! each call passes are treated so: to a compiler with a profile, what was not seen is cold, and the code
//! of tools would become small instead of fast. `bench`, which plays the servers that Toolkeep is compared
//! with, is built with the same profile, so that no side of a comparison has the better compiler.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::children::{shown, told};
use crate::workspace::{Workspace, cargo};

/// Tells this program, as cargo's wrapper around rustc, what to add for crates of [`HOT`].
const ADDED: &str = "TOOLKEEP_PROFILE_FLAG";

/// Crates that every call passes, through Toolkeep or beside it, as rustc names them.
const HOT: &str = "\
    arc_swap axum axum_core bench bytes catalog crc32fast formats futures_channel futures_core futures_util \
    gateway egress h2 host http http_body http_body_util httparse hyper hyper_util identity \
    intake json ledger mcp mio nodes policy programs prost proto rmcp rmp rmp_serde serde_json server server_core server_mcp slab \
    source_layers source_mcp source_modules store tokio tokio_stream tokio_util tonic tool toolkeep tower";

/// The folder of what is shipped, where cargo builds.
const SHIPPED: &str = "shipped";

/// What is built with a profile: the program, and what it is measured with.
const PACKAGES: [&str; 2] = ["toolkeep", "bench"];

/// What is watched, as words for `bench`.
const WATCHED: [&[&str]; 3] =
    [&["call", "--rounds", "1", "--seconds", "1"], &["node", "--quick"], &["programs"]];

/// Builds it, and says where it is.
///
/// # Errors
/// Where something does not build, or the tool that sums profiles up is not to be had.
pub(crate) fn run(workspace: &Workspace) -> Result<(), String> {
    let host = host()?;
    let profdata = profdata(&host)?;
    let folder = workspace.target.join("profile");
    drop(std::fs::remove_dir_all(&folder));
    let watched =
        with_profile(workspace, &host, "watched", &format!("generate={}", folder.display()))?;
    for words in WATCHED {
        let mut bench = Command::new(watched.join("bench"));
        bench.args(words).arg("--toolkeep").arg(watched.join("toolkeep"));
        if !shown(&mut bench)?.status.success() {
            // Such as programs where the system allows no cage.
            println!("`bench {}` failed: what it does stays as it was", words.join(" "));
        }
    }
    let merged = folder.join("merged.profdata");
    let mut merge = Command::new(profdata);
    merge.args(["merge", "--sparse", "-o"]).arg(&merged).arg(&folder);
    told(&mut merge).map_err(|why| format!("what was seen cannot be summed up: {why}"))?;
    // Cargo does not know that a profile changed.
    drop(std::fs::remove_dir_all(workspace.target.join(SHIPPED)));
    let programs = with_profile(workspace, &host, SHIPPED, &format!("use={}", merged.display()))?;
    println!("built {}", programs.join("toolkeep").display());
    Ok(())
}

/// The folder of the programs that were built before.
///
/// # Errors
/// Where one of them was not.
pub(crate) fn shipped(workspace: &Workspace) -> Result<PathBuf, String> {
    let folder = workspace.target.join(SHIPPED).join(host()?).join("release");
    let complete = PACKAGES.iter().all(|package| folder.join(package).is_file());
    if complete { Ok(folder) } else { Err("run `cargo xtask release` first".to_owned()) }
}

/// A package of ours as `cargo build --release` makes it.
///
/// # Errors
/// Where it does not build.
pub(crate) fn plain(workspace: &Workspace, package: &str) -> Result<(), String> {
    built(workspace, package, |_| {})
}

/// The folder of [`PACKAGES`], built with a flag more for hot crates; what runs while they are built is made
/// without, which is why the host is named. Each is built by itself: together, one would get the features
/// of the other.
fn with_profile(
    workspace: &Workspace,
    host: &str,
    folder: &str,
    flag: &str,
) -> Result<PathBuf, String> {
    let target = workspace.target.join(folder);
    let own = std::env::current_exe().map_err(|error| format!("who am I: {error}"))?;
    for package in PACKAGES {
        built(workspace, package, |build| {
            build.args(["--target", host, "--target-dir"]).arg(&target);
            build.env("RUSTC_WRAPPER", &own).env(ADDED, format!("-Cprofile-{flag}"));
        })?;
    }
    Ok(target.join(host).join("release"))
}

fn built(
    workspace: &Workspace,
    package: &str,
    more: impl FnOnce(&mut Command),
) -> Result<(), String> {
    let mut build = Command::new(cargo());
    build.args(["build", "--release", "--locked", "--package", package]);
    more(&mut build);
    let ended = shown(build.current_dir(&workspace.root))?;
    if ended.status.success() { Ok(()) } else { Err(format!("{package} does not build")) }
}

/// The compiler's own `llvm-profdata`; installed where rustup can.
fn profdata(host: &str) -> Result<PathBuf, String> {
    let root = told(Command::new("rustc").args(["--print", "sysroot"]))?;
    let there = Path::new(&root).join("lib/rustlib").join(host).join("bin/llvm-profdata");
    if !there.is_file() {
        println!("installing llvm-tools: what sums profiles up comes with it");
        shown(Command::new("rustup").args(["component", "add", "llvm-tools"]))?;
    }
    if there.is_file() {
        return Ok(there);
    }
    Err("there is no `llvm-profdata` of this compiler; `rustup component add llvm-tools`"
        .to_owned())
}

fn host() -> Result<String, String> {
    let said = told(Command::new("rustc").arg("-vV"))?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc does not say for what it builds".to_owned())
}

/// Runs rustc, where cargo has this program do that; it does not come back then.
pub(crate) fn as_rustc() -> Option<ExitCode> {
    let flag = std::env::var_os(ADDED)?;
    let mut words = std::env::args_os().skip(1);
    let mut rustc = Command::new(words.next()?);
    let words: Vec<OsString> = words.collect();
    if is_hot(&words) {
        rustc.arg(flag);
    }
    let error = rustc.args(words).exec();
    println!("rustc does not start: {error}");
    Some(ExitCode::FAILURE)
}

/// Whether it is a hot crate, built for the program and not for what builds it.
fn is_hot(words: &[OsString]) -> bool {
    let behind = |word: &str| {
        let at = words.iter().position(|one| one == word)?;
        words.get(at + 1)?.to_str()
    };
    behind("--target").is_some()
        && behind("--crate-name").is_some_and(|name| HOT.split(' ').any(|hot| hot == name))
}

#[cfg(test)]
mod tests {
    use super::is_hot;

    #[test]
    fn only_hot_crates_of_the_program_itself_have_a_profile() {
        let words = |text: &str| text.split(' ').map(Into::into).collect::<Vec<_>>();
        assert!(is_hot(&words("--crate-name h2 src/lib.rs --target x86_64-unknown-linux-gnu")));
        assert!(!is_hot(&words("--crate-name h2 src/lib.rs")), "of what builds");
        assert!(!is_hot(&words(
            "--crate-name symplex src/lib.rs --target x86_64-unknown-linux-gnu"
        )));
    }
}
