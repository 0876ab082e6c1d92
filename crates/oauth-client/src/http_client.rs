//! HTTP requests of OAuth: JSON and forms, without redirects, bounded in bytes and time.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use egress::{EgressClient, RequestLimits};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::TokenError;
use super::address_policy::AddressPolicy;
use tool::display_text::escape_and_truncate;

/// Maximum bytes of a response.
const MAX_BODY_BYTES: usize = 256 << 10;
/// Timeout of one request in total.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Status and body of a response.
pub(super) struct OAuthHttpResponse {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

/// HTTP client for the requests of OAuth.
#[derive(Debug)]
pub(super) struct OAuthHttpClient {
    pub(super) egress: EgressClient,
    pub(super) address_policy: AddressPolicy,
}

/// Target of a request, and its description for error messages.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestTarget<'a> {
    pub(super) url: &'a str,
    /// Role of the target, such as `the token endpoint`.
    pub(super) role: &'a str,
    /// Party that named the URL.
    pub(super) named_by: &'a str,
}

impl OAuthHttpClient {
    /// Fetches a JSON document, or returns `None` if there is none.
    pub(super) async fn get_json<T: DeserializeOwned>(
        &self,
        target: RequestTarget<'_>,
    ) -> Result<Option<T>, TokenError> {
        let body = self.get_document(target, HeaderMap::new()).await?;
        body.map(|body| parse_json(target, &body)).transpose()
    }

    /// Fetches a document, or returns `None` if there is none.
    pub(super) async fn get_document(
        &self,
        target: RequestTarget<'_>,
        headers: HeaderMap,
    ) -> Result<Option<Bytes>, TokenError> {
        let answer = self.send_in_time(target, Method::GET, (headers, Bytes::new())).await?;
        if answer.status.is_client_error() && answer.status != StatusCode::TOO_MANY_REQUESTS {
            return Ok(None);
        }
        if !answer.status.is_success() {
            return Err(status_error(target, answer.status));
        }
        Ok(Some(answer.body))
    }

    /// Sends a form with POST.
    pub(super) async fn post_form(
        &self,
        target: RequestTarget<'_>,
        mut headers: HeaderMap,
        fields: &[(&str, String)],
    ) -> Result<OAuthHttpResponse, TokenError> {
        let body = encode_form(fields);
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(header::CONTENT_TYPE, kind);
        self.send_in_time(target, Method::POST, (headers, body)).await
    }

    /// Sends JSON with POST.
    pub(super) async fn post_json(
        &self,
        target: RequestTarget<'_>,
        body: &serde_json::Value,
    ) -> Result<OAuthHttpResponse, TokenError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.send_in_time(target, Method::POST, (headers, Bytes::from(body.to_string()))).await
    }

    async fn send_in_time(
        &self,
        at: RequestTarget<'_>,
        method: Method,
        headers_and_body: (HeaderMap, Bytes),
    ) -> Result<OAuthHttpResponse, TokenError> {
        let sent = timeout(REQUEST_TIMEOUT, self.send_request(at, method, headers_and_body)).await;
        let late = || {
            TokenError::timed_out(format!(
                "{} did not answer within {REQUEST_TIMEOUT:?}",
                describe_target(at)
            ))
        };
        sent.map_err(|_| late())?
    }

    async fn send_request(
        &self,
        at: RequestTarget<'_>,
        method: Method,
        (mut headers, body): (HeaderMap, Bytes),
    ) -> Result<OAuthHttpResponse, TokenError> {
        let class = self.address_policy.classify_url(at.url, at.named_by)?;
        let failed = |error| {
            TokenError::unreachable(
                &format!(
                    "cannot send a request to \
                {}",
                    describe_target(at)
                ),
                &error,
            )
        };
        let uri = self.egress.validate_url(&class, at.url).map_err(failed)?;
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        let limits = RequestLimits { max_body_bytes: MAX_BODY_BYTES, ..RequestLimits::default() };
        let response = self.egress.send_request(&class, request, limits).await.map_err(failed)?;
        let status = response.status();
        if status.is_redirection() {
            let to = response.headers().get(header::LOCATION).and_then(|to| to.to_str().ok());
            let to = escape_and_truncate(to.unwrap_or("nowhere"), 200);
            let message =
                format!("{} redirects to `{to}`, which is not followed", describe_target(at));
            return Err(TokenError::blocked(message));
        }
        let mut rest = response.into_body();
        let mut body = BytesMut::new();
        while let Some(part) = rest.next_chunk().await.map_err(failed)? {
            body.extend_from_slice(&part);
        }
        Ok(OAuthHttpResponse { status, body: body.freeze() })
    }
}

fn encode_form(fields: &[(&str, String)]) -> Bytes {
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    Bytes::from(form.extend_pairs(fields).finish())
}

/// Describes a target without its query, which may contain a secret.
pub(super) fn describe_target(target: RequestTarget<'_>) -> String {
    let url = target.url.split_once('?').map_or(target.url, |(url, _)| url);
    format!("{} `{}`", target.role, escape_and_truncate(url, 200))
}

fn status_error(at: RequestTarget<'_>, status: StatusCode) -> TokenError {
    TokenError::request_refused(format!("{} returned HTTP {status}", describe_target(at)))
}

/// Parses the JSON of a response.
pub(super) fn parse_json<T: DeserializeOwned>(
    target: RequestTarget<'_>,
    body: &[u8],
) -> Result<T, TokenError> {
    serde_json::from_slice(body).map_err(|error| {
        let why = escape_and_truncate(&error.to_string(), 200);
        TokenError::malformed(format!(
            "{} returned an invalid response: {why}",
            describe_target(target)
        ))
    })
}
