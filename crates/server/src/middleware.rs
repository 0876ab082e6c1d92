//! What stands before every route: Host and Origin, then the credential.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::front;
use server_core::auth::principal;
use server_core::context;
use server_core::state::Doors;

pub(crate) async fn host_and_origin(
    State(doors): State<Doors>,
    request: Request,
    next: Next,
) -> Response {
    match doors.parts.hosts.check(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

pub(crate) async fn credential(
    State(doors): State<Doors>,
    mut request: Request,
    next: Next,
) -> Response {
    let source = front::endpoint(request.uri().path()).filter(|source| !source.is_empty());
    let principal = match principal(&doors, request.headers(), source).await {
        Ok(principal) => principal,
        Err(error) => return server_compat::unauthenticated(error, &request).into_response(),
    };
    match context::narrowed(&doors, principal, (request.headers(), request.uri())) {
        Ok(principal) => {
            request.extensions_mut().insert(principal);
            next.run(request).await
        }
        Err(error) => error.into_response(),
    }
}
