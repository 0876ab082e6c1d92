//! `/v1/nodes`: the nodes that run tools, their certificates and heartbeats.

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Extension, Json as Reply};
use identity::{KeyRecord, Principal, Right};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::ErrorCode;
use tool::node_registry::{
    CertificateState, HeartbeatState, NodeAccess, NodeCertificate, NodeError, NodeRegistry,
    NodeStatus, RegistryStaleness, ResolveError,
};

use server_core::body::DecodedBody;
use server_core::error::ApiError;
use server_core::node_rights::node_access;
use server_core::route::ApiRoute;
use server_core::server_state::ServerState;

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::new("get", "/v1/nodes", "List the nodes and their state", get(list_nodes))
            .with_reply::<NodeListReply>(),
        ApiRoute::new(
            "get",
            "/v1/nodes/{node_id}",
            "Get a node and its certificates",
            get(show_node),
        )
        .with_reply::<NodeReply>(),
        ApiRoute::new(
            "post",
            "/v1/nodes/{node_id}/revoke",
            "Revoke a node's certificates and keys, and close its connections",
            post(revoke_node),
        )
        .with_reply::<NodeRevocationReply>(),
        heartbeat_route(),
    ]
}

/// The route for heartbeats, which is also served on the registration listener.
pub fn heartbeat_route() -> ApiRoute {
    ApiRoute::new(
        "post",
        "/v1/nodes/{node_id}/heartbeat",
        "Send the heartbeat of a node",
        post(record_heartbeat),
    )
    .with_body::<HeartbeatBody>()
    .with_reply::<HeartbeatReply>()
}

#[derive(Debug, Serialize, JsonSchema)]
struct NodeListReply {
    nodes: Vec<NodeReply>,
    /// Set if the store of the registry is unavailable and the list comes from the last known
    /// state.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "stale")]
    staleness: Option<StaleRegistryReply>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct StaleRegistryReply {
    since: String,
    /// Reason; requires the right `nodes:resolve`.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct NodeReply {
    node_id: String,
    /// Number of registered tools.
    tools: usize,
    /// State that the node reported: `serving` or `draining`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    state: Option<HeartbeatState>,
    /// Time of the last heartbeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "seen")]
    last_seen: Option<String>,
    /// Address of the node; requires the right `nodes:resolve`.
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoint: Option<String>,
    /// Whether the node has no address and is called over its own connection to the server.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[serde(rename = "own_connection")]
    uses_own_connection: bool,
    /// Reason why the node cannot be called; requires the right `nodes:resolve`.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// Time at which a new connection of the node last replaced an open one.
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced: Option<String>,
    /// Stored certificates of the node, newest first.
    certificates: Vec<CertificateReply>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CertificateReply {
    /// Serial number in hexadecimal digits.
    serial: String,
    /// SHA-256 of the public key.
    public_key: String,
    issued: String,
    expires: String,
    /// State: `current` (the only accepted one), `replaced`, `revoked` or `expired`.
    #[schemars(with = "String")]
    state: CertificateState,
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

#[derive(Debug, Serialize, JsonSchema)]
struct NodeRevocationReply {
    node_id: String,
    /// IDs of the revoked keys, which had no other right than to register the node.
    keys: Vec<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HeartbeatBody {
    /// State: `serving`, or `draining` if the node accepts no new calls.
    #[schemars(with = "String")]
    state: HeartbeatState,
}

#[derive(Debug, Serialize, JsonSchema)]
struct HeartbeatReply {
    node_id: String,
    /// State that the node reported.
    #[schemars(with = "String")]
    state: HeartbeatState,
}

pub(crate) fn node_registry(state: &ServerState) -> Result<&dyn NodeRegistry, ApiError> {
    let missing = || ApiError::new(ErrorCode::NotFound, "this server has no registry of nodes");
    state.components.node_registry.as_deref().ok_or_else(missing)
}

/// Lists nodes. A caller sees the nodes it may act for; with the right `nodes:resolve`, all.
async fn list_nodes(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
) -> Result<Reply<NodeListReply>, ApiError> {
    let (by, may) = (node_access(&principal), principal.has_right(Right::NodesResolve));
    let registry = node_registry(&state)?;
    let all = registry.list_nodes().into_iter();
    let seen = all.filter(|node| may || by.allows_node(&node.node_id));
    let nodes = seen.map(|node| node_reply(registry, node, may)).collect();
    let stale = registry.staleness().map(|RegistryStaleness { since, reason: why }| {
        StaleRegistryReply { since: since.to_string(), why: Some(why).filter(|_| may) }
    });
    Ok(Reply(NodeListReply { nodes, staleness: stale }))
}

async fn show_node(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(node_id): Path<String>,
) -> Result<Reply<NodeReply>, ApiError> {
    let (by, may) = (node_access(&principal), principal.has_right(Right::NodesResolve));
    let registry = node_registry(&state)?;
    let seen = may || by.allows_node(&node_id);
    let node = registry.list_nodes().into_iter().find(|node| seen && node.node_id == node_id);
    let node = node.ok_or_else(|| unknown_node(&node_id))?;
    Ok(Reply(node_reply(registry, node, may)))
}

fn unknown_node(node_id: &str) -> ApiError {
    ApiError::new(ErrorCode::NotFound, format!("no node `{}`", node_id.escape_debug()))
        .with_help("run `toolkeep node list` to see all nodes")
}

/// Revokes keys before certificates: with a valid key the node could obtain another certificate in
/// between.
async fn revoke_node(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(node_id): Path<String>,
) -> Result<Reply<NodeRevocationReply>, ApiError> {
    let registry = node_registry(&state)?;
    if node_access(&principal) != NodeAccess::All {
        return Err(ApiError::missing_right(Right::NodesWrite));
    }
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
    Ok(Reply(NodeRevocationReply { node_id, keys }))
}

fn node_reply(registry: &dyn NodeRegistry, node: NodeStatus, may: bool) -> NodeReply {
    let NodeStatus {
        node_id,
        tool_count: tools,
        last_heartbeat: beat,
        endpoint,
        connection_replaced_at: replaced,
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
        last_seen: beat.map(|beat| beat.received_at.to_string()),
        endpoint: endpoint.filter(|_| may),
        uses_own_connection: own_connection,
        problem: problem.filter(|_| may),
        replaced: replaced.map(|at| at.to_string()),
        certificates,
    }
}

async fn record_heartbeat(
    State(server_state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(node_id): Path<String>,
    DecodedBody(HeartbeatBody { state }): DecodedBody<HeartbeatBody>,
) -> Result<Reply<HeartbeatReply>, ApiError> {
    let message =
        node_registry(&server_state)?.record_heartbeat(&node_access(&principal), &node_id, state);
    message.map_err(|fault| match fault {
        NodeError::NotFound => ApiError::new(ErrorCode::NotFound, "Node not found")
            .with_help("register its tools with `POST /tools` first"),
        fault => ApiError::new(ErrorCode::Forbidden, fault.to_string())
            .with_help("use a key with the right `nodes:register` whose subject is the node's ID"),
    })?;
    Ok(Reply(HeartbeatReply { node_id, state }))
}
