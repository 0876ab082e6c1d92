//! The registry of nodes' tools, and a source for each node that came.

use std::sync::{Arc, Mutex, PoisonError};

use guard::egress::Egress;
use intake::{Intake, Sourced};
use nodes::{NodeSource, Registry};
use tool::node::Nodes;
use tool::{Clock, Source, Store, Trust};

use crate::cli::failure::Failure;
use crate::config::NodesConfig;

/// The registry, and how far its nodes are trusted.
pub(super) struct Cluster {
    registry: Arc<Registry>,
    trust: Mutex<Trust>,
}

impl Cluster {
    /// Reads what is kept.
    pub(super) async fn open(
        config: &NodesConfig,
        (store, clock): (Arc<dyn Store>, Arc<dyn Clock>),
        egress: &Egress,
    ) -> Result<Arc<Self>, Failure> {
        // A connection of nobody else's: nodes are reached by their own lines.
        let registry = Registry::open(store, egress.apart(), clock).await;
        let registry = Arc::new(registry.map_err(super::fault("the registry of nodes"))?);
        let cluster = Self { registry, trust: Mutex::new(config.trust) };
        cluster.take(config);
        Ok(Arc::new(cluster))
    }

    /// For the doors.
    pub(super) fn registry(&self) -> Arc<dyn Nodes> {
        Arc::clone(&self.registry) as Arc<dyn Nodes>
    }

    /// Takes a new configuration.
    pub(super) fn take(&self, config: &NodesConfig) {
        self.registry.set_addresses(config.addresses.clone());
        *self.trust.lock().unwrap_or_else(PoisonError::into_inner) = config.trust;
    }

    /// A source for each node.
    pub(super) fn sourced(&self) -> Vec<Sourced> {
        let trust = *self.trust.lock().unwrap_or_else(PoisonError::into_inner);
        let sourced = |source: Arc<NodeSource>| Sourced {
            source: source as Arc<dyn Source>,
            kind: "node",
            trust,
            durability: None,
            poll: None,
            fingerprint: trust as u64,
        };
        self.registry.sources().into_iter().map(sourced).collect()
    }

    /// Adds nodes as they come, for ever.
    pub(super) async fn follow(&self, intake: &Intake) {
        let mut news = self.registry.news();
        loop {
            news.borrow_and_update();
            for sourced in self.sourced() {
                intake.add(Some(sourced));
            }
            if news.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}
