//! The in-process state of a session: its GET stream, log level, pending client requests and
//! subscriptions.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcp::{Id, RpcError};
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;
use tool::Json;

use super::level::Level;
use super::outlet::Outlet;
use super::running::Running;

/// Maximum number of pending requests to one client.
const QUESTIONS: usize = 64;
/// Maximum number of resource subscriptions of one session.
pub(crate) const FOLLOWED: usize = 256;

/// The result or error with which a client responded to a request.
pub(crate) type Answered = Result<Json, RpcError>;

/// The in-process state of one session.
#[derive(Debug, Default)]
pub(crate) struct Live {
    used: AtomicU64,
    asked: AtomicU64,
    pub(crate) running: Arc<Running>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The stream opened by GET.
    stream: Option<Arc<Outlet>>,
    level: Option<Level>,
    questions: HashMap<u64, oneshot::Sender<Answered>>,
    followed: HashMap<String, AbortOnDropHandle<()>>,
}

impl Live {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn touch(&self, tick: u64) {
        self.used.store(tick, Ordering::Relaxed);
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether the session has a stream, a pending request, a subscription or a running request.
    pub(crate) fn busy(&self) -> bool {
        let inner = self.inner();
        let streams = inner.stream.as_ref().is_some_and(|stream| !stream.is_closed());
        streams
            || !inner.questions.is_empty()
            || !inner.followed.is_empty()
            || !self.running.is_empty()
    }

    /// The minimum level of log messages; `None` if the client did not set it.
    pub(crate) fn level(&self) -> Option<Level> {
        self.inner().level
    }

    pub(crate) fn set_level(&self, level: Level) {
        self.inner().level = Some(level);
    }

    /// Replaces the GET stream and closes the previous one.
    pub(crate) fn listen(&self, stream: Arc<Outlet>) {
        let before = self.inner().stream.replace(stream);
        if let Some(before) = before {
            before.close();
        }
    }

    /// Sends a notification on the GET stream; does nothing without a stream.
    pub(crate) fn notice(&self, event: bytes::Bytes) {
        let stream = self.inner().stream.clone();
        if let Some(stream) = stream {
            stream.notice(event);
        }
    }

    /// Sends an event that must not be lost on the GET stream. Returns false if that is not
    /// possible.
    pub(crate) fn sure(&self, event: bytes::Bytes) -> bool {
        let stream = self.inner().stream.clone();
        stream.is_some_and(|stream| stream.sure(event))
    }

    /// Registers a client request and returns it with the receiver of its response. `None` if too
    /// many are pending.
    pub(crate) fn ask(self: &Arc<Self>) -> Option<(Question, oneshot::Receiver<Answered>)> {
        let number = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, receiver) = oneshot::channel();
        let mut inner = self.inner();
        if inner.questions.len() >= QUESTIONS {
            return None;
        }
        inner.questions.insert(number, sender);
        drop(inner);
        Some((Question { live: Arc::clone(self), number }, receiver))
    }

    /// Resolves a pending client request. A response to no pending request is ignored, because the
    /// request may have ended.
    pub(crate) fn answered(&self, id: Option<&Id>, answer: Answered) {
        let Some(number) = id.and_then(Id::as_number).and_then(|id| u64::try_from(id).ok()) else {
            return;
        };
        let sender = self.inner().questions.remove(&number);
        if let Some(sender) = sender {
            drop(sender.send(answer));
        }
    }

    /// Adds a subscription that lasts as long as `task`. Returns false if there are too many.
    pub(crate) fn follow(&self, uri: String, task: AbortOnDropHandle<()>) -> bool {
        let mut inner = self.inner();
        inner.followed.retain(|_, task| !task.is_finished());
        if inner.followed.len() >= FOLLOWED && !inner.followed.contains_key(&uri) {
            return false;
        }
        let before = inner.followed.insert(uri, task);
        drop(inner);
        drop(before);
        true
    }

    /// Whether the session is subscribed to a resource.
    pub(crate) fn follows(&self, uri: &str) -> bool {
        self.inner().followed.get(uri).is_some_and(|task| !task.is_finished())
    }

    /// Ends the subscription to a resource.
    pub(crate) fn unfollow(&self, uri: &str) {
        let task = self.inner().followed.remove(uri);
        drop(task);
    }

    /// Closes the stream and ends pending requests and subscriptions.
    pub(crate) fn end(&self) {
        let inner = std::mem::take(&mut *self.inner());
        if let Some(stream) = &inner.stream {
            stream.close();
        }
    }
}

/// A pending client request. Dropping it withdraws the request.
#[derive(Debug)]
pub(crate) struct Question {
    live: Arc<Live>,
    number: u64,
}

impl Question {
    pub(crate) fn id(&self) -> Id {
        Id::number(i64::try_from(self.number).unwrap_or(i64::MAX))
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        self.live.inner().questions.remove(&self.number);
    }
}
