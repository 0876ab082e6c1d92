//! `/v1/roles`: named sets of rights with a maximum level, for callers who may create keys.

use axum::extract::{Path, State};
use axum::routing::{delete, get, put};
use axum::{Extension, Json as Reply};
use identity::Principal;
use server_core::body::DecodedBody;
use server_core::error::ApiError;
use server_core::role_management::{self, RoleBody, RoleListReply, RoleReply};
use server_core::route::ApiRoute;
use server_core::server_state::ServerState;

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::new("get", "/v1/roles", "List the roles", get(list_roles))
            .with_reply::<RoleListReply>(),
        ApiRoute::new("put", "/v1/roles/{name}", "Create or change a role", put(put_role))
            .with_body::<RoleBody>()
            .with_reply::<RoleReply>(),
        ApiRoute::new(
            "delete",
            "/v1/roles/{name}",
            "Revoke a role; keys that have it can no longer be used",
            delete(revoke_role),
        )
        .with_reply::<RoleReply>(),
    ]
}

async fn list_roles(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
) -> Result<Reply<RoleListReply>, ApiError> {
    role_management::list_roles(&state, &principal).map(Reply)
}

async fn put_role(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
    DecodedBody(body): DecodedBody<RoleBody>,
) -> Result<Reply<RoleReply>, ApiError> {
    role_management::put_role(&state, &principal, name, body).await.map(Reply)
}

async fn revoke_role(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
) -> Result<Reply<RoleReply>, ApiError> {
    role_management::revoke_role(&state, &principal, &name).await.map(Reply)
}
