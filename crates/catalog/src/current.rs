//! What is in force: a catalog and the rules that go with it, as one value.
//!
//! Both are swapped in one step, so that nobody can see the catalog of one moment under the rules of
//! another. What the rules are is not known here.

use std::fmt;
use std::sync::Arc;

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
pub struct Current<R>(ArcSwap<Snapshot<R>>);

impl<R: Clone> Current<R> {
    /// Begins with these.
    pub fn new(catalog: impl Into<Arc<Catalog>>, rules: R) -> Self {
        Self(ArcSwap::from_pointee(Snapshot { number: 0, catalog: catalog.into(), rules }))
    }

    /// The snapshot now, to look at and let go.
    pub fn load(&self) -> Guard<Arc<Snapshot<R>>> {
        self.0.load()
    }

    /// The catalog now.
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.0.load().catalog)
    }

    /// The rules now.
    pub fn rules(&self) -> R {
        self.0.load().rules.clone()
    }

    /// Swaps in what is given; what is not given stays as it is. Gives the new number.
    pub fn swap(&self, catalog: Option<&Arc<Catalog>>, rules: Option<&R>) -> u64 {
        let mut number = 0;
        // Who swaps one half meanwhile is not undone: it is looked at anew.
        let _before = self.0.rcu(|now| {
            number = now.number + 1;
            let catalog = Arc::clone(catalog.unwrap_or(&now.catalog));
            Snapshot { number, catalog, rules: rules.unwrap_or(&now.rules).clone() }
        });
        number
    }
}

impl<R> fmt::Debug for Current<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Current").field("number", &self.0.load().number).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

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
