//! `/v1/sources`: the sources of tools, their state and their problems.

mod login_api;

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Extension, Json as Reply};
use identity::Principal;
use schemars::JsonSchema;
use serde::Deserialize;
use server_core::body::DecodedBody;
use server_core::configuration_file::{PlannedSource, SourceEntry};
use server_core::error::ApiError;
use server_core::route::ApiRoute;
use server_core::server_state::ServerState;
use server_core::source_addition::{self, SourceTrialReply};
use server_core::source_list::{self, SourceListReply};

pub(crate) fn routes() -> Vec<ApiRoute> {
    let mut routes = login_api::routes();
    routes.extend([
        ApiRoute::new("get", "/v1/sources", "List the sources and their state", get(list_sources))
            .with_reply::<SourceListReply>(),
        ApiRoute::new(
            "post",
            "/v1/sources/refresh",
            "Refresh the tool lists of all sources, or of \
                                                   one",
            post(refresh_sources),
        )
        .with_body::<RefreshSourcesBody>()
        .with_reply::<SourceListReply>(),
        ApiRoute::new(
            "post",
            "/v1/sources",
            "Add a source to the configuration file",
            post(add_source),
        )
        .with_body::<SourceBody>()
        .with_reply::<PlannedSource>(),
        ApiRoute::new(
            "post",
            "/v1/sources/try",
            "List the tools of a source without adding it",
            post(try_source),
        )
        .with_body::<SourceBody>()
        .with_reply::<SourceTrialReply>(),
    ]);
    routes
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RefreshSourcesBody {
    /// Source to refresh; all if absent.
    #[serde(default)]
    source: Option<String>,
}

/// A source as an entry of `sources` in the configuration file, such as
/// `{"name": "wiki", "mcp": {"url": "https://wiki.example/mcp"}}`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
struct SourceBody(#[schemars(with = "serde_json::Map<String, serde_json::Value>")] SourceEntry);

async fn add_source(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    DecodedBody(SourceBody(entry)): DecodedBody<SourceBody>,
) -> Result<Reply<PlannedSource>, ApiError> {
    source_addition::add_source(&state, &principal, entry).await.map(Reply)
}

async fn try_source(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    DecodedBody(SourceBody(entry)): DecodedBody<SourceBody>,
) -> Result<Reply<SourceTrialReply>, ApiError> {
    source_addition::try_source(&state, &principal, entry).await.map(Reply)
}

async fn list_sources(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
) -> Reply<SourceListReply> {
    Reply(source_list::list_sources(&state, &principal))
}

async fn refresh_sources(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    DecodedBody(body): DecodedBody<RefreshSourcesBody>,
) -> Result<Reply<SourceListReply>, ApiError> {
    source_list::refresh_sources(&state, &principal, body.source.as_deref()).await.map(Reply)
}
