//! Quota of workers: a total limit, and at most half of it per root key. Waiters are served in
//! order. Each key has no more entries in the common queue than it may have workers, so that no key
//! waits for another's queue.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::GONE;

/// Largest number of waiting computations of one root key.
const WAITING: usize = 64;
/// Number of keys after which those without a computation are forgotten.
const KEYS: usize = 1_024;

/// Limits how many computations run at once, in total and per root key.
#[derive(Debug)]
pub struct WorkerQuota {
    all: Arc<Semaphore>,
    /// Slots per root key.
    per_key: usize,
    keys: Mutex<HashMap<String, Weak<Share>>>,
    /// Number of waiting computations.
    waiting: AtomicUsize,
}

/// Slots of one root key.
#[derive(Debug)]
struct Share {
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// A slot for one worker; dropping it frees the slot.
#[derive(Debug)]
pub struct WorkerPlace {
    _both: [OwnedSemaphorePermit; 2],
    _share: Arc<Share>,
}

impl WorkerQuota {
    /// Creates a quota of `places` slots. One root key may use half of them, at least one.
    pub fn new(places: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(places)),
            per_key: (places / 2).max(1),
            keys: Mutex::default(),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Acquires a slot for this root key and waits until one is free.
    ///
    /// # Errors
    /// A message for the caller if too many computations of this key are waiting.
    pub async fn enter(&self, key: &str) -> Result<WorkerPlace, String> {
        let share = self.share(key);
        let own = if let Ok(own) = Arc::clone(&share.places).try_acquire_owned() {
            own
        } else {
            let waits = (Waits::new(&share.waiting), Waits::new(&self.waiting));
            if waits.0.count > WAITING {
                return Err(format!(
                    "{WAITING} computations of this key wait for a worker, which is its limit; \
                     try again soon"
                ));
            }
            Arc::clone(&share.places).acquire_owned().await.map_err(|_| GONE)?
        };
        let any = if let Ok(any) = Arc::clone(&self.all).try_acquire_owned() {
            any
        } else {
            let _waits = Waits::new(&self.waiting);
            Arc::clone(&self.all).acquire_owned().await.map_err(|_| GONE)?
        };
        Ok(WorkerPlace { _both: [own, any], _share: share })
    }

    fn share(&self, key: &str) -> Arc<Share> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = keys.get(key).and_then(Weak::upgrade) {
            return share;
        }
        if keys.len() >= KEYS {
            keys.retain(|_, share| share.strong_count() > 0);
        }
        let places = Arc::new(Semaphore::new(self.per_key));
        let share = Arc::new(Share { places, waiting: AtomicUsize::new(0) });
        keys.insert(key.to_owned(), Arc::downgrade(&share));
        share
    }

    /// Returns whether any computation waits for a slot.
    pub(super) fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

/// Counts one waiter until it is dropped.
struct Waits<'a> {
    waiting: &'a AtomicUsize,
    /// Number of waiters, including this one.
    count: usize,
}

impl<'a> Waits<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        let count = waiting.fetch_add(1, Ordering::Relaxed) + 1;
        Self { waiting, count }
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::{WAITING, WorkerPlace, WorkerQuota};

    const MOST: usize = 4;
    const OF_KEY: usize = 2;

    /// What comes of it without waiting.
    fn now(quota: &WorkerQuota, key: &str) -> Option<WorkerPlace> {
        let entered = pin!(quota.enter(key));
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
        // Its queue is full of computations that wait.
        let mut waiting: Vec<_> = (0..WAITING).map(|_| Box::pin(quota.enter("a"))).collect();
        let mut context = Context::from_waker(Waker::noop());
        assert!(waiting.iter_mut().all(|it| it.as_mut().poll(&mut context).is_pending()));
        assert!(quota.is_wanted());
        let refused = pin!(quota.enter("a")).poll(&mut context);
        assert!(matches!(refused, Poll::Ready(Err(why)) if why.contains("64 computations")));
        // The control: the other half is others' at once.
        let others: Vec<_> = (OF_KEY..MOST).map(|_| now(&quota, "b").unwrap()).collect();
        assert!(now(&quota, "c").is_none());
        // What is left goes to whoever waited first.
        own.pop();
        let first = waiting.remove(0).as_mut().poll(&mut context);
        assert!(matches!(first, Poll::Ready(Ok(_))));
        drop((others, waiting, own));
        assert!(!quota.is_wanted() && now(&quota, "c").is_some());
    }
}
