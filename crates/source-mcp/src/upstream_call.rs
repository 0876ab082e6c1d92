//! One call to an MCP server: sends the request, handles progress and input requests, and repeats
//! it for further rounds. Returns the outcome, a pending state or an error.

mod call_mode;
mod input_rounds;
mod remote_task;
mod request_driver;
mod task_polling;
mod task_result;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::mcp::headers::ArgumentHeaders;
use ::mcp::meta::{self, ForwardedMeta};
use ::mcp::{ProtocolEra, ProtocolVersion, RpcError, error_codes};
use tool::executor::{DispatchState, UpstreamRpcError};
use tool::{CallContext, ErrorCode, ExecuteError, ExecutionState, Json, ToolCall};

use super::connection::{DeliveryError, McpConnection};
use super::delivery_errors::describe_rpc_error;
use super::in_flight_request::{CallRequestContext, InFlightRequest, RequestOrigin};
use super::input_requests::forwarded_capabilities;
use super::outgoing_request::{OutgoingRequest, RequestParams};
use super::pipe_transport::CloseReason;
use super::server_supervisor::ServerSupervisor;
use super::tool_executor::TaskSupport;

use call_mode::CallMode;
use input_rounds::{ResumeState, RoundCounter, RoundOutcome};
use request_driver::RequestOutcome;
use task_result::strip_related_task;

/// Message for an unexpected answer that is a task.
const UNEXPECTED_TASK: &str = "a task, which was not requested";
/// Maximum characters of an upstream error message, and bytes of its data.
const ERROR_LIMITS: (usize, usize) = (4_096, 64 << 10);

/// Request to execute at the server.
#[derive(Debug)]
pub(super) struct CallSpec<'a> {
    pub(super) method: &'a str,
    pub(super) params: RequestParams<'a>,
    /// Arguments that are repeated in headers.
    pub(super) argument_headers: Option<&'a ArgumentHeaders>,
    /// Whether it can be sent only in the era that requires no headers.
    pub(super) is_handshake_only: bool,
    /// Whether it is called as a task.
    pub(super) task_support: TaskSupport,
}

/// How a pending call resumes.
enum ResumeAction {
    /// Continues with a request in flight, or sends a new one.
    Continue(Option<Box<InFlightRequest>>),
    /// Ends with this state, without a further request.
    Finish(ExecutionState),
}

/// One call to a server.
pub(super) struct UpstreamCall<'a> {
    pub(super) supervisor: &'a Arc<ServerSupervisor>,
    pub(super) call: &'a ToolCall,
    pub(super) ctx: &'a CallContext<'a>,
    /// Metadata that the client sent beside its params.
    forwarded_meta: ForwardedMeta,
    was_sent: AtomicBool,
}

impl<'a> UpstreamCall<'a> {
    pub(super) fn new(
        supervisor: &'a Arc<ServerSupervisor>,
        call: &'a ToolCall,
        ctx: &'a CallContext<'a>,
    ) -> Self {
        Self {
            supervisor,
            call,
            ctx,
            forwarded_meta: ctx.meta.map(meta::forwarded_meta).unwrap_or_default(),
            was_sent: AtomicBool::new(false),
        }
    }

    /// Runs the call until it ends or is cancelled. Cancellation drops the request in flight, which
    /// notifies the server.
    pub(super) async fn run_call(
        &self,
        spec: CallSpec<'_>,
    ) -> Result<ExecutionState, ExecuteError> {
        // Checked before anything is sent. After that the rounds are polled first: once they have
        // ended, the cancellation is irrelevant.
        if self.ctx.cancel.is_cancelled() {
            return Err(self.cancelled_error());
        }
        tokio::select! {
            biased;
            result = self.run_rounds(spec) => result,
            () = self.ctx.cancel.cancelled() => Err(self.cancelled_error()),
        }
    }

    /// Error for a call that was cancelled.
    pub(super) fn cancelled_error(&self) -> ExecuteError {
        let message = "the call was cancelled";
        if self.was_sent.load(Ordering::Relaxed) {
            ExecuteError::maybe_sent(ErrorCode::Cancelled, message)
        } else {
            ExecuteError::not_sent(ErrorCode::Cancelled, message)
        }
    }

    /// Returns the era of the client; the older era for a call without an MCP client.
    pub(super) fn client_era(&self) -> ProtocolEra {
        let version = self.forwarded_meta.protocol_version.as_ref().and_then(Json::string_value);
        version
            .and_then(|version| ProtocolVersion::parse(&version))
            .map_or(ProtocolEra::Handshake, ProtocolVersion::era)
    }

