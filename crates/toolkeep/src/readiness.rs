//! How long somebody waits for the sources of a server that has just started.
//!
//! Nobody waits for a source that it does not need. Where it is not known which one that is, a list waits a short
//! time for all, and a tool that is named for the source that might have it.

use std::collections::BTreeSet;
use std::time::Duration;

use catalog::{Catalog, State};
use intake::Intake;
use programs::{is_called, is_of_source};
use tokio::time::{Instant, timeout_at};

/// The longest that somebody waits for a source that is needed.
const NEEDED: Duration = Duration::from_secs(35);
/// The longest that a server waits for an overview.
const OVERVIEW: Duration = Duration::from_secs(5);
/// The longest that a command waits for a list. With the start of its own server, and the end, that is less than a
/// second.
const LIST: Duration = Duration::from_millis(500);
/// Sources after such a pause are late, for an overview.
const PAUSE: Duration = Duration::from_secs(1);

/// The sources that somebody waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// As many as come without a long pause.
    Overview,
    /// As many as come within a short time.
    List,
    /// Those that may have tools of these names.
    Tools(BTreeSet<String>),
    /// Those of these names, and those that may have tools of the others.
    Sources(BTreeSet<String>, BTreeSet<String>),
    /// All.
    All,
}

impl Wanted {
    /// How long is waited at most, where nobody says.
    fn limit(&self) -> Duration {
        match self {
            Self::Overview => OVERVIEW,
            Self::List => LIST,
            Self::Tools(_) | Self::Sources(..) | Self::All => NEEDED,
        }
    }

    /// Whether one of these sources has to be waited for still.
    fn lacks(&self, catalog: &Catalog) -> bool {
        let mut starting = starting(catalog);
        match self {
            Self::Overview | Self::List | Self::All => starting.next().is_some(),
            Self::Tools(tools) => tools.iter().any(|name| lacks_tool(catalog, name)),
            Self::Sources(sources, tools) => {
                starting.any(|source| sources.contains(source))
                    || tools.iter().any(|name| lacks_tool(catalog, name))
            }
        }
    }
}

/// Waits for what is wanted, up to `limit` or for the usual time.
pub(crate) async fn wait(intake: &Intake, wanted: &Wanted, limit: Option<Duration>) {
    let mut numbers = intake.numbers();
    let end = Instant::now() + limit.unwrap_or_else(|| wanted.limit());
    let pauses = limit.is_none() && *wanted == Wanted::Overview;
    while wanted.lacks(&intake.catalog()) {
        let next = if pauses { end.min(Instant::now() + PAUSE) } else { end };
        if !matches!(timeout_at(next, numbers.changed()).await, Ok(Ok(()))) {
            return;
        }
    }
}

/// Whether a source that is starting may have a tool of this name, which no other has. One that names a source is of
/// that one. Another may be of any source but an MCP server, whose tools have its name before theirs.
fn lacks_tool(catalog: &Catalog, name: &str) -> bool {
    let starting = || catalog.shelves().filter(|shelf| shelf.state == State::Starting);
    let is_there = || {
        catalog.find(name).is_some()
            || catalog.tools().any(|entry| is_called(entry.name.as_str(), name))
    };
    if starting().next().is_none() || is_there() {
        return false;
    }
    if starting().any(|shelf| is_of_source(shelf.source.as_str(), name)) {
        return true;
    }
    let source = name.split_once('.').map(|(source, _)| source);
    let is_of_listed = || catalog.shelves().any(|shelf| Some(shelf.source.as_str()) == source);
    starting().any(|shelf| shelf.kind != "mcp") && !is_of_listed()
}

fn starting(catalog: &Catalog) -> impl Iterator<Item = &str> {
    let starting = catalog.shelves().filter(|shelf| shelf.state == State::Starting);
    starting.map(|shelf| shelf.source.as_str())
}
