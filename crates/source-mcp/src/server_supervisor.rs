//! Supervises one server: starts it on first use and restarts it with a backoff, up to a limit.

mod restart_loop;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use ::mcp::ProtocolEra;
use bytes::Bytes;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool::source::SourceErrorKind;
use tool::{SourceName, SourceRevision};

use super::call_attribution::UnattributedRequests;
use super::caller_servers::CallerServers;
use super::connection::McpConnection;
use super::dual_era::SecondaryConnection;
use super::http_transport::HttpEndpoint;
use super::idle_stop::LazyListing;
use super::mcp_options::McpOptions;
use super::pending_input::{PendingInput, PendingInputOwner, PendingInputs};
use super::pipe_connector::{ConnectionError, PipeConnector};
use super::server_instance::InstanceFactory;
use super::start_monitoring::LastExit;

/// State of a supervised server.
#[derive(Debug, Clone)]
pub(super) enum SupervisorState {
    /// Not started yet, or starting.
    Starting,
    /// Connected.
    Running(Arc<McpConnection>),
    /// Stopped, and restarts after a delay.
    BackingOff(ConnectionError),
    /// Stopped because nobody uses it; the next call starts it.
    Idle,
    /// Stopped until the operator restarts it.
    Failed(ConnectionError),
    /// Closed permanently.
    Closed,
}

/// Transport that reaches the server.
#[derive(Debug, Clone)]
pub(super) enum ServerConnector {
    /// Child process over pipes.
    Pipes(Arc<dyn PipeConnector>),
    /// Streamable HTTP endpoint.
    Http(Arc<HttpEndpoint>),
}

/// Supervisor of one server.
#[derive(Debug)]
pub(super) struct ServerSupervisor {
    pub(super) name: SourceName,
    pub(super) options: McpOptions,
    pub(super) display_address: String,
    connector: ServerConnector,
    pub(super) state: watch::Sender<SupervisorState>,
    revision: watch::Sender<SourceRevision>,
    /// Its recent exits, once it is up again.
    pub(super) last_exit: Mutex<Option<LastExit>>,
    /// Era that worked last.
    pub(super) last_era: Mutex<Option<ProtocolEra>>,
    /// Secondary connection, for servers of both eras.
    pub(super) secondary: SecondaryConnection,
    refresh_requested: Notify,
    was_started: AtomicBool,
    instance_factory: InstanceFactory,
    pending_inputs: Arc<PendingInputs>,
    /// Per-caller servers of the same source.
    pub(super) caller_servers: CallerServers,
    /// Whether this is a per-caller server, which does not restart by itself.
    pub(super) is_per_caller: bool,
    /// Last listing of a server that starts with its first call.
    pub(super) lazy_listing: LazyListing,
}

impl ServerSupervisor {
    /// Creates a supervisor. Starts nothing yet.
    pub(super) fn new(name: SourceName, options: McpOptions, target: ServerConnector) -> Arc<Self> {
        let unattributed_requests = UnattributedRequests::new(name.clone());
        Self::with_scope(name, options, target, unattributed_requests, Arc::default(), false)
    }

    /// Creates a supervisor of the same server for one caller, reached by `target`.
    pub(super) fn for_caller(&self, target: ServerConnector) -> Arc<Self> {
        let unattributed_requests = self.instance_factory.unattributed_requests.clone();
        let pending_inputs = Arc::clone(&self.pending_inputs);
        let (name, options) = (self.name.clone(), self.options.clone());
        Self::with_scope(name, options, target, unattributed_requests, pending_inputs, true)
    }

