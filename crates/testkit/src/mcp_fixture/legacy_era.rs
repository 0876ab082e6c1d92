//! The legacy era, MCP 2024-11-05 to 2025-11-25: `initialize`, sessions, and requests in both
//! directions.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::{Map, Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::sleep;
use uuid::Uuid;

use super::caller_link::{CallerLink, LOG_LEVELS};
use super::counter_events;
use super::event_stream::{self, EventSender, FixtureResponse};
use super::fixture_state::{FixtureChange, FixtureState};
use super::headers::header_text;
use super::input_rounds::CallInput;
use super::json_rpc::{self, FixtureMessage, FixtureRequest, RpcError};
use super::listed_content;
use super::session::FixtureSession;
use super::tasks;
use super::tool_calls::{self, CallOutcome, error_result};

/// The supported revisions, from the oldest.
pub(super) const REVISIONS: &[&str] = &["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
/// The first revision with stream resumption.
const RESUMABLE_REVISION: &str = "2025-11-25";
/// Maximum number of sessions.
const MAX_SESSIONS: usize = 10_000;
/// Maximum number of input rounds per call.
const MAX_ROUNDS: usize = 8;

/// Returns the fixture's `serverInfo`.
pub(super) fn server_info() -> Value {
    json!({ "name": "mcp-fixture", "title": "Fixture", "version": "1.0.0" })
}

fn error_response(id: &Value, fault: &RpcError) -> FixtureResponse {
    event_stream::json_response(fault.status, &fault.error_message(id))
}

/// Finds the session of a request.
fn find_session(
    fixture: &FixtureState,
    headers: &HeaderMap,
) -> Result<Arc<FixtureSession>, RpcError> {
    let id = header_text(headers, "mcp-session-id")
        .ok_or_else(|| RpcError::bad_request(-32000, "`Mcp-Session-Id` is missing"))?;
    let found = fixture.sessions.lock().unwrap().get(id).cloned();
    let gone =
        || RpcError { status: StatusCode::NOT_FOUND, ..RpcError::new(-32001, "no such session") };
    let found = found.ok_or_else(gone)?;
    match header_text(headers, "mcp-protocol-version") {
        Some(said) if !REVISIONS.contains(&said) => Err(RpcError::bad_request(
            -32000,
            format!("`{said}` is no protocol version known here"),
        )),
        _ => Ok(found),
    }
}

/// Responds to one posted message.
pub(super) fn post_message(
    fixture: &Arc<FixtureState>,
    headers: &HeaderMap,
    message: FixtureMessage,
) -> FixtureResponse {
    if let FixtureMessage::Request(request) = &message
        && request.method == "initialize"
    {
        return initialize_session(fixture, request);
    }
    let id =
        if let FixtureMessage::Request(request) = &message { &request.id } else { &Value::Null };
    let session = match find_session(fixture, headers) {
        Ok(session) => session,
        Err(fault) => return error_response(id, &fault),
    };
    match message {
        FixtureMessage::Request(request) => answer_request(fixture, &session, request),
        FixtureMessage::Notification(method, params) => {
            if let ("notifications/cancelled", Some(id)) = (&*method, params.get("requestId")) {
                session.cancel_request(id);
            }
            event_stream::text_response(StatusCode::ACCEPTED, "")
        }
        FixtureMessage::Response(message) => {
            if session.deliver_answer(message) {
                return event_stream::text_response(StatusCode::ACCEPTED, "");
            }
            error_response(&Value::Null, &RpcError::bad_request(-32600, "nobody was asked that"))
        }
    }
}

fn initialize_session(world: &FixtureState, request: &FixtureRequest) -> FixtureResponse {
    let wanted = match request.text_param("protocolVersion") {
        Ok(wanted) => wanted,
        Err(fault) => return error_response(&request.id, &fault),
    };
    let latest = REVISIONS[REVISIONS.len() - 1];
    let revision = REVISIONS.iter().find(|known| **known == wanted).copied().unwrap_or(latest);
    let capabilities = request.params.get("capabilities").cloned().unwrap_or_default();
    let id = Uuid::new_v4().to_string();
    {
        let mut sessions = world.sessions.lock().unwrap();
        if sessions.len() >= MAX_SESSIONS {
            return error_response(&request.id, &RpcError::new(-32603, "too many sessions"));
        }
        sessions.insert(id.clone(), Arc::new(FixtureSession::new(revision, capabilities)));
    }
    let mut result = json!({
        "protocolVersion": revision,
        "capabilities": {
            "tools": { "listChanged": true },
            "prompts": { "listChanged": true },
            "resources": { "subscribe": true, "listChanged": true },
            "logging": {},
            "completions": {},
        },
        "serverInfo": server_info(),
        "instructions": "A fixture for tests.",
    });
    if world.has_events {
        result["capabilities"]["extensions"] = json!({ counter_events::EVENTS_EXTENSION: {} });
    }
    if revision == latest {
        result["capabilities"]["tasks"] =
            json!({ "cancel": {}, "requests": { "tools": { "call": {} } } });
    }
    let mut answer = event_stream::json_response(
        StatusCode::OK,
        &json_rpc::result_message(&request.id, &result),
    );
    let id = HeaderValue::from_str(&id).expect("hexadecimal");
    answer.headers_mut().insert("mcp-session-id", id);
    answer
}

fn answer_request(
    fixture: &Arc<FixtureState>,
    session: &Arc<FixtureSession>,
    request: FixtureRequest,
) -> FixtureResponse {
    if matches!(request.method.as_str(), "tools/call" | "prompts/get" | "tasks/result") {
        return answer_call(fixture, session, request);
    }
    if request.method == "events/stream" && fixture.has_events {
        return counter_events::open_stream(fixture, &request)
            .unwrap_or_else(|fault| error_response(&request.id, &fault));
    }
    let message = match method_result(fixture, session, &request) {
        Ok(result) => json_rpc::result_message(&request.id, &result),
        // In this era a request error is not a transport error.
        Err(fault) => fault.error_message(&request.id),
    };
    // One kind of short result is sent as a stream anyway, which is allowed.
    if request.method == "tools/list" {
        return event_stream::event_response(|out| async move { out.send_message(&message).await });
    }
    event_stream::json_response(StatusCode::OK, &message)
}

fn method_result(
    fixture: &FixtureState,
    session: &FixtureSession,
    request: &FixtureRequest,
) -> Result<Value, RpcError> {
    Ok(match request.method.as_str() {
        "ping" => json!({}),
        "tools/list" => with_task_support(listed_content::list_page(fixture, request)?),
        "prompts/list" | "resources/list" | "resources/templates/list" => {
            listed_content::list_page(fixture, request)?
        }
        "tasks/get" | "tasks/cancel" => tasks::answer_legacy(fixture, request)?,
        "resources/read" => {
            listed_content::read_resource(fixture, request).map_err(|fault| RpcError {
                // The error code of this era.
                code: if fault.data.is_some() { -32002 } else { fault.code },
                ..fault
            })?
        }
        "resources/subscribe" | "resources/unsubscribe" => {
            let uri = request.text_param("uri")?;
            if !listed_content::is_resource(uri) {
                return Err(
                    RpcError::new(-32002, "Resource not found").with_data(json!({ "uri": uri }))
                );
            }
            session.set_subscription(uri, request.method == "resources/subscribe");
            json!({})
        }
        "completion/complete" => listed_content::complete_argument(request)?,
        "logging/setLevel" => {
            let level = request.text_param("level")?;
            let level = LOG_LEVELS.iter().position(|known| *known == level);
            session
                .set_log_level(level.ok_or_else(|| RpcError::invalid_params("`level` is none"))?);
            json!({})
        }
        "events/list" if fixture.has_events => counter_events::list_types(),
        "events/poll" if fixture.has_events => counter_events::poll(fixture, request)?,
        method => return Err(RpcError::unknown_method(method)),
    })
}

/// Adds the task support of each tool.
fn with_task_support(mut list: Value) -> Value {
    for tool in list["tools"].as_array_mut().into_iter().flatten() {
        if let Some(word) = tool["name"].as_str().and_then(tasks::task_support) {
            tool["execution"] = json!({ "taskSupport": word });
        }
    }
    list
}

/// Responds to a call with its own stream, until it ends or is cancelled.
fn answer_call(
    fixture: &Arc<FixtureState>,
    session: &Arc<FixtureSession>,
    request: FixtureRequest,
) -> FixtureResponse {
    let (world, session) = (Arc::clone(fixture), Arc::clone(session));
    event_stream::event_response(|out| async move {
        let token = session.begin_request(&request.id);
        let link = CallerLink::for_legacy(out.clone(), &request, Arc::clone(&session));
        let ended = token.run_until_cancelled(run_call(&world, &request, &link)).await;
        session.end_request(&request.id);
        let message = match ended {
            // A cancelled call gets no response.
            None => return,
            Some(Ok(result)) => json_rpc::result_message(&request.id, &result),
            Some(Err(fault)) => fault.error_message(&request.id),
        };
        let breaks = request.text_param("name").is_ok_and(|name| name == "test_reconnection");
        if breaks && session.revision.as_str() >= RESUMABLE_REVISION {
            let id = session.store_remaining_message(message);
            out.send_lines(format!("id: {id}\nretry: 200\ndata: \n\n")).await;
        } else {
            out.send_message(&message).await;
        }
    })
}

/// Runs a call to its end, with requests to the client in between.
async fn run_call(
    fixture: &FixtureState,
    request: &FixtureRequest,
    link: &CallerLink,
) -> Result<Value, RpcError> {
    if request.method == "tasks/result" {
        return tasks::task_result(fixture, request, link).await;
    }
    let capabilities = link.session.as_ref().map(|session| session.capabilities.clone());
    let mut given: CallInput = tool_calls::parse_call(request, &capabilities.unwrap_or_default())?;
    let calls = request.method == "tools/call";
    match tasks::task_support(&given.name).filter(|_| calls) {
        Some(_) if request.params.contains_key("task") => {
            return tasks::begin_legacy(fixture, &given);
        }
        Some("required") => return Err(RpcError::unknown_method("tools/call without `task`")),
        _ => {}
    }
    for _ in 0..MAX_ROUNDS {
        let outcome = if request.method == "prompts/get" {
            tool_calls::get_prompt(fixture, request, &given)
        } else {
            tool_calls::call_tool(fixture, &given, link).await
        };
        match outcome {
            Ok(CallOutcome::Done(result) | CallOutcome::Task(result)) => return Ok(result),
            // This era has no error code for this; the tool result names what is missing.
            Err(fault) if fault.code == -32021 && request.method == "tools/call" => {
                let lacks = fault.data.unwrap_or_default();
                return Ok(error_result(format!("{}: {lacks}", fault.message)));
            }
            Err(fault) => return Err(fault),
            Ok(CallOutcome::NeedsInput(questions, state)) => {
                let mut responses = Map::new();
                for (key, question) in questions.as_object().into_iter().flatten() {
                    let method = question["method"].as_str().unwrap_or_default();
                    match link.request_input(method, &question["params"]).await {
                        Ok(response) => drop(responses.insert(key.clone(), response)),
                        Err(fault) => return Ok(error_result(fault.message)),
                    }
                }
                (given.responses, given.request_state) = (Some(responses), state);
            }
        }
    }
    Ok(error_result("asked too often"))
}

/// Opens the stream of a session, or resumes a broken stream.
pub(super) fn open_stream(fixture: &Arc<FixtureState>, headers: &HeaderMap) -> FixtureResponse {
    let session = match find_session(fixture, headers) {
        Ok(session) => session,
        Err(fault) => return error_response(&Value::Null, &fault),
    };
    if let Some(last) = header_text(headers, "last-event-id") {
        let Some(message) = session.take_remaining_message(last) else {
            return error_response(&Value::Null, &RpcError::bad_request(-32000, "no such event"));
        };
        let id = format!("{last}-1");
        return event_stream::event_response(|out| async move {
            sleep(Duration::from_millis(50)).await;
            out.send_lines(format!("id: {id}\nevent: message\ndata: {message}\n\n")).await;
        });
    }
    let changes = fixture.changes.subscribe();
    event_stream::event_response(|out| send_changes(out, session, changes))
}

async fn send_changes(
    out: EventSender,
    session: Arc<FixtureSession>,
    mut changes: tokio::sync::broadcast::Receiver<FixtureChange>,
) {
    // Headers are sent with the first bytes.
    out.send_lines(": open\n\n".to_owned()).await;
    loop {
        let (method, params) = match changes.recv().await {
            Ok(FixtureChange::Tools) => ("notifications/tools/list_changed", json!({})),
            Ok(FixtureChange::Prompts) => ("notifications/prompts/list_changed", json!({})),
            Ok(FixtureChange::Resource(uri)) if session.is_subscribed(&uri) => {
                ("notifications/resources/updated", json!({ "uri": uri }))
            }
            Ok(FixtureChange::Resource(_)) | Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => break,
        };
        out.send_message(&json_rpc::notification_message(method, &params)).await;
    }
}

/// Deletes the session that a request names.
pub(super) fn delete_session(fixture: &FixtureState, headers: &HeaderMap) -> FixtureResponse {
    if let Err(fault) = find_session(fixture, headers) {
        return error_response(&Value::Null, &fault);
    }
    let id = header_text(headers, "mcp-session-id").unwrap_or_default();
    fixture.sessions.lock().unwrap().remove(id);
    event_stream::text_response(StatusCode::NO_CONTENT, "")
}
