//! Streams on which the server sends notifications: the GET stream of a session and
//! `subscriptions/listen`.

use std::sync::Arc;

use futures_util::future::join_all;
use http::header::ALLOW;
use http::{HeaderMap, HeaderValue, StatusCode};
use identity::Principal;
use mcp::{ProtocolEra, ProtocolVersion, encode, sse};
use tool::Json;

use super::endpoint::Endpoint;
use super::event_sink::EventSink;
use super::list_changes::{ListChangeListener, ListKinds};
use super::request_context::{EndpointCaller, RequestContext};
use super::request_error::RequestError;
use super::request_headers::RequestHeaders;
use super::resource_subscriptions::{
    self, MAX_SUBSCRIPTIONS, SubscriptionStart, UpdateTarget, with_subscription_id,
};
use super::response_body::{self, EventStream, McpResponse};
use super::session::ClientSession;
use super::tasks;
use crate::McpServerState;

/// Handles GET: opens the notification stream of a session.
pub(crate) fn open_session_stream(
    state: &McpServerState,
    principal: &Principal,
    endpoint: &Endpoint,
    headers: &HeaderMap,
) -> McpResponse {
    let now = state.components.clock.wall_now();
    let (caller, heads) = (
        EndpointCaller { state, principal, endpoint, received_at: now },
        RequestHeaders::new(headers),
    );
    let session = match find_request_session(caller, heads) {
        Ok(Some(session)) => session,
        Ok(None) => return method_not_allowed(),
        Err(refused) => return refused.to_response(None),
    };
    if let Err(refused) =
        heads.check_accept(&["text/event-stream"]).and_then(|()| caller.check_endpoint_exists())
    {
        return refused.to_response(None);
    }
    let stream = match state.streams.open_stream(principal) {
        Ok(stream) => stream,
        Err(told) => return RequestError::too_many_requests(told).to_response(None),
    };
    let outlet = Arc::new(EventSink::default());
    session.runtime.set_stream(Arc::clone(&outlet));
    let kinds = ListKinds { tools: true, prompts: true, resources: true };
    let listener = ListChangeListener::new(caller, Arc::clone(&outlet), kinds);
    let held = state.mcp_components.list_watcher.register_listener(state, listener);
    response_body::event_stream_response(EventStream::new(outlet, None, (held, stream)))
}

/// Handles DELETE: ends a session.
pub(crate) fn end_session(
    state: &McpServerState,
    principal: &Principal,
    endpoint: &Endpoint,
    headers: &HeaderMap,
) -> McpResponse {
    let now = state.components.clock.wall_now();
    let (caller, heads) = (
        EndpointCaller { state, principal, endpoint, received_at: now },
        RequestHeaders::new(headers),
    );
    match find_request_session(caller, heads) {
        Ok(Some(session)) => {
            state.mcp_components.sessions.end_session(&session);
            response_body::status_response(StatusCode::NO_CONTENT)
        }
        Ok(None) => method_not_allowed(),
        Err(refused) => refused.to_response(None),
    }
}

/// Finds the session of a GET or DELETE request; stateless clients have none.
fn find_request_session(
    caller: EndpointCaller<'_>,
    headers: RequestHeaders<'_>,
) -> Result<Option<Arc<ClientSession>>, RequestError> {
    match headers.declared_version()?.map(ProtocolVersion::era) {
        Some(ProtocolEra::Stateless) => Ok(None),
        Some(ProtocolEra::Handshake) | None => caller.find_session(headers),
    }
}

/// The response to an HTTP method that the endpoint does not support.
pub(crate) fn method_not_allowed() -> McpResponse {
    let mut reply = response_body::status_response(StatusCode::METHOD_NOT_ALLOWED);
    reply.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    reply
}

