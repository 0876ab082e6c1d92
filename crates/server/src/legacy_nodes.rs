//! Registration without a credential, for legacy nodes that cannot send one. The listener is bound
//! to the key of one node; its callers can only register, change and remove that node's tools.

use axum::Router;
use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::http::header::AUTHORIZATION;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use identity::Right;
use tool::{ErrorCode, Secret};

use crate::route_table;
use server_core::authentication::{self, RequestCredentials};
use server_core::error::ApiError;
use server_core::server_state::ServerState;

/// Builds the registration routes for the node with this key. A key that may also register tools of
/// other nodes is rejected: a listener without authentication must not bypass the ownership of tool
/// names.
///
/// # Errors
/// The key is not a valid header value.
pub fn legacy_node_router(state: &ServerState, key: &Secret) -> Result<Router, String> {
    let bearer = HeaderValue::try_from(format!("Bearer {}", key.expose()));
    let mut bearer = bearer.map_err(|_| "the key is not a valid header value".to_owned())?;
    bearer.set_sensitive(true);
    let node = from_fn_with_state((state.clone(), bearer), authenticate_as_node);
    let site_check = from_fn_with_state(state.clone(), crate::middleware::check_site);
    let mounted = route_table::registration_router(state).layer(node);
    Ok(mounted.fallback(route_table::not_found).layer(site_check))
}

async fn authenticate_as_node(
    State((state, bearer)): State<(ServerState, HeaderValue)>,
    mut request: Request,
    next: Next,
) -> Response {
    // Replaces any credential of the caller.
    request.headers_mut().insert(AUTHORIZATION, bearer);
    let now = state.components.clock.wall_now();
    let credentials = RequestCredentials { headers: request.headers(), source: None };
    match authentication::authenticate_request(&state, credentials, None, now).await {
        Ok(node) if node.has_right(Right::NodesRegister) && !node.has_right(Right::NodesWrite) => {
            request.extensions_mut().insert(node);
            next.run(request).await
        }
        Ok(_) => {
            let message = "the key of this listener is not restricted to one node";
            let fix = "create a key with the right `nodes:register` and without `nodes:write`";
            ApiError::new(ErrorCode::Forbidden, message).with_help(fix).into_response()
        }
        Err(error) => error.into_response(),
    }
}
