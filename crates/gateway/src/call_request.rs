//! Call requests as interfaces submit them.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use tool::call::CallResumption;
use tool::executor::{ClientCapabilities, ClientRequester, ProgressSink, TaskHandle};
use tool::{CallArguments, CallId, CallerType, Interface, Json, JsonError, JsonLimits};

/// Target of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallTarget {
    /// A tool by its name.
    Tool(String),
    /// A tool of one source, independent of its listed name.
    SourceTool {
        /// Name of the source.
        source: String,
        /// Name of the tool within its source.
        name: String,
    },
    /// An MCP method of one source, by its name in the catalog: one of [`tool::MCP_METHODS`], or that of
    /// a method of an extension.
    Method {
        /// Name of the source.
        source: String,
        /// Name of the method.
        name: Cow<'static, str>,
    },
}

impl CallTarget {
    /// Returns the name for records and responses.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Tool(name) | Self::SourceTool { name, .. } => name,
            Self::Method { name, .. } => name,
        }
    }
}

/// Task handle and cancellation token of a call that may continue without its caller.
#[derive(Clone)]
pub struct TaskRequest {
    /// Handle of the task.
    pub task: Arc<dyn TaskHandle>,
    /// Cancels the call when it is cancelled.
    pub cancellation: CancellationToken,
}

/// Arguments as an interface submits them.
#[derive(Debug, Clone)]
pub enum RequestArguments {
    /// Raw bytes that were not validated.
    Raw(Bytes),
    /// JSON that was validated against these limits as part of its message.
    Validated(Json, JsonLimits),
}

impl RequestArguments {
    /// Returns the text of the arguments.
    pub fn raw_bytes(&self) -> &Bytes {
        match self {
            Self::Raw(bytes) => bytes,
            Self::Validated(json, _) => json.bytes(),
        }
    }

    /// Validates the arguments against the limits of a tool, if that is still needed.
    pub(crate) fn validate(&self, limits: JsonLimits) -> Result<CallArguments, JsonError> {
        match self {
            Self::Raw(bytes) => CallArguments::parse_with_limits(bytes.clone(), limits),
            Self::Validated(json, by) => CallArguments::from_validated(json.clone(), *by, limits),
        }
    }
}

impl<T: Into<Bytes>> From<T> for RequestArguments {
    fn from(bytes: T) -> Self {
        Self::Raw(bytes.into())
    }
}

/// Names of a call in a model's message. Stored with a pending call, so that the provider's message
/// can be written after the decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelCall {
    /// Id that the provider gave the call, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Tool name as the model wrote it.
    pub name: String,
}

impl ModelCall {
    /// Maximum size of a stored id or name in bytes. Provider ids have about 30.
    pub const MAX_STORED_BYTES: usize = 512;

    /// Returns true if it is short enough to be stored.
    pub(crate) fn is_short(&self) -> bool {
        self.name.len() <= Self::MAX_STORED_BYTES
            && self.id.as_ref().is_none_or(|id| id.len() <= Self::MAX_STORED_BYTES)
    }
}

/// One call as an interface submits it. No field can extend the rights of its caller.
#[derive(Clone)]
pub struct CallRequest {
    /// Id of the call, if its maker needed it in advance: from [`crate::Gateway::new_call_id`], for
    /// one call.
    pub call_id: Option<CallId>,
    /// Target of the call.
    pub target: CallTarget,
    /// Arguments of the call.
    pub arguments: RequestArguments,
    /// Interface by which it arrived.
    pub interface: Interface,
    /// Whether it is called directly or in a chain.
    pub caller_type: CallerType,
    /// Id of the call that makes this one.
    pub parent_id: Option<CallId>,
    /// Index among the calls of the program that makes it, from 0.
    pub chain_index: Option<u32>,
    /// Timeout of the client; can only shorten the tool's.
    pub timeout: Option<Duration>,
    /// Capabilities of the client.
    pub client_capabilities: ClientCapabilities,
    /// Receives the progress of the call.
    pub progress: Option<Arc<dyn ProgressSink>>,
    /// Sends requests to the client while the call runs.
    pub client_requests: Option<Arc<dyn ClientRequester>>,
    /// Allows the call to continue as a task of its client.
    pub task: Option<Box<TaskRequest>>,
    /// Pending call that this one continues, with the input responses.
    pub resumption: Option<CallResumption>,
    /// Input responses that were not requested.
    pub unsolicited_input: Option<Json>,
    /// MCP's `_meta` beside the arguments.
    pub meta: Option<Json>,
    /// True for a method that lasts until its caller disconnects, such as a subscription. Tools
    /// always have a time limit.
    pub is_long_lived: bool,
    /// Receives the id of the node that answered, for a node's tool.
    pub answering_node: Option<Arc<OnceLock<String>>>,
    /// Names of the call in a model's message, if it came in one.
    pub model_call: Option<ModelCall>,
}

impl CallRequest {
    /// Creates a plain call of a tool.
    pub fn new(
        tool: impl Into<String>,
        args: impl Into<RequestArguments>,
        interface: Interface,
    ) -> Self {
        Self::for_target(CallTarget::Tool(tool.into()), args, interface)
    }

    /// Creates a plain call of any target.
    pub fn for_target(
        target: CallTarget,
        args: impl Into<RequestArguments>,
        interface: Interface,
    ) -> Self {
        Self {
            call_id: None,
            target,
            arguments: args.into(),
            interface,
            caller_type: CallerType::Direct,
            parent_id: None,
            chain_index: None,
            timeout: None,
            client_capabilities: ClientCapabilities::default(),
            progress: None,
            client_requests: None,
            task: None,
            resumption: None,
            unsolicited_input: None,
            meta: None,
            is_long_lived: false,
            answering_node: None,
            model_call: None,
        }
    }
}

impl fmt::Debug for TaskRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Detached").finish_non_exhaustive()
    }
}

impl fmt::Debug for CallRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("target", &self.target)
            .field("door", &self.interface)
            .finish_non_exhaustive()
    }
}
