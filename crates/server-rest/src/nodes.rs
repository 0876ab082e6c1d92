//! `/v1/nodes`: the nodes that run tools, their certificates and heartbeats.

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Extension, Json as Reply};
use identity::{KeyRecord, Principal, Right};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::Code;
use tool::node::{
    Beat, CertificateState, NodeCertificate, NodeFault, NodeState, Nodes, Speaks, Stale, Unresolved,
};

use server_core::body::Body;
use server_core::error::ApiError;
use server_core::node_rights::speaks;
use server_core::route::Route;
use server_core::state::Doors;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::new("get", "/v1/nodes", "The nodes and how they are", get(list))
            .reply::<NodesReply>(),
        Route::new("get", "/v1/nodes/{node_id}", "A node and its certificates", get(show))
            .reply::<NodeReply>(),
        Route::new(
            "post",
            "/v1/nodes/{node_id}/revoke",
            "Revoke a node's certificates and keys, and cut its connections",
            post(revoke),
        )
        .reply::<Revoked>(),
        heartbeat(),
    ]
}

/// The route for heartbeats, which is also served on the registration listener.
pub fn heartbeat() -> Route {
    Route::new("post", "/v1/nodes/{node_id}/heartbeat", "A node's sign of life", post(beat))
        .body::<BeatBody>()
        .reply::<BeatReply>()
}

