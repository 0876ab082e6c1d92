//! The cluster tools' routes: registration, listing and execution of node tools.
//!
//! The registry decides whose tools may be changed, by the node access of the credential; the
//! gateway decides whether a tool may be called. A node tool that the caller may not call is
//! reported as not found.

mod execution;

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{delete, get, post, put};
use axum::{Extension, Json as Reply};
use catalog::CatalogEntry;
use gateway::CatalogView;
use identity::Principal;
use json::escape_invisible_text;
use schemars::JsonSchema;
use serde::Serialize;
use tool::node_registry::{NODE_SOURCE_PREFIX, NodeAccess, NodeRegistry, NodeTool};
use tool::{CallerType, Json};

use super::compat_error::CompatError;
use server_core::body::DecodedBody;
use server_core::node_rights::node_access;
use server_core::route::ApiRoute;
use server_core::server_state::ServerState;

pub(crate) fn node_tool_routes() -> Vec<ApiRoute> {
    registration_routes().into_iter().chain(execution::execution_routes()).collect()
}

/// The routes that register, show, update and remove node tools.
pub fn registration_routes() -> Vec<ApiRoute> {
    let one = "/tools/{node_id}/{name}";
    vec![
        ApiRoute::new(
            "post",
            "/tools",
            "Register a tool of a node (cluster tools)",
            post(register_tool),
        )
        .with_body::<NodeToolDocument>()
        .with_reply::<RegisterToolReply>(),
        ApiRoute::new(
            "get",
            "/tools/{node_id}",
            "List the tools of a node (cluster tools)",
            get(list_node_tools),
        )
        .with_reply::<Vec<NodeToolDocument>>(),
        ApiRoute::new("get", one, "Get a node's tool (cluster tools)", get(show_tool))
            .with_reply::<NodeToolDocument>(),
        ApiRoute::new("put", one, "Update a node's tool (cluster tools)", put(update_tool))
            .with_reply::<NodeMessageReply>(),
        ApiRoute::new("delete", one, "Delete a node's tool (cluster tools)", delete(remove_tool))
            .with_reply::<NodeMessageReply>(),
    ]
}

/// A tool of a node, as the cluster tools store it.
#[derive(Debug, Serialize, JsonSchema)]
struct NodeToolDocument {
    /// Name: 1 to 128 letters, digits, `_`, `.` and `-`.
    name: String,
    /// Node that runs the tool.
    node_id: String,
    /// JSON Schema of the input, or field names with their types, such as `{"text": "string"}`.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    input_spec: Json,
    /// Metadata of any form.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    metadata: Json,
    /// Description of the tool.
    description: String,
}

