//! `/.well-known/oauth-protected-resource`: OAuth metadata for clients without a token (RFC 9728).
//!
//! These requests carry no token, so every source name gets the same response, whether the source
//! exists or not.

use axum::Json as Reply;
use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use tool::SourceName;

use server_core::route::ApiRoute;
use server_core::route::not_found;
use server_core::server_state::ServerState;
use server_core::token_issuers::ProtectedResourceMetadata;

pub(crate) fn public_routes() -> Vec<ApiRoute> {
    let route = |path, answer| {
        let what = "OAuth metadata of this server, if token issuers are configured";
        ApiRoute::new("get", path, what, answer)
            .with_reply::<ProtectedResourceMetadata>()
            .without_key()
    };
    vec![
        route("/.well-known/oauth-protected-resource", get(server_metadata)),
        route("/.well-known/oauth-protected-resource/mcp", get(server_metadata)),
        route("/.well-known/oauth-protected-resource/mcp/{source}", get(source_metadata)),
    ]
}

async fn server_metadata(State(state): State<ServerState>, uri: Uri) -> Response {
    match state.components.issuers.resource_metadata(None) {
        Some(metadata) => Reply(metadata).into_response(),
        None => not_found(&uri).into_response(),
    }
}

async fn source_metadata(
    State(state): State<ServerState>,
    uri: Uri,
    Path(source): Path<String>,
) -> Response {
    let named = SourceName::new(&source).ok();
    match named.and_then(|name| state.components.issuers.resource_metadata(Some(name.as_str()))) {
        Some(metadata) => Reply(metadata).into_response(),
        None => not_found(&uri).into_response(),
    }
}
