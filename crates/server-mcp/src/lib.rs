//! The MCP endpoints: `/mcp` with all tools of the caller, `/mcp/{source}` with one source. Both
//! support versions 2024-11-05 to 2025-11-25 with a handshake and 2026-07-28 without.
//!
//! Each message is parsed once by the parser that all interfaces use, and results are forwarded as
//! the bytes that were received. The endpoint makes no decisions: the gateway decides what is
//! listed and how a call ends.

mod about;
mod answer;
mod approval;
mod ask;
mod asked;
mod body;
mod call;
mod client;
mod follow;
mod head;
mod level;
mod listen;
mod lists;
mod live;
mod methods;
mod outlet;
mod refused;
mod result;
mod run;
mod running;
mod scope;
mod session;
mod task;
mod told;
mod waiting;
mod watch;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::post;
use axum::{Extension, Router};
use http::Method;
use identity::Principal;
use tokio_util::task::TaskTracker;
use tool::Secret;

use server_core::body::read_large;
use server_core::error::ApiError;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use server_core::state::{Doors, Inner, Parts};

pub use answer::{refuses, taken};
pub use asked::Who;
pub use body::Reply;
pub use head::{Heads, Said};
pub use scope::Scope;

use call::{Mirrors, OwnNames};
use session::Sessions;
use task::Kept;
use waiting::Waits;
use watch::Watch;

/// The state that all interfaces share and the components of MCP; cheap to clone.
#[derive(Debug, Clone)]
pub struct McpDoors {
    doors: Doors,
    pub(crate) mcp: Arc<Shared>,
}

/// Weak references to the server state, for background tasks that end with it.
#[derive(Debug)]
pub(crate) struct WeakDoors(Weak<Inner>, Weak<Shared>);

impl McpDoors {
    /// Creates the state from the components of the server.
    pub fn new(parts: Parts) -> Self {
        let mcp = Arc::new(Shared::new(&parts.secret));
        Self { doors: Doors::new(parts), mcp }
    }

    /// Closes the streams of clients and cancels detached tasks. For the shutdown of the server;
    /// running calls are not affected.
    pub fn close(&self) {
        self.mcp.close();
        self.doors.close();
    }

    pub(crate) fn weak(&self) -> WeakDoors {
        WeakDoors(self.doors.weak(), Arc::downgrade(&self.mcp))
    }
}

impl WeakDoors {
    pub(crate) fn upgrade(&self) -> Option<(Arc<Inner>, Arc<Shared>)> {
        Some((self.0.upgrade()?, self.1.upgrade()?))
    }
}

impl Deref for McpDoors {
    type Target = Doors;

    fn deref(&self) -> &Doors {
        &self.doors
    }
}

/// The sessions, request states, tasks and caches that all MCP requests share.
#[derive(Debug)]
pub(crate) struct Shared {
    sessions: Sessions,
    waits: Waits,
    kept: Kept,
    watch: Watch,
    mirrors: Mirrors,
    own: OwnNames,
    tasks: TaskTracker,
}

impl Shared {
    pub(crate) fn new(secret: &Secret) -> Self {
        Self {
            sessions: Sessions::new(secret),
            waits: Waits::new(secret),
            kept: Kept::new(secret),
            watch: Watch::default(),
            mirrors: Mirrors::default(),
            own: OwnNames::default(),
            tasks: TaskTracker::new(),
        }
    }

    /// Closes the streams of clients and cancels the calls that became tasks, which would delay the
    /// shutdown.
    pub(crate) fn close(&self) {
        self.kept.close();
        self.watch.close();
        self.sessions.close();
    }
}

/// Builds the router of the MCP endpoints.
pub fn routes(doors: &McpDoors) -> Router {
    let each = || post(serve).get(serve).delete(serve);
    Router::new().route("/mcp", each()).route("/mcp/{source}", each()).with_state(doors.clone())
}

async fn serve(
    State(doors): State<McpDoors>,
    Extension(principal): Extension<Principal>,
    source: Option<Path<String>>,
    request: Request,
) -> Result<Response, ApiError> {
    let source = source.map(|Path(source)| source);
    if *request.method() == Method::POST {
        return message(&doors, &principal, source, request).await;
    }
    let scope = Scope::read(source, request.uri())?;
    let reply = match *request.method() {
        Method::DELETE => listen::delete(&doors, &principal, &scope, request.headers()),
        Method::GET => listen::get(&doors, &principal, &scope, request.headers()),
        // A HEAD request is routed like a GET, but has no stream to open.
        _ => listen::only_post(),
    };
    Ok(reply.map(Body::new))
}

/// Handles a POST request of `principal`; `source` is the path segment after `/mcp/`.
///
/// # Errors
/// Returns an error if the address or the body cannot be parsed.
pub async fn message(
    doors: &McpDoors,
    principal: &Principal,
    source: Option<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let scope = Scope::read(source, &parts.uri)?;
    let bytes = read_large(doors, principal, body).await?;
    Ok(answer::answer(doors, principal, &scope, &parts.headers, bytes).await.map(Body::new))
}
