//! What is in flight on one connection, and what becomes of each message that comes back.
//!
//! rmcp types every result, which loses fields it does not know and costs more than the rest of a
//! call. So the answers to our own requests are taken out here as the bytes they are; rmcp is told
//! that the request ended, and keeps ids, handshakes, cancellation and sessions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ErrorCode, ErrorData, GetExtensions as _,
    GetMeta as _, JsonRpcMessage, ProgressToken, RequestId, ServerJsonRpcMessage, ServerResult,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tool::Json;

/// Progress notices of one call that may wait for its executor; newer ones are dropped.
const PROGRESS_WAITING: usize = 16;

/// What a request of ours was answered with.
#[derive(Debug)]
pub(super) enum Answer {
    /// The `result`, as received.
    Result(Bytes),
    /// The `error`.
    Refused(Refusal),
}

/// A JSON-RPC error, its text cut to a bound by whoever shows it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Refusal {
    pub(super) code: i64,
    pub(super) message: String,
}

/// One progress notice.
#[derive(Debug, Deserialize)]
pub(super) struct Step {
    pub(super) progress: f64,
    pub(super) total: Option<f64>,
    pub(super) message: Option<String>,
}

/// A request of ours on its way: rides in the extensions of rmcp's message, never on the wire.
#[derive(Debug)]
pub(super) struct Lane {
    /// The arguments as they were checked, spliced into the message in place of rmcp's tree.
    pub(super) args: Option<Json>,
    /// Whether rmcp needs to see the result too (it reads header rules out of lists of tools).
    shared: bool,
    answer: Mutex<Option<oneshot::Sender<Answer>>>,
    progress: Option<mpsc::Sender<Step>>,
    /// Held as long as the message lies anywhere, also in a queue after its caller is gone.
    _slot: Option<OwnedSemaphorePermit>,
}

/// Where the answer to a [`Lane`] comes out.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) answer: oneshot::Receiver<Answer>,
    pub(super) progress: mpsc::Receiver<Step>,
}

impl Lane {
    /// For a call: with arguments, progress and a slot of its connection.
    pub(super) fn call(args: Json, slot: OwnedSemaphorePermit) -> (Arc<Self>, Ends) {
        Self::new(Some(args), false, Some(slot))
    }

    /// For a list.
    pub(super) fn list(shared: bool) -> (Arc<Self>, Ends) {
        Self::new(None, shared, None)
    }

    fn new(
        args: Option<Json>,
        shared: bool,
        slot: Option<OwnedSemaphorePermit>,
    ) -> (Arc<Self>, Ends) {
        let (answer, answered) = oneshot::channel();
        let (progress, progressed) = mpsc::channel(PROGRESS_WAITING);
        let lane = Self {
            args,
            shared,
            answer: Mutex::new(Some(answer)),
            progress: Some(progress),
            _slot: slot,
        };
        (Arc::new(lane), Ends { answer: answered, progress: progressed })
    }

    fn settle(&self, answer: Answer) {
        let sender = self.answer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(sender) = sender {
            // Nobody listens where the caller gave up.
            drop(sender.send(answer));
        }
    }
}

/// What a message of the server is to its connection.
#[derive(Debug)]
pub(super) enum Inbound {
    /// For rmcp.
    Pass(Box<ServerJsonRpcMessage>),
    /// A request of the server.
    Asked {
        /// Its id, as it came.
        id: Box<RawValue>,
        /// What it wants.
        method: String,
    },
    /// Dealt with, or of no interest.
    Quiet,
    /// Not a message of MCP; says why.
    Unreadable(String),
}

/// The requests of one connection that wait for their answers.
#[derive(Debug, Default)]
pub(super) struct Inflight {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    by_id: HashMap<RequestId, (Arc<Lane>, Option<ProgressToken>)>,
    by_token: HashMap<ProgressToken, Arc<Lane>>,
}

impl Open {
    fn leave(&mut self, id: &RequestId) -> Option<Arc<Lane>> {
        let (lane, token) = self.by_id.remove(id)?;
        if let Some(token) = token {
            self.by_token.remove(&token);
        }
        Some(lane)
    }
}

#[derive(Deserialize)]
struct Envelope<'a> {
    jsonrpc: Version,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
enum Version {
    #[serde(rename = "2.0")]
    Two,
}

