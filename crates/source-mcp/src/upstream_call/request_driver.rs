//! Drives one request in flight. Forwards its events to the client of the call and returns the
//! client's answers to the server.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use ::mcp::{ProtocolEra, RequestId, RpcError, RpcRequest, error_codes};
use tokio::time::sleep;
use tool::executor::{ClientRequester, UpstreamRpcError};
use tool::{BoxFuture, ErrorCode, ExecuteError, ExecutionState, Json, PendingReason};

use super::UpstreamCall;
use super::call_mode::CallMode;
use super::input_rounds::ResumeState;
use crate::connection::McpConnection;
use crate::in_flight_request::{InFlightRequest, RequestEvent};
use crate::input_requests::{client_supports, missing_capability_error, request_input};
use crate::notifications::{PROGRESS_NOTIFICATION, ProgressParams};
use crate::pending_input::{MAX_PENDING, PendingInput, PendingInputOwner};
use tool::display_text::escape_and_truncate;

/// Maximum bytes of a progress notification that is forwarded unchanged, and characters of the text
/// of a longer one.
const PROGRESS_LIMITS: (usize, usize) = (4 << 10, 500);
/// Maximum input requests of one call.
const MAX_INPUT_REQUESTS: usize = 1_000;
/// Key of the only input request that a pending request waits for.
const INPUT_KEY: &str = "q1";
/// Maximum input requests of one call in the queue.
const MAX_QUEUED_INPUTS: usize = 16;
/// Time after which a slow call becomes a task.
const TASK_AFTER: Duration = Duration::from_millis(250);

/// Outcome of one request.
pub(super) enum RequestOutcome {
    Result(Json),
    Pending(ExecutionState),
}

/// Input requests that are open. A client that stores them for a person receives all at once, any
/// other client one at a time.
#[derive(Default)]
struct OpenInputRequests<'a> {
    total: usize,
    queued: VecDeque<RpcRequest>,
    running: Vec<(RequestId, BoxFuture<'a, Result<Json, RpcError>>)>,
}

impl<'a> OpenInputRequests<'a> {
    /// Sends queued requests to the client, up to its limit.
    fn start_queued(&mut self, client: &'a dyn ClientRequester, at_once: usize) {
        while self.running.len() < at_once {
            let Some(RpcRequest { id, method, params }) = self.queued.pop_front() else { return };
            let answer = async move { request_input(client, &method, params.as_ref()).await };
            let answer: BoxFuture<'a, _> = Box::pin(answer);
            self.running.push((id, answer));
        }
    }

    /// Returns the client's next answer; never resolves without open requests. Cancel-safe.
    async fn next_response(&mut self) -> (RequestId, Result<Json, RpcError>) {
        let (at, answer) = poll_fn(|cx| {
            let ready = self.running.iter_mut().enumerate().find_map(|(at, (_, answer))| {
                match answer.as_mut().poll(cx) {
                    Poll::Ready(answer) => Some((at, answer)),
                    Poll::Pending => None,
                }
            });
            ready.map_or(Poll::Pending, Poll::Ready)
        })
        .await;
        let (id, _) = self.running.remove(at);
        (id, answer)
    }

    /// Removes a request that the server cancelled.
    fn cancel_request(&mut self, id: &RequestId) {
        self.queued.retain(|question| question.id != *id);
        self.running.retain(|(request_id, _)| request_id != id);
    }
}