/// Handles `subscriptions/listen`: acknowledges the subscriptions first, and then streams their
/// notifications.
pub(crate) async fn open_listen_stream(
    request: &RequestContext<'_>,
) -> Result<McpResponse, RequestError> {
    let (caller, state) = (request.caller, request.caller.state);
    let permit =
        state.streams.open_stream(caller.principal).map_err(RequestError::too_many_requests)?;
    let [requested] = request.pick_params(["notifications"]);
    let requested =
        requested.filter(|requested| requested.kind() == "object").ok_or_else(|| {
            RequestError::invalid_params(
                "`params.notifications` must be an object with the notifications to subscribe to",
            )
        })?;
    let view = caller.tool_view();
    let has_method = |method: &str| {
        caller.endpoint.source().is_none_or(|source| view.find_method(source, method).is_some())
    };
    let kinds = requested_list_kinds(&requested, has_method);
    let followed_tasks = tasks::subscribed_tasks(request, &requested)?;
    let mut uris = parse_resource_uris(&requested)?;
    if !has_method("mcp.resources.subscribe") {
        uris.clear();
    }
    let sink = Arc::new(EventSink::default());
    let id = resource_subscriptions::id_to_json(request.request_id);
    // Updates that arrive before the acknowledgement was sent.
    let early_updates = Arc::new(EventSink::default());
    let subscriptions = join_all(uris.iter().map(|uri| {
        let target = UpdateTarget::ListenStream(Arc::clone(&early_updates), id.clone());
        resource_subscriptions::start_subscription(request, uri, target)
    }));
    let started = uris.iter().zip(subscriptions.await);
    let (followed_uris, subscription_tasks): (Vec<_>, Vec<_>) = started
        .filter_map(|(uri, start)| match start {
            Ok(SubscriptionStart::Started(task)) => Some((uri, task)),
            Ok(SubscriptionStart::Failed(_)) | Err(_) => None,
        })
        .unzip();
    let task_ids: Vec<_> = followed_tasks.iter().map(|(id, _)| id).collect();
    let acknowledged = acknowledged_notifications(kinds, &followed_uris, &task_ids);
    let params = with_subscription_id(&Json::object_from([("notifications", &acknowledged)]), &id);
    let method = "notifications/subscriptions/acknowledged";
    sink.send_notification(sse::encode_event(&encode::encode_notification(method, &params)));
    for (_, task) in &followed_tasks {
        task.add_listener(&sink, &id);
    }
    early_updates.forward_events_to(&sink);
    let result = with_subscription_id(&Json::empty_object(), &id);
    let result = request.result_encoder().encode_result(&result).into_event();
    let listener =
        ListChangeListener::new(caller, Arc::clone(&sink), kinds).with_subscription(id, result);
    let registration = state.mcp_components.list_watcher.register_listener(state, listener);
    let guards = (registration, subscription_tasks, permit);
    Ok(response_body::event_stream_response(EventStream::new(sink, None, guards)))
}

/// Names of the requested list notifications: tools, prompts, resources.
const LIST_NOTIFICATIONS: [&str; 3] =
    ["toolsListChanged", "promptsListChanged", "resourcesListChanged"];

/// Returns the requested lists that the endpoint has; `has_method` tells its methods.
fn requested_list_kinds(requested: &Json, has_method: impl Fn(&str) -> bool) -> ListKinds {
    let is_true = |json: Option<Json>| json.is_some_and(|json| json.as_str() == "true");
    let [tools, prompts, resources] = requested.pick(LIST_NOTIFICATIONS).map(is_true);
    ListKinds {
        tools,
        prompts: prompts && has_method("mcp.prompts.get"),
        resources: resources && has_method("mcp.resources.read"),
    }
}

/// Returns the notifications that the stream carries, as the acknowledgement lists them.
fn acknowledged_notifications(kinds: ListKinds, uris: &[&String], task_ids: &[&String]) -> Json {
    let (enabled, uri_list, id_list) =
        (Json::encode(&true), Json::encode(&uris), Json::encode(&task_ids));
    let [tools, prompts, resources] = LIST_NOTIFICATIONS;
    let members = [
        kinds.tools.then_some((tools, &enabled)),
        kinds.prompts.then_some((prompts, &enabled)),
        kinds.resources.then_some((resources, &enabled)),
        (!uris.is_empty()).then_some(("resourceSubscriptions", &uri_list)),
        (!task_ids.is_empty()).then_some(("taskIds", &id_list)),
    ];
    Json::object_from(members.into_iter().flatten())
}

fn parse_resource_uris(wanted: &Json) -> Result<Vec<String>, RequestError> {
    let [uris] = wanted.pick(["resourceSubscriptions"]);
    let Some(uris) = uris.filter(|uris| uris.kind() != "null") else { return Ok(Vec::new()) };
    let read: Result<Vec<String>, _> = uris.decode();
    let mut uris = read.map_err(|_| {
        RequestError::invalid_params(
            "`params.notifications.resourceSubscriptions` must be a list of strings",
        )
    })?;
    uris.sort_unstable();
    uris.dedup();
    if uris.len() > MAX_SUBSCRIPTIONS {
        return Err(RequestError::invalid_params(format!(
            "at most {MAX_SUBSCRIPTIONS} resource subscriptions are allowed"
        )));
    }
    Ok(uris)
}
