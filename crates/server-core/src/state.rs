//! What the doors share.

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

/// Bytes of a request's body where nothing else is said: arguments of 1 MiB and what stands around them.
pub const MAX_BODY: usize = 2 << 20;

/// What may stand around the arguments of a call, in bytes.
pub(crate) const AROUND: usize = 64 << 10;

/// What the doors are made of.
#[derive(Debug, Clone)]
pub struct Parts {
    /// The pipeline.
    pub gateway: Arc<Gateway>,
    /// The sources.
    pub intake: Arc<Intake>,
    /// The keys.
    pub keys: Arc<Keys>,
    /// The issuers whose tokens are believed.
    pub issuers: Arc<Issuers>,
    /// The record, for reading.
    pub records: Arc<dyn Records>,
    /// How calls ended: of the ledger that the gateway writes to.
    pub counts: Counts,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Which hosts and origins may ask.
    pub hosts: Hosts,
    /// Bytes of a request's body.
    pub max_body: usize,
    /// How callers are told of calls that are held.
    pub notices: Notices,
    /// Programs, where they are run.
    pub programs: Option<Arc<dyn crate::Programs>>,
    /// The registry of nodes' tools, where there is one.
    pub nodes: Option<Arc<dyn tool::node::Nodes>>,
    /// The catalogue of tools, where there is one.
    pub catalogue: Option<Arc<dyn tool::catalogue::Catalogue>>,
    /// The plugins, where there are any.
    pub plugins: Option<Arc<dyn tool::plugin::Plugins>>,
    /// The installation's secret: keys for what clients carry for us are derived from it.
    pub secret: Secret,
}

/// How callers are told of calls that are held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notices {
    /// The page that a person is sent to, with `{id}` where the call's id belongs; this server's own
    /// where nothing is said.
    pub page: Option<String>,
    /// How long a stateless MCP client that asks again is kept waiting.
    pub poll: Duration,
    /// How long a call of a client that cannot ask again stays open.
    pub open: Duration,
}

impl Default for Notices {
    /// This server's page, 20 s and 50 s: clients give a request up after a minute.
    fn default() -> Self {
        Self { page: None, poll: Duration::from_secs(20), open: Duration::from_secs(50) }
    }
}

/// The doors' state; cheap to clone.
#[derive(Debug, Clone)]
pub struct Doors(Arc<Inner>);

/// What every door reads.
#[derive(Debug)]
pub struct Inner {
    /// What it is made of.
    pub parts: Parts,
    /// Lists that are kept.
    pub lists: Lists,
    /// Counters.
    pub metrics: Metrics,
    /// Room for large bodies.
    pub room: Room,
    /// Streams that are open.
    pub streams: Streams,
    /// The page for approvals, as it is now.
    page: ArcSwapOption<String>,
}

impl Doors {
    /// Puts the parts together.
    pub fn new(parts: Parts) -> Self {
        let (lists, metrics) = (Lists::default(), Metrics::new(&parts.counts));
        let page = ArcSwapOption::from(parts.notices.page.clone().map(Arc::new));
        let (room, streams) = (Room::default(), Streams::default());
        Self(Arc::new(Inner { parts, lists, metrics, room, streams, page }))
    }

    /// Ends what would otherwise last as long as its clients do. For the end of the server; calls that run
    /// are not touched.
    pub fn close(&self) {
        self.0.parts.gateway.release();
    }

    /// Looks for ever whether others changed the keys. Without it only what is changed here counts.
    pub async fn tend(&self) {
        self.0.parts.keys.tend(Arc::clone(&self.0.parts.clock)).await;
    }

    /// Bytes of the largest body of a call by this caller: as its largest tool wants it. Where the
    /// operator has all bodies smaller than usual, these are too.
    pub(crate) fn largest_body(&self, principal: &Principal) -> usize {
        let usual = self.0.parts.max_body;
        let most = self.0.parts.gateway.view(principal, CallerType::Direct).arguments();
        if usual < MAX_BODY || most <= Limits::ARGUMENTS.bytes {
            return usual;
        }
        usual.max(most + AROUND)
    }

    /// The page that a person is sent to for approvals from here on.
    pub fn set_page(&self, page: Option<String>) {
        self.0.page.store(page.map(Arc::new));
    }

    /// That page; this server's own where nothing is said.
    pub fn page(&self) -> Option<String> {
        self.0.page.load().as_deref().cloned()
    }

    /// Whose tokens are believed from here on.
    pub fn believe(&self, trusted: Option<Trusted>) {
        self.0.parts.issuers.set(trusted);
    }

    /// For work that ends with it.
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
