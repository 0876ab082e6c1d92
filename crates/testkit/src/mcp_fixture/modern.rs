//! The modern era, 2026-07-28: every request is self-contained.

use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::Era;
use super::calls::{self, Outcome};
use super::content;
use super::headers;
use super::legacy;
use super::link::Link;
use super::rpc::{self, Fault, Message, Request};
use super::stream::{self, Answer, Sender};
use super::tasks;
use super::world::{Change, World};

/// The protocol revision of this era.
pub(super) const REVISION: &str = "2026-07-28";

const META: &str = "io.modelcontextprotocol/";

/// Responds to one message.
pub(super) async fn answer(world: &Arc<World>, headers: &HeaderMap, message: Message) -> Answer {
    match message {
        Message::Request(request) => {
            let answered = checked(world, headers, &request);
            match answered {
                Ok(capabilities) => dispatch(world, request, capabilities).await,
                Err(fault) => refuse(&request.id, &fault),
            }
        }
        Message::Notification(..) => stream::plain(StatusCode::ACCEPTED, ""),
        Message::Response(_) => {
            let fault = Fault::bad(-32600, "nobody was asked anything");
            refuse(&Value::Null, &fault)
        }
    }
}

fn refuse(id: &Value, fault: &Fault) -> Answer {
    stream::json(fault.status, &fault.message(id))
}

/// The protocol versions that a request may use.
pub(super) fn supported(world: &World) -> Vec<&'static str> {
    let mut all = vec![REVISION];
    if world.speaks(Era::Legacy) {
        all.extend(legacy::REVISIONS.iter().rev());
    }
    all
}

pub(super) fn unsupported(world: &World, requested: &str) -> Fault {
    Fault::bad(-32022, "the protocol version is not supported")
        .with(json!({ "supported": supported(world), "requested": requested }))
}

/// Validates that headers and body agree; returns the client capabilities.
fn checked(world: &World, headers: &HeaderMap, request: &Request) -> Result<Value, Fault> {
    headers::method(headers, &request.method)?;
    let missing = |name: &str| {
        let status = StatusCode::BAD_REQUEST;
        Fault { status, ..Fault::params(format!("`_meta` has no `{META}{name}`")) }
    };
    let version = request.meta(&format!("{META}protocolVersion")).and_then(Value::as_str);
    let version = version.ok_or_else(|| missing("protocolVersion"))?;
    match headers::text(headers, "mcp-protocol-version") {
        Some(said) if said == version => {}
        Some(said) => {
            let what = format!("`MCP-Protocol-Version` is `{said}`, not `{version}`");
            return Err(Fault::mismatch(what));
        }
        None => return Err(Fault::mismatch("`MCP-Protocol-Version` is missing")),
    }
    if version != REVISION {
        return Err(unsupported(world, version));
    }
    let capabilities = request.meta(&format!("{META}clientCapabilities"));
    let capabilities =
        capabilities.filter(|it| it.is_object()).ok_or_else(|| missing("clientCapabilities"))?;
    headers::name(headers, request)?;
    if request.method == "tools/call"
        && let Some(tool) = content::tool(world, request.text("name")?)
    {
        headers::params(headers, request, &tool)?;
    }
    Ok(capabilities.clone())
}

async fn dispatch(world: &Arc<World>, request: Request, capabilities: Value) -> Answer {
    if request.method == "subscriptions/listen" {
        return listen(world, &request);
    }
    if request.method == "tools/call" && request.text("name").is_ok_and(calls::speaks) {
        let world = Arc::clone(world);
        return stream::events(|out| async move {
            let link = Link::modern(Some(out.clone()), &request);
            let message = match called(&world, &request, &capabilities, &link).await {
                Ok(result) => rpc::result(&request.id, &result),
                Err(fault) => fault.message(&request.id),
            };
            out.message(&message).await;
        });
    }
    let answered = match request.method.as_str() {
        "tools/call" | "prompts/get" => {
            called(world, &request, &capabilities, &Link::modern(None, &request)).await
        }
        _ => result(world, &request, &capabilities),
    };
    match answered {
        Ok(result) => stream::json(StatusCode::OK, &rpc::result(&request.id, &result)),
        Err(fault) => refuse(&request.id, &fault),
    }
}

