//! How providers write tools, calls and outcomes, in both directions.
//!
//! One file per provider. A catalog renders each tool once per format with [`fragment`] and under a
//! name of its [`AliasMap`]; a list only joins those bytes with [`list`]. Schemas, arguments and
//! results pass as the bytes they came in. This crate does no I/O and knows no policy: which tools a
//! caller may see is decided before.

pub mod calls;
pub mod format;
mod mcp;
pub mod names;
mod openai_chat;

pub use calls::{CallsError, RequestedCall};
pub use format::{Format, UnknownFormat};
pub use names::AliasMap;

use tool::{Json, Outcome, Tool};

/// One tool as `format` writes it, under `name`. To be computed once per catalog and name.
pub fn fragment(format: Format, tool: &Tool, name: &str) -> Json {
    match format {
        Format::OpenaiChat => openai_chat::tool(tool, name),
        Format::Mcp => mcp::tool(tool, name),
    }
}

/// The list of tools of a request: an array of `fragments`, joined byte by byte. For MCP it is the
/// `tools` member of a `tools/list` result, without its page.
pub fn list<'a>(format: Format, fragments: impl IntoIterator<Item = &'a Json>) -> Json {
    match format {
        Format::OpenaiChat | Format::Mcp => Json::array(fragments),
    }
}

/// The calls a model asks for, in order.
///
/// For `openai_chat`, `message` is the assistant's message, a whole completion, or the array of
/// `tool_calls`; for `mcp`, the `params` of a `tools/call`.
///
/// # Errors
/// [`CallsError`] with the place, where the calls themselves cannot be told. Arguments that cannot be
/// read are the error of their own call only: see [`RequestedCall::args`].
pub fn read_calls(format: Format, message: &Json) -> Result<Vec<RequestedCall>, CallsError> {
    match format {
        Format::OpenaiChat => openai_chat::calls(message),
        Format::Mcp => mcp::call(message).map(|call| vec![call]),
    }
}

/// What came of the call `id`, for the model: a `role: "tool"` message for `openai_chat`, a
/// `CallToolResult` for `mcp` (where `id` belongs to the envelope and is not used).
pub fn write_outcome(format: Format, outcome: &Outcome, id: &str) -> Json {
    match format {
        Format::OpenaiChat => openai_chat::outcome(outcome, id),
        Format::Mcp => mcp::outcome(outcome),
    }
}
