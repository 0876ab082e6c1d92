//! What came of a call.

use serde::{Deserialize, Serialize};

use crate::executor::Rpc;
use crate::{CallId, Code, Json, Step};

/// A tool's answer. `is_error` is the tool's own word: it ran, and says it failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The answer.
    pub body: Body,
    /// Whether the tool itself reports a failure.
    pub is_error: bool,
}

impl Outcome {
    /// A plain success.
    pub fn value(value: Json) -> Self {
        Self { body: Body::Value(value), is_error: false }
    }

    /// A failure that the tool reports in words; the model may read it.
    pub fn failed(message: &str) -> Self {
        Self { body: Body::Value(Json::of(message)), is_error: true }
    }

    /// Bytes of the answer.
    pub fn size(&self) -> usize {
        match &self.body {
            Body::Value(json) | Body::Mcp(json) => json.bytes().len(),
        }
    }
}

/// The two shapes of answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// Any JSON: built-ins, tool files, HTTP modules, nodes.
    Value(Json),
    /// An MCP `CallToolResult` as received, with every field and content type it came with.
    Mcp(Json),
}

/// Where a call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Its intent is written and it runs, or it ran when its server died: see `unknown`.
    Running,
    /// Held, for an approval, for input, for a task or for a nested call.
    Waiting,
    /// The tool answered.
    Succeeded,
    /// The tool answered that it failed, or its source did.
    Failed,
    /// It was not run.
    Refused,
    /// Given up by its caller, who was told so.
    Cancelled,
    /// Dropped without an end: the caller went away.
    Abandoned,
    /// Its server died between intent and outcome. It is never run again by itself.
    Unknown,
}

impl Status {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::Running,
        Self::Waiting,
        Self::Succeeded,
        Self::Failed,
        Self::Refused,
        Self::Cancelled,
        Self::Abandoned,
        Self::Unknown,
    ];

    /// The word as it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::Cancelled => "cancelled",
            Self::Abandoned => "abandoned",
            Self::Unknown => "unknown",
        }
    }
}

/// Why a call was not run, or what went wrong running it, for the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The code.
    pub code: Code,
    /// In words, with the place and the fix. Bounded.
    pub message: String,
    /// The upstream's own JSON-RPC error, where that is what it answered; for doors that speak it too.
    pub rpc: Option<Box<Rpc>>,
}

impl Failure {
    /// With a message.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), rpc: None }
    }
}

/// How a call ended, for its caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The call.
    pub call: CallId,
    /// Where it stands.
    pub status: Status,
    /// The tool's answer or what it waits for, or why there is neither.
    pub result: Result<Step, Failure>,
    /// Milliseconds it took.
    pub elapsed_ms: u64,
}
