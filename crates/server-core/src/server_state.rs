//! The server state that all interfaces share.

use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use gateway::Gateway;
use identity::Principal;
use intake::SourceSupervisor;
use option_types::ListingOptions;
use tokio_util::sync::CancellationToken;
use tool::call_outcome::CallStatus;
use tool::ledger::{RecordInspector, RecordReader};
use tool::{CallerType, Clock, ErrorCode, JsonLimits, Secret};

use crate::allowed_hosts::Hosts;
use crate::body_budget::BodyBudget;
use crate::call_activity::{ActivityTotals, CallActivity, SAMPLE_INTERVAL};
use crate::call_counters::CallCounters;
use crate::configuration_file::ConfigurationFile;
use crate::error::ApiError;
use crate::event_log::EventLog;
use crate::key_store::KeyStore;
use crate::metrics::Metrics;
use crate::record_verification::RecordVerifier;
use crate::sign_in_links::SignInLinks;
use crate::stream_limits::StreamLimits;
use crate::token_issuers::{IssuerTrust, TokenIssuers};
use crate::tool_lists::ToolListCache;
use crate::tool_search::{SearchIndexCache, SearchLearning, SentenceVectors};
use crate::webhook::WebhookTransport;

/// The default maximum body size in bytes: arguments of 1 MiB and their envelope.
pub const DEFAULT_MAX_BODY_BYTES: usize = 2 << 20;

/// The bytes allowed around the arguments of a call.
pub(crate) const ENVELOPE_BYTES: usize = 64 << 10;

/// The components of the server.
#[derive(Debug, Clone)]
pub struct ServerComponents {
    /// The gateway with the call pipeline.
    pub gateway: Arc<Gateway>,
    /// The ingestion of sources.
    pub intake: Arc<SourceSupervisor>,
    /// The key store.
    pub keys: Arc<KeyStore>,
    /// The trusted token issuers.
    pub issuers: Arc<TokenIssuers>,
    /// The call records, for reading.
    pub records: Arc<dyn RecordReader>,
    /// The files of the record, if they are on a disk.
    pub record_inspector: Option<Arc<dyn RecordInspector>>,
    /// Call counters of the gateway's ledger.
    pub call_counters: CallCounters,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The events of this server.
    pub events: Arc<EventLog>,
    /// Sends events to the webhooks that callers name, if the server may.
    pub webhooks: Option<Arc<dyn WebhookTransport>>,
    /// The allowed hosts and origins.
    pub allowed_hosts: Hosts,
    /// The maximum size of a request body in bytes.
    pub max_body_bytes: usize,
    /// Options for calls that wait for an approval.
    pub pending_call_options: PendingCallOptions,
    /// How MCP clients get tools.
    pub listing_options: ListingOptions,
    /// The vectors of tools by a sentence model, if one is installed.
    pub sentence_vectors: Option<Arc<SentenceVectors>>,
    /// What tool search learns from calls; the gateway's observer is the same.
    pub search_learning: Option<Arc<SearchLearning>>,
    /// The program runner, if programs are enabled.
    pub programs: Option<Arc<dyn crate::ProgramRunner>>,
    /// The node registry, if there is one.
    pub node_registry: Option<Arc<dyn tool::node_registry::NodeRegistry>>,
    /// The package registry, if there is one.
    pub package_registry: Option<Arc<dyn tool::tool_packages::ToolPackageStore>>,
    /// The plugins, if there are any.
    pub plugins: Option<Arc<dyn tool::plugin_admin::PluginAdmin>>,
    /// The configuration file, if interfaces may read it.
    pub configuration: Option<Arc<dyn ConfigurationFile>>,
    /// The secret of the installation: keys that seal client-side state are derived from it.
    pub installation_secret: Secret,
}

impl ServerComponents {
    /// Returns the configuration file.
    ///
    /// # Errors
    /// [`ErrorCode::NotFound`] without one.
    pub fn require_configuration(&self) -> Result<Arc<dyn ConfigurationFile>, ApiError> {
        let missing = || {
            let message = "this server has no configuration file";
            ApiError::new(ErrorCode::NotFound, message)
                .with_help("start it with `toolkeep serve --config FILE`")
        };
        self.configuration.clone().ok_or_else(missing)
    }
}

/// Options for the responses of calls that wait for an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingCallOptions {
    /// The URL of the approval page, with `{id}` as a placeholder for the call id; `None` uses the
    /// page of this server.
    pub approval_page: Option<String>,
    /// How long a polling stateless MCP client waits for a response.
    pub poll_timeout: Duration,
    /// How long the request of a client that cannot poll stays open.
    pub response_timeout: Duration,
}

impl Default for PendingCallOptions {
    /// The page of this server, 20 s and 50 s: clients give up after a minute.
    fn default() -> Self {
        Self {
            approval_page: None,
            poll_timeout: Duration::from_secs(20),
            response_timeout: Duration::from_secs(50),
        }
    }
}

