//! The source of the built-in tools. It never changes while the program runs.

use std::sync::Arc;

use tool::{Boxed, Clock, Item, Listing, Offer, Revision, Source, SourceError, SourceName};

use crate::registry::Registry;
use crate::{Builtin, Means, computing, reaching};

/// Offers every built-in.
#[derive(Debug)]
pub struct BuiltinSource {
    name: SourceName,
    builtins: Vec<Builtin>,
}

impl BuiltinSource {
    /// The source `builtin`, with `clock` for the tools that tell the time.
    pub fn new(clock: &Arc<dyn Clock>, means: &Means) -> Self {
        let registry = Registry::shipped().narrowed(&means.narrowings);
        let mut builtins = computing(&registry, clock);
        builtins.extend(reaching(&registry, means, clock));
        // As they stand in the file.
        builtins.sort_by_cached_key(|builtin| registry.place(builtin));
        Self { name: name(), builtins }
    }

    /// The same with tools from other crates, behind its own.
    #[must_use]
    pub fn with(mut self, more: Vec<Builtin>) -> Self {
        self.builtins.extend(more);
        self
    }

    fn offers(&self) -> Listing {
        let offer = |builtin: &Builtin| Offer {
            item: Item::Tool(Arc::clone(&builtin.tool)),
            executor: Arc::clone(&builtin.executor),
        };
        Listing {
            revision: Revision(1),
            offers: self.builtins.iter().map(offer).collect(),
            ..Listing::default()
        }
    }
}

#[expect(clippy::expect_used, reason = "the name is a constant, and a test makes the source")]
fn name() -> SourceName {
    SourceName::new("builtin").expect("a valid name")
}

impl Source for BuiltinSource {
    fn name(&self) -> &SourceName {
        &self.name
    }

    fn list(&self) -> Boxed<'_, Result<Listing, SourceError>> {
        Box::pin(std::future::ready(Ok(self.offers())))
    }

    fn changed(&self, seen: Revision) -> Boxed<'_, Revision> {
        let now = Revision(1);
        if seen == now {
            Box::pin(std::future::pending())
        } else {
            Box::pin(std::future::ready(now))
        }
    }

    fn close(&self) -> Boxed<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
