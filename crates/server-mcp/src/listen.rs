//! Streams on which the server sends notifications: the GET stream of a session and
//! `subscriptions/listen`.

use std::sync::Arc;

use futures_util::future::join_all;
use http::header::ALLOW;
use http::{HeaderMap, HeaderValue, StatusCode};
use identity::Principal;
use mcp::{Era, Revision, sse, write};
use tool::Json;

use super::asked::{Asked, Who};
use super::body::{self, Events, Reply};
use super::follow::{self, Sink, tagged};
use super::head::Heads;
use super::outlet::Outlet;
use super::refused::Refused;
use super::scope::Scope;
use super::session::Session;
use super::task;
use super::watch::{Kinds, Listener};
use crate::McpDoors;

/// Maximum number of resource subscriptions of one stream.
const FOLLOWED: usize = 256;

/// Handles GET: opens the notification stream of a session.
pub(crate) fn get(
    doors: &McpDoors,
    principal: &Principal,
    scope: &Scope,
    headers: &HeaderMap,
) -> Reply {
    let now = doors.parts.clock.wall();
    let (who, heads) = (Who { doors, principal, scope, now }, Heads::new(headers));
    let session = match of_session(who, heads) {
        Ok(Some(session)) => session,
        Ok(None) => return only_post(),
        Err(refused) => return refused.reply(None),
    };
    if let Err(refused) = heads.accepts(&["text/event-stream"]).and_then(|()| who.there()) {
        return refused.reply(None);
    }
    let stream = match doors.streams.open(principal) {
        Ok(stream) => stream,
        Err(told) => return Refused::busy(told).reply(None),
    };
    let outlet = Arc::new(Outlet::default());
    session.live.listen(Arc::clone(&outlet));
    let kinds = Kinds { tools: true, prompts: true, resources: true };
    let listener = Listener::new(who, Arc::clone(&outlet), kinds);
    let held = doors.mcp.watch.add(doors, listener);
    body::events(Events::new(outlet, None, (held, stream)))
}

/// Handles DELETE: ends a session.
pub(crate) fn delete(
    doors: &McpDoors,
    principal: &Principal,
    scope: &Scope,
    headers: &HeaderMap,
) -> Reply {
    let now = doors.parts.clock.wall();
    let (who, heads) = (Who { doors, principal, scope, now }, Heads::new(headers));
    match of_session(who, heads) {
        Ok(Some(session)) => {
            doors.mcp.sessions.end(&session);
            body::empty(StatusCode::NO_CONTENT)
        }
        Ok(None) => only_post(),
        Err(refused) => refused.reply(None),
    }
}

/// Finds the session of a GET or DELETE request; stateless clients have none.
fn of_session(who: Who<'_>, heads: Heads<'_>) -> Result<Option<Arc<Session>>, Refused> {
    match heads.revision()?.map(Revision::era) {
        Some(Era::Stateless) => Ok(None),
        Some(Era::Handshake) | None => who.session(heads),
    }
}

/// The response to an HTTP method that the endpoint does not support.
pub(crate) fn only_post() -> Reply {
    let mut reply = body::empty(StatusCode::METHOD_NOT_ALLOWED);
    reply.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    reply
}

/// Handles `subscriptions/listen`: acknowledges the subscriptions first, and then streams their
/// notifications.
pub(crate) async fn subscribed(asked: &Asked<'_>) -> Result<Reply, Refused> {
    let stream = asked.who.doors.streams.open(asked.who.principal).map_err(Refused::busy)?;
    let [wanted] = asked.pick(["notifications"]);
    let wanted = wanted.filter(|wanted| wanted.kind() == "object").ok_or_else(|| {
        Refused::params("`params.notifications` must be an object of what is to be heard")
    })?;
    let names = ["toolsListChanged", "promptsListChanged", "resourcesListChanged"];
    let [tools, prompts, resources] = wanted.pick(names);
    let is = |json: Option<Json>| json.is_some_and(|json| json.as_str() == "true");
    let view = asked.who.view();
    let has = |method: &str| {
        asked.who.scope.source().is_some_and(|source| view.method(source, method).is_some())
    };
    let kinds = Kinds {
        tools: is(tools),
        prompts: is(prompts) && has("mcp.prompts.get"),
        resources: is(resources) && has("mcp.resources.read"),
    };
    let listened = task::listened(asked, &wanted)?;
    let uris = uris(&wanted)?;
    let uris = if has("mcp.resources.subscribe") { uris } else { Vec::new() };
    let (outlet, id) = (Arc::new(Outlet::default()), follow::id(asked.id));
    let held = Arc::new(Outlet::default());
    let begins = uris.iter().map(|uri| {
        let sink = Sink::Listen(Arc::clone(&held), id.clone());
        follow::begin(asked, uri, sink)
    });
    let begun = join_all(begins).await;
    let followed: Vec<_> =
        uris.iter().zip(begun).filter_map(|(uri, task)| Some((uri, task.ok()?.ok()?))).collect();
    let (on, followed_uris) =
        (Json::of(&true), Json::of(&followed.iter().map(|(uri, _)| *uri).collect::<Vec<_>>()));
    let ids = Json::of(&listened.iter().map(|(id, _)| id).collect::<Vec<_>>());
    let told = [
        kinds.tools.then_some((names[0], &on)),
        kinds.prompts.then_some((names[1], &on)),
        kinds.resources.then_some((names[2], &on)),
        (!followed.is_empty()).then_some(("resourceSubscriptions", &followed_uris)),
        (!listened.is_empty()).then_some(("taskIds", &ids)),
    ];
    let agreed = Json::fields(told.into_iter().flatten());
    let params = tagged(&Json::fields([("notifications", &agreed)]), &id);
    let method = "notifications/subscriptions/acknowledged";
    outlet.notice(sse::event(&write::notification(method, &params)));
    for (_, task) in &listened {
        task.listen(&outlet, &id);
    }
    held.pour(&outlet);
    let tasks: Vec<_> = followed.into_iter().map(|(_, task)| task).collect();
    let last = tagged(&Json::empty(), &id);
    let last = asked.words().result(&last).event();
    let listener = Listener::new(asked.who, Arc::clone(&outlet), kinds).tagged(id, last);
    let watched = asked.who.doors.mcp.watch.add(asked.who.doors, listener);
    Ok(body::events(Events::new(outlet, None, (watched, tasks, stream))))
}

fn uris(wanted: &Json) -> Result<Vec<String>, Refused> {
    let [uris] = wanted.pick(["resourceSubscriptions"]);
    let Some(uris) = uris.filter(|uris| uris.kind() != "null") else { return Ok(Vec::new()) };
    let read: Result<Vec<String>, _> = uris.read();
    let mut uris = read.map_err(|_| {
        Refused::params("`params.notifications.resourceSubscriptions` must be a list of strings")
    })?;
    uris.sort_unstable();
    uris.dedup();
    if uris.len() > FOLLOWED {
        return Err(Refused::params(format!("at most {FOLLOWED} resources are followed at once")));
    }
    Ok(uris)
}
