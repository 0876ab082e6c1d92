//! HTTP modules (module API) as sources: `GET /manifest` lists their tools, `POST /execute` runs
//! one.
//!
//! A module can offer tools only under its configured name. The user id of a call comes from the
//! caller's credential, never from the module or the arguments. Every request goes through
//! `egress`, to the configured origin only.

mod manifest;
mod manifest_cache;
mod module_client;
mod module_executor;
mod parameter_schema;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use egress::{EgressClient, EgressError};
use tool::source::{ProbeResult, SourceErrorKind};
use tool::{
    BoxFuture, Executor, Problem, Secret, Source, SourceError, SourceListing, SourceName,
    SourceRevision,
};

use manifest::ParsedManifest;
use manifest_cache::ModuleIdentity;
pub use manifest_cache::{MANIFEST_TTL, ManifestCache};
use module_client::{ManifestFetchError, ModuleClient};
use module_executor::HttpModuleExecutor;
use source_layers::ToolSelection;

/// Timeout of a manifest request.
pub const MANIFEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of a health request (the module API's command line).
pub const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);
/// Time that a module may take at startup before its tools are listed from the cache.
const CACHE_FALLBACK_AFTER: Duration = Duration::from_millis(500);
/// Number of failed discovery attempts (the first, and those after 5, 10, 20 and 30 s) after which
/// `delayed_discovery_exhausted` is logged. Discovery continues.
const DISCOVERY_ATTEMPTS: u32 = 5;
/// Default time limit of a tool.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Default time limit of a tool of a slow module.
pub const SLOW_CALL_TIMEOUT: Duration = Duration::from_mins(2);
/// Maximum size of a manifest and of a response: 10 MiB.
pub const MAX_RESPONSE_BYTES: usize = 10 << 20;
/// Maximum bytes of an error body that are shown.
pub const MAX_ERROR_BODY_BYTES: usize = 2 << 10;

/// Configuration of one module.
#[derive(Debug, Clone)]
pub struct HttpModuleOptions {
    /// Name of the module: the names of all its tools start with it and a dot.
    pub name: SourceName,
    /// Base URL of the module, such as `http://research:8000`.
    pub url: String,
    /// Bearer token of the requests.
    pub bearer_token: Option<Secret>,
    /// Whether its tools may run for [`SLOW_CALL_TIMEOUT`].
    pub is_slow: bool,
    /// Time limit that replaces both defaults.
    pub timeout: Option<Duration>,
    /// Tools that are read-only. A manifest cannot declare this.
    pub read_only: ToolSelection,
    /// Tools that are idempotent.
    pub idempotent: ToolSelection,
    /// Tools that programs may also call.
    pub callable_by_programs: ToolSelection,
}

impl HttpModuleOptions {
    /// Creates the default options for a module at `url`.
    pub fn new(name: SourceName, url: impl Into<String>) -> Self {
        let url = url.into();
        Self {
            name,
            url,
            bearer_token: None,
            is_slow: false,
            timeout: None,
            read_only: ToolSelection::NONE,
            idempotent: ToolSelection::NONE,
            callable_by_programs: ToolSelection::NONE,
        }
    }

    /// Returns the time limit of a tool.
    pub fn call_timeout(&self) -> Duration {
        self.timeout.unwrap_or(if self.is_slow { SLOW_CALL_TIMEOUT } else { CALL_TIMEOUT })
    }
}

/// Source that lists and calls the tools of one module.
#[derive(Debug)]
pub struct HttpModuleSource {
    client: Arc<ModuleClient>,
    /// Shared executor of all listings, so that equal manifests give equal listings.
    executor: Arc<dyn Executor>,
    manifest_cache: Option<Arc<ManifestCache>>,
    state: Mutex<DiscoveryState>,
}

/// Discovery state of a module.
#[derive(Debug, Default)]
struct DiscoveryState {
    revision: SourceRevision,
    body: Bytes,
    /// Revision that was logged last; `None` after a failure.
    logged_revision: Option<SourceRevision>,
    /// Whether the module was listed before.
    has_listed: bool,
    /// Whether the last listing came from the cache, so that the module itself must still be asked.
    is_from_cache: bool,
    /// Whether a refresh was requested.
    is_refresh_requested: bool,
    /// Last discovery failure and how often it occurred in a row; `None` after a success.
    failure: Option<(ManifestFetchError, u32)>,
    /// Failed discovery attempts while no manifest was ever known.
    failed_attempts: u32,
}

impl HttpModuleSource {
    /// Creates the source without connecting to the module.
    ///
    /// # Errors
    /// [`EgressError`] if the URL cannot be used.
    pub fn new(options: HttpModuleOptions, egress: EgressClient) -> Result<Self, EgressError> {
        let line = Arc::new(ModuleClient::new(options, egress)?);
        let execute = Arc::new(HttpModuleExecutor::new(Arc::clone(&line)));
        Ok(Self { client: line, executor: execute, manifest_cache: None, state: Mutex::default() })
    }

