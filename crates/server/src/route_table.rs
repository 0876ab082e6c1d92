//! The route table of all interfaces and the routers that are built from it.

use std::collections::BTreeMap;

use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::routing::MethodRouter;
use tool::ErrorCode;
use tool::display_text::truncate_and_escape_debug;

use server_core::error::ApiError;
use server_core::route::ApiRoute;
use server_core::server_state::ServerState;

use crate::openapi;

/// Builds the router of routes without a key: health, metadata and the API documents.
pub(crate) fn public_router(state: &ServerState) -> Router {
    mount_routes(public_routes(), state)
}

/// Builds the router of all routes that require a key.
pub(crate) fn authenticated_router(state: &ServerState) -> Router {
    mount_routes(authenticated_routes(), state)
}

/// Builds the router for node registration and heartbeats.
pub(crate) fn registration_router(state: &ServerState) -> Router {
    mount_routes(
        server_compat::registration_routes()
            .into_iter()
            .chain([server_rest::heartbeat_route()])
            .collect(),
        state,
    )
}

pub(crate) fn public_routes() -> Vec<ApiRoute> {
    server_rest::public_routes(openapi::openapi_document)
        .into_iter()
        .chain(server_mcp::public_routes())
        .chain(server_compat::public_routes())
        .collect()
}

pub(crate) fn authenticated_routes() -> Vec<ApiRoute> {
    server_rest::authenticated_routes()
        .into_iter()
        .chain(server_mcp::authenticated_routes())
        .chain(server_compat::authenticated_routes())
        .collect()
}

/// Mounts each path with all its methods. Other methods are answered with the usual error object.
fn mount_routes(routes: Vec<ApiRoute>, state: &ServerState) -> Router {
    let mut paths = BTreeMap::<&str, (MethodRouter<ServerState>, Vec<String>)>::new();
    for route in routes {
        let (answers, methods) = paths.entry(route.path).or_default();
        *answers = std::mem::take(answers).merge(route.handler);
        methods.push(route.method.to_uppercase());
    }
    let mount = |router: Router<ServerState>,
                 (path, (answers, methods)): (&str, (_, Vec<String>))| {
        let allowed = methods.join(" or ");
        let other = move |method: Method, uri: Uri| async move {
            method_not_allowed(&method, &uri, &allowed)
        };
        router.route(path, MethodRouter::fallback(answers, other))
    };
    paths.into_iter().fold(Router::new(), mount).with_state(state.clone())
}

/// Builds the 405 response; the router adds the `Allow` header.
fn method_not_allowed(method: &Method, uri: &Uri, allowed: &str) -> Response {
    let method = truncate_and_escape_debug(method.as_str(), 20);
    let path = truncate_and_escape_debug(uri.path(), 200);
    let message = format!("`{path}` accepts {allowed}, not `{method}`");
    let fix = "see /openapi.json for all routes";
    let error = ApiError::new(ErrorCode::InvalidRequest, message).with_help(fix);
    (StatusCode::METHOD_NOT_ALLOWED, error).into_response()
}

pub(crate) async fn not_found(uri: Uri) -> ApiError {
    server_core::route::not_found(&uri)
}
