//! The port through which tools come.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Boxed, Executor, Item, Json, SourceName, ToolName, Wall};

/// Where tools come from: a tool file, an HTTP module, an MCP server, a node, the built-ins.
///
/// A source lists itself in its own time. It never panics for what came in, and a broken part of it
/// is a [`Problem`] beside the parts that work.
pub trait Source: Send + Sync + fmt::Debug {
    /// The name the operator gave it.
    fn name(&self) -> &SourceName;

    /// What it offers now.
    ///
    /// # Errors
    /// [`SourceError`] where nothing at all could be had; the catalog then keeps its last good listing.
    fn list(&self) -> Boxed<'_, Result<Listing, SourceError>>;

    /// Resolves when the revision is another than `seen`: level, not edge, so that no change is lost
    /// between two calls. A source that cannot tell never resolves.
    fn changed(&self, seen: Revision) -> Boxed<'_, Revision>;

    /// The longest that one listing may take, where this source says so: of one that may have to be started first.
    fn list_timeout(&self) -> Option<Duration> {
        None
    }

    /// Whether [`Source::changed`] also tells when it is worth listing again after a listing failed, as
    /// of a file that is mended. Others are listed again after a while.
    fn tells_when_mended(&self) -> bool {
        false
    }

    /// Whether a listing takes milliseconds and asks nothing outside of this machine. Where the configuration of such a
    /// source changes, the new one is listed before it takes the place of the old one, so that no tool is away meanwhile.
    fn lists_at_once(&self) -> bool {
        false
    }

    /// The operator asks for it: what is waited for before another try is forgotten, so that the next
    /// [`Source::list`] tries at once. Sources that wait for nothing need not do anything.
    fn refresh(&self) {}

    /// Where it lives, and whether it answers now; nothing of a source that has no address. Takes a few
    /// seconds at most.
    fn probe(&self) -> Boxed<'_, Option<Probe>> {
        Box::pin(std::future::ready(None))
    }

    /// Ends it. When this resolves, its children are gone.
    fn close(&self) -> Boxed<'_, ()>;

    /// The way to a person's consent, where this source may need one.
    fn consent(&self) -> Option<&dyn Consent> {
        None
    }
}

/// A person's consent to what a source does in their name: OAuth's authorization code. Both ends of it
/// are carried by whoever sits before the browser.
pub trait Consent: Send + Sync {
    /// Begins: the address that the person opens. `redirect` is where the answer will come, on this
    /// machine: `http://127.0.0.1:PORT/…`.
    ///
    /// # Errors
    /// [`Problem`] where nobody can be sent anywhere.
    fn begin<'a>(&'a self, redirect: &'a str) -> Boxed<'a, Result<String, Problem>>;

    /// Ends it, with the path and the query that the browser brought: `/callback/…?code=…`. The address
    /// that it was sent back to lies below `redirect`, one for each authorization server. Each answer is
    /// taken once.
    ///
    /// # Errors
    /// [`Problem`] where the answer is none that is expected, or was no consent.
    fn finish<'a>(&'a self, answer: &'a str) -> Boxed<'a, Result<(), Problem>>;

    /// Forgets what was given; answers whether there was anything.
    ///
    /// # Errors
    /// [`Problem`] where the store does not answer.
    fn forget(&self) -> Boxed<'_, Result<bool, Problem>>;
}

/// A source that was asked how it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Its URL, without user and password.
    pub url: String,
    /// What it said.
    pub health: Health,
}

/// How a source that was asked answers, in the words of spec 0's command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// As it should.
    Healthy,
    /// With this status of HTTP's.
    Unhealthy(u16),
    /// Not at all.
    Unreachable,
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Healthy => f.write_str("healthy"),
            Self::Unhealthy(status) => write!(f, "unhealthy ({status})"),
            Self::Unreachable => f.write_str("unreachable"),
        }
    }
}

/// Numbers the states of one source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// What a source offers at one revision.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// Of which revision.
    pub revision: Revision,
    /// In the source's own order.
    pub offers: Vec<Offer>,
    /// What could not be offered, and why.
    pub problems: Vec<Problem>,
    /// Since when this is only remembered, where the source itself is away.
    pub stale_since: Option<Wall>,
    /// What the source says of itself, in MCP's words: its `initialize` or `server/discover` result, as
    /// it came.
    pub about: Option<Json>,
    /// Second names of tools, each with the tool's own: they lead to it where nothing else has them.
    pub aliases: Vec<(ToolName, ToolName)>,
    /// Whether the operator trusts what the annotations of its tools say (MCP).
    pub trusted_annotations: bool,
}

/// An item and what runs it: shown and run are one value.
#[derive(Debug, Clone)]
pub struct Offer {
    /// What is shown.
    pub item: Item,
    /// What runs.
    pub executor: Arc<dyn Executor>,
}

/// Something that is wrong with a source, where, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The place: a file with line, a tool, a URL, a command.
    pub place: String,
    /// What is wrong.
    pub message: String,
    /// What to do, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Problem {
    /// A problem with no advice.
    pub fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into(), fix: None }
    }

    /// Adds what to do.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

/// Nothing could be had of a source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}", .problem.place, .problem.message)]
pub struct SourceError {
    /// What kind of fault.
    pub kind: SourceFault,
    /// The same in words.
    pub problem: Problem,
}

/// Kinds of faults of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceFault {
    /// No connection, no such file, no such command.
    Unreachable,
    /// It answered, but with a failure.
    Failed,
    /// It answered, but not in a form that can be read.
    Malformed,
    /// It did not answer in time.
    TimedOut,
    /// It ended by itself.
    Crashed,
    /// A guard refused to reach it.
    Blocked,
}

/// How far the operator trusts a source not to change its tools behind his back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// Changes are taken, pinned anew and recorded.
    Full,
    /// Taken at first sight; a change quarantines the tool.
    FirstUse,
    /// Nothing is active until someone with the right has looked at it.
    Review,
}
