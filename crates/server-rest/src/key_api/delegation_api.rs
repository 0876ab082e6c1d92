//! `POST /v1/keys/delegate`: creation of a narrower key, for oneself or to act for another user.

use axum::extract::State;
use axum::routing::post;
use axum::{Extension, Json as Reply};
use identity::Principal;

use server_core::body::DecodedBody;
use server_core::error::ApiError;
use server_core::key_delegation::{self, DelegateKeyBody, DelegateKeyReply};
use server_core::route::ApiRoute;
use server_core::server_state::ServerState;

pub(super) fn delegation_route() -> ApiRoute {
    let summary = "Delegate your own key with fewer rights; the new key is returned once";
    ApiRoute::new("post", "/v1/keys/delegate", summary, post(delegate_key))
        .with_body::<DelegateKeyBody>()
        .with_reply::<DelegateKeyReply>()
}

async fn delegate_key(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    DecodedBody(body): DecodedBody<DelegateKeyBody>,
) -> Result<Reply<DelegateKeyReply>, ApiError> {
    key_delegation::delegate_key(&state, &principal, body).await.map(Reply)
}
