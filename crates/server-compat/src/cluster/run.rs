//! `/cluster-tools/execute` and `/cluster-tools/resolve`: execution of node tools and lookup of
//! their endpoints.

use std::sync::{Arc, OnceLock};

use axum::extract::{Request as Incoming, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Extension, Json as Reply};
use gateway::{Request, Target};
use identity::{Principal, Right};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use tool::node::{NodeTool, Nodes, PIN, PREFIX, Unresolved, arguments};
use tool::outcome::{Answer, Failure};
use tool::{Code, Interface, Json, Limits, Step, Wait};

use super::{Asked, object, text};
use crate::refusal::Refusal;
use server_core::body::{AROUND_ARGUMENTS, read};
use server_core::call_result::shown;
use server_core::held;
use server_core::route::Route;
use server_core::state::Doors;
use server_core::status::status;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new("post", "/cluster-tools/execute", "Call a node's tool (spec 4)", post(execute))
            .body::<Execute>()
            .reply::<Executed>(),
        Route::new(
            "post",
            "/cluster-tools/resolve",
            "Where a tool's node is (spec 4)",
            post(resolve),
        )
        .body::<Resolve>()
        .reply::<Resolved>(),
    ]
}

/// A call.
#[derive(Debug, JsonSchema)]
#[expect(dead_code, reason = "only described: it is read field by field, for spec 4's own texts")]
struct Execute {
    /// The tool.
    tool_name: String,
    /// Its input: any JSON.
    input: Value,
    /// The node that is to run it; any that has it where absent.
    node_id: Option<String>,
}

/// What came of a call.
#[derive(Debug, Serialize, JsonSchema)]
struct Executed {
    success: bool,
    /// What the tool answered; null where it did not.
    #[schemars(with = "Value")]
    output: Json,
    /// What went wrong; empty where nothing did.
    error: String,
    /// The tool's metadata, each value as text; `node_id` is the node that answered.
    metadata: Map<String, Value>,
}

#[derive(Debug, JsonSchema)]
#[expect(dead_code, reason = "only described: it is read field by field, for spec 4's own texts")]
struct Resolve {
    /// The tool.
    tool_name: String,
    /// Its node, where several have it.
    node_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Resolved {
    success: bool,
    /// `host:port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoint: Option<String>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

async fn execute(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    incoming: Incoming,
) -> Result<Response, Refusal> {
    let body = body(&doors, incoming).await?;
    let (Some(name), Some(input)) = (text(&body, "tool_name")?, body.get("input")) else {
        let told = "Missing required fields: tool_name, input";
        return Err(Refusal::new(StatusCode::BAD_REQUEST, told));
    };
    let node = text(&body, "node_id")?.filter(|node| !node.is_empty());
    let asked = Asked::of(&doors, &principal)?;
    let found = asked.placed(&name, node.as_deref());
    // A missing tool is called too, so that the attempt is recorded like any other call.
    let source = match &found {
        Some(found) => found.source.clone(),
        None => asked.nodes.source(node.as_deref().unwrap_or_default()),
    };
    let target = Target::Of { source, name: name.clone() };
    let input = arguments(&input).bytes().clone();
    let mut request = Request::to(target, input, Interface::Cluster);
    let pin = node.as_ref().filter(|_| found.is_some());
    request.meta = pin.map(|node| Json::fields([(PIN, &Json::of(node))]));
    let answered = Arc::new(OnceLock::new());
    request.node = Some(Arc::clone(&answered));
    let answer = doors.parts.gateway.call(&principal, request).await;
    doors.metrics.ended(Interface::Cluster, &answer);
    let answered = answered.get().and_then(|node| asked.nodes.tool(node, &name));
    let called = Called { name: &name, node: node.as_deref(), places: found, answered };
    let (status, executed) = told(answer, &called, &**asked.nodes);
    Ok((status, Reply(executed)).into_response())
}

/// The called tool, and the tool of the node that answered.
struct Called<'a> {
    name: &'a str,
    /// The node that the caller named.
    node: Option<&'a str>,
    places: Option<Found>,
    answered: Option<NodeTool>,
}

async fn resolve(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    incoming: Incoming,
) -> Result<Response, Refusal> {
    let body = body(&doors, incoming).await?;
    let Some(name) = text(&body, "tool_name")? else {
        return Err(Refusal::new(StatusCode::BAD_REQUEST, "Missing required field: tool_name"));
    };
    let node = text(&body, "node_id")?.filter(|node| !node.is_empty());
    let asked = Asked::of(&doors, &principal)?;
    if !principal.may(Right::NodesResolve) {
        return Ok(unresolved(StatusCode::FORBIDDEN, "the key lacks the right `nodes:resolve`"));
    }
    let Some(found) = asked.placed(&name, node.as_deref()) else {
        let told = format!("Tool '{}' not found in database", cut(&name));
        return Ok(unresolved(StatusCode::NOT_FOUND, &told));
    };
    Ok(match endpoint(&**asked.nodes, &found.nodes) {
        Ok(endpoint) => {
            let resolved = Resolved { success: true, endpoint: Some(endpoint), error: None };
            Reply(resolved).into_response()
        }
        Err(error) => {
            let told = match &error {
                Unresolved::Unknown(_) | Unresolved::Unlabelled(_) => {
                    "Unable to resolve endpoint for tool".to_owned()
                }
                Unresolved::OwnConnection(_) | Unresolved::Unusable { .. } => error.to_string(),
            };
            unresolved(status_of(&error), &told)
        }
    })
}

/// A node tool that the caller may call.
struct Found {
    /// The source in the catalog, which belongs to the first of its nodes.
    source: String,
    /// The node that the caller named, or else all nodes that have the tool, in order of
    /// registration.
    nodes: Vec<String>,
}

impl Asked<'_> {
    fn placed(&self, name: &str, node: Option<&str>) -> Option<Found> {
        let entry = self.node_tool(name)?;
        let mut nodes = entry.executor.places();
        nodes.retain(|place| {
            node.is_none_or(|node| node == place) && self.nodes.tool(place, name).is_some()
        });
        let source = entry.key.source.as_str().to_owned();
        (source.starts_with(PREFIX) && !nodes.is_empty()).then_some(Found { source, nodes })
    }
}

