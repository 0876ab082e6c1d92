//! Connection of a command to a server, and waiting for the server's sources.

use std::pin::pin;
use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::background_server::{ClientLock as Presence, wait_until_listed};
use super::command_error::{CommandError, ExitStatus, pluralize};
use super::data_dir::DataDir;
use super::json_fields;
use super::printer::Printer;
use super::rest_client::{RequestPath, RestClient};
use super::server_launcher::RunningServer;
use super::server_transport::SourceNeed;

/// Help of an error for want of a server.
pub const START_SERVER: &str = "start a server with `toolkeep serve`";

/// Timeout for a background server that is listing its sources.
const JOINED_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for a background server, for commands that print lists.
const LIST_TIMEOUT: Duration = Duration::from_millis(500);
/// Time after which a command reports what it is waiting for.
const NOTICE_DELAY: Duration = Duration::from_secs(1);
/// Maximum number of sources named in a note.
const MAX_NAMED_SOURCES: usize = 10;

/// A connection to a server. A server in this process stops with [`ServerConnection::close`].
#[expect(missing_debug_implementations, reason = "a server that runs has none")]
pub struct ServerConnection {
    /// The client of the server.
    pub client: RestClient,
    kind: ConnectionKind,
    /// The timeout for sources that the user specified.
    source_timeout: Option<Duration>,
}

/// The kind of server that a command is connected to.
pub(crate) enum ConnectionKind {
    /// A server whose address is known, or that the transport finds itself.
    Named,
    /// The server that holds the data directory. A background server runs as long as it has
    /// clients.
    Joined { data: DataDir, pid: u32, _presence: Option<Presence> },
    /// A server in this process, and the token that stops it.
    Embedded { stop: CancellationToken, running: Box<RunningServer> },
}

impl ServerConnection {
    pub(crate) fn new(
        client: RestClient,
        kind: ConnectionKind,
        source_timeout: Option<Duration>,
    ) -> Self {
        Self { client, kind, source_timeout }
    }

    /// Returns the connection if other processes use the server. One in this process would lock the
    /// data directory, and keep out everyone that the command waits for.
    ///
    /// # Errors
    /// `why` with `help` if no server is running.
    pub async fn require_running(self, why: &str, help: &str) -> Result<Self, CommandError> {
        if !matches!(self.kind, ConnectionKind::Embedded { .. }) {
            return Ok(self);
        }
        self.close().await?;
        Err(CommandError::new(ExitStatus::ServerUnavailable, why).with_help(help))
    }

    /// Waits for the sources that a request needs on a freshly started server. Names them if that
    /// takes long.
    pub async fn wait_for_sources(&self, need: SourceNeed<'_>, ui: &mut Printer) {
        let mut wait = pin!(self.wait_silently(need));
        if timeout(NOTICE_DELAY, &mut wait).await.is_err() {
            let starting = self.starting_sources().await;
            if !starting.is_empty() {
                ui.print_note(&format!(
                    "waiting for sources that have not answered yet: {}\n  help: set the time to \
                     wait with `--source-timeout TIME`",
                    join_names(&starting)
                ));
            }
            wait.await;
        }
    }

    /// Waits briefly for all sources or the named one before a list, and reports which are omitted.
    pub async fn wait_for_listing(&self, only: Option<&str>, ui: &mut Printer) {
        match only {
            Some(source) => self.wait_for_sources(SourceNeed::Source(source), ui).await,
            None => self.wait_silently(SourceNeed::List).await,
        }
        let mut starting = self.starting_sources().await;
        starting.retain(|source| only.is_none_or(|only| source == only));
        if !starting.is_empty() {
            ui.print_note(&self.omission_note(&starting));
        }
    }

    async fn wait_silently(&self, need: SourceNeed<'_>) {
        match &self.kind {
            ConnectionKind::Joined { data, pid, .. } => {
                let usual = if need == SourceNeed::List { LIST_TIMEOUT } else { JOINED_TIMEOUT };
                let limit = self.source_timeout.unwrap_or(usual);
                drop(timeout(limit, wait_until_listed(data, *pid)).await);
            }
            ConnectionKind::Named | ConnectionKind::Embedded { .. } => {
                self.client.wait_for_sources(need, self.source_timeout).await;
            }
        }
    }

    /// The sources that are not listed yet, as far as the key may see them.
    async fn starting_sources(&self) -> Vec<String> {
        let Ok(answer) =
            self.client.get_json(&RequestPath::from_segments("/v1/sources", &[])).await
        else {
            return Vec::new();
        };
        let all = json_fields::field_items(&answer, "sources").iter();
        let starting =
            all.filter(|source| source.get("state").and_then(Value::as_str) == Some("starting"));
        starting.map(|source| json_fields::field_line(source, "name", 64)).collect()
    }

    fn omission_note(&self, starting: &[String]) -> String {
        let advice = match self.kind {
            ConnectionKind::Embedded { .. } => {
                "wait longer with `--source-timeout 30s`, or start a server with `toolkeep serve`, \
                 which keeps them ready"
            }
            ConnectionKind::Named | ConnectionKind::Joined { .. } => {
                "list again later; `toolkeep source list` shows the state of the sources"
            }
        };
        let (count, names) = (starting.len(), join_names(starting));
        let sources = pluralize(count, "source");
        let (has, is) = if count == 1 { ("has", "is") } else { ("have", "are") };
        format!(
            "{count} {sources} {has} not answered yet and {is} omitted: {names}\n  help: \
                 {advice}"
        )
    }

    /// Closes the connection. A server in this process is stopped, and its children are awaited.
    pub async fn close(self) -> Result<(), CommandError> {
        match self.kind {
            ConnectionKind::Embedded { stop, running } => {
                stop.cancel();
                running.completion.await
            }
            ConnectionKind::Named | ConnectionKind::Joined { .. } => Ok(()),
        }
    }
}

fn join_names(sources: &[String]) -> String {
    let shown: Vec<_> =
        sources.iter().take(MAX_NAMED_SOURCES).map(|name| format!("`{name}`")).collect();
    match sources.len().saturating_sub(shown.len()) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
