//! Forms that a browser posts: from a page of this origin only, and with the token of that page.

use axum::extract::{FromRequest, FromRequestParts as _, Request};
use axum::http::header::{CONTENT_TYPE, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use server_core::body::read_body;
use server_core::error::ApiError;
use sha2::{Digest as _, Sha256};
use tool::ErrorCode;
use url::form_urlencoded;

use crate::ConsoleState;
use crate::error_page::PageError;
use crate::session::ConsoleSession;
use crate::session_cookie::ConsoleCookie;
use crate::session_store::form_token;

/// Maximum size of a form in bytes: a reason of 1,000 characters, or a token of an issuer.
const MAX_FORM_BYTES: usize = 64 << 10;
/// Name of the field with the token.
pub(crate) const TOKEN_FIELD: &str = "form_token";

/// A form of a signed-in user that passed all checks.
#[derive(Debug)]
pub(crate) struct SignedForm {
    pub(crate) session: ConsoleSession,
    pub(crate) fields: FormFields,
}

/// The sign-in form. Its token belongs to the cookie that the form's page set.
#[derive(Debug)]
pub(crate) struct SignInForm {
    pub(crate) fields: FormFields,
    /// Whether the browser reached the server by `https`.
    pub(crate) is_https: bool,
}

/// The fields of a form.
pub(crate) struct FormFields(Vec<(String, String)>);

impl std::fmt::Debug for FormFields {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FormFields")
    }
}

impl FormFields {
    /// Makes the fields of these names and values.
    #[cfg(test)]
    pub(crate) fn from_pairs(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(pairs.into_iter().collect())
    }

    /// Returns a field; empty if it is absent.
    pub(crate) fn get(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map_or("", |(_, value)| value.as_str())
    }

    /// Returns all values of a field, in order.
    pub(crate) fn get_all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

impl FromRequest<ConsoleState> for SignedForm {
    type Rejection = PageError;

    async fn from_request(request: Request, state: &ConsoleState) -> Result<Self, PageError> {
        check_origin(request.headers())?;
        let (mut parts, body) = request.into_parts();
        let session = ConsoleSession::from_request_parts(&mut parts, state).await?;
        let fields = parse_form(&parts.headers, read_body(body, MAX_FORM_BYTES).await?.as_ref())?;
        check_token(&fields, &session.form_token())?;
        Ok(Self { session, fields })
    }
}

impl FromRequest<ConsoleState> for SignInForm {
    type Rejection = PageError;

    async fn from_request(request: Request, _: &ConsoleState) -> Result<Self, PageError> {
        let is_https = check_origin(request.headers())?;
        let (parts, body) = request.into_parts();
        let fields = parse_form(&parts.headers, read_body(body, MAX_FORM_BYTES).await?.as_ref())?;
        let cookie = ConsoleCookie::SignIn.read(&parts.headers).ok_or_else(|| {
            PageError::refused("the browser sent no cookie with the form")
                .with_help("allow cookies of this site, load the page again and sign in")
        })?;
        check_token(&fields, &form_token(cookie))?;
        Ok(Self { fields, is_https })
    }
}

/// Checks that a post comes from a page of this server, and returns whether that was by `https`.
///
/// Stricter than the check of every request: the origin must be present and equal to `Host`, so
/// that `server.allowed_origins` may call the REST interface but not act for a signed-in user.
fn check_origin(headers: &HeaderMap) -> Result<bool, PageError> {
    let foreign = || PageError::refused("the form comes from another site");
    let (host, origin) = (single(headers, &HOST), single(headers, &ORIGIN));
    let (host, origin) = host.zip(origin).ok_or_else(foreign)?;
    let (scheme, authority) = origin.split_once("://").ok_or_else(foreign)?;
    let is_https = scheme.eq_ignore_ascii_case("https");
    let is_http = is_https || scheme.eq_ignore_ascii_case("http");
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    let is_same_site = site.is_none_or(|site| site == b"same-origin");
    if !is_http || !is_same_site || !authority.eq_ignore_ascii_case(host) {
        return Err(foreign());
    }
    Ok(is_https)
}

fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next().filter(|_| values.next().is_none());
    first.and_then(|value| value.to_str().ok())
}

fn parse_form(headers: &HeaderMap, body: &[u8]) -> Result<FormFields, PageError> {
    let media_type = single(headers, &CONTENT_TYPE).unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    if !media_type.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        let message = "a form must be `application/x-www-form-urlencoded`";
        return Err(ApiError::new(ErrorCode::InvalidRequest, message).into());
    }
    Ok(FormFields(form_urlencoded::parse(body).into_owned().collect()))
}

/// Compares digests, so that the time of the comparison does not depend on the expected token.
fn check_token(fields: &FormFields, expected: &str) -> Result<(), PageError> {
    if Sha256::digest(fields.get(TOKEN_FIELD)) == Sha256::digest(expected) {
        return Ok(());
    }
    Err(PageError::refused("the form does not belong to this session")
        .with_help("load the page again and repeat what you did"))
}

#[cfg(test)]
mod tests {
    use crate::tests::headers;

    use super::{FormFields, check_origin, check_token, parse_form};

    #[test]
    fn only_a_page_of_this_server_posts() {
        let host = ("host", "tools.example:8443");
        for (origin, is_https) in
            [("http://tools.example:8443", false), ("HTTPS://Tools.Example:8443", true)]
        {
            let own = [host, ("origin", origin)];
            assert_eq!(check_origin(&headers(&own)).ok(), Some(is_https), "{origin}");
            let fetched = [host, ("origin", origin), ("sec-fetch-site", "same-origin")];
            assert!(check_origin(&headers(&fetched)).is_ok());
            for site in ["same-site", "cross-site", "none", ""] {
                let fetched = [host, ("origin", origin), ("sec-fetch-site", site)];
                assert!(check_origin(&headers(&fetched)).is_err(), "{site}");
            }
        }
        for origin in [
            "null",
            "",
            "https://evil.example",
            "https://tools.example",
            "https://tools.example:8444",
            "https://a.tools.example:8443",
            "https://tools.example:8443.evil.example",
            "https://tools.example:8443/",
            "ftp://tools.example:8443",
            "tools.example:8443",
        ] {
            assert!(check_origin(&headers(&[host, ("origin", origin)])).is_err(), "{origin}");
        }
        assert!(check_origin(&headers(&[host])).is_err(), "no origin");
        let twice =
            [host, ("origin", "https://evil.example"), ("origin", "http://tools.example:8443")];
        assert!(check_origin(&headers(&twice)).is_err());
    }

    #[test]
    fn a_form_has_the_token_and_the_media_type_of_a_form() {
        let form = |kind: &str, body: &str| {
            parse_form(&headers(&[("content-type", kind)]), body.as_bytes())
        };
        let kind = "application/x-www-form-urlencoded";
        let fields = form(kind, "a=1%2B1&form_token=t&a=2").unwrap();
        assert_eq!((fields.get("a"), fields.get("b")), ("1+1", ""));
        assert!(check_token(&fields, "t").is_ok());
        assert!(check_token(&fields, "u").is_err());
        assert!(check_token(&FormFields(Vec::new()), "t").is_err());
        assert!(form("application/x-www-form-urlencoded; charset=utf-8", "").is_ok());
        for kind in ["text/plain", "multipart/form-data; boundary=x", "application/json", ""] {
            assert!(form(kind, "form_token=t").is_err(), "{kind}");
        }
    }
}
