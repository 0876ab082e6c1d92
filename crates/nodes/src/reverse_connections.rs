//! Reverse connections: a node dials the server and is then called over that connection.
//!
//! The node is identified by its certificate, which must be its newest. Only the newest connection
//! of a node is used, so that a dead one, for example behind a NAT, does not block a reconnect.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use host::bounded_listener::{AcceptedConnection, BoundedListener};
use proto::client::{ConnectFuture, GrpcChannel, IoStream};
use proto::node::ListRequest;
use proto::tls::accept_greeting;
use rustls::ClientConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tonic::Request;
use tool::{Clock, WallTime};

use crate::certificate_index::{CertificateIndex, certificate_fingerprint};
use crate::registry::MAX_NODES;
use crate::revocable_stream::{RevocableStream, Revocation};

/// Timeout of the greeting and the TLS handshake of a node.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of concurrent handshakes; further connections wait to be accepted.
const MAX_CONCURRENT_HANDSHAKES: usize = 64;
/// Maximum number of earlier connections of a node that stay open for their calls; the oldest are
/// closed first.
const MAX_EARLIER_CONNECTIONS: usize = 4;

/// The reverse connections of nodes, with their channels.
#[derive(Debug)]
pub(crate) struct ReverseConnections {
    connections: Mutex<HashMap<String, ReverseConnection>>,
    certificates: Arc<CertificateIndex>,
    clock: Arc<dyn Clock>,
}

/// The newest connection of a node.
#[derive(Debug)]
struct ReverseConnection {
    channel: GrpcChannel,
    revocation: Revocation,
    /// Handles of earlier connections on which calls may still run.
    earlier_revocations: Vec<Revocation>,
    /// SHA-256 of the presented certificate.
    fingerprint: String,
    /// The time when a connection last replaced one that was still open.
    replaced_at: Option<WallTime>,
}

impl ReverseConnections {
    pub(crate) fn new(certificates: Arc<CertificateIndex>, clock: Arc<dyn Clock>) -> Self {
        Self { connections: Mutex::default(), certificates, clock }
    }

    fn lock_connections(&self) -> MutexGuard<'_, HashMap<String, ReverseConnection>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the channel to a connected node.
    pub(crate) fn channel_for(&self, node: &str) -> Option<GrpcChannel> {
        self.lock_connections().get(node).map(|connected| connected.channel.clone())
    }

    /// Returns when a connection of a node last replaced one that was still open.
    pub(crate) fn replaced_at(&self, node: &str) -> Option<WallTime> {
        self.lock_connections().get(node)?.replaced_at
    }

    /// Closes the connections of a node.
    pub(crate) fn cut_node(&self, node: &str) {
        if let Some(connected) = self.lock_connections().remove(node) {
            connected.revocation.revoke();
            connected.earlier_revocations.iter().for_each(Revocation::revoke);
        }
    }

    /// Adds a connection, if the limit allows it and its certificate is still accepted. Replacing
    /// an open connection is logged, because somebody else may have the key of the node.
    fn insert_connection(
        &self,
        node: &str,
        mut new: ReverseConnection,
        certificate: &[u8],
    ) -> Result<(), String> {
        let mut connections = self.lock_connections();
        // Under the lock, so that a later revocation closes the connection.
        self.certificates.check_certificate(node, certificate)?;
        if connections.len() >= MAX_NODES && !connections.contains_key(node) {
            return Err(format!("{MAX_NODES} nodes are already connected, the maximum"));
        }
        if let Some(old) = connections.remove(node) {
            self.supersede_connection(node, &mut new, old);
        }
        connections.insert(node.to_owned(), new);
        Ok(())
    }

    /// Replaces a connection. Calls over an earlier connection with the same certificate continue;
    /// connections with another certificate are closed.
    fn supersede_connection(
        &self,
        node: &str,
        new: &mut ReverseConnection,
        old: ReverseConnection,
    ) {
        new.replaced_at = old.replaced_at;
        let is_same_certificate = old.fingerprint == new.fingerprint;
        if old.revocation.has_open_connections() {
            new.replaced_at = Some(self.clock.wall_now());
            let message = "a newer connection of the node replaces one that is still open";
            tracing::warn!(node, is_same_certificate, "{message}");
        }
        let earlier = old.earlier_revocations.into_iter().chain([old.revocation]);
        let mut open: Vec<_> = earlier.filter(Revocation::has_open_connections).collect();
        let max_kept = if is_same_certificate { MAX_EARLIER_CONNECTIONS } else { 0 };
        let surplus = open.len().saturating_sub(max_kept);
        open.drain(..surplus).for_each(|revocation| revocation.revoke());
        new.earlier_revocations = open;
    }

    /// Accepts reverse connections of nodes until it is cancelled.
    pub(crate) async fn accept_nodes(
        self: Arc<Self>,
        listener: TcpListener,
        tls: Arc<ClientConfig>,
    ) {
        let listener = BoundedListener::new(listener, MAX_CONCURRENT_HANDSHAKES);
        let mut tasks = JoinSet::new();
        loop {
            let AcceptedConnection { stream, peer, permit } = listener.accept_connection().await;
            while tasks.try_join_next().is_some() {}
            let (dialled, tls) = (Arc::clone(&self), Arc::clone(&tls));
            tasks.spawn(async move {
                let _permit = permit;
                match tokio::time::timeout(HANDSHAKE_TIMEOUT, dialled.accept_handshake(stream, tls))
                    .await
                {
                    Ok(Ok(node)) => tracing::info!(%peer, node, "node connected"),
                    Ok(Err(error)) => tracing::warn!(%peer, %error, "a node was rejected"),
                    Err(_) => tracing::warn!(%peer, "the handshake of a node timed out"),
                }
            });
        }
    }

    async fn accept_handshake(
        &self,
        stream: TcpStream,
        tls: Arc<ClientConfig>,
    ) -> io::Result<String> {
        let (node, stream) = accept_greeting(stream, tls).await?;
        let shown = stream.get_ref().1.peer_certificates().and_then(|all| all.first());
        let shown = shown.ok_or_else(|| io::Error::other("it presented no certificate"))?;
        let certificate = shown.as_ref().to_vec();
        let revocation = Revocation::default();
        let channel = single_use_channel(Box::new(RevocableStream::new(stream, &revocation)));
        // The first request starts the keepalive of the connection.
        let reply = channel.node_client().list(Request::new(ListRequest {})).await;
        reply.map_err(|status| io::Error::other(status.to_string()))?;
        let fingerprint = certificate_fingerprint(&certificate);
        let earlier = Vec::new();
        let connected = ReverseConnection {
            channel,
            revocation,
            earlier_revocations: earlier,
            fingerprint,
            replaced_at: None,
        };
        self.insert_connection(&node, connected, &certificate).map_err(io::Error::other)?;
        Ok(node)
    }
}

/// Returns a channel over one connection. After it fails, calls fail unsent until the node
/// reconnects.
fn single_use_channel(stream: Box<dyn IoStream>) -> GrpcChannel {
    let stream = Mutex::new(Some(stream));
    GrpcChannel::new(move || -> ConnectFuture {
        let taken = stream.lock().unwrap_or_else(PoisonError::into_inner).take();
        let not_connected =
            || io::Error::new(io::ErrorKind::NotConnected, "the node is not connected");
        Box::pin(async move { taken.ok_or_else(not_connected) })
    })
}
