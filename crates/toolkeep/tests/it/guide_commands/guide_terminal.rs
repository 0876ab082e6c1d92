//! A terminal for page commands: an empty folder, a shell and a server in the background.

use std::fs;
use std::path::PathBuf;
use std::process::{self, Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::guide_page::{PageCommand, fits};
use crate::real_support::{self, CommandOutput};
use crate::support::server_process::TOOLKEEP;

/// The address that pages speak of.
const SHOWN: &str = "127.0.0.1:8080";
/// The program, as a reader who compiled nothing else has it.
pub(super) const BY_CARGO: &str = "cargo run --release --";
/// The program of a wheel. A test of the packages runs the real command.
const BY_UVX: &str = "uvx toolkeep";
/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);
/// Maximum number of retries: more than a minute.
const LOOKS: usize = 1_200;

/// The windows, and all that was printed in the first.
pub(super) struct GuideTerminal {
    folder: TempDir,
    server: Option<Server>,
    pub(super) answers: Vec<String>,
}

struct Server {
    child: Child,
    /// Once it is known.
    address: Option<String>,
}

impl Server {
    /// The text with the address that it really has.
    fn real(&self, text: &str) -> String {
        text.replace(SHOWN, self.address.as_deref().unwrap_or(SHOWN))
    }
}

impl GuideTerminal {
    pub(super) fn new() -> Self {
        let terminal =
            Self { folder: tempfile::tempdir().unwrap(), server: None, answers: Vec::new() };
        for folder in ["bin", "home", "work"] {
            fs::create_dir(terminal.folder.path().join(folder)).unwrap();
        }
        let program = terminal.folder.path().join("bin/toolkeep");
        std::os::unix::fs::symlink(TOOLKEEP, program).unwrap();
        // Configurations of the pages name it; none of their commands starts it.
        let npx = terminal.folder.path().join("bin/npx");
        std::os::unix::fs::symlink("/bin/false", npx).unwrap();
        // A checkout from which pages copy files.
        std::os::unix::fs::symlink(super::root(), terminal.work().join("toolkeep")).unwrap();
        terminal
    }

    fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Saves a file in the folder that the newcomer is in.
    pub(super) fn save(&self, name: &str, text: &str) {
        fs::write(self.work().join(name), text).unwrap();
    }

    /// Runs a command, and compares its output.
    pub(super) fn run(&mut self, command: &PageCommand) {
        let line = command.line.replace(BY_CARGO, "toolkeep").replace(BY_UVX, "toolkeep");
        // Variables may precede it.
        let variables = line.starts_with(|c: char| c.is_ascii_uppercase());
        if line.starts_with("toolkeep serve") || variables && line.contains(" toolkeep serve") {
            self.serve(&line, command.prints.as_deref());
            return;
        }
        assert!(!line.starts_with("curl ") || has("curl"), "install curl: the guide uses it");
        // A watching server needs a moment; a retry is harmless.
        let is_look = line.starts_with("toolkeep") && line.contains(" list");
        let shown = self.real(command.prints.as_deref().unwrap_or("…"));
        let fails = shown.starts_with("error");
        let mut looks = if is_look { LOOKS } else { 1 };
        loop {
            // On a screen both outputs are one.
            let ran = CommandOutput::run_command(
                &mut self.shell(&format!("exec 2>&1\n{}", self.real(&line))),
            );
            if (ran.code == Some(0)) != fails && fits(&shown, &ran.out) {
                self.answers.push(ran.out);
                return;
            }
            looks -= 1;
            assert!(looks > 0, "`{line}` came to {ran:#?}\nand not to\n{shown}");
            std::thread::sleep(LOOK);
        }
    }

    /// In the other window: the server that ran there is ended as a person does it.
    fn serve(&mut self, line: &str, prints: Option<&str>) {
        self.end();
        let (out, err) = (self.folder.path().join("out"), self.folder.path().join("err"));
        let mut shell = self.shell(&format!("exec env {line}"));
        // A port of its own: that of the pages may be taken.
        shell.env("TOOLKEEP_LISTEN", "127.0.0.1:0").stdin(Stdio::null());
        shell.stdout(fs::File::create(&out).unwrap()).stderr(fs::File::create(&err).unwrap());
        let server = self.server.insert(Server { child: shell.spawn().unwrap(), address: None });
        let mut said = String::new();
        for _ in 0..LOOKS {
            assert!(server.child.try_wait().unwrap().is_none(), "`{line}` ended");
            said = fs::read_to_string(&out).unwrap_or_default();
            let address = said.split_once("http://").map(|(_, rest)| rest);
            server.address = address.and_then(|it| it.split_whitespace().next()).map(str::to_owned);
            if server.address.is_some() && fits(&server.real(prints.unwrap_or("…")), &said) {
                return self.try_what_it_advises(&said);
            }
            std::thread::sleep(LOOK);
        }
        let err = fs::read_to_string(err).unwrap_or_default();
        panic!("`{line}` printed\n{said}\nand not\n{prints:?}\n{err}");
    }

    /// The command that the server prints next must work unchanged.
    fn try_what_it_advises(&self, said: &str) {
        let advice = said.lines().skip_while(|line| !line.starts_with("Try in another")).nth(1);
        let advice = advice.unwrap_or_else(|| panic!("no advice in {said}"));
        let listed = CommandOutput::run_command(&mut self.shell(advice)).expect_success();
        assert!(listed.contains("calculator"), "{listed}");
    }

    /// Ctrl-C.
    fn end(&mut self) {
        let Some(mut server) = self.server.take() else { return };
        let pid = Pid::from_raw(server.child.id().cast_signed()).unwrap();
        kill_process(pid, Signal::INT).unwrap();
        let status = server.child.wait().unwrap();
        assert!(status.success(), "{status}");
    }

    /// Stops the process that a page started and left running; its process ID is in a file.
    fn end_what_pages_started(&self) {
        for entry in fs::read_dir(self.work()).into_iter().flatten().flatten() {
            let path = entry.path();
            let text = fs::read_to_string(&path).unwrap_or_default();
            let pid = text.trim().parse().ok().and_then(Pid::from_raw);
            if let Some(pid) = pid.filter(|_| path.extension().is_some_and(|it| it == "pid")) {
                let _ended = kill_process(pid, Signal::KILL);
            }
        }
    }

    /// The text with the address that the server really has.
    fn real(&self, text: &str) -> String {
        self.server.as_ref().map_or_else(|| text.to_owned(), |server| server.real(text))
    }

    fn shell(&self, line: &str) -> process::Command {
        let folder = self.folder.path();
        let mut path = folder.join("bin").into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut shell = real_support::test_command("sh");
        shell.args(["-c", line]).current_dir(self.work());
        shell.env("HOME", folder.join("home")).env_remove("XDG_DATA_HOME");
        // A machine on which much runs at once is slower than a newcomer's.
        shell.env("PATH", path).env("TOOLKEEP_SOURCE_TIMEOUT", "20s");
        shell
    }
}

impl Drop for GuideTerminal {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.end_what_pages_started();
            if let Some(server) = &mut self.server {
                let _ended = server.child.kill();
                let _status = server.child.wait();
            }
        } else {
            self.end();
        }
    }
}

fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}