    fn with_scope(
        name: SourceName,
        options: McpOptions,
        target: ServerConnector,
        unattributed_requests: UnattributedRequests,
        pending_inputs: Arc<PendingInputs>,
        is_per_caller: bool,
    ) -> Arc<Self> {
        let display_address = match &target {
            ServerConnector::Pipes(connector) => connector.display_address(),
            ServerConnector::Http(http) => http.display_address().to_owned(),
        };
        let instance_factory = InstanceFactory {
            limits: options.limits.clone(),
            extensions: options.extensions.clone(),
            era_selection: options.era_selection,
            unattributed_requests,
            list_changed: Arc::new(Notify::new()),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        Arc::new(Self {
            name,
            options,
            display_address,
            connector: target,
            state: watch::Sender::new(SupervisorState::Starting),
            revision: watch::Sender::new(SourceRevision::default()),
            last_exit: Mutex::new(None),
            last_era: Mutex::new(None),
            secondary: SecondaryConnection::default(),
            refresh_requested: Notify::new(),
            was_started: AtomicBool::new(false),
            instance_factory,
            pending_inputs,
            caller_servers: CallerServers::default(),
            is_per_caller,
            lazy_listing: LazyListing::default(),
        })
    }

    /// Starts the server unless it was started. Requires a tokio runtime.
    pub(super) fn start(self: &Arc<Self>) {
        if !self.was_started.swap(true, Ordering::AcqRel)
            && !self.instance_factory.closing.is_cancelled()
        {
            drop(self.instance_factory.tasks.spawn(Arc::clone(self).supervise()));
            drop(self.instance_factory.tasks.spawn(Arc::clone(self).publish_list_changes()));
        }
    }

    /// Whether the server was started.
    pub(super) fn is_started(&self) -> bool {
        self.was_started.load(Ordering::Acquire)
    }

    /// Returns the connection once the server is up, or the reason why it is not. Starts a server that
    /// starts with its first call.
    pub(super) async fn wait_for_connection(
        self: &Arc<Self>,
    ) -> Result<Arc<McpConnection>, ConnectionError> {
        let mut state = self.state.subscribe();
        if self.is_lazy() {
            self.start();
        }
        loop {
            let settled = state.wait_for(|state| !matches!(state, SupervisorState::Starting)).await;
            match settled.as_deref() {
                Ok(SupervisorState::Running(link)) => return Ok(Arc::clone(link)),
                Ok(SupervisorState::BackingOff(fault) | SupervisorState::Failed(fault)) => {
                    return Err(fault.clone());
                }
                Ok(SupervisorState::Starting | SupervisorState::Closed) | Err(_) => {
                    return Err(closed_error());
                }
                Ok(SupervisorState::Idle) => {}
            }
            drop(settled);
            self.start_idle_server();
        }
    }

    /// Starts the server if it was stopped because nobody used it.
    fn start_idle_server(&self) {
        let is_idle = self.state.send_if_modified(|state| {
            let is_idle = matches!(state, SupervisorState::Idle);
            if is_idle {
                *state = SupervisorState::Starting;
            }
            is_idle
        });
        if is_idle {
            self.lazy_listing.start_requested.notify_one();
        }
    }

    /// Stores a request that waits for its client's input. Returns it if too many are pending.
    pub(super) fn store_pending_input(
        &self,
        input: PendingInput,
    ) -> Result<Bytes, Box<PendingInput>> {
        self.pending_inputs.insert_pending(input, &self.instance_factory.closing)
    }

    /// Returns how the server is reached.
    pub(super) fn connector(&self) -> &ServerConnector {
        &self.connector
    }

    /// Redacts from `text`, received from the server, the secrets that it was given.
    pub(super) fn redact_text(&self, text: String) -> String {
        match &self.connector {
            ServerConnector::Pipes(connector) => connector.redact_text(text),
            ServerConnector::Http(http) => http.redact_text(text),
        }
    }

    /// Returns the HTTP endpoint, if the server has one.
    pub(super) fn http_endpoint(&self) -> Option<&Arc<HttpEndpoint>> {
        match &self.connector {
            ServerConnector::Http(http) => Some(http),
            ServerConnector::Pipes(_) => None,
        }
    }

    /// Removes and returns a pending request if this owner stored it.
    pub(super) fn take_pending_input(
        &self,
        name: &[u8],
        owner: &PendingInputOwner,
    ) -> Option<PendingInput> {
        self.pending_inputs.take_pending(name, owner)
    }

    pub(super) fn revision(&self) -> SourceRevision {
        *self.revision.borrow()
    }

    /// Resolves when the revision differs from `known_revision`.
    pub(super) async fn wait_for_change(&self, known_revision: SourceRevision) -> SourceRevision {
        let mut revision = self.revision.subscribe();
        let now = revision.wait_for(|now| *now != known_revision).await.map(|now| *now);
        match now {
            Ok(now) => now,
            // The sender lives as long as `self`.
            Err(_) => known_revision,
        }
    }

    /// Starts the server now if it is backing off or has failed, at the operator's request.
    pub(super) fn restart_now(self: &Arc<Self>) {
        // Whoever asks for a listing means one of the server.
        if self.is_lazy() {
            self.start();
            self.start_idle_server();
        }
        self.token_provider().inspect(|account| account.clear_failure());
        let is_down = self.state.send_if_modified(|state| {
            let is_down =
                matches!(state, SupervisorState::BackingOff(_) | SupervisorState::Failed(_));
            if is_down {
                *state = SupervisorState::Starting;
            }
            is_down
        });
        if is_down {
            self.refresh_requested.notify_one();
        }
    }

    /// Starts to close the server.
    pub(super) fn close(&self) {
        if !self.was_started.swap(true, Ordering::AcqRel) {
            self.state.send_replace(SupervisorState::Closed);
        }
        self.instance_factory.closing.cancel();
        self.instance_factory.tasks.close();
        self.caller_servers.close_all();
    }

    /// Resolves when the server is closed and nothing of it is left.
    pub(super) async fn wait_until_closed(&self) {
        self.instance_factory.tasks.wait().await;
        self.caller_servers.wait_until_closed().await;
    }

    /// Returns the factory of server instances.
    pub(super) fn instance_factory(&self) -> &InstanceFactory {
        &self.instance_factory
    }

    /// Whether the server is closing.
    pub(super) fn is_closing(&self) -> bool {
        self.instance_factory.closing.is_cancelled()
    }

    pub(super) fn bump_revision(&self) {
        self.revision.send_modify(|revision| revision.0 += 1);
    }
}

/// Error for a server that is closed.
pub(super) fn closed_error() -> ConnectionError {
    ConnectionError::new(SourceErrorKind::ErrorReply, "is closed")
}
