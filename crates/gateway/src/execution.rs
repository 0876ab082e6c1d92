//! One execution: deadline, cancellation, grace period, panic, result size, outcome record.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::time::{sleep, timeout};
use tool::call_outcome::{CallFailure, CallStatus, OutcomeBody};
use tool::clock::duration_millis;
use tool::executor::PendingReason;
use tool::executor::{ClientRequester, DispatchState, PrincipalToken, TaskHandle};
use tool::{
    CallContext, ErrorCode, ExecuteError, ExecutionState, Executor, IntentReceipt, MonotonicTime,
    OutcomeRecord, RecordedCall, SandboxUsage,
};

use crate::background_work::run_blocking_if_large;
use crate::cancellation::{NoopProgress, TokenCancelSignal};
use crate::pipeline::ReadyCall;
use crate::principal_executor::CallPrincipal;
use crate::sanitizer::{self, SanitizedChannel};
use crate::{CallRequest, CallTarget};

/// Maximum length of a forwarded error message in characters.
const MAX_ERROR_CHARS: usize = 2_048;

/// Time limit of subscriptions: a day, so that none lasts for ever.
const SUBSCRIPTION_TIMEOUT: Duration = Duration::from_hours(24);

pub(crate) struct CallExecution {
    caller: CallPrincipal,
    started: MonotonicTime,
    request: Box<CallRequest>,
    ready: Box<ReadyCall>,
    pub(crate) cancellation: TokenCancelSignal,
}

/// Status of a call and its result.
pub(crate) type ExecutionResult = (CallStatus, Result<ExecutionState, CallFailure>);

impl CallExecution {
    pub(crate) fn new(
        caller: CallPrincipal,
        started: MonotonicTime,
        request: Box<CallRequest>,
        ready: Box<ReadyCall>,
    ) -> Self {
        let cancel = request.task.as_ref().map(|it| it.cancellation.clone()).unwrap_or_default();
        Self { caller, started, request, ready, cancellation: TokenCancelSignal(cancel) }
    }

    pub(crate) async fn run_and_record(self, receipt: IntentReceipt) -> ExecutionResult {
        let clock = &self.caller.gateway.components.clock;
        let sandbox_usage = OnceLock::new();
        let stepped = self.execute_recorded(&receipt, &sandbox_usage).await;
        let ended = self.sanitize_result(stepped).await;
        let elapsed = clock.monotonic_now().saturating_duration_since(self.started);
        let body = ended.1.as_ref().ok().and_then(result_body);
        let end = OutcomeRecord {
            recorded_at: clock.wall_now(),
            status: ended.0,
            code: ended.1.as_ref().err().map(|failure| failure.code),
            elapsed_ms: duration_millis(elapsed),
            result_bytes: body.as_ref().map_or(0, Bytes::len),
            result_digest: body.map(|body| {
                run_blocking_if_large(body.len(), || {
                    self.caller.gateway.keyed_hasher.hash_bytes(&body)
                })
            }),
            sandbox_usage: sandbox_usage.into_inner(),
        };
        match self
            .caller
            .gateway
            .components
            .ledger
            .record_outcome(receipt, end, self.ready.entry.required_durability())
            .await
        {
            Ok(()) => {
                self.notify_observer(ended.0);
                ended
            }
            Err(error) => {
                tracing::error!(
                    %error,
                    call = %self.ready.tool_call.id,
                    "cannot record the outcome"
                );
                let told = format!("the call ran, but its outcome cannot be recorded: {error}");
                (CallStatus::Unknown, Err(CallFailure::new(ErrorCode::RecordUnavailable, told)))
            }
        }
    }

    fn notify_observer(&self, status: CallStatus) {
        let observer = self.caller.gateway.call_observer.as_ref();
        if let Some(observer) = observer.filter(|_| status == CallStatus::Succeeded) {
            observer.notify_success(&self.caller.principal, &self.ready.tool_call.tool_key);
        }
    }

