//! The binary under test as a process: started, awaited and ended by either signal.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde::Deserialize;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use super::installation::{Installation, log_tail};
use super::rest_client::Client;

/// The binary under test.
pub(crate) const TOOLKEEP: &str = env!("CARGO_BIN_EXE_toolkeep");
/// The longest that anything here may take; generous, since machines are shared.
pub(crate) const READY_LIMIT: Duration = Duration::from_mins(1);
/// Interval between two checks of a file.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The command line that serves a home. Nothing else knows how that is done.
fn command_line(home: &Installation) -> Vec<OsString> {
    let mut words: Vec<OsString> = [TOOLKEEP, "serve", "--data"].map(OsString::from).to_vec();
    words.push(home.data().into());
    words.push("--config".into());
    words.push(home.config().into());
    words.extend(["--listen", "127.0.0.1:0"].map(OsString::from));
    words
}

/// Description that the server returns once it responds.
#[derive(Debug, Deserialize)]
struct ServerProcess {
    address: SocketAddr,
    pid: u32,
}

/// A server that was started, and may not answer yet. Killed when dropped.
#[derive(Debug)]
pub(crate) struct StartingServer {
    child: Child,
    data: PathBuf,
    log: PathBuf,
    since: Instant,
}

/// A server that answers. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    /// Its data directory, as seen from here.
    pub(crate) data: PathBuf,
    log: PathBuf,
    pub(crate) url: String,
    pub(crate) pid: u32,
    since: Instant,
    /// From its start until it was ready.
    pub(crate) ready: Duration,
}

/// Starts a server in a home.
pub(crate) fn spawn_server(home: &Installation) -> StartingServer {
    spawn_under(home, &[])
}

/// Starts a server by another program, whose last argument the server's command line follows. It must
/// become the server, with the same process id.
pub(crate) fn spawn_under(home: &Installation, program: &[OsString]) -> StartingServer {
    let words: Vec<_> = program.iter().cloned().chain(command_line(home)).collect();
    let log = fs::File::options().create(true).append(true).open(home.log()).unwrap();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).kill_on_drop(true);
    command.stdout(log.try_clone().unwrap()).stderr(log);
    let since = Instant::now();
    let child = command.spawn().unwrap();
    StartingServer { child, data: home.data(), log: home.log(), since }
}

/// Starts a server in a home and waits until it is ready and has listed every source.
pub(crate) async fn start_server(home: &Installation) -> Server {
    spawn_server(home).wait_until_ready().await.wait_for_sources().await
}

impl StartingServer {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// The data directory lies elsewhere for us than for the server.
    pub(crate) fn with_data_dir(mut self, data: PathBuf) -> Self {
        self.data = data;
        self
    }

    /// Ends it at once, however far it came.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Waits until it answers that it is ready.
    pub(crate) async fn wait_until_ready(mut self) -> Server {
        let pid = self.pid();
        let url = timeout(READY_LIMIT, async {
            loop {
                if let Some(status) = self.child.try_wait().unwrap() {
                    panic!("the server ended with {status}:\n{}", log_tail(&self.log));
                }
                let text = fs::read_to_string(self.data.join("server.json")).unwrap_or_default();
                // One that was killed leaves its file behind, and never its process id.
                match serde_json::from_str::<ServerProcess>(&text) {
                    Ok(running) if running.pid == pid => {
                        break format!("http://{}", running.address);
                    }
                    _ => sleep(POLL_INTERVAL).await,
                }
            }
        });
        let url = url.await.unwrap_or_else(|_| panic!("no answer:\n{}", log_tail(&self.log)));
        let probe = Client::for_url(&url);
        while probe.try_get("/readyz").await.map(|reply| reply.status).ok() != Some(200) {
            assert!(self.since.elapsed() < READY_LIMIT, "never ready:\n{}", log_tail(&self.log));
            sleep(POLL_INTERVAL).await;
        }
        let Self { child, data, log, since } = self;
        Server { child, data, log, url, pid, since, ready: since.elapsed() }
    }
}

impl Server {
    /// Waits until every source was listed, or failed; counts as part of getting ready.
    pub(crate) async fn wait_for_sources(mut self) -> Self {
        let owner = self.owner();
        loop {
            let sources = owner.get("/v1/sources").await.body["sources"].take();
            let states: Vec<_> = sources.as_array().unwrap().iter().map(|s| &s["state"]).collect();
            if !states.iter().any(|state| *state == "starting") {
                break;
            }
            assert!(self.since.elapsed() < READY_LIMIT, "never listed: {sources}");
            sleep(POLL_INTERVAL).await;
        }
        self.ready = self.since.elapsed();
        self
    }

    /// A caller with the agent's key.
    pub(crate) fn agent(&self) -> Client {
        self.client("agent.key")
    }

    /// A caller with the owner's key.
    pub(crate) fn owner(&self) -> Client {
        self.client("owner.key")
    }

    /// The agent's key.
    pub(crate) fn agent_key(&self) -> String {
        self.key("agent.key")
    }

    fn client(&self, key: &str) -> Client {
        Client::for_url(&self.url).with_key(&self.key(key))
    }

    fn key(&self, name: &str) -> String {
        fs::read_to_string(self.data.join(name)).unwrap().trim().to_owned()
    }

    /// The end of its log.
    pub(crate) fn log_text(&self) -> String {
        log_tail(&self.log)
    }

    /// `kill -9`.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// SIGTERM; resolves when it has ended.
    pub(crate) async fn stop(mut self) -> ExitStatus {
        let pid = Pid::from_raw(self.pid.cast_signed()).unwrap();
        rustix::process::kill_process(pid, Signal::TERM).unwrap();
        let ended = timeout(READY_LIMIT, self.child.wait()).await;
        ended.unwrap_or_else(|_| panic!("does not stop:\n{}", log_tail(&self.log))).unwrap()
    }
}
