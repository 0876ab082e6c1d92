//! The modern era, MCP 2026-07-28: every request is self-contained.

use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::FixtureEra;
use super::caller_link::CallerLink;
use super::counter_events;
use super::event_stream::{self, EventSender, FixtureResponse};
use super::fixture_state::{FixtureChange, FixtureState};
use super::headers;
use super::json_rpc::{self, FixtureMessage, FixtureRequest, RpcError};
use super::legacy_era;
use super::listed_content;
use super::tasks;
use super::tool_calls::{self, CallOutcome};

/// The protocol revision of this era.
pub(super) const REVISION: &str = "2026-07-28";

const META_PREFIX: &str = "io.modelcontextprotocol/";

/// Responds to one message.
pub(super) async fn answer_message(
    fixture: &Arc<FixtureState>,
    headers: &HeaderMap,
    message: FixtureMessage,
) -> FixtureResponse {
    match message {
        FixtureMessage::Request(request) => {
            let answered = check_request(fixture, headers, &request);
            match answered {
                Ok(capabilities) => dispatch_request(fixture, request, capabilities).await,
                Err(fault) => error_response(&request.id, &fault),
            }
        }
        FixtureMessage::Notification(..) => event_stream::text_response(StatusCode::ACCEPTED, ""),
        FixtureMessage::Response(_) => {
            let fault = RpcError::bad_request(-32600, "nobody was asked anything");
            error_response(&Value::Null, &fault)
        }
    }
}

fn error_response(id: &Value, fault: &RpcError) -> FixtureResponse {
    event_stream::json_response(fault.status, &fault.error_message(id))
}

/// The protocol versions that a request may use.
pub(super) fn supported_revisions(fixture: &FixtureState) -> Vec<&'static str> {
    let mut all = vec![REVISION];
    if fixture.supports_era(FixtureEra::Legacy) {
        all.extend(legacy_era::REVISIONS.iter().rev());
    }
    all
}

pub(super) fn unsupported_revision(fixture: &FixtureState, requested: &str) -> RpcError {
    RpcError::bad_request(-32022, "the protocol version is not supported")
        .with_data(json!({ "supported": supported_revisions(fixture), "requested": requested }))
}

/// Validates that headers and body agree; returns the client capabilities.
fn check_request(
    fixture: &FixtureState,
    headers: &HeaderMap,
    request: &FixtureRequest,
) -> Result<Value, RpcError> {
    headers::check_method(headers, &request.method)?;
    let missing = |name: &str| {
        let status = StatusCode::BAD_REQUEST;
        RpcError {
            status,
            ..RpcError::invalid_params(format!("`_meta` has no `{META_PREFIX}{name}`"))
        }
    };
    let version =
        request.meta_member(&format!("{META_PREFIX}protocolVersion")).and_then(Value::as_str);
    let version = version.ok_or_else(|| missing("protocolVersion"))?;
    match headers::header_text(headers, "mcp-protocol-version") {
        Some(said) if said == version => {}
        Some(said) => {
            let what = format!("`MCP-Protocol-Version` is `{said}`, not `{version}`");
            return Err(RpcError::header_mismatch(what));
        }
        None => return Err(RpcError::header_mismatch("`MCP-Protocol-Version` is missing")),
    }
    if version != REVISION {
        return Err(unsupported_revision(fixture, version));
    }
    let capabilities = request.meta_member(&format!("{META_PREFIX}clientCapabilities"));
    let capabilities =
        capabilities.filter(|it| it.is_object()).ok_or_else(|| missing("clientCapabilities"))?;
    headers::check_name(headers, request)?;
    if request.method == "tools/call"
        && let Some(tool) = listed_content::find_tool(fixture, request.text_param("name")?)
    {
        headers::check_params(headers, request, &tool)?;
    }
    Ok(capabilities.clone())
}

async fn dispatch_request(
    fixture: &Arc<FixtureState>,
    request: FixtureRequest,
    capabilities: Value,
) -> FixtureResponse {
    if request.method == "subscriptions/listen" {
        return open_subscription(fixture, &request);
    }
    if request.method == "events/stream" && fixture.has_events {
        return counter_events::open_stream(fixture, &request)
            .unwrap_or_else(|fault| error_response(&request.id, &fault));
    }
    if request.method == "tools/call"
        && request.text_param("name").is_ok_and(tool_calls::sends_notifications)
    {
        let world = Arc::clone(fixture);
        return event_stream::event_response(|out| async move {
            let link = CallerLink::for_modern(Some(out.clone()), &request);
            let message = match call_result(&world, &request, &capabilities, &link).await {
                Ok(result) => json_rpc::result_message(&request.id, &result),
                Err(fault) => fault.error_message(&request.id),
            };
            out.send_message(&message).await;
        });
    }
    let answered = match request.method.as_str() {
        "tools/call" | "prompts/get" => {
            call_result(fixture, &request, &capabilities, &CallerLink::for_modern(None, &request))
                .await
        }
        _ => method_result(fixture, &request, &capabilities),
    };
    match answered {
        Ok(result) => event_stream::json_response(
            StatusCode::OK,
            &json_rpc::result_message(&request.id, &result),
        ),
        Err(fault) => error_response(&request.id, &fault),
    }
}

