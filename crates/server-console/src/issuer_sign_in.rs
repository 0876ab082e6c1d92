//! Signing in with an issuer: the authorization code flow of OpenID Connect, with PKCE.
//!
//! The server stores nothing of a sign-in that has begun. Its secret is in a cookie of the browser,
//! and `state`, `nonce` and the verifier of PKCE are derived from it: who does not hold the cookie can
//! neither continue the sign-in of another nor make another browser continue one of theirs.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::header::{LOCATION, REFRESH};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use serde::Deserialize;
use server_core::authentication::{SessionUser, resume_principal};
use server_core::error::ApiError;
use server_core::query_string::parse_query;
use server_core::token_issuers::{AuthorizationRequest, ReturnedCode};
use sha2::{Digest as _, Sha256};
use tool::{ErrorCode, Secret};
use url::form_urlencoded;

use crate::error_page::PageError;
use crate::html::{Element, element, link, text_element};
use crate::page_layout::{PageLayout, PageUser};
use crate::session_cookie::ConsoleCookie;
use crate::session_store::random_token;
use crate::sign_in::{append_cookie, check_next_page, sign_in_page};
use crate::{ConsoleState, FIRST_PAGE};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct StartQuery {
    next: Option<String>,
}

/// The parameters that an issuer adds to the callback; it may add others.
#[derive(Debug, Default, Deserialize)]
struct CallbackQuery {
    code: Option<String>,
    state: Option<String>,
    iss: Option<String>,
    error: Option<String>,
}

/// A sign-in that this browser has begun.
struct SignInAttempt {
    secret: Secret,
    /// The page to open afterwards.
    next: String,
}

impl SignInAttempt {
    fn new(next: &str) -> Result<Self, ApiError> {
        Ok(Self { secret: random_token()?, next: next.to_owned() })
    }

    fn from_cookie(value: &str) -> Option<Self> {
        let (secret, next) = value.split_once('.')?;
        let is_secret = secret.len() == 64 && secret.bytes().all(|byte| byte.is_ascii_hexdigit());
        let next = String::from_utf8(BASE64URL_NOPAD.decode(next.as_bytes()).ok()?).ok()?;
        let next = check_next_page(&next).to_owned();
        is_secret.then(|| Self { secret: Secret::new(secret), next })
    }

    fn cookie_value(&self) -> String {
        format!("{}.{}", self.secret.expose(), BASE64URL_NOPAD.encode(self.next.as_bytes()))
    }

    /// Returns a value for one purpose. It discloses neither the secret nor another value.
    fn derive_value(&self, purpose: &str) -> String {
        HEXLOWER.encode(&Sha256::digest(format!("{purpose} {}", self.secret.expose())))
    }

    fn state_parameter(&self) -> String {
        self.derive_value("state")
    }

    fn nonce(&self) -> String {
        self.derive_value("nonce")
    }

    fn code_verifier(&self) -> String {
        self.derive_value("verifier")
    }

    fn code_challenge(&self) -> String {
        BASE64URL_NOPAD.encode(&Sha256::digest(self.code_verifier()))
    }
}

/// Returns the links to the issuers with which people sign in, if there are any.
pub(crate) fn issuer_links(state: &ConsoleState, next: &str) -> Option<Element> {
    let issuers = &state.server.components.issuers;
    let (names, base) = (issuers.sign_in_issuers(), issuers.public_url()?);
    let next: String = form_urlencoded::byte_serialize(next.as_bytes()).collect();
    let entry = |name: &String| {
        // The whole URL: the issuer sends the browser there, and the cookie must be of that host.
        let target = format!("{base}{}?next={next}", start_path(name));
        let text = format!("Sign in with {name}");
        element("li").child(link(target, &text).class("button"))
    };
    let title = text_element("h2", "With an account elsewhere");
    let list = element("ul").class("plain").children(names.iter().map(entry));
    (!names.is_empty()).then(|| element("section").child(title).child(list))
}

