//! Provider formats: renders tools, tool calls and results for each provider, and parses the
//! provider's calls.
//!
//! One file per provider. A catalog renders each tool once per format with [`render_tool`], under a
//! name of its [`AliasMap`]; [`join_tools`] only joins those bytes. One walker lowers schemas that
//! a provider cannot express, and reports [`SchemaLoss`]es. Other schemas, arguments and results
//! pass unchanged as bytes. This crate does no I/O and no access control: its callers select the
//! visible tools.

pub mod aliases;
mod anthropic;
mod gemini;
pub mod mcp;
mod ollama;
mod openai_chat;
mod openai_responses;
pub mod provider_format;
mod result_text;
mod schema_lowering;
pub mod tool_calls;
mod tool_schemas;
pub mod tool_search;

pub use aliases::AliasMap;
pub use provider_format::{ProviderFormat, UnknownFormatError};
pub use schema_lowering::{ArgumentMapping, LossKind, SchemaLoss};
pub use tool_calls::{ParseCallsError, ToolCallRequest, ToolCallResult};
pub use tool_schemas::{ToolSchemas, render_tool_schemas};
pub use tool_search::{ModelAnswer, ModelRequest, ToolSearcher};

use schema_lowering::LoweredSchema;
use schema_lowering::provider_rules::ProviderRules;
use tool::{Json, Tool};

/// A tool rendered in one format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedTool {
    /// The rendered bytes; `None` if the format cannot express the tool. A loss then gives the
    /// reason.
    pub json: Option<Json>,
    /// Differences between the format's schema and the tool's schema.
    pub losses: Vec<SchemaLoss>,
    /// Maps arguments of the rendered schema back to the tool's own arguments.
    pub argument_mapping: ArgumentMapping,
}

impl RenderedTool {
    fn from_lowered(
        tool: &Tool,
        rules: &ProviderRules,
        write: impl FnOnce(&str, &LoweredSchema) -> Json,
    ) -> Result<Self, SchemaLoss> {
        let lowered = schema_lowering::lower_schema(&tool.input_schema, rules)?;
        let described =
            format!("{} ({})", tool.description.trim_end(), lowered.root_notes.join(", "));
        let description =
            if lowered.root_notes.is_empty() { &tool.description } else { &described };
        let json = write(description, &lowered);
        Ok(Self {
            json: Some(json),
            losses: lowered.losses,
            argument_mapping: lowered.argument_mapping,
        })
    }
}

/// Returns the strict rendering, or the non-strict one if strict mode cannot express the schema.
fn strict_or_fallback(
    strict: Result<RenderedTool, SchemaLoss>,
    loose: impl FnOnce() -> Result<RenderedTool, SchemaLoss>,
) -> Result<RenderedTool, SchemaLoss> {
    let strict_loss = match strict {
        Ok(rendered) => return Ok(rendered),
        Err(refused) => refused,
    };
    let mut rendered = loose()?;
    let why = "a strict schema cannot express it, so this tool is not strict";
    rendered
        .losses
        .insert(0, SchemaLoss { change: LossKind::Rewritten, reason: why, ..strict_loss });
    Ok(rendered)
}

/// Renders one tool in `format` under `name`. Computed once per catalog and name.
pub fn render_tool(format: ProviderFormat, tool: &Tool, name: &str) -> RenderedTool {
    let rendered = match format {
        ProviderFormat::OpenaiChat => openai_chat::render_tool(tool, name),
        ProviderFormat::OpenaiChatStrict => openai_chat::render_strict_tool(tool, name),
        ProviderFormat::OpenaiResponses => openai_responses::render_tool(tool, name),
        ProviderFormat::OpenaiResponsesStrict => openai_responses::render_strict_tool(tool, name),
        ProviderFormat::Anthropic => anthropic::render_tool(tool, name),
        ProviderFormat::Gemini => gemini::render_tool(tool, name),
        ProviderFormat::GeminiPerTool => {
            gemini::render_tool(tool, name).map(|rendered| RenderedTool {
                json: rendered.json.as_ref().map(gemini::single_declaration),
                ..rendered
            })
        }
        ProviderFormat::Ollama => ollama::render_tool(tool, name),
        ProviderFormat::Mcp => {
            let json = Some(mcp::render_tool(tool, name));
            Ok(RenderedTool {
                json,
                losses: Vec::new(),
                argument_mapping: ArgumentMapping::default(),
            })
        }
    };
    rendered.unwrap_or_else(|loss| RenderedTool {
        json: None,
        losses: vec![loss],
        argument_mapping: ArgumentMapping::default(),
    })
}