    /// Adds a manifest cache, from which the tools are listed while the module is down.
    #[must_use]
    pub fn with_manifest_cache(mut self, manifests: Arc<ManifestCache>) -> Self {
        self.manifest_cache = Some(manifests);
        self
    }

    /// Lists the module's tools. Only the first listing may come from the cache.
    async fn list_tools(&self) -> Result<SourceListing, SourceError> {
        let first = !std::mem::replace(&mut self.lock_state().has_listed, true);
        match &self.manifest_cache {
            Some(kept) if first => self.first_listing(kept).await,
            _ => self.fetch_listing().await,
        }
    }

    async fn first_listing(&self, cache: &ManifestCache) -> Result<SourceListing, SourceError> {
        let mut discovered = std::pin::pin!(self.fetch_listing());
        let failure = match tokio::time::timeout(CACHE_FALLBACK_AFTER, discovered.as_mut()).await {
            Ok(Ok(listing)) => return Ok(listing),
            Ok(Err(error)) => Some(error),
            Err(_) => None,
        };
        match (self.cached_listing(cache, failure.as_ref()).await, failure) {
            (Some(listing), _) => Ok(listing),
            (None, Some(error)) => Err(error),
            (None, None) => discovered.await,
        }
    }

    async fn cached_listing(
        &self,
        cache: &ManifestCache,
        failure: Option<&SourceError>,
    ) -> Option<SourceListing> {
        let name = &self.client.options.name;
        let remembered = match cache.load_cached(self.identity()).await {
            Ok(remembered) => remembered?,
            Err(error) => {
                tracing::warn!(module = %name, error, "module_cache_refused");
                return None;
            }
        };
        let mut listing = self.parse_listing(&remembered.body).ok()?;
        listing.stale_since = Some(remembered.received_at);
        listing.problems.extend(failure.map(|error| error.problem.clone()));
        self.lock_state().is_from_cache = true;
        Some(listing)
    }

    /// Fetches the manifest from the module.
    async fn fetch_listing(&self) -> Result<SourceListing, SourceError> {
        let line = &self.client;
        self.lock_state().is_from_cache = false;
        let fetched = tokio::time::timeout(MANIFEST_TIMEOUT, line.fetch_manifest()).await;
        let body = fetched.unwrap_or_else(|_| {
            let seconds = MANIFEST_TIMEOUT.as_secs();
            let what = format!("no manifest was received within {seconds} s");
            Err(line.source_error(SourceErrorKind::TimedOut, what).into())
        });
        let parsed = body.and_then(|body| match self.parse_listing(&body) {
            Ok(listing) => Ok((listing, body)),
            Err(what) => Err(line.malformed_manifest(what)),
        });
        let (listing, body) = match parsed {
            Ok(listed) => listed,
            Err(missed) => return self.handle_fetch_error(missed).await,
        };
        let is_refresh_requested = self.record_success(&listing);
        if let Some(kept) = &self.manifest_cache {
            kept.record_manifest(self.identity(), &body, is_refresh_requested).await;
        }
        Ok(listing)
    }

    /// Handles a failed manifest request. The last listing stays, unless the cached manifest was
    /// deleted and a refresh was requested: then the tools are removed.
    async fn handle_fetch_error(
        &self,
        missed: ManifestFetchError,
    ) -> Result<SourceListing, SourceError> {
        let (may_forget, is_refresh_requested, failure_count) = {
            let mut last = self.lock_state();
            let previous_failure = last.failure.take().filter(|(before, _)| *before == missed);
            let times = previous_failure.map_or(1, |(_, times)| times.saturating_add(1));
            last.failure = Some((missed.clone(), times));
            let asked = std::mem::take(&mut last.is_refresh_requested);
            // Only a manifest that was known can be forgotten.
            (asked && last.revision != SourceRevision(0), asked, times)
        };
        // Discovery never stops; after the module API's attempts the same failure is logged at
        // debug level.
        missed.log_failure(
            &self.client.options.name,
            is_refresh_requested || failure_count <= DISCOVERY_ATTEMPTS,
        );
        let error = self.record_failure(missed.error);
        match &self.manifest_cache {
            Some(kept) if may_forget && kept.is_forgotten(&self.client.options.name).await => {
                let (stale_since, problems) = (Some(kept.wall_now()), vec![error.problem]);
                let revision = self.revision_for(&Bytes::new());
                Ok(SourceListing { revision, problems, stale_since, ..SourceListing::default() })
            }
            _ => Err(error),
        }
    }

