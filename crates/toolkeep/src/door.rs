//! The doors without a socket: for commands where no server runs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use futures_util::StreamExt as _;
use gateway::Gateway;
use http::header::HOST;
use http::{HeaderValue, Request, Response};
use http_body_util::BodyExt as _;
use intake::Intake;
use programs::Programs;
use tool::name::{BUILTIN, CONFIGURATION};
use tool::{Boxed, CallId};
use tower::ServiceExt as _;
use uuid::Uuid;

use super::readiness::Wanted;
use super::reports::ConfigurationReport;
use super::{App, names, readiness};
use cli_core::door::{Door, DoorError, Parts, SourceNeed};

/// The same router that a server would listen with.
#[derive(Debug)]
pub(crate) struct RouterDoor {
    router: Router,
    intake: Arc<Intake>,
    report: Arc<ConfigurationReport>,
    gateway: Arc<Gateway>,
    programs: Arc<Programs>,
}

impl RouterDoor {
    pub(crate) fn of(app: &App) -> Self {
        Self {
            router: server::router(&app.doors),
            intake: Arc::clone(&app.intake),
            report: Arc::clone(&app.workshop.report),
            gateway: Arc::clone(&app.gateway),
            programs: Arc::clone(&app.workshop.programs),
        }
    }

    /// The sources that a request needs. What a program or a pending call needs is known before any source is there.
    async fn wanted(&self, need: SourceNeed<'_>) -> Wanted {
        let one = |name: &str| BTreeSet::from([name.to_owned()]);
        match need {
            SourceNeed::Overview => Wanted::Overview,
            SourceNeed::List => Wanted::List,
            SourceNeed::All => Wanted::All,
            SourceNeed::Tool(name) => Wanted::Tools(one(name)),
            SourceNeed::Source(name) => Wanted::Sources(one(name), BTreeSet::new()),
            // The tool that runs it is a built-in one.
            SourceNeed::Script(text) => {
                Wanted::Sources(one(BUILTIN), programs::requested_tools(text))
            }
            SourceNeed::Program(id) => match call_id(id) {
                Some(id) => Wanted::Tools(self.programs.stored_tools(id).await),
                None => Wanted::Tools(BTreeSet::new()),
            },
            SourceNeed::Approval(id) => {
                let Some(id) = call_id(id) else { return Wanted::Tools(BTreeSet::new()) };
                let tool = self.gateway.pending_tool(id).await;
                let source = tool.map(|tool| tool.source.to_string());
                let tools = self.programs.stored_tools(id).await;
                Wanted::Sources(source.into_iter().collect(), tools)
            }
        }
    }

    async fn listed(&self, need: SourceNeed<'_>, limit: Option<Duration>) {
        readiness::wait(&self.intake, &self.wanted(need).await, limit).await;
        if matches!(need, SourceNeed::Overview | SourceNeed::List | SourceNeed::All) {
            // A list shows names that match nothing too, as a source of their own.
            names::refresh(&self.report, &self.intake).await;
            let own = BTreeSet::from([CONFIGURATION.to_owned()]);
            let own = Wanted::Sources(own, BTreeSet::new());
            readiness::wait(&self.intake, &own, limit).await;
        }
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

    fn sources<'a>(&'a self, need: SourceNeed<'a>, limit: Option<Duration>) -> Boxed<'a, ()> {
        Box::pin(self.listed(need, limit))
    }
}

fn call_id(text: &str) -> Option<CallId> {
    text.parse::<Uuid>().ok().map(CallId)
}

fn told(error: &dyn std::fmt::Display) -> DoorError {
    DoorError(error.to_string())
}