/// The extensions that the fixture declares.
fn extensions(fixture: &FixtureState) -> Value {
    let mut all = json!({ tasks::TASKS_EXTENSION: {} });
    if fixture.has_events {
        all[counter_events::EVENTS_EXTENSION] = json!({});
    }
    all
}

fn method_result(
    world: &FixtureState,
    request: &FixtureRequest,
    capabilities: &Value,
) -> Result<Value, RpcError> {
    Ok(match request.method.as_str() {
        "server/discover" => with_cache_hints(json!({
            "supportedVersions": supported_revisions(world),
            "capabilities": {
                "tools": { "listChanged": true },
                "prompts": { "listChanged": true },
                "resources": { "subscribe": true, "listChanged": true },
                "logging": {},
                "completions": {},
                "extensions": extensions(world),
            },
            "instructions": "A fixture for tests.",
        })),
        "tools/list" | "prompts/list" | "resources/list" | "resources/templates/list" => {
            with_cache_hints(listed_content::list_page(world, request)?)
        }
        "resources/read" => with_cache_hints(listed_content::read_resource(world, request)?),
        "completion/complete" => complete_result(listed_content::complete_argument(request)?),
        "tasks/get" | "tasks/update" | "tasks/cancel" => {
            complete_result(tasks::answer_method(world, request, capabilities)?)
        }
        "events/list" if world.has_events => complete_result(counter_events::list_types()),
        "events/poll" if world.has_events => complete_result(counter_events::poll(world, request)?),
        method => return Err(RpcError::unknown_method(method)),
    })
}

async fn call_result(
    fixture: &FixtureState,
    request: &FixtureRequest,
    capabilities: &Value,
    link: &CallerLink,
) -> Result<Value, RpcError> {
    let given = tool_calls::parse_call(request, capabilities)?;
    let outcome = if request.method == "prompts/get" {
        tool_calls::get_prompt(fixture, request, &given)?
    } else {
        tool_calls::call_tool(fixture, &given, link).await?
    };
    Ok(match outcome {
        CallOutcome::Done(result) => complete_result(result),
        CallOutcome::Task(members) => with_server_info(members, "task"),
        CallOutcome::NeedsInput(requests, state) => {
            let mut asking = json!({ "inputRequests": requests });
            if let Some(state) = state {
                asking["requestState"] = json!(state);
            }
            with_server_info(asking, "input_required")
        }
    })
}

/// Adds the result type and the server info to a result.
fn with_server_info(mut result: Value, kind: &str) -> Value {
    result["resultType"] = json!(kind);
    result["_meta"] = json!({ "io.modelcontextprotocol/serverInfo": legacy_era::server_info() });
    result
}

fn complete_result(result: Value) -> Value {
    with_server_info(result, "complete")
}

fn with_cache_hints(mut result: Value) -> Value {
    result["ttlMs"] = json!(1_000);
    result["cacheScope"] = json!("private");
    complete_result(result)
}

/// Opens a stream of the change notifications that the client requested.
fn open_subscription(fixture: &Arc<FixtureState>, request: &FixtureRequest) -> FixtureResponse {
    let filter = request.params.get("notifications").cloned().unwrap_or_default();
    if !filter.is_object() {
        return error_response(
            &request.id,
            &RpcError::invalid_params("`notifications` is no object"),
        );
    }
    let (id, mut changes) = (request.id.clone(), fixture.changes.subscribe());
    event_stream::event_response(|out| async move {
        let known = ["toolsListChanged", "promptsListChanged", "resourceSubscriptions"];
        let mut agreed = json!({});
        for key in known.into_iter().filter(|key| filter.get(*key).is_some()) {
            agreed[key] = filter[key].clone();
        }
        let what = json!({ "notifications": agreed });
        send_subscribed(&out, &id, "notifications/subscriptions/acknowledged", what).await;
        loop {
            use tokio::sync::broadcast::error::RecvError;
            let change = match changes.recv().await {
                Ok(change) => change,
                Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => break,
            };
            match change {
                FixtureChange::Tools if agreed["toolsListChanged"] == true => {
                    send_subscribed(&out, &id, "notifications/tools/list_changed", json!({})).await;
                }
                FixtureChange::Prompts if agreed["promptsListChanged"] == true => {
                    send_subscribed(&out, &id, "notifications/prompts/list_changed", json!({}))
                        .await;
                }
                FixtureChange::Resource(uri) => {
                    let wanted = agreed["resourceSubscriptions"].as_array();
                    if wanted.is_some_and(|all| all.iter().any(|it| *it == uri)) {
                        let what = json!({ "uri": uri });
                        send_subscribed(&out, &id, "notifications/resources/updated", what).await;
                    }
                }
                FixtureChange::Tools | FixtureChange::Prompts => {}
            }
        }
    })
}

async fn send_subscribed(out: &EventSender, id: &Value, method: &str, mut params: Value) {
    params["_meta"] = json!({ "io.modelcontextprotocol/subscriptionId": id });
    out.send_message(&json_rpc::notification_message(method, &params)).await;
}