    /// Returns the connection once it is up: of this era if the server speaks it.
    pub(super) async fn wait_for_connection(
        &self,
        era: ProtocolEra,
    ) -> Result<Arc<McpConnection>, ExecuteError> {
        let name = &self.supervisor.name;
        self.supervisor.start();
        self.supervisor.connection_for_era(era).await.map_err(|fault| {
            let needs_login = fault.needs_login();
            let code =
                if needs_login { ErrorCode::CredentialMissing } else { ErrorCode::UpstreamLost };
            // The caller may be the one who can log in.
            let fix = fault
                .help
                .filter(|_| needs_login)
                .map(|fix| format!("; {fix}"))
                .unwrap_or_default();
            let message = format!("the source `{name}` is unavailable: it {}{fix}", fault.message);
            ExecuteError::not_sent(code, message)
        })
    }

    async fn run_rounds(&self, job: CallSpec<'_>) -> Result<ExecutionState, ExecuteError> {
        let mut request = self.build_request(&job);
        let mut resumed_request = None;
        if self.call.resumption.is_some() {
            // Boxed: rare, so it must not enlarge the future of every call.
            match Box::pin(self.resume_call(&mut request)).await? {
                ResumeAction::Continue(exchange) => {
                    resumed_request = exchange.map(|exchange| *exchange);
                }
                ResumeAction::Finish(step) => return Ok(step),
            }
        }
        let era = if job.is_handshake_only { ProtocolEra::Handshake } else { self.client_era() };
        let link = match &resumed_request {
            Some(exchange) => Arc::clone(exchange.connection()),
            None => self.wait_for_connection(era).await?,
        };
        self.adapt_to_era(&mut request, link.era())?;
        let mode = self.choose_mode(&job, &link, &mut request)?;
        let mut rounds = RoundCounter::default();
        loop {
            let exchange = match resumed_request.take() {
                Some(exchange) => exchange,
                None => self
                    .send_request(&link, &request, (job.argument_headers, None))
                    .await
                    .map_err(|error| rounds.adjust_dispatch(error))?,
            };
            let outcome = self.drive_request(exchange, mode).await.map_err(|error| {
                rounds.adjust_dispatch(self.translate_error_code(error, (job.method, link.era())))
            });
            let result = match outcome {
                Ok(RequestOutcome::Result(result)) if request.task_params.is_some() => {
                    strip_related_task(result)
                }
                Ok(RequestOutcome::Result(result)) => result,
                Ok(RequestOutcome::Pending(step)) => return Ok(step),
                Err(error) if self.declare_tasks_if_required(&error, &mut request) => continue,
                Err(error) => return Err(error),
            };
            if request.task_params.is_some() && self.call.resumption.is_none() {
                return Box::pin(self.follow_task(&link, &result)).await;
            }
            match self.interpret_result(result, link.era(), &mut rounds).await? {
                RoundOutcome::Finish(step) => return Ok(step),
                RoundOutcome::Task(result)
                    if mode == CallMode::Task && link.negotiated().capabilities.tasks.is_some() =>
                {
                    return Box::pin(self.follow_task(&link, &result)).await;
                }
                RoundOutcome::Task(_) => return Err(self.invalid_answer_error(UNEXPECTED_TASK)),
                RoundOutcome::Retry { input_responses: answers, request_state: state } => {
                    request.input_responses = answers;
                    request.request_state = state;
                }
            }
        }
    }

    /// Adds what the connection's era carries to the request.
    fn adapt_to_era(
        &self,
        request: &mut OutgoingRequest<'_>,
        era: ProtocolEra,
    ) -> Result<(), ExecuteError> {
        match era {
            ProtocolEra::Handshake if request.input_responses.is_some() => {
                return Err(self.not_pending_error());
            }
            ProtocolEra::Handshake => {}
            ProtocolEra::Stateless => {
                request.client_capabilities = forwarded_capabilities(
                    self.ctx.client_capabilities,
                    &self.supervisor.options.extensions,
                );
                if self.call.resumption.is_none() {
                    request.input_responses.clone_from(&self.call.unsolicited_input);
                }
            }
        }
        Ok(())
    }

    /// Returns how a pending call resumes.
    async fn resume_call(
        &self,
        request: &mut OutgoingRequest<'_>,
    ) -> Result<ResumeAction, ExecuteError> {
        let Some(resume) = &self.call.resumption else { return Ok(ResumeAction::Continue(None)) };
        match ResumeState::decode_state(&resume.state).ok_or_else(|| self.not_pending_error())? {
            ResumeState::InFlight(name) => {
                Ok(match self.resume_with_input(name, &resume.input_responses).await? {
                    Ok(exchange) => ResumeAction::Continue(Some(Box::new(exchange))),
                    Err(asked_again) => ResumeAction::Finish(asked_again),
                })
            }
            ResumeState::RequestState(state) => {
                request.input_responses = Some(resume.input_responses.clone());
                request.request_state = state;
                Ok(ResumeAction::Continue(None))
            }
            ResumeState::Task(task) => Box::pin(self.resume_task(&task, &resume.input_responses))
                .await
                .map(ResumeAction::Finish),
        }
    }

