//! Classifies HTTP responses and reads their bodies within limits.

use ::mcp::{RpcError, RpcMessage, RpcResponse as Answer};
use bytes::{Bytes, BytesMut};
use egress::{EgressBody, EgressResponse};
use http::{StatusCode, header};
use tool::JsonLimits;

use crate::delivery_errors::HttpRequestError;
use tool::display_text::escape_and_truncate;

/// Maximum bytes that are read of an error response.
const MAX_ERROR_BODY_BYTES: usize = 64 << 10;
/// Maximum characters of it that are shown.
const MAX_ERROR_TEXT_CHARS: usize = 200;

/// Content type of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentKind {
    Json,
    EventStream,
    Other,
}

/// Returns the content type of a response, without parameters.
pub(super) fn content_kind(response: &EgressResponse) -> ContentKind {
    let said = content_type_header(response);
    let is = |kind: &str| {
        said == kind || said.split(';').next().is_some_and(|s| s.trim().eq_ignore_ascii_case(kind))
    };
    if is("application/json") {
        ContentKind::Json
    } else if is("text/event-stream") {
        ContentKind::EventStream
    } else {
        ContentKind::Other
    }
}

fn content_type_header(response: &EgressResponse) -> &str {
    let said = response.headers().get(header::CONTENT_TYPE);
    said.and_then(|said| said.to_str().ok()).unwrap_or_default()
}

/// Reads the rest of a body, so that the connection can be reused. Gives up if the body is large.
pub(super) async fn drain_body(body: EgressBody) {
    drop(read_bounded(body, MAX_ERROR_BODY_BYTES).await);
}

/// Reads a whole body of at most `max_bytes` bytes.
pub(super) async fn read_bounded(
    mut body: EgressBody,
    max_bytes: usize,
) -> Result<Bytes, HttpRequestError> {
    let Some(first) = body.next_chunk().await? else { return Ok(Bytes::new()) };
    if first.len() > max_bytes {
        return Err(HttpRequestError::too_large(max_bytes));
    }
    if body.is_complete() {
        return Ok(first);
    }
    let Some(second) = body.next_chunk().await? else { return Ok(first) };
    let mut all = BytesMut::from(first);
    all.extend_from_slice(&second);
    loop {
        if all.len() > max_bytes {
            return Err(HttpRequestError::too_large(max_bytes));
        }
        let Some(more) = body.next_chunk().await? else { return Ok(all.freeze()) };
        all.extend_from_slice(&more);
    }
}

/// Reads a response that refuses a request. A JSON-RPC error in the body is the answer. For a
/// negotiation request without one, an error is made up, so that the other era can be tried.
pub(super) async fn read_rpc_refusal(
    response: EgressResponse,
    is_negotiation: bool,
) -> Result<RpcError, HttpRequestError> {
    let status = response.status();
    let (fault, body) = read_failure(response).await;
    if status == StatusCode::UNAUTHORIZED {
        return Err(fault);
    }
    if let Ok(RpcMessage::Response(Answer { result: Err(error), .. })) =
        RpcMessage::parse(body.clone(), JsonLimits::DOCUMENT)
    {
        return Ok(error);
    }
    let is_rejection = status.is_client_error()
        && !matches!(
            status,
            StatusCode::FORBIDDEN | StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS
        );
    if is_rejection && is_negotiation {
        return Ok(RpcError::new(0, describe_status(status, &body)));
    }
    Err(fault)
}

/// Reads an error response: the error and the bytes of the body that were read.
pub(super) async fn read_failure(response: EgressResponse) -> (HttpRequestError, Bytes) {
    let status = response.status();
    let wait = response.headers().get(header::RETRY_AFTER);
    let wait = wait.and_then(|wait| wait.to_str().ok()).map(|wait| escape_and_truncate(wait, 40));
    let body = read_bounded(response.into_body(), MAX_ERROR_BODY_BYTES).await.unwrap_or_default();
    let fault = match status {
        StatusCode::UNAUTHORIZED => HttpRequestError::unauthorized(),
        StatusCode::TOO_MANY_REQUESTS => HttpRequestError::rate_limited(wait.as_deref()),
        _ => HttpRequestError::failed(describe_status(status, &body)),
    };
    (fault, body)
}

fn describe_status(status: StatusCode, body: &[u8]) -> String {
    match escape_and_truncate(&String::from_utf8_lossy(body), MAX_ERROR_TEXT_CHARS) {
        text if text.is_empty() => format!("HTTP {status}"),
        text => format!("HTTP {status}: {text}"),
    }
}

/// Error for a success response that is neither JSON nor an event stream.
pub(super) fn unexpected_content_error(response: &EgressResponse) -> HttpRequestError {
    let said = escape_and_truncate(content_type_header(response), 60);
    HttpRequestError::malformed(format!(
        "returned content of type `{said}`, not `application/json` or `text/event-stream`"
    ))
}
