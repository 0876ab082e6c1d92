//! The REST interface under `/v1`. Each route is declared once, so that every mounted route is
//! documented.

mod access_api;
mod approval_api;
mod artifact_api;
mod attention_api;
mod batch_calls;
pub(crate) mod call_api;
mod chunked_body;
mod enrollment_api;
mod explain_api;
mod health_api;
mod key_api;
mod metadata_api;
mod node_api;
mod org_api;
mod persona_api;
mod pin_api;
mod plugin_api;
pub(crate) mod program_api;
mod provider_list;
mod record_api;
mod role_api;
mod search_api;
mod sign_in_api;
mod source_api;
mod switch_api;
mod tool_api;
mod toolset_api;
mod user_api;

use serde_json::Value;
use server_core::route::ApiRoute;

pub use node_api::heartbeat_route;

/// The routes that need no key. `document` builds the OpenAPI document of all interfaces.
pub fn public_routes(document: fn() -> Value) -> Vec<ApiRoute> {
    let parts = [
        health_api::public_routes(document),
        metadata_api::public_routes(),
        approval_api::public_routes(),
    ];
    parts.into_iter().flatten().collect()
}

/// The routes that need a key.
pub fn authenticated_routes() -> Vec<ApiRoute> {
    let parts = [
        tool_api::routes(),
        search_api::routes(),
        call_api::routes(),
        explain_api::routes(),
        access_api::routes(),
        approval_api::routes(),
        artifact_api::routes(),
        attention_api::routes(),
        record_api::routes(),
        source_api::routes(),
        switch_api::routes(),
        toolset_api::routes(),
        pin_api::routes(),
        plugin_api::routes(),
        key_api::routes(),
        sign_in_api::routes(),
        user_api::routes(),
        persona_api::routes(),
        role_api::routes(),
        org_api::routes(),
        node_api::routes(),
        program_api::routes(),
        enrollment_api::routes(),
        health_api::authenticated_routes(),
    ];
    parts.into_iter().flatten().collect()
}
