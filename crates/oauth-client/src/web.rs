//! HTTP requests of OAuth: JSON and forms, without redirects, bounded in bytes and time.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use egress::{Egress, HttpLimits};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::Fault;
use super::places::Places;
use tool::display_text::shown;

/// Maximum bytes of a response.
const MOST: usize = 256 << 10;
/// Timeout of one request in total.
const LONG: Duration = Duration::from_secs(10);

/// Status and body of a response.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

/// HTTP client for the requests of OAuth.
#[derive(Debug)]
pub(super) struct Web {
    pub(super) egress: Egress,
    pub(super) places: Places,
}

/// Target of a request, and its description for error messages.
#[derive(Debug, Clone, Copy)]
pub(super) struct At<'a> {
    pub(super) url: &'a str,
    /// Role of the target, such as `the token endpoint`.
    pub(super) what: &'a str,
    /// Party that named the URL.
    pub(super) whose: &'a str,
}

impl Web {
    /// Fetches a JSON document, or returns `None` if there is none.
    pub(super) async fn get<T: DeserializeOwned>(&self, at: At<'_>) -> Result<Option<T>, Fault> {
        let answer = self.send(at, Method::GET, (HeaderMap::new(), Bytes::new())).await?;
        if answer.status.is_client_error() && answer.status != StatusCode::TOO_MANY_REQUESTS {
            return Ok(None);
        }
        if !answer.status.is_success() {
            return Err(refused(at, answer.status));
        }
        read(at, &answer.body).map(Some)
    }

    /// Sends a form with POST.
    pub(super) async fn form(
        &self,
        at: At<'_>,
        mut headers: HeaderMap,
        fields: &[(&str, String)],
    ) -> Result<Answer, Fault> {
        let body = encoded(fields);
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(header::CONTENT_TYPE, kind);
        self.send(at, Method::POST, (headers, body)).await
    }

    /// Sends JSON with POST.
    pub(super) async fn post(&self, at: At<'_>, body: &serde_json::Value) -> Result<Answer, Fault> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.send(at, Method::POST, (headers, Bytes::from(body.to_string()))).await
    }

    async fn send(
        &self,
        at: At<'_>,
        method: Method,
        said: (HeaderMap, Bytes),
    ) -> Result<Answer, Fault> {
        let sent = timeout(LONG, self.exchange(at, method, said)).await;
        let late = || Fault::late(format!("{} did not answer within {LONG:?}", named(at)));
        sent.map_err(|_| late())?
    }

    async fn exchange(
        &self,
        at: At<'_>,
        method: Method,
        (mut headers, body): (HeaderMap, Bytes),
    ) -> Result<Answer, Fault> {
        let class = self.places.class(at.url, at.whose)?;
        let failed = |error| Fault::unreachable(&format!("{} cannot be asked", named(at)), &error);
        let uri = self.egress.check(&class, at.url).map_err(failed)?;
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        let limits = HttpLimits { body: MOST, ..HttpLimits::default() };
        let response = self.egress.send(&class, request, limits).await.map_err(failed)?;
        let status = response.status();
        if status.is_redirection() {
            let to = response.headers().get(header::LOCATION).and_then(|to| to.to_str().ok());
            let to = shown(to.unwrap_or("nowhere"), 200);
            let message = format!("{} redirects to `{to}`, which is not followed", named(at));
            return Err(Fault::blocked(message));
        }
        let mut rest = response.into_body();
        let mut body = BytesMut::new();
        while let Some(part) = rest.chunk().await.map_err(failed)? {
            body.extend_from_slice(&part);
        }
        Ok(Answer { status, body: body.freeze() })
    }
}

fn encoded(fields: &[(&str, String)]) -> Bytes {
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    Bytes::from(form.extend_pairs(fields).finish())
}

/// Describes a target without its query, which may contain a secret.
pub(super) fn named(at: At<'_>) -> String {
    let url = at.url.split_once('?').map_or(at.url, |(url, _)| url);
    format!("{} `{}`", at.what, shown(url, 200))
}

fn refused(at: At<'_>, status: StatusCode) -> Fault {
    Fault::refused(format!("{} answers with HTTP {status}", named(at)))
}

/// Parses the JSON of a response.
pub(super) fn read<T: DeserializeOwned>(at: At<'_>, body: &[u8]) -> Result<T, Fault> {
    serde_json::from_slice(body).map_err(|error| {
        let why = shown(&error.to_string(), 200);
        Fault::malformed(format!("{} answers with what cannot be used: {why}", named(at)))
    })
}
