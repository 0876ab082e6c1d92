//! The MCP door at `/mcp`: both revisions on one endpoint, 2024-11-05 to 2025-11-25 with their
//! handshake and 2026-07-28 without.
//!
//! Each message is read here once, by the parser that every door uses, and then served by rmcp,
//! without sessions. It holds no decision: what is listed and what a call comes to is the gateway's.

mod message;
mod outcome;
mod progress;
mod running;
mod served;
mod tools;

use std::sync::Arc;

use axum::body::{Body, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Extension, Router};
use futures_util::StreamExt as _;
use http_body_util::Full;
use identity::Principal;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use tool::Code;
use uuid::Uuid;

use crate::error::ApiError;
use crate::lists::Names;
use crate::rest::body::{Params, read};
use crate::state::Doors;

use message::Message;
use running::{Entered, Place, Running};
use served::Served;
use tools::Typed;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// The longest session id that is told apart.
const SESSION_LEN: usize = 128;

/// What the requests of this door share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    typed: Typed,
    running: Arc<Running>,
}

pub(crate) fn routes(doors: &Doors) -> Router {
    Router::new().route("/mcp", post(answer)).with_state(doors.clone())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    names: Option<String>,
}

async fn answer(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Params(asked): Params<Asked>,
    request: Request,
) -> Result<Response, ApiError> {
    let names = names(asked.names.as_deref())?;
    let (parts, body) = request.into_parts();
    let limit = doors.parts.max_body;
    let bytes = read(body, limit).await?;
    let message = match Message::read(bytes.clone()) {
        Ok(message) => message,
        Err(fault) => return Ok(fault.into_response()),
    };
    let session = session(&parts.headers).map(ToOwned::to_owned);
    if let (Some(session), Some(id)) = (&session, message.cancels()) {
        doors.mcp.running.cancel(&Place::new(principal.key(), session, &id));
    }
    let place = session.as_deref().zip(message.id.as_deref());
    let place = place.map(|(session, id)| Place::new(principal.key(), session, id));
    let cancel = CancellationToken::new();
    let entered = place.map(|place| doors.mcp.running.enter(place, cancel.clone()));
    let begins = message.method == "initialize";
    let served = Served::new(doors, principal, names, message.call);
    let service = StreamableHttpService::new(
        move || Ok(served.clone()),
        Arc::new(NeverSessionManager::default()),
        config(limit),
    );
    let request = Request::from_parts(parts, Full::new(bytes));
    let mut response = tokio::select! {
        response = Box::pin(service.handle(request)) => response.map(Body::new),
        () = cancel.cancelled() => return Ok(silence()),
    };
    if begins && response.status() == StatusCode::OK {
        response.headers_mut().extend(fresh_session().map(|fresh| (SESSION, fresh)));
    }
    Ok(response.map(|body| until(body, cancel, entered)))
}

/// MCP: a request that was given up gets no response; so this is a stream that ends.
fn silence() -> Response {
    ([(CONTENT_TYPE, "text/event-stream")], Body::empty()).into_response()
}

/// A stream that goes on after its head ends with the cancel of its request. A whole answer is one.
fn until(body: Body, cancel: CancellationToken, entered: Option<Entered>) -> Body {
    if body.size_hint().exact().is_some() {
        return body;
    }
    let held = move |frame| {
        let _held = &entered;
        frame
    };
    let stream = body.into_data_stream().take_until(cancel.cancelled_owned()).map(held);
    Body::from_stream(stream)
}

/// Host and Origin were checked before, by the one check of all doors.
fn config(limit: usize) -> StreamableHttpServerConfig {
    StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(limit)
}

/// MCP takes the names as they are.
fn names(asked: Option<&str>) -> Result<Names, ApiError> {
    match asked {
        None | Some("native") => Ok(Names::Native),
        Some("safe") => Ok(Names::Safe),
        Some(word) => Err(ApiError::new(
            Code::InvalidRequest,
            format!("unknown names `{}`; use safe or native", word.escape_debug()),
        )),
    }
}

/// A session is a name and nothing is kept of it: two clients of one key may give their calls the
/// same ids, and only the session tells whose call a `notifications/cancelled` means.
fn fresh_session() -> Option<HeaderValue> {
    HeaderValue::from_str(&Uuid::new_v4().to_string()).ok()
}

fn session(headers: &HeaderMap) -> Option<&str> {
    let session = headers.get(SESSION)?.to_str().ok()?;
    (1..=SESSION_LEN).contains(&session.len()).then_some(session)
}
