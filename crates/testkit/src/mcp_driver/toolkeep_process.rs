//! A Toolkeep process with one source, in its own directory.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::toolkeep_client::ToolkeepClient;

/// Timeout for start and stop.
const START_TIMEOUT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// The name of the source.
pub(super) const SOURCE_NAME: &str = "it";

pub(super) struct ToolkeepProcess {
    child: Child,
    folder: PathBuf,
    program: String,
}

impl ToolkeepProcess {
    /// Starts a process whose source is the MCP server at `url`.
    #[expect(clippy::disallowed_methods, reason = "a person's place, outside of Toolkeep")]
    pub(super) fn start_process(program: &str, url: &str, context: &Value) -> Result<Self, String> {
        let folder = std::env::temp_dir().join(format!("toolkeep-driver-{}", Uuid::new_v4()));
        fs::create_dir_all(&folder).map_err(error_text)?;
        let mut mcp = json!({ "url": url });
        if let Some(oauth) = super::oauth_steps::oauth_settings(context, &folder)? {
            mcp["oauth"] = oauth;
        }
        let config = json!({ "version": 1, "sources": [{ "name": SOURCE_NAME, "mcp": mcp }] });
        fs::write(folder.join("toolkeep.yaml"), config.to_string()).map_err(error_text)?;
        let log = File::create(folder.join("log.txt")).map_err(error_text)?;
        let mut command = Command::new(program);
        command.arg("serve").arg("--data").arg(folder.join("data"));
        command.arg("--config").arg(folder.join("toolkeep.yaml"));
        command.args(["--listen", "127.0.0.1:0"]).stdin(Stdio::null());
        command.stdout(log.try_clone().map_err(error_text)?).stderr(log);
        let child = command.spawn().map_err(error_text)?;
        Ok(Self { child, folder, program: program.to_owned() })
    }

    /// Reads the owner key from the data directory.
    pub(super) fn owner_key(&self) -> String {
        let key = fs::read_to_string(self.folder.join("data/owner.key"));
        key.unwrap_or_default().trim().to_owned()
    }

    /// A CLI command of the operator of this process.
    #[expect(clippy::disallowed_methods, reason = "a person's place, outside of Toolkeep")]
    pub(super) fn operator_command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).arg("--data").arg(self.folder.join("data"));
        command.arg("--config").arg(self.folder.join("toolkeep.yaml")).stdin(Stdio::null());
        command
    }

    /// Connects a client after the source was listed or failed.
    pub(super) async fn connect_client(&self) -> Result<ToolkeepClient, String> {
        let ready = timeout(START_TIMEOUT, async {
            loop {
                if let Some(door) = self.try_connect().await {
                    break door;
                }
                sleep(POLL_INTERVAL).await;
            }
        });
        ready.await.map_err(|_| "Toolkeep does not get ready".to_owned())
    }

    async fn try_connect(&self) -> Option<ToolkeepClient> {
        let read = |name: &str| fs::read_to_string(self.folder.join("data").join(name)).ok();
        let running: Value = serde_json::from_str(&read("server.json")?).ok()?;
        let address = running["address"].as_str()?.to_owned();
        let owner = ToolkeepClient::new(address.clone(), read("owner.key")?.trim());
        let sources = owner.get_json("/v1/sources").await.ok()?;
        let mut states = sources["sources"].as_array()?.iter();
        let listed = states.any(|it| it["name"] == SOURCE_NAME && it["state"] != "starting");
        listed.then(|| ToolkeepClient::new(address, read("agent.key").unwrap_or_default().trim()))
    }

    /// Stops the process; returns the end of its output.
    pub(super) async fn stop_process(mut self) -> String {
        let _sent = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let ended = timeout(START_TIMEOUT, async {
            while matches!(self.child.try_wait(), Ok(None)) {
                sleep(POLL_INTERVAL).await;
            }
        });
        if ended.await.is_err() {
            drop(self.child.kill());
            drop(self.child.wait());
        }
        let said = fs::read_to_string(self.folder.join("log.txt")).unwrap_or_default();
        drop(fs::remove_dir_all(&self.folder));
        let lines: Vec<&str> = said.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

fn error_text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