fn result(world: &World, request: &Request, capabilities: &Value) -> Result<Value, Fault> {
    Ok(match request.method.as_str() {
        "server/discover" => cached(json!({
            "supportedVersions": supported(world),
            "capabilities": {
                "tools": { "listChanged": true },
                "prompts": { "listChanged": true },
                "resources": { "subscribe": true, "listChanged": true },
                "logging": {},
                "completions": {},
                "extensions": { tasks::EXTENSION: {} },
            },
            "instructions": "A fixture for tests.",
        })),
        "tools/list" | "prompts/list" | "resources/list" | "resources/templates/list" => {
            cached(content::list(world, request)?)
        }
        "resources/read" => cached(content::read_resource(world, request)?),
        "completion/complete" => complete(content::complete(request)?),
        "tasks/get" | "tasks/update" | "tasks/cancel" => {
            complete(tasks::answer(world, request, capabilities)?)
        }
        method => return Err(Fault::no_method(method)),
    })
}

async fn called(
    world: &World,
    request: &Request,
    capabilities: &Value,
    link: &Link,
) -> Result<Value, Fault> {
    let given = calls::given(request, capabilities)?;
    let outcome = if request.method == "prompts/get" {
        calls::prompt(world, request, &given)?
    } else {
        calls::call(world, &given, link).await?
    };
    Ok(match outcome {
        Outcome::Done(result) => complete(result),
        Outcome::Task(members) => signed(members, "task"),
        Outcome::Ask(requests, state) => {
            let mut asking = json!({ "inputRequests": requests });
            if let Some(state) = state {
                asking["requestState"] = json!(state);
            }
            signed(asking, "input_required")
        }
    })
}

/// Adds the result type and the server info to a result.
fn signed(mut result: Value, kind: &str) -> Value {
    result["resultType"] = json!(kind);
    result["_meta"] = json!({ "io.modelcontextprotocol/serverInfo": legacy::info() });
    result
}

fn complete(result: Value) -> Value {
    signed(result, "complete")
}

fn cached(mut result: Value) -> Value {
    result["ttlMs"] = json!(1_000);
    result["cacheScope"] = json!("private");
    complete(result)
}

/// Opens a stream of the change notifications that the client requested.
fn listen(world: &Arc<World>, request: &Request) -> Answer {
    let filter = request.params.get("notifications").cloned().unwrap_or_default();
    if !filter.is_object() {
        return refuse(&request.id, &Fault::params("`notifications` is no object"));
    }
    let (id, mut changes) = (request.id.clone(), world.changes.subscribe());
    stream::events(|out| async move {
        let known = ["toolsListChanged", "promptsListChanged", "resourceSubscriptions"];
        let mut agreed = json!({});
        for key in known.into_iter().filter(|key| filter.get(*key).is_some()) {
            agreed[key] = filter[key].clone();
        }
        let what = json!({ "notifications": agreed });
        tell(&out, &id, "notifications/subscriptions/acknowledged", what).await;
        loop {
            use tokio::sync::broadcast::error::RecvError;
            let change = match changes.recv().await {
                Ok(change) => change,
                Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => break,
            };
            match change {
                Change::Tools if agreed["toolsListChanged"] == true => {
                    tell(&out, &id, "notifications/tools/list_changed", json!({})).await;
                }
                Change::Prompts if agreed["promptsListChanged"] == true => {
                    tell(&out, &id, "notifications/prompts/list_changed", json!({})).await;
                }
                Change::Resource(uri) => {
                    let wanted = agreed["resourceSubscriptions"].as_array();
                    if wanted.is_some_and(|all| all.iter().any(|it| *it == uri)) {
                        let what = json!({ "uri": uri });
                        tell(&out, &id, "notifications/resources/updated", what).await;
                    }
                }
                Change::Tools | Change::Prompts => {}
            }
        }
    })
}

async fn tell(out: &Sender, id: &Value, method: &str, mut params: Value) {
    params["_meta"] = json!({ "io.modelcontextprotocol/subscriptionId": id });
    out.message(&rpc::notification(method, &params)).await;
}
