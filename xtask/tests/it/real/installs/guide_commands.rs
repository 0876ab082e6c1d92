//! Commands of README.md and the install guide, run as they stand: those that install or fetch the
//! program stand in tables, and each is run here or named with the reason why not.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use rustix::process::{Pid, Signal, kill_process_group};

use super::built_packages::{VERSION, built_packages, installed_file};
use super::command_run::{CommandRun, clean_command};
use super::debian_root::DebianRoot;
use super::file_server::FileServer;
use super::npm::start_registry;
use super::served_call::{StartedServer, expect_answer};

/// How a command of a page is tested.
enum CommandTest {
    /// It starts a server.
    Serve,
    /// It installs the program, which this program then runs.
    Install(&'static [&'static str]),
    /// It installs the program in a Debian system.
    InstallDebian,
    /// It is not run here.
    NotRun(&'static str),
}

/// Every command in the tables.
const COMMANDS: &[(&str, CommandTest)] = &[
    ("uvx toolkeep serve", CommandTest::Serve),
    ("pip install toolkeep", CommandTest::Install(&["toolkeep"])),
    ("npx toolkeep serve", CommandTest::Serve),
    ("npm install toolkeep", CommandTest::Install(&["npx", "toolkeep"])),
    ("apt install ./toolkeep_VERSION_amd64.deb", CommandTest::InstallDebian),
    ("brew install ./toolkeep.rb", CommandTest::NotRun("there is no Homebrew in Debian")),
    ("sh install.sh", CommandTest::Install(&[".local/bin/toolkeep"])),
    ("podman build -t toolkeep .", CommandTest::NotRun("`image_build` builds it by buildah")),
    (
        "cargo install --locked --path crates/toolkeep",
        CommandTest::NotRun("compiles for many minutes what the other tests run"),
    ),
];

/// Commands in the second column of the tables whose first column is `you have`.
fn page_commands(page: &str) -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = fs::read_to_string(root.join(page)).unwrap();
    let mut lines = text.lines().skip_while(|line| !line.starts_with("| you have |")).skip(2);
    let rows: Vec<&str> = lines.by_ref().take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() > 2, "{page} has no table of ways to install");
    let cells = rows.iter().map(|row| row.split('|').nth(2).unwrap());
    let words = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    // Names of files stand in the cells too.
    words.filter(|word| word.contains(' ')).map(str::to_owned).collect()
}

/// A home in which the commands find packages of this build, and nothing else.
struct UserHome {
    folder: tempfile::TempDir,
    registry: FileServer,
    archives: FileServer,
}

impl UserHome {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["work", "registry"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let venv = folder.path().join("venv");
        CommandRun::expect_success(Command::new("python3").args(["-m", "venv"]).arg(venv));
        fs::copy(built_packages().join("install.sh"), folder.path().join("work/install.sh"))
            .unwrap();
        let registry = start_registry(&folder.path().join("registry"));
        Self { folder, registry, archives: FileServer::of_folder(built_packages()) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A command that a shell of the user runs.
    fn shell(&self, line: &str) -> Command {
        let tools = ["bin/node", "venv-packaging/bin/uvx"].map(installed_file);
        let tools = tools.iter().map(|tool| tool.parent().unwrap().to_owned());
        let system = std::env::var_os("PATH").unwrap();
        // The environment is active, and its pip is the first.
        let path = std::iter::once(self.path("venv/bin")).chain(tools);
        let path = std::env::join_paths(path.chain(std::env::split_paths(&system))).unwrap();
        let mut shell = clean_command("sh");
        shell.args(["-c", line]).current_dir(self.path("work"));
        shell.env("PATH", path).env("HOME", self.folder.path());
        shell.env("TOOLKEEP_DATA", self.path("data")).env("TOOLKEEP_LISTEN", "127.0.0.1:0");
        shell.env("TOOLKEEP_BASE_URL", &self.archives.url);
        shell.env("PIP_NO_INDEX", "1").env("PIP_FIND_LINKS", built_packages());
        shell.env("UV_OFFLINE", "1").env("UV_FIND_LINKS", built_packages());
        shell.env("UV_NO_CONFIG", "1").env("UV_PYTHON_DOWNLOADS", "never");
        shell.env("UV_CACHE_DIR", self.path("uv-cache"));
        shell.env("npm_config_cache", self.path("npm-cache")).env("npm_config_yes", "true");
        shell.env("npm_config_registry", &self.registry.url);
        for name in ["update_notifier", "audit", "fund"] {
            shell.env(format!("npm_config_{name}"), "false");
        }
        shell
    }

    /// Starts the server of a command and calls a tool by the same command.
    fn serve(&self, line: &str) {
        let mut shell = self.shell(line);
        // A terminal sends Ctrl-C to the whole group.
        let mut server = StartedServer::start(shell.process_group(0));
        let program = line.strip_suffix(" serve").unwrap();
        let call = format!("exec {program} --url {} \"$@\"", server.url);
        expect_answer(self.shell(&call).arg("sh"));
        let interrupt = |child: &Child| kill_process_group(Pid::from_child(child), Signal::INT);
        let status = server.stop_by(|child| interrupt(child).unwrap());
        // npx ends by the signal that it got.
        let is_interrupted = status.signal() == Some(Signal::INT.as_raw());
        assert!(status.success() || is_interrupted, "`{line}` ended with {status}");
    }

    fn install(&self, line: &str, program: &[&str]) {
        CommandRun::expect_success(&mut self.shell(line));
        // A path is below the home.
        let program = match program {
            [path] if path.contains('/') => self.path(path).display().to_string(),
            words => words.join(" "),
        };
        expect_answer(self.shell(&format!("exec {program} \"$@\"")).arg("sh"));
    }
}

fn install_on_debian(line: &str) {
    let root = DebianRoot::unpack();
    let name = format!("toolkeep_{VERSION}-1_amd64.deb");
    root.copy_in(&built_packages().join(&name));
    let line = line.replace("VERSION", &format!("{VERSION}-1"));
    root.run("sh", &["-c", &format!("cd /tmp && {line}")]);
    expect_answer(root.command("toolkeep").args(["--data", "/tmp/data"]));
}

#[test]
fn the_commands_that_install_the_program_work_as_the_pages_write_them() {
    let guide = page_commands("docs/guide/install.md");
    let known: BTreeSet<String> = COMMANDS.iter().map(|(line, _)| (*line).to_owned()).collect();
    assert_eq!(guide, known);
    let readme = page_commands("README.md");
    assert!(readme.is_subset(&guide), "README.md has commands that the guide has not: {readme:?}");
    for (line, test) in COMMANDS {
        match test {
            CommandTest::Serve => UserHome::new().serve(line),
            CommandTest::Install(program) => UserHome::new().install(line, program),
            CommandTest::InstallDebian => install_on_debian(line),
            CommandTest::NotRun(reason) => println!("`{line}` is not run: {reason}"),
        }
    }
}

#[test]
fn a_command_that_finds_no_package_fails() {
    let home = UserHome::new();
    for line in
        ["uvx no-such-toolkeep serve", "pip install no-such-toolkeep", "npx no-such-toolkeep serve"]
    {
        let run = CommandRun::run(&mut home.shell(line));
        assert!(!run.is_success, "{line}: {run:?}");
    }
}
