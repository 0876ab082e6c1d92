//! The front doors: REST under `/v1`, MCP under `/mcp`. They translate; they hold no decision.
//!
//! A door reads a request, takes the principal that the credential gives, asks the gateway, and
//! writes the answer. If two doors could differ, the code is in the wrong crate.

mod front;
mod grpc;
mod listen;
mod middleware;
mod old_nodes;
mod openapi;
mod routes;
mod workers;

pub use front::Front;
pub use grpc::{listen_grpc, tools_of};
pub use listen::listen;
pub use old_nodes::old_nodes;
pub use openapi::document as openapi;
pub use workers::Workers;

use axum::Router;
use axum::middleware::{from_fn_with_state, map_response};
use server_core::hidden_characters;
use server_mcp::McpDoors;

/// All interfaces as one router, with admission before each route: Host and Origin, then the credential.
pub fn router(doors: &McpDoors) -> Router {
    let open = routes::open_routes(doors);
    let keyed = routes::keyed_routes(doors).merge(server_mcp::routes(doors));
    let shared = server_core::Doors::clone(doors);
    let keyed = keyed.layer(from_fn_with_state(shared.clone(), middleware::keyed));
    open.fallback(routes::nothing_here)
        .layer(from_fn_with_state(shared, middleware::open))
        .merge(keyed)
        .layer(map_response(hidden_characters::escape))
}
