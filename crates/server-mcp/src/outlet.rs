//! A bounded event queue for one stream. Notifications are dropped when the client reads too
//! slowly; senders never wait.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

/// Maximum number of queued events at which notifications are still accepted; later ones are
/// dropped.
const EVENTS: usize = 64;
/// Maximum bytes of queued events at which notifications are still accepted.
const BYTES: usize = 1 << 20;
/// Maximum number of queued events that must not be lost, such as client requests.
const SURE: usize = 2 * EVENTS;

/// The event queue of one stream.
#[derive(Debug, Default)]
pub(crate) struct Outlet(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    ready: VecDeque<Bytes>,
    bytes: usize,
    closed: bool,
    /// The sink that receives all events instead.
    on: Option<Arc<Outlet>>,
    waker: Option<Waker>,
}

impl Outlet {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a notification; it is dropped if the client is too slow.
    pub(crate) fn notice(&self, event: Bytes) {
        if !self.put(event, EVENTS, BYTES) {
            tracing::trace!("a notice was dropped");
        }
    }

    /// Queues an event that must not be dropped. Returns false if the queue is full or closed.
    pub(crate) fn sure(&self, event: Bytes) -> bool {
        self.put(event, SURE, 2 * BYTES)
    }

    fn put(&self, event: Bytes, events: usize, bytes: usize) -> bool {
        let waker = {
            let mut held = self.held();
            if let Some(on) = held.on.clone() {
                drop(held);
                return on.put(event, events, bytes);
            }
            if held.closed || held.ready.len() >= events || held.bytes + event.len() > bytes {
                return false;
            }
            held.bytes += event.len();
            held.ready.push_back(event);
            held.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
        true
    }

    /// Moves all queued events to `into` and forwards later events to it.
    pub(crate) fn pour(&self, into: &Arc<Self>) {
        let ready = {
            let mut held = self.held();
            held.on = Some(Arc::clone(into));
            held.bytes = 0;
            std::mem::take(&mut held.ready)
        };
        for event in ready {
            into.notice(event);
        }
    }

    /// Closes the queue; queued events can still be read.
    pub(crate) fn close(&self) {
        let waker = {
            let mut held = self.held();
            held.closed = true;
            held.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// Whether the queue is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.held().closed
    }

    /// Removes the next queued event without waiting.
    pub(crate) fn take(&self) -> Option<Bytes> {
        let mut held = self.held();
        let event = held.ready.pop_front()?;
        held.bytes -= event.len();
        Some(event)
    }

    /// Polls the next event; `None` at the end.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<Option<Bytes>> {
        let mut held = self.held();
        if let Some(event) = held.ready.pop_front() {
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
    pub(crate) async fn waiting(&self) {
        std::future::poll_fn(|cx| {
            let mut held = self.held();
            if !held.ready.is_empty() {
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
    use super::{BYTES, EVENTS, Outlet, SURE};

    #[test]
    fn a_client_that_does_not_read_holds_no_memory() {
        let outlet = Outlet::default();
        for _ in 0..10 * EVENTS {
            outlet.notice("n".into());
        }
        assert!(outlet.sure("q".into()));
        let all: Vec<_> = std::iter::from_fn(|| outlet.take()).collect();
        assert_eq!((all.len(), &all[EVENTS][..]), (EVENTS + 1, &b"q"[..]));
        for _ in 0..100 {
            outlet.notice(vec![b'x'; BYTES / 3].into());
        }
        assert_eq!(std::iter::from_fn(|| outlet.take()).count(), 3);
        assert_eq!((0..2 * SURE).filter(|_| outlet.sure("q".into())).count(), SURE);
    }

    #[test]
    fn what_is_closed_takes_nothing() {
        let outlet = Outlet::default();
        outlet.notice("a".into());
        outlet.close();
        outlet.notice("b".into());
        assert!(!outlet.sure("c".into()));
        assert_eq!((outlet.take().as_deref(), outlet.take()), (Some(&b"a"[..]), None));
    }
}
