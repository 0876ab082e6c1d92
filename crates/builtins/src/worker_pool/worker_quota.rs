//! Quota of workers: a total limit, and at most half of it per root key. Waiters are served in
//! order. Each key has no more entries in the common queue than it may have workers, so that no key
//! waits for another's queue.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::POOL_CLOSED;

/// Largest number of waiting computations of one root key.
const MAX_WAITERS_PER_KEY: usize = 64;
/// Number of keys after which those without a computation are forgotten.
const MAX_REMEMBERED_KEYS: usize = 1_024;

/// Limits how many computations run at once, in total and per root key.
#[derive(Debug)]
pub struct WorkerQuota {
    slots: Arc<Semaphore>,
    /// Slots per root key.
    per_key: usize,
    key_shares: Mutex<HashMap<String, Weak<KeyShare>>>,
    /// Number of waiting computations.
    waiting: AtomicUsize,
}

/// Slots of one root key.
#[derive(Debug)]
struct KeyShare {
    slots: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// A slot for one worker; dropping it frees the slot.
#[derive(Debug)]
pub struct WorkerSlot {
    _both: [OwnedSemaphorePermit; 2],
    _share: Arc<KeyShare>,
}

impl WorkerQuota {
    /// Creates a quota of `slots` slots. One root key may use half of them, at least one.
    pub fn new(slots: usize) -> Self {
        Self {
            slots: Arc::new(Semaphore::new(slots)),
            per_key: (slots / 2).max(1),
            key_shares: Mutex::default(),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Acquires a slot for this root key and waits until one is free.
    ///
    /// # Errors
    /// A message for the caller if too many computations of this key are waiting.
    pub async fn acquire_slot(&self, key: &str) -> Result<WorkerSlot, String> {
        let share = self.key_share(key);
        let own = if let Ok(own) = Arc::clone(&share.slots).try_acquire_owned() {
            own
        } else {
            let waits = (WaiterGuard::new(&share.waiting), WaiterGuard::new(&self.waiting));
            if waits.0.count > MAX_WAITERS_PER_KEY {
                return Err(format!(
                    "this key already has {MAX_WAITERS_PER_KEY} computations that wait for a \
                     worker, the maximum; try again soon"
                ));
            }
            Arc::clone(&share.slots).acquire_owned().await.map_err(|_| POOL_CLOSED)?
        };
        let any = if let Ok(any) = Arc::clone(&self.slots).try_acquire_owned() {
            any
        } else {
            let _waits = WaiterGuard::new(&self.waiting);
            Arc::clone(&self.slots).acquire_owned().await.map_err(|_| POOL_CLOSED)?
        };
        Ok(WorkerSlot { _both: [own, any], _share: share })
    }

    fn key_share(&self, key: &str) -> Arc<KeyShare> {
        let mut keys = self.key_shares.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = keys.get(key).and_then(Weak::upgrade) {
            return share;
        }
        if keys.len() >= MAX_REMEMBERED_KEYS {
            keys.retain(|_, share| share.strong_count() > 0);
        }
        let places = Arc::new(Semaphore::new(self.per_key));
        let share = Arc::new(KeyShare { slots: places, waiting: AtomicUsize::new(0) });
        keys.insert(key.to_owned(), Arc::downgrade(&share));
        share
    }

    /// Returns whether any computation waits for a slot.
    pub(super) fn has_waiters(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

/// Counts one waiter until it is dropped.
struct WaiterGuard<'a> {
    waiting: &'a AtomicUsize,
    /// Number of waiters, including this one.
    count: usize,
}

impl<'a> WaiterGuard<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        let count = waiting.fetch_add(1, Ordering::Relaxed) + 1;
        Self { waiting, count }
    }
}

impl Drop for WaiterGuard<'_> {
    fn drop(&mut self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::{MAX_WAITERS_PER_KEY, WorkerQuota, WorkerSlot};

    const MOST: usize = 4;
    const OF_KEY: usize = 2;

    /// Polls once; returns the slot if it is available without waiting.
    fn now(quota: &WorkerQuota, key: &str) -> Option<WorkerSlot> {
        let entered = pin!(quota.acquire_slot(key));
        match entered.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(place) => place.ok(),
            Poll::Pending => None,
        }
    }

    #[test]
    fn one_key_has_half_of_the_workers_and_another_waits_for_none_of_its_queue() {
        let quota = WorkerQuota::new(MOST);
        let mut own: Vec<_> = (0..OF_KEY).map(|_| now(&quota, "a").unwrap()).collect();
        assert!(now(&quota, "a").is_none());
        // Its queue is full of waiting computations.
        let mut waiting: Vec<_> =
            (0..MAX_WAITERS_PER_KEY).map(|_| Box::pin(quota.acquire_slot("a"))).collect();
        let mut context = Context::from_waker(Waker::noop());
        assert!(waiting.iter_mut().all(|it| it.as_mut().poll(&mut context).is_pending()));
        assert!(quota.has_waiters());
        let refused = pin!(quota.acquire_slot("a")).poll(&mut context);
        assert!(matches!(refused, Poll::Ready(Err(why)) if why.contains("64 computations")));
        // Control: other keys get the other half at once.
        let others: Vec<_> = (OF_KEY..MOST).map(|_| now(&quota, "b").unwrap()).collect();
        assert!(now(&quota, "c").is_none());
        // A freed slot goes to the first waiter.
        own.pop();
        let first = waiting.remove(0).as_mut().poll(&mut context);
        assert!(matches!(first, Poll::Ready(Ok(_))));
        drop((others, waiting, own));
        assert!(!quota.has_waiters() && now(&quota, "c").is_some());
    }
}
