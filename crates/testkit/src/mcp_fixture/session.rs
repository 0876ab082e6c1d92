//! A session of the legacy era.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// What one client and this server remember of each other.
#[derive(Debug)]
pub struct Session {
    /// The revision they agreed on.
    pub(super) revision: String,
    /// What the client said it can do.
    pub(super) capabilities: Value,
    level: AtomicUsize,
    next: AtomicU64,
    /// Our requests that wait for the client's answer.
    waiting: Mutex<HashMap<String, oneshot::Sender<Value>>>,
    /// The client's requests that run, by the text of their id.
    running: Mutex<HashMap<String, CancellationToken>>,
    /// Resources whose changes it wants to hear of.
    watched: Mutex<HashSet<String>>,
    /// What a stream that was closed early still has to say, by its last event id.
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

    /// An id for a request of ours, and where its answer will come.
    pub(super) fn expect(&self) -> (String, oneshot::Receiver<Value>) {
        let id = format!("ask-{}", self.next.fetch_add(1, Ordering::SeqCst));
        let (sender, receiver) = oneshot::channel();
        self.waiting.lock().unwrap().insert(id.clone(), sender);
        (id, receiver)
    }

    pub(super) fn forget(&self, id: &str) {
        self.waiting.lock().unwrap().remove(id);
    }

    /// Hands on an answer; says whether anybody waited for it.
    pub(super) fn answered(&self, message: Value) -> bool {
        let id = message.get("id").and_then(Value::as_str).unwrap_or_default();
        let waiting = self.waiting.lock().unwrap().remove(id);
        waiting.is_some_and(|waiting| waiting.send(message).is_ok())
    }

    /// Notes a request that runs.
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

    /// Keeps what a closed stream still has to say; the id of the event that comes before it.
    pub(super) fn keep(&self, message: Value) -> String {
        let id = format!("stream-{}", self.next.fetch_add(1, Ordering::SeqCst));
        self.rest.lock().unwrap().insert(id.clone(), message);
        id
    }

    pub(super) fn rest(&self, id: &str) -> Option<Value> {
        self.rest.lock().unwrap().get(id).cloned()
    }
}
