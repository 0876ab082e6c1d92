//! `/v1/keys`: creation, listing and revocation of keys for callers with the right; delegation for
//! all.

mod delegation_api;

use axum::extract::{Path, State};
use axum::routing::{delete, get};
use axum::{Extension, Json as Reply};
use identity::Principal;
use server_core::body::{DecodedBody, QueryParams};
use server_core::error::ApiError;
use server_core::key_management::{
    self, CreateKeyBody, CreateKeyReply, KeyListReply, KeyReply, KeyRevocationQuery,
};
use server_core::page_query::{self, PageQuery};
use server_core::route::{ApiRoute, QueryParam};
use server_core::server_state::ServerState;

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::new(
            "get",
            "/v1/keys",
            "List the API keys, without their secrets",
            get(list_keys),
        )
        .with_query(page_query::PAGE_QUERY)
        .with_reply::<KeyListReply>(),
        ApiRoute::new(
            "post",
            "/v1/keys",
            "Create an API key, which is returned once",
            axum::routing::post(create_key),
        )
        .with_body::<CreateKeyBody>()
        .with_reply::<CreateKeyReply>(),
        delegation_api::delegation_route(),
        ApiRoute::new(
            "delete",
            "/v1/keys/{id}",
            "Revoke an API key and all keys delegated from it",
            delete(revoke_key),
        )
        .with_query(REVOKE_QUERY)
        .with_reply::<KeyReply>(),
    ]
}

/// The query parameters of a revocation.
const REVOKE_QUERY: &[QueryParam] = &[QueryParam {
    name: "last_owner",
    description: "`true`: revoke the key even if it is the last valid owner key",
    schema_type: "boolean",
}];

async fn list_keys(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    QueryParams(page): QueryParams<PageQuery>,
) -> Result<Reply<KeyListReply>, ApiError> {
    key_management::list_keys(&state, &principal, page).await.map(Reply)
}

async fn create_key(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    DecodedBody(body): DecodedBody<CreateKeyBody>,
) -> Result<Reply<CreateKeyReply>, ApiError> {
    key_management::create_key(&state, &principal, body).await.map(Reply)
}

async fn revoke_key(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
    QueryParams(revocation): QueryParams<KeyRevocationQuery>,
) -> Result<Reply<KeyReply>, ApiError> {
    key_management::revoke_key(&state, &principal, id, revocation).await.map(Reply)
}
