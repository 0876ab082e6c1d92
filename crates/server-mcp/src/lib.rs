//! The MCP endpoints: `/mcp` with all sources of the caller, `/mcp/{source}` with one source. Both
//! support versions 2024-11-05 to 2025-11-25 with a handshake and 2026-07-28 without.
//!
//! Each message is parsed once by the parser that all interfaces use, and results are forwarded as
//! the bytes that were received. The endpoint makes no decisions: the gateway decides what is
//! listed and how a call ends.

mod approvals;
mod call_completion;
mod client_capabilities;
mod client_requests;
mod dispatch;
mod endpoint;
mod event_sink;
mod events;
mod list_changes;
mod list_methods;
mod listing_mode;
mod log_level;
mod progress_stream;
mod qualified_uri;
mod request_context;
mod request_error;
mod request_headers;
mod request_state;
mod resource_subscriptions;
mod response_body;
mod result_encoding;
mod running_requests;
mod search_mode;
mod server_capabilities;
mod server_card;
mod server_registry;
mod server_stream;
mod session;
mod session_runtime;
mod source_items;
mod source_methods;
mod tasks;
mod tool_name_caches;
mod tools_call;
mod uri_rewriting;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::post;
use axum::{Extension, Router};
use http::Method;
use identity::Principal;
use tokio_util::task::TaskTracker;
use tool::{Secret, Store, StoreError};

use server_core::body::read_call_body;
use server_core::error::ApiError;
use server_core::route::ApiRoute;
use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::Duration;

use server_core::server_state::{ServerComponents, ServerState, StateInner};

pub use dispatch::{dispatch_message, reject_headers};
pub use endpoint::{Endpoint, EndpointAddress};
pub use request_context::EndpointCaller;
pub use request_headers::{CachedHeaderValues, RequestHeaders};
pub use response_body::McpResponse;

use events::{CursorKey, FeedSlots, WebhookTable};
use list_changes::ListChangeWatcher;
use request_state::RequestStates;
use session::SessionStore;
use tasks::TaskStore;
use tool_name_caches::{ArgumentHeaderCache, NativeNameCache};

/// Time between two removals of expired tasks.
const TASK_SWEEP_INTERVAL: Duration = Duration::from_mins(5);

/// The state that all interfaces share and the components of MCP; cheap to clone.
#[derive(Debug, Clone)]
pub struct McpServerState {
    server: ServerState,
    pub(crate) mcp_components: Arc<McpComponents>,
}

/// Weak references to the server state, for background tasks that end with it.
#[derive(Debug)]
pub(crate) struct WeakMcpServerState(Weak<StateInner>, Weak<McpComponents>);

impl McpServerState {
    /// Creates the state from the components of the server.
    pub fn new(components: ServerComponents) -> Self {
        let mcp = Arc::new(McpComponents::new(&components.installation_secret));
        Self { server: ServerState::new(components), mcp_components: mcp }
    }

    /// Stores tasks in `store` from now on, and restores those of earlier processes. Returns how many
    /// can still be queried.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub async fn restore_tasks(&self, store: Arc<dyn Store>) -> Result<usize, StoreError> {
        let tasks = &self.mcp_components.task_store;
        tasks.restore_tasks(store, &self.components.clock).await
    }

    /// Removes tasks of earlier processes as they expire; never returns. Each other task removes
    /// itself.
    pub async fn expire_tasks(&self) {
        loop {
            tokio::time::sleep(TASK_SWEEP_INTERVAL).await;
            let now = self.components.clock.wall_now();
            self.mcp_components.task_store.remove_expired(now).await;
        }
    }

    /// Closes the streams of clients and cancels detached tasks. For the shutdown of the server;
    /// running calls are not affected.
    pub fn close(&self) {
        self.mcp_components.close();
        self.server.close_streams();
    }

    pub(crate) fn downgrade(&self) -> WeakMcpServerState {
        WeakMcpServerState(self.server.downgrade(), Arc::downgrade(&self.mcp_components))
    }
}