    async fn execute_recorded(
        &self,
        ticket: &IntentReceipt,
        sandbox_usage: &OnceLock<SandboxUsage>,
    ) -> Result<ExecutionState, ExecuteError> {
        let Some(granted) = RecordedCall::from_receipt(&self.ready.tool_call, ticket) else {
            return Err(ExecuteError::not_sent(
                ErrorCode::Internal,
                "the intent belongs to another call",
            ));
        };
        let limit = self.time_limit();
        let words = SanitizedChannel {
            progress: self.request.progress.as_deref().unwrap_or(&NoopProgress),
            client_requests: self.request.client_requests.as_deref(),
            task_handle: self.request.task.as_ref().map(|it| &*it.task),
        };
        let ctx = CallContext {
            caller: self.caller.principal.caller(),
            deadline: self.started.saturating_add(limit),
            cancel: &self.cancellation,
            progress: &words,
            client_capabilities: &self.request.client_capabilities,
            meta: self.request.meta.as_ref(),
            client_requests: words
                .client_requests
                .is_some()
                .then_some(&words as &dyn ClientRequester),
            task_handle: words.task_handle.is_some().then_some(&words as &dyn TaskHandle),
            credentials: self.caller.gateway.components.credentials.as_ref(),
            principal: Some(PrincipalToken::seal(&self.caller)),
            sandbox_usage: Some(sandbox_usage),
            answering_node: self.request.answering_node.as_deref(),
        };
        self.execute_with_deadline(self.ready.entry.executor.as_ref(), granted, &ctx, limit).await
    }

    /// Returns the tool's time limit, or the default, or the client's if that is shorter.
    fn time_limit(&self) -> Duration {
        let options = &self.caller.gateway.components.options;
        if self.request.is_long_lived && matches!(self.request.target, CallTarget::Method { .. }) {
            return SUBSCRIPTION_TIMEOUT;
        }
        let own = self.ready.tool_call.tool.traits.timeout.unwrap_or(options.default_timeout);
        let asked = self.request.timeout.unwrap_or(options.max_timeout);
        own.min(asked).min(options.max_timeout)
    }

    /// Executes until the result, the deadline or cancellation; after the latter two the executor
    /// has a grace period to stop, and then it is dropped.
    async fn execute_with_deadline(
        &self,
        executor: &dyn Executor,
        granted: RecordedCall<'_>,
        ctx: &CallContext<'_>,
        limit: Duration,
    ) -> Result<ExecutionState, ExecuteError> {
        // A panic fails one call, not the server.
        let running = executor.execute(granted, ctx);
        let mut running = pin!(AssertUnwindSafe(running).catch_unwind());
        let fault = |_| {
            Err(ExecuteError::maybe_sent(
                ErrorCode::Internal,
                "an internal error of the tool's \
                executor",
            ))
        };
        let mut longer = false;
        let stopped = loop {
            let left = if longer { self.task_extension(limit) } else { limit };
            tokio::select! {
                biased;
                stepped = &mut running => return stepped.unwrap_or_else(fault),
                () = sleep(left) => {
                    let more = self.task_extension(limit);
                    if !longer && !more.is_zero() {
                        longer = true;
                        continue;
                    }
                    let told = format!("Tool execution timed out ({}).", format_time_limit(limit + more));
                    break ExecuteError::maybe_sent(ErrorCode::Timeout, told);
                }
                () = self.cancellation.0.cancelled() => {
                    break ExecuteError::maybe_sent(ErrorCode::Cancelled, "the caller cancelled the \
                        call");
                }
            }
        };
        self.cancellation.0.cancel();
        let grace = self.caller.gateway.components.options.cancel_grace;
        // A result within the grace period states what happened, so it is used.
        match timeout(grace, running).await {
            Ok(Ok(Ok(ExecutionState::Completed(outcome)))) => {
                Ok(ExecutionState::Completed(outcome))
            }
            _ => Err(stopped),
        }
    }

    /// Returns the additional time of a call that became a task: its task's limit, unless the
    /// operator set a time limit for the tool.
    fn task_extension(&self, limit: Duration) -> Duration {
        let own = self.ready.tool_call.tool.traits.timeout.is_some();
        let held = self.request.task.as_ref().filter(|_| !own).and_then(|it| it.task.time_limit());
        held.unwrap_or_default().saturating_sub(limit)
    }