    fn build_request<'b>(&self, job: &CallSpec<'b>) -> OutgoingRequest<'b> {
        OutgoingRequest {
            method: job.method,
            params: job.params.clone(),
            forwarded_meta: self.forwarded_meta.members.clone(),
            client_capabilities: Json::empty_object(),
            log_level: self.forwarded_meta.log_level.clone(),
            wants_progress: self.ctx.progress.has_listener(),
            input_responses: None,
            request_state: None,
            task_params: None,
        }
    }

    async fn send_request(
        &self,
        link: &Arc<McpConnection>,
        request: &OutgoingRequest<'_>,
        (mirror, task): (Option<&ArgumentHeaders>, Option<&str>),
    ) -> Result<InFlightRequest, ExecuteError> {
        let slot = link.acquire_call_permit().map_err(|why| self.delivery_error(why))?;
        self.was_sent.store(true, Ordering::Relaxed);
        let mirror = mirror.map(|mirror| (mirror, self.call.arguments.as_value()));
        let calling = CallRequestContext {
            permit: slot,
            argument_headers: mirror,
            caller: self.ctx.caller,
            task_id: task,
        };
        let sent = link.start_request(request, RequestOrigin::Call(calling)).await;
        sent.map_err(|why| self.delivery_error(why))
    }

    pub(super) fn not_pending_error(&self) -> ExecuteError {
        let name = &self.supervisor.name;
        let message = format!(
            "the pending call no longer exists at the source `{name}`; make the call again"
        );
        ExecuteError::not_sent(ErrorCode::InvalidRequest, message)
    }

    /// Error for an answer that cannot be used.
    pub(super) fn invalid_answer_error(&self, reason: &str) -> ExecuteError {
        let name = &self.supervisor.name;
        ExecuteError::maybe_sent(
            ErrorCode::UpstreamFailed,
            format!("the source `{name}` answered: {reason}"),
        )
    }

    /// Converts the server's JSON-RPC error.
    fn server_error(&self, exchange: &InFlightRequest, error: RpcError) -> ExecuteError {
        if error.code == error_codes::UNSUPPORTED_VERSION
            && exchange.connection().era() == ProtocolEra::Stateless
        {
            let why = "no longer supports the negotiated MCP version".to_owned();
            exchange.connection().context.close_signal.close_with(CloseReason::SessionLost(why));
        }
        self.rpc_error(error)
    }

    /// Revisions before 2026-07-28 have their own code for a missing resource.
    fn translate_error_code(
        &self,
        mut error: ExecuteError,
        (method, era): (&str, ProtocolEra),
    ) -> ExecuteError {
        let is_older_client =
            self.client_era() == ProtocolEra::Handshake && era == ProtocolEra::Stateless;
        if let Some(rpc) =
            error.rpc_error.as_mut().filter(|_| is_older_client && method == "resources/read")
            && rpc.code == error_codes::INVALID_PARAMS
        {
            rpc.code = error_codes::RESOURCE_NOT_FOUND;
        }
        error
    }

    /// Wraps a server's error and adds a message of Toolkeep.
    pub(super) fn rpc_error(&self, error: RpcError) -> ExecuteError {
        let failed = self.invalid_answer_error(&describe_rpc_error(&error));
        // Code zero is Toolkeep's own, for errors that are not JSON-RPC errors.
        let rpc = (error.code != 0).then(|| {
            let message = error.message.chars().take(ERROR_LIMITS.0).collect();
            let data = error.data.filter(|data| data.bytes().len() <= ERROR_LIMITS.1);
            Box::new(UpstreamRpcError { code: error.code, message, data })
        });
        ExecuteError { rpc_error: rpc, ..failed }
    }

    pub(super) fn delivery_error(&self, reason: DeliveryError) -> ExecuteError {
        super::delivery_errors::to_call_error(
            &self.supervisor.name,
            reason,
            self.supervisor.options.limits.max_in_flight_calls,
        )
    }
}

impl RoundCounter {
    /// A call that fails in a later round may have been executed in an earlier one.
    fn adjust_dispatch(&self, error: ExecuteError) -> ExecuteError {
        let sent = if self.is_first() { error.dispatch } else { DispatchState::MaybeSent };
        ExecuteError { dispatch: sent, ..error }
    }
}
