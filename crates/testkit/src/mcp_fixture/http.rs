//! One URL for both eras: request validation before the message is parsed, and the choice of the
//! era.

use std::convert::Infallible;
use std::sync::Arc;

use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use serde_json::Value;

use super::Era;
use super::headers::text;
use super::legacy;
use super::modern;
use super::rpc::{Fault, Message};
use super::stream::{Answer, json, plain};
use super::world::World;

/// Maximum size of a message in bytes.
const MOST: usize = 8 << 20;

/// Responds to one HTTP request.
pub(super) async fn answer(
    world: Arc<World>,
    request: Request<Incoming>,
) -> Result<Answer, Infallible> {
    let (head, body) = request.into_parts();
    Ok(match refused(head.uri.path(), &head.method, &head.headers) {
        Some(answer) => answer,
        None if head.method == Method::POST => {
            match Limited::new(body, MOST).collect().await.map(http_body_util::Collected::to_bytes)
            {
                Ok(body) => post(&world, &head.headers, &body).await,
                Err(_) => plain(StatusCode::PAYLOAD_TOO_LARGE, "too much"),
            }
        }
        None if !world.speaks(Era::Legacy) => plain(StatusCode::METHOD_NOT_ALLOWED, "only POST"),
        None if head.method == Method::GET => legacy::get(&world, &head.headers),
        None => legacy::delete(&world, &head.headers),
    })
}

/// Rejects a request that is invalid regardless of its message.
fn refused(path: &str, method: &Method, headers: &HeaderMap) -> Option<Answer> {
    if path != "/mcp" {
        return Some(plain(StatusCode::NOT_FOUND, "the address is /mcp"));
    }
    let host = text(headers, "host").unwrap_or_default();
    let origin = text(headers, "origin").map(|it| it.split_once("://").map_or(it, |(_, it)| it));
    if !is_local(host) || !origin.is_none_or(is_local) {
        return Some(plain(StatusCode::FORBIDDEN, "a foreign `Host` or `Origin`"));
    }
    let accepts = |wanted: &str| {
        let accept = text(headers, "accept").unwrap_or_default();
        accept.contains(wanted) || accept.contains("*/*")
    };
    let kind = text(headers, "content-type").unwrap_or_default();
    match *method {
        Method::POST if !kind.starts_with("application/json") => {
            Some(plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, "a message is application/json"))
        }
        Method::POST if !(accepts("application/json") && accepts("text/event-stream")) => {
            Some(plain(StatusCode::NOT_ACCEPTABLE, "accept application/json and text/event-stream"))
        }
        Method::GET if !accepts("text/event-stream") => {
            Some(plain(StatusCode::NOT_ACCEPTABLE, "accept text/event-stream"))
        }
        Method::POST | Method::GET | Method::DELETE => None,
        _ => Some(plain(StatusCode::METHOD_NOT_ALLOWED, "POST, GET or DELETE")),
    }
}

fn is_local(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    matches!(name, "localhost" | "127.0.0.1" | "[::1]")
}

async fn post(world: &Arc<World>, headers: &HeaderMap, body: &[u8]) -> Answer {
    let message = match Message::read(body) {
        Ok(message) => message,
        Err(fault) => return json(fault.status, &fault.message(&Value::Null)),
    };
    let modern = is_modern(headers, &message);
    let id = if let Message::Request(request) = &message { &request.id } else { &Value::Null };
    let version = text(headers, "mcp-protocol-version").unwrap_or_default();
    match (modern, world.speaks(Era::Modern), world.speaks(Era::Legacy)) {
        (true, true, _) => modern::answer(world, headers, message).await,
        (false, _, true) => legacy::post(world, headers, message),
        (true, false, _) => {
            let fault =
                Fault::bad(-32000, format!("`{version}` is no protocol version known here"));
            json(fault.status, &fault.message(id))
        }
        (false, _, false) => {
            let fault = modern::unsupported(world, version);
            json(fault.status, &fault.message(id))
        }
    }
}

/// Whether a message belongs to the modern era, by its header or its `_meta`.
fn is_modern(headers: &HeaderMap, message: &Message) -> bool {
    let named = text(headers, "mcp-protocol-version");
    let meta = match message {
        Message::Request(request) => {
            request.meta("io.modelcontextprotocol/protocolVersion").is_some()
        }
        Message::Notification(..) | Message::Response(_) => false,
    };
    let has_session = headers.contains_key("mcp-session-id");
    meta || named.is_some_and(|named| {
        named == modern::REVISION || !(has_session || legacy::REVISIONS.contains(&named))
    })
}
