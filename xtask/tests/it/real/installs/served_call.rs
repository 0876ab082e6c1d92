//! The first tool call of an installed program: a server started as users do, and a call to it.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::command_run::CommandRun;

/// Starts a server with `command`, which runs the program without arguments, and calls a tool with
/// the same command. Then ends the server by SIGTERM, which must end its process.
///
/// `data` is the data directory as the program sees it.
#[track_caller]
pub(crate) fn call_through_server(command: &dyn Fn() -> Command, data: &Path) {
    let mut server = StartedServer::start(
        command().arg("serve").arg("--data").arg(data).args(["--listen", "127.0.0.1:0"]),
    );
    expect_answer(command().arg("--data").arg(data).arg("--url").arg(&server.url));
    server.stop();
}

/// Calls the calculator with the arguments of `command` before, and checks the result.
#[track_caller]
pub(crate) fn expect_answer(command: &mut Command) {
    let printed =
        CommandRun::expect_success(command.args(["tool", "call", "calculator", "expression=6*7"]));
    assert_eq!(printed, "{\"expression\":\"6*7\",\"result\":42}\n");
}

/// A server that answers. Killed when dropped.
pub(crate) struct StartedServer {
    child: Child,
    /// Address of its interfaces.
    pub(crate) url: String,
}

impl StartedServer {
    /// Starts a server and waits for the line with its address.
    #[track_caller]
    pub(crate) fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let Some((_, url)) = line.trim().split_once(" listens on ") else {
            drop(child.kill());
            let output = child.wait_with_output().unwrap();
            panic!("`{line}` is no address: {}", String::from_utf8_lossy(&output.stderr));
        };
        // Read by nobody, but never full.
        let errors = child.stderr.take().unwrap();
        std::thread::spawn(move || BufReader::new(errors).lines().for_each(drop));
        Self { child, url: url.to_owned() }
    }

    /// Sends SIGTERM to the started process and waits until the server is gone.
    #[track_caller]
    pub(crate) fn stop(&mut self) {
        let send = |child: &Child| kill_process(Pid::from_child(child), Signal::TERM).unwrap();
        let status = self.stop_by(send);
        assert!(status.success(), "the server ended with {status}");
    }

    /// Stops the server with a signal that `send` sends, waits until it is gone, and returns how the
    /// started process ended.
    #[track_caller]
    pub(crate) fn stop_by(&mut self, send: impl FnOnce(&Child)) -> ExitStatus {
        send(&self.child);
        let status = self.child.wait().unwrap();
        let address = self.url.strip_prefix("http://").unwrap();
        for _ in 0..500 {
            if std::net::TcpStream::connect(address).is_err() {
                return status;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("something still listens on {address}");
    }
}

impl Drop for StartedServer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
