//! HTTP endpoint of the fixture: validates requests before the message is parsed, and selects the
//! protocol era.

use std::convert::Infallible;
use std::sync::Arc;

use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use serde_json::Value;

use super::FixtureEra;
use super::event_stream::{FixtureResponse, json_response, text_response};
use super::fixture_state::FixtureState;
use super::headers::header_text;
use super::json_rpc::{FixtureMessage, RpcError};
use super::legacy_era;
use super::modern_era;

/// Maximum size of a message in bytes.
const MAX_MESSAGE_BYTES: usize = 8 << 20;

/// Responds to one HTTP request.
pub(super) async fn answer_http(
    fixture: Arc<FixtureState>,
    request: Request<Incoming>,
) -> Result<FixtureResponse, Infallible> {
    let (head, body) = request.into_parts();
    Ok(match reject_request(head.uri.path(), &head.method, &head.headers) {
        Some(answer) => answer,
        None if head.method == Method::POST => {
            match Limited::new(body, MAX_MESSAGE_BYTES)
                .collect()
                .await
                .map(http_body_util::Collected::to_bytes)
            {
                Ok(body) => post_message(&fixture, &head.headers, &body).await,
                Err(_) => text_response(StatusCode::PAYLOAD_TOO_LARGE, "too much"),
            }
        }
        None if !fixture.supports_era(FixtureEra::Legacy) => {
            text_response(StatusCode::METHOD_NOT_ALLOWED, "only POST")
        }
        None if head.method == Method::GET => legacy_era::open_stream(&fixture, &head.headers),
        None => legacy_era::delete_session(&fixture, &head.headers),
    })
}

/// Rejects a request that is invalid regardless of its message.
fn reject_request(path: &str, method: &Method, headers: &HeaderMap) -> Option<FixtureResponse> {
    if path != "/mcp" {
        return Some(text_response(StatusCode::NOT_FOUND, "the address is /mcp"));
    }
    let host = header_text(headers, "host").unwrap_or_default();
    let origin =
        header_text(headers, "origin").map(|it| it.split_once("://").map_or(it, |(_, it)| it));
    if !is_local(host) || !origin.is_none_or(is_local) {
        return Some(text_response(StatusCode::FORBIDDEN, "a foreign `Host` or `Origin`"));
    }
    let accepts = |wanted: &str| {
        let accept = header_text(headers, "accept").unwrap_or_default();
        accept.contains(wanted) || accept.contains("*/*")
    };
    let kind = header_text(headers, "content-type").unwrap_or_default();
    match *method {
        Method::POST if !kind.starts_with("application/json") => {
            Some(text_response(StatusCode::UNSUPPORTED_MEDIA_TYPE, "a message is application/json"))
        }
        Method::POST if !(accepts("application/json") && accepts("text/event-stream")) => {
            Some(text_response(
                StatusCode::NOT_ACCEPTABLE,
                "accept application/json and text/event-stream",
            ))
        }
        Method::GET if !accepts("text/event-stream") => {
            Some(text_response(StatusCode::NOT_ACCEPTABLE, "accept text/event-stream"))
        }
        Method::POST | Method::GET | Method::DELETE => None,
        _ => Some(text_response(StatusCode::METHOD_NOT_ALLOWED, "POST, GET or DELETE")),
    }
}

fn is_local(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    matches!(name, "localhost" | "127.0.0.1" | "[::1]")
}

async fn post_message(
    fixture: &Arc<FixtureState>,
    headers: &HeaderMap,
    body: &[u8],
) -> FixtureResponse {
    let message = match FixtureMessage::parse_message(body) {
        Ok(message) => message,
        Err(fault) => return json_response(fault.status, &fault.error_message(&Value::Null)),
    };
    let modern = is_modern(headers, &message);
    let id =
        if let FixtureMessage::Request(request) = &message { &request.id } else { &Value::Null };
    let version = header_text(headers, "mcp-protocol-version").unwrap_or_default();
    match (
        modern,
        fixture.supports_era(FixtureEra::Modern),
        fixture.supports_era(FixtureEra::Legacy),
    ) {
        (true, true, _) => modern_era::answer_message(fixture, headers, message).await,
        (false, _, true) => legacy_era::post_message(fixture, headers, message),
        (true, false, _) => {
            let fault = RpcError::bad_request(
                -32000,
                format!("`{version}` is no protocol version known here"),
            );
            json_response(fault.status, &fault.error_message(id))
        }
        (false, _, false) => {
            let fault = modern_era::unsupported_revision(fixture, version);
            json_response(fault.status, &fault.error_message(id))
        }
    }
}

/// Whether a message belongs to the modern era, by its header or its `_meta`.
fn is_modern(headers: &HeaderMap, message: &FixtureMessage) -> bool {
    let named = header_text(headers, "mcp-protocol-version");
    let meta = match message {
        FixtureMessage::Request(request) => {
            request.meta_member("io.modelcontextprotocol/protocolVersion").is_some()
        }
        FixtureMessage::Notification(..) | FixtureMessage::Response(_) => false,
    };
    let has_session = headers.contains_key("mcp-session-id");
    meta || named.is_some_and(|named| {
        named == modern_era::REVISION || !(has_session || legacy_era::REVISIONS.contains(&named))
    })
}
