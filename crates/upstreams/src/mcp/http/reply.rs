//! What a response is: an answer, a refusal, or nothing of use.

use bytes::{Bytes, BytesMut};
use guard::egress::Body;
use http::{Response, StatusCode, header};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, StreamableHttpError, StreamableHttpPostResponse,
};

use super::Failure;
use crate::mcp::fail::HttpFault;
use crate::mcp::wording::shown;

/// Bytes read of a response that says no.
const REFUSAL: usize = 64 << 10;
/// Characters shown of it.
const SHOWN: usize = 200;

/// Whether the content is of this type, parameters aside.
pub(super) fn is(response: &Response<Body>, kind: &str) -> bool {
    content_type(response)
        .split(';')
        .next()
        .is_some_and(|said| said.trim().eq_ignore_ascii_case(kind))
}

fn content_type(response: &Response<Body>) -> &str {
    let said = response.headers().get(header::CONTENT_TYPE);
    said.and_then(|said| said.to_str().ok()).unwrap_or_default()
}

/// The session it opens.
pub(super) fn session(response: &Response<Body>) -> Option<String> {
    let said = response.headers().get("mcp-session-id")?;
    said.to_str().ok().map(str::to_owned)
}

/// Reads what is left, so that the connection serves again; gives up where that is much.
pub(super) async fn rest(body: Body) {
    drop(bounded(body, REFUSAL).await);
}

/// All of a body, of at most `most` bytes.
pub(super) async fn bounded(mut body: Body, most: usize) -> Result<Bytes, HttpFault> {
    let Some(first) = body.chunk().await? else { return Ok(Bytes::new()) };
    let mut all = BytesMut::from(first);
    loop {
        if all.len() > most {
            return Err(HttpFault::too_large(most));
        }
        let Some(more) = body.chunk().await? else { return Ok(all.freeze()) };
        all.extend_from_slice(&more);
    }
}

/// A request that was not accepted. A JSON-RPC error in the body is the answer; a handshake that is
/// refused without one is answered in its name, so that the other dialect can be tried.
pub(super) async fn refused(
    response: Response<Body>,
    id: &RequestId,
    request: &ClientJsonRpcMessage,
) -> Result<StreamableHttpPostResponse, Failure> {
    let status = response.status();
    let (failure, body) = failed(response).await;
    let answer = |error| {
        let message = ServerJsonRpcMessage::error(error, Some(id.clone()));
        Ok(StreamableHttpPostResponse::Json(message, None))
    };
    if matches!(failure, StreamableHttpError::AuthRequired(_)) {
        return Err(failure);
    }
    if let Ok(JsonRpcMessage::Error(said)) = serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
        return answer(said.error);
    }
    let turned_away = status.is_client_error()
        && !matches!(
            status,
            StatusCode::FORBIDDEN | StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS
        );
    if turned_away && is_handshake(request) {
        return answer(ErrorData::new(ErrorCode(0), said(status, &body), None));
    }
    Err(failure)
}

fn is_handshake(message: &ClientJsonRpcMessage) -> bool {
    let JsonRpcMessage::Request(request) = message else { return false };
    matches!(
        request.request,
        ClientRequest::InitializeRequest(_) | ClientRequest::DiscoverRequest(_)
    )
}

/// A status that is no success, as rmcp tells them apart, and what of the body was read.
pub(super) async fn failed(response: Response<Body>) -> (Failure, Bytes) {
    let status = response.status();
    let header = |name| {
        let value = response.headers().get(name)?;
        value.to_str().ok().map(str::to_owned)
    };
    let (challenge, retry) = (header(header::WWW_AUTHENTICATE), header(header::RETRY_AFTER));
    let body = bounded(response.into_body(), REFUSAL).await.unwrap_or_default();
    let failure = match status {
        StatusCode::UNAUTHORIZED => {
            StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge.unwrap_or_default()))
        }
        StatusCode::TOO_MANY_REQUESTS => HttpStatusError::new(status.as_u16(), retry).into(),
        _ => StreamableHttpError::Client(HttpFault::failed(said(status, &body))),
    };
    (failure, body)
}

fn said(status: StatusCode, body: &[u8]) -> String {
    match shown(&String::from_utf8_lossy(body), SHOWN) {
        text if text.is_empty() => format!("HTTP {status}"),
        text => format!("HTTP {status}: {text}"),
    }
}

/// A success that is neither JSON nor a stream.
pub(super) fn unexpected(response: &Response<Body>) -> HttpFault {
    let said = shown(content_type(response), 60);
    HttpFault::malformed(format!(
        "answered with content of type `{said}`, not `application/json` or `text/event-stream`"
    ))
}
