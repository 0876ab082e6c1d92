//! `cargo xtask release`: the shipped program, optimised with a profile of its hot path.
//!
//! It is built with instrumentation, profiled while `bench` calls it, and built again with the
//! profile. Only the crates that every call passes use it: the compiler treats unprofiled code as
//! cold, and would optimise the code of tools for size. `bench`, which contains the servers that
//! Toolkeep is compared with, is built with the same profile, so that the comparison is fair.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::child_processes::{run_for_output, run_visible};
use crate::workspace::{Workspace, cargo_program};

/// Variable with the flags that this program, as cargo's rustc wrapper, adds for crates of
/// [`HOT_CRATES`].
const FLAG_VARIABLE: &str = "TOOLKEEP_PROFILE_FLAG";

/// Crates that every call passes, in Toolkeep or in `bench`, by the names that rustc uses.
const HOT_CRATES: &str = "\
    arc_swap axum axum_core bench bytes catalog crc32fast formats futures_channel futures_core futures_util \
    gateway egress h2 host http http_body http_body_util httparse hyper hyper_util identity \
    intake json ledger mcp mio nodes policy programs prost proto rmcp rmp rmp_serde serde_json server server_core server_mcp slab \
    source_layers source_mcp source_modules store tokio tokio_stream tokio_util tonic tool toolkeep tower";

/// Variables that the program reads at compile time and that `toolkeep version` reports.
const COMMIT_VARIABLE: &str = "TOOLKEEP_BUILD_COMMIT";
const PROFILE_VARIABLE: &str = "TOOLKEEP_BUILD_PROFILE";

/// Folder of the shipped programs below cargo's target directory.
const SHIPPED_DIR: &str = "shipped";

/// Cargo's profile of the shipped programs, and its folder.
const SHIPPED_PROFILE: &str = "shipped";

/// Cargo's profile of `cargo build --release`, and its folder.
const PLAIN_PROFILE: &str = "release";

/// Packages that are built with a profile: the program and the benchmark.
const PROFILED_PACKAGES: [&str; 2] = ["toolkeep", "bench"];

/// Benchmark runs that record the profile, as arguments of `bench`.
const PROFILED_BENCHES: [&[&str]; 3] =
    [&["call", "--rounds", "1", "--seconds", "1"], &["node", "--quick"], &["programs"]];

/// Builds the shipped programs and prints their path.
///
/// # Errors
/// If a build fails, or `llvm-profdata` is unavailable.
pub(crate) fn build_release(workspace: &Workspace) -> Result<(), String> {
    let host = host_triple()?;
    let profdata = find_profdata(&host)?;
    let folder = workspace.target_dir.join("profile");
    drop(std::fs::remove_dir_all(&folder));
    let watched =
        build_with_profile(workspace, &host, "watched", &format!("generate={}", folder.display()))?;
    for words in PROFILED_BENCHES {
        let mut bench = Command::new(watched.join("bench"));
        bench.args(words).arg("--toolkeep").arg(watched.join("toolkeep"));
        if !run_visible(&mut bench)?.status.success() {
            // Programs, for example, need a sandbox, which some systems do not allow.
            println!("`bench {}` failed: what it does stays as it was", words.join(" "));
        }
    }
    let merged = folder.join("merged.profdata");
    let mut merge = Command::new(profdata);
    merge.args(["merge", "--sparse", "-o"]).arg(&merged).arg(&folder);
    run_for_output(&mut merge)
        .map_err(|why| format!("what was seen cannot be summed up: {why}"))?;
    // Cargo does not know that a profile changed.
    drop(std::fs::remove_dir_all(workspace.target_dir.join(SHIPPED_DIR)));
    let programs =
        build_with_profile(workspace, &host, SHIPPED_DIR, &format!("use={}", merged.display()))?;
    println!("built {}", programs.join("toolkeep").display());
    Ok(())
}

/// Returns the folder of the shipped programs.
///
/// # Errors
/// If one of them was not built.
pub(crate) fn shipped_dir(workspace: &Workspace) -> Result<PathBuf, String> {
    let folder = workspace.target_dir.join(SHIPPED_DIR).join(host_triple()?).join(SHIPPED_PROFILE);
    let complete = PROFILED_PACKAGES.iter().all(|package| folder.join(package).is_file());
    if complete { Ok(folder) } else { Err("run `cargo xtask release` first".to_owned()) }
}

/// Builds a package of the workspace as `cargo build --release` does.
///
/// # Errors
/// If the build fails.
pub(crate) fn build_plain(workspace: &Workspace, package: &str) -> Result<(), String> {
    build_package(workspace, package, PLAIN_PROFILE, |_| {})
}

