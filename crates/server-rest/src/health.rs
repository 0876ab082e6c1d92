//! Liveness, readiness, version and metrics of the server.

use axum::Json as Reply;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use catalog::State as Standing;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use server_core::metrics::Now;
use server_core::route::Route;
use server_core::state::Doors;

pub(crate) fn open(document: fn() -> Value) -> Vec<Route> {
    let document = async move || Reply(document());
    vec![
        Route::new("get", "/healthz", "Whether the process lives", get(alive))
            .reply::<Health>()
            .open(),
        Route::new("get", "/readyz", "Whether calls can be taken; 503 where not", get(ready))
            .reply::<Health>()
            .open(),
        Route::new("get", "/version", "What this is", get(version)).reply::<Version>().open(),
        Route::new("get", "/openapi.json", "This document", get(document)).open(),
    ]
}

pub(crate) fn keyed() -> Vec<Route> {
    vec![Route::new("get", "/metrics", "Counters in Prometheus' text form", get(metrics))]
}

#[derive(Debug, Serialize, JsonSchema)]
struct Health {
    /// `ok`, or what is wrong.
    status: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Version {
    name: &'static str,
    version: &'static str,
}

async fn alive() -> Reply<Health> {
    Reply(Health { status: "ok".to_owned() })
}

async fn ready(State(doors): State<Doors>) -> Response {
    if doors.parts.gateway.health().is_ok() {
        return Reply(Health { status: "ok".to_owned() }).into_response();
    }
    // The cause is only logged: these requests carry no key.
    let health = Reply(Health { status: "calls cannot be recorded".to_owned() });
    (StatusCode::SERVICE_UNAVAILABLE, health).into_response()
}

async fn version() -> Reply<Version> {
    Reply(Version { name: "toolkeep", version: env!("CARGO_PKG_VERSION") })
}

async fn metrics(State(doors): State<Doors>) -> Response {
    let catalog = doors.parts.intake.catalog();
    let away = |state| matches!(state, Standing::Stale | Standing::Failed(_));
    let now = Now {
        running: doors.parts.gateway.running(),
        tools: catalog.len(),
        catalog: catalog.number,
        away: catalog.shelves().filter(|shelf| away(shelf.state)).count(),
        ledger_up: doors.parts.gateway.health().is_ok(),
    };
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(CONTENT_TYPE, kind)], doors.metrics.text(&now)).into_response()
}
