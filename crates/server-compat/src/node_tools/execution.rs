//! `/cluster-tools/execute` and `/cluster-tools/resolve`: execution of node tools and lookup of
//! their endpoints.

use std::sync::{Arc, OnceLock};

use axum::extract::{Request as Incoming, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Extension, Json as Reply};
use gateway::{CallRequest, CallTarget};
use identity::{Principal, Right};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use tool::call_outcome::{CallFailure, CallResponse};
use tool::node_registry::{
    NODE_META_KEY, NODE_SOURCE_PREFIX, NodeRegistry, NodeTool, ResolveError, node_call_arguments,
};
use tool::{ErrorCode, ExecutionState, Interface, Json, JsonLimits, PendingReason};

use super::{NodeToolRequest, optional_text, require_object};
use crate::compat_error::CompatError;
use crate::escape_name;
use server_core::body::{AROUND_ARGUMENTS, read_body};
use server_core::call_result::to_plain_result;
use server_core::http_status::http_status;
use server_core::pending_call::{self, PendingCall};
use server_core::route::ApiRoute;
use server_core::server_state::ServerState;

pub(super) fn execution_routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::new(
            "post",
            "/cluster-tools/execute",
            "Call a tool of a node (cluster tools)",
            post(execute_tool),
        )
        .with_body::<ExecuteToolBody>()
        .with_reply::<ExecuteToolReply>(),
        ApiRoute::new(
            "post",
            "/cluster-tools/resolve",
            "Resolve the address of a tool's node (cluster tools)",
            post(resolve_tool),
        )
        .with_body::<ResolveToolBody>()
        .with_reply::<ResolveToolReply>(),
    ]
}

/// A call of a node's tool.
#[derive(Debug, JsonSchema)]
#[expect(
    dead_code,
    reason = "only described: it is read field by field, for the cluster tools' own texts"
)]
struct ExecuteToolBody {
    /// Name of the tool.
    tool_name: String,
    /// Input of the tool: any JSON value.
    input: Value,
    /// Node to run the tool; any node with the tool if absent.
    node_id: Option<String>,
}

/// The result of a call.
#[derive(Debug, Serialize, JsonSchema)]
struct ExecuteToolReply {
    success: bool,
    /// Output of the tool; null on failure.
    #[schemars(with = "Value")]
    output: Json,
    /// Error message; empty on success.
    error: String,
    /// Metadata of the tool, each value as text; `node_id` is the node that responded.
    metadata: Map<String, Value>,
}

