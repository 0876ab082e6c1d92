//! Reloading: retries of failed starts, and changes of an MCP server's listing.

use std::sync::Arc;
use std::time::Duration;

use tool::{Source as _, SourceRevision};

use super::PluginSource;
use crate::mcp_server::ServerLifetime;
use crate::plugin_version::{PluginVersion, fetch_listing};

/// Waits between attempts to start an unchanged plugin, because the machine may lack resources. The
/// last one repeats.
pub(super) const START_BACKOFF: [Duration; 4] = [
    Duration::from_millis(500),
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_mins(2),
];

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
