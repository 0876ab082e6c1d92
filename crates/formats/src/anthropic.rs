//! Anthropic Messages: `tools`, `tool_use` blocks and one user message of `tool_result` blocks;
//! deferred tools, their search tools, and results of searches as `tool_reference` blocks.

use tool::{Json, Outcome, OutcomeBody, Tool};

use crate::schema_lowering::{SchemaLoss, provider_rules};
use crate::tool_calls::{self, ParseCallsError, ToolCallRequest, ToolCallResult};
use crate::tool_search::{
    ModelAnswer, SEARCH_TOOLS, SearchToolText, SearchableTool, ToolSearchResult, ToolSearcher,
};
use crate::{RenderedTool, result_text};

/// Image types that the provider accepts.
const IMAGE_MEDIA_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

pub(crate) fn render_tool(tool: &Tool, name: &str) -> Result<RenderedTool, SchemaLoss> {
    RenderedTool::from_lowered(tool, &provider_rules::ANTHROPIC, |description, schema| {
        Json::object_from([
            ("name", &Json::encode(name)),
            ("description", &Json::encode(description)),
            ("input_schema", &schema.schema),
        ])
    })
}

/// Renders all results in one message, because the provider requires all of them directly after the
/// calls.
pub(crate) fn render_results(tool_results: &[ToolCallResult]) -> Json {
    user_message(&tool_results.iter().map(result_block).collect::<Vec<_>>())
}

/// Renders the results of calls and searches in one message, in the order of the requests.
pub(crate) fn render_answers(answers: &[ModelAnswer]) -> Json {
    let block = |answer: &ModelAnswer| match answer {
        ModelAnswer::Call(result) => result_block(result),
        ModelAnswer::Search(result) => search_result_block(result),
    };
    user_message(&answers.iter().map(block).collect::<Vec<_>>())
}

fn user_message(blocks: &[Json]) -> Json {
    Json::object_from([("role", &Json::encode("user")), ("content", &Json::array_of(blocks))])
}

/// Renders a search result. References stand alone in it; the provider replaces them by the
/// deferred definitions of the request.
fn search_result_block(result: &ToolSearchResult) -> Json {
    let reference = |name: &str| {
        Json::object_from([
            ("type", &Json::encode("tool_reference")),
            ("tool_name", &Json::encode(name)),
        ])
    };
    let content = match &result.found {
        Err(message) => Json::encode(message),
        Ok(found) if found.is_empty() => Json::encode("no tool fits; use other words"),
        Ok(found) => {
            Json::array_of(&found.iter().map(|it| reference(&it.name)).collect::<Vec<_>>())
        }
    };
    let block = Json::object_from([
        ("type", &Json::encode("tool_result")),
        ("tool_use_id", &Json::encode(result.id.as_deref().unwrap_or_default())),
        ("content", &content),
    ]);
    if result.found.is_err() { block.with_member("is_error", &Json::encode(&true)) } else { block }
}

/// The search tool that the provider runs, with the name that the API requires.
pub(crate) fn provider_search_tool(searcher: ToolSearcher) -> Option<(&'static str, &'static str)> {
    match searcher {
        ToolSearcher::Provider => Some(("tool_search_tool_bm25_20251119", "tool_search_tool_bm25")),
        ToolSearcher::ProviderRegex => {
            Some(("tool_search_tool_regex_20251119", "tool_search_tool_regex"))
        }
        ToolSearcher::Toolkeep => None,
    }
}

/// Joins tools to a list with a search tool at its start, which is never deferred: the provider
/// refuses a list in which every tool is. All definitions are part of the list.
pub(crate) fn join_searchable_tools(
    searcher: ToolSearcher,
    tools: &[SearchableTool<'_>],
    text: &SearchToolText<'_>,
) -> Json {
    let search_tool = match provider_search_tool(searcher) {
        Some((kind, name)) => {
            Json::object_from([("type", &Json::encode(kind)), ("name", &Json::encode(name))])
        }
        None => Json::object_from([
            ("name", &Json::encode(SEARCH_TOOLS)),
            ("description", &Json::encode(text.description)),
            ("input_schema", text.parameters),
        ]),
    };
    let defer = |tool: &SearchableTool<'_>| {
        let json = tool.json.clone();
        if tool.is_deferred {
            json.with_member("defer_loading", &Json::encode(&true))
        } else {
            json
        }
    };
    let tools: Vec<_> = tools.iter().map(defer).collect();
    Json::array_of([&search_tool].into_iter().chain(&tools))
}

