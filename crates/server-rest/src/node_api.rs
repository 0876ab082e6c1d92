//! `/v1/nodes`: the nodes that run tools, their certificates and heartbeats.

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Extension, Json as Reply};
use identity::Principal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::ErrorCode;
use tool::node_registry::{HeartbeatState, NodeError};

use server_core::body::DecodedBody;
use server_core::error::ApiError;
use server_core::node_management::{
    self, NodeListReply, NodeReply, NodeRevocationReply, node_registry,
};
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
        ApiRoute::new(
            "post",
            "/v1/nodes/{node_id}/drain",
            "Send no further calls to a node, until it is resumed or the server restarts",
            post(drain_node),
        )
        .with_reply::<NodeReply>(),
        ApiRoute::new(
            "post",
            "/v1/nodes/{node_id}/resume",
            "Send calls to a drained node again",
            post(resume_node),
        )
        .with_reply::<NodeReply>(),
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

async fn list_nodes(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
) -> Result<Reply<NodeListReply>, ApiError> {
    node_management::list_nodes(&state, &principal).map(Reply)
}

async fn show_node(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(node_id): Path<String>,
) -> Result<Reply<NodeReply>, ApiError> {
    node_management::show_node(&state, &principal, &node_id).map(Reply)
}

async fn revoke_node(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(node_id): Path<String>,
) -> Result<Reply<NodeRevocationReply>, ApiError> {
    node_management::revoke_node(&state, &principal, node_id).await.map(Reply)
}

async fn drain_node(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(node_id): Path<String>,
) -> Result<Reply<NodeReply>, ApiError> {
    node_management::drain_node(&state, &principal, &node_id, true).map(Reply)
}

async fn resume_node(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(node_id): Path<String>,
) -> Result<Reply<NodeReply>, ApiError> {
    node_management::drain_node(&state, &principal, &node_id, false).map(Reply)
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
