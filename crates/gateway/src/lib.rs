//! Call pipeline: one function for every call of every interface.
//!
//! It finds the tool in one snapshot, validates the arguments, decides, writes the intent,
//! executes, and writes the outcome. Only this crate calls an executor. It knows no protocol and no
//! provider.

mod approvals;
mod background_work;
mod call_ids;
mod call_observer;
mod call_request;
mod cancellation;
mod catalog_view;
mod concurrency;
mod execution;
mod keyed_hash;
mod pipeline;
mod plugin_visibility;
mod policy_check;
mod principal_executor;
pub mod result_formats;
mod sanitizer;
mod taint;

use std::sync::Arc;
use std::time::Duration;

use catalog::{Catalog, CurrentSnapshot};
use policy::Policy;
use tokio_util::task::TaskTracker;
use tool::artifact::ArtifactStore;
use tool::executor::{CredentialProvider, NoCredentials};
use tool::{Clock, Ledger, Secret};

pub use approvals::{
    ApprovalComponents, ApprovalDecision, ApprovalDetails, ApprovalEvent, ApprovalEventKind,
    ApprovalObserver, ApprovalPage, ApprovalScope, ApprovalState, ArgumentEdit, CredentialStatus,
    NoApprovalPorts, PendingCallCount, PendingRequest, PrincipalResolver,
};
pub use background_work::{
    block_in_place_if, drop_in_background, run_blocking_if_large, take_blocking_time,
};
pub use call_observer::CallObserver;
pub use call_request::{CallRequest, CallTarget, ModelCall, RequestArguments, TaskRequest};
pub use cancellation::NoopProgress;
pub use catalog_view::CatalogView;
pub use option_types::{ApprovalSettings, ConcurrencyLimits, MAX_DECISION_TIMEOUT};
pub use principal_executor::{OnBehalf, PrincipalExecutor, PrincipalPort};
pub use sanitizer::sanitize_json;

use approvals::ApprovalRegistry;
use call_ids::CallIdGenerator;
use catalog_view::ViewCache;
use concurrency::ConcurrencyLimiter;
use keyed_hash::KeyedHasher;
use taint::TaintTracker;

/// Ports and options from which a gateway is built.
#[derive(Clone)]
pub struct GatewayComponents {
    /// Active catalog and policy, swapped together by intake.
    pub current: Arc<CurrentSnapshot<Policy>>,
    /// Ledger that records calls.
    pub ledger: Arc<dyn Ledger>,
    /// Clock of the process.
    pub clock: Arc<dyn Clock>,
    /// Provider of credentials for upstreams.
    pub credentials: Arc<dyn CredentialProvider>,
    /// Key of the installation for hashing arguments in records.
    pub mac_key: Secret,
    /// Components of approvals; without them, calls that need an approval are refused.
    pub approvals: Option<ApprovalComponents>,
    /// Timeouts and limits of calls.
    pub options: GatewayOptions,
}

/// Timeouts and limits of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatewayOptions {
    /// Default timeout of tools without their own.
    pub default_timeout: Duration,
    /// Maximum timeout of any tool.
    pub max_timeout: Duration,
    /// Grace period for an executor to stop after cancellation; then it is dropped.
    pub cancel_grace: Duration,
    /// Maximum size of a result in bytes.
    pub max_result_bytes: usize,
    /// Limits of concurrent calls.
    pub concurrency: ConcurrencyLimits,
}

impl GatewayComponents {
    /// Creates the components for an embedding program: a fixed catalog, no policy, no approvals,
    /// and no credentials for sources. `secret` is the key for hashing arguments in records.
    pub fn new(
        catalog: Catalog,
        ledger: Arc<dyn Ledger>,
        clock: Arc<dyn Clock>,
        secret: Secret,
    ) -> Self {
        Self {
            current: Arc::new(CurrentSnapshot::new(catalog, Policy::default())),
            ledger,
            clock,
            credentials: Arc::new(NoCredentials),
            mac_key: secret,
            approvals: None,
            options: GatewayOptions::default(),
        }
    }
}

