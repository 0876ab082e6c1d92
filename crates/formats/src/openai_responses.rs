//! OpenAI Responses: flat `tools`, `function_call` items and `function_call_output` items; deferred
//! tools in namespaces, `tool_search_call` items and `tool_search_output` items.

use serde_json::json;
use tool::{Json, Tool};

use crate::schema_lowering::{SchemaLoss, provider_rules};
use crate::tool_calls::{self, ParseCallsError, ToolCallRequest, ToolCallResult};
use crate::tool_search::{
    self, FoundTool, ModelRequest, SearchToolText, SearchableTool, ToolSearchResult, ToolSearcher,
};
use crate::{RenderedTool, aliases, result_text};

/// Maximum number of tools that the description of a namespace names.
const MAX_NAMED_TOOLS: usize = 8;

/// Renders a tool with an explicit `strict`, because the API defaults it to true.
pub(crate) fn render_tool(tool: &Tool, name: &str) -> Result<RenderedTool, SchemaLoss> {
    render_with_strict(tool, name, false)
}

pub(crate) fn render_strict_tool(tool: &Tool, name: &str) -> Result<RenderedTool, SchemaLoss> {
    crate::strict_or_fallback(render_with_strict(tool, name, true), || {
        render_with_strict(tool, name, false)
    })
}

fn render_with_strict(tool: &Tool, name: &str, strict: bool) -> Result<RenderedTool, SchemaLoss> {
    let rules = if strict { &provider_rules::OPENAI_STRICT } else { &provider_rules::OPENAI };
    RenderedTool::from_lowered(tool, rules, |description, schema| {
        Json::object_from([
            ("type", &Json::encode("function")),
            ("name", &Json::encode(name)),
            ("description", &Json::encode(description)),
            ("parameters", &schema.schema),
            ("strict", &Json::encode(&strict)),
        ])
    })
}

/// Renders a result, which refers to the `call_id` of its call, not to the call's `id`.
pub(crate) fn render_result(tool_result: &ToolCallResult) -> Json {
    let (id, text) = (
        tool_result.id.as_deref().unwrap_or_default(),
        result_text::outcome_text_with_error_prefix(&tool_result.outcome),
    );
    Json::encode(&json!({ "type": "function_call_output", "call_id": id, "output": text }))
}

/// Renders calls as `function_call` items.
pub(crate) fn render_calls(calls: &[ToolCallRequest]) -> Json {
    let item = |call: &ToolCallRequest| {
        let item = Json::object_from([
            ("type", &Json::encode("function_call")),
            ("call_id", &Json::encode(call.id.as_deref().unwrap_or_default())),
            ("name", &Json::encode(&call.name)),
            ("arguments", &tool_calls::arguments_string(call)),
        ]);
        match &call.namespace {
            Some(namespace) => item.with_member("namespace", &Json::encode(namespace)),
            None => item,
        }
    };
    Json::array_of(&calls.iter().map(item).collect::<Vec<_>>())
}

