//! `/cluster-tools`: calls of nodes' tools, and where they are.

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
use tool::node::{NodeTool, PIN, PREFIX, Unresolved};
use tool::outcome::{Answer, Failure};
use tool::{Code, Interface, Json, Limits, Step, Wait};

use super::{Asked, object, text};
use crate::facades::refusal::Refusal;
use crate::held;
use crate::rest::body::{AROUND_ARGUMENTS, read};
use crate::rest::calls::shown;
use crate::rest::route::Route;
use crate::state::Doors;
use crate::status::status;

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
    /// Its input.
    input: Map<String, Value>,
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
    /// The tool's metadata, each value as text.
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
    // What is not there is asked for all the same: it leaves its record like any other call.
    let (source, pin) = match &found {
        Some((source, tool)) => (source.clone(), node.as_ref().map(|_| tool.node_id.as_str())),
        None => (asked.nodes.source(node.as_deref().unwrap_or_default()), None),
    };
    let target = Target::Of { source, name: name.clone() };
    let mut request = Request::to(target, input.bytes().clone(), Interface::Cluster);
    request.meta = pin.map(|node| Json::fields([(PIN, &Json::of(node))]));
    let answer = doors.parts.gateway.call(&principal, request).await;
    doors.metrics.ended(Interface::Cluster, &answer);
    let found = found.as_ref().map(|(_, tool)| tool);
    let (status, executed) = told(answer, &name, node.as_deref(), found);
    Ok((status, Reply(executed)).into_response())
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
    let Some((_, tool)) = asked.placed(&name, node.as_deref()) else {
        let told = format!("Tool '{}' not found in database", cut(&name));
        return Ok(unresolved(StatusCode::NOT_FOUND, &told));
    };
    Ok(match asked.nodes.endpoint(&tool.node_id) {
        Ok(endpoint) => {
            let resolved = Resolved { success: true, endpoint: Some(endpoint), error: None };
            Reply(resolved).into_response()
        }
        Err(Unresolved::Unknown(_)) => {
            unresolved(StatusCode::NOT_FOUND, "Unable to resolve endpoint for tool")
        }
        Err(error @ Unresolved::Unusable { .. }) => {
            unresolved(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string())
        }
    })
}

impl Asked<'_> {
    /// A node's tool that the caller may call, and the source on whose shelf it stands: that of the first
    /// of its places. The tool is that of the node that was named, else of the first.
    fn placed(&self, name: &str, node: Option<&str>) -> Option<(String, NodeTool)> {
        let entry = self.node_tool(name)?;
        let source = entry.key.source.as_str();
        let first = source.strip_prefix(PREFIX)?;
        let there = |node: &&str| entry.executor.places().iter().any(|place| place == node);
        let tool = match node {
            None => self.nodes.tool(first, name),
            Some(node) => Some(node).filter(there).and_then(|node| self.nodes.tool(node, name)),
        };
        Some((source.to_owned(), tool?))
    }
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

/// A tool's own failure has status 200: it ran, and says that it failed.
fn told(
    answer: Answer,
    name: &str,
    node: Option<&str>,
    tool: Option<&NodeTool>,
) -> (StatusCode, Executed) {
    match answer.result {
        Ok(Step::Done(outcome)) if outcome.is_error => {
            let (said, _) = shown(outcome);
            let error = said.read::<String>().unwrap_or_else(|_| said.as_str().to_owned());
            (StatusCode::OK, failed(error))
        }
        Ok(Step::Done(outcome)) => {
            let (output, _) = shown(outcome);
            let metadata = tool.map(metadata).unwrap_or_default();
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
            let error = match node {
                Some(node) => format!("Tool '{}' not found on node '{}'", cut(name), cut(node)),
                None => format!("Tool '{}' not found on any node", cut(name)),
            };
            (StatusCode::NOT_FOUND, failed(error))
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

/// As it was registered, each value as text: gRPC's map carries nothing else.
fn metadata(tool: &NodeTool) -> Map<String, Value> {
    let text = |value: Json| value.text().map_or_else(|| value.as_str().to_owned(), Into::into);
    let registered = tool.metadata.members().into_iter();
    let mut metadata: Map<String, Value> =
        registered.map(|(key, value)| (key, text(value).into())).collect();
    metadata.entry("node_id").or_insert_with(|| tool.node_id.clone().into());
    metadata
}

fn cut(name: &str) -> String {
    name.chars().take(tool::name::MAX).flat_map(char::escape_debug).collect()
}
