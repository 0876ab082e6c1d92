//! The doors without a socket: for commands where no server runs.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::header::HOST;
use http::{HeaderValue, Request, Response};
use http_body_util::BodyExt as _;
use intake::Intake;
use tool::Boxed;
use tower::ServiceExt as _;

use super::reports::ConfigurationReport;
use super::{names, readiness};
use crate::cli::door::{Door, DoorError, Parts, SourceNeed};

/// The same router that a server would listen with.
#[derive(Debug)]
pub(super) struct RouterDoor {
    router: Router,
    intake: Arc<Intake>,
    report: Arc<ConfigurationReport>,
}

impl RouterDoor {
    pub(super) fn new(
        router: Router,
        (intake, report): (Arc<Intake>, Arc<ConfigurationReport>),
    ) -> Self {
        Self { router, intake, report }
    }

    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Body>, DoorError> {
        let mut request = request.map(Body::from);
        request.headers_mut().insert(HOST, HeaderValue::from_static("localhost"));
        self.router.clone().oneshot(request).await.map_err(|error| told(&error))
    }

    async fn whole(&self, request: Request<Bytes>) -> Result<Response<Bytes>, DoorError> {
        let (head, body) = self.exchange(request).await?.into_parts();
        let body = body.collect().await.map_err(|error| told(&error))?;
        Ok(Response::from_parts(head, body.to_bytes()))
    }
}

impl Door for RouterDoor {
    fn send(&self, request: Request<Bytes>) -> Boxed<'_, Result<Response<Bytes>, DoorError>> {
        Box::pin(self.whole(request))
    }

    fn open(&self, request: Request<Bytes>) -> Boxed<'_, Result<Response<Parts>, DoorError>> {
        Box::pin(async {
            let parts = |body: Body| {
                let parts = body.into_data_stream();
                parts.map(|part| part.map_err(|error| told(&error))).boxed()
            };
            Ok(self.exchange(request).await?.map(parts))
        })
    }

    fn sources<'a>(&'a self, need: SourceNeed<'a>) -> Boxed<'a, ()> {
        Box::pin(async move {
            readiness::wait(&self.intake, need).await;
            if matches!(need, SourceNeed::Overview | SourceNeed::All) {
                // An overview shows names that match nothing too, as a source of their own.
                names::refresh(&self.report, &self.intake).await;
                readiness::wait(&self.intake, need).await;
            }
        })
    }
}

fn told(error: &dyn std::fmt::Display) -> DoorError {
    DoorError(error.to_string())
}
