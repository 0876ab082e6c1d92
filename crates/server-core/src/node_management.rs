//! Management of nodes: their list, draining, and revocation, with the rights that each needs.

use identity::{KeyRecord, Principal, Right};
use schemars::JsonSchema;
use serde::Serialize;
use tool::ErrorCode;
use tool::node_registry::{
    CertificateState, HeartbeatState, NodeAccess, NodeCertificate, NodeError, NodeRegistry,
    NodeStatus, RegistryStaleness, ResolveError,
};

use crate::error::ApiError;
use crate::node_rights::node_access;
use crate::server_state::ServerState;

/// The nodes that a caller may know.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NodeListReply {
    /// The nodes, in the order of their first registration.
    pub nodes: Vec<NodeReply>,
    /// Set if the store of the registry is unavailable and the list comes from the last known
    /// state.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "stale")]
    pub staleness: Option<StaleRegistryReply>,
}

/// A registry that is served from memory.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StaleRegistryReply {
    /// Since when, RFC 3339.
    pub since: String,
    /// Reason; requires the right `nodes:resolve`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A node and its state.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NodeReply {
    /// ID of the node.
    pub node_id: String,
    /// Number of registered tools.
    pub tools: usize,
    /// State that the node reported: `serving` or `draining`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub state: Option<HeartbeatState>,
    /// Whether an operator drained it: it receives no calls until it is resumed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub drained: bool,
    /// Time of the last heartbeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "seen")]
    pub last_seen: Option<String>,
    /// Address of the node; requires the right `nodes:resolve`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Whether the node has no address and is called over its own connection to the server.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[serde(rename = "own_connection")]
    pub uses_own_connection: bool,
    /// Reason why the node cannot be called; requires the right `nodes:resolve`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Time at which a new connection of the node last replaced an open one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaced: Option<String>,
    /// Stored certificates of the node, newest first.
    pub certificates: Vec<CertificateReply>,
}

/// A certificate of a node.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CertificateReply {
    /// Serial number in hexadecimal digits.
    pub serial: String,
    /// SHA-256 of the public key.
    pub public_key: String,
    /// Time of issue, RFC 3339.
    pub issued: String,
    /// Time at which it expires, RFC 3339.
    pub expires: String,
    /// State: `current` (the only accepted one), `replaced`, `revoked` or `expired`.
    #[schemars(with = "String")]
    pub state: CertificateState,
}

impl From<NodeCertificate> for CertificateReply {
    fn from(it: NodeCertificate) -> Self {
        let (issued, expires) = (it.issued_at.to_string(), it.expires_at.to_string());
        Self {
            serial: it.serial,
            public_key: it.public_key_digest,
            issued,
            expires,
            state: it.state,
        }
    }
}

/// The keys that were revoked with a node.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NodeRevocationReply {
    /// ID of the node.
    pub node_id: String,
    /// IDs of the revoked keys, which had no other right than to register the node.
    pub keys: Vec<String>,
}

/// Returns the registry of nodes.
///
/// # Errors
/// [`ErrorCode::NotFound`] without one.
pub fn node_registry(state: &ServerState) -> Result<&dyn NodeRegistry, ApiError> {
    let missing = || ApiError::new(ErrorCode::NotFound, "this server has no registry of nodes");
    state.components.node_registry.as_deref().ok_or_else(missing)
}

/// Lists nodes. A caller sees the nodes it may act for; with the right `nodes:resolve`, all.
///
/// # Errors
/// [`ErrorCode::NotFound`] without a registry.
pub fn list_nodes(state: &ServerState, principal: &Principal) -> Result<NodeListReply, ApiError> {
    let (by, may) = (node_access(principal), principal.has_right(Right::NodesResolve));
    let registry = node_registry(state)?;
    let all = registry.list_nodes().into_iter();
    let seen = all.filter(|node| may || by.allows_node(&node.node_id));
    let nodes = seen.map(|node| node_reply(registry, node, may)).collect();
    let stale = registry.staleness().map(|RegistryStaleness { since, reason: why }| {
        StaleRegistryReply { since: since.to_string(), why: Some(why).filter(|_| may) }
    });
    Ok(NodeListReply { nodes, staleness: stale })
}

