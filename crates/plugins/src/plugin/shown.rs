//! What a plugin tells of itself: its listing as a source, its state and its settings.

use tool::plugin::PluginState;
use tool::{Boxed, Json, Listing, Revision, Source, SourceError, SourceName};

use super::PluginSource;

impl PluginSource {
    /// How it stands.
    pub(crate) fn standing(&self) -> PluginState {
        let state = self.lock();
        let part = self.folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut problems = state.refused.clone();
        let version = state.version.as_ref();
        problems.extend(version.into_iter().flat_map(|version| version.problems.clone()));
        PluginState {
            name: version.map_or(part, |version| version.manifest.name.clone()),
            source: self.name.to_string(),
            folder: self.folder.display().to_string(),
            kind: version.map(|version| version.manifest.kind.as_str()),
            version: version.map(|version| version.manifest.version.clone()),
            description: version.map(|it| it.manifest.description.clone()).unwrap_or_default(),
            enabled: version.is_some_and(|it| it.settings.enabled.unwrap_or(it.manifest.enabled)),
            content: version.map(|version| version.digest),
            tools: version.map(|version| version.tools.clone()).unwrap_or_default(),
            problems,
        }
    }

    /// Its settings as they count; `None` before its first version.
    pub(crate) fn settings(&self) -> Option<Json> {
        let state = self.lock();
        let version = state.version.as_ref()?;
        let (values, _) = version.settings.values(&version.manifest.settings_schema);
        Some(version.settings.json(&values))
    }

    /// The schema of its settings, with its name.
    pub(crate) fn schema(&self) -> Option<(String, serde_json::Map<String, serde_json::Value>)> {
        let state = self.lock();
        let manifest = &state.version.as_ref()?.manifest;
        Some((manifest.name.clone(), manifest.settings_schema.clone()))
    }

    async fn listing(&self) -> Listing {
        // Before the first look there is nothing to list.
        let mut done = self.done.subscribe();
        tokio::select! {
            _ = done.wait_for(|done| *done > 0) => {}
            () = self.closed.cancelled() => {}
        }
        let revision = Revision(*self.revision.borrow());
        let state = self.lock();
        let mut listing =
            Listing { revision, problems: state.refused.clone(), ..Listing::default() };
        if let Some(version) = &state.version {
            listing.offers.clone_from(&version.offers);
            listing.aliases.clone_from(&version.aliases);
            listing.about.clone_from(&version.about);
            listing.problems.extend(version.problems.iter().cloned());
        }
        listing
    }
}

impl Source for PluginSource {
    fn name(&self) -> &SourceName {
        &self.name
    }

    fn list(&self) -> Boxed<'_, Result<Listing, SourceError>> {
        Box::pin(async { Ok(self.listing().await) })
    }

    fn changed(&self, seen: Revision) -> Boxed<'_, Revision> {
        Box::pin(async move {
            let mut news = self.revision.subscribe();
            let now = news.wait_for(|now| Revision(*now) != seen).await.map(|now| *now);
            match now {
                Ok(now) => Revision(now),
                Err(_) => std::future::pending().await,
            }
        })
    }

    fn close(&self) -> Boxed<'_, ()> {
        // The registry ends it, with its folder or with the server.
        Box::pin(std::future::ready(()))
    }
}
