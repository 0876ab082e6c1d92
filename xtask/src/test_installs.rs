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
//! npm-apps/node_modules/         the MCP Apps SDK for Node
//! npm-inspector/node_modules/    the MCP inspector
//! venv-mcp/bin/python            Python with the MCP SDK
//! venv-fastmcp/bin/python        Python with another MCP SDK
//! venv-time/bin/mcp-server-time  a Python server, in an environment of its own
//! debian-root.tar                the smallest Debian system, of `debian_root`
//! venv-packaging/bin/twine       what builds and checks Python packages
//! npm-mongodb/, venv-redis/ ...  the same for every other server
//! ```
//!
//! It starts nothing: a test that needs a database or a browser starts its own. If a Debian package
//! is unavailable, a message says so, and the tests that need it fail.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::{self, JoinHandle};

use crate::child_processes::{run_quiet, run_visible};
use crate::debian_root;
use crate::kubernetes_server;
use crate::pinned_versions::{
    DEBIAN_PACKAGES, NODE, NPM_PACKAGES, PACKAGING_VENV, PEER_VENVS, PYTHON_VENVS,
};
use crate::test_runner::retry_install;
use crate::workspace::{Workspace, file_error};

/// Installed programs of the real tests.
pub(crate) struct InstalledPrograms {
    /// The folder, absolute.
    pub(crate) folder: PathBuf,
    /// Programs installed by this run; empty if all were present.
    pub(crate) installed: Vec<String>,
}

/// Installations that go on while the tests are built: they wait for the network, compilers do not.
pub(crate) struct BackgroundInstalls(JoinHandle<InstallResults>);

/// Results of all installations.
pub(crate) struct InstallResults {
    /// The programs, or why they are incomplete.
    pub(crate) programs: Result<InstalledPrograms, String>,
    /// What was built as API server of Kubernetes, or why there is none.
    pub(crate) api_server: Result<Option<String>, String>,
}

/// Starts the installation of all missing programs.
pub(crate) fn start_installs(workspace: &Workspace) -> BackgroundInstalls {
    let target_dir = workspace.target_dir.clone();
    BackgroundInstalls(thread::spawn(move || {
        // One after the other: apt has one lock.
        let programs = install_missing(&target_dir);
        InstallResults { programs, api_server: kubernetes_server::ensure_built(&target_dir) }
    }))
}

impl BackgroundInstalls {
    /// Waits for the end of all installations.
    pub(crate) fn wait_until_ready(self) -> InstallResults {
        let message = "the installation ended without a result";
        self.0.join().unwrap_or_else(|_| InstallResults {
            programs: Err(message.to_owned()),
            api_server: Err(message.to_owned()),
        })
    }
}

/// `cargo xtask provision`: installs the programs and prints their path.
pub(crate) fn run_task(workspace: &Workspace) -> Result<(), String> {
    let results = start_installs(workspace).wait_until_ready();
    println!("TOOLKEEP_REAL={}", results.programs?.folder.display());
    results.api_server.map(|_| ()).map_err(|why| format!("no Kubernetes API server: {why}"))
}

/// Installs the missing programs below `target_dir`. A second run only reads the stamp.
pub(crate) fn install_missing(target_dir: &Path) -> Result<InstalledPrograms, String> {
    let folder = target_dir.join("real");
    fs::create_dir_all(&folder).map_err(|e| file_error(&folder, &e))?;
    let lock = File::create(folder.join("lock")).map_err(|e| file_error(&folder, &e))?;
    lock.lock().map_err(|e| file_error(&folder, &e))?;
    let (stamp, pins) = (folder.join("stamp"), pinned_text());
    let mut installed = install_programs();
    match debian_root::install_archive(&folder) {
        Ok(new) => installed.extend(new),
        Err(why) => println!("no root of Debian ({why}): the tests that need it will fail"),
    }
    if fs::read_to_string(&stamp).is_ok_and(|found| found == pins)
        && missing_file(&folder).is_none()
    {
        return Ok(InstalledPrograms { folder, installed });
    }
    drop(fs::remove_file(&stamp));
    installed.extend(install_runtimes()?);
    install_npm(&folder)?;
    install_python(&folder)?;
    if let Some(path) = missing_file(&folder) {
        return Err(format!("`{}` is missing after the installation", path.display()));
    }
    fs::write(&stamp, &pins).map_err(|e| file_error(&stamp, &e))?;
    installed.extend(pins.lines().map(str::to_owned));
    Ok(InstalledPrograms { folder, installed })
}

