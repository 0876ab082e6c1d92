//! What a server says on the stream of its session while exactly one call is in flight: many servers
//! ask and log there, and not on the stream of the call that it is about.

use std::collections::{BTreeSet, VecDeque};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::mcp::exchange::Event;

/// Events that may wait for their calls.
const WAITING: usize = 64;

/// The calls of one endpoint, and what came beside their streams.
#[derive(Debug, Default)]
pub(in crate::mcp) struct Beside {
    inner: Mutex<Inner>,
    told: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    calls: BTreeSet<i64>,
    events: VecDeque<(i64, Event)>,
}

impl Beside {
    /// A call is in flight.
    pub(in crate::mcp) fn enter(&self, call: i64) {
        self.inner().calls.insert(call);
    }

    /// A call is not any more.
    pub(in crate::mcp) fn leave(&self, call: i64) {
        let mut inner = self.inner();
        if inner.calls.remove(&call) && !inner.events.is_empty() {
            inner.events.retain(|(of, _)| *of != call);
        }
    }

    /// For the only call in flight; given back where there is none, or more than one.
    pub(super) fn tell(&self, event: Event) -> Result<(), Event> {
        let only = {
            let inner = self.inner();
            inner.calls.first().copied().filter(|_| inner.calls.len() == 1)
        };
        match only {
            Some(call) => self.tell_to(call, event),
            None => Err(event),
        }
    }

    /// For one call.
    pub(super) fn tell_to(&self, call: i64, event: Event) -> Result<(), Event> {
        {
            let mut inner = self.inner();
            if !inner.calls.contains(&call) || inner.events.len() >= WAITING {
                return Err(event);
            }
            inner.events.push_back((call, event));
        }
        self.told.notify_waiters();
        Ok(())
    }

    /// What comes for one call. May be dropped and called again.
    pub(in crate::mcp) async fn next(&self, call: i64) -> Event {
        loop {
            let mut told = pin!(self.told.notified());
            told.as_mut().enable();
            if let Some(event) = self.take(call) {
                return event;
            }
            told.await;
        }
    }

    fn take(&self, call: i64) -> Option<Event> {
        let mut inner = self.inner();
        let at = inner.events.iter().position(|(of, _)| *of == call)?;
        inner.events.remove(at).map(|(_, event)| event)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use ::mcp::Notification;

    use super::{Beside, WAITING};
    use crate::mcp::exchange::Event;

    fn event(word: &str) -> Event {
        Event::Noticed(Notification { method: word.to_owned(), params: None })
    }

    #[tokio::test]
    async fn only_the_only_call_is_told_and_not_one_that_came_later() {
        let beside = Beside::default();
        assert!(beside.tell(event("nobody")).is_err());
        beside.enter(1);
        beside.tell(event("one")).unwrap();
        beside.enter(2);
        assert!(beside.tell(event("both")).is_err());
        tokio::select! {
            biased;
            other = beside.next(2) => panic!("{other:?}"),
            mine = beside.next(1) => assert!(matches!(mine, Event::Noticed(n) if n.method == "one")),
        }
        beside.tell_to(2, event("two")).unwrap();
        beside.leave(2);
        beside.enter(2);
        assert!(beside.take(2).is_none());
    }

    #[tokio::test]
    async fn what_waits_is_bounded() {
        let beside = Beside::default();
        beside.enter(1);
        let taken = (0..100).filter(|_| beside.tell(event("x")).is_ok()).count();
        assert_eq!(taken, WAITING);
    }
}
