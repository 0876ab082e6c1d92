//! Defines the port through which calls run.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;

use crate::{
    Args, Boxed, Caged, Call, CallId, Caller, Code, Effects, Json, Mono, Outcome, Secret,
    SourceName, Ticket, Wall,
};

/// Runs calls. Only the pipeline calls it, and only with a [`Granted`].
pub trait Executor: Send + Sync + fmt::Debug {
    /// Runs `call`. If `ctx.cancel` fires it should stop soon; after a grace period the future is
    /// dropped.
    ///
    /// # Errors
    /// [`ExecuteError`] if the tool did not return a result. A tool that reports a failure returns
    /// an [`Outcome`] with `is_error`.
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        ctx: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>>;

    /// Rejects arguments that are certain to fail, such as a path outside the tool's folders. The
    /// pipeline calls it before a call becomes pending, so that nobody approves a call that cannot
    /// succeed. It has no effect, does no I/O, and shares its rules with [`Executor::execute`].
    ///
    /// # Errors
    /// A message for the caller about the invalid arguments.
    fn check_args(&self, _args: &Args) -> Result<(), String> {
        Ok(())
    }

    /// Returns the ids of the nodes that may run it, preferred node first; empty if it is not bound
    /// to nodes.
    fn places(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns true if the executor only makes nested calls. Each of them is checked and recorded
    /// on its own, so the record of this call needs no sync.
    fn only_calls(&self) -> bool {
        false
    }

    /// Returns an executor that runs this tool on its own nodes and on those of `others`, or `None`
    /// if they cannot be merged.
    fn beside(&self, _others: &[Arc<dyn Executor>]) -> Option<Arc<dyn Executor>> {
        None
    }
}

/// A call whose intent is on record, and which may therefore run.
#[derive(Debug, Clone, Copy)]
pub struct Granted<'a> {
    call: &'a Call,
}

impl<'a> Granted<'a> {
    /// Binds a call to the receipt that the ledger issued for it; `None` if the receipt belongs to
    /// another call.
    pub fn of(call: &'a Call, ticket: &'a Ticket) -> Option<Self> {
        (ticket.call() == call.id).then_some(Self { call })
    }

    /// Returns the recorded call.
    pub fn call(&self) -> &'a Call {
        self.call
    }
}

/// How far an executor got with a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The call completed with an outcome.
    Done(Outcome),
    /// The call is pending.
    Wait(Wait),
}

/// Reasons why a call is pending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wait {
    /// Waits for input of the client. `resume` comes back with the responses, sealed in transit.
    Input {
        /// Input requests in MCP's terms: an object of requests under keys that the executor
        /// chooses. The responses use the same keys.
        requests: Json,
        /// State of the executor, opaque to others.
        resume: Bytes,
    },
    /// Waits for a person's decision. The pending approval has the call's own id.
    Approval(Approval),
    /// Waits for another call.
    Nested(CallId),
}

/// Describes the approval that a pending call needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// Reason given by the policy.
    pub reason: String,
    /// Time at which the pending approval expires.
    pub expires: Wall,
    /// Side effects of the tool: the declared ones, or [`Effects::UNKNOWN`].
    pub effects: Vec<String>,
    /// True if the call is already approved and only has to continue.
    pub approved: bool,
    /// True if an agent's key made the call. Otherwise it is a person's own call, which no key of
    /// that person can approve.
    pub by_agent: bool,
}

impl Approval {
    /// Returns the declared side effects, as the tool-file registry's `side_effects_declared` lists
    /// them.
    pub fn declared_effects(&self) -> Vec<&str> {
        self.effects.iter().map(String::as_str).filter(|word| *word != Effects::UNKNOWN).collect()
    }
}

/// Services that an executor may use while it runs a call.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Caller on whose behalf the call runs.
    pub caller: &'a Caller,
    /// Deadline of the call; a later result is of no use.
    pub deadline: Mono,
    /// Fires when the caller cancels or the deadline passes.
    pub cancel: &'a dyn Cancel,
    /// Receives progress. Bounded and lossy: reporting never blocks.
    pub progress: &'a dyn Progress,
    /// Capabilities of the client.
    pub client: &'a ClientCan,
    /// MCP's `_meta` of the request, as received.
    pub meta: Option<&'a Json>,
    /// Sends requests to the client during the call; `None` on stateless interfaces, where a
    /// request makes the call pending with a [`Wait`].
    pub ask: Option<&'a dyn Ask>,
    /// Handle to continue the call as a task; `None` if the client does not support tasks.
    pub task: Option<&'a dyn Task>,
    /// Provides credentials for upstreams.
    pub credentials: &'a dyn Credentials,
    /// Sealed principal of the call, for executors above the gateway; `None` if no gateway runs the call.
    pub principal: Option<PrincipalToken<'a>>,
    /// Receives the sandbox usage of the call, for the record.
    pub caged: Option<&'a OnceLock<Caged>>,
    /// Receives the id of the node that answered, for interfaces that return it.
    pub node: Option<&'a OnceLock<String>>,
}

impl Context<'_> {
    /// Records the sandbox usage of the call; only the first value counts.
    pub fn ran_caged(&self, caged: Caged) {
        if let Some(place) = self.caged {
            place.get_or_init(|| caged);
        }
    }

    /// Records the node that answered; only the first value counts.
    pub fn ran_on(&self, node: &str) {
        if let Some(place) = self.node {
            place.get_or_init(|| node.to_owned());
        }
    }
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

