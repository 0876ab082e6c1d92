//! The routes of other systems, in their shapes. They translate to the gateway and back; what they
//! decide on is nothing.

mod catalogue;
mod cluster;
mod modules;
mod refusal;

use axum::extract::Request;
use axum::http::header::AUTHORIZATION;

use server_core::error::ApiError;
use server_core::route::Route;

pub use cluster::registration;

/// Routes that need no key.
pub fn open() -> Vec<Route> {
    modules::open()
}

/// All others.
pub fn keyed() -> Vec<Route> {
    let parts = [modules::keyed(), cluster::keyed(), catalogue::keyed()];
    parts.into_iter().flatten().collect()
}

/// On these routes a refusal has spec 0's words beside ours.
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
