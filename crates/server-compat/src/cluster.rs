//! The cluster tools' routes: registration, listing and execution of node tools.
//!
//! The registry decides whose tools may be changed, by the node access of the credential; the
//! gateway decides whether a tool may be called. A node tool that the caller may not call is
//! reported as not found.

mod run;

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{delete, get, post, put};
use axum::{Extension, Json as Reply};
use catalog::Entry;
use gateway::View;
use identity::Principal;
use json::made_visible;
use schemars::JsonSchema;
use serde::Serialize;
use tool::node::{NodeTool, Nodes, PREFIX, Speaks};
use tool::{CallerType, Json};

use super::refusal::Refusal;
use server_core::body::Body;
use server_core::node_rights::speaks;
use server_core::route::Route;
use server_core::state::Doors;

pub(crate) fn keyed() -> Vec<Route> {
    registration().into_iter().chain(run::routes()).collect()
}

/// The routes that register, show, update and remove node tools.
pub fn registration() -> Vec<Route> {
    let one = "/tools/{node_id}/{name}";
    vec![
        Route::new("post", "/tools", "Register a node's tool (spec 4)", post(create))
            .body::<Document>()
            .reply::<Created>(),
        Route::new("get", "/tools/{node_id}", "The tools of a node (spec 4)", get(of_node))
            .reply::<Vec<Document>>(),
        Route::new("get", one, "A node's tool (spec 4)", get(show)).reply::<Document>(),
        Route::new("put", one, "Change a node's tool (spec 4)", put(update)).reply::<Done>(),
        Route::new("delete", one, "Remove a node's tool (spec 4)", delete(remove)).reply::<Done>(),
    ]
}

/// A tool as spec 4 keeps it.
#[derive(Debug, Serialize, JsonSchema)]
struct Document {
    /// Its name: 1 to 128 letters, digits, `_`, `.` and `-`.
    name: String,
    /// The node that has it.
    node_id: String,
    /// JSON Schema, or names of fields with their types, such as `{"text": "string"}`.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    input_spec: Json,
    /// Anything.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    metadata: Json,
    /// What it does.
    description: String,
}

