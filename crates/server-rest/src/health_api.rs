//! Liveness, readiness, version and metrics of the server.

use axum::Json as Reply;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use catalog::SourceState as Standing;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use server_core::metrics::GaugeValues;
use server_core::route::ApiRoute;
use server_core::server_state::ServerState;

pub(crate) fn public_routes(document: fn() -> Value) -> Vec<ApiRoute> {
    let document = async move || Reply(document());
    vec![
        ApiRoute::new("get", "/healthz", "Check that the process is alive", get(check_liveness))
            .with_reply::<HealthReply>()
            .without_key(),
        ApiRoute::new(
            "get",
            "/readyz",
            "Check that the server accepts calls; 503 if not",
            get(check_readiness),
        )
        .with_reply::<HealthReply>()
        .without_key(),
        ApiRoute::new("get", "/version", "Get the version", get(show_version))
            .with_reply::<VersionReply>()
            .without_key(),
        ApiRoute::new("get", "/openapi.json", "Get this OpenAPI document", get(document))
            .without_key(),
    ]
}

pub(crate) fn authenticated_routes() -> Vec<ApiRoute> {
    vec![ApiRoute::new(
        "get",
        "/metrics",
        "Get the metrics in the Prometheus text format",
        get(export_metrics),
    )]
}

#[derive(Debug, Serialize, JsonSchema)]
struct HealthReply {
    /// The text `ok`, or the problem.
    status: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct VersionReply {
    name: &'static str,
    version: &'static str,
}

async fn check_liveness() -> Reply<HealthReply> {
    Reply(HealthReply { status: "ok".to_owned() })
}

async fn check_readiness(State(state): State<ServerState>) -> Response {
    if state.components.gateway.check_health().is_ok() {
        return Reply(HealthReply { status: "ok".to_owned() }).into_response();
    }
    // The cause is only logged: these requests carry no key.
    let health = Reply(HealthReply { status: "calls cannot be recorded".to_owned() });
    (StatusCode::SERVICE_UNAVAILABLE, health).into_response()
}

async fn show_version() -> Reply<VersionReply> {
    Reply(VersionReply { name: "toolkeep", version: env!("CARGO_PKG_VERSION") })
}

async fn export_metrics(State(server_state): State<ServerState>) -> Response {
    let catalog = server_state.components.intake.catalog();
    let away = |state| matches!(state, Standing::Stale | Standing::Failed(_));
    let now = GaugeValues {
        running: server_state.components.gateway.running_call_count(),
        tools: catalog.len(),
        catalog: catalog.version,
        unavailable_sources: catalog.list_sources().filter(|shelf| away(shelf.state)).count(),
        is_ledger_available: server_state.components.gateway.check_health().is_ok(),
    };
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(CONTENT_TYPE, kind)], server_state.metrics.encode_text(&now)).into_response()
}
