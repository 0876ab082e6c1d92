//! The connection of a command to a server, and the waiting for its sources.

use std::pin::pin;
use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::background::{Client as Presence, until_listed};
use super::client::{Client, Path};
use super::data::DataDir;
use super::door::SourceNeed;
use super::failure::{Failure, plural};
use super::ui::Ui;
use super::value;
use super::wiring::Running;

/// Timeout for a background server that is listing its sources.
const JOINED: Duration = Duration::from_secs(10);
/// Timeout for a background server, for commands that print lists.
const LIST: Duration = Duration::from_millis(500);
/// Time after which a command reports what it is waiting for.
const NOTICE: Duration = Duration::from_secs(1);
/// Maximum number of sources named in a note.
const NAMED: usize = 10;

/// A connection to a server. A server in this process stops with [`Session::end`].
#[expect(missing_debug_implementations, reason = "a server that runs has none")]
pub struct Session {
    /// The client of the server.
    pub client: Client,
    kind: Kind,
    /// The timeout for sources that the user specified.
    source_timeout: Option<Duration>,
}

/// The kind of server that a command is connected to.
pub(crate) enum Kind {
    /// A server whose address is known, or that the transport finds itself.
    Named,
    /// The server that holds the data directory. A background server runs as long as it has
    /// clients.
    Joined { data: DataDir, pid: u32, _presence: Option<Presence> },
    /// A server in this process, and the token that stops it.
    Own { stop: CancellationToken, running: Box<Running> },
}

impl Session {
    pub(crate) fn new(client: Client, kind: Kind, source_timeout: Option<Duration>) -> Self {
        Self { client, kind, source_timeout }
    }

    /// Whether the server runs in this process, where nobody else can reach it.
    pub fn is_own(&self) -> bool {
        matches!(self.kind, Kind::Own { .. })
    }

    /// Waits for the sources that a request needs on a freshly started server. Names them if that
    /// takes long.
    pub async fn sources(&self, need: SourceNeed<'_>, ui: &mut Ui) {
        let mut wait = pin!(self.wait(need));
        if timeout(NOTICE, &mut wait).await.is_err() {
            let starting = self.starting().await;
            if !starting.is_empty() {
                ui.note(&format!(
                    "waiting for sources that have not answered yet: {}\n  = `--source-timeout TIME` says how long",
                    names(&starting)
                ));
            }
            wait.await;
        }
    }

    /// Waits briefly for all sources or the named one before a list, and reports which are omitted.
    pub async fn list_sources(&self, only: Option<&str>, ui: &mut Ui) {
        match only {
            Some(source) => self.sources(SourceNeed::Source(source), ui).await,
            None => self.wait(SourceNeed::List).await,
        }
        let mut starting = self.starting().await;
        starting.retain(|source| only.is_none_or(|only| source == only));
        if !starting.is_empty() {
            ui.note(&self.left_out(&starting));
        }
    }

    async fn wait(&self, need: SourceNeed<'_>) {
        match &self.kind {
            Kind::Joined { data, pid, .. } => {
                let usual = if need == SourceNeed::List { LIST } else { JOINED };
                let limit = self.source_timeout.unwrap_or(usual);
                drop(timeout(limit, until_listed(data, *pid)).await);
            }
            Kind::Named | Kind::Own { .. } => self.client.sources(need, self.source_timeout).await,
        }
    }

    /// The sources that are not listed yet, as far as the key may see them.
    async fn starting(&self) -> Vec<String> {
        let Ok(answer) = self.client.get(&Path::new("/v1/sources", &[])).await else {
            return Vec::new();
        };
        let all = value::list(&answer, "sources").iter();
        let starting =
            all.filter(|source| source.get("state").and_then(Value::as_str) == Some("starting"));
        starting.map(|source| value::line(source, "name", 64)).collect()
    }

    fn left_out(&self, starting: &[String]) -> String {
        let advice = match self.kind {
            Kind::Own { .. } => {
                "wait longer with `--source-timeout 30s`, or start a server with `toolkeep serve`, \
                 which keeps them ready"
            }
            Kind::Named | Kind::Joined { .. } => {
                "list again later; `toolkeep source list` shows their state"
            }
        };
        let (count, names) = (starting.len(), names(starting));
        let sources = plural(count, "source");
        let (has, is) = if count == 1 { ("has", "is") } else { ("have", "are") };
        format!("{count} {sources} {has} not answered yet and {is} left out: {names}\n  = {advice}")
    }

    /// Closes the connection. A server in this process is stopped, and its children are awaited.
    pub async fn end(self) -> Result<(), Failure> {
        match self.kind {
            Kind::Own { stop, running } => {
                stop.cancel();
                running.ended.await
            }
            Kind::Named | Kind::Joined { .. } => Ok(()),
        }
    }
}

fn names(sources: &[String]) -> String {
    let shown: Vec<_> = sources.iter().take(NAMED).map(|name| format!("`{name}`")).collect();
    match sources.len().saturating_sub(shown.len()) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