    fn identity(&self) -> ModuleIdentity<'_> {
        let HttpModuleOptions { name, url, .. } = &self.client.options;
        ModuleIdentity { name, url }
    }

    fn record_failure(&self, error: SourceError) -> SourceError {
        let failed_attempts = {
            let mut last = self.lock_state();
            last.logged_revision = None;
            last.failed_attempts =
                last.failed_attempts.saturating_add(u32::from(last.revision == SourceRevision(0)));
            last.failed_attempts
        };
        if failed_attempts == DISCOVERY_ATTEMPTS {
            let module = &self.client.options.name;
            tracing::warn!(%module, tries = failed_attempts, "delayed_discovery_exhausted");
        }
        if let Some(kept) = &self.manifest_cache {
            kept.forget_module(&self.client.options.name);
        }
        error
    }

    /// Logs a changed or requested listing, and returns whether a refresh was requested.
    fn record_success(&self, listing: &SourceListing) -> bool {
        let (module, tools) = (&self.client.options.name, listing.offers.len());
        let (is_refresh_requested, logged_revision) = {
            let mut last = self.lock_state();
            let told = last.logged_revision.replace(listing.revision);
            last.failure = None;
            (std::mem::take(&mut last.is_refresh_requested), told)
        };
        if is_refresh_requested || logged_revision != Some(listing.revision) {
            tracing::info!(%module, tools, "module_discovered");
        } else {
            tracing::debug!(%module, tools, "module_discovered");
        }
        is_refresh_requested
    }

    fn parse_listing(&self, body: &Bytes) -> Result<SourceListing, String> {
        let line = &self.client;
        let execute = Arc::clone(&self.executor);
        let ParsedManifest { offers, problems } =
            manifest::parse_manifest(body, &line.options, execute)?;
        let place = |problem: Problem| Problem {
            location: format!("{} {}", line.manifest_uri, problem.location).trim_end().to_owned(),
            ..problem
        };
        let problems = problems.into_iter().map(place).collect();
        let revision = self.revision_for(body);
        Ok(SourceListing { revision, offers, problems, ..SourceListing::default() })
    }

    /// Returns the revision, which grows with each changed manifest.
    fn revision_for(&self, body: &Bytes) -> SourceRevision {
        let mut last = self.lock_state();
        if last.revision == SourceRevision(0) || last.body != *body {
            (last.revision, last.body) = (SourceRevision(last.revision.0 + 1), body.clone());
        }
        last.revision
    }

    fn lock_state(&self) -> MutexGuard<'_, DiscoveryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Source for HttpModuleSource {
    fn name(&self) -> &SourceName {
        &self.client.options.name
    }

    fn list_offers(&self) -> BoxFuture<'_, Result<SourceListing, SourceError>> {
        Box::pin(self.list_tools())
    }

    /// Modules send no change events; the supervisor polls them. After a listing from the cache it
    /// resolves at once.
    fn wait_for_change(&self, seen: SourceRevision) -> BoxFuture<'_, SourceRevision> {
        if self.lock_state().is_from_cache {
            return Box::pin(std::future::ready(SourceRevision(seen.0 + 1)));
        }
        Box::pin(std::future::pending())
    }

    fn reset_backoff(&self) {
        self.lock_state().is_refresh_requested = true;
    }

    fn probe_health(&self) -> BoxFuture<'_, Option<ProbeResult>> {
        Box::pin(async {
            // The query is removed, because it may contain a secret.
            let url = self.client.options.url.split('?').next().unwrap_or_default();
            let url = url.trim_end_matches('/').to_owned();
            Some(ProbeResult { url, health: self.client.check_health().await })
        })
    }

    fn shut_down(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_RESPONSE_BYTES, manifest, manifest_cache, parameter_schema};

    /// A module whose manifest is too large finds out why in the guide.
    #[test]
    fn the_guide_of_modules_names_the_bounds_of_a_manifest() {
        let guide = include_str!("../../../docs/guide/modules.md");
        let thousands = |number: usize| match number / 1_000 {
            0 => number.to_string(),
            thousands => format!("{thousands},{:03}", number % 1_000),
        };
        for told in [
            format!("at most {} MiB and", MAX_RESPONSE_BYTES >> 20),
            format!("{} tools, and a tool", thousands(manifest::MAX_TOOLS)),
            format!("at most {} parameters", parameter_schema::MAX_PARAMETERS),
            format!("more than {} MB is not kept", manifest_cache::MAX_CACHED_BYTES / 1_000_000),
        ] {
            assert!(guide.contains(&told), "the guide does not say {told:?}");
        }
        // The control: other numbers are not there.
        assert!(!guide.contains(&format!("at most {} MiB and", (MAX_RESPONSE_BYTES >> 20) + 1)));
    }
}
