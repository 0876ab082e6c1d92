//! What is in force: a catalog and the rules that go with it, as one value.
//!
//! Both are swapped in one step, so that nobody can see the catalog of one moment under the rules of
//! another. What the rules are is not known here.

use std::fmt;
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwap, Guard};

use crate::Catalog;

/// A catalog under its rules. Immutable and numbered; a call holds on to the one it began with.
#[derive(Debug)]
pub struct Snapshot<R> {
    /// Grows with every change of either.
    pub number: u64,
    /// All items.
    pub catalog: Arc<Catalog>,
    /// Who may call which.
    pub rules: R,
}

/// Where the snapshot in force is swapped.
pub struct Current<R> {
    now: ArcSwap<Snapshot<R>>,
    ahead: OnceLock<Ahead<R>>,
}

/// Looks at a snapshot before it is in force.
type Ahead<R> = Box<dyn Fn(&Snapshot<R>) + Send + Sync>;

impl<R: Clone> Current<R> {
    /// Begins with these.
    pub fn new(catalog: impl Into<Arc<Catalog>>, rules: R) -> Self {
        let first = Snapshot { number: 0, catalog: catalog.into(), rules };
        Self { now: ArcSwap::from_pointee(first), ahead: OnceLock::new() }
    }

    /// Has `look` see each snapshot before it is in force, on the thread that swaps: what has to be
    /// worked out of one is ready then when it is first asked for. There is room for one who looks: whoever
    /// comes later is not told. A snapshot that was looked at may come to nothing, where another was
    /// swapped in at the same time.
    pub fn ahead(&self, look: impl Fn(&Snapshot<R>) + Send + Sync + 'static) {
        // Who comes later does without.
        drop(self.ahead.set(Box::new(look)));
    }

    /// The snapshot now, to look at and let go.
    pub fn load(&self) -> Guard<Arc<Snapshot<R>>> {
        self.now.load()
    }

    /// The catalog now.
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.now.load().catalog)
    }

    /// The rules now.
    pub fn rules(&self) -> R {
        self.now.load().rules.clone()
    }

    /// Swaps in what is given; what is not given stays as it is. Gives the new number.
    pub fn swap(&self, catalog: Option<&Arc<Catalog>>, rules: Option<&R>) -> u64 {
        let mut number = 0;
        // Who swaps one half meanwhile is not undone: it is looked at anew.
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
