//! The doors without a socket: for commands where no server runs.

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::header::HOST;
use http::{HeaderValue, Request, Response};
use http_body_util::BodyExt as _;
use tool::Boxed;
use tower::ServiceExt as _;

use crate::cli::door::{Door, DoorError};

/// The same router that a server would listen with.
#[derive(Debug)]
pub(super) struct RouterDoor(pub(super) Router);

impl RouterDoor {
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, DoorError> {
        let mut request = request.map(Body::from);
        request.headers_mut().insert(HOST, HeaderValue::from_static("localhost"));
        let told = |error: &dyn std::fmt::Display| DoorError(error.to_string());
        let answer = self.0.clone().oneshot(request).await.map_err(|error| told(&error))?;
        let (head, body) = answer.into_parts();
        let body = body.collect().await.map_err(|error| told(&error))?;
        Ok(Response::from_parts(head, body.to_bytes()))
    }
}

impl Door for RouterDoor {
    fn send(&self, request: Request<Bytes>) -> Boxed<'_, Result<Response<Bytes>, DoorError>> {
        Box::pin(self.exchange(request))
    }
}
