//! Programs installed by `cargo xtask provision`: files of its directory, Debian's Redis, and Helm.

mod helm_chart;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub use helm_chart::render_chart;
use rustix::process::{Pid, Signal, kill_process};

/// The path of a file in the directory named by `TOOLKEEP_REAL`.
///
/// # Panics
/// Panics if nothing is installed: an untested feature proves nothing.
pub fn installed_file(path: &str) -> PathBuf {
    let folder = std::env::var_os("TOOLKEEP_REAL").expect(
        "TOOLKEEP_REAL names no folder of installed programs: run `cargo xtask provision`, set what it \
         prints, and run again; or leave these tests out: `-E 'not test(/^real::/)'`",
    );
    let path = PathBuf::from(folder).join(path);
    assert!(path.exists(), "{} is missing; run `cargo xtask provision`", path.display());
    path
}

/// A command that runs a script of playwright-core in Chromium. Its first arguments, after the script,
/// are the folder with `node_modules` and the browser; its standard streams are pipes.
///
/// # Panics
/// Panics without Chromium, Node.js or playwright-core.
pub fn browser_script(script: &Path) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let chromium = std::env::split_paths(&path).map(|folder| folder.join("chromium"));
    let chromium = chromium.into_iter().find(|path| path.is_file());
    let chromium = chromium.expect("Chromium, which `cargo xtask provision` installs as root");
    #[expect(clippy::disallowed_methods, reason = "a test starts programs")]
    let mut node = Command::new(installed_file("bin/node"));
    node.arg(script).arg(installed_file("npm-browser/node_modules")).arg(chromium);
    node.stdin(Stdio::piped()).stdout(Stdio::piped());
    node
}

/// A Redis process on loopback without persistence. Killed when dropped.
#[derive(Debug)]
pub struct RedisProcess {
    port: u16,
    /// The password; empty without authentication.
    password: String,
    child: Child,
}

impl RedisProcess {
    /// Starts a Redis without a password and waits until it is ready.
    pub fn start_process() -> Self {
        Self::with_password("")
    }

    /// Starts a Redis with this password and waits until it is ready.
    pub fn with_password(password: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
        let port = port.expect("a free port").port();
        let redis =
            Self { port, password: password.to_owned(), child: spawn_server(port, password) };
        redis.wait_until_ready();
        redis
    }

    /// The URL `redis://…` with the password, without a database.
    pub fn url(&self) -> String {
        let login =
            if self.password.is_empty() { String::new() } else { format!(":{}@", self.password) };
        format!("redis://{login}127.0.0.1:{}", self.port)
    }

    /// Kills the process without a shutdown.
    pub fn kill_process(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Restarts it, empty, on the same port, and waits until it is ready.
    pub fn restart_process(&mut self) {
        self.child = spawn_server(self.port, &self.password);
        self.wait_until_ready();
    }

    /// Sends a signal, for example to stop or continue it.
    pub fn send_signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    /// Runs `redis-cli` with these arguments and returns its output.
    pub fn run_cli(&self, args: &[&str]) -> String {
        #[expect(clippy::disallowed_methods, reason = "a test starts programs")]
        let mut cli = Command::new("redis-cli");
        cli.args(["-p", &self.port.to_string()]);
        if !self.password.is_empty() {
            cli.args(["--no-auth-warning", "-a", &self.password]);
        }
        let output = cli.args(args).output().expect("redis-cli of Debian's redis-tools");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn wait_until_ready(&self) {
        while self.run_cli(&["PING"]) != "PONG" {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for RedisProcess {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn spawn_server(port: u16, password: &str) -> Child {
    #[expect(clippy::disallowed_methods, reason = "a test starts programs")]
    let mut redis = Command::new("redis-server");
    redis.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
    redis.args(["--appendonly", "no", "--requirepass", password]);
    let redis = redis.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    redis.spawn().expect("redis-server: `cargo xtask provision` installs it")
}