#[derive(Debug, JsonSchema)]
#[expect(dead_code, reason = "only described: it is read field by field, for exact error texts")]
struct ResolveToolBody {
    /// Name of the tool.
    tool_name: String,
    /// Node of the tool, if several nodes have it.
    node_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ResolveToolReply {
    success: bool,
    /// Address of the node, as `host:port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoint: Option<String>,
    /// Reason why no address is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

async fn execute_tool(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    incoming: Incoming,
) -> Result<Response, CompatError> {
    let body = decode_request_body(&state, incoming).await?;
    let (Some(name), Some(input)) = (optional_text(&body, "tool_name")?, body.get("input")) else {
        let message = "Missing required fields: tool_name, input";
        return Err(CompatError::new(StatusCode::BAD_REQUEST, message));
    };
    let node = optional_text(&body, "node_id")?.filter(|node| !node.is_empty());
    let node_request = NodeToolRequest::from_request(&state, &principal)?;
    let found = node_request.find_callable_tool(&name, node.as_deref());
    // A missing tool is called too, so that the attempt is recorded like any other call.
    let source = match &found {
        Some(found) => found.source.clone(),
        None => node_request.nodes.source_name(node.as_deref().unwrap_or_default()),
    };
    let target = CallTarget::SourceTool { source, name: name.clone() };
    let input = node_call_arguments(&input).bytes().clone();
    let mut request = CallRequest::for_target(target, input, Interface::Cluster);
    let pin = node.as_ref().filter(|_| found.is_some());
    request.meta = pin.map(|node| Json::object_from([(NODE_META_KEY, &Json::encode(node))]));
    let answered = Arc::new(OnceLock::new());
    request.answering_node = Some(Arc::clone(&answered));
    let answer = state.components.gateway.call_tool(&principal, request).await;
    state.metrics.observe_call(Interface::Cluster, &answer);
    let answered = answered.get().and_then(|node| node_request.nodes.find_tool(node, &name));
    let called = NodeToolCall {
        tool_name: &name,
        requested_node: node.as_deref(),
        resolved: found,
        answering_tool: answered,
    };
    let (status, executed) = execute_reply(answer, &called, &**node_request.nodes);
    Ok((status, Reply(executed)).into_response())
}

/// The called tool, and the tool of the node that answered.
struct NodeToolCall<'a> {
    tool_name: &'a str,
    /// The node that the caller named.
    requested_node: Option<&'a str>,
    resolved: Option<CallableNodeTool>,
    answering_tool: Option<NodeTool>,
}

async fn resolve_tool(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    incoming: Incoming,
) -> Result<Response, CompatError> {
    let body = decode_request_body(&state, incoming).await?;
    let Some(name) = optional_text(&body, "tool_name")? else {
        return Err(CompatError::new(StatusCode::BAD_REQUEST, "Missing required field: tool_name"));
    };
    let node = optional_text(&body, "node_id")?.filter(|node| !node.is_empty());
    let request = NodeToolRequest::from_request(&state, &principal)?;
    if !principal.has_right(Right::NodesResolve) {
        return Ok(unresolved_response(
            StatusCode::FORBIDDEN,
            "the key lacks the right `nodes:resolve`",
        ));
    }
    let Some(found) = request.find_callable_tool(&name, node.as_deref()) else {
        let message = format!("Tool '{}' not found in database", escape_name(&name));
        return Ok(unresolved_response(StatusCode::NOT_FOUND, &message));
    };
    Ok(match find_endpoint(&**request.nodes, &found.nodes) {
        Ok(endpoint) => {
            let resolved =
                ResolveToolReply { success: true, endpoint: Some(endpoint), error: None };
            Reply(resolved).into_response()
        }
        Err(error) => {
            let told = match &error {
                ResolveError::NoAddress(_) | ResolveError::NoNodeLabel(_) => {
                    "Unable to resolve endpoint for tool".to_owned()
                }
                ResolveError::OwnConnection(_) | ResolveError::InvalidAddress { .. } => {
                    error.to_string()
                }
            };
            unresolved_response(unresolved_status(&error), &told)
        }
    })
}

/// A node tool that the caller may call.
struct CallableNodeTool {
    /// The source in the catalog, which belongs to the first of its nodes.
    source: String,
    /// The node that the caller named, or else all nodes that have the tool, in order of
    /// registration.
    nodes: Vec<String>,
}

impl NodeToolRequest<'_> {
    fn find_callable_tool(&self, name: &str, node: Option<&str>) -> Option<CallableNodeTool> {
        let entry = self.find_node_tool(name)?;
        let mut nodes = entry.executor.node_ids();
        nodes.retain(|place| {
            node.is_none_or(|node| node == place) && self.nodes.find_tool(place, name).is_some()
        });
        let source = entry.tool_key.source.as_str().to_owned();
        (source.starts_with(NODE_SOURCE_PREFIX) && !nodes.is_empty())
            .then_some(CallableNodeTool { source, nodes })
    }
}

/// Returns the endpoint of the first node that has an address and accepts calls, or else of the
/// first that has one.
fn find_endpoint(nodes: &dyn NodeRegistry, of: &[String]) -> Result<String, ResolveError> {
    let (ready, rest): (Vec<_>, Vec<_>) = of.iter().partition(|node| nodes.accepts_calls(node));
    let mut first = None;
    for node in ready.into_iter().chain(rest) {
        match nodes.resolve_endpoint(node) {
            Ok(endpoint) => return Ok(endpoint),
            Err(error) => drop(first.get_or_insert(error)),
        }
    }
    Err(first.unwrap_or_else(|| ResolveError::NoAddress(String::new())))
}