fn pinned_text() -> String {
    let npm = NPM_PACKAGES.iter().flat_map(|(folder, packages)| {
        packages.iter().map(move |(name, version)| format!("npm {name}@{version} in {folder}\n"))
    });
    npm.chain(PYTHON_VENVS.iter().map(|(_, wanted, _)| format!("pip {}\n", wanted.join(" "))))
        .collect()
}

/// The first file that should be there and is not.
fn missing_file(folder: &Path) -> Option<PathBuf> {
    let npm = NPM_PACKAGES.iter().flat_map(|(part, packages)| {
        let modules = folder.join(part).join("node_modules");
        packages.iter().map(move |(name, _)| modules.join(name).join("package.json"))
    });
    let python = PYTHON_VENVS.iter().map(|(venv, _, file)| folder.join(venv).join(file));
    npm.chain(python).chain([folder.join("bin/node")]).find(|path| !path.exists())
}

/// Installs Debian's packages if the machine lacks npm or Python's venv.
fn install_runtimes() -> Result<Vec<String>, String> {
    let is_installed = |program: &str, args: &[&str]| {
        run_quiet(Command::new(program).args(args)).is_ok_and(|ended| ended.status.success())
    };
    let mut wanted = Vec::new();
    if !is_installed("npm", &["--version"]) {
        wanted.extend(["nodejs", "npm"]);
    }
    if !is_installed("python3", &["-c", "import venv, ensurepip"]) {
        wanted.extend(["python3", "python3-venv"]);
    }
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let list = wanted.join(" ");
    println!("installing {list} with apt-get: this machine has none");
    install_debian(&wanted).map_err(|why| {
        format!(
            "the real tests need {list}, which could not be installed: {why}; install them by hand \
             (on Debian: apt-get install {list}) or run `cargo xtask test --hermetic`"
        )
    })?;
    Ok(vec![format!("apt {list}")])
}

/// Returns the packages of programs that are not on the search path.
pub(crate) fn missing_packages<'a>(programs: &[(&str, &'a str)]) -> Vec<&'a str> {
    programs
        .iter()
        .filter(|(program, _)| !has_program(program))
        .map(|(_, package)| *package)
        .collect()
}

fn has_program(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|bin| bin.join(program).is_file())
}

/// Installs the programs that single servers need, if missing and available.
fn install_programs() -> Vec<String> {
    let mut installed = Vec::new();
    for (program, package) in DEBIAN_PACKAGES.iter().filter(|(program, _)| !has_program(program)) {
        println!("installing {package} with apt-get: this machine has no `{program}`");
        match install_debian(&[package]) {
            Ok(()) => installed.push(format!("apt {package}")),
            Err(why) => println!("no `{program}` ({why}): the tests that need it will fail"),
        }
    }
    installed
}

/// Installs packages of Debian.
pub(crate) fn install_debian(packages: &[&str]) -> Result<(), String> {
    let root = rustix::process::geteuid().is_root();
    let sudo =
        || run_quiet(Command::new("sudo").args(["-n", "true"])).is_ok_and(|e| e.status.success());
    if !root && !sudo() {
        return Err("apt-get needs root, or sudo without a password".to_owned());
    }
    retry_install(&packages.join(" "), || {
        Ok(run_apt(&["update"])
            && run_apt(&[&["install", "-y", "--no-install-recommends"], packages].concat()))
    })
}

fn run_apt(args: &[&str]) -> bool {
    let root = rustix::process::geteuid().is_root();
    let mut command = Command::new(if root { "apt-get" } else { "sudo" });
    if !root {
        command.args(["-n", "apt-get"]);
    }
    run_visible(command.args(args).env("DEBIAN_FRONTEND", "noninteractive"))
        .is_ok_and(|e| e.status.success())
}

