//! The views of one snapshot that are at hand: bounded, and never in force beyond it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use catalog::Snapshot;
use identity::RightsClass;
use policy::Policy;
use tool::{CallerType, Map, Wall};

use super::View;
use super::residuals::Shared;

/// Views at once.
const CLASSES: usize = 1_024;
/// Tools of all these views together: 32 MiB, where no two have anything in common.
const TOOLS: usize = 16 << 20;
/// So many views there may be however large they are.
const LEAST: usize = 64;

/// Whose view, and for which way of calling.
type Key = (RightsClass, CallerType);

/// A view that is there, or that is being made by who asks first, outside of the lock: a class that is new
/// holds up no other.
#[derive(Debug, Clone)]
enum Slot {
    Made(Arc<View>),
    Making(Arc<OnceLock<Arc<View>>>),
}

/// Where a new view is to be put, and what it may share with the others.
type New = (Arc<OnceLock<Arc<View>>>, Arc<Shared>);

impl Slot {
    /// What is there, to go without the detour from now on.
    fn now(&mut self) -> Self {
        if let Self::Making(slot) = self
            && let Some(view) = slot.get()
        {
            *self = Self::Made(Arc::clone(view));
        }
        self.clone()
    }
}

/// The views of one snapshot.
#[derive(Debug, Default)]
pub(crate) struct Views {
    cached: Mutex<Cached>,
    ids: AtomicU64,
}

#[derive(Debug, Default)]
struct Cached {
    /// The number of the snapshot.
    of: Option<u64>,
    /// From when to when it holds, where the policy goes by the time.
    span: Option<(Wall, Wall)>,
    most: usize,
    places: Map<Key, (Slot, usize)>,
    /// The same keys, to choose one of them.
    keys: Vec<Key>,
    dice: u64,
    shared: Arc<Shared>,
}

impl Cached {
    fn begun(now: &Snapshot<Policy>, at: Option<Wall>) -> Self {
        let until = |at| now.rules.valid_until(at).unwrap_or(Wall(u64::MAX));
        let most = (TOOLS / now.catalog.tools().len().max(1)).clamp(LEAST, CLASSES);
        let span = at.map(|at| (at, until(at)));
        Self { of: Some(now.number), span, most, ..Self::default() }
    }

    /// A clock that was set back is a reason to look again, too.
    fn holds(&self, number: u64, at: Option<Wall>) -> bool {
        let in_time = match (self.span, at) {
            (Some((from, until)), Some(at)) => from <= at && at < until,
            (span, at) => span.is_none() && at.is_none(),
        };
        self.of == Some(number) && in_time
    }

    fn slot(&mut self, key: &Key) -> (Slot, Option<Slot>) {
        if let Some((slot, _)) = self.places.get_mut(key) {
            return (slot.now(), None);
        }
        let slot = Slot::Making(Arc::default());
        let (mut gone, mut place) = (None, self.keys.len());
        if place < self.most {
            self.keys.push(key.clone());
        } else {
            // Any of them: who goes through all classes in turn finds most of them still there, which
            // would not be so where the one used longest ago went.
            place = self.roll();
            if let Some(old) = self.keys.get_mut(place) {
                gone = self.places.remove(old).map(|(slot, _)| slot);
                *old = key.clone();
            }
        }
        self.places.insert(key.clone(), (slot.clone(), place));
        (slot, gone)
    }

    fn roll(&mut self) -> usize {
        // Knuth's MMIX; the upper bits are the better ones.
        self.dice = self
            .dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.dice >> 33).unwrap_or_default() % self.keys.len().max(1)
    }
}

impl Views {
    /// This class's view of this snapshot; `make` makes it where there is none yet, with a number for it and
    /// with what it may share with the others.
    pub(super) fn of(
        &self,
        now: &Snapshot<Policy>,
        at: Option<Wall>,
        key: &Key,
        make: impl FnOnce(u64, &Shared) -> View,
    ) -> Arc<View> {
        match self.slot(now, at, key) {
            Ok(view) => view,
            Err((slot, shared)) => {
                let id = || self.ids.fetch_add(1, Ordering::Relaxed);
                Arc::clone(slot.get_or_init(|| Arc::new(make(id(), &shared))))
            }
        }
    }

    /// The view, or where it is to be put.
    fn slot(&self, now: &Snapshot<Policy>, at: Option<Wall>, key: &Key) -> Result<Arc<View>, New> {
        let (slot, shared, gone) = {
            let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
            // Who was late with an old snapshot does not take the place of the new one's views.
            if cached.of.is_some_and(|of| of > now.number) {
                return Err(New::default());
            }
            let fresh = (!cached.holds(now.number, at)).then(|| Cached::begun(now, at));
            let gone = fresh.map(|fresh| std::mem::replace(&mut *cached, fresh));
            let (slot, evicted) = match cached.slot(key) {
                (Slot::Made(view), _) => return Ok(view),
                (Slot::Making(slot), evicted) => (slot, evicted),
            };
            (slot, Arc::clone(&cached.shared), (gone, evicted))
        };
        // Views are large: they go where nobody waits.
        drop(gone);
        Err((slot, shared))
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner).keys.len()
    }
}
