//! The web console at `/ui`: pages for people, over the functions that the REST interface calls.
//!
//! Every page names the REST route with the same content. The console makes no decision: the
//! gateway decides what a principal sees and may do. Pages are complete without a script.

mod access_matrix_pages;
mod access_pages;
mod acting_keys;
mod activity_chart;
mod approval_details_view;
mod approval_events;
mod approval_pages;
mod argument_form;
mod argument_hunks;
mod assets;
mod call_filters;
mod call_pages;
mod call_result_view;
mod call_snippets;
mod call_waterfall;
mod directory_pages;
mod error_page;
mod form_post;
mod html;
mod indented_json;
mod issuer_sign_in;
mod live_calls;
mod live_stream;
mod node_pages;
mod overview_page;
mod page_layout;
mod picture_store;
mod pin_pages;
mod plugin_pages;
mod record_page;
mod record_view;
mod response_headers;
mod schema_table;
mod session;
mod session_cookie;
mod session_store;
mod sign_in;
mod source_add_page;
mod source_form;
mod source_login_page;
mod source_page;
mod source_tools_page;
mod tool_filters;
mod tool_list_page;
mod tool_page;
mod toolset_pages;
mod try_page;
mod word_diff;

use std::sync::Arc;

use axum::Router;
use axum::middleware::map_response;
use axum::response::Redirect;
use axum::routing::{get, post};
use server_core::ServerState;

use acting_keys::ActingKeys;
use directory_pages::{ORGS, PERSONAS};
use error_page::PageError;
use picture_store::PictureStore;
use session_store::SessionStore;

/// The state of the console: the server's, the sessions of its users, pictures that they look at, and
/// keys with which they act for others.
#[derive(Debug, Clone)]
pub(crate) struct ConsoleState {
    server: ServerState,
    sessions: Arc<SessionStore>,
    pictures: Arc<PictureStore>,
    acting_keys: Arc<ActingKeys>,
}

/// Path of the page that opens after signing in.
const FIRST_PAGE: &str = "/ui";

/// Builds the router of all pages below `/ui`. Its sessions end with it. The caller adds the check
/// of Host and Origin, as for every router.
pub fn console_router(server: &ServerState) -> Router {
    let state = ConsoleState {
        server: server.clone(),
        sessions: Arc::default(),
        pictures: Arc::default(),
        acting_keys: Arc::default(),
    };
    Router::new()
        .route("/ui", get(overview_page::show_overview))
        .route("/ui/", get(|| async { Redirect::to(FIRST_PAGE) }))
        .route("/ui/sign-in", get(sign_in::show_form).post(sign_in::start_session))
        .route("/ui/sign-in/issuers/{name}", get(issuer_sign_in::start_sign_in))
        .route("/ui/sign-in/issuers/{name}/callback", get(issuer_sign_in::finish_sign_in))
        .route("/ui/sign-out", post(sign_in::end_session))
        .route("/ui/approvals", get(approval_pages::list_approvals))
        .route("/ui/approvals/{id}", get(approval_pages::show_approval))
        .route("/ui/approvals/{id}/approve", post(approval_pages::approve_call))
        .route("/ui/approvals/{id}/edit", post(approval_pages::edit_call))
        .route("/ui/approvals/{id}/hunks", post(approval_pages::keep_hunks))
        .route("/ui/approvals/{id}/deny", post(approval_pages::deny_call))
        .route(approval_pages::EVENTS, get(approval_events::stream_events))
        .route(call_pages::PAGE, get(call_pages::list_calls))
        .route(call_pages::EXPORT, get(call_pages::export_calls))
        .route(live_calls::PAGE, get(live_calls::show_live_calls))
        .route(live_calls::EVENTS, get(live_calls::stream_calls))
        .route("/ui/calls/{id}", get(call_pages::show_call))
        .route(node_pages::PAGE, get(node_pages::list_nodes))
        .route("/ui/nodes/{node}/drain", post(node_pages::drain_node))
        .route("/ui/nodes/{node}/resume", post(node_pages::resume_node))
        .route("/ui/nodes/{node}/revoke", post(node_pages::revoke_node))
        .route(pin_pages::PAGE, get(pin_pages::list_pins))
        .route("/ui/pins/{source}/{tool}", get(pin_pages::show_pin))
        .route("/ui/pins/{source}/{tool}/approve", post(pin_pages::approve_definition))
        .route("/ui/pins/{source}/{tool}/reject", post(pin_pages::reject_definition))
        .route(plugin_pages::PAGE, get(plugin_pages::list_plugins))
        .route(
            "/ui/plugins/{name}",
            get(plugin_pages::show_settings).post(plugin_pages::update_settings),
        )
        .route("/ui/plugins/{name}/reload", post(plugin_pages::reload_plugin))
        .route("/ui/record", get(record_page::show_record))
        .route("/ui/record/verify", post(record_page::verify_record))
        .route("/ui/tools", get(tool_list_page::list_tools))
        .route("/ui/tools/{name}", get(tool_page::show_tool))
        .route("/ui/tools/{name}/try", post(try_page::post_try))
        .route("/ui/pictures/{token}", get(picture_store::serve_picture))
        .route("/ui/assets/{name}", get(assets::serve_asset))
        .merge(access_router())
        .merge(source_router())
        .route("/ui/{*path}", get(|| async { PageError::no_page() }))
        .layer(map_response(response_headers::add_headers))
        .with_state(state)
}

