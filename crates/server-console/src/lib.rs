//! The web console at `/ui`: pages for people, over the functions that the REST interface calls.
//!
//! Every page names the REST route with the same content. The console makes no decision: the
//! gateway decides what a principal sees and may do. Pages are complete without a script.

mod access_pages;
mod activity_chart;
mod approval_details_view;
mod approval_events;
mod approval_pages;
mod argument_form;
mod assets;
mod call_pages;
mod call_result_view;
mod call_snippets;
mod error_page;
mod form_post;
mod html;
mod indented_json;
mod overview_page;
mod page_layout;
mod picture_store;
mod pin_pages;
mod record_page;
mod record_view;
mod response_headers;
mod schema_table;
mod session;
mod session_cookie;
mod session_store;
mod sign_in;
mod source_page;
mod tool_filters;
mod tool_list_page;
mod tool_page;
mod try_page;
mod word_diff;

use std::sync::Arc;

use axum::Router;
use axum::middleware::map_response;
use axum::response::Redirect;
use axum::routing::{get, post};
use server_core::ServerState;

use error_page::PageError;
use picture_store::PictureStore;
use session_store::SessionStore;

/// The state of the console: the server's, the sessions of its users, and pictures that they look at.
#[derive(Debug, Clone)]
pub(crate) struct ConsoleState {
    server: ServerState,
    sessions: Arc<SessionStore>,
    pictures: Arc<PictureStore>,
}

/// Path of the page that opens after signing in.
const FIRST_PAGE: &str = "/ui";

/// Builds the router of all pages below `/ui`. Its sessions end with it. The caller adds the check
/// of Host and Origin, as for every router.
pub fn console_router(server: &ServerState) -> Router {
    let state =
        ConsoleState { server: server.clone(), sessions: Arc::default(), pictures: Arc::default() };
    Router::new()
        .route("/ui", get(overview_page::show_overview))
        .route("/ui/", get(|| async { Redirect::to(FIRST_PAGE) }))
        .route("/ui/sign-in", get(sign_in::show_form).post(sign_in::start_session))
        .route("/ui/sign-out", post(sign_in::end_session))
        .route("/ui/access", get(access_pages::list_keys))
        .route("/ui/access/keys", post(access_pages::create_key))
        .route("/ui/access/keys/{id}/revoke", post(access_pages::revoke_key))
        .route("/ui/access/users", get(access_pages::list_users))
        .route("/ui/access/users/{subject}/disable", post(access_pages::disable_user))
        .route("/ui/access/users/{subject}/enable", post(access_pages::enable_user))
        .route("/ui/access/roles", get(access_pages::list_roles))
        .route("/ui/approvals", get(approval_pages::list_approvals))
        .route("/ui/approvals/{id}", get(approval_pages::show_approval))
        .route("/ui/approvals/{id}/approve", post(approval_pages::approve_call))
        .route("/ui/approvals/{id}/edit", post(approval_pages::edit_call))
        .route("/ui/approvals/{id}/deny", post(approval_pages::deny_call))
        .route(approval_pages::EVENTS, get(approval_events::stream_events))
        .route("/ui/calls", get(call_pages::list_calls))
        .route("/ui/calls/{id}", get(call_pages::show_call))
        .route("/ui/pins", get(pin_pages::list_pins))
        .route("/ui/pins/{source}/{tool}", get(pin_pages::show_pin))
        .route("/ui/pins/{source}/{tool}/approve", post(pin_pages::approve_definition))
        .route("/ui/pins/{source}/{tool}/reject", post(pin_pages::reject_definition))
        .route("/ui/record", get(record_page::show_record))
        .route("/ui/sources", get(source_page::show_sources))
        .route("/ui/sources/refresh", post(source_page::refresh_sources))
        .route("/ui/tools", get(tool_list_page::list_tools))
        .route("/ui/tools/{name}", get(tool_page::show_tool))
        .route("/ui/tools/{name}/try", post(try_page::post_try))
        .route("/ui/pictures/{token}", get(picture_store::serve_picture))
        .route("/ui/assets/{name}", get(assets::serve_asset))
        .route("/ui/{*path}", get(|| async { PageError::no_page() }))
        .layer(map_response(response_headers::add_headers))
        .with_state(state)
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
