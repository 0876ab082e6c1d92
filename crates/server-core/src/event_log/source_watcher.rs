//! Watches the states of sources and adds an event when one becomes unavailable or available.

use std::collections::HashMap;

use catalog::{Catalog, SourceState};
use tool::SourceName;

use super::{EventKind, EventLog};
use crate::server_state::ServerState;

/// Last known availability of each source. One that starts is neither available nor unavailable.
type Availability = HashMap<SourceName, bool>;

impl ServerState {
    /// Adds events of sources, forever.
    pub async fn watch_source_states(&self) {
        let intake = &self.components.intake;
        let mut versions = intake.subscribe_versions();
        let mut known = Availability::new();
        loop {
            self.components.events.note_sources(&mut known, &intake.catalog());
            if versions.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}

impl EventLog {
    /// Compares the sources of a catalog with their last known availability.
    pub(super) fn note_sources(&self, known: &mut Availability, catalog: &Catalog) {
        let mut current = Availability::with_capacity(known.len());
        for source in catalog.list_sources() {
            let name = source.source.clone();
            let before = known.get(&name).copied();
            let now = match source.state {
                SourceState::Starting => before,
                SourceState::Current => Some(true),
                SourceState::Stale | SourceState::Failed(_) => Some(false),
            };
            let kind = match (before, now) {
                (Some(true) | None, Some(false)) => Some(EventKind::SourceDown),
                (Some(false), Some(true)) => Some(EventKind::SourceUp),
                _ => None,
            };
            if let Some(kind) = kind {
                self.push_source(kind, &name, source.state.as_str());
            }
            current.extend(now.map(|now| (name, now)));
        }
        *known = current;
    }
}
