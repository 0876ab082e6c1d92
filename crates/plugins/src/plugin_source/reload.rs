//! Reloading: retries of failed starts, and changes of an MCP server's listing.

use std::sync::Arc;
use std::time::Duration;

use tool::{MonotonicTime, Source as _, SourceRevision};

use super::PluginSource;
use crate::mcp_server::ServerLifetime;
use crate::plugin_version::{PluginVersion, fetch_listing};

/// Waits between attempts to start an unchanged plugin, because the machine may lack resources. The
/// last one repeats.
const START_BACKOFF: [Duration; 4] = [
    Duration::from_millis(500),
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_mins(2),
];

/// Backoff before a version that did not start is tried again.
#[derive(Debug, Default)]
pub(super) struct StartBackoff {
    retry_at: Option<MonotonicTime>,
    attempts: usize,
}

impl StartBackoff {
    /// Returns whether an attempt is due, once per wait.
    pub(super) fn is_due(&mut self, now: MonotonicTime) -> bool {
        let due = self.retry_at.is_some_and(|at| at <= now);
        if due {
            self.retry_at = None;
        }
        due
    }

    /// Records the result of an attempt.
    pub(super) fn record_attempt(&mut self, has_failed: bool, now: MonotonicTime) {
        let wait =
            START_BACKOFF.get(self.attempts).or(START_BACKOFF.last()).copied().unwrap_or_default();
        self.retry_at = has_failed.then(|| now.saturating_add(wait));
        self.attempts = if has_failed { self.attempts + 1 } else { 0 };
    }
}

impl PluginSource {
    /// Resolves when the plugin's MCP server has a new listing; never for other plugins.
    pub(super) async fn wait_for_server_change(&self) -> (Arc<ServerLifetime>, SourceRevision) {
        let follows = self.lock_state().version.as_ref().and_then(PluginVersion::watched_listing);
        match follows {
            Some((session, seen)) => {
                let now = session.server.wait_for_change(seen).await;
                (session, now)
            }
            None => std::future::pending().await,
        }
    }

    /// Applies the server's current listing to the unchanged version.
    pub(super) async fn refresh_listing(
        &self,
        server: &Arc<ServerLifetime>,
        revision: SourceRevision,
    ) {
        let listing = fetch_listing(server, self.version_builder.config.startup_timeout).await;
        let mut state = self.lock_state();
        let Some(version) = state.version.as_ref() else { return };
        let follows = version.watched_listing();
        let same = follows.is_some_and(|(known, _)| Arc::ptr_eq(&known, server));
        let Some(updated) = same.then(|| version.with_listing(listing, revision)).flatten() else {
            return;
        };
        let old = state.version.replace(updated);
        drop(state);
        drop(old);
        self.notify_revision();
    }
}
