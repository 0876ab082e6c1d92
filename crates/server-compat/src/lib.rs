//! The compatibility APIs: routes and formats of the systems that Toolkeep replaces. They translate
//! requests and responses; all decisions are made by the gateway.

mod catalogue;
mod cluster;
mod modules;
mod refusal;

use axum::extract::Request;
use axum::http::header::AUTHORIZATION;

use server_core::error::ApiError;
use server_core::route::Route;

pub use cluster::registration;

/// The routes that need no key.
pub fn open() -> Vec<Route> {
    modules::open()
}

/// The routes that need a key.
pub fn keyed() -> Vec<Route> {
    let parts = [modules::keyed(), cluster::keyed(), catalogue::keyed()];
    parts.into_iter().flatten().collect()
}

/// Adds the module API's own text to an authentication error on its routes.
pub fn unauthenticated(error: ApiError, request: &Request) -> ApiError {
    if !modules::has(request.uri().path()) {
        return error;
    }
    let given = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer = given.and_then(|text| text.split_once(' ')).map(|(scheme, _)| scheme);
    error.detail(match bearer {
        Some(scheme) if scheme.eq_ignore_ascii_case("bearer") => "Invalid service auth token",
        _ => "Missing service auth token",
    })
}