/// Joins rendered tools byte by byte to the `tools` of a request. For MCP, these are the `tools` of
/// a `tools/list` result, without its page.
pub fn join_tools<'a>(
    format: ProviderFormat,
    fragments: impl IntoIterator<Item = &'a Json>,
) -> Json {
    match format {
        ProviderFormat::Gemini => gemini::merge_declarations(fragments.into_iter()),
        ProviderFormat::OpenaiChat
        | ProviderFormat::OpenaiChatStrict
        | ProviderFormat::OpenaiResponses
        | ProviderFormat::OpenaiResponsesStrict
        | ProviderFormat::Anthropic
        | ProviderFormat::GeminiPerTool
        | ProviderFormat::Ollama
        | ProviderFormat::Mcp => Json::array_of(fragments),
    }
}

/// Parses the tool calls of a model's message, in order.
///
/// `message` is the provider's whole response, its message, or the list that contains the calls.
/// For `mcp`, it is the `params` of a `tools/call`, or an array of them.
///
/// # Errors
/// [`ParseCallsError`] with the location, if the calls cannot be identified. Invalid arguments are
/// an error of their call only: see [`ToolCallRequest::parse_arguments`].
pub fn parse_calls(
    format: ProviderFormat,
    message: &Json,
) -> Result<Vec<ToolCallRequest>, ParseCallsError> {
    match format {
        ProviderFormat::OpenaiChat | ProviderFormat::OpenaiChatStrict => {
            openai_chat::parse_calls(message)
        }
        ProviderFormat::OpenaiResponses | ProviderFormat::OpenaiResponsesStrict => {
            openai_responses::parse_calls(message)
        }
        ProviderFormat::Anthropic => anthropic::parse_calls(message),
        ProviderFormat::Gemini | ProviderFormat::GeminiPerTool => gemini::parse_calls(message),
        ProviderFormat::Ollama => ollama::parse_calls(message),
        ProviderFormat::Mcp => mcp::parse_calls(message),
    }
}

/// Renders the message in which a model requests `calls`, so that a conversation can continue with
/// another provider.
pub fn render_calls(format: ProviderFormat, calls: &[ToolCallRequest]) -> Json {
    match format {
        ProviderFormat::OpenaiChat | ProviderFormat::OpenaiChatStrict => {
            openai_chat::render_calls(calls)
        }
        ProviderFormat::OpenaiResponses | ProviderFormat::OpenaiResponsesStrict => {
            openai_responses::render_calls(calls)
        }
        ProviderFormat::Anthropic => anthropic::render_calls(calls),
        ProviderFormat::Gemini | ProviderFormat::GeminiPerTool => gemini::render_calls(calls),
        ProviderFormat::Ollama => ollama::render_calls(calls),
        ProviderFormat::Mcp => mcp::render_calls(calls),
    }
}

/// Renders the messages with the results of a model's calls, in order: an array to append to the
/// conversation after the model's message. Every call has a result. For `mcp`, an array of
/// `CallToolResult`s.
pub fn render_results(format: ProviderFormat, tool_result: &[ToolCallResult]) -> Json {
    let each = |one: fn(&ToolCallResult) -> Json| {
        Json::array_of(&tool_result.iter().map(one).collect::<Vec<_>>())
    };
    let together = |all: fn(&[ToolCallResult]) -> Json| match tool_result {
        [] => Json::array_of([]),
        answered => Json::array_of([&all(answered)]),
    };
    match format {
        ProviderFormat::OpenaiChat | ProviderFormat::OpenaiChatStrict => {
            each(openai_chat::render_result)
        }
        ProviderFormat::OpenaiResponses | ProviderFormat::OpenaiResponsesStrict => {
            each(openai_responses::render_result)
        }
        ProviderFormat::Anthropic => together(anthropic::render_results),
        ProviderFormat::Gemini | ProviderFormat::GeminiPerTool => together(gemini::render_results),
        ProviderFormat::Ollama => each(ollama::render_result),
        ProviderFormat::Mcp => each(|answered| mcp::render_call_result(&answered.outcome)),
    }
}
