//! What a door asks for.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tool::executor::{ClientCan, Progress};
use tool::{CallId, CallerType};

/// One call as a door hands it in. Nothing in it can widen what the caller may do.
#[derive(Clone)]
pub struct Request {
    /// The tool's name.
    pub tool: String,
    /// The arguments, unread.
    pub args: Bytes,
    /// Which door: `rest`, `mcp`, `library`.
    pub door: &'static str,
    /// Directly or in a chain.
    pub caller_type: CallerType,
    /// The call that makes this one.
    pub parent: Option<CallId>,
    /// The client's own limit; can only shorten the tool's.
    pub timeout: Option<Duration>,
    /// What the client can do.
    pub client: ClientCan,
    /// Where progress goes.
    pub progress: Option<Arc<dyn Progress>>,
}

impl Request {
    /// A plain call.
    pub fn new(tool: impl Into<String>, args: impl Into<Bytes>, door: &'static str) -> Self {
        Self {
            tool: tool.into(),
            args: args.into(),
            door,
            caller_type: CallerType::Direct,
            parent: None,
            timeout: None,
            client: ClientCan::default(),
            progress: None,
        }
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("tool", &self.tool)
            .field("door", &self.door)
            .finish_non_exhaustive()
    }
}