/// The status of an unresolved endpoint: 404 if the node cannot be located, 500 if its address
/// cannot be used.
fn unresolved_status(error: &ResolveError) -> StatusCode {
    match error {
        ResolveError::NoAddress(_)
        | ResolveError::NoNodeLabel(_)
        | ResolveError::OwnConnection(_) => StatusCode::NOT_FOUND,
        ResolveError::InvalidAddress { .. } => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Returns the error if none of these nodes can be located.
fn unreachable_error(nodes: &dyn NodeRegistry, of: &[String]) -> Option<ResolveError> {
    // A node without an address may still be called over its own connection.
    find_endpoint(nodes, of).err().filter(|_| {
        of.iter().all(|node| {
            !matches!(nodes.resolve_endpoint(node), Err(ResolveError::OwnConnection(_)))
        })
    })
}

async fn decode_request_body(state: &ServerState, incoming: Incoming) -> Result<Json, CompatError> {
    let bad = |error: String| CompatError::new(StatusCode::BAD_REQUEST, error);
    let bytes = read_body(incoming.into_body(), state.components.max_body_bytes).await;
    let bytes =
        bytes.map_err(|error| CompatError::new(http_status(error.code()), error.message()))?;
    if bytes.trim_ascii().is_empty() || bytes.trim_ascii() == b"null" {
        return Err(bad("Missing request body".to_owned()));
    }
    let checked = Json::parse(bytes, JsonLimits::DOCUMENT.around_arguments(AROUND_ARGUMENTS));
    require_object(checked.map_err(|error| bad(format!("the body: {error}")))?)
}

/// Builds the reply. A failure reported by the tool itself has status 200.
fn execute_reply(
    answer: CallResponse,
    called: &NodeToolCall<'_>,
    nodes: &dyn NodeRegistry,
) -> (StatusCode, ExecuteToolReply) {
    match answer.result {
        Ok(ExecutionState::Completed(outcome)) if outcome.is_error => {
            let (said, _) = to_plain_result(outcome);
            let error = said.decode::<String>().unwrap_or_else(|_| said.as_str().to_owned());
            (StatusCode::OK, failed_reply(error))
        }
        Ok(ExecutionState::Completed(outcome)) => {
            let (output, _) = to_plain_result(outcome);
            let metadata = called.answering_tool.as_ref().map(reply_metadata).unwrap_or_default();
            (
                StatusCode::OK,
                ExecuteToolReply { success: true, output, error: String::new(), metadata },
            )
        }
        Ok(ExecutionState::Pending(PendingReason::Approval(approval))) => {
            let call = PendingCall { id: answer.call_id, approval: &approval };
            let mut waits = failed_reply(pending_call::pending_message(call));
            waits.metadata.insert("approval_id".to_owned(), answer.call_id.to_string().into());
            (StatusCode::ACCEPTED, waits)
        }
        Ok(ExecutionState::Pending(_)) => {
            let error = pending_call::INPUT_NOT_SUPPORTED.to_owned();
            (StatusCode::BAD_GATEWAY, failed_reply(error))
        }
        Err(CallFailure { code: ErrorCode::UnknownTool, .. }) => {
            let name = escape_name(called.tool_name);
            let error = match called.requested_node {
                Some(node) => {
                    format!("Tool '{name}' not found on node '{}'", escape_name(node))
                }
                None => format!("Tool '{name}' not found on any node"),
            };
            (StatusCode::NOT_FOUND, failed_reply(error))
        }
        Err(failure) if failure.code == ErrorCode::UpstreamLost => {
            let places = called.resolved.as_ref();
            match places.and_then(|found| unreachable_error(nodes, &found.nodes)) {
                Some(error) => (unresolved_status(&error), failed_reply(error.to_string())),
                None => (http_status(failure.code), failed_reply(failure.message)),
            }
        }
        Err(failure) => (http_status(failure.code), failed_reply(failure.message)),
    }
}

fn failed_reply(error: String) -> ExecuteToolReply {
    ExecuteToolReply { success: false, output: Json::encode(&()), error, metadata: Map::new() }
}

fn unresolved_response(status: StatusCode, error: &str) -> Response {
    let resolved =
        ResolveToolReply { success: false, endpoint: None, error: Some(error.to_owned()) };
    (status, Reply(resolved)).into_response()
}

/// The registered metadata, each value as text, because the gRPC map carries only text.
fn reply_metadata(tool: &NodeTool) -> Map<String, Value> {
    let text =
        |value: Json| value.string_value().map_or_else(|| value.as_str().to_owned(), Into::into);
    let registered = tool.metadata.members().into_iter();
    let mut metadata: Map<String, Value> =
        registered.map(|(key, value)| (key, text(value).into())).collect();
    // Always names the node that answered, whatever was registered.
    metadata.insert("node_id".to_owned(), tool.node_id.clone().into());
    metadata
}
