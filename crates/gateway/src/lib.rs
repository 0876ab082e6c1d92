//! The call pipeline: one function that every call goes through, whichever interface it came by.
//!
//! It finds the tool in one snapshot, validates the arguments, decides, writes the intent,
//! executes, and writes the outcome. Only this crate calls an executor. It knows no protocol and no
//! provider.

mod aside;
mod cancel;
mod decide;
pub mod facade;
mod ids;
mod limits;
mod mac;
mod pipeline;
mod plugins;
mod principal_executor;
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

pub use aside::{aside, aside_if, away};
pub use cancel::Unheard;
pub use option_types::{Bounds, LONGEST, Patience};
pub use principal_executor::{OnBehalf, PrincipalExecutor, PrincipalPort};
pub use request::{Detached, Given, ModelCall, Request, Target};
pub use view::View;
pub use waits::{
    Decided, Event, Heard, Herald, Holder, Holders, Holding, Nobody, Page, PendingRequest, Shown,
    State,
};

use ids::Ids;
use limits::Limits;
use mac::Mac;
use taint::Taints;
use view::Views;
use waits::Waits;

/// Ports and options from which a gateway is built.
#[derive(Clone)]
pub struct Parts {
    /// Active catalog and policy, swapped together by intake.
    pub current: Arc<Current<Policy>>,
    /// Ledger that records calls.
    pub ledger: Arc<dyn Ledger>,
    /// Clock of the process.
    pub clock: Arc<dyn Clock>,
    /// Provider of credentials for upstreams.
    pub credentials: Arc<dyn Credentials>,
    /// Key of the installation for hashing arguments in records.
    pub mac_key: Secret,
    /// Components of approvals; without them, calls that need an approval are refused.
    pub holding: Option<Holding>,
    /// Timeouts and limits of calls.
    pub options: Options,
}

/// Timeouts and limits of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Default timeout of tools without their own.
    pub timeout: Duration,
    /// Maximum timeout of any tool.
    pub timeout_max: Duration,
    /// Grace period for an executor to stop after cancellation; then it is dropped.
    pub grace: Duration,
    /// Maximum size of a result in bytes.
    pub result_bytes: usize,
    /// Limits of concurrent calls.
    pub bounds: Bounds,
}

impl Parts {
    /// Creates the components for an embedding program: a fixed catalog, no policy, no approvals,
    /// and no credentials for sources. `secret` is the key for hashing arguments in records.
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
    /// Returns 30 s, at most 600 s; 500 ms of grace; 4 MiB.
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

/// Lists the tools of each caller and runs its calls.
pub struct Gateway {
    parts: Parts,
    views: Arc<Views>,
    limits: Limits,
    taints: Taints,
    mac: Mac,
    ids: Ids,
    tasks: TaskTracker,
    /// Approved calls that have no capacity yet.
    starting: TaskTracker,
    waits: Option<Waits>,
    pub(crate) artefacts: Option<Arc<dyn Artefacts>>,
}

impl Gateway {
    /// Builds a gateway from its components.
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

    /// Releases everybody who waits for a decision, for the shutdown of the server. Their calls
    /// stay pending.
    pub fn release(&self) {
        if let Some(waits) = &self.waits {
            waits.closing.cancel();
        }
    }

    /// Adds an artifact store: results that are too large become a preview and a handle instead of
    /// a failure.
    #[must_use]
    pub fn with_artefacts(mut self, artefacts: Arc<dyn Artefacts>) -> Self {
        self.artefacts = Some(artefacts);
        self
    }

    /// Returns the artifact store.
    pub fn artefacts(&self) -> Option<&Arc<dyn Artefacts>> {
        self.artefacts.as_ref()
    }

    /// Resolves when no call is running. New calls are refused from now on; calls approved before
    /// still run.
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

    /// Checks that calls can be recorded, and so run.
    ///
    /// # Errors
    /// The error of the ledger.
    pub fn health(&self) -> Result<(), tool::LedgerError> {
        self.parts.ledger.health()
    }

    /// Returns the number of calls that are pending for a decision.
    pub fn waiting(&self) -> usize {
        self.waits.as_ref().map_or(0, |waits| waits.index.waiting())
    }

    /// Returns the number of running calls.
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
