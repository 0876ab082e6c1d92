//! The pipeline: one function that every call goes through, whichever door it came by.
//!
//! It finds the tool in one snapshot, checks the arguments, decides, writes the intent, runs, and
//! writes the outcome. Only here is an executor called. It knows no protocol and no provider.

mod aside;
mod asker;
mod cancel;
mod decide;
pub mod facade;
mod ids;
mod limits;
mod mac;
mod pipeline;
mod plugins;
mod request;
mod run;
mod shape;
mod taint;
mod view;
mod waits;

use std::sync::Arc;
use std::time::Duration;

use catalog::{Catalog, Current};
use policy::Policy;
use tokio_util::task::TaskTracker;
use tool::artefact::Artefacts;
use tool::executor::{Credentials, NoCredentials};
use tool::{Clock, Ledger, Secret};

pub use aside::{aside, away};
pub use cancel::Unheard;
pub use limits::Bounds;
pub use request::{Detached, Given, ModelCall, Request, Target};
pub use view::View;
pub use waits::{
    Decided, Event, Heard, Herald, Holder, Holders, Holding, LONGEST, Nobody, Page, Patience,
    PendingRequest, Shown, State,
};

use ids::Ids;
use limits::Limits;
use mac::Mac;
use taint::Taints;
use view::Views;
use waits::Waits;

/// What a gateway is made of.
#[derive(Clone)]
pub struct Parts {
    /// The catalog and the policy in force, swapped by intake as one.
    pub current: Arc<Current<Policy>>,
    /// The record.
    pub ledger: Arc<dyn Ledger>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Credentials for upstreams.
    pub credentials: Arc<dyn Credentials>,
    /// The installation's key for hashing arguments in records.
    pub mac_key: Secret,
    /// Where calls are held; where nothing is said, what would have to be held is refused.
    pub holding: Option<Holding>,
    /// Times and bounds.
    pub options: Options,
}

/// Times and bounds of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// For tools that name no timeout of their own.
    pub timeout: Duration,
    /// No tool gets more.
    pub timeout_max: Duration,
    /// How long an executor may take to stop when told to; then it is dropped.
    pub grace: Duration,
    /// The largest answer, in bytes.
    pub result_bytes: usize,
    /// How many calls at once.
    pub bounds: Bounds,
}

impl Parts {
    /// For a program that embeds the library: a catalog that does not change, no policy, no approvals, and no credentials for
    /// sources. `secret` is the key with which arguments are hashed on record.
    pub fn new(
        catalog: Catalog,
        ledger: Arc<dyn Ledger>,
        clock: Arc<dyn Clock>,
        secret: Secret,
    ) -> Self {
        Self {
            current: Arc::new(Current::new(catalog, Policy::default())),
            ledger,
            clock,
            credentials: Arc::new(NoCredentials),
            mac_key: secret,
            holding: None,
            options: Options::default(),
        }
    }
}

impl Default for Options {
    /// 30 s, at most 600 s; 500 ms to stop; 4 MiB.
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            timeout_max: Duration::from_mins(10),
            grace: Duration::from_millis(500),
            result_bytes: 4 << 20,
            bounds: Bounds::default(),
        }
    }
}

/// Shows each caller its tools and runs its calls.
pub struct Gateway {
    parts: Parts,
    views: Arc<Views>,
    limits: Limits,
    taints: Taints,
    mac: Mac,
    ids: Ids,
    tasks: TaskTracker,
    /// Approved calls that have not got their room yet.
    starting: TaskTracker,
    waits: Option<Waits>,
    pub(crate) artefacts: Option<Arc<dyn Artefacts>>,
}

impl Gateway {
    /// Puts the parts together.
    pub fn new(parts: Parts) -> Self {
        let limits = Limits::new(parts.options.bounds);
        let mac = Mac::new(&parts.mac_key);
        Self {
            views: Views::before(&parts),
            limits,
            taints: Taints::default(),
            mac,
            ids: Ids::default(),
            tasks: TaskTracker::new(),
            starting: TaskTracker::new(),
            waits: parts.holding.clone().map(Waits::new),
            artefacts: None,
            parts,
        }
    }

    /// Those who wait for a decision are answered as it stands, from here on. For the end of the server:
    /// their calls stay held.
    pub fn release(&self) {
        if let Some(waits) = &self.waits {
            waits.closing.cancel();
        }
    }

    /// With a place for answers that are too large: they get a preview and a handle instead of a failure.
    #[must_use]
    pub fn with_artefacts(mut self, artefacts: Arc<dyn Artefacts>) -> Self {
        self.artefacts = Some(artefacts);
        self
    }

    /// Where answers that are too large are kept.
    pub fn artefacts(&self) -> Option<&Arc<dyn Artefacts>> {
        self.artefacts.as_ref()
    }

    /// Resolves when no call is running. New calls are refused from here on; what was approved before
    /// still runs.
    pub async fn drain(&self) {
        self.starting.close();
        self.starting.wait().await;
        self.limits.close();
        self.tasks.close();
        self.tasks.wait().await;
        if let Some(waits) = &self.waits {
            self.write_taints(waits.holding.store.as_ref()).await;
        }
    }

    /// Whether calls can be recorded, and so run.
    ///
    /// # Errors
    /// Why not.
    pub fn health(&self) -> Result<(), tool::LedgerError> {
        self.parts.ledger.health()
    }

    /// Calls that wait for a decision now.
    pub fn waiting(&self) -> usize {
        self.waits.as_ref().map_or(0, |waits| waits.index.waiting())
    }

    /// Calls running now.
    pub fn running(&self) -> usize {
        self.limits.running()
    }
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").field("options", &self.options).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("options", &self.parts.options).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
