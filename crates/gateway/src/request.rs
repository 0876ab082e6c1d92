//! Call requests as interfaces submit them.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use tool::call::Resume;
use tool::executor::{Ask, ClientCan, Progress, Task};
use tool::{Args, CallId, CallerType, Interface, Json, JsonError, Limits};

/// Target of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A tool by its name.
    Tool(String),
    /// A tool of one source, whatever name it is listed by.
    Of {
        /// Name of the source.
        source: String,
        /// Name of the tool within its source.
        name: String,
    },
    /// An MCP method of one source, by its name of [`tool::METHODS`].
    Method {
        /// Name of the source.
        source: String,
        /// Name of the method.
        name: &'static str,
    },
}

impl Target {
    /// Returns the name for records and responses.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Tool(name) | Self::Of { name, .. } => name,
            Self::Method { name, .. } => name,
        }
    }
}

/// Task handle and cancellation token of a call that may continue without its caller.
#[derive(Clone)]
pub struct Detached {
    /// Handle of the task.
    pub task: Arc<dyn Task>,
    /// Cancels the call when it is cancelled.
    pub cancel: CancellationToken,
}

/// Arguments as an interface submits them.
#[derive(Debug, Clone)]
pub enum Given {
    /// Raw bytes that were not validated.
    Unread(Bytes),
    /// JSON that was validated against these limits as part of its message.
    Checked(Json, Limits),
}

impl Given {
    /// Returns the text of the arguments.
    pub fn bytes(&self) -> &Bytes {
        match self {
            Self::Unread(bytes) => bytes,
            Self::Checked(json, _) => json.bytes(),
        }
    }

    /// Validates the arguments against the limits of a tool, if that is still needed.
    pub(crate) fn within(&self, limits: Limits) -> Result<Args, JsonError> {
        match self {
            Self::Unread(bytes) => Args::check_within(bytes.clone(), limits),
            Self::Checked(json, by) => Args::checked(json.clone(), *by, limits),
        }
    }
}

impl<T: Into<Bytes>> From<T> for Given {
    fn from(bytes: T) -> Self {
        Self::Unread(bytes.into())
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
    pub const STORED: usize = 512;

    /// Returns true if it is short enough to be stored.
    pub(crate) fn is_short(&self) -> bool {
        self.name.len() <= Self::STORED
            && self.id.as_ref().is_none_or(|id| id.len() <= Self::STORED)
    }
}

/// One call as an interface submits it. No field can extend the rights of its caller.
#[derive(Clone)]
pub struct Request {
    /// Id of the call, if its maker needed it in advance: from [`crate::Gateway::new_call`], for
    /// one call.
    pub id: Option<CallId>,
    /// Target of the call.
    pub target: Target,
    /// Arguments of the call.
    pub args: Given,
    /// Interface by which it arrived.
    pub door: Interface,
    /// Whether it is called directly or in a chain.
    pub caller_type: CallerType,
    /// Id of the call that makes this one.
    pub parent: Option<CallId>,
    /// Index among the calls of the program that makes it, from 0.
    pub chain_index: Option<u32>,
    /// Timeout of the client; can only shorten the tool's.
    pub timeout: Option<Duration>,
    /// Capabilities of the client.
    pub client: ClientCan,
    /// Receives the progress of the call.
    pub progress: Option<Arc<dyn Progress>>,
    /// Sends requests to the client while the call runs.
    pub ask: Option<Arc<dyn Ask>>,
    /// Allows the call to continue as a task of its client.
    pub task: Option<Box<Detached>>,
    /// Pending call that this one continues, with the input responses.
    pub continues: Option<Resume>,
    /// Input responses that were not requested.
    pub unasked: Option<Json>,
    /// MCP's `_meta` beside the arguments.
    pub meta: Option<Json>,
    /// True for a method that lasts until its caller disconnects, such as a subscription. Tools
    /// always have a time limit.
    pub lasting: bool,
    /// Receives the id of the node that answered, for a node's tool.
    pub node: Option<Arc<OnceLock<String>>>,
    /// Names of the call in a model's message, if it came in one.
    pub model_call: Option<ModelCall>,
}

impl Request {
    /// Creates a plain call of a tool.
    pub fn new(tool: impl Into<String>, args: impl Into<Given>, door: Interface) -> Self {
        Self::to(Target::Tool(tool.into()), args, door)
    }

    /// Creates a plain call of any target.
    pub fn to(target: Target, args: impl Into<Given>, door: Interface) -> Self {
        Self {
            id: None,
            target,
            args: args.into(),
            door,
            caller_type: CallerType::Direct,
            parent: None,
            chain_index: None,
            timeout: None,
            client: ClientCan::default(),
            progress: None,
            ask: None,
            task: None,
            continues: None,
            unasked: None,
            meta: None,
            lasting: false,
            node: None,
            model_call: None,
        }
    }
}

impl fmt::Debug for Detached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Detached").finish_non_exhaustive()
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("target", &self.target)
            .field("door", &self.door)
            .finish_non_exhaustive()
    }
}
