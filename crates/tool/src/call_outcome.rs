//! Defines the outcome, status and response of a call.

use serde::{Deserialize, Serialize};

use crate::executor::UpstreamRpcError;
use crate::{CallId, ErrorCode, ExecutionState, Json};

/// Result of a tool. `is_error` is the tool's own statement: it ran and reports a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Body of the result.
    pub body: OutcomeBody,
    /// True if the tool itself reports a failure.
    pub is_error: bool,
}

impl Outcome {
    /// Creates a successful outcome.
    pub fn from_value(value: Json) -> Self {
        Self { body: OutcomeBody::Value(value), is_error: false }
    }

    /// Creates a failure with a message of the tool, which the model may read.
    pub fn tool_failure(message: &str) -> Self {
        Self { body: OutcomeBody::Value(Json::encode(message)), is_error: true }
    }

    /// Returns the size of the result in bytes.
    pub fn size_bytes(&self) -> usize {
        match &self.body {
            OutcomeBody::Value(json) | OutcomeBody::Mcp(json) => json.bytes().len(),
        }
    }
}

/// The two forms of results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutcomeBody {
    /// Any JSON: built-ins, tool files, HTTP modules, nodes.
    Value(Json),
    /// An MCP `CallToolResult` as received, with every field and content type it came with.
    Mcp(Json),
}

/// Status of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// Its intent is written and it runs, or it ran when its server died: see `unknown`.
    Running,
    /// Pending for an approval, for input, for a task or for a nested call.
    #[serde(rename = "waiting")]
    Pending,
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

impl CallStatus {
    /// Every status there is.
    pub const ALL: &'static [Self] = &[
        Self::Running,
        Self::Pending,
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
            Self::Pending => "waiting",
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
pub struct CallFailure {
    /// Error code of the failure.
    pub code: ErrorCode,
    /// Message with the location and the remedy. Bounded.
    pub message: String,
    /// JSON-RPC error of the upstream, if that is its response; for interfaces that speak JSON-RPC
    /// too.
    pub rpc_error: Option<Box<UpstreamRpcError>>,
}

impl CallFailure {
    /// Creates a failure with a message.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), rpc_error: None }
    }
}

/// End of a call, as its caller receives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallResponse {
    /// Id of the call.
    pub call_id: CallId,
    /// Status of the call.
    pub status: CallStatus,
    /// Result or pending reason, or the failure.
    pub result: Result<ExecutionState, CallFailure>,
    /// Elapsed time in milliseconds.
    pub elapsed_ms: u64,
}
