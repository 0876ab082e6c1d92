//! The server state that all interfaces share.

use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use gateway::Gateway;
use identity::Principal;
use intake::Intake;
use tool::ledger::Records;
use tool::{CallerType, Clock, Limits, Secret};

use crate::counts::Counts;
use crate::hosts::Hosts;
use crate::issuers::{Issuers, Trusted};
use crate::keys::Keys;
use crate::lists::Lists;
use crate::metrics::Metrics;
use crate::room::Room;
use crate::streams::Streams;

/// The default maximum body size in bytes: arguments of 1 MiB and what surrounds them.
pub const MAX_BODY: usize = 2 << 20;

/// The bytes allowed around the arguments of a call.
pub(crate) const AROUND: usize = 64 << 10;

/// The components of the server.
#[derive(Debug, Clone)]
pub struct Parts {
    /// The gateway with the call pipeline.
    pub gateway: Arc<Gateway>,
    /// The ingestion of sources.
    pub intake: Arc<Intake>,
    /// The key store.
    pub keys: Arc<Keys>,
    /// The trusted token issuers.
    pub issuers: Arc<Issuers>,
    /// The call records, for reading.
    pub records: Arc<dyn Records>,
    /// Call counters of the gateway's ledger.
    pub counts: Counts,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The allowed hosts and origins.
    pub hosts: Hosts,
    /// The maximum size of a request body in bytes.
    pub max_body: usize,
    /// Options for calls that wait for an approval.
    pub notices: Notices,
    /// The program runner, if programs are enabled.
    pub programs: Option<Arc<dyn crate::Programs>>,
    /// The node registry, if there is one.
    pub nodes: Option<Arc<dyn tool::node::Nodes>>,
    /// The package registry, if there is one.
    pub catalogue: Option<Arc<dyn tool::catalogue::Catalogue>>,
    /// The plugins, if there are any.
    pub plugins: Option<Arc<dyn tool::plugin::Plugins>>,
    /// The secret of the installation: keys that seal client-side state are derived from it.
    pub secret: Secret,
}

/// Options for the responses of calls that wait for an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notices {
    /// The URL of the approval page, with `{id}` as a placeholder for the call id; `None` uses the
    /// page of this server.
    pub page: Option<String>,
    /// How long a polling stateless MCP client waits for a response.
    pub poll: Duration,
    /// How long the request of a client that cannot poll stays open.
    pub open: Duration,
}

impl Default for Notices {
    /// The page of this server, 20 s and 50 s: clients give up after a minute.
    fn default() -> Self {
        Self { page: None, poll: Duration::from_secs(20), open: Duration::from_secs(50) }
    }
}

/// The shared server state; cheap to clone.
#[derive(Debug, Clone)]
pub struct Doors(Arc<Inner>);

/// The content of the server state.
#[derive(Debug)]
pub struct Inner {
    /// The components.
    pub parts: Parts,
    /// The cached tool lists.
    pub lists: Lists,
    /// The metrics.
    pub metrics: Metrics,
    /// The memory budget for large bodies.
    pub room: Room,
    /// The limits for open streams.
    pub streams: Streams,
    /// The current URL of the approval page.
    page: ArcSwapOption<String>,
}

impl Doors {
    /// Creates the state from its components.
    pub fn new(parts: Parts) -> Self {
        let (lists, metrics) = (Lists::default(), Metrics::new(&parts.counts));
        let page = ArcSwapOption::from(parts.notices.page.clone().map(Arc::new));
        let (room, streams) = (Room::default(), Streams::default());
        Self(Arc::new(Inner { parts, lists, metrics, room, streams, page }))
    }

    /// Closes streams that would otherwise last as long as their clients, for shutdown. Running
    /// calls are not affected.
    pub fn close(&self) {
        self.0.parts.gateway.release();
    }

    /// Watches the key store for changes of other processes, forever. Without it only local changes
    /// take effect.
    pub async fn tend(&self) {
        self.0.parts.keys.tend(Arc::clone(&self.0.parts.clock)).await;
    }

    /// The maximum body size for calls of this caller, by its largest tool. A limit below the
    /// default set by the operator applies to all bodies.
    pub(crate) fn largest_body(&self, principal: &Principal) -> usize {
        let usual = self.0.parts.max_body;
        let most = self.0.parts.gateway.view(principal, CallerType::Direct).arguments();
        if usual < MAX_BODY || most <= Limits::ARGUMENTS.bytes {
            return usual;
        }
        usual.max(most + AROUND)
    }

    /// Sets the URL of the approval page.
    pub fn set_page(&self, page: Option<String>) {
        self.0.page.store(page.map(Arc::new));
    }

    /// The URL of the approval page; `None` for the page of this server.
    pub fn page(&self) -> Option<String> {
        self.0.page.load().as_deref().cloned()
    }

    /// Sets the trusted token issuers.
    pub fn believe(&self, trusted: Option<Trusted>) {
        self.0.parts.issuers.set(trusted);
    }

    /// A weak reference, for background work that ends with the server.
    pub fn weak(&self) -> Weak<Inner> {
        Arc::downgrade(&self.0)
    }
}

impl std::ops::Deref for Doors {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}