impl Default for GatewayOptions {
    /// Returns 30 s, at most 600 s; 500 ms of grace; 4 MiB.
    fn default() -> Self {
        Self {
            default_timeout: Duration::from_secs(30),
            max_timeout: Duration::from_mins(10),
            cancel_grace: Duration::from_millis(500),
            max_result_bytes: 4 << 20,
            concurrency: ConcurrencyLimits::default(),
        }
    }
}

/// Lists the tools of each caller and runs its calls.
pub struct Gateway {
    components: GatewayComponents,
    views: Arc<ViewCache>,
    limiter: ConcurrencyLimiter,
    taint_tracker: TaintTracker,
    keyed_hasher: KeyedHasher,
    call_ids: CallIdGenerator,
    tasks: TaskTracker,
    /// Approved calls that have no capacity yet.
    starting: TaskTracker,
    approvals: Option<ApprovalRegistry>,
    pub(crate) artifacts: Option<Arc<dyn ArtifactStore>>,
    /// Optional observer of successful calls.
    pub(crate) call_observer: Option<Arc<dyn CallObserver>>,
}

impl Gateway {
    /// Builds a gateway from its components.
    pub fn new(components: GatewayComponents) -> Self {
        let limits = ConcurrencyLimiter::new(components.options.concurrency);
        let mac = KeyedHasher::new(&components.mac_key);
        Self {
            views: ViewCache::with_prebuild(&components),
            limiter: limits,
            taint_tracker: TaintTracker::default(),
            keyed_hasher: mac,
            call_ids: CallIdGenerator::default(),
            tasks: TaskTracker::new(),
            starting: TaskTracker::new(),
            approvals: components.approvals.clone().map(ApprovalRegistry::new),
            artifacts: None,
            call_observer: None,
            components,
        }
    }

    /// Releases everybody who waits for a decision, for the shutdown of the server. Their calls
    /// stay pending.
    pub fn release_waiters(&self) {
        if let Some(waits) = &self.approvals {
            waits.shutdown.cancel();
        }
    }

    /// Adds an artifact store: results that are too large become a preview and a handle instead of
    /// a failure.
    #[must_use]
    pub fn with_artifacts(mut self, artifacts: Arc<dyn ArtifactStore>) -> Self {
        self.artifacts = Some(artifacts);
        self
    }

    /// Adds an observer of calls that succeeded.
    #[must_use]
    pub fn with_call_observer(mut self, observer: Arc<dyn CallObserver>) -> Self {
        self.call_observer = Some(observer);
        self
    }

    /// Returns the artifact store.
    pub fn artifact_store(&self) -> Option<&Arc<dyn ArtifactStore>> {
        self.artifacts.as_ref()
    }

    /// Resolves when no call is running. New calls are refused from now on; calls approved before
    /// still run.
    pub async fn drain_calls(&self) {
        self.starting.close();
        self.starting.wait().await;
        self.limiter.close_admission();
        self.tasks.close();
        self.tasks.wait().await;
        if let Some(waits) = &self.approvals {
            self.write_taints(waits.store.as_ref()).await;
        }
    }

    /// Checks that calls can be recorded, and so run.
    ///
    /// # Errors
    /// The error of the ledger.
    pub fn check_health(&self) -> Result<(), tool::LedgerError> {
        self.components.ledger.check_health()
    }

    /// Returns the number of calls that are pending for a decision.
    pub fn pending_approval_count(&self) -> usize {
        self.approvals.as_ref().map_or(0, |waits| waits.index.pending_count())
    }

    /// Returns the number of running calls.
    pub fn running_call_count(&self) -> usize {
        self.limiter.running_count()
    }
}

impl std::fmt::Debug for GatewayComponents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").field("options", &self.options).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("options", &self.components.options).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
