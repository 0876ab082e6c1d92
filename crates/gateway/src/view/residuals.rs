//! The policy residual of each tool of a source, interned so that views share memory.
//!
//! Rights classes differ in few tools, so the views of a snapshot share common parts: a thousand
//! views take little more memory and CPU cache than one.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use policy::Residual;

use super::seen::Seen;

/// Number of tools per chunk.
const RUN: usize = 256;
/// Number of chunks remembered for sharing: 2 MiB.
const RUNS: usize = 4_096;
/// Number of residual lists remembered for sharing.
const LISTS: usize = 256;

/// Number of source views remembered for sharing per source.
const PARTS: usize = 16;

/// A chunk of up to [`RUN`] tools: zero for a hidden tool, else an index into the residual list,
/// counted from one.
type Run = [u16];

/// Residuals of all tools of one source view.
#[derive(Debug)]
pub(super) struct Residuals {
    /// Distinct residuals; many tools share one.
    kinds: Arc<[Residual]>,
    runs: Box<[Arc<Run>]>,
}

impl Residuals {
    pub(super) fn get(&self, at: usize) -> Option<&Residual> {
        let kind = *self.runs.get(at / RUN)?.get(at % RUN)?;
        self.kinds.get(usize::from(kind).checked_sub(1)?)
    }

    /// Returns true if both share all parts.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let runs = self.runs.iter().zip(&other.runs);
        Arc::ptr_eq(&self.kinds, &other.kinds)
            && self.runs.len() == other.runs.len()
            && runs.into_iter().all(|(one, other)| Arc::ptr_eq(one, other))
    }

    /// Iterates over whether each tool is visible, in order, starting at `from`.
    pub(super) fn seen(&self, from: usize) -> impl Iterator<Item = bool> + Clone {
        let runs = self.runs.iter().skip(from / RUN);
        runs.flat_map(|run| run.iter()).skip(from % RUN).map(|kind| *kind > 0)
    }
}

/// Builds a residual table tool by tool.
#[derive(Debug, Default)]
pub(super) struct Building {
    kinds: Vec<Residual>,
    of: Vec<u16>,
}

/// Index of a tool that is not visible.
const HIDDEN: u16 = 0;

/// Number of recent residuals that are searched before a new one is added.
const KINDS: usize = 64;

impl Building {
    pub(super) fn push(&mut self, residual: Option<Residual>) {
        let Some(residual) = residual else { return self.of.push(HIDDEN) };
        let last = self.kinds.iter().enumerate().rev().take(KINDS);
        let known = last.into_iter().find(|(_, kind)| **kind == residual).map(|(at, _)| at);
        let at = known.unwrap_or_else(|| {
            self.kinds.push(residual);
            self.kinds.len() - 1
        });
        // If there are more than can be indexed, the tool is hidden.
        self.of.push(u16::try_from(at + 1).unwrap_or(HIDDEN));
    }
}

/// Parts shared by the views of one snapshot. A part that is not remembered is only stored twice.
#[derive(Debug, Default)]
pub(super) struct Shared {
    kept: Mutex<Kept>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Kept {
    runs: HashSet<Arc<Run>>,
    lists: HashSet<Arc<[Residual]>>,
    /// Source views by the merged source that they hold.
    parts: HashMap<usize, Vec<Arc<Seen>>>,
}

impl Shared {
    /// Builds the table from shared parts where possible.
    pub(super) fn settle(&self, building: Building) -> Residuals {
        let Building { kinds, of } = building;
        // Residuals are sorted by hash, so that views with equal sets have equal indices.
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

    /// Returns the source view, or an equal one of another view.
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