/// The pages of keys, users, roles and what they may call.
fn access_router() -> Router<ConsoleState> {
    Router::new()
        .route("/ui/access", get(access_pages::list_keys))
        .route("/ui/access/keys", post(access_pages::create_key))
        .route("/ui/access/keys/{id}/revoke", post(access_pages::revoke_key))
        .route("/ui/access/users", get(access_pages::list_users))
        .route("/ui/access/users/{subject}/disable", post(access_pages::disable_user))
        .route("/ui/access/users/{subject}/enable", post(access_pages::enable_user))
        .route("/ui/access/roles", get(access_pages::list_roles))
        .route(PERSONAS, get(directory_pages::list_personas).post(directory_pages::create_persona))
        .route("/ui/access/personas/{name}", post(directory_pages::update_persona))
        .route(ORGS, get(directory_pages::list_orgs).post(directory_pages::create_org))
        .route(
            "/ui/access/orgs/{name}",
            get(directory_pages::show_org).post(directory_pages::set_org_tools),
        )
        .route("/ui/access/orgs/{name}/disable", post(directory_pages::disable_org))
        .route("/ui/access/orgs/{name}/enable", post(directory_pages::enable_org))
        .route(access_matrix_pages::MATRIX, get(access_matrix_pages::show_matrix))
        .route(access_matrix_pages::DECISION, get(access_matrix_pages::show_decision))
        .route(
            access_matrix_pages::POLICY,
            get(access_matrix_pages::edit_policy).post(access_matrix_pages::preview_policy),
        )
}

/// The pages of sources: their state, their tools, adding one, signing in to one, and the toolsets of
/// their items.
fn source_router() -> Router<ConsoleState> {
    Router::new()
        .route(source_page::PAGE, get(source_page::show_sources))
        .route(
            source_add_page::PAGE,
            get(source_add_page::show_form).post(source_add_page::post_form_of_source),
        )
        .route("/ui/sources/{source}/login", post(source_login_page::start_login))
        .route("/ui/sources/{source}/login/{*rest}", get(source_login_page::finish_login))
        .route("/ui/sources/refresh", post(source_page::refresh_sources))
        .route(toolset_pages::PAGE, get(toolset_pages::list_toolsets))
        .route("/ui/toolsets/{name}", get(toolset_pages::show_toolset))
        .route("/ui/toolsets/{name}/accept", post(toolset_pages::accept_toolset))
        .route("/ui/sources/{source}/tools", get(source_tools_page::show_tools))
        .route("/ui/sources/{source}/switch", post(source_tools_page::post_switch))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderMap;

    /// Headers of a request, for tests of this crate.
    pub(crate) fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }
}
