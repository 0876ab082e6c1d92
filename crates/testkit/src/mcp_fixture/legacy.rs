//! The legacy era, 2024-11-05 to 2025-11-25: `initialize`, sessions, and requests in both
//! directions.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::{Map, Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::sleep;
use uuid::Uuid;

use super::calls::{self, Outcome, failure};
use super::content;
use super::headers::text;
use super::input::Given;
use super::link::{LEVELS, Link};
use super::rpc::{self, Fault, Message, Request};
use super::session::Session;
use super::stream::{self, Answer, Sender};
use super::tasks;
use super::world::{Change, World};

/// The supported revisions, from the oldest.
pub(super) const REVISIONS: &[&str] = &["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
/// The first revision with stream resumption.
const RESUMABLE: &str = "2025-11-25";
/// Maximum number of sessions.
const MOST: usize = 10_000;
/// Maximum number of input rounds per call.
const ROUNDS: usize = 8;

/// The server info.
pub(super) fn info() -> Value {
    json!({ "name": "mcp-fixture", "title": "Fixture", "version": "1.0.0" })
}

fn refuse(id: &Value, fault: &Fault) -> Answer {
    stream::json(fault.status, &fault.message(id))
}

/// Finds the session of a request.
fn session(world: &World, headers: &HeaderMap) -> Result<Arc<Session>, Fault> {
    let id = text(headers, "mcp-session-id")
        .ok_or_else(|| Fault::bad(-32000, "`Mcp-Session-Id` is missing"))?;
    let found = world.sessions.lock().unwrap().get(id).cloned();
    let gone = || Fault { status: StatusCode::NOT_FOUND, ..Fault::new(-32001, "no such session") };
    let found = found.ok_or_else(gone)?;
    match text(headers, "mcp-protocol-version") {
        Some(said) if !REVISIONS.contains(&said) => {
            Err(Fault::bad(-32000, format!("`{said}` is no protocol version known here")))
        }
        _ => Ok(found),
    }
}

/// Responds to one posted message.
pub(super) fn post(world: &Arc<World>, headers: &HeaderMap, message: Message) -> Answer {
    if let Message::Request(request) = &message
        && request.method == "initialize"
    {
        return initialize(world, request);
    }
    let id = if let Message::Request(request) = &message { &request.id } else { &Value::Null };
    let session = match session(world, headers) {
        Ok(session) => session,
        Err(fault) => return refuse(id, &fault),
    };
    match message {
        Message::Request(request) => answer(world, &session, request),
        Message::Notification(method, params) => {
            if let ("notifications/cancelled", Some(id)) = (&*method, params.get("requestId")) {
                session.cancel(id);
            }
            stream::plain(StatusCode::ACCEPTED, "")
        }
        Message::Response(message) => {
            if session.answered(message) {
                return stream::plain(StatusCode::ACCEPTED, "");
            }
            refuse(&Value::Null, &Fault::bad(-32600, "nobody was asked that"))
        }
    }
}

fn initialize(world: &World, request: &Request) -> Answer {
    let wanted = match request.text("protocolVersion") {
        Ok(wanted) => wanted,
        Err(fault) => return refuse(&request.id, &fault),
    };
    let latest = REVISIONS[REVISIONS.len() - 1];
    let revision = REVISIONS.iter().find(|known| **known == wanted).copied().unwrap_or(latest);
    let capabilities = request.params.get("capabilities").cloned().unwrap_or_default();
    let id = Uuid::new_v4().to_string();
    {
        let mut sessions = world.sessions.lock().unwrap();
        if sessions.len() >= MOST {
            return refuse(&request.id, &Fault::new(-32603, "too many sessions"));
        }
        sessions.insert(id.clone(), Arc::new(Session::new(revision, capabilities)));
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
        "serverInfo": info(),
        "instructions": "A fixture for tests.",
    });
    if revision == latest {
        result["capabilities"]["tasks"] =
            json!({ "cancel": {}, "requests": { "tools": { "call": {} } } });
    }
    let mut answer = stream::json(StatusCode::OK, &rpc::result(&request.id, &result));
    let id = HeaderValue::from_str(&id).expect("hexadecimal");
    answer.headers_mut().insert("mcp-session-id", id);
    answer
}

fn answer(world: &Arc<World>, session: &Arc<Session>, request: Request) -> Answer {
    if matches!(request.method.as_str(), "tools/call" | "prompts/get" | "tasks/result") {
        return called(world, session, request);
    }
    let message = match result(world, session, &request) {
        Ok(result) => rpc::result(&request.id, &result),
        // In this era a request error is not a transport error.
        Err(fault) => fault.message(&request.id),
    };
    // One kind of short result is sent as a stream anyway, which is allowed.
    if request.method == "tools/list" {
        return stream::events(|out| async move { out.message(&message).await });
    }
    stream::json(StatusCode::OK, &message)
}

fn result(world: &World, session: &Session, request: &Request) -> Result<Value, Fault> {
    Ok(match request.method.as_str() {
        "ping" => json!({}),
        "tools/list" => supporting(content::list(world, request)?),
        "prompts/list" | "resources/list" | "resources/templates/list" => {
            content::list(world, request)?
        }
        "tasks/get" | "tasks/cancel" => tasks::answer_older(world, request)?,
        "resources/read" => content::read_resource(world, request).map_err(|fault| Fault {
            // The error code of this era.
            code: if fault.data.is_some() { -32002 } else { fault.code },
            ..fault
        })?,
        "resources/subscribe" | "resources/unsubscribe" => {
            let uri = request.text("uri")?;
            if !content::is_resource(uri) {
                return Err(Fault::new(-32002, "Resource not found").with(json!({ "uri": uri })));
            }
            session.watch(uri, request.method == "resources/subscribe");
            json!({})
        }
        "completion/complete" => content::complete(request)?,
        "logging/setLevel" => {
            let level = request.text("level")?;
            let level = LEVELS.iter().position(|known| *known == level);
            session.set_level(level.ok_or_else(|| Fault::params("`level` is none"))?);
            json!({})
        }
        method => return Err(Fault::no_method(method)),
    })
}

