//! The registry of the tools of nodes, and of the owners of tool names.
//!
//! Records are stored, and cached in memory for reading. Every write is a compare-and-set. The
//! owner of a name is written before the tool, so that a crash in between leaves a claimed name
//! without a tool, never a tool without an owner.

mod cache;
mod certificates;
mod name_ownership;
mod records;
mod sync;
mod tool_registration;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use egress::EgressClient;
use node_addresses::{SharedNames, host_and_port};
use option_types::ToolSelection;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tool::node_registry::{
    HeartbeatState, IssuedCertificate, KeyProof, NodeAccess, NodeCertificate, NodeError,
    NodeRegistry, NodeStatus, NodeTool, RegistryStaleness, ResolveError,
};
use tool::{BoxFuture, Clock, MessageBus, Store, StoreError};

use crate::peer_events::{PeerEvent, PeerLink};
use crate::registry_store::{LocalRegistryStore, RegistryStore};
use crate::{
    CertificateAuthority, CertificateAuthorityError, NodeAddresses, NodeLocator, NodeSource,
};
pub(crate) use cache::RegistryContext;
pub(crate) use records::{KEY_PREFIXES, is_announced_key};
pub use records::{ToolRecord, parse_tool_key, tool_key};

/// Maximum number of nodes.
pub const MAX_NODES: usize = 1_000;
/// Maximum number of tools of one node.
pub const MAX_TOOLS_PER_NODE: usize = 1_000;
/// Maximum number of attempts of a conflicting write.
const MAX_WRITE_ATTEMPTS: usize = 5;

/// The registry of the tools of nodes, with persistent storage.
#[derive(Debug)]
pub struct PersistentNodeRegistry {
    pub(crate) context: Arc<RegistryContext>,
    sources: Mutex<HashMap<String, Arc<NodeSource>>>,
    authority: OnceLock<CertificateAuthority>,
    /// Whether other servers write to the registry.
    is_shared: bool,
}

impl PersistentNodeRegistry {
    /// Opens the registry in the store of this server and loads all records. Must be called on a
    /// runtime that outlives all calls.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn open_local(
        store: Arc<dyn Store>,
        egress: EgressClient,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StoreError> {
        let registry =
            Self::with_store((Arc::new(LocalRegistryStore(store)), false), egress, clock);
        registry.context.reload_all().await?;
        Ok(registry)
    }

    /// Opens a registry that several servers share. If the store is unavailable, the registry
    /// starts empty and stale, and loads as soon as the store responds; [`PersistentNodeRegistry::run_sync`] must
    /// run. Must be called on a runtime that outlives all calls.
    pub async fn open_shared(
        store: Arc<dyn RegistryStore>,
        egress: EgressClient,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let registry = Self::with_store((store, true), egress, clock);
        if let Err(error) = registry.context.reload_all().await {
            registry.context.set_staleness(Some(error.to_string()));
        }
        registry
    }

    fn with_store(
        (store, is_shared): (Arc<dyn RegistryStore>, bool),
        egress: EgressClient,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let context = Arc::new(RegistryContext::new(store, egress, clock));
        Self { context, sources: Mutex::default(), authority: OnceLock::new(), is_shared }
    }

    /// Sets the authority that issues node certificates, and enables TLS for calls to nodes. Later
    /// calls have no effect.
    ///
    /// # Errors
    /// [`CertificateAuthorityError`].
    pub fn set_authority(
        &self,
        authority: CertificateAuthority,
    ) -> Result<(), CertificateAuthorityError> {
        let acceptance =
            Arc::clone(&self.context.certificates) as Arc<dyn proto::tls::CertificateAcceptance>;
        self.context.channels.set_client_tls(
            authority.build_client_config(self.context.clock.wall_now(), Some(acceptance))?,
        );
        drop(self.authority.set(authority));
        Ok(())
    }

    /// Sets the operator's addresses of nodes.
    pub fn set_addresses(&self, addresses: NodeAddresses) {
        self.context.channels.addresses.store(Arc::new(addresses));
    }

    /// Sets the operator's list of tools without side effects. Sources that were already listed
    /// must be listed again.
    pub fn set_read_only(&self, tools: ToolSelection) {
        self.context.read_only.store(Arc::new(tools));
    }

    /// Sets the operator's list of names that nodes may share. Sources that were already listed
    /// must be listed again.
    pub fn set_sharing(&self, sharing: SharedNames) {
        self.context.sharing.store(Arc::new(sharing));
    }

    /// Sets the locator of nodes that the configuration does not list. Later calls have no effect.
    /// The caller runs the locator.
    pub fn set_locator(&self, locator: Arc<impl NodeLocator + 'static>) {
        locator.set_outbox(self.context.outbox.clone());
        drop(self.context.channels.locator.set(locator));
    }

    /// Sets the message bus to the other servers of this registry. Later calls have no effect. The
    /// caller runs [`PersistentNodeRegistry::run_peer_events`].
    pub fn set_message_bus(&self, bus: Arc<dyn MessageBus>) {
        let server_id = uuid::Uuid::new_v4().simple().to_string();
        if let Some(peer_link) = PeerLink::connect(bus, &self.context.outbox, server_id)
            && let Ok(mut slot) = self.context.peer_link.try_lock()
        {
            *slot = Some(peer_link);
        }
    }

    /// Accepts reverse connections of nodes until it is cancelled. Each node must present its
    /// certificate. A configured address of a node takes precedence.
    pub async fn accept_nodes(&self, listener: TcpListener) {
        let Some(tls) = self.context.channels.client_tls() else {
            tracing::error!("this server has no node authority, so no node can connect");
            return std::future::pending().await;
        };
        Arc::clone(&self.context.channels.reverse_connections).accept_nodes(listener, tls).await;
    }