/// Joins tools to a list of which the deferred ones are searched: one namespace per source if
/// OpenAI searches. If Toolkeep searches, deferred tools are not part of the list.
pub(crate) fn join_searchable_tools(
    searcher: ToolSearcher,
    tools: &[SearchableTool<'_>],
    text: &SearchToolText<'_>,
) -> Json {
    let kind = ("type", &Json::encode("tool_search"));
    if searcher == ToolSearcher::Toolkeep {
        let search_tool = Json::object_from([
            kind,
            ("execution", &Json::encode("client")),
            ("description", &Json::encode(text.description)),
            ("parameters", text.parameters),
        ]);
        let loaded = tools.iter().filter(|tool| !tool.is_deferred).map(|tool| tool.json);
        return Json::array_of(loaded.chain([&search_tool]));
    }
    let functions = tools.iter().map(|tool| {
        let function = if tool.is_deferred { defer_function(tool.json) } else { tool.json.clone() };
        (tool.source, function)
    });
    let groups = tool_search::group_by_source(functions);
    let describe = |source: &str, functions: &[Json]| {
        let names: Vec<String> =
            functions.iter().take(MAX_NAMED_TOOLS).filter_map(function_name).collect();
        let more = functions.len() - names.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("Tools of the source {source}: {}{more}.", names.join(", "))
    };
    let mut list = render_namespaces(&groups, describe);
    list.push(Json::object_from([kind]));
    Json::array_of(&list)
}

fn defer_function(function: &Json) -> Json {
    function.with_member("defer_loading", &Json::encode(&true))
}

fn function_name(function: &Json) -> Option<String> {
    function.get("name")?.decode().ok()
}

/// Renders one namespace per group.
fn render_namespaces(
    groups: &[(&str, Vec<Json>)],
    describe: impl Fn(&str, &[Json]) -> String,
) -> Vec<Json> {
    let namespace = |(source, functions): &(&str, Vec<Json>)| {
        Json::object_from([
            ("type", &Json::encode("namespace")),
            ("name", &Json::encode(&aliases::safe_name(source))),
            ("description", &Json::encode(&describe(source, functions))),
            ("tools", &Json::array_of(functions)),
        ])
    };
    groups.iter().map(namespace).collect()
}

/// Renders the result of a search as a `tool_search_output` item with one namespace per source. The
/// item has no field for an error, so a refused search loads no tools.
pub(crate) fn render_search_result(result: &ToolSearchResult) -> Json {
    let found = result.found.as_deref().unwrap_or_default();
    let functions =
        found.iter().map(|FoundTool { json, source, .. }| (source.as_str(), defer_function(json)));
    let groups = tool_search::group_by_source(functions);
    let describe = |source: &str, _: &[Json]| format!("Tools of the source {source}.");
    Json::object_from([
        ("type", &Json::encode("tool_search_output")),
        ("execution", &Json::encode("client")),
        ("call_id", &Json::encode(result.id.as_deref().unwrap_or_default())),
        ("status", &Json::encode("completed")),
        ("tools", &Json::array_of(&render_namespaces(&groups, describe))),
    ])
}

/// Parses the calls of a whole response, of its `output`, or of one item.
pub(crate) fn parse_calls(message: &Json) -> Result<Vec<ToolCallRequest>, ParseCallsError> {
    parse_items(message, parse_call)
}

/// Parses the calls, and the searches that the caller has to answer. The provider answers those
/// with another `execution`.
pub(crate) fn parse_requests(message: &Json) -> Result<Vec<ModelRequest>, ParseCallsError> {
    parse_items(message, |item, path| {
        let word = |key: &str| item.get(key)?.decode::<String>().ok();
        if word("type").as_deref() != Some("tool_search_call") {
            return Ok(parse_call(item, path)?.map(ModelRequest::Call));
        }
        if word("execution").as_deref() != Some("client") {
            return Ok(None);
        }
        let id = tool_calls::required_string(item, "call_id", path)?;
        Ok(Some(ModelRequest::Search(ToolCallRequest {
            id: Some(id),
            name: tool_search::SEARCH_TOOLS.to_owned(),
            namespace: None,
            arguments_text: tool_calls::arguments_text(item.get("arguments")),
        })))
    })
}

fn parse_items<T>(
    message: &Json,
    parse: impl Fn(&Json, &str) -> Result<Option<T>, ParseCallsError>,
) -> Result<Vec<T>, ParseCallsError> {
    let output = match message.kind() {
        "array" => message.clone(),
        "object" => match message.get("output") {
            Some(output) => output,
            None => Json::array_of([message]),
        },
        _ => {
            return Err(ParseCallsError::unexpected_type(
                "message",
                Some(message),
                "an object or an array",
            ));
        }
    };
    tool_calls::parse_each(&tool_calls::require_array(&output, "output")?, "output", parse)
}

/// Parses a function call item; `None` for other items such as reasoning, messages and server
/// tools.
fn parse_call(item: &Json, path: &str) -> Result<Option<ToolCallRequest>, ParseCallsError> {
    let kind = tool_calls::required_string(item, "type", path)?;
    match kind.as_str() {
        "function_call" => {}
        "custom_tool_call" => {
            let (path, found) = (format!("{path}type"), format!("`{kind}`"));
            return Err(ParseCallsError::UnexpectedType {
                path,
                found,
                expected: "`function_call`",
            });
        }
        _ => return Ok(None),
    }
    let id = tool_calls::required_string(item, "call_id", path)?;
    let name = tool_calls::required_string(item, "name", path)?;
    let namespace = tool_calls::optional_string(item, "namespace", path)?;
    Ok(Some(ToolCallRequest {
        id: Some(id),
        name,
        namespace,
        arguments_text: tool_calls::arguments_text(item.get("arguments")),
    }))
}
