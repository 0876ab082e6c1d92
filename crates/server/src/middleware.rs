//! Admission middleware: one layer for routes with a credential, one for public routes.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::http_service;
use server_core::admission::{AdmissionError, AdmissionRequest, admit_request, admit_site};
use server_core::error::ApiError;
use server_core::server_state::ServerState;

/// Checks Host and Origin before routes that need no credential.
pub(crate) async fn check_site(
    State(state): State<ServerState>,
    request: Request,
    next: Next,
) -> Response {
    match admit_site(&state, request.headers(), None) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

/// Authenticates requests to all other routes and adds the principal to the request's extensions.
pub(crate) async fn authenticate_request(
    State(state): State<ServerState>,
    mut request: Request,
    next: Next,
) -> Response {
    let (headers, uri) = (request.headers(), request.uri());
    let source = http_service::mcp_source_of(uri.path()).filter(|source| !source.is_empty());
    let admission = AdmissionRequest { headers, uri, source };
    match admit_request(&state, admission, None, state.components.clock.wall_now()).await {
        Ok(principal) => {
            request.extensions_mut().insert(principal);
            next.run(request).await
        }
        Err(AdmissionError::Credential(error)) => {
            server_compat::with_compat_detail(error, &request).into_response()
        }
        Err(refused) => ApiError::from(refused).into_response(),
    }
}
