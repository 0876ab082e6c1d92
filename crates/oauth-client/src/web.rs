//! The few requests that OAuth needs: JSON to read, forms and JSON to send. No redirects, and every
//! answer bounded in bytes and in time.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use egress::{Egress, HttpLimits};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::Fault;
use super::places::Places;
use tool::display_text::shown;

/// Bytes of an answer.
const MOST: usize = 256 << 10;
/// Time for one request, all of it.
const LONG: Duration = Duration::from_secs(10);

/// An answer.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

/// What asks.
#[derive(Debug)]
pub(super) struct Web {
    pub(super) egress: Egress,
    pub(super) places: Places,
}

/// Whom to ask, and what that is for people.
#[derive(Debug, Clone, Copy)]
pub(super) struct At<'a> {
    pub(super) url: &'a str,
    /// Such as `the token endpoint`.
    pub(super) what: &'a str,
    /// Who named it.
    pub(super) whose: &'a str,
}

impl Web {
    /// A document of JSON; nothing where there is none at this address.
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

    /// Sends a form.
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

    /// Sends JSON.
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

/// The address in words, without its query: a secret may stand there.
pub(super) fn named(at: At<'_>) -> String {
    let url = at.url.split_once('?').map_or(at.url, |(url, _)| url);
    format!("{} `{}`", at.what, shown(url, 200))
}

fn refused(at: At<'_>, status: StatusCode) -> Fault {
    Fault::refused(format!("{} answers with HTTP {status}", named(at)))
}

/// An answer's JSON.
pub(super) fn read<T: DeserializeOwned>(at: At<'_>, body: &[u8]) -> Result<T, Fault> {
    serde_json::from_slice(body).map_err(|error| {
        let why = shown(&error.to_string(), 200);
        Fault::malformed(format!("{} answers with what cannot be used: {why}", named(at)))
    })
}
