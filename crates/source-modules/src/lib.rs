//! HTTP modules of spec 0 as sources: `GET /manifest` lists their tools, `POST /execute` runs one.
//!
//! A module can offer tools only under its configured name. The user id of a call comes from the
//! caller's credential, never from the module or the arguments. Every request goes through
//! `egress`, to the configured origin only.

mod execute;
mod kept;
mod line;
mod manifest;
mod schema;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use egress::{Egress, EgressError};
use tool::source::{Probe, SourceFault};
use tool::{Boxed, Executor, Listing, Problem, Revision, Secret, Source, SourceError, SourceName};

use execute::Execute;
use kept::Identity;
pub use kept::{LIFE, Manifests};
use line::{Line, Missed};
use source_layers::ToolSelection;

/// Timeout of a manifest request.
pub const MANIFEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of a health request (spec 0's command line).
pub const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);
/// Time that a module may take at startup before its tools are listed from the cache.
const PATIENCE: Duration = Duration::from_millis(500);
/// Number of failed discovery attempts (the first, and those after 5, 10, 20 and 30 s) after which
/// `delayed_discovery_exhausted` is logged. Discovery continues.
const DELAYED: u32 = 5;
/// Default time limit of a tool.
pub const TIMEOUT: Duration = Duration::from_secs(30);
/// Default time limit of a tool of a slow module.
pub const SLOW_TIMEOUT: Duration = Duration::from_mins(2);
/// Maximum size of a manifest and of a response: 10 MiB.
pub const MAX_BYTES: usize = 10 << 20;
/// Maximum bytes of an error body that are shown.
pub const SHOWN_BYTES: usize = 2 << 10;

/// Configuration of one module.
#[derive(Debug, Clone)]
pub struct ModuleOptions {
    /// Name of the module: the names of all its tools start with it and a dot.
    pub name: SourceName,
    /// Base URL of the module, such as `http://research:8000`.
    pub url: String,
    /// Bearer token of the requests.
    pub token: Option<Secret>,
    /// Whether its tools may run for [`SLOW_TIMEOUT`].
    pub slow: bool,
    /// Time limit that replaces both defaults.
    pub timeout: Option<Duration>,
    /// Tools that are read-only. A manifest cannot declare this.
    pub read_only: ToolSelection,
    /// Tools that are idempotent.
    pub idempotent: ToolSelection,
    /// Tools that programs may also call.
    pub chain: ToolSelection,
}

impl ModuleOptions {
    /// Creates the default options for a module at `url`.
    pub fn new(name: SourceName, url: impl Into<String>) -> Self {
        let url = url.into();
        Self {
            name,
            url,
            token: None,
            slow: false,
            timeout: None,
            read_only: ToolSelection::None,
            idempotent: ToolSelection::None,
            chain: ToolSelection::None,
        }
    }

    /// Returns the time limit of a tool.
    pub fn limit(&self) -> Duration {
        self.timeout.unwrap_or(if self.slow { SLOW_TIMEOUT } else { TIMEOUT })
    }
}

/// Source that lists and calls the tools of one module.
#[derive(Debug)]
pub struct Module {
    line: Arc<Line>,
    /// Shared executor of all listings, so that equal manifests give equal listings.
    execute: Arc<dyn Executor>,
    kept: Option<Arc<Manifests>>,
    last: Mutex<Last>,
}

/// Discovery state of a module.
#[derive(Debug, Default)]
struct Last {
    revision: Revision,
    body: Bytes,
    /// Revision that was logged last; `None` after a failure.
    told: Option<Revision>,
    /// Whether the module was listed before.
    begun: bool,
    /// Whether the last listing came from the cache, so that the module itself must still be asked.
    remembered: bool,
    /// Whether a refresh was requested.
    asked: bool,
    /// Last discovery failure and how often it occurred in a row; `None` after a success.
    failure: Option<(Missed, u32)>,
    /// Failed discovery attempts while no manifest was ever known.
    missed: u32,
}

