//! Calls of a source for events, through the pipeline like all others: one poll, or one stream.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use gateway::CallRequest;
use mcp::{ProtocolVersion, events, meta};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;
use tool::call_outcome::{CallFailure, CallResponse};
use tool::executor::{ClientCapabilities, ProgressSink};
use tool::{ErrorCode, ExecutionState, Interface, Json, Outcome, OutcomeBody};

use super::source_page::{SourceEvent, SourcePage, read_cursor, read_error};
use super::source_subscription::{STREAM_METHOD, SourceEvents, SourcePosition, SourceSubscription};
use crate::McpServerState;
use crate::source_items::EVENT_METHOD;

/// Maximum number of messages of a stream that wait for a slow reader. The next one ends the stream,
/// which the reader opens anew at its position.
const MAX_QUEUED: usize = 16;

/// The params of a call: the words of the source.
fn call_params(events: &SourceEvents, position: &SourcePosition, limit: Option<usize>) -> Json {
    let members = [
        Some(("name", Json::encode(&events.own_name))),
        events.arguments.clone().map(|arguments| ("arguments", arguments)),
        Some(("cursor", Json::encode(&position.cursor))),
        position.max_age_ms.map(|age| ("maxAgeMs", Json::encode(&age))),
        limit.map(|limit| ("maxEvents", Json::encode(&limit))),
    ];
    let members: Vec<_> = members.into_iter().flatten().collect();
    Json::object_from(members.iter().map(|(key, value)| (*key, value)))
}

/// A call of one of the methods. The client of the source is this server, which knows the extension and
/// answers no requests.
fn call_request(events: &SourceEvents, method: &'static str, params: &Json) -> Box<CallRequest> {
    let target = events.call_target(method);
    let mut request =
        Box::new(CallRequest::for_target(target, params.bytes().clone(), Interface::Mcp));
    let extensions = Json::object_from([(events::EVENTS_EXTENSION, &Json::empty_object())]);
    let capabilities = Json::object_from([("extensions", &extensions)]);
    request.client_capabilities =
        ClientCapabilities { raw: Some(capabilities), ..ClientCapabilities::default() };
    let version = Json::encode(ProtocolVersion::LATEST.as_str());
    request.meta = Some(Json::object_from([(meta::PROTOCOL_VERSION, &version)]));
    request
}

async fn run_call(
    state: &McpServerState,
    subscription: &SourceSubscription,
    request: Box<CallRequest>,
) -> Result<Json, CallFailure> {
    let principal = &subscription.principal;
    let answer: CallResponse = state.components.gateway.call_tool(principal, request).await;
    state.metrics.observe_call(Interface::Mcp, &answer);
    match answer.result? {
        ExecutionState::Completed(Outcome { body, .. }) => {
            let (OutcomeBody::Value(result) | OutcomeBody::Mcp(result)) = body;
            Ok(result)
        }
        ExecutionState::Pending(_) => Err(CallFailure::new(
            ErrorCode::Denied,
            "events are not delivered by calls that wait for an approval or an input",
        )),
    }
}

/// The failure of a source whose answer cannot be used.
fn invalid_answer(source: &str, why: &str) -> CallFailure {
    CallFailure::new(ErrorCode::UpstreamFailed, format!("the source `{source}` answered: {why}"))
}

/// Polls the source for at most `limit` events.
pub(super) async fn poll_source(
    state: &McpServerState,
    subscription: &SourceSubscription,
    (position, limit): (&SourcePosition, usize),
) -> Result<SourcePage, CallFailure> {
    let events = &subscription.events;
    let params = call_params(events, position, Some(limit));
    let request = call_request(events, EVENT_METHOD, &params);
    let result = run_call(state, subscription, request).await?;
    let page = events.read_page(&result, limit);
    page.map_err(|why| invalid_answer(&events.source, why))
}

/// A message of a stream.
#[derive(Debug)]
pub(super) enum StreamMessage {
    /// The stream begins, or goes on after a gap.
    Active {
        cursor: Option<String>,
        is_truncated: bool,
    },
    Event(SourceEvent),
    /// The source has checked up to this position.
    Heartbeat(Option<String>),
    /// A failure after which the stream goes on.
    Error(Json),
    /// The source ended the subscription.
    Terminated(Json),
}