impl From<NodeTool> for NodeToolDocument {
    /// Converts a tool for display, with hidden characters written out.
    fn from(tool: NodeTool) -> Self {
        let NodeTool { name, node_id, input_spec, metadata, description } = tool;
        let shown = |json: Json| json.escape_invisible_in_definition().unwrap_or(json);
        let description = escape_invisible_text(&description).unwrap_or(description);
        Self {
            name,
            node_id,
            input_spec: shown(input_spec),
            metadata: shown(metadata),
            description,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct RegisterToolReply {
    /// The text `Tool created`.
    message: &'static str,
    /// ID of the document, which depends only on the name and the node.
    id: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct NodeMessageReply {
    /// Text that names the completed operation.
    message: &'static str,
}

/// The node registry, the caller's node access and its view of the tools.
struct NodeToolRequest<'a> {
    nodes: &'a Arc<dyn NodeRegistry>,
    access: NodeAccess,
    view: Arc<CatalogView>,
}

impl<'a> NodeToolRequest<'a> {
    fn from_request(state: &'a ServerState, principal: &Principal) -> Result<Self, CompatError> {
        let nodes = state.components.node_registry.as_ref().ok_or_else(|| {
            CompatError::new(StatusCode::NOT_FOUND, "this server has no registry of nodes")
        })?;
        let view = state.components.gateway.view_for(principal, CallerType::Direct);
        Ok(Self { nodes, access: node_access(principal), view })
    }

    /// Returns a tool if the caller may act for its node or may call the tool.
    fn visible_tool(&self, node: &str, name: &str) -> Option<NodeTool> {
        let tool = self.nodes.find_tool(node, name)?;
        (self.access.allows_node(node) || self.may_call(node, name)).then_some(tool)
    }

    fn may_call(&self, node: &str, name: &str) -> bool {
        let there = |place: &String| place == node;
        self.find_node_tool(name).is_some_and(|entry| entry.executor.node_ids().iter().any(there))
    }

    /// Finds a callable node tool by its short name, even if another source's tool has that name.
    fn find_node_tool(&self, name: &str) -> Option<&Arc<CatalogEntry>> {
        let of_node = |entry: &&Arc<CatalogEntry>| {
            entry.tool_key.source.as_str().starts_with(NODE_SOURCE_PREFIX)
        };
        let found = self.view.find_tool(name).map(|(entry, _)| entry).filter(of_node);
        found.or_else(|| {
            let shelves =
                self.view.full_catalog().list_sources().map(|shelf| shelf.source.as_str());
            let mut nodes = shelves.filter(|source| source.starts_with(NODE_SOURCE_PREFIX));
            nodes.find_map(|source| Some(self.view.find_in_source(source, name)?.0))
        })
    }

    /// Resolves the two path segments to node and tool name in either order, because the original
    /// client swaps them.
    fn resolve_node_and_name(
        &self,
        (first, second): (String, String),
    ) -> Result<(String, String), CompatError> {
        let straight = self.visible_tool(&first, &second).is_some();
        let turned = first != second && self.visible_tool(&second, &first).is_some();
        match (straight, turned) {
            (true, true) => Err(CompatError::new(
                StatusCode::CONFLICT,
                "the path is ambiguous: a tool exists for NODE/NAME and for NAME/NODE",
            )),
            (false, true) => Ok((second, first)),
            _ => Ok((first, second)),
        }
    }
}

async fn register_tool(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    DecodedBody(body): DecodedBody<Json>,
) -> Result<Response, CompatError> {
    let request = NodeToolRequest::from_request(&state, &principal)?;
    let body = require_object(body)?;
    let missing = || CompatError::new(StatusCode::BAD_REQUEST, "Missing required fields");
    let wanted = |key| optional_text(&body, key)?.ok_or_else(missing);
    let (name, node_id, description) =
        (wanted("name")?, wanted("node_id")?, wanted("description")?);
    let [input_spec, metadata] = body.pick(["input_spec", "metadata"]).map(or_empty);
    let tool = NodeTool { name, node_id, input_spec, metadata, description };
    let id = request.nodes.register_tool(&request.access, tool).await?;
    Ok((StatusCode::CREATED, Reply(RegisterToolReply { message: "Tool created", id }))
        .into_response())
}

async fn list_node_tools(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(node): Path<String>,
) -> Result<Reply<Vec<NodeToolDocument>>, CompatError> {
    let request = NodeToolRequest::from_request(&state, &principal)?;
    let all = request.nodes.list_tools(&node).into_iter();
    let own = request.access.allows_node(&node);
    let seen = all.filter(|tool| own || request.may_call(&node, &tool.name));
    Ok(Reply(seen.map(NodeToolDocument::from).collect()))
}

async fn show_tool(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(pair): Path<(String, String)>,
) -> Result<Reply<NodeToolDocument>, CompatError> {
    let request = NodeToolRequest::from_request(&state, &principal)?;
    let (node, name) = request.resolve_node_and_name(pair)?;
    request
        .visible_tool(&node, &name)
        .map(|tool| Reply(tool.into()))
        .ok_or_else(CompatError::tool_not_found)
}

/// Updates any subset of the fields. A tool with a new name or node is removed from its old place.
async fn update_tool(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(pair): Path<(String, String)>,
    DecodedBody(body): DecodedBody<Json>,
) -> Result<Reply<NodeMessageReply>, CompatError> {
    let request = NodeToolRequest::from_request(&state, &principal)?;
    let (node, name) = request.resolve_node_and_name(pair)?;
    let body = require_object(body)?;
    let [input_spec, metadata] = body.pick(["input_spec", "metadata"]);
    let (new_name, new_node) = (optional_text(&body, "name")?, optional_text(&body, "node_id")?);
    let description = optional_text(&body, "description")?;
    let texts = [&new_name, &new_node, &description].into_iter().any(Option::is_some);
    if !texts && input_spec.is_none() && metadata.is_none() {
        return Err(CompatError::new(StatusCode::BAD_REQUEST, "No fields provided to update"));
    }
    if !request.access.allows_node(&node) {
        return Err(tool::node_registry::NodeError::NotAuthorized(node).into());
    }
    let unchanged = Reply(NodeMessageReply { message: "No changes made" });
    let Some(old) = request.nodes.find_tool(&node, &name) else { return Ok(unchanged) };
    let new = NodeTool {
        name: new_name.unwrap_or_else(|| old.name.clone()),
        node_id: new_node.unwrap_or_else(|| old.node_id.clone()),
        input_spec: input_spec.unwrap_or_else(|| old.input_spec.clone()),
        metadata: metadata.unwrap_or_else(|| old.metadata.clone()),
        description: description.unwrap_or_else(|| old.description.clone()),
    };
    if new == old {
        return Ok(unchanged);
    }
    let moved = (&new.name, &new.node_id) != (&old.name, &old.node_id);
    request.nodes.register_tool(&request.access, new).await?;
    if moved {
        request.nodes.remove_tool(&request.access, &node, &name).await?;
    }
    Ok(Reply(NodeMessageReply { message: "Tool updated" }))
}

async fn remove_tool(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(pair): Path<(String, String)>,
) -> Result<Reply<NodeMessageReply>, CompatError> {
    let request = NodeToolRequest::from_request(&state, &principal)?;
    let (node, name) = request.resolve_node_and_name(pair)?;
    request.nodes.remove_tool(&request.access, &node, &name).await?;
    Ok(Reply(NodeMessageReply { message: "Tool deleted" }))
}

fn require_object(body: Json) -> Result<Json, CompatError> {
    let message = |error: tool::JsonError| {
        CompatError::new(StatusCode::BAD_REQUEST, format!("the body: {error}"))
    };
    body.require_object().map_err(message)
}

/// Returns a string member of the body; `None` if it is absent or null.
fn optional_text(body: &Json, key: &str) -> Result<Option<String>, CompatError> {
    match body.get(key).filter(|value| value.kind() != "null") {
        None => Ok(None),
        Some(value) => value.string_value().map(|text| Some(text.into_owned())).ok_or_else(|| {
            let message = format!("`{key}` must be a string, not {}", value.kind());
            CompatError::new(StatusCode::BAD_REQUEST, message)
        }),
    }
}

fn or_empty(value: Option<Json>) -> Json {
    value.filter(|value| value.kind() != "null").unwrap_or_else(Json::empty_object)
}
