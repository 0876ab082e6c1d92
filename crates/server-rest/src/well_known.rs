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

use server_core::issuers::Metadata;
use server_core::route::Route;
use server_core::route::nothing_here;
use server_core::state::Doors;

pub(crate) fn open() -> Vec<Route> {
    let route = |path, answer| {
        let what = "How to come by a token, where issuers are configured";
        Route::new("get", path, what, answer).reply::<Metadata>().open()
    };
    vec![
        route("/.well-known/oauth-protected-resource", get(of_all)),
        route("/.well-known/oauth-protected-resource/mcp", get(of_all)),
        route("/.well-known/oauth-protected-resource/mcp/{source}", get(of_one)),
    ]
}

async fn of_all(State(doors): State<Doors>, uri: Uri) -> Response {
    match doors.parts.issuers.metadata(None) {
        Some(metadata) => Reply(metadata).into_response(),
        None => nothing_here(&uri).into_response(),
    }
}

async fn of_one(State(doors): State<Doors>, uri: Uri, Path(source): Path<String>) -> Response {
    let named = SourceName::new(&source).ok();
    match named.and_then(|name| doors.parts.issuers.metadata(Some(name.as_str()))) {
        Some(metadata) => Reply(metadata).into_response(),
        None => nothing_here(&uri).into_response(),
    }
}
