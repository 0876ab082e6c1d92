//! What the first stage left of each tool, by place in its part of the catalog.
//!
//! Classes differ in few tools, so that a view shares with the others of its snapshot what it has in
//! common with them: a thousand views take little more room, and little more of the processor's cache, than
//! one.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use policy::Residual;

use super::seen::Seen;

/// Tools of one run.
const RUN: usize = 256;
/// Runs that are remembered so that further views can share them: 2 MiB.
const RUNS: usize = 4_096;
/// The same of lists of kinds.
const LISTS: usize = 256;

/// Views' parts of one part of the catalog that are remembered, to the same end.
const PARTS: usize = 16;

/// Of up to [`RUN`] tools: nothing where one is hidden; else a place in the list of kinds, counted from one.
type Run = [u16];

/// What is left of each tool of one part of a view.
#[derive(Debug)]
pub(super) struct Residuals {
    /// Of many tools the same is left.
    kinds: Arc<[Residual]>,
    runs: Box<[Arc<Run>]>,
}

impl Residuals {
    pub(super) fn get(&self, at: usize) -> Option<&Residual> {
        let kind = *self.runs.get(at / RUN)?.get(at % RUN)?;
        self.kinds.get(usize::from(kind).checked_sub(1)?)
    }

    /// Whether both are made of the same pieces.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let runs = self.runs.iter().zip(&other.runs);
        Arc::ptr_eq(&self.kinds, &other.kinds)
            && self.runs.len() == other.runs.len()
            && runs.into_iter().all(|(one, other)| Arc::ptr_eq(one, other))
    }

    /// Whether each tool is seen, in the part's order, from the one at `from` on.
    pub(super) fn seen(&self, from: usize) -> impl Iterator<Item = bool> + Clone {
        let runs = self.runs.get(from / RUN..).unwrap_or_default();
        runs.iter().flat_map(|run| run.iter()).skip(from % RUN).map(|kind| *kind > 0)
    }
}

/// Residuals as they are put together, tool by tool.
#[derive(Debug, Default)]
pub(super) struct Building {
    kinds: Vec<Residual>,
    of: Vec<u16>,
}

/// Of so many kinds the last are looked through before a new one is kept.
const KINDS: usize = 64;

impl Building {
    pub(super) fn push(&mut self, residual: Option<Residual>) {
        let Some(residual) = residual else { return self.of.push(0) };
        let last = self.kinds.iter().enumerate().rev().take(KINDS);
        let known = last.into_iter().find(|(_, kind)| **kind == residual).map(|(at, _)| at);
        let at = known.unwrap_or_else(|| {
            self.kinds.push(residual);
            self.kinds.len() - 1
        });
        // Where there are more than can be counted, the tool is hidden.
        self.of.push(u16::try_from(at + 1).unwrap_or(0));
    }
}

/// What the views of one snapshot have in common. What was not remembered is kept twice, and no worse.
#[derive(Debug, Default)]
pub(super) struct Shared {
    kept: Mutex<Kept>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Kept {
    runs: HashSet<Arc<Run>>,
    lists: HashSet<Arc<[Residual]>>,
    /// By the parts of the catalog they are of, which they hold.
    parts: HashMap<usize, Vec<Arc<Seen>>>,
}

impl Shared {
    /// What was built, made of what is there already as far as it goes.
    pub(super) fn settle(&self, building: Building) -> Residuals {
        let Building { kinds, of } = building;
        // In an order of their own, so that views that have the same kinds count them the same.
        let mut order: Vec<_> = kinds.into_iter().zip(1_usize..).collect();
        order.sort_by_cached_key(|(kind, _)| self.hasher.hash_one(kind));
        let mut now = vec![0_u16; order.len() + 1];
        for ((_, before), place) in order.iter().zip(1..=u16::MAX) {
            if let Some(at) = now.get_mut(*before) {
                *at = place;
            }
        }
        let kinds: Vec<_> = order.into_iter().map(|(kind, _)| kind).collect();
        let now = |before: &u16| now.get(usize::from(*before)).copied().unwrap_or(0);
        let mut run = Vec::with_capacity(of.len().min(RUN));
        let mut kept = self.kept();
        let runs = of.chunks(RUN).map(|part| {
            run.clear();
            run.extend(part.iter().map(now));
            kept.run(&run)
        });
        let runs = runs.collect();
        Residuals { kinds: kept.list(kinds), runs }
    }

