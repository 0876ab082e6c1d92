//! The compatibility APIs: routes and formats of the systems that Toolkeep replaces. They translate
//! requests and responses; all decisions are made by the gateway.

mod compat_error;
mod modules;
mod node_tools;
mod tool_packages;

use axum::extract::Request;
use axum::http::header::AUTHORIZATION;
use tool::display_text::truncate_and_escape_debug;

use server_core::error::ApiError;
use server_core::route::ApiRoute;

pub use node_tools::registration_routes;

/// The routes that need no key.
pub fn public_routes() -> Vec<ApiRoute> {
    modules::public_routes()
}

/// The routes that need a key.
pub fn authenticated_routes() -> Vec<ApiRoute> {
    let parts =
        [modules::module_routes(), node_tools::node_tool_routes(), tool_packages::package_routes()];
    parts.into_iter().flatten().collect()
}

/// Adds the module API's own text to an authentication error on its routes.
pub fn with_compat_detail(error: ApiError, request: &Request) -> ApiError {
    if !modules::is_module_route(request.uri().path()) {
        return error;
    }
    let given = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer = given.and_then(|text| text.split_once(' ')).map(|(scheme, _)| scheme);
    error.with_detail(match bearer {
        Some(scheme) if scheme.eq_ignore_ascii_case("bearer") => "Invalid service auth token",
        _ => "Missing service auth token",
    })
}

/// Escapes a name from a request for an error message, at most as long as a name may be.
fn escape_name(name: &str) -> String {
    truncate_and_escape_debug(name, tool::names::MAX_NAME_BYTES)
}
