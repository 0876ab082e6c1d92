//! Connections without an accepted credential. Their number is limited: beyond it the oldest is
//! closed for the newest, so that idle connections cannot block new ones.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

tokio::task_local! {
    /// The connection of the current task.
    static CONNECTION: PendingConnection;
}

/// All unauthenticated connections, in order.
#[derive(Debug)]
pub struct PendingConnections {
    max_pending: usize,
    list: Mutex<PendingList>,
}

#[derive(Debug, Default)]
struct PendingList {
    next: u64,
    evictions: BTreeMap<u64, CancellationToken>,
}

/// One unauthenticated connection; it leaves the list after authentication or when dropped.
#[derive(Debug)]
pub struct PendingConnection {
    number: u64,
    is_listed: AtomicBool,
    eviction: CancellationToken,
    pending: Arc<PendingConnections>,
}

impl PendingConnections {
    /// Creates an empty list with a maximum of `max_connections`.
    pub fn new(max_connections: usize) -> Arc<Self> {
        Arc::new(Self { max_pending: max_connections.max(1), list: Mutex::default() })
    }

    fn with_list<T>(&self, change: impl FnOnce(&mut PendingList) -> T) -> T {
        change(&mut self.list.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Registers a new connection. Beyond the limit, the oldest is evicted.
    pub fn register_connection(self: &Arc<Self>) -> PendingConnection {
        let evicted = CancellationToken::new();
        let (number, oldest) = self.with_list(|list| {
            let oldest = if list.evictions.len() >= self.max_pending {
                list.evictions.pop_first()
            } else {
                None
            };
            list.next += 1;
            list.evictions.insert(list.next, evicted.clone());
            (list.next, oldest)
        });
        if let Some((_, oldest)) = oldest {
            oldest.cancel();
        }
        let listed = AtomicBool::new(true);
        PendingConnection {
            number,
            is_listed: listed,
            eviction: evicted,
            pending: Arc::clone(self),
        }
    }
}

impl PendingConnection {
    /// Cancelled when the connection is to close for a newer one.
    pub fn eviction_token(&self) -> CancellationToken {
        self.eviction.clone()
    }

    /// Runs the task of the connection, in which `mark_authenticated` refers to it.
    pub async fn run_in_scope<F: Future>(self, serving: F) -> F::Output {
        CONNECTION.scope(self, serving).await
    }

    fn unregister(&self) {
        if self.is_listed.swap(false, Ordering::Relaxed) {
            self.pending.with_list(|list| list.evictions.remove(&self.number));
        }
    }
}

impl Drop for PendingConnection {
    fn drop(&mut self) {
        self.unregister();
    }
}

/// Marks the connection of this task as authenticated: it is no longer evicted.
pub(crate) fn mark_authenticated() {
    // Without a connection there is nothing to mark.
    let _none = CONNECTION.try_with(|connection| {
        if connection.is_listed.load(Ordering::Relaxed) {
            connection.unregister();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_that_has_not_authenticated_goes_for_the_newest() {
        let pending = PendingConnections::new(2);
        let (first, second) = (pending.register_connection(), pending.register_connection());
        let (oldest, older) = (first.eviction_token(), second.eviction_token());
        first.run_in_scope(async { mark_authenticated() }).await;
        let third = pending.register_connection();
        assert!(!older.is_cancelled());
        let fourth = pending.register_connection();
        assert!(older.is_cancelled() && !oldest.is_cancelled());
        drop(third);
        let fifth = pending.register_connection();
        assert!(!fourth.eviction_token().is_cancelled() && !fifth.eviction_token().is_cancelled());
        // Outside of a connection nothing is marked.
        mark_authenticated();
        assert_eq!(pending.with_list(|list| list.evictions.len()), 2);
    }
}
