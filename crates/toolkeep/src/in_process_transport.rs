//! The server's router without a socket, for commands that run while no server does.

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
use intake::SourceSupervisor;
use programs::Programs;
use tool::names::{BUILTIN_SOURCE, CONFIGURATION_SOURCE};
use tool::{BoxFuture, CallId};
use tower::ServiceExt as _;
use uuid::Uuid;

use super::problem_reports::ConfigReport;
use super::source_readiness::RequiredSources;
use super::{App, source_readiness, unmatched_names};
use cli_core::server_transport::{BodyStream, ServerTransport, SourceNeed, TransportError};

/// Sends requests of a command to the server's router in the same process.
#[derive(Debug)]
pub(crate) struct InProcessTransport {
    router: Router,
    intake: Arc<SourceSupervisor>,
    config_report: Arc<ConfigReport>,
    gateway: Arc<Gateway>,
    programs: Arc<Programs>,
}

impl InProcessTransport {
    pub(crate) fn from_app(app: &App) -> Self {
        Self {
            router: server::build_router(&app.state),
            intake: Arc::clone(&app.intake),
            config_report: Arc::clone(&app.source_factory.config_report),
            gateway: Arc::clone(&app.gateway),
            programs: Arc::clone(&app.source_factory.programs),
        }
    }

    /// Returns the sources that a request needs. Those of a program or pending call are known from
    /// the store.
    async fn required_sources(&self, need: SourceNeed<'_>) -> RequiredSources {
        let single = |name: &str| BTreeSet::from([name.to_owned()]);
        match need {
            SourceNeed::Overview => RequiredSources::Overview,
            SourceNeed::List => RequiredSources::List,
            SourceNeed::All => RequiredSources::All,
            SourceNeed::Tool(name) => RequiredSources::Tools(single(name)),
            SourceNeed::Source(name) => RequiredSources::Sources(single(name), BTreeSet::new()),
            // A built-in tool runs the script.
            SourceNeed::Script(text) => {
                RequiredSources::Sources(single(BUILTIN_SOURCE), programs::requested_tools(text))
            }
            SourceNeed::Program(id) => match parse_call_id(id) {
                Some(id) => RequiredSources::Tools(self.programs.tools_of_stored_program(id).await),
                None => RequiredSources::Tools(BTreeSet::new()),
            },
            SourceNeed::Approval(id) => {
                let Some(id) = parse_call_id(id) else {
                    return RequiredSources::Tools(BTreeSet::new());
                };
                let tool = self.gateway.pending_tool_key(id).await;
                let source = tool.map(|tool| tool.source.to_string());
                let tools = self.programs.tools_of_stored_program(id).await;
                RequiredSources::Sources(source.into_iter().collect(), tools)
            }
        }
    }

    async fn wait_for_listing(&self, need: SourceNeed<'_>, limit: Option<Duration>) {
        source_readiness::wait_until_listed(
            &self.intake,
            &self.required_sources(need).await,
            limit,
        )
        .await;
        if matches!(need, SourceNeed::Overview | SourceNeed::List | SourceNeed::All) {
            // A list also shows unmatched names, as problems of the source `configuration`.
            unmatched_names::refresh_report(&self.config_report, &self.intake).await;
            let own = BTreeSet::from([CONFIGURATION_SOURCE.to_owned()]);
            let own = RequiredSources::Sources(own, BTreeSet::new());
            source_readiness::wait_until_listed(&self.intake, &own, limit).await;
        }
    }

    async fn send_request(
        &self,
        request: Request<Bytes>,
    ) -> Result<Response<Body>, TransportError> {
        let mut request = request.map(Body::from);
        request.headers_mut().insert(HOST, HeaderValue::from_static("localhost"));
        self.router.clone().oneshot(request).await.map_err(|error| transport_error(&error))
    }

    async fn send_and_collect(
        &self,
        request: Request<Bytes>,
    ) -> Result<Response<Bytes>, TransportError> {
        let (head, body) = self.send_request(request).await?.into_parts();
        let body = body.collect().await.map_err(|error| transport_error(&error))?;
        Ok(Response::from_parts(head, body.to_bytes()))
    }
}

impl ServerTransport for InProcessTransport {
    fn send_request(
        &self,
        request: Request<Bytes>,
    ) -> BoxFuture<'_, Result<Response<Bytes>, TransportError>> {
        Box::pin(self.send_and_collect(request))
    }

    fn send_streaming(
        &self,
        request: Request<Bytes>,
    ) -> BoxFuture<'_, Result<Response<BodyStream>, TransportError>> {
        Box::pin(async {
            let parts = |body: Body| {
                let parts = body.into_data_stream();
                parts.map(|part| part.map_err(|error| transport_error(&error))).boxed()
            };
            Ok(self.send_request(request).await?.map(parts))
        })
    }

    fn wait_for_sources<'a>(
        &'a self,
        need: SourceNeed<'a>,
        limit: Option<Duration>,
    ) -> BoxFuture<'a, ()> {
        Box::pin(self.wait_for_listing(need, limit))
    }
}

fn parse_call_id(text: &str) -> Option<CallId> {
    text.parse::<Uuid>().ok().map(CallId)
}

fn transport_error(error: &dyn std::fmt::Display) -> TransportError {
    TransportError(error.to_string())
}
