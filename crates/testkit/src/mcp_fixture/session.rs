//! Sessions of the legacy era, MCP 2024-11-05 to 2025-11-25.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// The state of the session with one client.
#[derive(Debug)]
pub struct FixtureSession {
    /// The negotiated revision.
    pub(super) revision: String,
    /// The client capabilities.
    pub(super) capabilities: Value,
    log_level: AtomicUsize,
    next_id: AtomicU64,
    /// Server requests that wait for the client's answer.
    pending_answers: Mutex<HashMap<String, oneshot::Sender<Value>>>,
    /// Running client requests, by the text of their id.
    running_requests: Mutex<HashMap<String, CancellationToken>>,
    /// Resources that the client subscribed to.
    subscriptions: Mutex<HashSet<String>>,
    /// The remaining messages of closed streams, by last event id.
    stream_rests: Mutex<HashMap<String, Value>>,
}

impl FixtureSession {
    pub(super) fn new(protocol_version: &str, capabilities: Value) -> Self {
        Self {
            revision: protocol_version.to_owned(),
            capabilities,
            log_level: AtomicUsize::default(),
            next_id: AtomicU64::default(),
            pending_answers: Mutex::default(),
            running_requests: Mutex::default(),
            subscriptions: Mutex::default(),
            stream_rests: Mutex::default(),
        }
    }

    pub(super) fn log_level(&self) -> usize {
        self.log_level.load(Ordering::SeqCst)
    }

    pub(super) fn set_log_level(&self, level: usize) {
        self.log_level.store(level, Ordering::SeqCst);
    }

    /// Registers a server request; returns its id and the receiver of its answer.
    pub(super) fn expect_answer(&self) -> (String, oneshot::Receiver<Value>) {
        let id = format!("ask-{}", self.next_id.fetch_add(1, Ordering::SeqCst));
        let (sender, receiver) = oneshot::channel();
        self.pending_answers.lock().unwrap().insert(id.clone(), sender);
        (id, receiver)
    }

    pub(super) fn forget_answer(&self, id: &str) {
        self.pending_answers.lock().unwrap().remove(id);
    }

    /// Delivers an answer; returns whether anybody waited for it.
    pub(super) fn deliver_answer(&self, message: Value) -> bool {
        let id = message.get("id").and_then(Value::as_str).unwrap_or_default();
        let waiting = self.pending_answers.lock().unwrap().remove(id);
        waiting.is_some_and(|waiting| waiting.send(message).is_ok())
    }

    /// Registers a running request.
    pub(super) fn begin_request(&self, id: &Value) -> CancellationToken {
        let token = CancellationToken::new();
        self.running_requests.lock().unwrap().insert(id.to_string(), token.clone());
        token
    }

    pub(super) fn end_request(&self, id: &Value) {
        self.running_requests.lock().unwrap().remove(&id.to_string());
    }

    pub(super) fn cancel_request(&self, id: &Value) {
        if let Some(token) = self.running_requests.lock().unwrap().remove(&id.to_string()) {
            token.cancel();
        }
    }

    pub(super) fn set_subscription(&self, uri: &str, is_subscribed: bool) {
        let mut watched = self.subscriptions.lock().unwrap();
        if is_subscribed {
            watched.insert(uri.to_owned());
        } else {
            watched.remove(uri);
        }
    }

    pub(super) fn is_subscribed(&self, uri: &str) -> bool {
        self.subscriptions.lock().unwrap().contains(uri)
    }

    /// Stores the remaining message of a closed stream; returns the id of the event before it.
    pub(super) fn store_remaining_message(&self, message: Value) -> String {
        let id = format!("stream-{}", self.next_id.fetch_add(1, Ordering::SeqCst));
        self.stream_rests.lock().unwrap().insert(id.clone(), message);
        id
    }

    pub(super) fn take_remaining_message(&self, id: &str) -> Option<Value> {
        self.stream_rests.lock().unwrap().get(id).cloned()
    }
}
