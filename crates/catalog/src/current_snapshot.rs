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
pub struct CatalogSnapshot<R> {
    /// Version; grows with every change of either.
    pub version: u64,
    /// Catalog of all items.
    pub catalog: Arc<Catalog>,
    /// Policy that decides who may call which item.
    pub policy: R,
}

/// Holder of the active snapshot.
pub struct CurrentSnapshot<R> {
    snapshot: ArcSwap<CatalogSnapshot<R>>,
    before_swap: OnceLock<BeforeSwapHook<R>>,
}

/// Hook that runs on a snapshot before it becomes active.
type BeforeSwapHook<R> = Box<dyn Fn(&CatalogSnapshot<R>) + Send + Sync>;

impl<R: Clone> CurrentSnapshot<R> {
    /// Creates a holder with a first snapshot.
    pub fn new(catalog: impl Into<Arc<Catalog>>, rules: R) -> Self {
        let first = CatalogSnapshot { version: 0, catalog: catalog.into(), policy: rules };
        Self { snapshot: ArcSwap::from_pointee(first), before_swap: OnceLock::new() }
    }

    /// Registers a hook that runs on each new snapshot before it becomes active, on the thread that
    /// swaps: derived data is then ready at first use. Only the first hook counts. A snapshot that
    /// the hook saw may be discarded if another is swapped in concurrently.
    pub fn set_before_swap(&self, hook: impl Fn(&CatalogSnapshot<R>) + Send + Sync + 'static) {
        // A second hook is ignored.
        drop(self.before_swap.set(Box::new(hook)));
    }

    /// Loads the active snapshot.
    pub fn load_snapshot(&self) -> Guard<Arc<CatalogSnapshot<R>>> {
        self.snapshot.load()
    }

    /// Returns the active catalog.
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.snapshot.load().catalog)
    }

    /// Returns the active policy.
    pub fn policy(&self) -> R {
        self.snapshot.load().policy.clone()
    }

    /// Replaces the catalog, the policy or both; `None` keeps the current one. Returns the new
    /// version.
    pub fn update_snapshot(&self, catalog: Option<&Arc<Catalog>>, rules: Option<&R>) -> u64 {
        let mut number = 0;
        // If another thread swaps concurrently, the update runs again on its result.
        let _before = self.snapshot.rcu(|now| {
            number = now.version + 1;
            let catalog = Arc::clone(catalog.unwrap_or(&now.catalog));
            let next = CatalogSnapshot {
                version: number,
                catalog,
                policy: rules.unwrap_or(&now.policy).clone(),
            };
            if let Some(look) = self.before_swap.get() {
                look(&next);
            }
            next
        });
        number
    }
}

impl<R> fmt::Debug for CurrentSnapshot<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Current")
            .field("number", &self.snapshot.load().version)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::CurrentSnapshot;
    use crate::Catalog;

    #[test]
    fn a_half_that_is_not_given_stays() {
        let current = CurrentSnapshot::new(Catalog::default(), 1);
        assert_eq!(
            current.update_snapshot(Some(&Arc::new(Catalog::from_sources(7, Vec::new()))), None),
            1
        );
        assert_eq!(current.update_snapshot(None, Some(&2)), 2);
        let now = current.load_snapshot();
        assert_eq!((now.version, now.catalog.version, now.policy), (2, 7, 2));
    }

    #[test]
    fn each_snapshot_is_looked_at_before_it_is_in_force() {
        let current = Arc::new(CurrentSnapshot::new(Catalog::default(), 1));
        let (seen, looked) = (Arc::new(Mutex::new(Vec::new())), Arc::downgrade(&current));
        let told = Arc::clone(&seen);
        current.set_before_swap(move |next| {
            let now = looked.upgrade().unwrap().load_snapshot().version;
            told.lock().unwrap().push((now, next.version, next.policy));
        });
        current.update_snapshot(None, Some(&2));
        current.update_snapshot(None, Some(&3));
        assert_eq!(*seen.lock().unwrap(), [(0, 1, 2), (1, 2, 3)]);
    }

    #[test]
    fn both_halves_change_in_one_step_and_no_change_is_lost() {
        let current = CurrentSnapshot::new(Catalog::default(), 0);
        let write = |writer: u64| {
            for number in (0..2_000).map(|n| n * 2 + writer) {
                current.update_snapshot(
                    Some(&Arc::new(Catalog::from_sources(number, Vec::new()))),
                    Some(&number),
                );
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| write(0));
            scope.spawn(|| write(1));
            scope.spawn(|| {
                for _ in 0..4_000 {
                    let now = current.load_snapshot();
                    assert_eq!(now.catalog.version, now.policy, "halves of two snapshots");
                }
            });
        });
        assert_eq!(current.load_snapshot().version, 4_000);
    }
}
