//! Defines the outcome, status and response of a call.

use serde::{Deserialize, Serialize};

use crate::executor::Rpc;
use crate::{CallId, Code, Json, Step};

/// Result of a tool. `is_error` is the tool's own statement: it ran and reports a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Body of the result.
    pub body: Body,
    /// True if the tool itself reports a failure.
    pub is_error: bool,
}

impl Outcome {
    /// Creates a successful outcome.
    pub fn value(value: Json) -> Self {
        Self { body: Body::Value(value), is_error: false }
    }

    /// Creates a failure with a message of the tool, which the model may read.
    pub fn failed(message: &str) -> Self {
        Self { body: Body::Value(Json::of(message)), is_error: true }
    }

    /// Returns the size of the result in bytes.
    pub fn size(&self) -> usize {
        match &self.body {
            Body::Value(json) | Body::Mcp(json) => json.bytes().len(),
        }
    }
}

/// The two forms of results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// Any JSON: built-ins, tool files, HTTP modules, nodes.
    Value(Json),
    /// An MCP `CallToolResult` as received, with every field and content type it came with.
    Mcp(Json),
}

/// Status of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Its intent is written and it runs, or it ran when its server died: see `unknown`.
    Running,
    /// Pending for an approval, for input, for a task or for a nested call.
    Waiting,
    /// The tool returned a result.
    Succeeded,
    /// The tool reported a failure, or its source did.
    Failed,
    /// It was not run.
    Refused,
    /// Cancelled by its caller, who was notified.
    Cancelled,
    /// Dropped without an outcome: the caller disconnected.
    Abandoned,
    /// Its server died between intent and outcome. It is never run again automatically.
    Unknown,
}

impl Status {
    /// Every status there is.
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

    /// Returns the word as it is serialised.
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

/// Describes for the caller why a call was refused or failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Error code of the failure.
    pub code: Code,
    /// Message with the location and the remedy. Bounded.
    pub message: String,
    /// JSON-RPC error of the upstream, if that is its response; for interfaces that speak JSON-RPC
    /// too.
    pub rpc: Option<Box<Rpc>>,
}

impl Failure {
    /// Creates a failure with a message.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), rpc: None }
    }
}

/// End of a call, as its caller receives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Id of the call.
    pub call: CallId,
    /// Status of the call.
    pub status: Status,
    /// Result or pending reason, or the failure.
    pub result: Result<Step, Failure>,
    /// Elapsed time in milliseconds.
    pub elapsed_ms: u64,
}
