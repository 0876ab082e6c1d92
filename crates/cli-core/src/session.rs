//! A server that a command speaks to, and the sources that it waits for there.

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

/// How long a command waits for a server in the background that is listing its sources.
const JOINED: Duration = Duration::from_secs(10);
/// The same for a list.
const LIST: Duration = Duration::from_millis(500);
/// After so long a command says what it waits for.
const NOTICE: Duration = Duration::from_secs(1);
/// Sources that are named in a note.
const NAMED: usize = 10;

/// A server to speak to. One that this process started ends with [`Session::end`].
#[expect(missing_debug_implementations, reason = "a server that runs has none")]
pub struct Session {
    /// Speaks to it.
    pub client: Client,
    kind: Kind,
    /// How long sources are waited for, where the user says.
    source_timeout: Option<Duration>,
}

/// Whose server it is.
pub(crate) enum Kind {
    /// One whose address is known, or that the door itself finds.
    Named,
    /// The one that holds the data directory. One in the background stays for as long as it is used.
    Joined { data: DataDir, pid: u32, _presence: Option<Presence> },
    /// The server in this process, and what ends it.
    Own { stop: CancellationToken, running: Box<Running> },
}

impl Session {
    pub(crate) fn new(client: Client, kind: Kind, source_timeout: Option<Duration>) -> Self {
        Self { client, kind, source_timeout }
    }

    /// Whether the server is in this process, and nobody else can speak to it.
    pub fn is_own(&self) -> bool {
        matches!(self.kind, Kind::Own { .. })
    }

    /// Waits for the sources that a request needs, of a server that has just started. Where that takes long, says for
    /// which.
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

    /// Waits a short time for the sources of which something is listed, all of them or the one that is named, and says
    /// which are left out.
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

    /// Sources that have not been listed yet, as far as the key may see them.
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

    /// Ends the server, where it is this process's own, and waits until its children are gone.
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
