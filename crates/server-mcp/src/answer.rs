//! Handles one JSON-RPC message and returns one response, independent of the HTTP server.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use identity::Principal;
use mcp::{Era, Message, Notification, Request, Response, Revision, code};
use tool::Json;

use super::asked::{Asked, Who};
use super::body::{self, Reply};
use super::head::{Heads, Meta};
use super::refused::Refused;
use super::scope::Scope;
use super::{about, call, follow, listen, lists, methods, task};
use crate::McpDoors;
use server_core::body::limits;

/// Handles one message of `principal`, whose credential was verified, as Host and Origin were.
pub(crate) async fn answer(
    doors: &McpDoors,
    principal: &Principal,
    scope: &Scope,
    headers: &HeaderMap,
    body: Bytes,
) -> Reply {
    match refuses(headers) {
        None => {
            let now = doors.parts.clock.wall();
            taken(Who { doors, principal, scope, now }, Heads::new(headers), body).await
        }
        Some(reply) => reply,
    }
}

/// Returns an error response if the media types of these headers are not acceptable.
pub fn refuses(headers: &HeaderMap) -> Option<Reply> {
    Heads::new(headers).media().err().map(|refused| refused.reply(None))
}

/// Dispatches one message whose headers [`refuses`] has accepted.
pub async fn taken(who: Who<'_>, heads: Heads<'_>, body: Bytes) -> Reply {
    let limits = limits(body.len()).around_arguments(mcp::AROUND_ARGUMENTS);
    match gateway::aside(body.len(), || Message::read(body, limits)) {
        Ok(Message::Request(request)) => {
            let replied = requested(who, heads, &request).await;
            replied.unwrap_or_else(|refused| refused.reply(Some(&request.id)))
        }
        Ok(Message::Notification(notification)) => {
            let taken = notified(who, heads, &notification);
            taken.map_or_else(|refused| refused.reply(None), |()| body::empty(StatusCode::ACCEPTED))
        }
        Ok(Message::Response(response)) => {
            let taken = answered(who, heads, response);
            taken.map_or_else(|refused| refused.reply(None), |()| body::empty(StatusCode::ACCEPTED))
        }
        Err(fault) => {
            body::json(StatusCode::BAD_REQUEST, mcp::write::error(fault.id.as_ref(), &fault.error))
        }
    }
}

async fn requested(who: Who<'_>, heads: Heads<'_>, request: &Request) -> Result<Reply, Refused> {
    let mut asked = Asked::read(who, heads, request)?;
    let narrowed = asked.narrowed()?;
    // Replaced in place: it is large, and few requests restrict themselves.
    if let Some(narrowed) = &narrowed {
        asked.who.principal = narrowed;
    }
    asked.who.there()?;
    match (asked.method, asked.era) {
        ("tools/call", _) => call::tool(&asked).await,
        ("tools/list", _) => lists::tools(&asked),
        ("ping", Era::Handshake) => Ok(asked.result(&Json::empty())),
        ("initialize", Era::Handshake) => about::initialize(&asked),
        ("server/discover", Era::Stateless) => about::discover(&asked),
        ("logging/setLevel", Era::Handshake) => methods::set_level(&asked).await,
        ("subscriptions/listen", Era::Stateless) => listen::subscribed(&asked).await,
        ("tasks/get" | "tasks/update" | "tasks/cancel", Era::Stateless) => task::answer(&asked),
        ("prompts/list", _) => lists::prompts(&asked),
        ("resources/list", _) => lists::resources(&asked, false),
        ("resources/templates/list", _) => lists::resources(&asked, true),
        ("prompts/get", _) => methods::prompt(&asked).await,
        ("resources/read", _) => methods::called(&asked, "mcp.resources.read").await,
        ("completion/complete", _) => methods::called(&asked, "mcp.completion.complete").await,
        ("resources/subscribe", Era::Handshake) => follow::subscribe(&asked).await,
        ("resources/unsubscribe", Era::Handshake) => follow::unsubscribe(&asked),
        _ => Err(asked.unknown()),
    }
}

/// Handles a notification. Those of stateless clients have no effect: they cancel a request by
/// closing its stream.
fn notified(who: Who<'_>, heads: Heads<'_>, told: &Notification) -> Result<(), Refused> {
    let beside = told.params.as_ref().and_then(mcp::meta::of);
    let meta = beside.as_ref().map(Meta::of).unwrap_or_default();
    let stateless = |revision: Revision| revision.era() == Era::Stateless;
    if meta.version.is_some() || heads.revision()?.is_some_and(stateless) {
        return Ok(());
    }
    let Some(session) = who.session(heads)? else { return Ok(()) };
    if told.method == "notifications/cancelled" {
        let id = told.params.as_ref().and_then(|params| params.get("requestId"));
        if let Some(id) = id.as_ref().and_then(mcp::Id::read) {
            session.live.running.cancel(&id);
        }
    }
    Ok(())
}

/// Handles a client's response to a request that the server sent.
fn answered(who: Who<'_>, heads: Heads<'_>, response: Response) -> Result<(), Refused> {
    let session = match heads.revision()?.map(Revision::era) {
        Some(Era::Stateless) => None,
        Some(Era::Handshake) | None => who.session(heads)?,
    };
    let Some(session) = session else {
        let told = "an answer belongs to a session in which something was asked";
        return Err(Refused::bad(code::INVALID_REQUEST, told));
    };
    session.live.answered(response.id.as_ref(), response.result);
    Ok(())
}
