//! The gRPC channels to nodes, one per address, opened on first use.

use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use egress::{EgressClient, EgressError, Origin};
use proto::client::{GrpcChannel, IoStream};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::runtime::Handle;
use tool::node_registry::ResolveError;
use tool::{Clock, FastMap};

use crate::certificate_index::CertificateIndex;
use crate::reverse_connections::ReverseConnections;
use crate::revocable_stream::{RevocableStream, Revocation};
use crate::{NodeAddresses, NodeLocator};

/// Timeout of a connection to a node.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The addresses of nodes and the channels to them.
#[derive(Debug)]
pub(crate) struct NodeChannels {
    pub(crate) addresses: ArcSwap<NodeAddresses>,
    /// Finds the addresses of nodes that the configuration does not list.
    pub(crate) locator: OnceLock<Arc<dyn NodeLocator>>,
    /// Connections that nodes opened.
    pub(crate) reverse_connections: Arc<ReverseConnections>,
    certificates: Arc<CertificateIndex>,
    egress: EgressClient,
    /// The TLS configuration for calls to nodes; unset without a certificate authority.
    client_tls: OnceLock<Arc<ClientConfig>>,
    cached_channels: Mutex<FastMap<String, CachedChannel>>,
    /// The runtime of the channels' tasks.
    runtime: Handle,
}

/// A channel, and the address it was opened for.
#[derive(Debug)]
struct CachedChannel {
    /// The operator's addresses, if the address is one of them. While they are unchanged, so is the
    /// address.
    operator_addresses: Option<Arc<NodeAddresses>>,
    origin: Origin,
    channel: GrpcChannel,
    revocation: Revocation,
}

impl NodeChannels {
    /// Creates the channel cache. Must be called on a runtime that outlives all calls.
    pub(crate) fn new(
        egress: EgressClient,
        certificates: Arc<CertificateIndex>,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        let (addresses, open) = (ArcSwap::default(), Mutex::default());
        let (locator, tls) = (OnceLock::new(), OnceLock::new());
        let dialled =
            Arc::new(ReverseConnections::new(Arc::clone(&certificates), Arc::clone(clock)));
        let runtime = Handle::current();
        Self {
            addresses,
            locator,
            reverse_connections: dialled,
            certificates,
            egress,
            client_tls: tls,
            cached_channels: open,
            runtime,
        }
    }

    /// Closes all connections to and from a node, including running calls.
    pub(crate) fn cut_node(&self, node: &str) {
        let removed =
            self.cached_channels.lock().unwrap_or_else(PoisonError::into_inner).remove(node);
        if let Some(open) = removed {
            open.revocation.revoke();
        }
        self.reverse_connections.cut_node(node);
    }

    /// Resolves the address of a node, from the operator first, then from the locator.
    pub(crate) fn resolve_origin(&self, node: &str) -> Result<Origin, ResolveError> {
        let addresses = self.addresses.load();
        match (addresses.resolve_origin(node), self.locator.get()) {
            (Err(ResolveError::NoAddress(_)), Some(locator)) => {
                addresses.validate_url(node, &locator.node_url(node)?, false)
            }
            (resolved, _) => resolved,
        }
    }

    /// Returns the TLS configuration for calls to nodes.
    pub(crate) fn client_tls(&self) -> Option<Arc<ClientConfig>> {
        self.client_tls.get().cloned()
    }

    /// Returns the channel over a reverse connection, unless the operator configured an address.
    pub(crate) fn reverse_channel(&self, node: &str) -> Option<GrpcChannel> {
        let has_operator_address = self.addresses.load().urls.contains_key(node);
        if has_operator_address { None } else { self.reverse_connections.channel_for(node) }
    }

    /// Enables TLS for calls to nodes. Later calls have no effect.
    pub(crate) fn set_client_tls(&self, tls: Arc<ClientConfig>) {
        drop(self.client_tls.set(tls));
    }