fn install_npm(folder: &Path) -> Result<(), String> {
    for (part, packages) in NPM_PACKAGES {
        install_npm_folder(&folder.join(part), packages)?;
    }
    let (bin, node) =
        (folder.join("bin"), folder.join("npm/node_modules").join(NODE.0).join("bin/node"));
    fs::create_dir_all(&bin).map_err(|e| file_error(&bin, &e))?;
    drop(fs::remove_file(bin.join("node")));
    std::os::unix::fs::symlink(&node, bin.join("node")).map_err(|e| file_error(&node, &e))
}

fn install_npm_folder(prefix: &Path, packages: &[(&str, &str)]) -> Result<(), String> {
    fs::create_dir_all(prefix).map_err(|e| file_error(prefix, &e))?;
    let packages: Vec<String> =
        packages.iter().map(|(name, version)| format!("{name}@{version}")).collect();
    retry_install(&packages.join(", "), || {
        let mut npm = Command::new("npm");
        // Prevents both from downloading a browser.
        npm.env("PUPPETEER_SKIP_DOWNLOAD", "1").env("PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD", "1");
        npm.args([
            "install",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "--no-save",
            "--prefix",
        ]);
        run_visible(npm.arg(prefix).args(&packages).current_dir(prefix)).map(|e| e.status.success())
    })
}

fn install_python(folder: &Path) -> Result<(), String> {
    PYTHON_VENVS.iter().try_for_each(|(venv, wanted, _)| create_venv(&folder.join(venv), wanted))
}

/// Installs missing gateways for the comparison, each in its own environment, and returns their
/// folder. Unavailable ones have no folder there.
pub(crate) fn install_peers(workspace: &Workspace) -> Result<PathBuf, String> {
    let folder = workspace.target_dir.join("real");
    fs::create_dir_all(&folder).map_err(|e| file_error(&folder, &e))?;
    let lock = File::create(folder.join("lock")).map_err(|e| file_error(&folder, &e))?;
    lock.lock().map_err(|e| file_error(&folder, &e))?;
    for (venv, wanted, file) in PEER_VENVS {
        let (home, pins) = (folder.join(venv), wanted.join(" "));
        let stamp = home.join("stamp");
        if fs::read_to_string(&stamp).is_ok_and(|found| found == pins) && home.join(file).exists() {
            continue;
        }
        println!("installing {pins}");
        let installed = create_venv(&home, wanted).and_then(|()| {
            let file = home.join(file);
            let missing = || format!("`{}` is missing after the installation", file.display());
            file.exists().then_some(()).ok_or_else(missing)
        });
        match installed {
            Ok(()) => fs::write(&stamp, &pins).map_err(|e| file_error(&stamp, &e))?,
            // The others are still measured, and the report names the missing one.
            Err(why) => {
                println!("{pins} cannot be had: {why}");
                drop(fs::remove_dir_all(&home));
            }
        }
    }
    Ok(folder)
}

/// Installs the Python tools that build and check packages, if missing, and returns their Python.
pub(crate) fn install_packaging_tools(workspace: &Workspace) -> Result<PathBuf, String> {
    let (name, wanted, file) = PACKAGING_VENV;
    let home = workspace.target_dir.join("real").join(name);
    if !home.join(file).exists() {
        println!("installing {}", wanted.join(" "));
        create_venv(&home, wanted)?;
    }
    Ok(home.join("bin/python"))
}

fn create_venv(home: &Path, wanted: &[&str]) -> Result<(), String> {
    retry_install(&wanted.join(" "), || {
        // Recreated, because packages of an earlier version could be imported too.
        drop(fs::remove_dir_all(home));
        let venv_output = run_quiet(Command::new("python3").args(["-m", "venv"]).arg(home))?;
        let mut pip = Command::new(home.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]);
        Ok(venv_output.status.success() && run_visible(pip.args(wanted))?.status.success())
    })
}
