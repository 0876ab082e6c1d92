//! Redirects. Each redirect target is validated as an untrusted URL.

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName};
use http::{Method, Request, StatusCode, Uri};
use tool::executor::DispatchState;
use url::Url;

use super::error::{EgressError, RedactedUrl};
use super::response::EgressResponse;
use super::url_policy::Origin;
use super::{UrlTrust, blocked_error};

/// Maximum number of redirects that are followed.
#[derive(Debug, Clone, Copy)]
pub struct RedirectPolicy {
    /// Maximum number of redirects.
    pub max_redirects: u8,
}

impl Default for RedirectPolicy {
    fn default() -> Self {
        Self { max_redirects: 5 }
    }
}

/// Headers that are forwarded to another origin: none that could hold a secret.
const CROSS_ORIGIN_HEADERS: [HeaderName; 4] =
    [header::ACCEPT, header::ACCEPT_LANGUAGE, header::USER_AGENT, header::RANGE];

/// A request that can be repeated against a redirect target.
#[derive(Debug, Clone)]
pub(super) struct RedirectRequest {
    pub(super) trust: UrlTrust,
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl RedirectRequest {
    pub(super) fn to_request(&self) -> Request<Bytes> {
        let mut request = Request::new(self.body.clone());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        request
    }

    /// Returns the request to the redirect target, or `None` if `response` is no redirect.
    pub(super) fn next_request(
        &self,
        current_origin: &Origin,
        response: &EgressResponse,
    ) -> Result<Option<Self>, EgressError> {
        let status = response.status();
        // As browsers do (Fetch, 4.4): a POST becomes a GET at 301 and 302, anything at 303.
        let becomes_get = match status {
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => self.method == Method::POST,
            StatusCode::SEE_OTHER => self.method != Method::HEAD,
            StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => false,
            _ => return Ok(None),
        };
        let Some(location) = response.headers().get(header::LOCATION) else { return Ok(None) };
        let invalid_redirect = |why: &str| EgressError::Blocked {
            url: RedactedUrl::from_uri(&self.uri),
            reason: why.to_owned(),
            dispatch: DispatchState::MaybeSent,
        };
        let location =
            location.to_str().map_err(|_| invalid_redirect("it redirects to what is not a URL"))?;
        let base = Url::parse(&self.uri.to_string())
            .map_err(|_| invalid_redirect("it redirects from what is not a URL"))?;
        let mut target_url = base
            .join(location)
            .map_err(|_| invalid_redirect("it redirects to what is not a URL"))?;
        target_url.set_fragment(None);
        let redacted_target = RedactedUrl::from_text(target_url.as_str());
        let origin = Origin::parse(target_url.as_str()).map_err(EgressError::mark_maybe_sent)?;
        if current_origin.is_https() && !origin.is_https() {
            return Err(blocked_error(
                &redacted_target,
                "a redirect from https leads to a URL without TLS",
            )
            .mark_maybe_sent());
        }
        let uri = target_url
            .as_str()
            .parse()
            .map_err(|_| invalid_redirect("it redirects to a URL that cannot be requested"))?;
        let mut next = Self { uri, ..self.clone() };
        if becomes_get {
            next.method = Method::GET;
            next.body = Bytes::new();
            next.headers.remove(header::CONTENT_TYPE);
        }
        if origin != *current_origin {
            if !matches!(next.method, Method::GET | Method::HEAD) || !next.body.is_empty() {
                let why = "a redirect would send the request body to another origin";
                return Err(blocked_error(&redacted_target, why).mark_maybe_sent());
            }
            next.trust = UrlTrust::UpstreamResponse;
            next.headers = self
                .headers
                .iter()
                .filter(|(name, _)| CROSS_ORIGIN_HEADERS.contains(name))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
        }
        Ok(Some(next))
    }
}
