//! Installs the real servers, clients and suites that the tests in modules `real::`, `conformance::`
//! and `clients::` talk to.
//!
//! Everything goes into `<target>/real`, by the registries' ordinary clients, in the versions of
//! `pins`. Tests find it through `TOOLKEEP_REAL`:
//!
//! ```text
//! bin/node                       Node
//! bin/kube-apiserver             a Kubernetes API server, of `kubernetes`
//! npm/node_modules/<package>/    npm packages
//! conformance-0.1/node_modules/  the MCP suite, for revisions up to 2025-11-25
//! conformance-0.2/node_modules/  the MCP suite, for 2026-07-28 too
//! npm-sdk/node_modules/          the MCP SDK for Node
//! npm-inspector/node_modules/    the MCP inspector
//! venv-mcp/bin/python            Python with the MCP SDK
//! venv-fastmcp/bin/python        Python with another MCP SDK
//! venv-time/bin/mcp-server-time  a Python server, in an environment of its own
//! npm-mongodb/, venv-redis/ ...  the same for every other server
//! ```
//!
//! It starts nothing: a test that needs a database or a browser starts its own. Where one of Debian's
//! packages for that cannot be had, it says so and goes on; that test then fails.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::children::{quiet, shown};
use crate::kubernetes;
use crate::pins::{DEBIAN, NODE, NPM, PEERS, PYTHON};
use crate::tools::retry;
use crate::workspace::{Workspace, at};

/// What stands ready.
pub(crate) struct Real {
    /// The folder, absolute.
    pub(crate) folder: PathBuf,
    /// What this run installed; empty where all was there.
    pub(crate) installed: Vec<String>,
}

/// `cargo xtask provision`: installs, and says where.
pub(crate) fn show(workspace: &Workspace) -> Result<(), String> {
    let kubernetes = kubernetes::begin(workspace).ready();
    let real = run(workspace)?;
    println!("TOOLKEEP_REAL={}", real.folder.display());
    kubernetes.map(|_| ()).map_err(|why| format!("no Kubernetes API server: {why}"))
}

/// Installs what is missing. A second run only reads the stamp.
pub(crate) fn run(workspace: &Workspace) -> Result<Real, String> {
    let folder = workspace.target.join("real");
    fs::create_dir_all(&folder).map_err(|e| at(&folder, &e))?;
    let lock = File::create(folder.join("lock")).map_err(|e| at(&folder, &e))?;
    lock.lock().map_err(|e| at(&folder, &e))?;
    let (stamp, pins) = (folder.join("stamp"), pins());
    let mut installed = programs();
    if fs::read_to_string(&stamp).is_ok_and(|found| found == pins) && missing(&folder).is_none() {
        return Ok(Real { folder, installed });
    }
    drop(fs::remove_file(&stamp));
    installed.extend(machine()?);
    npm(&folder)?;
    python(&folder)?;
    if let Some(path) = missing(&folder) {
        return Err(format!("`{}` is missing after the installation", path.display()));
    }
    fs::write(&stamp, &pins).map_err(|e| at(&stamp, &e))?;
    installed.extend(pins.lines().map(str::to_owned));
    Ok(Real { folder, installed })
}

fn pins() -> String {
    let npm = NPM.iter().flat_map(|(folder, packages)| {
        packages.iter().map(move |(name, version)| format!("npm {name}@{version} in {folder}\n"))
    });
    npm.chain(PYTHON.iter().map(|(_, wanted, _)| format!("pip {}\n", wanted.join(" ")))).collect()
}

/// The first file that should be there and is not.
fn missing(folder: &Path) -> Option<PathBuf> {
    let npm = NPM.iter().flat_map(|(part, packages)| {
        let modules = folder.join(part).join("node_modules");
        packages.iter().map(move |(name, _)| modules.join(name).join("package.json"))
    });
    let python = PYTHON.iter().map(|(venv, _, file)| folder.join(venv).join(file));
    npm.chain(python).chain([folder.join("bin/node")]).find(|path| !path.exists())
}

/// Adds Debian's packages where the machine lacks npm or Python's venv.
fn machine() -> Result<Vec<String>, String> {
    let has = |program: &str, args: &[&str]| {
        quiet(Command::new(program).args(args)).is_ok_and(|ended| ended.status.success())
    };
    let mut wanted = Vec::new();
    if !has("npm", &["--version"]) {
        wanted.extend(["nodejs", "npm"]);
    }
    if !has("python3", &["-c", "import venv, ensurepip"]) {
        wanted.extend(["python3", "python3-venv"]);
    }
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let list = wanted.join(" ");
    println!("installing {list} with apt-get: this machine has none");
    debian(&wanted).map_err(|why| {
        format!(
            "the real tests need {list}, which could not be installed: {why}; install them by hand \
             (on Debian: apt-get install {list}) or run `cargo xtask test --hermetic`"
        )
    })?;
    Ok(vec![format!("apt {list}")])
}