/// Adds the task support of each tool.
fn supporting(mut list: Value) -> Value {
    for tool in list["tools"].as_array_mut().into_iter().flatten() {
        if let Some(word) = tool["name"].as_str().and_then(tasks::support) {
            tool["execution"] = json!({ "taskSupport": word });
        }
    }
    list
}

/// Responds to a call with its own stream, until it ends or is cancelled.
fn called(world: &Arc<World>, session: &Arc<Session>, request: Request) -> Answer {
    let (world, session) = (Arc::clone(world), Arc::clone(session));
    stream::events(|out| async move {
        let token = session.begin(&request.id);
        let link = Link::legacy(out.clone(), &request, Arc::clone(&session));
        let ended = token.run_until_cancelled(run(&world, &request, &link)).await;
        session.end(&request.id);
        let message = match ended {
            // A cancelled call gets no response.
            None => return,
            Some(Ok(result)) => rpc::result(&request.id, &result),
            Some(Err(fault)) => fault.message(&request.id),
        };
        let breaks = request.text("name").is_ok_and(|name| name == "test_reconnection");
        if breaks && session.revision.as_str() >= RESUMABLE {
            let id = session.keep(message);
            out.raw(format!("id: {id}\nretry: 200\ndata: \n\n")).await;
        } else {
            out.message(&message).await;
        }
    })
}

/// Runs a call to its end, with requests to the client in between.
async fn run(world: &World, request: &Request, link: &Link) -> Result<Value, Fault> {
    if request.method == "tasks/result" {
        return tasks::result(world, request, link).await;
    }
    let capabilities = link.session.as_ref().map(|session| session.capabilities.clone());
    let mut given: Given = calls::given(request, &capabilities.unwrap_or_default())?;
    let calls = request.method == "tools/call";
    match tasks::support(&given.name).filter(|_| calls) {
        Some(_) if request.params.contains_key("task") => return tasks::begin_older(world, &given),
        Some("required") => return Err(Fault::no_method("tools/call without `task`")),
        _ => {}
    }
    for _ in 0..ROUNDS {
        let outcome = if request.method == "prompts/get" {
            calls::prompt(world, request, &given)
        } else {
            calls::call(world, &given, link).await
        };
        match outcome {
            Ok(Outcome::Done(result) | Outcome::Task(result)) => return Ok(result),
            // This era has no error code for this; the tool result names what is missing.
            Err(fault) if fault.code == -32021 && request.method == "tools/call" => {
                let lacks = fault.data.unwrap_or_default();
                return Ok(failure(format!("{}: {lacks}", fault.message)));
            }
            Err(fault) => return Err(fault),
            Ok(Outcome::Ask(questions, state)) => {
                let mut responses = Map::new();
                for (key, question) in questions.as_object().into_iter().flatten() {
                    let method = question["method"].as_str().unwrap_or_default();
                    match link.ask(method, &question["params"]).await {
                        Ok(response) => drop(responses.insert(key.clone(), response)),
                        Err(fault) => return Ok(failure(fault.message)),
                    }
                }
                (given.responses, given.state) = (Some(responses), state);
            }
        }
    }
    Ok(failure("asked too often"))
}

/// Opens the stream of a session, or resumes a broken stream.
pub(super) fn get(world: &Arc<World>, headers: &HeaderMap) -> Answer {
    let session = match session(world, headers) {
        Ok(session) => session,
        Err(fault) => return refuse(&Value::Null, &fault),
    };
    if let Some(last) = text(headers, "last-event-id") {
        let Some(message) = session.rest(last) else {
            return refuse(&Value::Null, &Fault::bad(-32000, "no such event"));
        };
        let id = format!("{last}-1");
        return stream::events(|out| async move {
            sleep(Duration::from_millis(50)).await;
            out.raw(format!("id: {id}\nevent: message\ndata: {message}\n\n")).await;
        });
    }
    let changes = world.changes.subscribe();
    stream::events(|out| changed(out, session, changes))
}

async fn changed(
    out: Sender,
    session: Arc<Session>,
    mut changes: tokio::sync::broadcast::Receiver<Change>,
) {
    // Headers are sent with the first bytes.
    out.raw(": open\n\n".to_owned()).await;
    loop {
        let (method, params) = match changes.recv().await {
            Ok(Change::Tools) => ("notifications/tools/list_changed", json!({})),
            Ok(Change::Prompts) => ("notifications/prompts/list_changed", json!({})),
            Ok(Change::Resource(uri)) if session.watches(&uri) => {
                ("notifications/resources/updated", json!({ "uri": uri }))
            }
            Ok(Change::Resource(_)) | Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => break,
        };
        out.message(&rpc::notification(method, &params)).await;
    }
}

/// Deletes a session.
pub(super) fn delete(world: &World, headers: &HeaderMap) -> Answer {
    if let Err(fault) = session(world, headers) {
        return refuse(&Value::Null, &fault);
    }
    let id = text(headers, "mcp-session-id").unwrap_or_default();
    world.sessions.lock().unwrap().remove(id);
    stream::plain(StatusCode::NO_CONTENT, "")
}