impl<'a> UpstreamCall<'a> {
    /// Returns where input requests go while the call runs: its task if it is one, or a live
    /// client.
    pub(super) fn input_channel(&self) -> Option<&'a dyn ClientRequester> {
        let client_task = self.ctx.task_handle.filter(|task| task.time_limit().is_some());
        client_task.map(|task| task as &dyn ClientRequester).or(self.ctx.client_requests)
    }

    fn start_queued_inputs<'b>(&self, open: &mut OpenInputRequests<'b>)
    where
        'a: 'b,
    {
        let is_task = self.ctx.task_handle.is_some_and(|task| task.time_limit().is_some());
        if let Some(client) = self.input_channel() {
            open.start_queued(client, if is_task { MAX_QUEUED_INPUTS } else { 1 });
        }
    }

    /// Drives a request to its answer, or to an input request that ends this call.
    pub(super) async fn drive_request(
        &self,
        mut request: InFlightRequest,
        mode: CallMode,
    ) -> Result<RequestOutcome, ExecuteError> {
        let mut open = OpenInputRequests::default();
        let link = Arc::clone(request.connection());
        let mut slow = (mode == CallMode::TaskIfSlow).then(|| Box::pin(sleep(TASK_AFTER)));
        loop {
            let event = tokio::select! {
                biased;
                event = request.next_event() => event.map_err(|why| self.delivery_error(why))?,
                (id, answer) = open.next_response(), if !open.running.is_empty() => {
                    Box::pin(self.respond_to_server(&link, &id, &answer)).await?;
                    self.start_queued_inputs(&mut open);
                    continue;
                }
                () = async { if let Some(slow) = &mut slow { slow.await } }, if slow.is_some() => {
                    slow = None;
                    self.convert_to_client_task(None);
                    continue;
                }
            };
            match event {
                RequestEvent::Response(Ok(result)) => return Ok(RequestOutcome::Result(result)),
                RequestEvent::Response(Err(error)) => {
                    return Err(self.server_error(&request, error));
                }
                RequestEvent::InvalidResponse(invalid) => {
                    return Err(self.rpc_error(invalid.into_error()));
                }
                RequestEvent::Progress(params) => self.forward_progress(&params),
                RequestEvent::Notification(notice) => {
                    let params = notice.params.unwrap_or_else(Json::empty_object);
                    self.ctx.progress.forward_notification(&notice.method, &params);
                }
                RequestEvent::InputRequestCancelled(id) => {
                    open.cancel_request(&id);
                    self.start_queued_inputs(&mut open);
                }
                RequestEvent::InputRequested(question) => {
                    if Box::pin(self.handle_input_request(&link, &question, &mut open)).await? {
                        return self
                            .suspend_for_input(request, question)
                            .map(RequestOutcome::Pending);
                    }
                }
            }
        }
    }

    /// Forwards all fields, known and unknown; of a longer notification only the known fields.
    fn forward_progress(&self, params: &Json) {
        if params.bytes().len() <= PROGRESS_LIMITS.0 {
            return self.ctx.progress.forward_notification(PROGRESS_NOTIFICATION, params);
        }
        if let Ok(step) = params.decode::<ProgressParams>() {
            let message = step.message.map(|text| escape_and_truncate(&text, PROGRESS_LIMITS.1));
            self.ctx.progress.report_progress(step.progress, step.total, message.as_deref());
        }
    }

    /// Forwards a request to the client or refuses it. Returns whether the client must be asked by
    /// ending this call.
    async fn handle_input_request<'b>(
        &self,
        link: &McpConnection,
        question: &RpcRequest,
        open: &mut OpenInputRequests<'b>,
    ) -> Result<bool, ExecuteError>
    where
        'a: 'b,
    {
        open.total += 1;
        if open.total > MAX_INPUT_REQUESTS {
            let error = format!("more than {MAX_INPUT_REQUESTS} input requests");
            return Err(self.invalid_answer_error(&error));
        }
        let client = self.input_channel();
        let why = match client {
            Some(_) if open.queued.len() < MAX_QUEUED_INPUTS => {
                open.queued.push_back(question.clone());
                self.start_queued_inputs(open);
                return Ok(false);
            }
            Some(_) => RpcError::new(
                error_codes::INTERNAL_ERROR,
                format!("{MAX_QUEUED_INPUTS} input requests are already queued, the maximum"),
            ),
            None if client_supports(self.ctx.client_capabilities, &question.method) => {
                return Ok(true);
            }
            None => RpcError::new(
                error_codes::METHOD_NOT_FOUND,
                format!("the client did not declare support for `{}`", question.method),
            ),
        };
        // The server gets an answer in any case, so that it does not wait forever.
        self.respond_to_server(link, &question.id, &Err(why)).await?;
        let reports_missing = client.is_none() && self.client_era() == ProtocolEra::Stateless;
        // A 2026-07-28 client learns what to declare and may call again. Servers can continue
        // without roots.
        if reports_missing && question.method != "roots/list" {
            return Err(self.missing_capability(&question.method));
        }
        Ok(false)
    }

    async fn respond_to_server(
        &self,
        link: &McpConnection,
        id: &RequestId,
        answer: &Result<Json, RpcError>,
    ) -> Result<(), ExecuteError> {
        link.respond_to_server(id, answer).await.map_err(|why| self.delivery_error(why))
    }

    fn suspend_for_input(
        &self,
        exchange: InFlightRequest,
        question: RpcRequest,
    ) -> Result<ExecutionState, ExecuteError> {
        let params = question.params.clone().unwrap_or_else(Json::empty_object);
        let method = Json::encode(&question.method);
        let input_request = Json::object_from([("method", &method), ("params", &params)]);
        let owner = PendingInputOwner::new(&self.call.tool_key, self.ctx.caller);
        let pending_input = PendingInput {
            in_flight: exchange,
            input_request: question,
            owner,
            limit_key_id: self.ctx.caller.limit_key_id().to_owned(),
        };
        let Ok(name) = self.supervisor.store_pending_input(pending_input) else {
            let name = &self.supervisor.name;
            let message = format!(
                "{MAX_PENDING} calls of the source `{name}` wait for input, the maximum; try again \
                 later"
            );
            return Err(ExecuteError::maybe_sent(ErrorCode::Busy, message));
        };
        let resume = ResumeState::InFlight(&name).encode_state();
        Ok(ExecutionState::Pending(PendingReason::Input {
            input_requests: Json::object_from([(INPUT_KEY, &input_request)]),
            state: resume,
        }))
    }

    /// Answers the input request of a pending request and continues it. If the answer is missing,
    /// the client is asked again.
    pub(super) async fn resume_with_input(
        &self,
        name: &[u8],
        answers: &Json,
    ) -> Result<Result<InFlightRequest, ExecutionState>, ExecuteError> {
        let owner = PendingInputOwner::new(&self.call.tool_key, self.ctx.caller);
        let pending_input = self
            .supervisor
            .take_pending_input(name, &owner)
            .ok_or_else(|| self.not_pending_error())?;
        self.was_sent.store(true, Ordering::Relaxed);
        let PendingInput { in_flight: exchange, input_request: question, .. } = pending_input;
        let Some(answer) = answers.get(INPUT_KEY) else {
            return self.suspend_for_input(exchange, question).map(Err);
        };
        let link = Arc::clone(exchange.connection());
        self.respond_to_server(&link, &question.id, &Ok(answer)).await?;
        Ok(Ok(exchange))
    }

    /// Error for a client that did not declare support for this method.
    pub(super) fn missing_capability(&self, method: &str) -> ExecuteError {
        let error = missing_capability_error(method);
        if self.client_era() == ProtocolEra::Handshake {
            let why = format!(
                "the input request `{method}`, which the client did not declare \
                support for"
            );
            return self.invalid_answer_error(&why);
        }
        let (code, message, data) = (error.code, error.message, error.data);
        let text = format!("the source `{}`: {message}", self.supervisor.name);
        let rpc = Some(Box::new(UpstreamRpcError { code, message, data }));
        ExecuteError { rpc_error: rpc, ..ExecuteError::maybe_sent(ErrorCode::UpstreamFailed, text) }
    }
}
