//! Signing in to the upstream of a source: the way to its login page, and back.

use axum::extract::{Path, State};
use axum::http::header::ORIGIN;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, Method, Uri};
use axum::response::{IntoResponse as _, Redirect, Response};
use server_core::source_login;

use crate::ConsoleState;
use crate::error_page::PageError;
use crate::form_post::SignedForm;
use crate::issuer_sign_in::forward_page;
use crate::session::ConsoleSession;
use crate::source_page;
use crate::tool_page::encode_segment;

/// Parameter that marks a callback that this page has led on to itself.
const RETURNED: &str = "&returned=1";

/// Path of the form that begins the login to a source.
pub(crate) fn login_path(source: &str) -> String {
    format!("/ui/sources/{}/login", encode_segment(source))
}

/// Begins the login, and sends the browser to the login page.
pub(crate) async fn start_login(
    State(state): State<ConsoleState>,
    Path(source): Path<String>,
    headers: HeaderMap,
    form: SignedForm,
) -> Result<Response, PageError> {
    // Checked by the form: it is the origin of this server.
    let origin = headers.get(ORIGIN).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let redirect_uri = format!("{origin}{}/callback", login_path(&source));
    let principal = &form.session.principal;
    let login = (source.as_str(), redirect_uri.as_str());
    let begun = source_login::start_login(&state.server, principal, login).await?;
    // A form may not lead to another site (`form-action`), a page may.
    Ok(forward_page("The login page of the source is at another site.", &begun.url))
}

/// Ends the login with what the browser brings back.
pub(crate) async fn finish_login(
    State(state): State<ConsoleState>,
    Path((source, _)): Path<(String, String)>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, PageError> {
    let here = uri.path_and_query().map_or(uri.path(), PathAndQuery::as_str);
    let Some(session) = ConsoleSession::find(&state, &headers)? else {
        // The browser comes from another site, so it sent no session. From a page of this site it does.
        return match here.strip_suffix(RETURNED) {
            Some(_) => Err(PageError::signed_out(&Method::POST, &uri)),
            None => Ok(forward_page("You are back.", &format!("{here}{RETURNED}"))),
        };
    };
    let answer = here.strip_suffix(RETURNED).unwrap_or(here);
    let login = (source.as_str(), answer);
    source_login::finish_login(&state.server, &session.principal, login).await?;
    Ok(Redirect::to(source_page::PAGE).into_response())
}
