//! How providers write tools, calls and outcomes, in both directions.
//!
//! One file per provider. A catalog renders each tool once per format with [`render`] and under a name
//! of its [`AliasMap`]; a list only joins those bytes with [`list`]. What a provider's schema cannot say
//! is lowered by one walker and told as [`Loss`]es; what it can passes as the bytes it came in, as do
//! arguments and results. This crate does no I/O and knows no policy: which tools a caller may see is
//! decided before.

mod anthropic;
pub mod calls;
pub mod format;
mod gemini;
mod lower;
pub mod mcp;
pub mod names;
mod ollama;
mod openai_chat;
mod openai_responses;
mod results;
mod schemas;

pub use calls::{Answered, CallsError, RequestedCall};
pub use format::{Format, UnknownFormat};
pub use lower::{Back, Change, Loss};
pub use names::AliasMap;
pub use schemas::{ToolSchemas, tools_to_schema};

use lower::Lowered;
use lower::rules::Rules;
use tool::{Json, Tool};

/// One tool as one format writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// Its bytes; `None` where the format cannot say it at all, and a loss tells why.
    pub json: Option<Json>,
    /// What the format does not say as the tool's schema does.
    pub losses: Vec<Loss>,
    /// The way back from arguments as they are shown there.
    pub back: Back,
}

impl Rendered {
    fn lowered(
        tool: &Tool,
        rules: &Rules,
        write: impl FnOnce(&str, &Lowered) -> Json,
    ) -> Result<Self, Loss> {
        let lowered = lower::lower(&tool.input, rules)?;
        let described = format!("{} ({})", tool.description.trim_end(), lowered.told.join(", "));
        let description = if lowered.told.is_empty() { &tool.description } else { &described };
        let json = write(description, &lowered);
        Ok(Self { json: Some(json), losses: lowered.losses, back: lowered.back })
    }
}

/// Strict where a strict schema can say it, and otherwise as it is.
fn or_loose(
    strict: Result<Rendered, Loss>,
    loose: impl FnOnce() -> Result<Rendered, Loss>,
) -> Result<Rendered, Loss> {
    let refused = match strict {
        Ok(rendered) => return Ok(rendered),
        Err(refused) => refused,
    };
    let mut rendered = loose()?;
    let why = "a strict schema cannot say it, so this tool is not strict";
    rendered.losses.insert(0, Loss { change: Change::Rewritten, why, ..refused });
    Ok(rendered)
}

/// One tool as `format` writes it, under `name`. To be computed once per catalog and name.
pub fn render(format: Format, tool: &Tool, name: &str) -> Rendered {
    let rendered = match format {
        Format::OpenaiChat => openai_chat::tool(tool, name),
        Format::OpenaiChatStrict => openai_chat::strict(tool, name),
        Format::OpenaiResponses => openai_responses::tool(tool, name),
        Format::OpenaiResponsesStrict => openai_responses::strict(tool, name),
        Format::Anthropic => anthropic::tool(tool, name),
        Format::Gemini => gemini::tool(tool, name),
        Format::GeminiPerTool => gemini::tool(tool, name).map(|rendered| Rendered {
            json: rendered.json.as_ref().map(gemini::alone),
            ..rendered
        }),
        Format::Ollama => ollama::tool(tool, name),
        Format::Mcp => {
            let json = Some(mcp::tool(tool, name));
            Ok(Rendered { json, losses: Vec::new(), back: Back::default() })
        }
    };
    rendered.unwrap_or_else(|loss| Rendered {
        json: None,
        losses: vec![loss],
        back: Back::default(),
    })
}

/// The `tools` of a request: `fragments` of [`render`], joined byte by byte. For MCP it is the `tools`
/// member of a `tools/list` result, without its page.
pub fn list<'a>(format: Format, fragments: impl IntoIterator<Item = &'a Json>) -> Json {
    match format {
        Format::Gemini => gemini::merged(fragments.into_iter()),
        Format::OpenaiChat
        | Format::OpenaiChatStrict
        | Format::OpenaiResponses
        | Format::OpenaiResponsesStrict
        | Format::Anthropic
        | Format::GeminiPerTool
        | Format::Ollama
        | Format::Mcp => Json::array(fragments),
    }
}

/// The calls a model asks for, in order.
///
/// `message` is what the model answered: the provider's whole response, its message, or the list in it
/// that calls stand in. For `mcp`, the `params` of a `tools/call`, or an array of such.
///
/// # Errors
/// [`CallsError`] with the place, where the calls themselves cannot be told. Arguments that cannot be
/// read are an error of their own call only: see [`RequestedCall::args`].
pub fn read_calls(format: Format, message: &Json) -> Result<Vec<RequestedCall>, CallsError> {
    match format {
        Format::OpenaiChat | Format::OpenaiChatStrict => openai_chat::calls(message),
        Format::OpenaiResponses | Format::OpenaiResponsesStrict => openai_responses::calls(message),
        Format::Anthropic => anthropic::calls(message),
        Format::Gemini | Format::GeminiPerTool => gemini::calls(message),
        Format::Ollama => ollama::calls(message),
        Format::Mcp => mcp::calls(message),
    }
}

/// The message in which a model asks for `calls`, as the provider would write it: so that a conversation
/// can go on at another one.
pub fn write_calls(format: Format, calls: &[RequestedCall]) -> Json {
    match format {
        Format::OpenaiChat | Format::OpenaiChatStrict => openai_chat::message(calls),
        Format::OpenaiResponses | Format::OpenaiResponsesStrict => openai_responses::message(calls),
        Format::Anthropic => anthropic::message(calls),
        Format::Gemini | Format::GeminiPerTool => gemini::message(calls),
        Format::Ollama => ollama::message(calls),
        Format::Mcp => mcp::message(calls),
    }
}

/// The messages that tell a model what came of its calls, in order: an array, to be added to the
/// conversation after the model's own message. Every call has its answer. For `mcp`, an array of
/// `CallToolResult`s.
pub fn write_results(format: Format, answered: &[Answered]) -> Json {
    let each =
        |one: fn(&Answered) -> Json| Json::array(&answered.iter().map(one).collect::<Vec<_>>());
    let together = |all: fn(&[Answered]) -> Json| match answered {
        [] => Json::array([]),
        answered => Json::array([&all(answered)]),
    };
    match format {
        Format::OpenaiChat | Format::OpenaiChatStrict => each(openai_chat::result),
        Format::OpenaiResponses | Format::OpenaiResponsesStrict => each(openai_responses::result),
        Format::Anthropic => together(anthropic::results),
        Format::Gemini | Format::GeminiPerTool => together(gemini::results),
        Format::Ollama => each(ollama::result),
        Format::Mcp => each(|answered| mcp::outcome(&answered.outcome)),
    }
}