impl Inflight {
    fn open(&self) -> std::sync::MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what goes out: a request with a lane enters, one that is cancelled leaves.
    pub(super) fn sent(&self, message: &ClientJsonRpcMessage) {
        match message {
            JsonRpcMessage::Request(request) => {
                let Some(lane) = request.request.extensions().get::<Arc<Lane>>().cloned() else {
                    return;
                };
                let token = request.request.get_meta().get_progress_token();
                let mut open = self.open();
                if let Some(token) = token.clone() {
                    open.by_token.insert(token, Arc::clone(&lane));
                }
                open.by_id.insert(request.id.clone(), (lane, token));
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.leave(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
    }

    /// Forgets one request; its answer, should it come, is of no interest.
    pub(super) fn leave(&self, id: &RequestId) {
        self.open().leave(id);
    }

    /// The connection is gone: whoever waits learns it now.
    pub(super) fn abandon(&self) {
        *self.open() = Open::default();
    }

    /// Ends the one request that waits, if it is the only one, and gives what rmcp is to be told: then a
    /// message that could not be kept was its answer, as far as anyone can tell.
    pub(super) fn refuse_only(&self, message: &str) -> Option<ServerJsonRpcMessage> {
        let only =
            |open: &Open| open.by_id.keys().next().filter(|_| open.by_id.len() == 1).cloned();
        let id = only(&self.open())?;
        self.refuse(&id, message)
    }

    /// Ends one request, and gives what rmcp is to be told.
    pub(super) fn refuse(&self, id: &RequestId, message: &str) -> Option<ServerJsonRpcMessage> {
        let lane = self.open().leave(id)?;
        lane.settle(Answer::Refused(Refusal { code: 0, message: message.to_owned() }));
        Some(told_refused(id.clone()))
    }

    /// Reads one message.
    pub(super) fn read(&self, text: &Bytes) -> Inbound {
        let text = match text.strip_prefix(b"\xEF\xBB\xBF") {
            Some(rest) => &text.slice_ref(rest),
            None => text,
        };
        let envelope: Envelope<'_> = match serde_json::from_slice(text) {
            Ok(envelope) => envelope,
            Err(error) => return Inbound::Unreadable(error.to_string()),
        };
        let Version::Two = envelope.jsonrpc;
        match (&envelope.method, envelope.id, envelope.result, envelope.error) {
            (Some(method), Some(id), None, None) => {
                Inbound::Asked { id: id.to_owned(), method: method.clone() }
            }
            (Some(method), None, None, None) => self.notice(method, envelope.params, text),
            (None, Some(id), Some(result), None) => {
                let result = text.slice_ref(result.get().as_bytes());
                self.answered(id, || Answer::Result(result), text)
            }
            (None, Some(id), None, Some(error)) => {
                self.answered(id, || Answer::Refused(refusal(error)), text)
            }
            // An error that names no request: rmcp takes it for the handshake's.
            (None, None, None, Some(_)) => typed(text),
            _ => Inbound::Unreadable("neither a request, a notification nor an answer".to_owned()),
        }
    }

    fn notice(&self, method: &str, params: Option<&RawValue>, text: &Bytes) -> Inbound {
        match method {
            "notifications/progress" => {
                self.progress(params);
                Inbound::Quiet
            }
            "notifications/tools/list_changed"
            | "notifications/prompts/list_changed"
            | "notifications/resources/list_changed"
            | "notifications/cancelled"
            | "notifications/subscriptions/acknowledged" => typed(text),
            _ => Inbound::Quiet,
        }
    }

    fn progress(&self, params: Option<&RawValue>) {
        #[derive(Deserialize)]
        struct Named {
            #[serde(rename = "progressToken")]
            token: ProgressToken,
            #[serde(flatten)]
            step: Step,
        }
        let named = params.and_then(|params| serde_json::from_str::<Named>(params.get()).ok());
        let Some(Named { token, step }) = named else { return };
        let lane = self.open().by_token.get(&token).cloned();
        if let Some(progress) = lane.as_ref().and_then(|lane| lane.progress.as_ref()) {
            // Lossy on purpose: a server that tells too much waits for nobody.
            drop(progress.try_send(step));
        }
    }

    fn answered(&self, id: &RawValue, answer: impl FnOnce() -> Answer, text: &Bytes) -> Inbound {
        let Some((id, lane)) = self.take(id) else { return typed(text) };
        let answer = answer();
        let told = match &answer {
            Answer::Result(_) if lane.shared => match typed(text) {
                Inbound::Pass(message) => *message,
                _ => ServerJsonRpcMessage::response(ServerResult::empty(()), id),
            },
            Answer::Result(_) => ServerJsonRpcMessage::response(ServerResult::empty(()), id),
            Answer::Refused(_) => told_refused(id),
        };
        lane.settle(answer);
        Inbound::Pass(Box::new(told))
    }

    /// Servers that write our number back as a text are understood, as rmcp does.
    fn take(&self, raw: &RawValue) -> Option<(RequestId, Arc<Lane>)> {
        let id: RequestId = serde_json::from_str(raw.get()).ok()?;
        let mut open = self.open();
        if let Some(lane) = open.leave(&id) {
            return Some((id, lane));
        }
        let RequestId::String(text) = &id else { return None };
        let id = RequestId::Number(text.parse().ok()?);
        open.leave(&id).map(|lane| (id, lane))
    }
}

/// For rmcp, which only needs to know that the request ended.
fn told_refused(id: RequestId) -> ServerJsonRpcMessage {
    let error = ErrorData::new(ErrorCode::INTERNAL_ERROR, "the request was refused", None);
    ServerJsonRpcMessage::error(error, Some(id))
}

fn refusal(error: &RawValue) -> Refusal {
    serde_json::from_str(error.get())
        .unwrap_or_else(|_| Refusal { code: 0, message: error.get().to_owned() })
}

fn typed(text: &Bytes) -> Inbound {
    match serde_json::from_slice(text) {
        Ok(message) => Inbound::Pass(Box::new(message)),
        Err(error) => Inbound::Unreadable(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
