//! Signing in with a key or a one-time link, the page for all ways to sign in, and signing out.

use axum::extract::State;
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Redirect, Response};
use serde::Deserialize;
use server_core::authentication::{SessionUser, authenticate_form_key, resume_principal};
use server_core::error::ApiError;
use server_core::http_status::http_status;
use server_core::query_string::parse_query;
use server_core::sign_in_links::{check_console_credential, is_link_token};
use tool::{ErrorCode, Secret};

use crate::error_page::PageError;
use crate::form_post::{SignInForm, SignedForm, TOKEN_FIELD};
use crate::html::{Element, element, link, text_element};
use crate::page_layout::{PageLayout, PageUser, submit_button};
use crate::session::ConsoleSession;
use crate::session_cookie::ConsoleCookie;
use crate::session_store::{form_token, random_token};
use crate::{ConsoleState, FIRST_PAGE, issuer_sign_in};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SignInQuery {
    next: Option<String>,
}

/// Returns the page to open after signing in: `page`, if it is one of the console's.
pub(crate) fn check_next_page(page: &str) -> &str {
    let is_plain =
        |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'\\' | b'"' | b'<' | b'>');
    let is_own = page.starts_with("/ui/") && !page.starts_with("/ui/sign-");
    if is_own && page.len() <= 2_000 && page.bytes().all(is_plain) { page } else { FIRST_PAGE }
}