#[derive(Debug, Serialize, JsonSchema)]
struct NodesReply {
    nodes: Vec<NodeReply>,
    /// Where what keeps the registry is away: what is told here is only remembered.
    #[serde(skip_serializing_if = "Option::is_none")]
    stale: Option<StaleReply>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct StaleReply {
    since: String,
    /// Why; for keys with the right `nodes:resolve`.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct NodeReply {
    node_id: String,
    /// How many tools it has registered.
    tools: usize,
    /// `serving` or `draining`, where it says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    state: Option<Beat>,
    /// When it said so last.
    #[serde(skip_serializing_if = "Option::is_none")]
    seen: Option<String>,
    /// Where it is called; for keys with the right `nodes:resolve`.
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoint: Option<String>,
    /// Whether it has no address, and is called over a connection that it made.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    own_connection: bool,
    /// Why it cannot be called; for keys with the right `nodes:resolve`.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// When a connection that it made last took the place of one that was still open.
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced: Option<String>,
    /// Its certificates that are remembered, the newest first.
    certificates: Vec<CertificateReply>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CertificateReply {
    /// Its serial number, in hexadecimal digits.
    serial: String,
    /// SHA-256 of the public key.
    public_key: String,
    issued: String,
    expires: String,
    /// `current`, the only one that is accepted, or `replaced`, `revoked`, `expired`.
    #[schemars(with = "String")]
    state: CertificateState,
}

impl From<NodeCertificate> for CertificateReply {
    fn from(it: NodeCertificate) -> Self {
        let (issued, expires) = (it.issued.to_string(), it.expires.to_string());
        Self { serial: it.serial, public_key: it.public_key, issued, expires, state: it.state }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct Revoked {
    node_id: String,
    /// Ids of the keys that were revoked: those of the node that are good for nothing but registering.
    keys: Vec<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BeatBody {
    /// `serving`, or `draining` where it takes no new calls.
    #[schemars(with = "String")]
    state: Beat,
}

#[derive(Debug, Serialize, JsonSchema)]
struct BeatReply {
    node_id: String,
    /// What it said.
    #[schemars(with = "String")]
    state: Beat,
}

pub(crate) fn registry(doors: &Doors) -> Result<&dyn Nodes, ApiError> {
    let missing = || ApiError::new(Code::NotFound, "this server keeps no registry of nodes");
    doors.parts.nodes.as_deref().ok_or_else(missing)
}

/// Lists nodes. A caller sees the nodes it may act for; with the right `nodes:resolve`, all.
async fn list(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
) -> Result<Reply<NodesReply>, ApiError> {
    let (by, may) = (speaks(&principal), principal.may(Right::NodesResolve));
    let registry = registry(&doors)?;
    let all = registry.nodes().into_iter();
    let seen = all.filter(|node| may || by.is_for(&node.node_id));
    let nodes = seen.map(|node| reply(registry, node, may)).collect();
    let stale = registry.stale().map(|Stale { since, why }| StaleReply {
        since: since.to_string(),
        why: Some(why).filter(|_| may),
    });
    Ok(Reply(NodesReply { nodes, stale }))
}

async fn show(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(node_id): Path<String>,
) -> Result<Reply<NodeReply>, ApiError> {
    let (by, may) = (speaks(&principal), principal.may(Right::NodesResolve));
    let registry = registry(&doors)?;
    let seen = may || by.is_for(&node_id);
    let node = registry.nodes().into_iter().find(|node| seen && node.node_id == node_id);
    let node = node.ok_or_else(|| unknown(&node_id))?;
    Ok(Reply(reply(registry, node, may)))
}

fn unknown(node_id: &str) -> ApiError {
    ApiError::new(Code::NotFound, format!("no node `{}`", node_id.escape_debug()))
        .fix("see `toolkeep node list`")
}

/// Revokes keys before certificates: with a valid key the node could obtain another certificate in
/// between.
async fn revoke(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(node_id): Path<String>,
) -> Result<Reply<Revoked>, ApiError> {
    let registry = registry(&doors)?;
    if speaks(&principal) != Speaks::All {
        return Err(ApiError::lacks(Right::NodesWrite));
    }
    let now = doors.parts.clock.wall();
    let ring = doors.parts.keys.ring();
    let of_node = |record: &&&KeyRecord| {
        let only = [Right::NodesRegister, Right::NodesJoin];
        let rights = &record.rights;
        let registers = !rights.is_empty() && rights.iter().all(|right| only.contains(right));
        registers && record.subject == node_id && record.org == *principal.org()
    };
    let records = ring.records();
    let live = records.iter().filter(of_node);
    let live = live.filter(|record| ring.over(record.id.as_str(), now).is_none());
    let keys: Vec<String> = live.map(|record| record.id.to_string()).collect();
    for key in &keys {
        doors.parts.keys.revoke(key, now).await?;
    }
    match registry.revoke(&Speaks::All, &node_id).await {
        // A manually created key of a node that never registered.
        Err(NodeFault::Missing) if !keys.is_empty() => {}
        Err(NodeFault::Missing) => return Err(unknown(&node_id)),
        Err(fault) => return Err(ApiError::new(Code::StoreUnavailable, fault.to_string())),
        Ok(()) => {}
    }
    tracing::info!(node = node_id, by = principal.key(), "node revoked");
    Ok(Reply(Revoked { node_id, keys }))
}

fn reply(registry: &dyn Nodes, node: NodeState, may: bool) -> NodeReply {
    let NodeState { node_id, tools, beat, endpoint, replaced } = node;
    let certificates = registry.certificates(&node_id).into_iter().map(Into::into).collect();
    let own_connection = matches!(endpoint, Err(Unresolved::OwnConnection(_)));
    let (endpoint, problem) = match endpoint {
        Ok(endpoint) => (Some(endpoint), None),
        Err(_) if own_connection => (None, None),
        Err(error) => (None, Some(error.to_string())),
    };
    NodeReply {
        node_id,
        tools,
        state: beat.map(|(state, _)| state),
        seen: beat.map(|(_, seen)| seen.to_string()),
        endpoint: endpoint.filter(|_| may),
        own_connection,
        problem: problem.filter(|_| may),
        replaced: replaced.map(|at| at.to_string()),
        certificates,
    }
}

async fn beat(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(node_id): Path<String>,
    Body(BeatBody { state }): Body<BeatBody>,
) -> Result<Reply<BeatReply>, ApiError> {
    let told = registry(&doors)?.beat(&speaks(&principal), &node_id, state);
    told.map_err(|fault| match fault {
        NodeFault::Missing => ApiError::new(Code::NotFound, "Node not found")
            .fix("register its tools with `POST /tools` first"),
        fault => ApiError::new(Code::Forbidden, fault.to_string())
            .fix("use a key whose user is the node's id, with the right `nodes:register`"),
    })?;
    Ok(Reply(BeatReply { node_id, state }))
}
