//! Support for HTTP servers that speak both protocol eras, with and without a handshake. Toolkeep
//! keeps a connection of each era, so that a client of either era is served in its own. Calls
//! choose the connection; lists and list changes use the main one.
//!
//! A second connection costs no process, but only over HTTP, so stdio servers get one connection.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::mcp::ProtocolEra;
use tokio::time::{sleep, timeout};
use tool::source::SourceErrorKind;

use super::connection::McpConnection;
use super::http_transport::HttpEndpoint;
use super::mcp_options::EraSelection;
use super::pipe_connector::ConnectionError;
use super::server_instance::{InstanceStartError, ServerInstance};
use super::server_supervisor::{ServerConnector, ServerSupervisor, closed_error};

/// Time limit of `server/discover`. Servers older than 2026-07-28 may never answer it.
const DISCOVER_TIMEOUT: Duration = Duration::from_secs(5);
/// Head start of `server/discover` over `initialize`; none if the server ignored it last time. Then
/// the time it still has once the server has answered `initialize`.
const DISCOVER_HEAD_START: Duration = Duration::from_secs(1);
const DISCOVER_GRACE: Duration = Duration::from_millis(500);
/// Minimum and maximum delay before a closed secondary connection is opened again.
const RECONNECT_BACKOFF: (Duration, Duration) = (Duration::from_secs(10), Duration::from_mins(10));

/// Result of a start, in one or both eras.
#[derive(Debug)]
pub(super) struct StartedServer {
    pub(super) primary: ServerInstance,
    /// Connection to the same server in the other era, if it speaks both.
    pub(super) secondary: Option<ServerInstance>,
    /// Whether the server declares that it speaks both eras.
    pub(super) supports_both_eras: bool,
}

impl StartedServer {
    /// Wraps an instance that speaks one era.
    pub(super) fn single_era(main: ServerInstance) -> Self {
        Self { primary: main, secondary: None, supports_both_eras: false }
    }
}

/// Secondary connection beside the main one, while it exists.
#[derive(Debug, Default)]
pub(super) struct SecondaryConnection {
    connection: Mutex<Option<Arc<McpConnection>>>,
    /// Whether the server left the last `server/discover` unanswered.
    ignored_discover: AtomicBool,
}

impl SecondaryConnection {
    fn set_connection(&self, link: Option<Arc<McpConnection>>) {
        *self.connection.lock().unwrap_or_else(PoisonError::into_inner) = link;
    }

    /// Closes the secondary connection.
    pub(super) fn close_connection(&self) {
        let link = self.connection.lock().unwrap_or_else(PoisonError::into_inner).take();
        link.inspect(|link| link.context.close_signal.close());
    }

    /// Whether nothing uses the secondary connection.
    pub(super) fn is_idle(&self) -> bool {
        let link = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        link.as_ref().is_none_or(|link| link.is_idle())
    }

    /// Returns the secondary connection if it is open and of this era.
    fn for_era(&self, era: ProtocolEra) -> Option<Arc<McpConnection>> {
        let link = self.connection.lock().unwrap_or_else(PoisonError::into_inner).clone();
        link.filter(|link| link.era() == era && !link.is_closed())
    }
}

/// Guard of the secondary connection. When dropped, it closes a connection with a session. A
/// stateless connection stays open and usable until the next negotiation with the server.
struct SecondaryGuard<'a>(&'a ServerSupervisor, Arc<McpConnection>);

impl Drop for SecondaryGuard<'_> {
    fn drop(&mut self) {
        if self.1.era() == ProtocolEra::Handshake || self.0.is_closing() {
            self.1.context.close_signal.close();
        }
    }
}

impl ServerSupervisor {
    /// Starts the server, in each era that may work.
    ///
    /// Over pipes, `initialize` is tried first. Servers older than 2026-07-28 require it as their
    /// first message, and some exit on anything else. Servers of both eras answer it. If a server
    /// refuses it, `server/discover` follows. The era that worked is tried first next time.
    pub(super) async fn start_instance(&self) -> Result<StartedServer, ConnectionError> {
        if let (ServerConnector::Http(http), EraSelection::Detect) =
            (self.connector(), self.instance_factory().era_selection)
        {
            return self.connect_and_detect_eras(http).await;
        }
        let last_era = *self.last_era.lock().unwrap_or_else(PoisonError::into_inner);
        let eras: &[ProtocolEra] = match (self.instance_factory().era_selection, last_era) {
            (EraSelection::Handshake, _) => &[ProtocolEra::Handshake],
            (EraSelection::Stateless, _) => &[ProtocolEra::Stateless],
            (EraSelection::Detect, Some(ProtocolEra::Stateless)) => {
                &[ProtocolEra::Stateless, ProtocolEra::Handshake]
            }
            (EraSelection::Detect, _) => &[ProtocolEra::Handshake, ProtocolEra::Stateless],
        };
        let mut first_error = None;
        for era in eras {
            match self.start_in_era(*era).await {
                Ok(session) => {
                    *self.last_era.lock().unwrap_or_else(PoisonError::into_inner) = Some(*era);
                    return Ok(StartedServer::single_era(session));
                }
                Err(InstanceStartError { error: fault, is_era_rejected: dialect }) => {
                    let fault = first_error.get_or_insert(fault);
                    if !dialect {
                        return Err(fault.clone());
                    }
                }
            }
        }
        Err(first_error.unwrap_or_else(closed_error))
    }

