//! Search mode: three tools with which a model finds and calls all others. Deferred mode has one
//! of them, which describes tools.
//!
//! `call_tool` becomes a call of the named tool before the pipeline, so policy, approvals, limits
//! and records see that tool.

use formats::tool_search::SEARCH_TOOLS;
use gateway::CatalogView;
use serde::Deserialize;
use serde_json::{Value, json};
use server_core::tool_search::{SEARCH_DESCRIPTION, SearchRequest, search_parameters};
use tool::{ErrorCode, Json};

use super::listing_mode::ToolListing;
use super::request_context::RequestContext;
use super::response_body::McpResponse;
use super::uri_rewriting::rewrite_tool_link;

pub(crate) const DESCRIBE_TOOLS: &str = "describe_tools";
const CALL_TOOL: &str = "call_tool";
const SEARCH_MODE_TOOLS: [&str; 3] = [SEARCH_TOOLS, DESCRIBE_TOOLS, CALL_TOOL];
/// Maximum number of names in one `describe_tools`.
const MAX_DESCRIBED: usize = 50;

/// The next step of a call at an endpoint.
pub(crate) enum RoutedCall {
    /// The result of a search or a description.
    Answer(McpResponse),
    /// A call of a tool: the name that the client uses, the arguments, and whether the client called the
    /// tool itself, not through `call_tool`.
    Tool((String, Json, bool)),
}

/// Whether a name is one of the three tools, which take it in lists that have them.
pub(crate) fn is_search_tool(name: &str) -> bool {
    SEARCH_MODE_TOOLS.contains(&name)
}

/// The definition of `describe_tools` in deferred mode, unless the caller has a tool of this name.
pub(crate) fn deferred_tools(view: &CatalogView) -> Option<Json> {
    let description = "Returns the complete definitions of tools by name. Tools are listed with \
        one line and without parameters: read the definition before the first call of a tool.";
    view.find_tool(DESCRIBE_TOOLS).is_none().then(|| describe_tools_definition(description))
}

fn describe_tools_definition(description: &str) -> Json {
    Json::encode(&json!({
        "name": DESCRIBE_TOOLS,
        "description": description,
        "inputSchema": {
            "type": "object",
            "properties": {
                "names": {
                    "type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": MAX_DESCRIBED
                }
            },
            "required": ["names"],
            "additionalProperties": false
        },
        "annotations": {"readOnlyHint": true}
    }))
}

/// The definitions of the three tools.
pub(crate) fn search_tools_list<'a>() -> impl Iterator<Item = (&'a str, Json)> {
    let description = format!("{SEARCH_DESCRIPTION} Then call a result with call_tool.");
    let definitions = [
        Json::object_from([
            ("name", &Json::encode(SEARCH_TOOLS)),
            ("description", &Json::encode(&description)),
            ("inputSchema", &search_parameters()),
            ("annotations", &Json::encode(&json!({"readOnlyHint": true}))),
        ]),
        describe_tools_definition(
            "Returns the complete definitions of tools by name. Use it for a search result with \
                `form: compact`.",
        ),
        Json::encode(&json!({
            "name": CALL_TOOL,
            "description": "Calls a tool that search_tools found, with arguments that fit its input schema.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "Name of the tool, as in the search result."},
                    "arguments": {"type": "object", "description": "Arguments of the tool."}
                },
                "required": ["name"],
                "additionalProperties": false
            }
        })),
    ];
    SEARCH_MODE_TOOLS.into_iter().zip(definitions)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DescribeArguments {
    names: Vec<String>,
}

