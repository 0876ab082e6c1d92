//! Calls that run for a session, so that a later request of it can give one up.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// Names a call: whose key, which session, which id of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Place {
    key: String,
    session: String,
    id: String,
}

impl Place {
    pub(super) fn new(key: &str, session: &str, id: &str) -> Self {
        Self { key: key.to_owned(), session: session.to_owned(), id: id.to_owned() }
    }
}

/// As many as there are open requests, whose number the listener bounds.
#[derive(Debug, Default)]
pub(super) struct Running(Mutex<Calls>);

#[derive(Debug, Default)]
struct Calls {
    places: HashMap<Place, (u64, CancellationToken)>,
    entered: u64,
}

impl Running {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until the guard is dropped, a cancel of this place fires `token`. An id that is used twice at
    /// once, which MCP forbids, names the later call.
    pub(super) fn enter(self: &Arc<Self>, place: Place, token: CancellationToken) -> Entered {
        let mut calls = self.calls();
        calls.entered += 1;
        let number = calls.entered;
        calls.places.insert(place.clone(), (number, token));
        drop(calls);
        Entered { running: Arc::clone(self), place, number }
    }

    /// Gives the call up that runs there; nothing where none does.
    pub(super) fn cancel(&self, place: &Place) {
        let found = self.calls().places.get(place).map(|(_, token)| token.clone());
        if let Some(token) = found {
            token.cancel();
        }
    }
}

/// A call that can be given up.
#[derive(Debug)]
pub(super) struct Entered {
    running: Arc<Running>,
    place: Place,
    number: u64,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut calls = self.running.calls();
        if calls.places.get(&self.place).is_some_and(|(number, _)| *number == self.number) {
            calls.places.remove(&self.place);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio_util::sync::CancellationToken;

    use super::{Place, Running};

    #[test]
    fn only_the_same_key_and_session_give_a_call_up() {
        let running = Arc::new(Running::default());
        let token = CancellationToken::new();
        let entered = running.enter(Place::new("k", "s", "1"), token.clone());
        for (key, session, id) in [("other", "s", "1"), ("k", "other", "1"), ("k", "s", "\"1\"")] {
            running.cancel(&Place::new(key, session, id));
            assert!(!token.is_cancelled(), "{key} {session} {id}");
        }
        running.cancel(&Place::new("k", "s", "1"));
        assert!(token.is_cancelled());
        drop(entered);
        assert!(running.calls().places.is_empty());
    }

    #[test]
    fn an_id_used_twice_names_the_later_call() {
        let running = Arc::new(Running::default());
        let (first, second) = (CancellationToken::new(), CancellationToken::new());
        let place = Place::new("k", "s", "1");
        let one = running.enter(place.clone(), first.clone());
        let two = running.enter(place.clone(), second.clone());
        drop(one);
        running.cancel(&place);
        assert!(second.is_cancelled() && !first.is_cancelled());
        drop(two);
        assert!(running.calls().places.is_empty());
    }
}
