//! Per-caller connections to one server. A caller gets its own connection if it has its own secret,
//! or if the server sends requests that name no call. No other caller uses that connection. The
//! caller's secret comes from the credential port, never from the call.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::mcp::ProtocolEra;
use tokio::time::{Instant, sleep};
use tool::executor::UpstreamCredential;
use tool::{BoxFuture, CallContext, Caller, ErrorCode, ExecuteError, Secret, ToolCall};

use super::call_attribution::CallerId;
use super::server_supervisor::{ServerConnector, ServerSupervisor, SupervisorState};
use oauth_client::TokenProvider;

/// Maximum callers of a source at once: over HTTP, and with a child process each.
const MAX_CALLERS: (usize, usize) = (256, 32);
/// One key, with all keys delegated from it, may use one in this many of these places.
const KEY_SHARE: usize = 4;
/// Idle time after which a caller's connection is closed.
const CALLER_TTL: Duration = Duration::from_mins(10);
/// Idle time after which the longest-idle connection may be evicted when there is no room for
/// another.
const MIN_IDLE_TO_EVICT: Duration = Duration::from_mins(3);

/// Per-caller connections of one source.
#[derive(Default)]
pub(super) struct CallerServers(Mutex<HashMap<CallerId, CallerServer>>);

struct CallerServer {
    supervisor: Arc<ServerSupervisor>,
    secret: Option<Secret>,
    /// Root key that the per-key share is counted by.
    limit_key_id: String,
    last_used: Instant,
}

impl CallerServer {
    fn is_idle_for(&self, since: Duration) -> bool {
        self.last_used.elapsed() >= since && self.supervisor.is_idle()
    }
}

/// Result of looking up a caller's server.
enum ServerLookup {
    Existing(Arc<ServerSupervisor>),
    Created(Arc<ServerSupervisor>),
}

impl CallerServers {
    fn lock_servers(&self) -> MutexGuard<'_, HashMap<CallerId, CallerServer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns this caller's server, creating it if necessary; `None` if there is no room for
    /// another.
    fn get_or_create(
        &self,
        caller: &Caller,
        (secret, max_callers): (Option<&Secret>, usize),
        make: impl FnOnce() -> Option<Arc<ServerSupervisor>>,
    ) -> Option<ServerLookup> {
        let id = CallerId::from_caller(caller);
        let mut all = self.lock_servers();
        let now = Instant::now();
        if let Some(own) = all.get_mut(&id) {
            let same = own.secret.as_ref().map(Secret::expose) == secret.map(Secret::expose);
            if same && !own.supervisor.is_stopped() {
                own.last_used = now;
                return Some(ServerLookup::Existing(Arc::clone(&own.supervisor)));
            }
            own.supervisor.close();
            all.remove(&id);
        }
        all.retain(|_, own| {
            let kept = !own.supervisor.is_stopped() && !own.is_idle_for(CALLER_TTL);
            if !kept {
                own.supervisor.close();
            }
            kept
        });
        let root = caller.limit_key_id();
        let of_root = all.values().filter(|own| own.limit_key_id == root).count();
        let full = if of_root >= (max_callers / KEY_SHARE).max(1) {
            Some(Some(root))
        } else {
            (all.len() >= max_callers).then_some(None)
        };
        if let Some(of) = full {
            let mut idle: Vec<_> = all.iter().collect();
            idle.retain(|(_, own)| {
                of.is_none_or(|root| own.limit_key_id == root) && own.is_idle_for(MIN_IDLE_TO_EVICT)
            });
            let oldest = idle.into_iter().min_by_key(|(_, own)| own.last_used);
            let oldest = oldest.map(|(id, _)| id.clone())?;
            all.remove(&oldest).inspect(|own| own.supervisor.close());
        }
        let upstream = make()?;
        let (secret, root) = (secret.cloned(), root.to_owned());
        let own = CallerServer {
            supervisor: Arc::clone(&upstream),
            secret,
            limit_key_id: root,
            last_used: now,
        };
        all.insert(id, own);
        Some(ServerLookup::Created(upstream))
    }

    /// Closes the connection if it has been idle for the time limit. Returns whether it was
    /// removed.
    fn remove_if_idle(&self, id: &CallerId, upstream: &Arc<ServerSupervisor>) -> bool {
        let mut all = self.lock_servers();
        let found = all.get(id).filter(|own| Arc::ptr_eq(&own.supervisor, upstream));
        let Some(own) = found else { return true };
        if !own.supervisor.is_stopped() && !own.is_idle_for(CALLER_TTL) {
            return false;
        }
        own.supervisor.close();
        all.remove(id);
        true
    }

    /// Starts to close all of them.
    pub(super) fn close_all(&self) {
        self.lock_servers().values().for_each(|own| own.supervisor.close());
    }

    /// Resolves when all of them are closed.
    pub(super) fn wait_until_closed(&self) -> BoxFuture<'_, ()> {
        // Boxed: each is a `ServerSupervisor` too, though without per-caller servers of its own.
        Box::pin(async {
            let all: Vec<_> = self.lock_servers().drain().map(|(_, own)| own.supervisor).collect();
            for upstream in all {
                upstream.wait_until_closed().await;
            }
        })
    }
}

impl fmt::Debug for CallerServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callers").finish_non_exhaustive()
    }
}

