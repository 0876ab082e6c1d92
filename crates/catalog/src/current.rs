//! The active catalog and policy, replaced atomically as one snapshot.
//!
//! Both are swapped in one step, so that nobody sees a catalog under the policy of another moment.
//! The policy's type is not known here.

use std::fmt;
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwap, Guard};

use crate::Catalog;

/// A catalog and its policy. Immutable and versioned; a call keeps the snapshot that it started
/// with.
#[derive(Debug)]
pub struct Snapshot<R> {
    /// Version; grows with every change of either.
    pub number: u64,
    /// Catalog of all items.
    pub catalog: Arc<Catalog>,
    /// Policy that decides who may call which item.
    pub rules: R,
}

/// Holder of the active snapshot.
pub struct Current<R> {
    now: ArcSwap<Snapshot<R>>,
    ahead: OnceLock<Ahead<R>>,
}

/// Hook that runs on a snapshot before it becomes active.
type Ahead<R> = Box<dyn Fn(&Snapshot<R>) + Send + Sync>;

impl<R: Clone> Current<R> {
    /// Creates a holder with a first snapshot.
    pub fn new(catalog: impl Into<Arc<Catalog>>, rules: R) -> Self {
        let first = Snapshot { number: 0, catalog: catalog.into(), rules };
        Self { now: ArcSwap::from_pointee(first), ahead: OnceLock::new() }
    }

    /// Registers a hook that runs on each new snapshot before it becomes active, on the thread that
    /// swaps: derived data is then ready at first use. Only the first hook counts. A snapshot that
    /// the hook saw may be discarded if another is swapped in concurrently.
    pub fn ahead(&self, look: impl Fn(&Snapshot<R>) + Send + Sync + 'static) {
        // A second hook is ignored.
        drop(self.ahead.set(Box::new(look)));
    }

    /// Loads the active snapshot.
    pub fn load(&self) -> Guard<Arc<Snapshot<R>>> {
        self.now.load()
    }

    /// Returns the active catalog.
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.now.load().catalog)
    }

    /// Returns the active policy.
    pub fn rules(&self) -> R {
        self.now.load().rules.clone()
    }

    /// Replaces the catalog, the policy or both; `None` keeps the current one. Returns the new
    /// version.
    pub fn swap(&self, catalog: Option<&Arc<Catalog>>, rules: Option<&R>) -> u64 {
        let mut number = 0;
        // If another thread swaps concurrently, the update runs again on its result.
        let _before = self.now.rcu(|now| {
            number = now.number + 1;
            let catalog = Arc::clone(catalog.unwrap_or(&now.catalog));
            let next = Snapshot { number, catalog, rules: rules.unwrap_or(&now.rules).clone() };
            if let Some(look) = self.ahead.get() {
                look(&next);
            }
            next
        });
        number
    }
}

impl<R> fmt::Debug for Current<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Current").field("number", &self.now.load().number).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::Current;
    use crate::Catalog;

    #[test]
    fn a_half_that_is_not_given_stays() {
        let current = Current::new(Catalog::default(), 1);
        assert_eq!(current.swap(Some(&Arc::new(Catalog::merge(7, Vec::new()))), None), 1);
        assert_eq!(current.swap(None, Some(&2)), 2);
        let now = current.load();
        assert_eq!((now.number, now.catalog.number, now.rules), (2, 7, 2));
    }

    #[test]
    fn each_snapshot_is_looked_at_before_it_is_in_force() {
        let current = Arc::new(Current::new(Catalog::default(), 1));
        let (seen, looked) = (Arc::new(Mutex::new(Vec::new())), Arc::downgrade(&current));
        let told = Arc::clone(&seen);
        current.ahead(move |next| {
            let now = looked.upgrade().unwrap().load().number;
            told.lock().unwrap().push((now, next.number, next.rules));
        });
        current.swap(None, Some(&2));
        current.swap(None, Some(&3));
        assert_eq!(*seen.lock().unwrap(), [(0, 1, 2), (1, 2, 3)]);
    }

    #[test]
    fn both_halves_change_in_one_step_and_no_change_is_lost() {
        let current = Current::new(Catalog::default(), 0);
        let write = |writer: u64| {
            for number in (0..2_000).map(|n| n * 2 + writer) {
                current.swap(Some(&Arc::new(Catalog::merge(number, Vec::new()))), Some(&number));
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| write(0));
            scope.spawn(|| write(1));
            scope.spawn(|| {
                for _ in 0..4_000 {
                    let now = current.load();
                    assert_eq!(now.catalog.number, now.rules, "halves of two snapshots");
                }
            });
        });
        assert_eq!(current.load().number, 4_000);
    }
}