    /// Returns the channel to the current address of a node. A channel to an earlier address is
    /// dropped.
    pub(crate) fn channel_for(&self, node: &str) -> Result<GrpcChannel, ResolveError> {
        let addresses = self.addresses.load();
        let written = addresses.urls.contains_key(node);
        let open = || self.cached_channels.lock().unwrap_or_else(PoisonError::into_inner);
        if written {
            let is_current = |open: &&CachedChannel| {
                open.operator_addresses.as_ref().is_some_and(|of| Arc::ptr_eq(of, &addresses))
            };
            if let Some(found) = open().get(node).filter(is_current) {
                return Ok(found.channel.clone());
            }
        } else if let Some(reverse_channel) = self.reverse_connections.channel_for(node) {
            return Ok(reverse_channel);
        }
        let origin = self.resolve_origin(node)?;
        let written = written.then(|| Arc::clone(&addresses));
        let mut open = open();
        if let Some(found) = open.get_mut(node)
            && found.origin == origin
        {
            found.operator_addresses = written;
            return Ok(found.channel.clone());
        }
        // Under the lock, so that a later revocation closes the channel.
        let unusable =
            |why: String| ResolveError::InvalidAddress { node: node.to_owned(), reason: why };
        self.certificates.check_node(node).map_err(unusable)?;
        // Calls may still run at the earlier address; a revocation closes both.
        let revocation = open.get(node).map(|old| old.revocation.clone()).unwrap_or_default();
        let line = self.open_channel(node, &origin, &revocation)?;
        open.insert(
            node.to_owned(),
            CachedChannel {
                operator_addresses: written,
                origin,
                channel: line.clone(),
                revocation,
            },
        );
        Ok(line)
    }

    fn open_channel(
        &self,
        node: &str,
        origin: &Origin,
        revocation: &Revocation,
    ) -> Result<GrpcChannel, ResolveError> {
        let revocation = revocation.clone();
        let (egress, origin) = (self.egress.clone(), Arc::new(origin.clone()));
        let tls = origin.is_https().then(|| self.tls_for(node)).transpose()?;
        let node: Arc<str> = node.into();
        let _runtime = self.runtime.enter();
        Ok(GrpcChannel::with_runtime_connections(move || {
            let (egress, origin, tls) = (egress.clone(), Arc::clone(&origin), tls.clone());
            let (node, revocation) = (Arc::clone(&node), revocation.clone());
            Box::pin(async move {
                let stream = dial_node(&egress, &origin, tls, &revocation).await;
                // The caller learns only that the node is unreachable.
                let log_error =
                    |error: &EgressError| tracing::warn!(%node, %error, "cannot reach a node");
                stream.inspect_err(log_error).map_err(io::Error::other)
            })
        }))
    }

    /// Returns the TLS configuration for a node, and the server name of its certificate.
    fn tls_for(
        &self,
        node: &str,
    ) -> Result<(Arc<ClientConfig>, ServerName<'static>), ResolveError> {
        let unusable =
            |why: String| ResolveError::InvalidAddress { node: node.to_owned(), reason: why };
        let no_authority = || unusable("this server has no node authority; use `http`".to_owned());
        let tls = self.client_tls.get().ok_or_else(no_authority)?;
        let name = proto::tls::node_server_name(node);
        Ok((Arc::clone(tls), name.map_err(|error| unusable(error.to_string()))?))
    }
}

async fn dial_node(
    egress: &EgressClient,
    origin: &Origin,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    revocation: &Revocation,
) -> Result<Box<dyn IoStream>, EgressError> {
    Ok(match tls {
        Some(tls) => {
            let stream = egress.connect_tls_stream(origin, tls, CONNECT_TIMEOUT).await?;
            Box::new(RevocableStream::new(stream, revocation))
        }
        None => Box::new(RevocableStream::new(
            egress.connect_stream(origin, CONNECT_TIMEOUT).await?,
            revocation,
        )),
    })
}
