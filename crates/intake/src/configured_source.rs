//! A source with the operator's settings, as the supervisor takes it.

use std::sync::Arc;
use std::time::Duration;

use catalog::SourceCatalog;
use tool::{DeferMode, Durability, Source, SourceTrust};

/// A source with the operator's settings.
#[derive(Debug, Clone)]
pub struct ConfiguredSource {
    /// The source to supervise.
    pub source: Arc<dyn Source>,
    /// `tool_file`, `module`, `mcp`, `builtin`, …
    pub kind: &'static str,
    /// Trust in the source.
    pub trust: SourceTrust,
    /// Durability of its call records; `None` if their effects decide.
    pub durability: Option<Durability>,
    /// Whether lists for models defer its tools.
    pub defer_mode: DeferMode,
    /// Polling interval; `None` for sources that report changes.
    pub poll_interval: Option<Duration>,
    /// Fingerprint of its configuration; a source with an unchanged fingerprint keeps running.
    pub fingerprint: u64,
}

impl ConfiguredSource {
    /// Configures a source that reports changes itself, with the defaults of all other settings.
    pub fn new(
        source: Arc<dyn Source>,
        kind: &'static str,
        trust: SourceTrust,
        fingerprint: u64,
    ) -> Self {
        Self {
            source,
            kind,
            trust,
            durability: None,
            defer_mode: DeferMode::Auto,
            poll_interval: None,
            fingerprint,
        }
    }

    /// Returns the catalog of the source before its first listing.
    pub(crate) fn new_source_catalog(&self) -> SourceCatalog {
        SourceCatalog::new_starting(self.source.name().clone(), self.kind, self.trust)
            .with_durability(self.durability)
            .with_defer_mode(self.defer_mode)
    }
}