/// Builds [`PROFILED_PACKAGES`] with an additional flag for hot crates, and returns their folder.
/// The host target is explicit, so that build scripts are built without the flag. Each package is
/// built separately, so that none gets the features of the other.
fn build_with_profile(
    workspace: &Workspace,
    host: &str,
    folder: &str,
    flag: &str,
) -> Result<PathBuf, String> {
    let target = workspace.target_dir.join(folder);
    let own_program = std::env::current_exe().map_err(|error| format!("who am I: {error}"))?;
    let commit = source_commit(workspace);
    for package in PROFILED_PACKAGES {
        build_package(workspace, package, SHIPPED_PROFILE, |build| {
            build.args(["--target", host, "--target-dir"]).arg(&target);
            build.env(PROFILE_VARIABLE, "profile-guided");
            if let Some(commit) = &commit {
                build.env(COMMIT_VARIABLE, commit);
            }
            build
                .env("RUSTC_WRAPPER", &own_program)
                .env(FLAG_VARIABLE, format!("-Cprofile-{flag}"));
        })?;
    }
    Ok(target.join(host).join(SHIPPED_PROFILE))
}

/// Returns the commit to name in the program: the one that the variable names, else that of the
/// checkout, with `-modified` if files differ from it. Sources without a repository have none.
fn source_commit(workspace: &Workspace) -> Option<String> {
    let named = std::env::var(COMMIT_VARIABLE).ok().filter(|commit| !commit.is_empty());
    named.or_else(|| {
        let mut git = Command::new("git");
        // No tag matches, so that the commit itself is printed.
        git.args(["describe", "--always", "--abbrev=40", "--dirty=-modified", "--exclude=*"]);
        run_for_output(git.current_dir(&workspace.root_dir)).ok()
    })
}

fn build_package(
    workspace: &Workspace,
    package: &str,
    profile: &str,
    more: impl FnOnce(&mut Command),
) -> Result<(), String> {
    let mut build = Command::new(cargo_program());
    build.args(["build", "--profile", profile, "--locked", "--package", package]);
    more(&mut build);
    let output = run_visible(build.current_dir(&workspace.root_dir))?;
    if output.status.success() { Ok(()) } else { Err(format!("{package} does not build")) }
}

/// Finds the compiler's own `llvm-profdata`, or installs it with rustup.
fn find_profdata(host: &str) -> Result<PathBuf, String> {
    let root = run_for_output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let profdata_path = Path::new(&root).join("lib/rustlib").join(host).join("bin/llvm-profdata");
    if !profdata_path.is_file() {
        println!("installing llvm-tools: what sums profiles up comes with it");
        run_visible(Command::new("rustup").args(["component", "add", "llvm-tools"]))?;
    }
    if profdata_path.is_file() {
        return Ok(profdata_path);
    }
    Err("there is no `llvm-profdata` of this compiler; `rustup component add llvm-tools`"
        .to_owned())
}

fn host_triple() -> Result<String, String> {
    let version_text = run_for_output(Command::new("rustc").arg("-vV"))?;
    let host = version_text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc does not say for what it builds".to_owned())
}

/// Runs rustc if cargo started this program as its wrapper; does not return then.
pub(crate) fn run_as_rustc() -> Option<ExitCode> {
    let flag = std::env::var_os(FLAG_VARIABLE)?;
    let mut args = std::env::args_os().skip(1);
    let mut rustc = Command::new(args.next()?);
    let words: Vec<OsString> = args.collect();
    if is_hot_crate(&words) {
        rustc.arg(flag);
    }
    let error = rustc.args(words).exec();
    println!("rustc does not start: {error}");
    Some(ExitCode::FAILURE)
}

/// Returns whether rustc compiles a hot crate for the target, not for a build script.
fn is_hot_crate(args: &[OsString]) -> bool {
    let behind = |word: &str| {
        let at = args.iter().position(|one| one == word)?;
        args.get(at + 1)?.to_str()
    };
    behind("--target").is_some()
        && behind("--crate-name").is_some_and(|name| HOT_CRATES.split(' ').any(|hot| hot == name))
}

#[cfg(test)]
mod tests {
    use super::{COMMIT_VARIABLE, PROFILE_VARIABLE, is_hot_crate, source_commit};
    use crate::workspace::Workspace;

    #[test]
    fn the_program_reads_the_variables_of_the_build() {
        let workspace = Workspace::load_workspace().unwrap();
        let file = workspace.root_dir.join("crates/toolkeep/src/build_facts.rs");
        let text = std::fs::read_to_string(file).unwrap();
        for variable in [COMMIT_VARIABLE, PROFILE_VARIABLE] {
            assert!(text.contains(&format!("option_env!(\"{variable}\")")), "{variable}");
        }
        // Sources without a repository have no commit.
        if let Some(commit) = source_commit(&workspace) {
            let digits = commit.trim_end_matches("-modified");
            assert!(
                digits.len() == 40 && digits.bytes().all(|it| it.is_ascii_hexdigit()),
                "{commit}"
            );
        }
    }

    #[test]
    fn only_hot_crates_of_the_program_itself_have_a_profile() {
        let words = |text: &str| text.split(' ').map(Into::into).collect::<Vec<_>>();
        assert!(is_hot_crate(&words(
            "--crate-name h2 src/lib.rs --target x86_64-unknown-linux-gnu"
        )));
        assert!(!is_hot_crate(&words("--crate-name h2 src/lib.rs")), "of what builds");
        assert!(!is_hot_crate(&words(
            "--crate-name symplex src/lib.rs --target x86_64-unknown-linux-gnu"
        )));
    }
}
