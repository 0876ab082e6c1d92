//! `/v1/sign-in-links`: links that sign a browser in to the web console once.

use axum::extract::State;
use axum::routing::post;
use axum::{Extension, Json as Reply};
use identity::Principal;
use schemars::JsonSchema;
use serde::Serialize;

use server_core::error::ApiError;
use server_core::route::ApiRoute;
use server_core::server_state::ServerState;
use server_core::sign_in_links::LINK_LIFETIME;

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::new(
            "post",
            "/v1/sign-in-links",
            "Make a link that signs a browser in to the web console once",
            post(create_link),
        )
        .with_reply::<SignInLinkReply>(),
    ]
}

/// A link of the caller's key. Whoever opens it first is signed in with that key.
#[derive(Debug, Serialize, JsonSchema)]
struct SignInLinkReply {
    /// Path on this server. What follows `#` is the token, which a browser sends to no server by itself.
    path: String,
    /// Seconds until an unused link is void.
    expires_in: u64,
}

async fn create_link(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
) -> Result<Reply<SignInLinkReply>, ApiError> {
    let now = state.components.clock.monotonic_now();
    let token = state.sign_in_links.create_token(&principal, now)?;
    tracing::info!(key = principal.key_id(), "sign-in link made");
    let path = format!("/ui/sign-in#link={}", token.expose());
    Ok(Reply(SignInLinkReply { path, expires_in: LINK_LIFETIME.as_secs() }))
}
