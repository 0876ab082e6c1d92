//! Defines the source port: the interface through which a source offers its tools.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{BoxFuture, CatalogItem, Executor, Json, SourceName, ToolName, WallTime};

/// Offers tools: a tool file, an HTTP module, an MCP server, a node or the built-ins.
///
/// A source decides when it lists itself. It never panics on untrusted input, and a broken part
/// becomes a [`Problem`] beside the parts that work.
pub trait Source: Send + Sync + fmt::Debug {
    /// Returns the name that the operator gave it.
    fn name(&self) -> &SourceName;

    /// Lists the offers of the source.
    ///
    /// # Errors
    /// [`SourceError`] if nothing could be listed; the catalog then keeps the last valid listing.
    fn list_offers(&self) -> BoxFuture<'_, Result<SourceListing, SourceError>>;

    /// Resolves when the revision differs from `seen`: level-triggered, so that no change is lost
    /// between two calls. A source that cannot detect changes never resolves.
    fn wait_for_change(&self, seen: SourceRevision) -> BoxFuture<'_, SourceRevision>;

    /// Returns the maximum duration of one listing, if the source sets one because it may have to
    /// be started first.
    fn list_timeout(&self) -> Option<Duration> {
        None
    }

    /// Returns true if [`Source::wait_for_change`] also resolves when a failed source may have recovered,
    /// for example after its file was edited. Other sources are listed again after a delay.
    fn notifies_recovery(&self) -> bool {
        false
    }

    /// Returns true if a listing takes milliseconds and needs nothing outside this machine. When
    /// its configuration changes, the new source is listed before it replaces the old one, so that
    /// no tool is missing meanwhile.
    fn is_listed_locally(&self) -> bool {
        false
    }

    /// Resets the retry delay at the operator's request, so that the next [`Source::list_offers`] tries at
    /// once. Sources without a delay need not do anything.
    fn reset_backoff(&self) {}

    /// Probes the source's address and health; `None` for a source without an address. Takes a few
    /// seconds at most.
    fn probe_health(&self) -> BoxFuture<'_, Option<ProbeResult>> {
        Box::pin(std::future::ready(None))
    }

    /// Shuts the source down. When this resolves, its child processes have ended.
    fn shut_down(&self) -> BoxFuture<'_, ()>;

    /// Returns the consent flow, if the source may need one.
    fn consent_flow(&self) -> Option<&dyn ConsentFlow> {
        None
    }
}

/// OAuth authorization code flow of a source, by which a person consents to access in their name.
/// The caller handles both ends in the browser.
pub trait ConsentFlow: Send + Sync {
    /// Starts the flow and returns the address that the person opens. `redirect` is where the
    /// response will arrive, on this machine: `http://127.0.0.1:PORT/…`.
    ///
    /// # Errors
    /// [`Problem`] if no authorization address is available.
    fn begin_consent<'a>(&'a self, redirect: &'a str) -> BoxFuture<'a, Result<String, Problem>>;

    /// Completes the flow with the path and query that the browser brought: `/callback/…?code=…`.
    /// The callback address lies below the redirect URI, one for each authorization server. Each
    /// response is accepted once.
    ///
    /// # Errors
    /// [`Problem`] if the response is unexpected, or consent was denied.
    fn finish_consent<'a>(&'a self, answer: &'a str) -> BoxFuture<'a, Result<(), Problem>>;

    /// Revokes the stored consent; returns false if there was none.
    ///
    /// # Errors
    /// [`Problem`] if the store does not respond.
    fn revoke_consent(&self) -> BoxFuture<'_, Result<bool, Problem>>;
}

/// Result of probing a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeResult {
    /// Its URL, without user and password.
    pub url: String,
    /// Health of the source.
    pub health: SourceHealth,
}

/// Health of a probed source, in the terms of the module API's command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceHealth {
    /// The source responds as expected.
    Healthy,
    /// Responds with this HTTP status.
    Unhealthy(u16),
    /// The source does not respond.
    Unreachable,
}

impl fmt::Display for SourceHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Healthy => f.write_str("healthy"),
            Self::Unhealthy(status) => write!(f, "unhealthy ({status})"),
            Self::Unreachable => f.write_str("unreachable"),
        }
    }
}

/// Revision number of one source's listing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceRevision(pub u64);

/// An alias of a tool. It applies if no other tool has that name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolAlias {
    /// The alias.
    pub alias: ToolName,
    /// The tool's own name.
    pub tool_name: ToolName,
}

/// Offers of a source at one revision.
#[derive(Debug, Clone, Default)]
pub struct SourceListing {
    /// Revision of the listing.
    pub revision: SourceRevision,
    /// Offers in the source's own order.
    pub offers: Vec<Offer>,
    /// Problems of parts that could not be offered.
    pub problems: Vec<Problem>,
    /// Time since when the listing is served from memory, if the source is unavailable.
    pub stale_since: Option<WallTime>,
    /// MCP's `initialize` or `server/discover` result of the source, as received.
    pub initialize_result: Option<Json>,
    /// Aliases of its tools.
    pub aliases: Vec<ToolAlias>,
    /// True if the operator trusts the MCP annotations of its tools.
    pub trusted_annotations: bool,
}

/// A catalog item with the executor that runs it.
#[derive(Debug, Clone)]
pub struct Offer {
    /// Item as it is listed.
    pub item: CatalogItem,
    /// Executor of the item.
    pub executor: Arc<dyn Executor>,
}

/// A problem of a source, with its location and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Location: a file with line, a tool, a URL, a command.
    #[serde(rename = "place")]
    pub location: String,
    /// Description of the problem.
    pub message: String,
    /// Remedy, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "fix")]
    pub help: Option<String>,
}

impl Problem {
    /// Creates a problem without a remedy.
    pub fn new(location: impl Into<String>, message: impl Into<String>) -> Self {
        Self { location: location.into(), message: message.into(), help: None }
    }

    /// Adds a remedy to the problem.
    #[must_use]
    pub fn with_help(mut self, fix: impl Into<String>) -> Self {
        self.help = Some(fix.into());
        self
    }
}

/// Error of a source that could not be listed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}", .problem.location, .problem.message)]
pub struct SourceError {
    /// Kind of the failure.
    pub kind: SourceErrorKind,
    /// Description of the failure.
    pub problem: Problem,
}

/// Kinds of source failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceErrorKind {
    /// No connection, no such file, no such command.
    Unreachable,
    /// The source responded with a failure.
    #[serde(rename = "failed")]
    ErrorReply,
    /// The source responded in a form that cannot be parsed.
    #[serde(rename = "malformed")]
    MalformedReply,
    /// The source did not respond in time.
    TimedOut,
    /// The source ended by itself.
    Crashed,
    /// A guard refused access to it.
    Blocked,
}

/// How far the operator trusts a source not to change its tools unnoticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceTrust {
    /// Changes are accepted, pinned and recorded.
    Full,
    /// Accepted on first use; a change quarantines the tool.
    FirstUse,
    /// Nothing is active until an authorised person has reviewed it.
    Review,
}