/// Shows one node with its certificates.
///
/// # Errors
/// [`ErrorCode::NotFound`] for an unknown node, and one that the caller may not know.
pub fn show_node(
    state: &ServerState,
    principal: &Principal,
    node_id: &str,
) -> Result<NodeReply, ApiError> {
    let (by, may) = (node_access(principal), principal.has_right(Right::NodesResolve));
    let registry = node_registry(state)?;
    let seen = may || by.allows_node(node_id);
    let node = registry.list_nodes().into_iter().find(|node| seen && node.node_id == node_id);
    let node = node.ok_or_else(|| unknown_node(node_id))?;
    Ok(node_reply(registry, node, may))
}

fn unknown_node(node_id: &str) -> ApiError {
    ApiError::new(ErrorCode::NotFound, format!("no node `{}`", node_id.escape_debug()))
        .with_help("run `toolkeep node list` to see all nodes")
}

/// Revokes a node's keys and certificates, and closes its connections. Keys go first: with a valid
/// key the node could obtain another certificate in between.
///
/// # Errors
/// [`ErrorCode::Forbidden`] without the right; [`ErrorCode::NotFound`] for an unknown node; an error
/// if the store does not respond.
pub async fn revoke_node(
    state: &ServerState,
    principal: &Principal,
    node_id: String,
) -> Result<NodeRevocationReply, ApiError> {
    let registry = node_registry(state)?;
    require_operator(principal)?;
    let now = state.components.clock.wall_now();
    let ring = state.components.keys.key_ring();
    let of_node = |record: &&&KeyRecord| {
        let only = [Right::NodesRegister, Right::NodesJoin];
        let rights = &record.rights;
        let registers = !rights.is_empty() && rights.iter().all(|right| only.contains(right));
        registers && record.subject == node_id && record.org == *principal.org()
    };
    let records = ring.sorted_records();
    let live = records.iter().filter(of_node);
    let live = live.filter(|record| ring.invalid_reason(record.id.as_str(), now).is_none());
    let keys: Vec<String> = live.map(|record| record.id.to_string()).collect();
    for key in &keys {
        state.components.keys.revoke_key(key, now).await?;
    }
    match registry.revoke_certificates(&NodeAccess::All, &node_id).await {
        // A manually created key of a node that never registered.
        Err(NodeError::NotFound) if !keys.is_empty() => {}
        Err(NodeError::NotFound) => return Err(unknown_node(&node_id)),
        Err(fault) => return Err(ApiError::new(ErrorCode::StoreUnavailable, fault.to_string())),
        Ok(()) => {}
    }
    tracing::info!(node = node_id, by = principal.key_id(), "node revoked");
    Ok(NodeRevocationReply { node_id, keys })
}

/// Sends no further calls to a node, or sends them again. It holds until this server restarts.
///
/// # Errors
/// [`ErrorCode::Forbidden`] without the right; [`ErrorCode::NotFound`] for an unknown node.
pub fn drain_node(
    state: &ServerState,
    principal: &Principal,
    node_id: &str,
    drained: bool,
) -> Result<NodeReply, ApiError> {
    let registry = node_registry(state)?;
    require_operator(principal)?;
    let done = registry.set_drained(&NodeAccess::All, node_id, drained);
    done.map_err(|_| unknown_node(node_id))?;
    tracing::info!(node = node_id, drained, by = principal.key_id(), "node drained or resumed");
    show_node(state, principal, node_id)
}

fn require_operator(principal: &Principal) -> Result<(), ApiError> {
    if node_access(principal) == NodeAccess::All {
        return Ok(());
    }
    Err(ApiError::missing_right(Right::NodesWrite))
}

fn node_reply(registry: &dyn NodeRegistry, node: NodeStatus, may: bool) -> NodeReply {
    let NodeStatus {
        node_id,
        tool_count: tools,
        last_heartbeat: beat,
        endpoint,
        connection_replaced_at: replaced,
        is_drained: drained,
    } = node;
    let certificates = registry.list_certificates(&node_id).into_iter().map(Into::into).collect();
    let own_connection = matches!(endpoint, Err(ResolveError::OwnConnection(_)));
    let (endpoint, problem) = match endpoint {
        Ok(endpoint) => (Some(endpoint), None),
        Err(_) if own_connection => (None, None),
        Err(error) => (None, Some(error.to_string())),
    };
    NodeReply {
        node_id,
        tools,
        state: beat.map(|beat| beat.state),
        drained,
        last_seen: beat.map(|beat| beat.received_at.to_string()),
        endpoint: endpoint.filter(|_| may),
        uses_own_connection: own_connection,
        problem: problem.filter(|_| may),
        replaced: replaced.map(|at| at.to_string()),
        certificates,
    }
}
