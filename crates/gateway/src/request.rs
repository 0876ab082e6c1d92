//! What a door asks for.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use tool::call::Resume;
use tool::executor::{Ask, ClientCan, Progress, Task};
use tool::{Args, CallId, CallerType, Interface, Json, JsonError, Limits};

/// What a request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A tool, by its name.
    Tool(String),
    /// A tool of one source, whatever name it is listed by.
    Of {
        /// The source.
        source: String,
        /// The tool's own name there.
        name: String,
    },
    /// A method of one source, by its name of [`tool::METHODS`].
    Method {
        /// The source.
        source: String,
        /// The method.
        name: &'static str,
    },
}

impl Target {
    /// As records and answers name it.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Tool(name) | Self::Of { name, .. } => name,
            Self::Method { name, .. } => name,
        }
    }
}

/// What a call needs that can go on without whoever made it.
#[derive(Clone)]
pub struct Detached {
    /// Its task.
    pub task: Arc<dyn Task>,
    /// Gives the call up.
    pub cancel: CancellationToken,
}

/// Arguments as a door hands them in.
#[derive(Debug, Clone)]
pub enum Given {
    /// Nobody has looked at them.
    Unread(Bytes),
    /// They were held against these limits, with the message they came in.
    Checked(Json, Limits),
}

impl Given {
    /// Their text.
    pub fn bytes(&self) -> &Bytes {
        match self {
            Self::Unread(bytes) => bytes,
            Self::Checked(json, _) => json.bytes(),
        }
    }

    /// Held against the limits of a tool, where that has not been done.
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

/// How a model's message names a call. Stored with a pending call, so that its provider's message can be written after the
/// decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelCall {
    /// The provider's id of the call, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The tool's name as the model wrote it.
    pub name: String,
}

impl ModelCall {
    /// The longest id or name that is stored, in bytes. Ids of providers have some 30.
    pub const STORED: usize = 512;

    /// Whether it is short enough to be stored.
    pub(crate) fn is_short(&self) -> bool {
        self.name.len() <= Self::STORED
            && self.id.as_ref().is_none_or(|id| id.len() <= Self::STORED)
    }
}

/// One call as a door hands it in. Nothing in it can widen what the caller may do.
#[derive(Clone)]
pub struct Request {
    /// The call's id, where its maker had to know it before: from [`crate::Gateway::new_call`], for one call.
    pub id: Option<CallId>,
    /// What is to run.
    pub target: Target,
    /// The arguments.
    pub args: Given,
    /// By which interface it comes.
    pub door: Interface,
    /// Directly or in a chain.
    pub caller_type: CallerType,
    /// The call that makes this one.
    pub parent: Option<CallId>,
    /// Its place among the calls of the one that makes it, from 0, where that is a program.
    pub chain_index: Option<u32>,
    /// The client's own limit; can only shorten the tool's.
    pub timeout: Option<Duration>,
    /// What the client can do.
    pub client: ClientCan,
    /// Where progress goes.
    pub progress: Option<Arc<dyn Progress>>,
    /// How the client can be asked while the call runs.
    pub ask: Option<Arc<dyn Ask>>,
    /// Where the call can go on as a task of its client.
    pub task: Option<Box<Detached>>,
    /// The wait that this call ends, with the answers to its questions.
    pub continues: Option<Resume>,
    /// Answers to what was not asked.
    pub unasked: Option<Json>,
    /// What the client wrote beside the arguments: MCP's `_meta`.
    pub meta: Option<Json>,
    /// A method that lasts until its caller goes, such as a subscription. Tools always have a limit.
    pub lasting: bool,
    /// Where the node that answered is named, of a node's tool.
    pub node: Option<Arc<OnceLock<String>>>,
    /// How the message of a model names the call, where it came in one.
    pub model_call: Option<ModelCall>,
}

impl Request {
    /// A plain call.
    pub fn new(tool: impl Into<String>, args: impl Into<Given>, door: Interface) -> Self {
        Self::to(Target::Tool(tool.into()), args, door)
    }

    /// A plain call of anything.
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
