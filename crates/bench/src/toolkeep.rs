//! Toolkeep itself, as a user starts it: a configuration file, a data directory, the agent's key.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::message::{Expect, Message};
use crate::target::Part;

/// How long it may take until it lists the tools behind it; under valgrind that is long.
const PATIENCE: Duration = Duration::from_mins(2);
/// Between two looks whether it is ready.
const AGAIN: Duration = Duration::from_millis(20);

/// A server that runs, and what a client must send along.
pub(crate) struct Toolkeep {
    pub(crate) part: Part,
    pub(crate) headers: Vec<(String, String)>,
    /// The names under which it shows the tools behind it.
    pub(crate) tools: Vec<String>,
}

impl Toolkeep {
    /// Starts the program of `command` in front of the MCP server at `upstream`, with its files in `folder`.
    pub(crate) async fn start(
        command: Command,
        upstream: SocketAddr,
        folder: &Path,
    ) -> Result<Self, String> {
        Self::with(command, &configuration(upstream), folder).await
    }

    /// Starts it with this configuration, in which a source named `bench` has a tool `echo`.
    pub(crate) async fn with(
        command: Command,
        configuration: &str,
        folder: &Path,
    ) -> Result<Self, String> {
        let toolkeep = Self::spawn(command, configuration, folder)?;
        toolkeep.once(folder, Self::ready).await
    }

    /// Starts it with this configuration and a new data directory, and waits for nothing.
    pub(crate) fn spawn(
        command: Command,
        configuration: &str,
        folder: &Path,
    ) -> Result<Self, String> {
        let data = folder.join("data");
        drop(fs::remove_dir_all(&data));
        let failed = |e: std::io::Error| format!("`{}`: {e}", folder.display());
        fs::create_dir_all(&data).map_err(failed)?;
        Self::upon(command, configuration, folder)
    }

    /// Starts it with this configuration and a new data directory, and waits until it answers.
    pub(crate) async fn greeted(
        command: Command,
        configuration: &str,
        folder: &Path,
    ) -> Result<Self, String> {
        Self::spawn(command, configuration, folder)?.answering(folder).await
    }

    /// Itself, once it answers.
    pub(crate) async fn answering(self, folder: &Path) -> Result<Self, String> {
        self.once(folder, Self::greet).await
    }

    /// Itself, once this goes well.
    async fn once(
        mut self,
        folder: &Path,
        goes_well: impl AsyncFn(&mut Self, &Path) -> Result<(), String>,
    ) -> Result<Self, String> {
        let begun = Instant::now();
        while let Err(why) = goes_well(&mut self, folder).await {
            if begun.elapsed() > PATIENCE || self.part.ended() {
                let said = fs::read_to_string(folder.join("toolkeep.log")).unwrap_or_default();
                return Err(format!("toolkeep does not get ready: {why}; it said:\n{said}"));
            }
            tokio::time::sleep(AGAIN).await;
        }
        Ok(self)
    }

    /// The same with the data directory that is there.
    pub(crate) fn upon(
        mut command: Command,
        configuration: &str,
        folder: &Path,
    ) -> Result<Self, String> {
        let (config, data) = (folder.join("toolkeep.yaml"), folder.join("data"));
        let failed = |e: std::io::Error| format!("`{}`: {e}", folder.display());
        fs::write(&config, configuration).map_err(failed)?;
        let log = File::create(folder.join("toolkeep.log")).map_err(failed)?;
        let address = free().map_err(failed)?;
        command.arg("serve").arg("--config").arg(config).arg("--data").arg(&data);
        command.args(["--listen", &address.to_string()]);
        command.stdout(Stdio::from(log.try_clone().map_err(failed)?)).stderr(Stdio::from(log));
        Ok(Self { part: Part::at(&mut command, address)?, headers: Vec::new(), tools: Vec::new() })
    }

    /// Takes up the key and a session.
    pub(crate) async fn greet(&mut self, folder: &Path) -> Result<(), String> {
        let key = fs::read_to_string(folder.join("data/agent.key")).map_err(|e| e.to_string())?;
        let mut headers = vec![("authorization".to_owned(), format!("Bearer {}", key.trim()))];
        headers.extend(session(self.part.address, &headers).await?);
        self.headers = headers;
        Ok(())
    }

    /// Takes up the key, the session and the names of the tools, as far as they are there.
    async fn ready(&mut self, folder: &Path) -> Result<(), String> {
        self.greet(folder).await?;
        let headers = &self.headers;
        let list = Message::list(self.part.address).with(headers).once().await?.json()?;
        self.tools = names(&list);
        self.named("echo").map(drop)
    }

    /// The name under which the tool `name` of the server behind is shown.
    pub(crate) fn named(&self, name: &str) -> Result<&str, String> {
        // With its source: there is a built-in `echo` too, which calls nothing.
        let offered = format!("{SOURCE}.{name}");
        let found = self.tools.iter().find(|shown| **shown == offered);
        found.map(String::as_str).ok_or_else(|| format!("`{name}` is not listed"))
    }
}

/// What the server behind is called in the configuration.
pub(crate) const SOURCE: &str = "bench";

/// The server behind, with the operator's word on `echo`; of `echo_unknown` nobody says a thing.
fn configuration(upstream: SocketAddr) -> String {
    format!(
        "version: 1\n\
         sources:\n\
         \x20 - name: {SOURCE}\n\
         \x20   mcp: {{ url: \"http://{upstream}/mcp\" }}\n\
         \x20   read_only: [echo]\n\
         limits: {{ calls: 1024, calls_per_key: 1024, calls_per_key_and_source: 1024 }}\n"
    )
}

/// An address that nobody has.
pub(crate) fn free() -> std::io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// Says hello; the session to name in what follows, where the server keeps one.
async fn session(
    to: SocketAddr,
    headers: &[(String, String)],
) -> Result<Option<(String, String)>, String> {
    let client = json!({"name": "bench", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let answer = Message::mcp(to, &hello, Expect::Anything).with(headers).once().await?;
    let id = answer.headers.get("mcp-session-id").and_then(|id| id.to_str().ok());
    let session = id.map(|id| ("mcp-session-id".to_owned(), id.to_owned()));
    let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let done = Message::mcp(to, &done, Expect::Anything).with(headers);
    done.with(session.as_slice()).once().await?;
    Ok(session)
}

/// The names in an answer to `tools/list`.
pub(crate) fn names(list: &Value) -> Vec<String> {
    let tools = list.pointer("/result/tools").and_then(Value::as_array);
    let name = |tool: &Value| tool.get("name")?.as_str().map(str::to_owned);
    tools.into_iter().flatten().filter_map(name).collect()
}
