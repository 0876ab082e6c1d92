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
    most: usize,
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    next: u64,
    all: BTreeMap<u64, CancellationToken>,
}

/// One unauthenticated connection; it leaves the list after authentication or when dropped.
#[derive(Debug)]
pub struct PendingConnection {
    number: u64,
    listed: AtomicBool,
    evicted: CancellationToken,
    pending: Arc<PendingConnections>,
}

impl PendingConnections {
    /// Creates an empty list with a maximum of `most`.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most: most.max(1), list: Mutex::default() })
    }

    fn with<T>(&self, change: impl FnOnce(&mut List) -> T) -> T {
        change(&mut self.list.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Registers a new connection. Beyond the limit, the oldest is evicted.
    pub fn enter(self: &Arc<Self>) -> PendingConnection {
        let evicted = CancellationToken::new();
        let (number, oldest) = self.with(|list| {
            let oldest = if list.all.len() >= self.most { list.all.pop_first() } else { None };
            list.next += 1;
            list.all.insert(list.next, evicted.clone());
            (list.next, oldest)
        });
        if let Some((_, oldest)) = oldest {
            oldest.cancel();
        }
        let listed = AtomicBool::new(true);
        PendingConnection { number, listed, evicted, pending: Arc::clone(self) }
    }
}

impl PendingConnection {
    /// Cancelled when the connection is to close for a newer one.
    pub fn evicted(&self) -> CancellationToken {
        self.evicted.clone()
    }

    /// Runs the task of the connection, in which [`mark_authenticated`] refers to it.
    pub async fn scope<F: Future>(self, serving: F) -> F::Output {
        CONNECTION.scope(self, serving).await
    }

    fn leave(&self) {
        if self.listed.swap(false, Ordering::Relaxed) {
            self.pending.with(|list| list.all.remove(&self.number));
        }
    }
}

impl Drop for PendingConnection {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Marks the connection of this task as authenticated: it is no longer evicted.
pub(crate) fn mark_authenticated() {
    // Without a connection there is nothing to mark.
    let _none = CONNECTION.try_with(|connection| {
        if connection.listed.load(Ordering::Relaxed) {
            connection.leave();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_that_has_not_authenticated_goes_for_the_newest() {
        let pending = PendingConnections::new(2);
        let (first, second) = (pending.enter(), pending.enter());
        let (oldest, older) = (first.evicted(), second.evicted());
        first.scope(async { mark_authenticated() }).await;
        let third = pending.enter();
        assert!(!older.is_cancelled());
        let fourth = pending.enter();
        assert!(older.is_cancelled() && !oldest.is_cancelled());
        drop(third);
        let fifth = pending.enter();
        assert!(!fourth.evicted().is_cancelled() && !fifth.evicted().is_cancelled());
        // Outside of a connection nothing is marked.
        mark_authenticated();
        assert_eq!(pending.with(|list| list.all.len()), 2);
    }
}
