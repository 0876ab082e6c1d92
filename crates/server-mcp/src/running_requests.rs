//! The running requests of a session, by id, so that `notifications/cancelled` can cancel them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tool::FastMap;

use mcp::RequestId;
use tokio_util::sync::CancellationToken;

/// The running requests of one session; the HTTP server bounds their number.
#[derive(Debug, Default)]
pub(crate) struct RunningRequests(Mutex<RequestTable>);

#[derive(Debug, Default)]
struct RequestTable {
    by_id: FastMap<RequestId, (u64, CancellationToken)>,
    counter: u64,
}

impl RunningRequests {
    fn lock_table(&self) -> MutexGuard<'_, RequestTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a request that can be cancelled by its id until the guard is dropped. If an id is
    /// used twice at once, which MCP forbids, it names the later request.
    pub(crate) fn register_request(self: &Arc<Self>, id: &RequestId) -> RunningRequestGuard {
        let token = CancellationToken::new();
        let mut requests = self.lock_table();
        requests.counter += 1;
        let number = requests.counter;
        requests.by_id.insert(id.clone(), (number, token.clone()));
        drop(requests);
        RunningRequestGuard { table: Arc::clone(self), id: id.clone(), number, token }
    }

    /// Cancels the request with this id, if it runs.
    pub(crate) fn cancel_request(&self, id: &RequestId) {
        let found = self.lock_table().by_id.get(id).map(|(_, token)| token.clone());
        if let Some(token) = found {
            token.cancel();
        }
    }

    /// Whether no request is running.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock_table().by_id.is_empty()
    }
}

/// A running request that can be cancelled; dropping it unregisters the request.
#[derive(Debug)]
pub(crate) struct RunningRequestGuard {
    table: Arc<RunningRequests>,
    id: RequestId,
    number: u64,
    token: CancellationToken,
}

impl RunningRequestGuard {
    /// The token that is cancelled with the request.
    pub(crate) fn token(&self) -> &CancellationToken {
        &self.token
    }
}

impl Drop for RunningRequestGuard {
    fn drop(&mut self) {
        let mut requests = self.table.lock_table();
        if requests.by_id.get(&self.id).is_some_and(|(number, _)| *number == self.number) {
            requests.by_id.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mcp::RequestId;

    use super::RunningRequests;

    #[test]
    fn an_id_used_twice_names_the_later_request() {
        let running = Arc::new(RunningRequests::default());
        let one = running.register_request(&RequestId::from_number(1));
        let two = running.register_request(&RequestId::from_number(1));
        let (first, second) = (one.token.clone(), two.token.clone());
        drop(one);
        running.cancel_request(&RequestId::from_number(2));
        assert!(!second.is_cancelled());
        running.cancel_request(&RequestId::from_number(1));
        assert!(second.is_cancelled() && !first.is_cancelled());
        drop(two);
        assert!(running.is_empty());
    }
}