/// The packages of those programs that are not on the search path.
pub(crate) fn lacking<'a>(programs: &[(&str, &'a str)]) -> Vec<&'a str> {
    programs.iter().filter(|(program, _)| !has(program)).map(|(_, package)| *package).collect()
}

fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|bin| bin.join(program).is_file())
}

/// Adds what single servers need, where the machine lacks it and it can be had.
fn programs() -> Vec<String> {
    let mut installed = Vec::new();
    for (program, package) in DEBIAN.iter().filter(|(program, _)| !has(program)) {
        println!("installing {package} with apt-get: this machine has no `{program}`");
        match debian(&[package]) {
            Ok(()) => installed.push(format!("apt {package}")),
            Err(why) => println!("no `{program}` ({why}): the tests that need it will fail"),
        }
    }
    installed
}

/// Installs packages of Debian.
pub(crate) fn debian(packages: &[&str]) -> Result<(), String> {
    let root = rustix::process::geteuid().is_root();
    let sudo =
        || quiet(Command::new("sudo").args(["-n", "true"])).is_ok_and(|e| e.status.success());
    if !root && !sudo() {
        return Err("apt-get needs root, or sudo without a password".to_owned());
    }
    retry(&packages.join(" "), || {
        Ok(apt(&["update"])
            && apt(&[&["install", "-y", "--no-install-recommends"], packages].concat()))
    })
}

fn apt(args: &[&str]) -> bool {
    let root = rustix::process::geteuid().is_root();
    let mut command = Command::new(if root { "apt-get" } else { "sudo" });
    if !root {
        command.args(["-n", "apt-get"]);
    }
    shown(command.args(args).env("DEBIAN_FRONTEND", "noninteractive"))
        .is_ok_and(|e| e.status.success())
}

fn npm(folder: &Path) -> Result<(), String> {
    for (part, packages) in NPM {
        npm_part(&folder.join(part), packages)?;
    }
    let (bin, node) =
        (folder.join("bin"), folder.join("npm/node_modules").join(NODE.0).join("bin/node"));
    fs::create_dir_all(&bin).map_err(|e| at(&bin, &e))?;
    drop(fs::remove_file(bin.join("node")));
    std::os::unix::fs::symlink(&node, bin.join("node")).map_err(|e| at(&node, &e))
}

fn npm_part(prefix: &Path, packages: &[(&str, &str)]) -> Result<(), String> {
    fs::create_dir_all(prefix).map_err(|e| at(prefix, &e))?;
    let packages: Vec<String> =
        packages.iter().map(|(name, version)| format!("{name}@{version}")).collect();
    retry(&packages.join(", "), || {
        let mut npm = Command::new("npm");
        // Neither downloads a browser beside its package.
        npm.env("PUPPETEER_SKIP_DOWNLOAD", "1").env("PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD", "1");
        npm.args([
            "install",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "--no-save",
            "--prefix",
        ]);
        shown(npm.arg(prefix).args(&packages).current_dir(prefix)).map(|e| e.status.success())
    })
}

fn python(folder: &Path) -> Result<(), String> {
    PYTHON.iter().try_for_each(|(venv, wanted, _)| environment(&folder.join(venv), wanted))
}

/// Installs the gateways that are measured beside ours, where they are missing, each in an environment of
/// its own; answers where. One that cannot be had has no folder there.
pub(crate) fn peers(workspace: &Workspace) -> Result<PathBuf, String> {
    let folder = workspace.target.join("real");
    fs::create_dir_all(&folder).map_err(|e| at(&folder, &e))?;
    let lock = File::create(folder.join("lock")).map_err(|e| at(&folder, &e))?;
    lock.lock().map_err(|e| at(&folder, &e))?;
    for (venv, wanted, file) in PEERS {
        let (home, pins) = (folder.join(venv), wanted.join(" "));
        let stamp = home.join("stamp");
        if fs::read_to_string(&stamp).is_ok_and(|found| found == pins) && home.join(file).exists() {
            continue;
        }
        println!("installing {pins}");
        let installed = environment(&home, wanted).and_then(|()| {
            let file = home.join(file);
            let missing = || format!("`{}` is missing after the installation", file.display());
            file.exists().then_some(()).ok_or_else(missing)
        });
        match installed {
            Ok(()) => fs::write(&stamp, &pins).map_err(|e| at(&stamp, &e))?,
            // The others are measured all the same, and the report says which one is not.
            Err(why) => {
                println!("{pins} cannot be had: {why}");
                drop(fs::remove_dir_all(&home));
            }
        }
    }
    Ok(folder)
}

fn environment(home: &Path, wanted: &[&str]) -> Result<(), String> {
    retry(&wanted.join(" "), || {
        // Made anew: what an earlier version left behind would answer imports too.
        drop(fs::remove_dir_all(home));
        let made = quiet(Command::new("python3").args(["-m", "venv"]).arg(home))?;
        let mut pip = Command::new(home.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]);
        Ok(made.status.success() && shown(pip.args(wanted))?.status.success())
    })
}