impl Module {
    /// Creates the source without connecting to the module.
    ///
    /// # Errors
    /// [`EgressError`] if the URL cannot be used.
    pub fn new(options: ModuleOptions, egress: Egress) -> Result<Self, EgressError> {
        let line = Arc::new(Line::new(options, egress)?);
        let execute = Arc::new(Execute::new(Arc::clone(&line)));
        Ok(Self { line, execute, kept: None, last: Mutex::default() })
    }

    /// Adds a manifest cache, from which the tools are listed while the module is down.
    #[must_use]
    pub fn kept(mut self, manifests: Arc<Manifests>) -> Self {
        self.kept = Some(manifests);
        self
    }

    /// Lists the module's tools. Only the first listing may come from the cache.
    async fn read(&self) -> Result<Listing, SourceError> {
        let first = !std::mem::replace(&mut self.last().begun, true);
        match &self.kept {
            Some(kept) if first => self.begin(kept).await,
            _ => self.discover().await,
        }
    }

    async fn begin(&self, kept: &Manifests) -> Result<Listing, SourceError> {
        let mut discovered = std::pin::pin!(self.discover());
        let missed = match tokio::time::timeout(PATIENCE, discovered.as_mut()).await {
            Ok(Ok(listing)) => return Ok(listing),
            Ok(Err(error)) => Some(error),
            Err(_) => None,
        };
        match (self.remembered(kept, missed.as_ref()).await, missed) {
            (Some(listing), _) => Ok(listing),
            (None, Some(error)) => Err(error),
            (None, None) => discovered.await,
        }
    }

    async fn remembered(&self, kept: &Manifests, missed: Option<&SourceError>) -> Option<Listing> {
        let name = &self.line.options.name;
        let remembered = match kept.load(self.identity()).await {
            Ok(remembered) => remembered?,
            Err(error) => {
                tracing::warn!(module = %name, error, "module_cache_refused");
                return None;
            }
        };
        let mut listing = self.listing(&remembered.body).ok()?;
        listing.stale_since = Some(remembered.at);
        listing.problems.extend(missed.map(|error| error.problem.clone()));
        self.last().remembered = true;
        Some(listing)
    }

    /// Fetches the manifest from the module.
    async fn discover(&self) -> Result<Listing, SourceError> {
        let line = &self.line;
        self.last().remembered = false;
        let fetched = tokio::time::timeout(MANIFEST_TIMEOUT, line.manifest()).await;
        let body = fetched.unwrap_or_else(|_| {
            let seconds = MANIFEST_TIMEOUT.as_secs();
            let what = format!("no manifest came within {seconds} s");
            Err(line.fault(SourceFault::TimedOut, what).into())
        });
        let listed = body.and_then(|body| match self.listing(&body) {
            Ok(listing) => Ok((listing, body)),
            Err(what) => Err(line.malformed(what)),
        });
        let (listing, body) = match listed {
            Ok(listed) => listed,
            Err(missed) => return self.missed(missed).await,
        };
        let asked = self.discovered(&listing);
        if let Some(kept) = &self.kept {
            kept.keep(self.identity(), &body, asked).await;
        }
        Ok(listing)
    }

    /// Handles a failed manifest request. The last listing stays, unless the cached manifest was
    /// deleted and a refresh was requested: then the tools are removed.
    async fn missed(&self, missed: Missed) -> Result<Listing, SourceError> {
        let (forgets, asked, times) = {
            let mut last = self.last();
            let before = last.failure.take().filter(|(before, _)| *before == missed);
            let times = before.map_or(1, |(_, times)| times.saturating_add(1));
            last.failure = Some((missed.clone(), times));
            let asked = std::mem::take(&mut last.asked);
            // Only a manifest that was known can be forgotten.
            (asked && last.revision != Revision(0), asked, times)
        };
        // Discovery never stops; after spec 0's attempts the same failure is logged at debug level.
        missed.log(&self.line.options.name, asked || times <= DELAYED);
        let error = self.lost(missed.error);
        match &self.kept {
            Some(kept) if forgets && kept.is_forgotten(&self.line.options.name).await => {
                let (stale_since, problems) = (Some(kept.now()), vec![error.problem]);
                let revision = self.revision(&Bytes::new());
                Ok(Listing { revision, problems, stale_since, ..Listing::default() })
            }
            _ => Err(error),
        }
    }