/// Sends the browser to the issuer.
pub(crate) async fn start_sign_in(
    State(state): State<ConsoleState>,
    Path(name): Path<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, PageError> {
    let query: StartQuery = parse_query(&uri).map_err(PageError::invalid_query)?;
    let next = check_next_page(query.next.as_deref().unwrap_or(FIRST_PAGE));
    let attempt = SignInAttempt::new(next)?;
    let redirect_uri = redirect_uri(&state, &name)?;
    let issuers = &state.server.components.issuers;
    let request = AuthorizationRequest {
        redirect_uri: &redirect_uri,
        state: &attempt.state_parameter(),
        nonce: &attempt.nonce(),
        code_challenge: &attempt.code_challenge(),
    };
    let url = match issuers.authorization_url(&name, request).await {
        Ok(url) => url,
        Err(error) => return sign_in_page(&state, &headers, next, Some(&error)),
    };
    let location = HeaderValue::try_from(url).map_err(|_| {
        ApiError::new(ErrorCode::UpstreamLost, "the login page of the issuer is not a valid URL")
    })?;
    let mut response = (StatusCode::SEE_OTHER, [(LOCATION, location)]).into_response();
    let is_https = redirect_uri.starts_with("https:");
    let cookie = ConsoleCookie::IssuerSignIn.store(&headers, &attempt.cookie_value(), is_https);
    append_cookie(&mut response, &cookie)?;
    Ok(response)
}

/// Signs in with the code that the browser brings back, and leads to the next page.
pub(crate) async fn finish_sign_in(
    State(state): State<ConsoleState>,
    Path(name): Path<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, PageError> {
    let attempt = ConsoleCookie::IssuerSignIn.read(&headers).and_then(SignInAttempt::from_cookie);
    let next = attempt.as_ref().map_or(FIRST_PAGE, |attempt| attempt.next.as_str());
    let signed_in = match &attempt {
        Some(attempt) => exchange_code(&state, &name, attempt, &uri).await,
        None => Err(foreign_answer()),
    };
    let mut response = match signed_in {
        Ok(token) => {
            let is_https = redirect_uri(&state, &name)?.starts_with("https:");
            let cookie = ConsoleCookie::Session.store(&headers, token.expose(), is_https);
            let mut response = forward_page("You are signed in.", next);
            append_cookie(&mut response, &cookie)?;
            response
        }
        Err(error) => sign_in_page(&state, &headers, next, Some(&error))?,
    };
    append_cookie(&mut response, &ConsoleCookie::IssuerSignIn.remove(&headers))?;
    Ok(response)
}

/// Starts a session for the person whom the code stands for, and returns its token.
async fn exchange_code(
    state: &ConsoleState,
    name: &str,
    attempt: &SignInAttempt,
    uri: &Uri,
) -> Result<Secret, ApiError> {
    let invalid = |message| ApiError::new(ErrorCode::InvalidRequest, message);
    let query: CallbackQuery = parse_query(uri).map_err(invalid)?;
    let given = Sha256::digest(query.state.as_deref().unwrap_or_default());
    if given != Sha256::digest(attempt.state_parameter()) {
        return Err(foreign_answer());
    }
    let Some(code) = query.code.filter(|_| query.error.is_none()) else {
        return Err(denied(name, query.error.as_deref()));
    };
    let components = &state.server.components;
    let returned = ReturnedCode {
        code: &code,
        issuer: query.iss.as_deref(),
        redirect_uri: &redirect_uri(state, name)?,
        code_verifier: &attempt.code_verifier(),
        nonce: &attempt.nonce(),
    };
    let clock = &components.clock;
    let user = components.issuers.finish_sign_in(name, returned, clock).await?;
    let user = SessionUser::IssuerUser(Arc::new(user));
    let principal = resume_principal(&state.server, &user, clock.wall_now())?;
    state.sessions.start_session(user, principal.key_id(), clock.monotonic_now())
}

fn start_path(name: &str) -> String {
    format!("/ui/sign-in/issuers/{name}")
}

/// Returns where the issuer sends the browser back to. Each issuer has a URL of its own, so that the
/// answer of one is not taken for another's.
fn redirect_uri(state: &ConsoleState, name: &str) -> Result<String, ApiError> {
    let issuers = &state.server.components.issuers;
    let is_known = issuers.sign_in_issuers().iter().any(|known| known == name);
    let base = issuers.public_url().filter(|_| is_known);
    let base = base.ok_or_else(|| {
        ApiError::new(ErrorCode::NotFound, "nobody signs in with an issuer of this name")
    })?;
    Ok(format!("{base}{}/callback", start_path(name)))
}

fn foreign_answer() -> ApiError {
    let message = "this browser has begun no such sign-in, or more than ten minutes ago";
    ApiError::new(ErrorCode::InvalidRequest, message)
        .with_help("sign in again; allow cookies of this site")
}

/// The error of an issuer that answered without a code. Its description is text of others, and is
/// not shown.
fn denied(name: &str, error: Option<&str>) -> ApiError {
    let message = match error {
        Some("access_denied") => {
            format!("the sign-in with `{name}` was refused or cancelled there")
        }
        _ => format!("`{name}` answered with an error"),
    };
    ApiError::new(ErrorCode::Forbidden, message)
        .with_help("sign in again, or ask the operator whether you may use this server")
}

/// A page that leads on by itself. Between sites a redirect does not do: a browser that comes from
/// another site would open the next page without the session's cookie.
pub(crate) fn forward_page(message: &str, target: &str) -> Response {
    let content = element("p").text(message).text(" ");
    let content = content.child(link(target.to_owned(), "Continue")).text(".");
    let layout =
        PageLayout { title: "Signing in", section: None, user: PageUser::Unknown, twin: None };
    let mut response = layout.render(content).into_response();
    if let Ok(refresh) = HeaderValue::try_from(format!("0; url={target}")) {
        response.headers_mut().insert(REFRESH, refresh);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::{FIRST_PAGE, SignInAttempt};

    #[test]
    fn an_attempt_comes_back_from_its_cookie_and_leads_to_pages_of_the_console() {
        let attempt = SignInAttempt::new("/ui/tools?q=a;b,c").unwrap();
        let cookie = attempt.cookie_value();
        assert!(cookie.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)));
        let returned = SignInAttempt::from_cookie(&cookie).unwrap();
        assert_eq!(returned.next, "/ui/tools?q=a;b,c");
        assert_eq!(returned.state_parameter(), attempt.state_parameter());
        let evil = SignInAttempt { next: "https://evil.example/".to_owned(), ..returned };
        let evil = SignInAttempt::from_cookie(&evil.cookie_value()).unwrap();
        assert_eq!(evil.next, FIRST_PAGE);
        for broken in ["", ".", "abc.", "x.y"] {
            assert!(SignInAttempt::from_cookie(broken).is_none(), "{broken}");
        }
    }

    #[test]
    fn each_value_has_one_purpose_and_one_sign_in() {
        let [first, second] = [0, 1].map(|_| SignInAttempt::new(FIRST_PAGE).unwrap());
        let values = |attempt: &SignInAttempt| {
            [
                attempt.state_parameter(),
                attempt.nonce(),
                attempt.code_verifier(),
                attempt.code_challenge(),
            ]
        };
        let mut all: Vec<_> = values(&first).into_iter().chain(values(&second)).collect();
        all.push(first.secret.expose().to_owned());
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 9);
        assert!(first.code_verifier().len() >= 43, "RFC 7636, section 4.1");
    }
}
