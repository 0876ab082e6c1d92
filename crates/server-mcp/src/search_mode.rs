//! Search mode, `/mcp?mode=search`: three tools with which a model finds and calls all others.
//!
//! `call_tool` becomes a call of the named tool before the pipeline, so policy, approvals, limits
//! and records see that tool.

use gateway::CatalogView;
use serde::Deserialize;
use serde_json::{Value, json};
use server_core::tool_search::{DEFAULT_RESULTS, ParameterNames, SearchRequest};
use tool::{ErrorCode, Json};

use super::endpoint::Endpoint;
use super::request_context::RequestContext;
use super::response_body::McpResponse;

const SEARCH_TOOLS: &str = "search_tools";
const DESCRIBE_TOOLS: &str = "describe_tools";
const CALL_TOOL: &str = "call_tool";
/// Tokens of definitions in a search result, if the call has no budget.
const DEFAULT_BUDGET: usize = 3_000;
/// Maximum number of names in one `describe_tools`.
const MAX_DESCRIBED: usize = 50;

/// The next step of a call at an endpoint.
pub(crate) enum RoutedCall {
    /// The result of a search or a description.
    Answer(McpResponse),
    /// A call of a tool.
    Tool { name: String, arguments: Json },
}

/// The definitions of the three tools.
pub(crate) fn tool_definitions() -> Json {
    Json::encode(&json!([
        {
            "name": SEARCH_TOOLS,
            "description": "Searches the tools that you can call and returns the best ones with their input \
                schemas. Use it before you say that something cannot be done. Pass one query per sub-task, each with \
                a verb and an object, such as [\"read a csv file\", \"draw a bar chart\"]. Then call a result with \
                call_tool.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "queries": {
                        "type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 16,
                        "description": "One query per sub-task."
                    },
                    "limit": {
                        "type": "integer", "minimum": 1, "maximum": 100,
                        "description": "Number of results; default 5."
                    },
                    "budget": {
                        "type": "integer", "minimum": 1,
                        "description": "Maximum tokens of all definitions; default 3000."
                    }
                },
                "required": ["queries"],
                "additionalProperties": false
            },
            "annotations": {"readOnlyHint": true}
        },
        {
            "name": DESCRIBE_TOOLS,
            "description": "Returns the complete definitions of tools by name. Use it for a search result with \
                `form: compact`.",
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
        },
        {
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
        }
    ]))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchArguments {
    queries: Vec<String>,
    limit: Option<usize>,
    budget: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DescribeArguments {
    names: Vec<String>,
}

/// Routes a call at an endpoint in search mode. Any other name is a tool of the caller, as at the
/// endpoint without the mode. Arguments that do not fit the schema of one of the three tools are
/// answered with an error for the model.
pub(crate) fn route_call(
    context: &RequestContext<'_>,
    view: &CatalogView,
    (name, arguments): (String, Json),
) -> RoutedCall {
    if !matches!(context.caller.endpoint, Endpoint::Search(_)) {
        return RoutedCall::Tool { name, arguments };
    }
    let answered = match name.as_str() {
        SEARCH_TOOLS => search_tools(context, view, &arguments),
        DESCRIBE_TOOLS => describe_tools(context, view, &arguments),
        CALL_TOOL => match unwrap_call(&arguments) {
            Ok(call) => return call,
            Err(message) => Err(message),
        },
        _ => return RoutedCall::Tool { name, arguments },
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
    Ok(RoutedCall::Tool { name, arguments: inner.unwrap_or_else(Json::empty_object) })
}

fn search_tools(
    context: &RequestContext<'_>,
    view: &CatalogView,
    arguments: &Json,
) -> Result<Json, String> {
    let SearchArguments { queries, limit, budget } =
        arguments.decode().map_err(|error| error.to_string())?;
    let request = SearchRequest {
        queries,
        limit: limit.unwrap_or(DEFAULT_RESULTS),
        budget: Some(budget.unwrap_or(DEFAULT_BUDGET)),
    };
    let request = request.check(ParameterNames { queries: "queries", limit: "limit" })?;
    Ok(Json::encode(&context.caller.state.tool_search.search_view(view, &request)))
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
                tools.push(formats::mcp::render_tool(&entry.tool, entry.name.as_str()));
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
    use super::tool_definitions;

    #[test]
    fn the_three_tools_cost_few_tokens() {
        let text = tool_definitions();
        let names: Vec<String> =
            text.elements().iter().map(|it| it.get("name").unwrap().decode().unwrap()).collect();
        assert_eq!(names, ["search_tools", "describe_tools", "call_tool"]);
        assert!(text.as_str().len() / 4 < 600, "{}", text.as_str().len());
    }
}
