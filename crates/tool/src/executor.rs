//! Defines the executor port: the interface through which a tool runs its calls.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;

use crate::{
    BoxFuture, CallArguments, CallId, Caller, ErrorCode, IntentReceipt, Json, MonotonicTime,
    Outcome, SandboxUsage, Secret, SideEffects, SourceName, ToolCall, WallTime,
};

/// Runs calls. Only the pipeline calls it, and only with a [`RecordedCall`].
pub trait Executor: Send + Sync + fmt::Debug {
    /// Runs a recorded call. If `ctx.cancel` fires it should stop soon; after a grace period the
    /// future is dropped.
    ///
    /// # Errors
    /// [`ExecuteError`] if the tool did not return a result. A tool that reports a failure returns
    /// an [`Outcome`] with `is_error`.
    fn execute<'a>(
        &'a self,
        call_tool: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>>;

    /// Rejects arguments that are certain to fail, such as a path outside the tool's folders. The
    /// pipeline calls it before a call becomes pending, so that nobody approves a call that cannot
    /// succeed. It has no effect, does no I/O, and shares its rules with [`Executor::execute`].
    ///
    /// # Errors
    /// A message for the caller about the invalid arguments.
    fn validate_arguments(&self, _args: &CallArguments) -> Result<(), String> {
        Ok(())
    }

    /// Returns the ids of the nodes that may run it, preferred node first; empty if it is not bound
    /// to nodes.
    fn node_ids(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns true if the executor only makes nested calls. Each of them is checked and recorded
    /// on its own, so the record of this call needs no sync.
    fn only_makes_nested_calls(&self) -> bool {
        false
    }

    /// Returns an executor that runs this tool on its own nodes and on those of the others, or
    /// `None` if they cannot be merged.
    fn merge_with(&self, _others: &[Arc<dyn Executor>]) -> Option<Arc<dyn Executor>> {
        None
    }
}

/// A call whose intent is on record, and which may therefore run.
#[derive(Debug, Clone, Copy)]
pub struct RecordedCall<'a> {
    call: &'a ToolCall,
}

impl<'a> RecordedCall<'a> {
    /// Binds a call to the receipt that the ledger issued for it; `None` if the receipt belongs to
    /// another call.
    pub fn from_receipt(call: &'a ToolCall, receipt: &'a IntentReceipt) -> Option<Self> {
        (receipt.call_id() == call.id).then_some(Self { call })
    }

    /// Returns the recorded call.
    pub fn call(&self) -> &'a ToolCall {
        self.call
    }
}

/// How far an executor got with a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecutionState {
    /// The call completed with an outcome.
    Completed(Outcome),
    /// The call is pending.
    Pending(PendingReason),
}

/// Reasons why a call is pending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PendingReason {
    /// Waits for input of the client. `resume` comes back with the responses, sealed in transit.
    Input {
        /// Input requests in MCP's terms: an object of requests under keys that the executor
        /// chooses. The responses use the same keys.
        input_requests: Json,
        /// State of the executor, opaque to others.
        state: Bytes,
    },
    /// Waits for a person's decision. The pending approval has the call's own id.
    Approval(ApprovalRequest),
    /// Waits for another call.
    Nested(CallId),
}

/// Describes the approval that a pending call needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalRequest {
    /// Reason given by the policy.
    pub reason: String,
    /// Time at which the pending approval expires.
    pub expires_at: WallTime,
    /// Side effects of the tool: the declared ones, or [`SideEffects::UNKNOWN_NAME`].
    pub effects: Vec<String>,
    /// True if the call is already approved and only has to continue.
    pub is_approved: bool,
    /// True if an agent's key made the call. Otherwise it is a person's own call, which no key of
    /// that person can approve.
    pub is_from_agent: bool,
}

impl ApprovalRequest {
    /// Returns the declared side effects, as the research registry's `side_effects_declared` lists
    /// them.
    pub fn declared_effects(&self) -> Vec<&str> {
        self.effects
            .iter()
            .map(String::as_str)
            .filter(|word| *word != SideEffects::UNKNOWN_NAME)
            .collect()
    }
}

/// Services that an executor may use while it runs a call.
#[derive(Clone, Copy)]
pub struct CallContext<'a> {
    /// Caller on whose behalf the call runs.
    pub caller: &'a Caller,
    /// Deadline of the call; a later result is of no use.
    pub deadline: MonotonicTime,
    /// Fires when the caller cancels or the deadline passes.
    pub cancel: &'a dyn CancelSignal,
    /// Receives progress. Bounded and lossy: reporting never blocks.
    pub progress: &'a dyn ProgressSink,
    /// Capabilities of the client.
    pub client_capabilities: &'a ClientCapabilities,
    /// MCP's `_meta` of the request, as received.
    pub meta: Option<&'a Json>,
    /// Sends requests to the client during the call; `None` on stateless interfaces, where a
    /// request makes the call pending with a [`PendingReason`].
    pub client_requests: Option<&'a dyn ClientRequester>,
    /// Handle to continue the call as a task; `None` if the client does not support tasks.
    pub task_handle: Option<&'a dyn TaskHandle>,
    /// Provides credentials for upstreams.
    pub credentials: &'a dyn CredentialProvider,
    /// Sealed principal of the call, for executors above the gateway; `None` if no gateway runs the call.
    pub principal: Option<PrincipalToken<'a>>,
    /// Receives the sandbox usage of the call, for the record.
    pub sandbox_usage: Option<&'a OnceLock<SandboxUsage>>,
    /// Receives the id of the node that answered, for interfaces that return it.
    pub answering_node: Option<&'a OnceLock<String>>,
}

