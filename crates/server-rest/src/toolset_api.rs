//! `/v1/toolsets`: named selections of items, each with an MCP endpoint.

use axum::extract::{Path, State};
use axum::routing::{delete, get, post, put};
use axum::{Extension, Json as Reply};
use identity::Principal;

use server_core::body::DecodedBody;
use server_core::error::ApiError;
use server_core::route::ApiRoute;
use server_core::server_state::ServerState;
use server_core::toolset_management::{
    self, AcceptToolsetBody, PutToolsetBody, ToolsetDetailReply, ToolsetListReply,
};

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::new("get", "/v1/toolsets", "List the toolsets", get(list_toolsets))
            .with_reply::<ToolsetListReply>(),
        ApiRoute::new("get", "/v1/toolsets/{name}", "Get a toolset", get(show_toolset))
            .with_reply::<ToolsetDetailReply>(),
        ApiRoute::new("put", "/v1/toolsets/{name}", "Create or change a toolset", put(put_toolset))
            .with_body::<PutToolsetBody>()
            .with_reply::<ToolsetDetailReply>(),
        ApiRoute::new("delete", "/v1/toolsets/{name}", "Remove a toolset", delete(remove_toolset))
            .with_reply::<ToolsetListReply>(),
        ApiRoute::new(
            "post",
            "/v1/toolsets/{name}/accept",
            "Accept the items of a toolset",
            post(accept_toolset),
        )
        .with_body::<AcceptToolsetBody>()
        .with_reply::<ToolsetDetailReply>(),
    ]
}

async fn list_toolsets(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
) -> Result<Reply<ToolsetListReply>, ApiError> {
    toolset_management::list_toolsets(&state, &principal).await.map(Reply)
}

async fn show_toolset(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
) -> Result<Reply<ToolsetDetailReply>, ApiError> {
    toolset_management::show_toolset(&state, &principal, &name).await.map(Reply)
}

async fn put_toolset(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
    DecodedBody(body): DecodedBody<PutToolsetBody>,
) -> Result<Reply<ToolsetDetailReply>, ApiError> {
    toolset_management::put_toolset(&state, &principal, (&name, body)).await.map(Reply)
}

async fn remove_toolset(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
) -> Result<Reply<ToolsetListReply>, ApiError> {
    toolset_management::remove_toolset(&state, &principal, &name).await.map(Reply)
}

async fn accept_toolset(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
    DecodedBody(body): DecodedBody<AcceptToolsetBody>,
) -> Result<Reply<ToolsetDetailReply>, ApiError> {
    toolset_management::accept_toolset(&state, &principal, (&name, body)).await.map(Reply)
}
