//! `/v1/nodes`: the machines that run tools (spec 4), and their signs of life.

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Extension, Json as Reply};
use identity::{Principal, Right};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::Code;
use tool::node::{Beat, NodeFault, NodeState, Nodes, Stale};

use super::body::Body;
use super::route::Route;
use crate::error::ApiError;
use crate::facades::speaks;
use crate::state::Doors;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new("get", "/v1/nodes", "The nodes and how they are", get(list))
            .reply::<NodesReply>(),
        heartbeat(),
    ]
}

pub(super) fn heartbeat() -> Route {
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
    /// Why it cannot be called; for keys with the right `nodes:resolve`.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
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

pub(super) fn registry(doors: &Doors) -> Result<&dyn Nodes, ApiError> {
    let missing = || ApiError::new(Code::NotFound, "this server keeps no registry of nodes");
    doors.parts.nodes.as_deref().ok_or_else(missing)
}

/// Who speaks for a node sees it; who may be told where nodes are sees all.
async fn list(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
) -> Result<Reply<NodesReply>, ApiError> {
    let (by, may) = (speaks(&principal), principal.may(Right::NodesResolve));
    let registry = registry(&doors)?;
    let all = registry.nodes().into_iter();
    let seen = all.filter(|node| may || by.is_for(&node.node_id));
    let nodes = seen.map(|node| reply(node, may)).collect();
    let stale = registry.stale().map(|Stale { since, why }| StaleReply {
        since: since.to_string(),
        why: Some(why).filter(|_| may),
    });
    Ok(Reply(NodesReply { nodes, stale }))
}

fn reply(node: NodeState, may: bool) -> NodeReply {
    let NodeState { node_id, tools, beat, endpoint } = node;
    let (endpoint, problem) = match endpoint {
        Ok(endpoint) => (Some(endpoint), None),
        Err(error) => (None, Some(error.to_string())),
    };
    NodeReply {
        node_id,
        tools,
        state: beat.map(|(state, _)| state),
        seen: beat.map(|(_, seen)| seen.to_string()),
        endpoint: endpoint.filter(|_| may),
        problem: problem.filter(|_| may),
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
