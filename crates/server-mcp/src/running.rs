//! The running requests of a session, by id, so that `notifications/cancelled` can cancel them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tool::Map;

use mcp::Id;
use tokio_util::sync::CancellationToken;

/// The running requests of one session; the HTTP server bounds their number.
#[derive(Debug, Default)]
pub(crate) struct Running(Mutex<Requests>);

#[derive(Debug, Default)]
struct Requests {
    places: Map<Id, (u64, CancellationToken)>,
    entered: u64,
}

impl Running {
    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a request that can be cancelled by its id until the guard is dropped. If an id is
    /// used twice at once, which MCP forbids, it names the later request.
    pub(crate) fn enter(self: &Arc<Self>, id: &Id) -> Entered {
        let token = CancellationToken::new();
        let mut requests = self.requests();
        requests.entered += 1;
        let number = requests.entered;
        requests.places.insert(id.clone(), (number, token.clone()));
        drop(requests);
        Entered { running: Arc::clone(self), id: id.clone(), number, token }
    }

    /// Cancels the request with this id, if it runs.
    pub(crate) fn cancel(&self, id: &Id) {
        let found = self.requests().places.get(id).map(|(_, token)| token.clone());
        if let Some(token) = found {
            token.cancel();
        }
    }

    /// Whether no request is running.
    pub(crate) fn is_empty(&self) -> bool {
        self.requests().places.is_empty()
    }
}

/// A running request that can be cancelled; dropping it unregisters the request.
#[derive(Debug)]
pub(crate) struct Entered {
    running: Arc<Running>,
    id: Id,
    number: u64,
    token: CancellationToken,
}

impl Entered {
    /// The token that is cancelled with the request.
    pub(crate) fn token(&self) -> &CancellationToken {
        &self.token
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut requests = self.running.requests();
        if requests.places.get(&self.id).is_some_and(|(number, _)| *number == self.number) {
            requests.places.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mcp::Id;

    use super::Running;

    #[test]
    fn an_id_used_twice_names_the_later_request() {
        let running = Arc::new(Running::default());
        let one = running.enter(&Id::number(1));
        let two = running.enter(&Id::number(1));
        let (first, second) = (one.token.clone(), two.token.clone());
        drop(one);
        running.cancel(&Id::number(2));
        assert!(!second.is_cancelled());
        running.cancel(&Id::number(1));
        assert!(second.is_cancelled() && !first.is_cancelled());
        drop(two);
        assert!(running.is_empty());
    }
}