impl WeakMcpServerState {
    pub(crate) fn upgrade(&self) -> Option<(Arc<StateInner>, Arc<McpComponents>)> {
        Some((self.0.upgrade()?, self.1.upgrade()?))
    }
}

impl Deref for McpServerState {
    type Target = ServerState;

    fn deref(&self) -> &ServerState {
        &self.server
    }
}

/// The sessions, request states, tasks and caches that all MCP requests share.
#[derive(Debug)]
pub(crate) struct McpComponents {
    sessions: SessionStore,
    request_states: RequestStates,
    task_store: TaskStore,
    event_cursors: CursorKey,
    feed_slots: FeedSlots,
    webhooks: WebhookTable,
    list_watcher: ListChangeWatcher,
    argument_headers: ArgumentHeaderCache,
    native_names: NativeNameCache,
    background_tasks: TaskTracker,
}

impl McpComponents {
    pub(crate) fn new(secret: &Secret) -> Self {
        Self {
            sessions: SessionStore::new(secret),
            request_states: RequestStates::new(secret),
            task_store: TaskStore::new(secret),
            event_cursors: CursorKey::new(secret),
            feed_slots: FeedSlots::default(),
            webhooks: WebhookTable::default(),
            list_watcher: ListChangeWatcher::default(),
            argument_headers: ArgumentHeaderCache::default(),
            native_names: NativeNameCache::default(),
            background_tasks: TaskTracker::new(),
        }
    }

    /// Closes the streams of clients and cancels the calls that became tasks, which would delay the
    /// shutdown.
    pub(crate) fn close(&self) {
        self.task_store.cancel_all();
        self.list_watcher.close_all();
        self.sessions.close_all();
    }
}

/// The discovery documents, which need no key: the AI catalog and the server card.
pub fn public_routes() -> Vec<ApiRoute> {
    server_card::public_routes()
}

/// The routes with a key beside the MCP endpoints: the registry of the caller's servers.
pub fn authenticated_routes() -> Vec<ApiRoute> {
    server_registry::routes()
}

/// Builds the router of the MCP endpoints.
pub fn mcp_router(state: &McpServerState) -> Router {
    let each = || post(handle_http).get(handle_http).delete(handle_http);
    Router::new().route("/mcp", each()).route("/mcp/{source}", each()).with_state(state.clone())
}

async fn handle_http(
    State(state): State<McpServerState>,
    Extension(principal): Extension<Principal>,
    source: Option<Path<String>>,
    request: Request,
) -> Result<Response, ApiError> {
    let source = source.map(|Path(source)| source);
    if *request.method() == Method::POST {
        return handle_post(&state, &principal, source, request).await;
    }
    let address = EndpointAddress::from_request(source, request.uri());
    let scope = address.resolve(&state, &principal)?;
    let principal = scope.narrow_principal(&principal);
    let reply = match *request.method() {
        Method::DELETE => server_stream::end_session(&state, &principal, scope, request.headers()),
        Method::GET => {
            server_stream::open_session_stream(&state, &principal, scope, request.headers())
        }
        // A HEAD request is routed like a GET, but has no stream to open.
        _ => server_stream::method_not_allowed(),
    };
    Ok(reply.map(Body::new))
}

/// Handles a POST request of `principal`; `source` is the path segment after `/mcp/`.
///
/// # Errors
/// Returns an error if the address or the body cannot be parsed.
pub async fn handle_post(
    state: &McpServerState,
    principal: &Principal,
    source: Option<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let address = EndpointAddress::from_request(source, &parts.uri);
    let scope = address.resolve(state, principal)?;
    let bytes = read_call_body(state, principal, body).await?;
    Ok(dispatch::handle_message(state, principal, scope, &parts.headers, bytes)
        .await
        .map(Body::new))
}