/// Routes a call by the listing of its request: the tools of a mode answer, and any other name is a
/// tool of the caller, as without the mode. Arguments that do not fit the schema of one of the three tools are
/// answered with an error for the model.
pub(crate) async fn route_call(
    context: &RequestContext<'_>,
    (view, listing): (&CatalogView, ToolListing),
    (name, arguments): (String, Json),
) -> RoutedCall {
    let describes = listing.has_search_tools()
        || listing == ToolListing::Deferred && view.find_tool(DESCRIBE_TOOLS).is_none();
    let answered = match name.as_str() {
        DESCRIBE_TOOLS if describes => describe_tools(context, view, &arguments),
        SEARCH_TOOLS if listing.has_search_tools() => search_tools(context, view, &arguments).await,
        CALL_TOOL if listing.has_search_tools() => match unwrap_call(&arguments) {
            Ok(call) => return call,
            Err(message) => Err(message),
        },
        _ => return RoutedCall::Tool((name, arguments, true)),
    };
    RoutedCall::Answer(match answered {
        Ok(structured) => encode_answer(context, &structured),
        Err(message) => encode_fault(context, &format!("arguments of `{name}`: {message}")),
    })
}

/// Returns the call that the arguments of `call_tool` describe.
fn unwrap_call(arguments: &Json) -> Result<RoutedCall, String> {
    let [name, inner] = arguments.pick(["name", "arguments"]);
    let name = name.as_ref().and_then(|name| Some(name.string_value()?.into_owned()));
    let name = name.ok_or("`name` must be a string, the name of a tool")?;
    let inner = inner.filter(|inner| inner.kind() != "null");
    let arguments = inner.unwrap_or_else(Json::empty_object);
    Ok(RoutedCall::Tool((name, arguments, false)))
}

async fn search_tools(
    context: &RequestContext<'_>,
    view: &CatalogView,
    arguments: &Json,
) -> Result<Json, String> {
    let request = SearchRequest::from_arguments(arguments)?;
    let (search, principal) = (&context.caller.state.tool_search, context.caller.principal);
    Ok(Json::encode(&search.search_view(view, Some(principal), &request).await))
}

fn describe_tools(
    context: &RequestContext<'_>,
    view: &CatalogView,
    arguments: &Json,
) -> Result<Json, String> {
    let DescribeArguments { names } = arguments.decode().map_err(|error| error.to_string())?;
    if names.is_empty() || names.len() > MAX_DESCRIBED {
        return Err(format!("`names` must have 1 to {MAX_DESCRIBED} names"));
    }
    let (mut tools, mut unknown) = (Vec::new(), Vec::new());
    for name in names {
        let native = context.caller.state.tool_lists.resolve_tool_name(view, &name);
        match view.find_tool(&native) {
            Some((entry, _)) => {
                let json = formats::mcp::render_tool(&entry.tool, entry.name.as_str());
                tools.push(rewrite_tool_link(view, entry, json));
            }
            None => unknown.push(Value::String(name)),
        }
    }
    let (tools, unknown) = (Json::array_of(&tools), Json::encode(&unknown));
    Ok(Json::object_from([("tools", &tools), ("unknown", &unknown)]))
}

/// Encodes a tool result with structured content, and the same as text.
fn encode_answer(context: &RequestContext<'_>, structured: &Json) -> McpResponse {
    let content = Json::encode(&json!([{"type": "text", "text": structured.as_str()}]));
    let fields = [("content", &content), ("structuredContent", structured)];
    context.encode_result(&Json::object_from(fields))
}

fn encode_fault(context: &RequestContext<'_>, message: &str) -> McpResponse {
    let text = format!("{}: {message}", ErrorCode::InvalidArguments.as_str());
    let result = json!({"content": [{"type": "text", "text": text}], "isError": true});
    context.encode_result(&Json::encode(&result))
}

#[cfg(test)]
mod tests {
    use tool::Json;

    use super::{SEARCH_MODE_TOOLS, search_tools_list};

    #[test]
    fn the_three_tools_cost_few_tokens() {
        let definitions: Vec<Json> = search_tools_list().map(|(_, json)| json).collect();
        let text = Json::array_of(&definitions);
        let names: Vec<String> =
            text.elements().iter().map(|it| it.get("name").unwrap().decode().unwrap()).collect();
        assert_eq!(names, SEARCH_MODE_TOOLS);
        assert!(text.as_str().len() / 4 < 600, "{}", text.as_str().len());
    }
}
