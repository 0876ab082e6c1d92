//! The in-process state of a session: its GET stream, log level, pending client requests and
//! subscriptions.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcp::{RequestId, RpcError};
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;
use tool::Json;

use super::event_sink::EventSink;
use super::log_level::LogLevel;
use super::resource_subscriptions::MAX_SUBSCRIPTIONS;
use super::running_requests::RunningRequests;

/// Maximum number of pending requests to one client.
const MAX_PENDING_REQUESTS: usize = 64;

/// The result or error with which a client responded to a request.
pub(crate) type ClientResponse = Result<Json, RpcError>;

/// The in-process state of one session.
#[derive(Debug, Default)]
pub(crate) struct SessionRuntime {
    last_used: AtomicU64,
    request_counter: AtomicU64,
    /// Level updates of the sources: 0 none, 1 being sent, 2 being sent and due again.
    level_updates: AtomicU8,
    pub(crate) running_requests: Arc<RunningRequests>,
    inner: Mutex<RuntimeState>,
}

#[derive(Debug, Default)]
struct RuntimeState {
    /// The stream opened by GET.
    stream: Option<Arc<EventSink>>,
    log_level: Option<LogLevel>,
    pending_requests: HashMap<u64, oneshot::Sender<ClientResponse>>,
    subscriptions: HashMap<String, AbortOnDropHandle<()>>,
}

impl SessionRuntime {
    fn lock_state(&self) -> MutexGuard<'_, RuntimeState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn mark_used(&self, tick: u64) {
        self.last_used.store(tick, Ordering::Relaxed);
    }

    pub(crate) fn last_used(&self) -> u64 {
        self.last_used.load(Ordering::Relaxed)
    }

    /// Whether the session has a stream, a pending request, a subscription or a running request.
    pub(crate) fn is_busy(&self) -> bool {
        let inner = self.lock_state();
        let streams = inner.stream.as_ref().is_some_and(|stream| !stream.is_closed());
        streams
            || !inner.pending_requests.is_empty()
            || !inner.subscriptions.is_empty()
            || !self.running_requests.is_empty()
    }

    /// The minimum level of log messages; `None` if the client did not set it.
    pub(crate) fn log_level(&self) -> Option<LogLevel> {
        self.lock_state().log_level
    }

    pub(crate) fn set_log_level(&self, level: LogLevel) {
        self.lock_state().log_level = Some(level);
    }

    /// Requests that the sources receive the level. Returns true if the caller has to send it: whoever
    /// sends already sends again.
    pub(crate) fn begin_level_update(&self) -> bool {
        self.level_updates
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| Some((state + 1).min(2)))
            .is_ok_and(|state| state == 0)
    }

    /// Ends an update that was sent. Returns true if another one is due.
    pub(crate) fn finish_level_update(&self) -> bool {
        self.level_updates
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
                Some(state.saturating_sub(1))
            })
            .is_ok_and(|state| state > 1)
    }

    /// Replaces the GET stream and closes the previous one.
    pub(crate) fn set_stream(&self, stream: Arc<EventSink>) {
        let before = self.lock_state().stream.replace(stream);
        if let Some(before) = before {
            before.close();
        }
    }

    /// Sends a notification on the GET stream; does nothing without a stream.
    pub(crate) fn send_notification(&self, event: bytes::Bytes) {
        let stream = self.lock_state().stream.clone();
        if let Some(stream) = stream {
            stream.send_notification(event);
        }
    }

    /// Sends an event that must not be lost on the GET stream. Returns false if that is not
    /// possible.
    pub(crate) fn send_required(&self, event: bytes::Bytes) -> bool {
        let stream = self.lock_state().stream.clone();
        stream.is_some_and(|stream| stream.send_required(event))
    }

    /// Registers a client request and returns it with the receiver of its response. `None` if too
    /// many are pending.
    pub(crate) fn register_client_request(
        self: &Arc<Self>,
    ) -> Option<(PendingClientRequest, oneshot::Receiver<ClientResponse>)> {
        let number = self.request_counter.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, receiver) = oneshot::channel();
        let mut inner = self.lock_state();
        if inner.pending_requests.len() >= MAX_PENDING_REQUESTS {
            return None;
        }
        inner.pending_requests.insert(number, sender);
        drop(inner);
        Some((PendingClientRequest { runtime: Arc::clone(self), number }, receiver))
    }

    /// Resolves a pending client request. A response to no pending request is ignored, because the
    /// request may have ended.
    pub(crate) fn resolve_client_request(&self, id: Option<&RequestId>, answer: ClientResponse) {
        let Some(number) = id.and_then(RequestId::as_number).and_then(|id| u64::try_from(id).ok())
        else {
            return;
        };
        let sender = self.lock_state().pending_requests.remove(&number);
        if let Some(sender) = sender {
            drop(sender.send(answer));
        }
    }

    /// Adds a subscription that lasts as long as `task`. Returns false if there are too many.
    pub(crate) fn add_subscription(&self, uri: String, task: AbortOnDropHandle<()>) -> bool {
        let mut inner = self.lock_state();
        inner.subscriptions.retain(|_, task| !task.is_finished());
        if inner.subscriptions.len() >= MAX_SUBSCRIPTIONS && !inner.subscriptions.contains_key(&uri)
        {
            return false;
        }
        let before = inner.subscriptions.insert(uri, task);
        drop(inner);
        drop(before);
        true
    }

    /// Whether the session is subscribed to a resource.
    pub(crate) fn is_subscribed(&self, uri: &str) -> bool {
        self.lock_state().subscriptions.get(uri).is_some_and(|task| !task.is_finished())
    }

    /// Ends the subscription to a resource. Returns false if there was none.
    pub(crate) fn remove_subscription(&self, uri: &str) -> bool {
        let task = self.lock_state().subscriptions.remove(uri);
        task.is_some()
    }

    /// Closes the stream and ends pending requests and subscriptions.
    pub(crate) fn close(&self) {
        let inner = std::mem::take(&mut *self.lock_state());
        if let Some(stream) = &inner.stream {
            stream.close();
        }
    }
}

/// A pending client request. Dropping it withdraws the request.
#[derive(Debug)]
pub(crate) struct PendingClientRequest {
    runtime: Arc<SessionRuntime>,
    number: u64,
}

impl PendingClientRequest {
    pub(crate) fn id(&self) -> RequestId {
        RequestId::from_number(i64::try_from(self.number).unwrap_or(i64::MAX))
    }
}

impl Drop for PendingClientRequest {
    fn drop(&mut self) {
        self.runtime.lock_state().pending_requests.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::SessionRuntime;

    #[test]
    fn one_level_update_runs_at_a_time_and_the_last_request_is_sent() {
        let runtime = SessionRuntime::default();
        assert!(runtime.begin_level_update());
        assert!(!runtime.begin_level_update() && !runtime.begin_level_update());
        assert!(runtime.finish_level_update(), "one more covers both");
        assert!(!runtime.finish_level_update());
        assert!(runtime.begin_level_update(), "a later one starts anew");
    }
}
