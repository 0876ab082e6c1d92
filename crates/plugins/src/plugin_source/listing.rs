//! Listing, status and settings of a plugin.

use tool::plugin_admin::PluginStatus;
use tool::{BoxFuture, Json, Source, SourceError, SourceListing, SourceName, SourceRevision};

use super::PluginSource;

impl PluginSource {
    /// Returns the status of the plugin.
    pub(crate) fn status(&self) -> PluginStatus {
        let state = self.lock_state();
        let part = self.folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut problems = state.rejected_problems.clone();
        let version = state.version.as_ref();
        problems.extend(version.into_iter().flat_map(|version| version.problems.clone()));
        PluginStatus {
            name: version.map_or(part, |version| version.manifest.name.clone()),
            source: self.name.to_string(),
            folder: self.folder.display().to_string(),
            kind: version.map(|version| version.manifest.kind.as_str()),
            version: version.map(|version| version.manifest.version.clone()),
            description: version.map(|it| it.manifest.description.clone()).unwrap_or_default(),
            is_enabled: version
                .is_some_and(|it| it.settings.enabled.unwrap_or(it.manifest.is_enabled)),
            content_digest: version.map(|version| version.content_digest),
            tools: version.map(|version| version.tools.clone()).unwrap_or_default(),
            settings_schema: version
                .map_or_else(Json::empty_object, |it| Json::encode(&it.manifest.settings_schema)),
            problems,
        }
    }

    /// Returns the effective settings; `None` before the first version.
    pub(crate) fn effective_settings(&self) -> Option<Json> {
        let state = self.lock_state();
        let version = state.version.as_ref()?;
        let (values, _) = version.settings.effective_values(&version.manifest.settings_schema);
        Some(version.settings.to_json(&values))
    }

    /// Returns the schema of the settings, with its name.
    pub(crate) fn settings_schema(
        &self,
    ) -> Option<(String, serde_json::Map<String, serde_json::Value>)> {
        let state = self.lock_state();
        let manifest = &state.version.as_ref()?.manifest;
        Some((manifest.name.clone(), manifest.settings_schema.clone()))
    }

    async fn current_listing(&self) -> SourceListing {
        // Before the first scan there is nothing to list.
        let mut done = self.completed_scan.subscribe();
        tokio::select! {
            _ = done.wait_for(|done| *done > 0) => {}
            () = self.closed.cancelled() => {}
        }
        let revision = SourceRevision(*self.revision.borrow());
        let state = self.lock_state();
        let mut listing = SourceListing {
            revision,
            problems: state.rejected_problems.clone(),
            ..SourceListing::default()
        };
        if let Some(version) = &state.version {
            listing.offers.clone_from(&version.offers);
            listing.aliases.clone_from(&version.aliases);
            listing.initialize_result.clone_from(&version.server_info);
            listing.problems.extend(version.problems.iter().cloned());
        }
        listing
    }
}

impl Source for PluginSource {
    fn name(&self) -> &SourceName {
        &self.name
    }

    fn list_offers(&self) -> BoxFuture<'_, Result<SourceListing, SourceError>> {
        Box::pin(async { Ok(self.current_listing().await) })
    }

    fn wait_for_change(&self, known_revision: SourceRevision) -> BoxFuture<'_, SourceRevision> {
        Box::pin(async move {
            let mut revisions = self.revision.subscribe();
            let now = revisions
                .wait_for(|now| SourceRevision(*now) != known_revision)
                .await
                .map(|now| *now);
            match now {
                Ok(now) => SourceRevision(now),
                Err(_) => std::future::pending().await,
            }
        })
    }

    fn shut_down(&self) -> BoxFuture<'_, ()> {
        // The registry ends it, with its folder or with the server.
        Box::pin(std::future::ready(()))
    }
}