fn result_block(tool_result: &ToolCallResult) -> Json {
    let outcome = &tool_result.outcome;
    let id = Json::encode(tool_result.id.as_deref().unwrap_or_default());
    let content = content_with_images(outcome)
        .unwrap_or_else(|| Json::encode(&result_text::outcome_text(outcome)));
    let error = outcome.is_error.then(|| Json::encode(&true));
    let fields = [
        Some(("type", &Json::encode("tool_result"))),
        Some(("tool_use_id", &id)),
        Some(("content", &content)),
        error.as_ref().map(|error| ("is_error", error)),
    ];
    Json::object_from(fields.into_iter().flatten())
}

/// An MCP result with pictures, as blocks. A failure has to be all text.
fn content_with_images(outcome: &Outcome) -> Option<Json> {
    let OutcomeBody::Mcp(result) = &outcome.body else { return None };
    let parts = result.get("content")?.elements();
    let blocks: Vec<_> = parts.iter().map(|part| image_block(part).ok_or(part)).collect();
    if outcome.is_error || blocks.iter().all(Result::is_err) {
        return None;
    }
    let text = |part: &Json| {
        let text = Json::encode(&crate::mcp::content_block_text(part));
        Json::object_from([("type", &Json::encode("text")), ("text", &text)])
    };
    let blocks = blocks.into_iter().map(|block| block.unwrap_or_else(text));
    Some(Json::array_of(&blocks.collect::<Vec<_>>()))
}

fn image_block(part: &Json) -> Option<Json> {
    let [kind, mime, data] = part.pick(["type", "mimeType", "data"]);
    let known = IMAGE_MEDIA_TYPES.contains(&mime.as_ref()?.decode::<String>().ok()?.as_str());
    if kind?.as_str() != "\"image\"" || !known {
        return None;
    }
    let source = Json::object_from([
        ("type", &Json::encode("base64")),
        ("media_type", &mime?),
        ("data", &data?),
    ]);
    Some(Json::object_from([("type", &Json::encode("image")), ("source", &source)]))
}

/// Renders calls as the content blocks of an assistant message.
pub(crate) fn render_calls(calls: &[ToolCallRequest]) -> Json {
    let block = |call: &ToolCallRequest| {
        Json::object_from([
            ("type", &Json::encode("tool_use")),
            ("id", &Json::encode(call.id.as_deref().unwrap_or_default())),
            ("name", &Json::encode(&call.name)),
            ("input", &tool_calls::arguments_object(call)),
        ])
    };
    let blocks: Vec<_> = calls.iter().map(block).collect();
    Json::object_from([("role", &Json::encode("assistant")), ("content", &Json::array_of(&blocks))])
}

/// Parses the calls of a message, or of its `content`.
pub(crate) fn parse_calls(message: &Json) -> Result<Vec<ToolCallRequest>, ParseCallsError> {
    let content = match message.kind() {
        "array" => message.clone(),
        "object" => message.get("content").ok_or_else(|| {
            ParseCallsError::unexpected_type("content", None, "an array of blocks")
        })?,
        _ => {
            return Err(ParseCallsError::unexpected_type(
                "message",
                Some(message),
                "an object or an array",
            ));
        }
    };
    if content.kind() == "string" {
        return Ok(Vec::new());
    }
    tool_calls::parse_each(&tool_calls::require_array(&content, "content")?, "content", parse_call)
}

/// Parses a tool call block; `None` for other blocks such as text, thinking and server tools.
fn parse_call(block: &Json, path: &str) -> Result<Option<ToolCallRequest>, ParseCallsError> {
    if tool_calls::required_string(block, "type", path)? != "tool_use" {
        return Ok(None);
    }
    let id = tool_calls::required_string(block, "id", path)?;
    let name = tool_calls::required_string(block, "name", path)?;
    Ok(Some(ToolCallRequest {
        id: Some(id),
        name,
        namespace: None,
        arguments_text: tool_calls::arguments_text(block.get("input")),
    }))
}
