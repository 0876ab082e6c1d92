//! Admission before the router's routes: of those that need a credential, and of all others.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::front;
use server_core::admission::{AdmissionError, AdmissionRequest, admit, admit_site};
use server_core::error::ApiError;
use server_core::state::Doors;

/// Before routes that need no credential.
pub(crate) async fn open(State(doors): State<Doors>, request: Request, next: Next) -> Response {
    match admit_site(&doors, request.headers(), None) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

/// Before routes that need one; its principal goes along with the request.
pub(crate) async fn keyed(
    State(doors): State<Doors>,
    mut request: Request,
    next: Next,
) -> Response {
    let (headers, uri) = (request.headers(), request.uri());
    let source = front::endpoint(uri.path()).filter(|source| !source.is_empty());
    let asked = AdmissionRequest { headers, uri, source };
    match admit(&doors, asked, None, doors.parts.clock.wall()).await {
        Ok(principal) => {
            request.extensions_mut().insert(principal);
            next.run(request).await
        }
        Err(AdmissionError::Credential(error)) => {
            server_compat::unauthenticated(error, &request).into_response()
        }
        Err(refused) => ApiError::from(refused).into_response(),
    }
}