impl From<NodeTool> for Document {
    /// Converts a tool for display, with hidden characters written out.
    fn from(tool: NodeTool) -> Self {
        let NodeTool { name, node_id, input_spec, metadata, description } = tool;
        let shown = |json: Json| json.definition_made_visible().unwrap_or(json);
        let description = made_visible(&description).unwrap_or(description);
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
struct Created {
    /// `Tool created`.
    message: &'static str,
    /// The document's id: the same for the same name and node.
    id: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Done {
    /// What was done.
    message: &'static str,
}

/// The node registry, the caller's node access and its view of the tools.
struct Asked<'a> {
    nodes: &'a Arc<dyn Nodes>,
    by: Speaks,
    view: Arc<View>,
}

impl<'a> Asked<'a> {
    fn of(doors: &'a Doors, principal: &Principal) -> Result<Self, Refusal> {
        let nodes = doors.parts.nodes.as_ref().ok_or_else(|| {
            Refusal::new(StatusCode::NOT_FOUND, "this server keeps no registry of nodes")
        })?;
        let view = doors.parts.gateway.view(principal, CallerType::Direct);
        Ok(Self { nodes, by: speaks(principal), view })
    }

    /// Returns a tool if the caller may act for its node or may call the tool.
    fn seen(&self, node: &str, name: &str) -> Option<NodeTool> {
        let tool = self.nodes.tool(node, name)?;
        (self.by.is_for(node) || self.may_call(node, name)).then_some(tool)
    }

    fn may_call(&self, node: &str, name: &str) -> bool {
        let there = |place: &String| place == node;
        self.node_tool(name).is_some_and(|entry| entry.executor.places().iter().any(there))
    }

    /// Finds a callable node tool by its short name, even if another source's tool has that name.
    fn node_tool(&self, name: &str) -> Option<&Arc<Entry>> {
        let of_node = |entry: &&Arc<Entry>| entry.key.source.as_str().starts_with(PREFIX);
        let found = self.view.find(name).map(|(entry, _)| entry).filter(of_node);
        found.or_else(|| {
            let shelves = self.view.catalog().shelves().map(|shelf| shelf.source.as_str());
            let mut nodes = shelves.filter(|source| source.starts_with(PREFIX));
            nodes.find_map(|source| Some(self.view.find_of(source, name)?.0))
        })
    }

    /// Resolves the two path segments to node and tool name in either order, because the original
    /// client swaps them.
    fn pair(&self, (first, second): (String, String)) -> Result<(String, String), Refusal> {
        let straight = self.seen(&first, &second).is_some();
        let turned = first != second && self.seen(&second, &first).is_some();
        match (straight, turned) {
            (true, true) => Err(Refusal::new(
                StatusCode::CONFLICT,
                "this may be node and name or name and node, and there are both",
            )),
            (false, true) => Ok((second, first)),
            _ => Ok((first, second)),
        }
    }
}

async fn create(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Body(body): Body<Json>,
) -> Result<Response, Refusal> {
    let asked = Asked::of(&doors, &principal)?;
    let body = object(body)?;
    let missing = || Refusal::new(StatusCode::BAD_REQUEST, "Missing required fields");
    let wanted = |key| text(&body, key)?.ok_or_else(missing);
    let (name, node_id, description) =
        (wanted("name")?, wanted("node_id")?, wanted("description")?);
    let [input_spec, metadata] = body.pick(["input_spec", "metadata"]).map(or_empty);
    let tool = NodeTool { name, node_id, input_spec, metadata, description };
    let id = asked.nodes.register(&asked.by, tool).await?;
    Ok((StatusCode::CREATED, Reply(Created { message: "Tool created", id })).into_response())
}

async fn of_node(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(node): Path<String>,
) -> Result<Reply<Vec<Document>>, Refusal> {
    let asked = Asked::of(&doors, &principal)?;
    let all = asked.nodes.tools(&node).into_iter();
    let own = asked.by.is_for(&node);
    let seen = all.filter(|tool| own || asked.may_call(&node, &tool.name));
    Ok(Reply(seen.map(Document::from).collect()))
}

async fn show(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(pair): Path<(String, String)>,
) -> Result<Reply<Document>, Refusal> {
    let asked = Asked::of(&doors, &principal)?;
    let (node, name) = asked.pair(pair)?;
    asked.seen(&node, &name).map(|tool| Reply(tool.into())).ok_or_else(Refusal::no_tool)
}

/// Updates any subset of the fields. A tool with a new name or node is removed from its old place.
async fn update(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(pair): Path<(String, String)>,
    Body(body): Body<Json>,
) -> Result<Reply<Done>, Refusal> {
    let asked = Asked::of(&doors, &principal)?;
    let (node, name) = asked.pair(pair)?;
    let body = object(body)?;
    let [input_spec, metadata] = body.pick(["input_spec", "metadata"]);
    let (new_name, new_node) = (text(&body, "name")?, text(&body, "node_id")?);
    let description = text(&body, "description")?;
    let texts = [&new_name, &new_node, &description].into_iter().any(Option::is_some);
    if !texts && input_spec.is_none() && metadata.is_none() {
        return Err(Refusal::new(StatusCode::BAD_REQUEST, "No fields provided to update"));
    }
    if !asked.by.is_for(&node) {
        return Err(tool::node::NodeFault::Foreign(node).into());
    }
    let unchanged = Reply(Done { message: "No changes made" });
    let Some(old) = asked.nodes.tool(&node, &name) else { return Ok(unchanged) };
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
    asked.nodes.register(&asked.by, new).await?;
    if moved {
        asked.nodes.remove(&asked.by, &node, &name).await?;
    }
    Ok(Reply(Done { message: "Tool updated" }))
}

async fn remove(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(pair): Path<(String, String)>,
) -> Result<Reply<Done>, Refusal> {
    let asked = Asked::of(&doors, &principal)?;
    let (node, name) = asked.pair(pair)?;
    asked.nodes.remove(&asked.by, &node, &name).await?;
    Ok(Reply(Done { message: "Tool deleted" }))
}

fn object(body: Json) -> Result<Json, Refusal> {
    let told = |error: tool::JsonError| {
        Refusal::new(StatusCode::BAD_REQUEST, format!("the body: {error}"))
    };
    body.object().map_err(told)
}

/// Returns a string member of the body; `None` if it is absent or null.
fn text(body: &Json, key: &str) -> Result<Option<String>, Refusal> {
    match body.get(key).filter(|value| value.kind() != "null") {
        None => Ok(None),
        Some(value) => value.text().map(|text| Some(text.into_owned())).ok_or_else(|| {
            let told = format!("`{key}` is no text but {}", value.kind());
            Refusal::new(StatusCode::BAD_REQUEST, told)
        }),
    }
}

fn or_empty(value: Option<Json>) -> Json {
    value.filter(|value| value.kind() != "null").unwrap_or_else(Json::empty)
}
