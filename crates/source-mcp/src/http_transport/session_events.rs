//! Events on the server stream for calls in flight. Many servers send requests and log lines there
//! instead of on the call's own stream. Also distributes the end of the connection.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use ::mcp::RequestId;
use tool::{FastMap, Json};

use crate::call_attribution::{ConnectionCallers, find_target_call};
use crate::in_flight_request::RequestEvent;

/// Maximum events that are buffered for calls.
const MAX_BUFFERED_EVENTS: usize = 64;

/// Calls in flight of one endpoint and the events that arrived outside of their streams.
#[derive(Debug, Default)]
pub(crate) struct SessionEvents {
    queue: Mutex<SessionEventQueue>,
}

#[derive(Debug, Default)]
struct SessionEventQueue {
    /// Calls by request id, with the task whose result they wait for.
    calls: BTreeMap<i64, Option<Arc<str>>>,
    events: VecDeque<(i64, RequestEvent)>,
    /// Waiting tasks, by request id.
    wakers: FastMap<i64, Waker>,
    is_closed: bool,
}

impl SessionEvents {
    /// Registers a call in flight.
    pub(crate) fn add_call(&self, call: i64, task: Option<Arc<str>>) {
        self.lock_queue().calls.insert(call, task);
    }

    /// Whether any call is in flight.
    pub(super) fn has_calls(&self) -> bool {
        !self.lock_queue().calls.is_empty()
    }

    /// Removes a call that is no longer in flight.
    pub(crate) fn remove_call(&self, call: i64) {
        let waker = {
            let mut inner = self.lock_queue();
            if inner.calls.remove(&call).is_some() && !inner.events.is_empty() {
                inner.events.retain(|(of, _)| *of != call);
            }
            inner.wakers.remove(&call)
        };
        drop(waker);
    }

    /// Finds the call in flight that a message with these params belongs to.
    pub(super) fn find_target_call(
        &self,
        params: Option<&Json>,
        callers: &ConnectionCallers,
    ) -> Option<i64> {
        let inner = self.lock_queue();
        let calls = inner.calls.iter().map(|(call, task)| (*call, task.as_deref()));
        find_target_call(calls, params, callers)
    }

    /// Sends the cancellation of a server's request to all calls in flight. Only the one that has
    /// it acts on it.
    pub(super) fn cancel_input_request(&self, request_id: &RequestId) {
        let calls: Vec<_> = self.lock_queue().calls.keys().copied().collect();
        for call in calls {
            drop(self.push_for_call(call, RequestEvent::InputRequestCancelled(request_id.clone())));
        }
    }

    /// Buffers an event for one call.
    pub(super) fn push_for_call(&self, call: i64, event: RequestEvent) -> Result<(), RequestEvent> {
        let waker = {
            let mut inner = self.lock_queue();
            if !inner.calls.contains_key(&call) || inner.events.len() >= MAX_BUFFERED_EVENTS {
                return Err(event);
            }
            inner.events.push_back((call, event));
            inner.wakers.remove(&call)
        };
        waker.into_iter().for_each(Waker::wake);
        Ok(())
    }

    /// Polls for the next event of one call; `None` once the connection is closed.
    pub(crate) fn poll_event(&self, call: i64, cx: &Context<'_>) -> Poll<Option<RequestEvent>> {
        let mut inner = self.lock_queue();
        if let Some(at) = inner.events.iter().position(|(of, _)| *of == call) {
            return Poll::Ready(inner.events.remove(at).map(|(_, event)| event));
        }
        if inner.is_closed {
            return Poll::Ready(None);
        }
        let waker = inner.wakers.entry(call).or_insert_with(|| cx.waker().clone());
        waker.clone_from(cx.waker());
        Poll::Pending
    }

    /// Closes the queue and wakes all waiting tasks.
    pub(crate) fn close(&self) {
        let wakers = {
            let mut inner = self.lock_queue();
            inner.is_closed = true;
            std::mem::take(&mut inner.wakers)
        };
        wakers.into_values().for_each(Waker::wake);
    }

    fn lock_queue(&self) -> MutexGuard<'_, SessionEventQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::{Context, Poll, Waker};

    use ::mcp::RpcNotification;
    use testkit::context::test_caller;
    use tool::{Caller, SourceName};

    use super::{MAX_BUFFERED_EVENTS, SessionEvents};
    use crate::call_attribution::{ConnectionCallers, UnattributedRequests};
    use crate::in_flight_request::RequestEvent;

    fn event(word: &str) -> RequestEvent {
        RequestEvent::Notification(RpcNotification { method: word.to_owned(), params: None })
    }

    fn next(beside: &SessionEvents, call: i64) -> Poll<Option<RequestEvent>> {
        beside.poll_event(call, &Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_message_is_of_the_only_call_of_an_only_caller_and_of_none_that_came_later() {
        let beside = SessionEvents::default();
        let audience =
            ConnectionCallers::new(UnattributedRequests::new(SourceName::new("s").unwrap()));
        audience.add_caller(&test_caller());
        let of = || beside.find_target_call(None, &audience);
        assert_eq!(of(), None);
        beside.add_call(1, None);
        assert_eq!(of(), Some(1));
        beside.push_for_call(1, event("one")).unwrap();
        beside.add_call(2, None);
        assert_eq!(of(), None);
        beside.remove_call(2);
        assert_eq!(of(), Some(1));
        audience.add_caller(&Caller { key_id: "other".to_owned(), ..test_caller() });
        assert_eq!(of(), None);
        beside.add_call(2, None);
        assert!(next(&beside, 2).is_pending());
        let mine = next(&beside, 1);
        assert!(
            matches!(mine, Poll::Ready(Some(RequestEvent::Notification(n))) if n.method == "one")
        );
        beside.push_for_call(2, event("two")).unwrap();
        beside.remove_call(2);
        beside.add_call(2, None);
        assert!(next(&beside, 2).is_pending());
    }

    #[tokio::test]
    async fn who_waits_is_woken_by_an_event_and_by_the_end() {
        let beside = SessionEvents::default();
        beside.add_call(1, None);
        let waits = async |call| poll_fn(|cx| beside.poll_event(call, cx)).await;
        let told = async { beside.push_for_call(1, event("one")).unwrap() };
        let (heard, ()) = tokio::join!(waits(1), told);
        assert!(heard.is_some());
        // Wakes also waiters that are no calls.
        let (call, other, ()) = tokio::join!(waits(1), waits(2), async { beside.close() });
        assert!(call.is_none() && other.is_none());
        assert!(matches!(next(&beside, 3), Poll::Ready(None)));
    }

    #[test]
    fn what_waits_is_bounded() {
        let beside = SessionEvents::default();
        beside.add_call(1, None);
        let taken = (0..100).filter(|_| beside.push_for_call(1, event("x")).is_ok()).count();
        assert_eq!(taken, MAX_BUFFERED_EVENTS);
    }
}