impl CallContext<'_> {
    /// Records the sandbox usage of the call; only the first value counts.
    pub fn record_sandbox_usage(&self, usage: SandboxUsage) {
        if let Some(place) = self.sandbox_usage {
            place.get_or_init(|| usage);
        }
    }

    /// Records the node that answered; only the first value counts.
    pub fn record_node(&self, node: &str) {
        if let Some(place) = self.answering_node {
            place.get_or_init(|| node.to_owned());
        }
    }
}

impl fmt::Debug for CallContext<'_> {
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
pub trait CancelSignal: Send + Sync {
    /// Resolves when the call is cancelled.
    fn cancelled(&self) -> BoxFuture<'_, ()>;
    /// Returns true if the call is already cancelled.
    fn is_cancelled(&self) -> bool;
}

/// Receives the progress and notifications of a call.
pub trait ProgressSink: Send + Sync {
    /// Reports `done` of `total`, with a message for people.
    fn report_progress(&self, done: f64, total: Option<f64>, message: Option<&str>);

    /// Returns true if anybody listens; otherwise an upstream need not send progress.
    fn has_listener(&self) -> bool {
        true
    }

    /// Forwards a notification of the upstream that belongs to this call, in MCP's terms and as
    /// received: a log message, a changed resource. Interfaces that cannot deliver it drop it.
    fn forward_notification(&self, _method: &str, _params: &Json) {}
}

/// Sends requests to the client while the call runs.
pub trait ClientRequester: Send + Sync {
    /// Sends a request in MCP's terms and resolves with its result.
    fn send_request<'a>(
        &'a self,
        method: &'a str,
        params: Json,
    ) -> BoxFuture<'a, Result<Json, ClientRequestError>>;
}

/// Turns the call into a task, whose result the client fetches later. From then on, requests of the
/// call to the client go through the task.
pub trait TaskHandle: ClientRequester {
    /// Turns the call into a task. Returns false if the task limit is reached; the call then
    /// continues as an ordinary call. Calling it again has no effect.
    ///
    /// `continuation` is the executor's own state, as in [`crate::PendingReason`], with which a later
    /// process can continue the call; `None` if the call ends with its process.
    fn promote_to_task(&self, call: &ToolCall, continuation: Option<bytes::Bytes>) -> bool;

    /// Returns the total time limit if the call is a task.
    fn time_limit(&self) -> Option<Duration>;

    /// Sets the status message of the task, bounded by the executor.
    fn set_status_message(&self, line: &str);

    /// Returns true if the call is cancelled only because the server stops, and a later process
    /// continues it. The executor then leaves the work running where it runs.
    fn is_suspended(&self) -> bool {
        false
    }
}

/// Errors of a request to the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientRequestError {
    /// The client answered with an error.
    #[error("the client refused: {message} ({code})")]
    Refused {
        /// Error code of JSON-RPC.
        code: i64,
        /// Message of the client, bounded by the interface.
        message: String,
    },
    /// The client is disconnected, or lacks the capability.
    #[error("the client is unreachable")]
    Unavailable,
}

/// Capabilities that the client declared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent capabilities of MCP")]
pub struct ClientCapabilities {
    /// True if the client can answer elicitation requests.
    pub supports_elicitation: bool,
    /// True if the client supports sampling.
    pub supports_sampling: bool,
    /// True if the client can list its roots.
    pub supports_roots: bool,
    /// True if the client can follow tasks.
    pub supports_tasks: bool,
    /// True if the client uses an endpoint that serves one source only. Requests of the source are
    /// then forwarded to the client instead of being answered here.
    pub is_single_source: bool,
    /// MCP's `ClientCapabilities` as received.
    pub raw: Option<Json>,
}

/// Provides credentials for upstreams. Those of callers are never forwarded.
pub trait CredentialProvider: Send + Sync {
    /// Looks up the credential for one source and one caller.
    fn find_credential<'a>(
        &'a self,
        source: &'a SourceName,
        caller: &'a Caller,
    ) -> BoxFuture<'a, UpstreamCredential>;
}

/// Credential provider for programs whose sources need no credentials.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCredentials;

impl CredentialProvider for NoCredentials {
    fn find_credential<'a>(
        &'a self,
        _: &'a SourceName,
        _: &'a Caller,
    ) -> BoxFuture<'a, UpstreamCredential> {
        Box::pin(std::future::ready(UpstreamCredential::NotNeeded))
    }
}

/// Result of a credential lookup.
#[derive(Debug, Clone)]
pub enum UpstreamCredential {
    /// The source needs no credential.
    NotNeeded,
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
    pub code: ErrorCode,
    /// Message, bounded by the pipeline, and marked as the upstream's if it is.
    pub message: String,
    /// Whether the request may have reached the tool. A request that was certainly not sent can be
    /// retried.
    pub dispatch: DispatchState,
    /// JSON-RPC error of the upstream, if that is its response.
    pub rpc_error: Option<Box<UpstreamRpcError>>,
}

/// JSON-RPC error of an upstream, for interfaces that speak JSON-RPC too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamRpcError {
    /// Error code of JSON-RPC.
    pub code: i64,
    /// Message of the upstream, bounded by the executor and not escaped.
    pub message: String,
    /// Additional error data as received, bounded by the executor.
    pub data: Option<Json>,
}

/// Whether the request may have reached the tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DispatchState {
    /// The request was certainly not sent.
    NotSent,
    /// The request may have been sent.
    MaybeSent,
}

impl ExecuteError {
    /// Creates an error for a request that was not sent.
    pub fn not_sent(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), dispatch: DispatchState::NotSent, rpc_error: None }
    }

    /// Creates an error for a request that may have been sent.
    pub fn maybe_sent(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), dispatch: DispatchState::MaybeSent, rpc_error: None }
    }
}