    /// Subscribes to new nodes.
    pub fn subscribe_node_set(&self) -> watch::Receiver<u64> {
        self.context.node_set_version.subscribe()
    }

    /// Returns one source per node, in the order of their first registration. A node keeps its
    /// source.
    pub fn node_sources(&self) -> Vec<Arc<NodeSource>> {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let node_ids = self.context.node_ids();
        let source_for = |node: String| {
            if let Some(source) = sources.get(&node) {
                return Some(Arc::clone(source));
            }
            let source = NodeSource::new(&node, Arc::clone(&self.context));
            let source = source.map_err(|error| tracing::warn!(node, %error, "node omitted"));
            let source = Arc::new(source.ok()?);
            sources.insert(node, Arc::clone(&source));
            Some(source)
        };
        node_ids.into_iter().filter_map(source_for).collect()
    }

    fn require_authority(&self) -> Result<&CertificateAuthority, NodeError> {
        let no_authority = || {
            NodeError::Unavailable(
                "this server does not sign node \
            certificates"
                    .to_owned(),
            )
        };
        self.authority.get().ok_or_else(no_authority)
    }
}

fn contention_error(key: &str) -> NodeError {
    NodeError::Unavailable(format!("`{key}` has too many concurrent changes; try again"))
}

fn authority_error(error: CertificateAuthorityError) -> NodeError {
    match error {
        CertificateAuthorityError::InvalidRequest(message) => {
            NodeError::InvalidDocument(message.to_owned())
        }
        CertificateAuthorityError::Unusable(message) => NodeError::Unavailable(message),
    }
}

impl NodeRegistry for PersistentNodeRegistry {
    fn register_tool<'a>(
        &'a self,
        by: &'a NodeAccess,
        tool: NodeTool,
    ) -> BoxFuture<'a, Result<String, NodeError>> {
        Box::pin(self.store_registration(by, tool))
    }

    fn remove_tool<'a>(
        &'a self,
        by: &'a NodeAccess,
        node: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<(), NodeError>> {
        Box::pin(self.unregister_tool(by, node, name))
    }

    fn find_tool(&self, node: &str, name: &str) -> Option<NodeTool> {
        self.context.get_tool(node, name).map(|cached| cached.tool)
    }

    fn list_tools(&self, node: &str) -> Vec<NodeTool> {
        self.context.list_tools(node).1
    }

    fn resolve_endpoint(&self, node: &str) -> Result<String, ResolveError> {
        if self.context.channels.reverse_channel(node).is_some() {
            return Err(ResolveError::OwnConnection(node.to_owned()));
        }
        self.context.channels.resolve_origin(node).map(|origin| host_and_port(&origin))
    }

    fn accepts_calls(&self, node: &str) -> bool {
        self.context.heartbeat_state(node) != Some(HeartbeatState::Draining)
            && self.context.is_preferred(node)
    }

    fn record_heartbeat(
        &self,
        by: &NodeAccess,
        node: &str,
        beat: HeartbeatState,
    ) -> Result<(), NodeError> {
        if !by.allows_node(node) {
            return Err(NodeError::NotAuthorized(node.to_owned()));
        }
        self.context.record_heartbeat(node, beat)?;
        self.context.outbox.send_event(|| PeerEvent::Heartbeat(node.to_owned(), beat));
        Ok(())
    }

    fn set_drained(&self, by: &NodeAccess, node: &str, drained: bool) -> Result<(), NodeError> {
        if *by != NodeAccess::All {
            return Err(NodeError::NotAuthorized(node.to_owned()));
        }
        self.context.set_drained(node, drained)?;
        self.context.outbox.send_event(|| PeerEvent::Drained(node.to_owned(), drained));
        Ok(())
    }

    fn check_certificate_request(
        &self,
        by: &NodeAccess,
        node: &str,
        proof: KeyProof<'_>,
    ) -> Result<(), NodeError> {
        if !by.allows_node(node) {
            return Err(NodeError::NotAuthorized(node.to_owned()));
        }
        self.require_authority()?;
        CertificateAuthority::check_proof(node, proof).map_err(authority_error)
    }

    fn issue_certificate<'a>(
        &'a self,
        by: &'a NodeAccess,
        node: &'a str,
        proof: KeyProof<'a>,
        issued_with: Option<&'a str>,
    ) -> BoxFuture<'a, Result<IssuedCertificate, NodeError>> {
        Box::pin(self.sign_certificate((by, node), proof, issued_with))
    }

    fn revoke_certificates<'a>(
        &'a self,
        by: &'a NodeAccess,
        node: &'a str,
    ) -> BoxFuture<'a, Result<(), NodeError>> {
        Box::pin(self.revoke_node(by, node))
    }

    fn list_certificates(&self, node: &str) -> Vec<NodeCertificate> {
        self.context.certificates.list_certificates(node)
    }

    fn staleness(&self) -> Option<RegistryStaleness> {
        self.context.staleness()
    }

    fn list_nodes(&self) -> Vec<NodeStatus> {
        let mut known = self.context.node_ids();
        // Nodes that joined and have no tools yet come last.
        let mut joined: Vec<_> = self.context.certificates.record_versions();
        joined.retain(|(node, _)| !self.context.has_node(node));
        joined.sort_unstable();
        known.extend(joined.into_iter().map(|(node, _)| node));
        known
            .into_iter()
            .map(|node| self.context.node_status(node, |node| self.resolve_endpoint(node)))
            .collect()
    }
}

#[cfg(test)]
mod tests;