/// Shows the sign-in form.
pub(crate) async fn show_form(
    State(state): State<ConsoleState>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, PageError> {
    let query: SignInQuery = parse_query(&uri).map_err(PageError::invalid_query)?;
    let next = check_next_page(query.next.as_deref().unwrap_or(FIRST_PAGE));
    if ConsoleSession::find(&state, &headers)?.is_some() {
        return Ok(Redirect::to(next).into_response());
    }
    sign_in_page(&state, &headers, next, None)
}

/// Signs in with a key, and opens the next page.
pub(crate) async fn start_session(
    State(state): State<ConsoleState>,
    headers: HeaderMap,
    form: SignInForm,
) -> Result<Response, PageError> {
    let next = check_next_page(form.fields.get("next"));
    let token = match sign_in(&state, form.fields.get("key").trim()).await {
        Ok(token) => token,
        Err(error) => return sign_in_page(&state, &headers, next, Some(&error)),
    };
    if let Some(former) = ConsoleCookie::Session.read(&headers) {
        state.sessions.end_session(former);
    }
    let cookie = ConsoleCookie::Session.store(&headers, token.expose(), form.is_https);
    let mut response = Redirect::to(next).into_response();
    for cookie in [cookie, ConsoleCookie::SignIn.remove(&headers)] {
        append_cookie(&mut response, &cookie)?;
    }
    Ok(response)
}

/// Ends the session and removes its cookie.
pub(crate) async fn end_session(
    State(state): State<ConsoleState>,
    headers: HeaderMap,
    form: SignedForm,
) -> Result<Response, PageError> {
    state.sessions.end_session(form.session.token.expose());
    let mut response = Redirect::to("/ui/sign-in").into_response();
    append_cookie(&mut response, &ConsoleCookie::Session.remove(&headers))?;
    Ok(response)
}

async fn sign_in(state: &ConsoleState, key: &str) -> Result<Secret, ApiError> {
    let clock = &state.server.components.clock;
    let principal = if is_link_token(key) {
        let caller = state.server.sign_in_links.take_caller(key, clock.monotonic_now());
        let caller = caller.ok_or_else(|| {
            ApiError::new(ErrorCode::Unauthenticated, "the link was used or has expired")
        })?;
        resume_principal(&state.server, &SessionUser::KeyHolder(caller), clock.wall_now())?
    } else {
        authenticate_form_key(&state.server, key, clock.wall_now()).await?
    };
    check_console_credential(&principal)?;
    let user = SessionUser::KeyHolder(principal.caller().clone());
    state.sessions.start_session(user, principal.key_id(), clock.monotonic_now())
}

pub(crate) fn append_cookie(response: &mut Response, cookie: &str) -> Result<(), ApiError> {
    let value = cookie.parse().map_err(|_| {
        ApiError::new(ErrorCode::InvalidRequest, "the Host header has no place in a cookie")
    })?;
    response.headers_mut().append(SET_COOKIE, value);
    Ok(())
}

/// The page with the form and the links to issuers. Each has a token and a cookie of its own.
pub(crate) fn sign_in_page(
    state: &ConsoleState,
    headers: &HeaderMap,
    next: &str,
    error: Option<&ApiError>,
) -> Result<Response, PageError> {
    let token = random_token()?;
    let content = element("div").class("narrow").children(error.map(error_notice));
    let content = content.child(sign_in_form(&form_token(token.expose()), next));
    let content = content.children(issuer_sign_in::issuer_links(state, next));
    // A link from another site arrives without the cookie of a session, a link from here does not.
    let again = element("p").text("Already signed in? ");
    let content =
        content.child(again.child(link(next.to_owned(), "Continue to the page")).text("."));
    let layout =
        PageLayout { title: "Sign in", section: None, user: PageUser::Unknown, twin: None };
    let status = error.map_or(StatusCode::OK, |error| http_status(error.code()));
    let mut response = (status, layout.render(content)).into_response();
    append_cookie(&mut response, &ConsoleCookie::SignIn.store(headers, token.expose(), false))?;
    Ok(response)
}

fn error_notice(error: &ApiError) -> Element {
    let notice = element("div").class("notice error").attr("role", "alert");
    if error.code() == ErrorCode::Unauthenticated {
        let message =
            "This key, link or sign-in is not valid: it is unknown, used, expired or revoked.";
        return notice.child(text_element("p", message));
    }
    let help = error.help().map(|help| text_element("p", help));
    notice.child(text_element("p", error.message())).children(help)
}

fn sign_in_form(token: &str, next: &str) -> Element {
    let hidden = |name: &'static str, value: &str| {
        element("input").attr("type", "hidden").attr("name", name).attr("value", value.to_owned())
    };
    let key = element("input")
        .attr("type", "password")
        .attr("id", "key")
        .attr("name", "key")
        .attr("autocomplete", "current-password")
        .attr("spellcheck", "false")
        .attr("aria-describedby", "key-help")
        .flag("required", true)
        .flag("autofocus", true);
    let help = element("p").attr("id", "key-help").class("hint");
    let help = help
        .text("The content of ")
        .child(text_element("code", "owner.key"))
        .text(" in the data directory, or a key from ")
        .child(text_element("code", "toolkeep key create"))
        .text(", or the link that ")
        .child(text_element("code", "toolkeep ui"))
        .text(" prints")
        .text(". The session ends with the key, after 30 minutes without use, or after 12 hours.");
    element("form")
        .attr("method", "post")
        .attr("action", "/ui/sign-in")
        .child(hidden(TOKEN_FIELD, token))
        .child(hidden("next", next))
        .child(text_element("label", "API key").attr("for", "key"))
        .child(key)
        .child(help)
        .child(submit_button("Sign in").class("primary").attr("id", "sign-in"))
}

#[cfg(test)]
mod tests {
    use super::{FIRST_PAGE, check_next_page};

    #[test]
    fn only_pages_of_the_console_open_after_signing_in() {
        for own in ["/ui/tools", "/ui/tools/a.b?x=1", "/ui/approvals?state=all&cursor=1"] {
            assert_eq!(check_next_page(own), own);
        }
        for foreign in [
            "",
            "/",
            "/ui",
            "//evil.example",
            "https://evil.example",
            "/ui/\\evil",
            "/uix/",
            "/ui/sign-in",
            "/ui/sign-out",
            "/ui/a b",
            "/ui/a\r\nSet-Cookie: a=b",
            "/ui/é",
            "javascript:alert(1)",
        ] {
            assert_eq!(check_next_page(foreign), FIRST_PAGE, "{foreign}");
        }
    }
}
