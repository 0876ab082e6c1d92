//! Sessions of the legacy era.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// The state of the session with one client.
#[derive(Debug)]
pub struct Session {
    /// The negotiated revision.
    pub(super) revision: String,
    /// The client capabilities.
    pub(super) capabilities: Value,
    level: AtomicUsize,
    next: AtomicU64,
    /// Server requests that wait for the client's answer.
    waiting: Mutex<HashMap<String, oneshot::Sender<Value>>>,
    /// Running client requests, by the text of their id.
    running: Mutex<HashMap<String, CancellationToken>>,
    /// Resources that the client subscribed to.
    watched: Mutex<HashSet<String>>,
    /// The remaining messages of closed streams, by last event id.
    rest: Mutex<HashMap<String, Value>>,
}

impl Session {
    pub(super) fn new(revision: &str, capabilities: Value) -> Self {
        Self {
            revision: revision.to_owned(),
            capabilities,
            level: AtomicUsize::default(),
            next: AtomicU64::default(),
            waiting: Mutex::default(),
            running: Mutex::default(),
            watched: Mutex::default(),
            rest: Mutex::default(),
        }
    }

    pub(super) fn level(&self) -> usize {
        self.level.load(Ordering::SeqCst)
    }

    pub(super) fn set_level(&self, level: usize) {
        self.level.store(level, Ordering::SeqCst);
    }

    /// Registers a server request; returns its id and the receiver of its answer.
    pub(super) fn expect(&self) -> (String, oneshot::Receiver<Value>) {
        let id = format!("ask-{}", self.next.fetch_add(1, Ordering::SeqCst));
        let (sender, receiver) = oneshot::channel();
        self.waiting.lock().unwrap().insert(id.clone(), sender);
        (id, receiver)
    }

    pub(super) fn forget(&self, id: &str) {
        self.waiting.lock().unwrap().remove(id);
    }

    /// Delivers an answer; returns whether anybody waited for it.
    pub(super) fn answered(&self, message: Value) -> bool {
        let id = message.get("id").and_then(Value::as_str).unwrap_or_default();
        let waiting = self.waiting.lock().unwrap().remove(id);
        waiting.is_some_and(|waiting| waiting.send(message).is_ok())
    }

    /// Registers a running request.
    pub(super) fn begin(&self, id: &Value) -> CancellationToken {
        let token = CancellationToken::new();
        self.running.lock().unwrap().insert(id.to_string(), token.clone());
        token
    }

    pub(super) fn end(&self, id: &Value) {
        self.running.lock().unwrap().remove(&id.to_string());
    }

    pub(super) fn cancel(&self, id: &Value) {
        if let Some(token) = self.running.lock().unwrap().remove(&id.to_string()) {
            token.cancel();
        }
    }

    pub(super) fn watch(&self, uri: &str, on: bool) {
        let mut watched = self.watched.lock().unwrap();
        if on {
            watched.insert(uri.to_owned());
        } else {
            watched.remove(uri);
        }
    }

    pub(super) fn watches(&self, uri: &str) -> bool {
        self.watched.lock().unwrap().contains(uri)
    }

    /// Stores the remaining message of a closed stream; returns the id of the event before it.
    pub(super) fn keep(&self, message: Value) -> String {
        let id = format!("stream-{}", self.next.fetch_add(1, Ordering::SeqCst));
        self.rest.lock().unwrap().insert(id.clone(), message);
        id
    }

    pub(super) fn rest(&self, id: &str) -> Option<Value> {
        self.rest.lock().unwrap().get(id).cloned()
    }
}
