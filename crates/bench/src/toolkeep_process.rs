//! The measured Toolkeep process, started as a user does: configuration file, data directory, agent
//! key.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::target::HelperProcess;
use crate::timed_request::{ExpectedBody, TimedRequest};

/// Longest time until the upstream's tools are listed; valgrind makes this slow.
const READY_TIMEOUT: Duration = Duration::from_mins(2);
/// Interval between readiness checks.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// A running server, and the headers that a client must send.
pub(crate) struct ToolkeepServer {
    pub(crate) process: HelperProcess,
    pub(crate) headers: Vec<(String, String)>,
    /// Names under which the upstream's tools are listed.
    pub(crate) tools: Vec<String>,
}

impl ToolkeepServer {
    /// Starts the server in front of the MCP server at `upstream`, with its files in `folder`.
    pub(crate) async fn start_with_upstream(
        command: Command,
        upstream: SocketAddr,
        folder: &Path,
    ) -> Result<Self, String> {
        Self::start_with_config(command, &upstream_config(upstream), folder).await
    }

    /// Starts the same server with `server.http: standard`: hyper reads and writes every message.
    pub(crate) async fn start_with_standard_http(
        command: Command,
        upstream: SocketAddr,
        folder: &Path,
    ) -> Result<Self, String> {
        let configuration = upstream_config(upstream) + "server: { http: standard }\n";
        Self::start_with_config(command, &configuration, folder).await
    }

    /// Starts the server with a configuration whose source `bench` has a tool `echo`.
    pub(crate) async fn start_with_config(
        command: Command,
        configuration: &str,
        folder: &Path,
    ) -> Result<Self, String> {
        let toolkeep = Self::spawn_fresh(command, configuration, folder)?;
        toolkeep.retry_until(folder, Self::find_tools).await
    }

    /// Starts the server with an empty data directory, without waiting for it.
    pub(crate) fn spawn_fresh(
        command: Command,
        configuration: &str,
        folder: &Path,
    ) -> Result<Self, String> {
        let data = folder.join("data");
        drop(fs::remove_dir_all(&data));
        let failed = |e: std::io::Error| format!("`{}`: {e}", folder.display());
        fs::create_dir_all(&data).map_err(failed)?;
        Self::spawn_existing(command, configuration, folder)
    }

    /// Starts the server with an empty data directory and waits until it answers.
    pub(crate) async fn start_and_connect(
        command: Command,
        configuration: &str,
        folder: &Path,
    ) -> Result<Self, String> {
        Self::spawn_fresh(command, configuration, folder)?.wait_until_connected(folder).await
    }

    /// Waits until the server answers.
    pub(crate) async fn wait_until_connected(self, folder: &Path) -> Result<Self, String> {
        self.retry_until(folder, Self::connect_session).await
    }

    /// Retries an operation until it succeeds or the server fails to start.
    async fn retry_until(
        mut self,
        folder: &Path,
        attempt: impl AsyncFn(&mut Self, &Path) -> Result<(), String>,
    ) -> Result<Self, String> {
        let begun = Instant::now();
        while let Err(why) = attempt(&mut self, folder).await {
            if begun.elapsed() > READY_TIMEOUT || self.process.has_ended() {
                let log = fs::read_to_string(folder.join("toolkeep.log")).unwrap_or_default();
                return Err(format!("toolkeep does not get ready: {why}; it said:\n{log}"));
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
        Ok(self)
    }

    /// Starts the server with the existing data directory, without waiting for it.
    pub(crate) fn spawn_existing(
        mut command: Command,
        configuration: &str,
        folder: &Path,
    ) -> Result<Self, String> {
        let (config, data) = (folder.join("toolkeep.yaml"), folder.join("data"));
        let failed = |e: std::io::Error| format!("`{}`: {e}", folder.display());
        fs::write(&config, configuration).map_err(failed)?;
        let log = File::create(folder.join("toolkeep.log")).map_err(failed)?;
        let address = free_address().map_err(failed)?;
        command.arg("serve").arg("--config").arg(config).arg("--data").arg(&data);
        command.args(["--listen", &address.to_string()]);
        command.stdout(Stdio::from(log.try_clone().map_err(failed)?)).stderr(Stdio::from(log));
        Ok(Self {
            process: HelperProcess::spawn_at(&mut command, address)?,
            headers: Vec::new(),
            tools: Vec::new(),
        })
    }

    /// Reads the agent's key and opens an MCP session.
    pub(crate) async fn connect_session(&mut self, folder: &Path) -> Result<(), String> {
        let key = fs::read_to_string(folder.join("data/agent.key")).map_err(|e| e.to_string())?;
        let mut headers = vec![("authorization".to_owned(), format!("Bearer {}", key.trim()))];
        headers.extend(open_session(self.process.address, &headers).await?);
        self.headers = headers;
        Ok(())
    }

    /// Reads the key, opens a session and fetches the tool names; fails until `echo` is listed.
    async fn find_tools(&mut self, folder: &Path) -> Result<(), String> {
        self.connect_session(folder).await?;
        let headers = &self.headers;
        let list = TimedRequest::tool_list(self.process.address)
            .with_headers(headers)
            .send_once()
            .await?
            .parse_json()?;
        self.tools = tool_names(&list);
        self.tool_name("echo").map(drop)
    }

    /// Returns the listed name of the upstream's tool `name`.
    pub(crate) fn tool_name(&self, name: &str) -> Result<&str, String> {
        // With its source, because there is also a built-in `echo`.
        let offered = format!("{SOURCE_NAME}.{name}");
        let found = self.tools.iter().find(|shown| **shown == offered);
        found.map(String::as_str).ok_or_else(|| format!("`{name}` is not listed"))
    }
}

/// Name of the upstream source in the configuration.
pub(crate) const SOURCE_NAME: &str = "bench";

/// Builds a configuration with the upstream, which declares `echo` read-only but not
/// `echo_unknown`.
fn upstream_config(upstream: SocketAddr) -> String {
    format!(
        "version: 1\n\
         sources:\n\
         \x20 - name: {SOURCE_NAME}\n\
         \x20   mcp: {{ url: \"http://{upstream}/mcp\" }}\n\
         \x20   read_only: [echo]\n\
         limits: {{ calls: 1024, calls_per_key: 1024, calls_per_key_and_source: 1024 }}\n"
    )
}

/// Returns an unused local address.
pub(crate) fn free_address() -> std::io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// Performs the MCP handshake and returns the session header, if the server uses sessions.
async fn open_session(
    to: SocketAddr,
    headers: &[(String, String)],
) -> Result<Option<(String, String)>, String> {
    let client = json!({"name": "bench", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let answer = TimedRequest::from_json_rpc(to, &hello, ExpectedBody::Anything)
        .with_headers(headers)
        .send_once()
        .await?;
    let id = answer.headers.get("mcp-session-id").and_then(|id| id.to_str().ok());
    let session = id.map(|id| ("mcp-session-id".to_owned(), id.to_owned()));
    let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let done = TimedRequest::from_json_rpc(to, &done, ExpectedBody::Anything).with_headers(headers);
    done.with_headers(session.as_slice()).send_once().await?;
    Ok(session)
}

/// Returns the tool names of a `tools/list` response.
pub(crate) fn tool_names(list: &Value) -> Vec<String> {
    let tools = list.pointer("/result/tools").and_then(Value::as_array);
    let name = |tool: &Value| tool.get("name")?.as_str().map(str::to_owned);
    tools.into_iter().flatten().filter_map(name).collect()
}
