//! The server's interfaces: REST under `/v1`, MCP under `/mcp`, gRPC and the compatibility APIs.
//!
//! An interface parses a request, authenticates its principal, calls the gateway and writes the
//! response. It makes no decision of its own, so that no two interfaces can differ.

mod connection_workers;
mod grpc;
mod http_server;
mod http_service;
mod legacy_nodes;
mod middleware;
mod openapi;
mod route_table;

pub use connection_workers::ConnectionWorkers;
pub use grpc::{key_bound_service, serve_grpc};
pub use http_server::serve_http;
pub use http_service::HttpService;
pub use legacy_nodes::legacy_node_router;
pub use openapi::openapi_document as openapi;

use axum::Router;
use axum::middleware::{from_fn_with_state, map_response};
use server_core::hidden_characters;
use server_mcp::McpServerState;

/// Builds one router of all interfaces. Each route checks Host and Origin first, then the
/// credential.
pub fn build_router(state: &McpServerState) -> Router {
    let public = route_table::public_router(state);
    let keyed = route_table::authenticated_router(state).merge(server_mcp::mcp_router(state));
    let shared = server_core::ServerState::clone(state);
    let keyed = keyed.layer(from_fn_with_state(shared.clone(), middleware::authenticate_request));
    public
        .fallback(route_table::not_found)
        .layer(from_fn_with_state(shared, middleware::check_site))
        .merge(keyed)
        .layer(map_response(hidden_characters::escape_hidden))
}
