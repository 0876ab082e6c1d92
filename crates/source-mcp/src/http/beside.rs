//! What a server says on the stream of its session, for calls in flight: many servers ask and log there,
//! and not on the stream of the call that it is about. And the end of all of it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use ::mcp::Id;
use tool::{Json, Map};

use crate::audience::{Audience, addressee};
use crate::exchange::Event;

/// Events that may wait for their calls.
const WAITING: usize = 64;

/// The calls of one endpoint, and what came beside their streams.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// With the tasks whose results they wait for.
    calls: BTreeMap<i64, Option<Arc<str>>>,
    events: VecDeque<(i64, Event)>,
    /// Who waits, by the numbers of their requests.
    wakers: Map<i64, Waker>,
    over: bool,
}

impl Beside {
    /// A call is in flight.
    pub(crate) fn enter(&self, call: i64, task: Option<Arc<str>>) {
        self.inner().calls.insert(call, task);
    }

    /// Whether any is.
    pub(super) fn has_calls(&self) -> bool {
        !self.inner().calls.is_empty()
    }

    /// A call is not any more.
    pub(crate) fn leave(&self, call: i64) {
        let waker = {
            let mut inner = self.inner();
            if inner.calls.remove(&call).is_some() && !inner.events.is_empty() {
                inner.events.retain(|(of, _)| *of != call);
            }
            inner.wakers.remove(&call)
        };
        drop(waker);
    }

    /// The call in flight that a message with these params belongs to.
    pub(super) fn addressee(&self, params: Option<&Json>, audience: &Audience) -> Option<i64> {
        let inner = self.inner();
        let calls = inner.calls.iter().map(|(call, task)| (*call, task.as_deref()));
        addressee(calls, params, audience)
    }

    /// For all calls in flight: the server withdraws a question, which only the one that has it heeds.
    pub(super) fn withdraw(&self, question: &Id) {
        let calls: Vec<_> = self.inner().calls.keys().copied().collect();
        for call in calls {
            drop(self.tell_to(call, Event::Withdrawn(question.clone())));
        }
    }

    /// For one call.
    pub(super) fn tell_to(&self, call: i64, event: Event) -> Result<(), Event> {
        let waker = {
            let mut inner = self.inner();
            if !inner.calls.contains_key(&call) || inner.events.len() >= WAITING {
                return Err(event);
            }
            inner.events.push_back((call, event));
            inner.wakers.remove(&call)
        };
        waker.into_iter().for_each(Waker::wake);
        Ok(())
    }

    /// What comes for one call; nothing once all is over.
    pub(crate) fn poll(&self, call: i64, cx: &Context<'_>) -> Poll<Option<Event>> {
        let mut inner = self.inner();
        if let Some(at) = inner.events.iter().position(|(of, _)| *of == call) {
            return Poll::Ready(inner.events.remove(at).map(|(_, event)| event));
        }
        if inner.over {
            return Poll::Ready(None);
        }
        let waker = inner.wakers.entry(call).or_insert_with(|| cx.waker().clone());
        waker.clone_from(cx.waker());
        Poll::Pending
    }

    /// All is over: everyone who waits is told.
    pub(crate) fn end(&self) {
        let wakers = {
            let mut inner = self.inner();
            inner.over = true;
            std::mem::take(&mut inner.wakers)
        };
        wakers.into_values().for_each(Waker::wake);
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::{Context, Poll, Waker};

    use ::mcp::Notification;
    use testkit::context::caller;
    use tool::{Caller, SourceName};

    use super::{Beside, WAITING};
    use crate::audience::{Asking, Audience};
    use crate::exchange::Event;

    fn event(word: &str) -> Event {
        Event::Noticed(Notification { method: word.to_owned(), params: None })
    }

    fn next(beside: &Beside, call: i64) -> Poll<Option<Event>> {
        beside.poll(call, &Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_message_is_of_the_only_call_of_an_only_caller_and_of_none_that_came_later() {
        let beside = Beside::default();
        let audience = Audience::new(Asking::new(SourceName::new("s").unwrap()));
        audience.admit(&caller());
        let of = || beside.addressee(None, &audience);
        assert_eq!(of(), None);
        beside.enter(1, None);
        assert_eq!(of(), Some(1));
        beside.tell_to(1, event("one")).unwrap();
        beside.enter(2, None);
        assert_eq!(of(), None);
        beside.leave(2);
        assert_eq!(of(), Some(1));
        audience.admit(&Caller { key: "other".to_owned(), ..caller() });
        assert_eq!(of(), None);
        beside.enter(2, None);
        assert!(next(&beside, 2).is_pending());
        let mine = next(&beside, 1);
        assert!(matches!(mine, Poll::Ready(Some(Event::Noticed(n))) if n.method == "one"));
        beside.tell_to(2, event("two")).unwrap();
        beside.leave(2);
        beside.enter(2, None);
        assert!(next(&beside, 2).is_pending());
    }

    #[tokio::test]
    async fn who_waits_is_woken_by_an_event_and_by_the_end() {
        let beside = Beside::default();
        beside.enter(1, None);
        let waits = async |call| poll_fn(|cx| beside.poll(call, cx)).await;
        let told = async { beside.tell_to(1, event("one")).unwrap() };
        let (heard, ()) = tokio::join!(waits(1), told);
        assert!(heard.is_some());
        // Also those who are no calls.
        let (call, other, ()) = tokio::join!(waits(1), waits(2), async { beside.end() });
        assert!(call.is_none() && other.is_none());
        assert!(matches!(next(&beside, 3), Poll::Ready(None)));
    }

    #[test]
    fn what_waits_is_bounded() {
        let beside = Beside::default();
        beside.enter(1, None);
        let taken = (0..100).filter(|_| beside.tell_to(1, event("x")).is_ok()).count();
        assert_eq!(taken, WAITING);
    }
}
