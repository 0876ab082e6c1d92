//! Waiting for the sources of a server that has just started.
//!
//! A request waits only for the sources it needs. If they are not known, a list waits a short time
//! for all sources, and a named tool waits for each source that may provide it.

use std::collections::BTreeSet;
use std::time::Duration;

use catalog::{Catalog, SourceState};
use intake::SourceSupervisor;
use programs::{matches_source, matches_tool};
use tokio::time::{Instant, timeout_at};

/// Longest wait for a source that a request needs.
const NEEDED_SOURCE_TIMEOUT: Duration = Duration::from_secs(35);
/// Longest wait for an overview of the sources.
const OVERVIEW_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest wait for a list. Together with the start and end of a command's own server it stays
/// below a second.
const LIST_TIMEOUT: Duration = Duration::from_millis(500);
/// Longest pause between two sources of an overview; later ones are not awaited.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// The sources that a request waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequiredSources {
    /// Sources that become ready without a long pause.
    Overview,
    /// Sources that become ready within a short time.
    List,
    /// Sources that may have tools of these names.
    Tools(BTreeSet<String>),
    /// Sources of the first names, and sources that may have tools of the second names.
    Sources(BTreeSet<String>, BTreeSet<String>),
    /// All sources of the server.
    All,
}

impl RequiredSources {
    /// Returns the longest wait if the request sets none.
    fn default_timeout(&self) -> Duration {
        match self {
            Self::Overview => OVERVIEW_TIMEOUT,
            Self::List => LIST_TIMEOUT,
            Self::Tools(_) | Self::Sources(..) | Self::All => NEEDED_SOURCE_TIMEOUT,
        }
    }

    /// Returns whether one of these sources is still starting.
    fn is_incomplete(&self, catalog: &Catalog) -> bool {
        let mut starting = starting_sources(catalog);
        match self {
            Self::Overview | Self::List | Self::All => starting.next().is_some(),
            Self::Tools(tools) => tools.iter().any(|name| may_still_offer(catalog, name)),
            Self::Sources(sources, tools) => {
                starting.any(|source| sources.contains(source))
                    || tools.iter().any(|name| may_still_offer(catalog, name))
            }
        }
    }
}

/// Waits until the awaited sources have listed their tools, up to `limit` or the default.
pub(crate) async fn wait_until_listed(
    supervisor: &SourceSupervisor,
    required: &RequiredSources,
    limit: Option<Duration>,
) {
    let mut versions = supervisor.subscribe_versions();
    let deadline = Instant::now() + limit.unwrap_or_else(|| required.default_timeout());
    let pauses = limit.is_none() && *required == RequiredSources::Overview;
    while required.is_incomplete(&supervisor.catalog()) {
        let next = if pauses { deadline.min(Instant::now() + MAX_PAUSE) } else { deadline };
        if !matches!(timeout_at(next, versions.changed()).await, Ok(Ok(()))) {
            return;
        }
    }
}

/// Returns whether a starting source may provide a tool of this name that no other source has. A
/// name with a source belongs to that source. Other names may belong to any source except an MCP
/// server, whose tools carry its name as prefix.
fn may_still_offer(catalog: &Catalog, name: &str) -> bool {
    let starting = || catalog.list_sources().filter(|shelf| shelf.state == SourceState::Starting);
    let is_there = || {
        catalog.find_tool(name).is_some()
            || catalog.list_tools().any(|entry| matches_tool(entry.name.as_str(), name))
    };
    if starting().next().is_none() || is_there() {
        return false;
    }
    if starting().any(|shelf| matches_source(shelf.source.as_str(), name)) {
        return true;
    }
    let source = name.split_once('.').map(|(source, _)| source);
    let is_of_listed = || catalog.list_sources().any(|shelf| Some(shelf.source.as_str()) == source);
    starting().any(|shelf| shelf.kind != "mcp") && !is_of_listed()
}

fn starting_sources(catalog: &Catalog) -> impl Iterator<Item = &str> {
    let starting = catalog.list_sources().filter(|shelf| shelf.state == SourceState::Starting);
    starting.map(|shelf| shelf.source.as_str())
}