    fn identity(&self) -> Identity<'_> {
        let ModuleOptions { name, url, .. } = &self.line.options;
        Identity { name, url }
    }

    fn lost(&self, error: SourceError) -> SourceError {
        let missed = {
            let mut last = self.last();
            last.told = None;
            last.missed = last.missed.saturating_add(u32::from(last.revision == Revision(0)));
            last.missed
        };
        if missed == DELAYED {
            let module = &self.line.options.name;
            tracing::warn!(%module, tries = missed, "delayed_discovery_exhausted");
        }
        if let Some(kept) = &self.kept {
            kept.lose(&self.line.options.name);
        }
        error
    }

    /// Logs a changed or requested listing, and returns whether a refresh was requested.
    fn discovered(&self, listing: &Listing) -> bool {
        let (module, tools) = (&self.line.options.name, listing.offers.len());
        let (asked, told) = {
            let mut last = self.last();
            let told = last.told.replace(listing.revision);
            last.failure = None;
            (std::mem::take(&mut last.asked), told)
        };
        if asked || told != Some(listing.revision) {
            tracing::info!(%module, tools, "module_discovered");
        } else {
            tracing::debug!(%module, tools, "module_discovered");
        }
        asked
    }

    fn listing(&self, body: &Bytes) -> Result<Listing, String> {
        let line = &self.line;
        let execute = Arc::clone(&self.execute);
        let (offers, problems) = manifest::read(body, &line.options, execute)?;
        let place = |problem: Problem| Problem {
            place: format!("{} {}", line.manifest, problem.place).trim_end().to_owned(),
            ..problem
        };
        let problems = problems.into_iter().map(place).collect();
        let revision = self.revision(body);
        Ok(Listing { revision, offers, problems, ..Listing::default() })
    }

    /// Returns the revision, which grows with each changed manifest.
    fn revision(&self, body: &Bytes) -> Revision {
        let mut last = self.last();
        if last.revision == Revision(0) || last.body != *body {
            (last.revision, last.body) = (Revision(last.revision.0 + 1), body.clone());
        }
        last.revision
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Source for Module {
    fn name(&self) -> &SourceName {
        &self.line.options.name
    }

    fn list(&self) -> Boxed<'_, Result<Listing, SourceError>> {
        Box::pin(self.read())
    }

    /// Modules send no change events; the supervisor polls them. After a listing from the cache it
    /// resolves at once.
    fn changed(&self, seen: Revision) -> Boxed<'_, Revision> {
        if self.last().remembered {
            return Box::pin(std::future::ready(Revision(seen.0 + 1)));
        }
        Box::pin(std::future::pending())
    }

    fn refresh(&self) {
        self.last().asked = true;
    }

    fn probe(&self) -> Boxed<'_, Option<Probe>> {
        Box::pin(async {
            // The query is removed, because it may contain a secret.
            let url = self.line.options.url.split('?').next().unwrap_or_default();
            let url = url.trim_end_matches('/').to_owned();
            Some(Probe { url, health: self.line.health().await })
        })
    }

    fn close(&self) -> Boxed<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_BYTES, kept, manifest, schema};

    /// A module whose manifest is too large finds out why in the guide.
    #[test]
    fn the_guide_of_modules_names_the_bounds_of_a_manifest() {
        let guide = include_str!("../../../docs/guide/modules.md");
        let thousands = |number: usize| match number / 1_000 {
            0 => number.to_string(),
            thousands => format!("{thousands},{:03}", number % 1_000),
        };
        for told in [
            format!("at most {} MiB and", MAX_BYTES >> 20),
            format!("{} tools, and a tool", thousands(manifest::MAX_TOOLS)),
            format!("at most {} parameters", schema::MAX_PARAMETERS),
            format!("more than {} MB is not kept", kept::MOST / 1_000_000),
        ] {
            assert!(guide.contains(&told), "the guide does not say {told:?}");
        }
        // The control: other numbers are not there.
        assert!(!guide.contains(&format!("at most {} MiB and", (MAX_BYTES >> 20) + 1)));
    }
}
