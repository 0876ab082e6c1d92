//! Connections on which no credential has been accepted yet. Their number is bounded: where there are too
//! many, the oldest is closed for the newest, so that silent connections keep nobody out.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

tokio::task_local! {
    /// The connection that a request came on, within the task of that connection.
    static CONNECTION: PendingConnection;
}

/// All such connections, by their order.
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

/// One of them; it leaves the list once it has authenticated, and where this is dropped.
#[derive(Debug)]
pub struct PendingConnection {
    number: u64,
    listed: AtomicBool,
    evicted: CancellationToken,
    pending: Arc<PendingConnections>,
}

impl PendingConnections {
    /// None yet, and `most` at once.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most: most.max(1), list: Mutex::default() })
    }

    fn with<T>(&self, change: impl FnOnce(&mut List) -> T) -> T {
        change(&mut self.list.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A new connection. Where there are too many, the oldest is told to end.
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
    /// Fires where the connection is to end for a newer one.
    pub fn evicted(&self) -> CancellationToken {
        self.evicted.clone()
    }

    /// Runs the connection's own task, in which [`mark_authenticated`] means this connection.
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

/// A credential was accepted on this task's connection: it is no longer closed for others.
pub(crate) fn mark_authenticated() {
    // Where there is no connection there is nothing to note.
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
        // Outside of a connection nothing is noted.
        mark_authenticated();
        assert_eq!(pending.with(|list| list.all.len()), 2);
    }
}
