//! A bounded event queue for one stream. Notifications are dropped when the client reads too
//! slowly; senders never wait.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

/// Maximum number of queued events at which notifications are still accepted; later ones are
/// dropped.
const MAX_NOTIFICATIONS: usize = 64;
/// Maximum bytes of queued events at which notifications are still accepted.
const MAX_QUEUED_BYTES: usize = 1 << 20;
/// Maximum number of queued events that must not be lost, such as client requests.
const MAX_REQUIRED_EVENTS: usize = 2 * MAX_NOTIFICATIONS;

/// The event queue of one stream.
#[derive(Debug, Default)]
pub(crate) struct EventSink(Mutex<SinkState>);

#[derive(Debug, Default)]
struct SinkState {
    queue: VecDeque<Bytes>,
    bytes: usize,
    closed: bool,
    /// The sink that receives all events instead.
    forward_to: Option<Arc<EventSink>>,
    waker: Option<Waker>,
}

impl EventSink {
    fn lock_state(&self) -> MutexGuard<'_, SinkState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a notification; it is dropped if the client is too slow.
    pub(crate) fn send_notification(&self, event: Bytes) {
        if !self.push_event(event, MAX_NOTIFICATIONS, MAX_QUEUED_BYTES) {
            tracing::trace!("notification dropped");
        }
    }

    /// Queues an event that must not be dropped. Returns false if the queue is full or closed.
    pub(crate) fn send_required(&self, event: Bytes) -> bool {
        self.push_event(event, MAX_REQUIRED_EVENTS, 2 * MAX_QUEUED_BYTES)
    }

    fn push_event(&self, event: Bytes, events: usize, bytes: usize) -> bool {
        let waker = {
            let mut held = self.lock_state();
            if let Some(on) = held.forward_to.clone() {
                drop(held);
                return on.push_event(event, events, bytes);
            }
            if held.closed || held.queue.len() >= events || held.bytes + event.len() > bytes {
                return false;
            }
            held.bytes += event.len();
            held.queue.push_back(event);
            held.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
        true
    }

    /// Moves all queued events to `target` and forwards later events to it.
    pub(crate) fn forward_events_to(&self, target: &Arc<Self>) {
        let ready = {
            let mut held = self.lock_state();
            held.forward_to = Some(Arc::clone(target));
            held.bytes = 0;
            std::mem::take(&mut held.queue)
        };
        for event in ready {
            target.send_notification(event);
        }
    }

    /// Closes the queue; queued events can still be read.
    pub(crate) fn close(&self) {
        let waker = {
            let mut held = self.lock_state();
            held.closed = true;
            held.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// Whether the queue is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock_state().closed
    }

    /// Removes the next queued event without waiting.
    pub(crate) fn pop_event(&self) -> Option<Bytes> {
        let mut held = self.lock_state();
        let event = held.queue.pop_front()?;
        held.bytes -= event.len();
        Some(event)
    }

    /// Polls the next event; `None` at the end.
    pub(crate) fn poll_event(&self, cx: &Context<'_>) -> Poll<Option<Bytes>> {
        let mut held = self.lock_state();
        if let Some(event) = held.queue.pop_front() {
            held.bytes -= event.len();
            return Poll::Ready(Some(event));
        }
        if held.closed {
            return Poll::Ready(None);
        }
        held.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Resolves when an event is queued.
    pub(crate) async fn wait_ready(&self) {
        std::future::poll_fn(|cx| {
            let mut held = self.lock_state();
            if !held.queue.is_empty() {
                return Poll::Ready(());
            }
            held.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::{EventSink, MAX_NOTIFICATIONS, MAX_QUEUED_BYTES, MAX_REQUIRED_EVENTS};

    #[test]
    fn a_client_that_does_not_read_holds_no_memory() {
        let outlet = EventSink::default();
        for _ in 0..10 * MAX_NOTIFICATIONS {
            outlet.send_notification("n".into());
        }
        assert!(outlet.send_required("q".into()));
        let all: Vec<_> = std::iter::from_fn(|| outlet.pop_event()).collect();
        assert_eq!((all.len(), &all[MAX_NOTIFICATIONS][..]), (MAX_NOTIFICATIONS + 1, &b"q"[..]));
        for _ in 0..100 {
            outlet.send_notification(vec![b'x'; MAX_QUEUED_BYTES / 3].into());
        }
        assert_eq!(std::iter::from_fn(|| outlet.pop_event()).count(), 3);
        assert_eq!(
            (0..2 * MAX_REQUIRED_EVENTS).filter(|_| outlet.send_required("q".into())).count(),
            MAX_REQUIRED_EVENTS
        );
    }

    #[test]
    fn what_is_closed_takes_nothing() {
        let outlet = EventSink::default();
        outlet.send_notification("a".into());
        outlet.close();
        outlet.send_notification("b".into());
        assert!(!outlet.send_required("c".into()));
        assert_eq!((outlet.pop_event().as_deref(), outlet.pop_event()), (Some(&b"a"[..]), None));
    }
}