    /// What a view has of a part of the catalog, or the same thing of another view.
    pub(super) fn one(&self, seen: Arc<Seen>) -> Arc<Seen> {
        let mut kept = self.kept();
        let known = kept.parts.entry(Arc::as_ptr(seen.part()).addr()).or_default();
        if let Some(same) =
            known.iter().find(|known| Arc::ptr_eq(known, &seen) || known.is_like(&seen))
        {
            return Arc::clone(same);
        }
        if known.len() < PARTS {
            known.push(Arc::clone(&seen));
        }
        seen
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn run(&mut self, run: &Run) -> Arc<Run> {
        if let Some(known) = self.runs.get(run) {
            return Arc::clone(known);
        }
        let run: Arc<Run> = run.into();
        if self.runs.len() >= RUNS {
            self.runs.clear();
        }
        self.runs.insert(Arc::clone(&run));
        run
    }

    fn list(&mut self, kinds: Vec<Residual>) -> Arc<[Residual]> {
        if let Some(known) = self.lists.get(kinds.as_slice()) {
            return Arc::clone(known);
        }
        let kinds: Arc<[Residual]> = kinds.into();
        if self.lists.len() >= LISTS {
            self.lists.clear();
        }
        self.lists.insert(Arc::clone(&kinds));
        kinds
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use policy::{Reason, Residual};

    use super::{Building, RUN, Residuals, Shared};

    fn left(hold: Option<Reason>) -> Residual {
        let mut left = Residual::default();
        left.hold = hold;
        left
    }

    /// What is left of so many tools: every third is hidden, every fifth is held.
    fn built(shared: &Shared, tools: usize, hidden: usize) -> Residuals {
        let mut building = Building::default();
        for at in 0..tools {
            let held = (at % 5 == 0).then_some(Reason::Dangerous);
            building.push((at % 3 != 0 && at != hidden).then(|| left(held)));
        }
        shared.settle(building)
    }

    #[test]
    fn each_tool_has_what_was_left_of_it() {
        let shared = Shared::default();
        for tools in [0, 1, RUN, RUN + 1, 1_000] {
            let found = built(&shared, tools, 7);
            assert_eq!(
                found.seen(0).take(tools).filter(|seen| *seen).count(),
                (0..tools).filter(|at| at % 3 != 0 && *at != 7).count()
            );
            for from in [1, 7, RUN - 1, RUN, 999, 5_000] {
                let whole: Vec<_> = found.seen(0).skip(from).collect();
                assert_eq!(found.seen(from).collect::<Vec<_>>(), whole, "from {from} on");
            }
            for at in 0..tools {
                let hold = found.get(at).map(|residual| residual.hold);
                let held = (at % 5 == 0).then_some(Reason::Dangerous);
                assert_eq!(hold, (at % 3 != 0 && at != 7).then_some(held), "{at} of {tools}");
            }
            assert!(found.get(tools).is_none(), "behind the last there is nothing");
        }
    }

    #[test]
    fn views_share_what_is_the_same_in_them() {
        let shared = Shared::default();
        let (one, other) = (built(&shared, 2_000, 7), built(&shared, 2_000, 1_999));
        let same = one.runs.iter().zip(&other.runs).filter(|(a, b)| Arc::ptr_eq(a, b)).count();
        assert_eq!((one.runs.len(), same), (8, 6), "all but the first and the last");
        assert!(Arc::ptr_eq(&one.kinds, &other.kinds));
    }

    #[test]
    fn kinds_are_counted_the_same_whichever_comes_first() {
        let shared = Shared::default();
        let settle = |first: usize| {
            let mut building = Building::default();
            // The first tool is another for each, and of another kind.
            building.push((first == 0).then(|| left(None)));
            (0..RUN).for_each(|at| {
                building.push(Some(left((at % 2 == first).then_some(Reason::Dangerous))));
            });
            shared.settle(building)
        };
        let (one, other) = (settle(0), settle(1));
        assert!(Arc::ptr_eq(&one.kinds, &other.kinds));
    }

    #[test]
    fn more_kinds_than_can_be_counted_hide_the_tool() {
        let kinds = vec![left(None); usize::from(u16::MAX)];
        let mut building = Building { kinds, ..Building::default() };
        building.push(Some(left(Some(Reason::Dangerous))));
        assert!(Shared::default().settle(building).get(0).is_none());
    }
}