/// Returns the endpoint of the first node that has an address and accepts calls, or else of the
/// first that has one.
fn endpoint(nodes: &dyn Nodes, of: &[String]) -> Result<String, Unresolved> {
    let (ready, rest): (Vec<_>, Vec<_>) = of.iter().partition(|node| nodes.takes_calls(node));
    let mut first = None;
    for node in ready.into_iter().chain(rest) {
        match nodes.endpoint(node) {
            Ok(endpoint) => return Ok(endpoint),
            Err(error) => drop(first.get_or_insert(error)),
        }
    }
    Err(first.unwrap_or_else(|| Unresolved::Unknown(String::new())))
}

/// The status of an unresolved endpoint: 404 if the node cannot be located, 500 if its address
/// cannot be used.
fn status_of(error: &Unresolved) -> StatusCode {
    match error {
        Unresolved::Unknown(_) | Unresolved::Unlabelled(_) | Unresolved::OwnConnection(_) => {
            StatusCode::NOT_FOUND
        }
        Unresolved::Unusable { .. } => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Returns the error if none of these nodes can be located.
fn nowhere(nodes: &dyn Nodes, of: &[String]) -> Option<Unresolved> {
    // A node without an address may still be called over its own connection.
    endpoint(nodes, of).err().filter(|_| {
        of.iter().all(|node| !matches!(nodes.endpoint(node), Err(Unresolved::OwnConnection(_))))
    })
}

async fn body(doors: &Doors, incoming: Incoming) -> Result<Json, Refusal> {
    let bad = |error: String| Refusal::new(StatusCode::BAD_REQUEST, error);
    let bytes = read(incoming.into_body(), doors.parts.max_body).await;
    let bytes = bytes.map_err(|error| Refusal::new(status(error.code()), error.message()))?;
    if bytes.trim_ascii().is_empty() || bytes.trim_ascii() == b"null" {
        return Err(bad("Missing request body".to_owned()));
    }
    let checked = Json::check(bytes, Limits::DOCUMENT.around_arguments(AROUND_ARGUMENTS));
    object(checked.map_err(|error| bad(format!("the body: {error}")))?)
}

/// Builds the reply. A failure reported by the tool itself has status 200.
fn told(answer: Answer, called: &Called<'_>, nodes: &dyn Nodes) -> (StatusCode, Executed) {
    match answer.result {
        Ok(Step::Done(outcome)) if outcome.is_error => {
            let (said, _) = shown(outcome);
            let error = said.read::<String>().unwrap_or_else(|_| said.as_str().to_owned());
            (StatusCode::OK, failed(error))
        }
        Ok(Step::Done(outcome)) => {
            let (output, _) = shown(outcome);
            let metadata = called.answered.as_ref().map(metadata).unwrap_or_default();
            (StatusCode::OK, Executed { success: true, output, error: String::new(), metadata })
        }
        Ok(Step::Wait(Wait::Approval(approval))) => {
            let mut waits = failed(held::sentence(answer.call, &approval));
            waits.metadata.insert("approval_id".to_owned(), answer.call.to_string().into());
            (StatusCode::ACCEPTED, waits)
        }
        Ok(Step::Wait(_)) => {
            let what = "the tool asks for input, which cannot be given through this door";
            (StatusCode::BAD_GATEWAY, failed(what.to_owned()))
        }
        Err(Failure { code: Code::UnknownTool, .. }) => {
            let name = cut(called.name);
            let error = match called.node {
                Some(node) => format!("Tool '{name}' not found on node '{}'", cut(node)),
                None => format!("Tool '{name}' not found on any node"),
            };
            (StatusCode::NOT_FOUND, failed(error))
        }
        Err(failure) if failure.code == Code::UpstreamLost => {
            let places = called.places.as_ref();
            match places.and_then(|found| nowhere(nodes, &found.nodes)) {
                Some(error) => (status_of(&error), failed(error.to_string())),
                None => (status(failure.code), failed(failure.message)),
            }
        }
        Err(failure) => (status(failure.code), failed(failure.message)),
    }
}

fn failed(error: String) -> Executed {
    Executed { success: false, output: Json::of(&()), error, metadata: Map::new() }
}

fn unresolved(status: StatusCode, error: &str) -> Response {
    let resolved = Resolved { success: false, endpoint: None, error: Some(error.to_owned()) };
    (status, Reply(resolved)).into_response()
}

/// The registered metadata, each value as text, because the gRPC map carries only text.
fn metadata(tool: &NodeTool) -> Map<String, Value> {
    let text = |value: Json| value.text().map_or_else(|| value.as_str().to_owned(), Into::into);
    let registered = tool.metadata.members().into_iter();
    let mut metadata: Map<String, Value> =
        registered.map(|(key, value)| (key, text(value).into())).collect();
    // Always names the node that answered, whatever was registered.
    metadata.insert("node_id".to_owned(), tool.node_id.clone().into());
    metadata
}

fn cut(name: &str) -> String {
    name.chars().take(tool::name::MAX).flat_map(char::escape_debug).collect()
}
