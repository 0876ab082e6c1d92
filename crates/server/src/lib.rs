//! The front doors: REST under `/v1`, MCP under `/mcp`. They translate; they hold no decision.
//!
//! A door reads a request, takes the principal that the credential gives, asks the gateway, and
//! writes the answer. If two doors could differ, the code is in the wrong crate.

mod auth;
mod context;
mod counts;
pub mod error;
mod facades;
mod front;
mod grpc;
mod held;
mod hidden_characters;
pub mod hosts;
pub mod issuers;
pub mod keys;
mod listen;
mod lists;
mod mcp;
mod metrics;
mod old_nodes;
mod packed;
mod rest;
mod room;
mod seal;
mod state;
mod status;
mod steady_clock;
mod streams;
mod workers;

pub use counts::Counts;
pub use error::ApiError;
pub use front::Front;
pub use grpc::{listen_grpc, tools_of};
pub use hosts::Hosts;
pub use issuers::{Issuers, KeySource, Trusted};
pub use keys::Keys;
pub use listen::listen;
pub use old_nodes::old_nodes;
pub use rest::openapi::document as openapi;
pub use rest::programs::Programs;
pub use state::{Doors, MAX_BODY, Notices, Parts};
pub use status::status;
pub use steady_clock::SteadyClock;
pub use workers::Workers;

use axum::Router;
use axum::middleware::{from_fn_with_state, map_response};

/// All doors as one router. Host and Origin are checked before anything else, then the credential.
pub fn router(doors: &Doors) -> Router {
    let open = rest::open_routes(doors);
    let keyed = rest::keyed_routes(doors).merge(mcp::routes(doors));
    let keyed = keyed.layer(from_fn_with_state(doors.clone(), auth::credential));
    open.merge(keyed)
        .fallback(rest::nothing_here)
        .layer(from_fn_with_state(doors.clone(), auth::host_and_origin))
        .layer(map_response(hidden_characters::escape))
}