/// Sealed principal of a call. Its type is private to the gateway: other executors can only pass it on, in
/// their context.
#[derive(Clone, Copy)]
pub struct PrincipalToken<'a>(&'a (dyn Any + Send + Sync));

impl<'a> PrincipalToken<'a> {
    /// Seals `value`. Only code that can name its type can open it.
    pub fn seal(value: &'a (dyn Any + Send + Sync)) -> Self {
        Self(value)
    }

    /// Returns the sealed value; `None` if it has another type.
    pub fn downcast<T: Any>(self) -> Option<&'a T> {
        self.0.downcast_ref()
    }
}

impl fmt::Debug for PrincipalToken<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrincipalToken")
    }
}

/// Signals that a call is cancelled.
pub trait Cancel: Send + Sync {
    /// Resolves when the call is cancelled.
    fn cancelled(&self) -> Boxed<'_, ()>;
    /// Returns true if the call is already cancelled.
    fn is_cancelled(&self) -> bool;
}

/// Receives the progress and notifications of a call.
pub trait Progress: Send + Sync {
    /// Reports `done` of `total`, with a message for people.
    fn report(&self, done: f64, total: Option<f64>, message: Option<&str>);

    /// Returns true if anybody listens; otherwise an upstream need not send progress.
    fn wanted(&self) -> bool {
        true
    }

    /// Forwards a notification of the upstream that belongs to this call, in MCP's terms and as
    /// received: a log message, a changed resource. Interfaces that cannot deliver it drop it.
    fn notify(&self, _method: &str, _params: &Json) {}
}

/// Sends requests to the client while the call runs.
pub trait Ask: Send + Sync {
    /// Sends a request in MCP's terms and resolves with its result.
    fn ask<'a>(&'a self, method: &'a str, params: Json) -> Boxed<'a, Result<Json, Unanswered>>;
}

/// Turns the call into a task, whose result the client fetches later. From then on, requests of the
/// call to the client go through the task.
pub trait Task: Ask {
    /// Turns the call into a task. Returns false if the task limit is reached; the call then
    /// continues as an ordinary call. Calling it again has no effect.
    fn hold(&self, call: &Call) -> bool;

    /// Returns the total time limit if the call is a task.
    fn held(&self) -> Option<Duration>;

    /// Sets the status message of the task, bounded by the executor.
    fn tell(&self, line: &str);
}

/// Errors of a request to the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// The client answered with an error.
    #[error("the client refused: {message} ({code})")]
    Refused {
        /// Error code of JSON-RPC.
        code: i64,
        /// Message of the client, bounded by the interface.
        message: String,
    },
    /// The client is disconnected, or lacks the capability.
    #[error("the client cannot be asked")]
    Gone,
}

/// Capabilities that the client declared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent capabilities of MCP")]
pub struct ClientCan {
    /// True if the client can answer elicitation requests.
    pub elicit: bool,
    /// True if the client supports sampling.
    pub sample: bool,
    /// True if the client can list its roots.
    pub roots: bool,
    /// True if the client can follow tasks.
    pub tasks: bool,
    /// True if the client uses an endpoint that serves one source only. Requests of the source are
    /// then forwarded to the client instead of being answered here.
    pub alone: bool,
    /// MCP's `ClientCapabilities` as received.
    pub declared: Option<Json>,
}

/// Provides credentials for upstreams. Those of callers are never forwarded.
pub trait Credentials: Send + Sync {
    /// Looks up the credential for one source and one caller.
    fn for_source<'a>(
        &'a self,
        source: &'a SourceName,
        caller: &'a Caller,
    ) -> Boxed<'a, Credential>;
}

/// Credential provider for programs whose sources need no credentials.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCredentials;

impl Credentials for NoCredentials {
    fn for_source<'a>(&'a self, _: &'a SourceName, _: &'a Caller) -> Boxed<'a, Credential> {
        Box::pin(std::future::ready(Credential::None))
    }
}

/// Result of a credential lookup.
#[derive(Debug, Clone)]
pub enum Credential {
    /// The source needs no credential.
    None,
    /// The secret to send to the source.
    Secret(Secret),
    /// A person must give consent first, at this address.
    NeedsConsent(String),
    /// No credential exists for this caller; the text says what is missing.
    Missing(String),
}

/// Error of a call that returned no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ExecuteError {
    /// Error code of the failure.
    pub code: Code,
    /// Message, bounded by the pipeline, and marked as the upstream's if it is.
    pub message: String,
    /// Whether the request may have reached the tool. A request that was certainly not sent can be
    /// retried.
    pub sent: Sent,
    /// JSON-RPC error of the upstream, if that is its response.
    pub rpc: Option<Box<Rpc>>,
}

/// JSON-RPC error of an upstream, for interfaces that speak JSON-RPC too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rpc {
    /// Error code of JSON-RPC.
    pub code: i64,
    /// Message of the upstream, bounded by the executor and not escaped.
    pub message: String,
    /// Additional error data as received, bounded by the executor.
    pub data: Option<Json>,
}

/// Whether the request may have reached the tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// The request was certainly not sent.
    No,
    /// The request may have been sent.
    Maybe,
}

impl ExecuteError {
    /// Creates an error for a request that was not sent.
    pub fn before(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), sent: Sent::No, rpc: None }
    }

    /// Creates an error for a request that may have been sent.
    pub fn during(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), sent: Sent::Maybe, rpc: None }
    }
}
