//! What a response is: an answer, a refusal, or nothing of use.

use ::mcp::{Message, Response as Answer, RpcError};
use bytes::{Bytes, BytesMut};
use egress::{Body, Received};
use http::{StatusCode, header};
use tool::Limits;

use crate::fail::HttpFault;
use tool::display_text::shown;

/// Bytes read of a response that says no.
const REFUSAL: usize = 64 << 10;
/// Characters shown of it.
const SHOWN: usize = 200;

/// What a response holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Media {
    Json,
    Events,
    Other,
}

/// By its type, parameters aside.
pub(super) fn media(response: &Received) -> Media {
    let said = content_type(response);
    let is = |kind: &str| {
        said == kind || said.split(';').next().is_some_and(|s| s.trim().eq_ignore_ascii_case(kind))
    };
    if is("application/json") {
        Media::Json
    } else if is("text/event-stream") {
        Media::Events
    } else {
        Media::Other
    }
}

fn content_type(response: &Received) -> &str {
    let said = response.headers().get(header::CONTENT_TYPE);
    said.and_then(|said| said.to_str().ok()).unwrap_or_default()
}

/// Reads what is left, so that the connection serves again; gives up where that is much.
pub(super) async fn rest(body: Body) {
    drop(bounded(body, REFUSAL).await);
}

/// All of a body, of at most `most` bytes.
pub(super) async fn bounded(mut body: Body, most: usize) -> Result<Bytes, HttpFault> {
    let Some(first) = body.chunk().await? else { return Ok(Bytes::new()) };
    if first.len() > most {
        return Err(HttpFault::too_large(most));
    }
    if body.is_over() {
        return Ok(first);
    }
    let Some(second) = body.chunk().await? else { return Ok(first) };
    let mut all = BytesMut::from(first);
    all.extend_from_slice(&second);
    loop {
        if all.len() > most {
            return Err(HttpFault::too_large(most));
        }
        let Some(more) = body.chunk().await? else { return Ok(all.freeze()) };
        all.extend_from_slice(&more);
    }
}

/// A request that was not accepted. A JSON-RPC error in the body is the answer; a greeting that is
/// refused without one is answered in the server's name, so that the other dialect can be tried.
pub(super) async fn refused(response: Received, greets: bool) -> Result<RpcError, HttpFault> {
    let status = response.status();
    let (fault, body) = failed(response).await;
    if status == StatusCode::UNAUTHORIZED {
        return Err(fault);
    }
    if let Ok(Message::Response(Answer { result: Err(error), .. })) =
        Message::read(body.clone(), Limits::DOCUMENT)
    {
        return Ok(error);
    }
    let turned_away = status.is_client_error()
        && !matches!(
            status,
            StatusCode::FORBIDDEN | StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS
        );
    if turned_away && greets {
        return Ok(RpcError::new(0, said(status, &body)));
    }
    Err(fault)
}

/// A status that is no success, and what of the body was read.
pub(super) async fn failed(response: Received) -> (HttpFault, Bytes) {
    let status = response.status();
    let wait = response.headers().get(header::RETRY_AFTER);
    let wait = wait.and_then(|wait| wait.to_str().ok()).map(|wait| shown(wait, 40));
    let body = bounded(response.into_body(), REFUSAL).await.unwrap_or_default();
    let fault = match status {
        StatusCode::UNAUTHORIZED => HttpFault::unauthorized(),
        StatusCode::TOO_MANY_REQUESTS => HttpFault::rate_limited(wait.as_deref()),
        _ => HttpFault::failed(said(status, &body)),
    };
    (fault, body)
}

fn said(status: StatusCode, body: &[u8]) -> String {
    match shown(&String::from_utf8_lossy(body), SHOWN) {
        text if text.is_empty() => format!("HTTP {status}"),
        text => format!("HTTP {status}: {text}"),
    }
}

/// A success that is neither JSON nor a stream.
pub(super) fn unexpected(response: &Received) -> HttpFault {
    let said = shown(content_type(response), 60);
    HttpFault::malformed(format!(
        "answered with content of type `{said}`, not `application/json` or `text/event-stream`"
    ))
}