/// The shared server state; cheap to clone.
#[derive(Debug, Clone)]
pub struct ServerState(Arc<StateInner>);

/// The content of the server state.
#[derive(Debug)]
pub struct StateInner {
    /// The components.
    pub components: ServerComponents,
    /// The cached tool lists.
    pub tool_lists: ToolListCache,
    /// The search indexes of views.
    pub tool_search: SearchIndexCache,
    /// The metrics.
    pub metrics: Metrics,
    /// Calls per minute of the last hour.
    pub activity: CallActivity,
    /// The memory budget for large bodies.
    pub body_budget: BodyBudget,
    /// The unused links that sign in to the console.
    pub sign_in_links: SignInLinks,
    /// The last verification of the record.
    pub record_verifier: RecordVerifier,
    /// The limits for open streams.
    pub streams: StreamLimits,
    /// Cancelled when streams end that would last as long as their clients.
    pub streams_closed: CancellationToken,
    /// The current URL of the approval page.
    approval_page: ArcSwapOption<String>,
}

impl ServerState {
    /// Creates the state from its components.
    pub fn new(components: ServerComponents) -> Self {
        let (lists, metrics) = (ToolListCache::default(), Metrics::new(&components.call_counters));
        let (vectors, learning) =
            (components.sentence_vectors.clone(), components.search_learning.clone());
        let search = SearchIndexCache::new(vectors, learning);
        let page = ArcSwapOption::from(
            components.pending_call_options.approval_page.clone().map(Arc::new),
        );
        let (room, streams) = (BodyBudget::default(), StreamLimits::default());
        Self(Arc::new(StateInner {
            components,
            tool_lists: lists,
            tool_search: search,
            metrics,
            activity: CallActivity::default(),
            body_budget: room,
            sign_in_links: SignInLinks::default(),
            record_verifier: RecordVerifier::default(),
            streams,
            streams_closed: CancellationToken::new(),
            approval_page: page,
        }))
    }

    /// Closes streams that would otherwise last as long as their clients, for shutdown. Running
    /// calls are not affected.
    pub fn close_streams(&self) {
        self.0.streams_closed.cancel();
        self.0.components.gateway.release_waiters();
    }

    /// Watches the key store for changes of other processes, forever. Without it only local changes
    /// take effect.
    pub async fn watch_key_store(&self) {
        self.0.components.keys.watch_store(Arc::clone(&self.0.components.clock)).await;
    }

    /// Keeps the calls of each minute, forever.
    pub async fn sample_activity(&self) {
        loop {
            tokio::time::sleep(SAMPLE_INTERVAL).await;
            self.add_activity_sample();
        }
    }

    /// Ends a minute of the kept activity now.
    pub fn add_activity_sample(&self) {
        let calls = &self.0.components.call_counters;
        let (answered, elapsed_ms) = self.0.metrics.answered_calls();
        let failed = [CallStatus::Failed, CallStatus::Abandoned, CallStatus::Unknown];
        let totals = ActivityTotals {
            calls: calls.count_calls(CallStatus::ALL),
            failed: calls.count_calls(&failed),
            refused: calls.count_calls(&[CallStatus::Refused]),
            answered,
            elapsed_ms,
        };
        self.0.activity.add_sample(self.0.components.clock.wall_now(), totals);
    }

    /// The maximum body size for calls of this caller, by its largest tool. A limit below the
    /// default set by the operator applies to all bodies.
    pub(crate) fn max_body_for(&self, principal: &Principal) -> usize {
        let usual = self.0.components.max_body_bytes;
        let most =
            self.0.components.gateway.view_for(principal, CallerType::Direct).max_argument_bytes();
        if usual < DEFAULT_MAX_BODY_BYTES || most <= JsonLimits::ARGUMENTS.max_bytes {
            return usual;
        }
        usual.max(most + ENVELOPE_BYTES)
    }

    /// Sets the URL of the approval page.
    pub fn set_approval_page(&self, page: Option<String>) {
        self.0.approval_page.store(page.map(Arc::new));
    }

    /// The URL of the approval page; `None` for the page of this server.
    pub fn approval_page(&self) -> Option<String> {
        self.0.approval_page.load().as_deref().cloned()
    }

    /// Sets the trusted token issuers.
    pub fn set_trusted_issuers(&self, issuers: Option<IssuerTrust>) {
        self.0.components.issuers.replace(issuers);
    }

    /// A weak reference, for background work that ends with the server.
    pub fn downgrade(&self) -> Weak<StateInner> {
        Arc::downgrade(&self.0)
    }
}

impl std::ops::Deref for ServerState {
    type Target = StateInner;
    fn deref(&self) -> &StateInner {
        &self.0
    }
}