    async fn sanitize_result(
        &self,
        stepped: Result<ExecutionState, ExecuteError>,
    ) -> ExecutionResult {
        let step = match stepped {
            Ok(step) => step,
            Err(error) => return to_execution_result(error),
        };
        let (size, cap) =
            (result_size(&step), self.caller.gateway.components.options.max_result_bytes);
        if size > cap {
            if let Some(kept) = Box::pin(self.store_large_result(&step)).await {
                let failed =
                    matches!(&kept, ExecutionState::Completed(outcome) if outcome.is_error);
                return (if failed { CallStatus::Failed } else { CallStatus::Succeeded }, Ok(kept));
            }
            let told =
                format!("the tool ran, but its result has {size} bytes; the maximum is {cap}");
            return (CallStatus::Failed, Err(CallFailure::new(ErrorCode::TooLarge, told)));
        }
        let step = run_blocking_if_large(size, || sanitizer::sanitize_state(step));
        let status = match &step {
            ExecutionState::Completed(outcome) if outcome.is_error => CallStatus::Failed,
            ExecutionState::Completed(_) => CallStatus::Succeeded,
            ExecutionState::Pending(_) => CallStatus::Pending,
        };
        (status, Ok(step))
    }
}

impl CallExecution {
    /// Stores a result that is too large for its caller, and returns a preview with the location of
    /// the rest.
    async fn store_large_result(&self, step: &ExecutionState) -> Option<ExecutionState> {
        let (artefacts, ExecutionState::Completed(outcome)) =
            (self.caller.gateway.artifacts.as_ref()?, step)
        else {
            return None;
        };
        // Secrets are redacted before it is stored.
        let shaped = run_blocking_if_large(outcome.size_bytes(), || {
            sanitizer::sanitize_state(ExecutionState::Completed(outcome.clone()))
        });
        let ExecutionState::Completed(outcome) = shaped else { return None };
        let large = sanitizer::LargeResult {
            outcome: &outcome,
            has_schema: self.ready.entry.tool.output_schema.is_some(),
            max_result_bytes: self.caller.gateway.components.options.max_result_bytes,
        };
        match large.store_and_replace(artefacts.as_ref(), self.caller.principal.caller()).await {
            Ok(outcome) => Some(ExecutionState::Completed(outcome)),
            Err(error) => {
                tracing::warn!(
                    %error,
                    call = %self.ready.tool_call.id,
                    "cannot store a large result"
                );
                None
            }
        }
    }
}

/// Returns the part of a result that the record hashes.
fn result_body(step: &ExecutionState) -> Option<Bytes> {
    match step {
        ExecutionState::Completed(outcome) => {
            let (OutcomeBody::Value(json) | OutcomeBody::Mcp(json)) = &outcome.body;
            Some(json.bytes().clone())
        }
        ExecutionState::Pending(_) => None,
    }
}

fn result_size(step: &ExecutionState) -> usize {
    match step {
        ExecutionState::Completed(outcome) => outcome.size_bytes(),
        ExecutionState::Pending(PendingReason::Input {
            input_requests: requests,
            state: resume,
        }) => requests.bytes().len() + resume.len(),
        ExecutionState::Pending(_) => 0,
    }
}

fn to_execution_result(error: ExecuteError) -> ExecutionResult {
    let status =
        if error.code == ErrorCode::Cancelled { CallStatus::Cancelled } else { CallStatus::Failed };
    // An upstream's message is sanitized like a result; more than the shown part is sanitized, so
    // that a credential at the edge is still recognised.
    let long: String = error.message.chars().take(2 * MAX_ERROR_CHARS).collect();
    let mut message: String =
        sanitizer::sanitize_text(&long).chars().take(MAX_ERROR_CHARS).collect();
    if error.dispatch == DispatchState::MaybeSent && error.code == ErrorCode::UpstreamLost {
        message.push_str("; it may have run");
    }
    let rpc = error.rpc_error.map(|rpc| Box::new(sanitizer::sanitize_rpc_error(*rpc)));
    (status, Err(CallFailure { rpc_error: rpc, ..CallFailure::new(error.code, message) }))
}

/// Formats whole seconds without decimals, as the module API prints them; milliseconds below one.
fn format_time_limit(limit: Duration) -> String {
    if limit.subsec_millis() == 0 {
        return format!("{}s", limit.as_secs());
    }
    format!("{}ms", limit.as_millis())
}