/// Why a stream has no more messages.
#[derive(Debug)]
pub(super) enum StreamEnd {
    /// The reader was too slow.
    Overtaken,
    /// The source ended the stream.
    Ended,
    Failed(CallFailure),
}

/// An open stream of a source. It ends when it is dropped.
#[derive(Debug)]
pub(super) struct SourceStream {
    messages: mpsc::Receiver<StreamMessage>,
    is_overtaken: Arc<AtomicBool>,
    end: oneshot::Receiver<Result<Json, CallFailure>>,
    _task: AbortOnDropHandle<()>,
}

/// Receives the notifications of the call, until its queue is full.
#[derive(Debug)]
struct MessageSink {
    events: Arc<SourceEvents>,
    queue: Mutex<Option<mpsc::Sender<StreamMessage>>>,
    /// Whether the queue was full, so that messages are missing.
    is_overtaken: Arc<AtomicBool>,
}

impl MessageSink {
    fn read_message(&self, method: &str, params: &Json) -> Option<StreamMessage> {
        let cursor = || read_cursor(params.get("cursor").as_ref()).ok().flatten();
        match method {
            events::ACTIVE_NOTIFICATION => {
                let is_truncated =
                    params.get("truncated").is_some_and(|truncated| truncated.as_str() == "true");
                Some(StreamMessage::Active { cursor: cursor(), is_truncated })
            }
            events::EVENT_NOTIFICATION => match self.events.read_event(params) {
                Some(event) => Some(StreamMessage::Event(event)),
                // What cannot be delivered is a gap.
                None => Some(StreamMessage::Active { cursor: cursor(), is_truncated: true }),
            },
            events::HEARTBEAT_NOTIFICATION => Some(StreamMessage::Heartbeat(cursor())),
            events::ERROR_NOTIFICATION => read_error(params).map(StreamMessage::Error),
            events::TERMINATED_NOTIFICATION => {
                let error = read_error(params).unwrap_or_else(super::event_errors::access_revoked);
                Some(StreamMessage::Terminated(error))
            }
            _ => None,
        }
    }
}

impl ProgressSink for MessageSink {
    fn report_progress(&self, _: f64, _: Option<f64>, _: Option<&str>) {}

    fn forward_notification(&self, method: &str, params: &Json) {
        let Some(message) = self.read_message(method, params) else { return };
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.as_ref().is_some_and(|queue| queue.try_send(message).is_err()) {
            self.is_overtaken.store(true, Ordering::Release);
            *queue = None;
        }
    }
}

impl SourceStream {
    /// Opens a stream at this position.
    pub(super) fn open(
        state: &McpServerState,
        subscription: &SourceSubscription,
        position: &SourcePosition,
    ) -> Self {
        let events = Arc::clone(&subscription.events);
        let params = call_params(&events, position, None);
        let mut request = call_request(&events, STREAM_METHOD, &params);
        request.is_long_lived = true;
        let (queue, messages) = mpsc::channel(MAX_QUEUED);
        let (queue, is_overtaken) = (Mutex::new(Some(queue)), Arc::<AtomicBool>::default());
        let sink = MessageSink { events, queue, is_overtaken: Arc::clone(&is_overtaken) };
        request.progress = Some(Arc::new(sink));
        let (end, ended) = oneshot::channel();
        let (own_state, subscription) = (state.clone(), subscription.clone());
        let task = state.mcp_components.background_tasks.spawn(async move {
            let result = run_call(&own_state, &subscription, request).await;
            // The reader may be gone.
            drop(end.send(result));
        });
        Self { messages, is_overtaken, end: ended, _task: AbortOnDropHandle::new(task) }
    }

    /// Returns the next message, or why there is none. Cancel-safe.
    pub(super) async fn next_message(&mut self) -> Result<StreamMessage, StreamEnd> {
        if let Some(message) = self.messages.recv().await {
            return Ok(message);
        }
        if self.is_overtaken.load(Ordering::Acquire) {
            return Err(StreamEnd::Overtaken);
        }
        match (&mut self.end).await {
            Ok(Err(failure)) => Err(StreamEnd::Failed(failure)),
            Ok(Ok(_)) | Err(_) => Err(StreamEnd::Ended),
        }
    }
}