    pub(super) async fn start_in_era(
        &self,
        era: ProtocolEra,
    ) -> Result<ServerInstance, InstanceStartError> {
        match self.connector() {
            ServerConnector::Pipes(dial) => self.instance_factory().open_pipes(dial, era).await,
            ServerConnector::Http(http) => self.instance_factory().open_http(http, era).await,
        }
    }

    /// Returns the connection of this era, or else the existing one.
    pub(super) async fn connection_for_era(
        self: &Arc<Self>,
        era: ProtocolEra,
    ) -> Result<Arc<McpConnection>, ConnectionError> {
        match self.secondary.for_era(era) {
            Some(link) => Ok(link),
            None => self.wait_for_connection().await,
        }
    }

    /// Connects to an endpoint in each era that it speaks.
    ///
    /// `server/discover` is sent first, as MCP specifies for HTTP. It ends no session, and a
    /// 2026-07-28 server lists the other versions that it speaks. An endpoint that rejects it gets
    /// `initialize`. So does, in parallel, an endpoint that takes long: one that never answers
    /// would delay its own tools.
    pub(super) async fn connect_and_detect_eras(
        &self,
        http: &Arc<HttpEndpoint>,
    ) -> Result<StartedServer, ConnectionError> {
        let initialized = || self.instance_factory().open_http(http, ProtocolEra::Handshake);
        let mut probe = pin!(timeout(
            DISCOVER_TIMEOUT,
            self.instance_factory().open_http(http, ProtocolEra::Stateless)
        ));
        let head_start = if self.secondary.ignored_discover.load(Ordering::Relaxed) {
            Duration::ZERO
        } else {
            DISCOVER_HEAD_START
        };
        let (mut discovered, mut met) = (timeout(head_start, &mut probe).await.ok(), None);
        if discovered.is_none() {
            tokio::select! {
                answer = &mut probe => discovered = Some(answer),
                older = initialized() => {
                    let grace = if older.is_ok() { DISCOVER_GRACE.min(head_start) } else { DISCOVER_TIMEOUT };
                    discovered = timeout(grace, &mut probe).await.ok();
                    met = Some(older);
                }
            }
        }
        let met = async || match met {
            Some(met) => met,
            None => initialized().await,
        };
        let said = discovered.and_then(Result::ok);
        self.secondary.ignored_discover.store(said.is_none(), Ordering::Relaxed);
        let probe = match said {
            Some(Ok(stateless)) if stateless.connection.negotiated().supports_both_eras => {
                return Ok(match met().await {
                    Ok(main) => StartedServer {
                        primary: main,
                        secondary: Some(stateless),
                        supports_both_eras: true,
                    },
                    Err(_) => StartedServer {
                        primary: stateless,
                        secondary: None,
                        supports_both_eras: true,
                    },
                });
            }
            Some(Ok(stateless)) => return Ok(StartedServer::single_era(stateless)),
            Some(Err(InstanceStartError { error: fault, .. })) => Some(fault),
            None => None,
        };
        let there = |fault: &ConnectionError| {
            !matches!(fault.kind, SourceErrorKind::Unreachable | SourceErrorKind::Blocked)
        };
        if let Some(unreachable) = probe.clone().filter(|fault| !there(fault) || self.is_closing())
        {
            return Err(unreachable);
        }
        // If only a login is missing, the outcome of `initialize` is irrelevant.
        let login = probe.filter(ConnectionError::needs_login);
        met().await.map(StartedServer::single_era).map_err(|failed| login.unwrap_or(failed.error))
    }

    /// Keeps the secondary connection open beside the main one of `era`, while this future is
    /// polled.
    pub(super) async fn maintain_secondary(
        &self,
        era: ProtocolEra,
        (mut other, supports_both_eras): (Option<ServerInstance>, bool),
    ) {
        let era = match era {
            ProtocolEra::Handshake => ProtocolEra::Stateless,
            ProtocolEra::Stateless => ProtocolEra::Handshake,
        };
        if other.is_none() {
            self.secondary.set_connection(None);
        }
        let mut wait = RECONNECT_BACKOFF.0;
        while supports_both_eras && !self.is_closing() {
            if let Some(session) = other.take() {
                tracing::info!(
                    source = %self.name,
                    ?era,
                    "an MCP server supports both protocol eras"
                );
                self.secondary.set_connection(Some(Arc::clone(&session.connection)));
                let _kept = SecondaryGuard(self, Arc::clone(&session.connection));
                let fault = session.run_until_closed(self.instance_factory()).await;
                tracing::warn!(source = %self.name, ?era, fault = %fault.message,
                    "an MCP server no longer supports one of the two protocol eras");
                wait = RECONNECT_BACKOFF.0;
            }
            if !self.is_closing() {
                sleep(wait).await;
                wait = wait.saturating_mul(2).min(RECONNECT_BACKOFF.1);
                other = self.start_in_era(era).await.ok();
            }
        }
    }
}