impl ServerSupervisor {
    /// Returns the OAuth token provider of the endpoint, if it has one.
    pub(super) fn token_provider(&self) -> Option<&Arc<TokenProvider>> {
        self.http_endpoint()?.token_provider()
    }

    /// Whether the server has stopped and does not restart by itself.
    fn is_stopped(&self) -> bool {
        matches!(*self.state.borrow(), SupervisorState::Failed(_) | SupervisorState::Closed)
    }

    /// Whether nothing uses the server.
    fn is_idle(&self) -> bool {
        match &*self.state.borrow() {
            SupervisorState::Running(link) => link.is_idle() && self.secondary.is_idle(),
            SupervisorState::Starting => !self.is_started(),
            SupervisorState::BackingOff(_)
            | SupervisorState::Idle
            | SupervisorState::Failed(_)
            | SupervisorState::Closed => true,
        }
    }

    /// Returns the per-caller server for the caller of `ctx`; `None` if it uses the shared
    /// connection.
    pub(super) async fn server_for_caller(
        self: &Arc<Self>,
        call: &ToolCall,
        ctx: &CallContext<'_>,
    ) -> Result<Option<Arc<Self>>, ExecuteError> {
        if let Some((http, header)) =
            self.http_endpoint().and_then(|http| Some((http, http.caller_header()?)))
        {
            let secret = self.caller_secret(ctx).await?;
            let make = || {
                Some(self.for_caller(ServerConnector::Http(Arc::new(
                    http.for_caller_secret(header, &secret)?,
                ))))
            };
            let own = self.get_or_start_for_caller(ctx.caller, Some(&secret), make);
            return own.map(Some).ok_or_else(|| self.too_many_callers_error());
        }
        // A call that resumes continues on the connection where it began.
        if !self.instance_factory().unattributed_requests.is_seen() || call.resumption.is_some() {
            return Ok(None);
        }
        // Boxed: few servers send such requests.
        Box::pin(self.isolate_caller(ctx)).await
    }

    /// Gives each caller its own connection, for servers whose requests name no call.
    async fn isolate_caller(
        self: &Arc<Self>,
        ctx: &CallContext<'_>,
    ) -> Result<Option<Arc<Self>>, ExecuteError> {
        self.start();
        let link = tokio::select! {
            biased;
            link = self.wait_for_connection() => link,
            () = ctx.cancel.cancelled() => return Ok(None),
        };
        // If the server is down, the call itself reports it. A 2026-07-28 server sends its requests
        // in its answer.
        let Ok(link) = link else { return Ok(None) };
        if link.era() == ProtocolEra::Stateless || link.context.callers.try_claim(ctx.caller) {
            return Ok(None);
        }
        match self.get_or_start_for_caller(ctx.caller, None, || {
            Some(self.for_caller(self.connector().clone()))
        }) {
            Some(own) => Ok(Some(own)),
            // No client can receive a request on a shared connection.
            None if link.context.callers.is_shared() => Ok(None),
            None => Err(self.too_many_callers_error()),
        }
    }

    fn get_or_start_for_caller(
        self: &Arc<Self>,
        caller: &Caller,
        secret: Option<&Secret>,
        make: impl FnOnce() -> Option<Arc<Self>>,
    ) -> Option<Arc<Self>> {
        let max_callers = match self.connector() {
            ServerConnector::Http(_) => MAX_CALLERS.0,
            ServerConnector::Pipes(_) => MAX_CALLERS.1,
        };
        let own = match self.caller_servers.get_or_create(caller, (secret, max_callers), make)? {
            ServerLookup::Existing(own) => return Some(own),
            ServerLookup::Created(own) => own,
        };
        let kept = Arc::clone(self).run_until_idle(CallerId::from_caller(caller), Arc::clone(&own));
        drop(self.instance_factory().tasks.spawn(kept));
        Some(own)
    }

    /// Runs a caller's connection until it has been idle for the time limit.
    async fn run_until_idle(self: Arc<Self>, id: CallerId, own: Arc<Self>) {
        loop {
            tokio::select! {
                () = self.instance_factory().closing.cancelled() => own.close(),
                () = own.instance_factory().closing.cancelled() => {}
                () = sleep(CALLER_TTL) => if !self.caller_servers.remove_if_idle(&id, &own) { continue },
            }
            break;
        }
        own.close();
        // Boxed: it is a `ServerSupervisor` too, though without per-caller servers of its own.
        let closed: BoxFuture<'_, ()> = Box::pin(own.wait_until_closed());
        closed.await;
    }

    async fn caller_secret(&self, ctx: &CallContext<'_>) -> Result<Secret, ExecuteError> {
        let name = &self.name;
        let why = match ctx.credentials.find_credential(name, ctx.caller).await {
            UpstreamCredential::Secret(secret) => return Ok(secret),
            UpstreamCredential::NotNeeded => "none is configured".to_owned(),
            UpstreamCredential::Missing(why) => why,
            UpstreamCredential::NeedsConsent(url) => format!("give consent at {url}"),
        };
        let message = format!("the source `{name}` needs a credential for each caller: {why}");
        Err(ExecuteError::not_sent(ErrorCode::CredentialMissing, message))
    }

    fn too_many_callers_error(&self) -> ExecuteError {
        let message = format!("too many callers use the source `{}` at once; try again", self.name);
        ExecuteError::not_sent(ErrorCode::Busy, message)
    }
}
