//! The views of one snapshot that are at hand: bounded, and never in force beyond it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use catalog::Snapshot;
use identity::RightsClass;
use policy::Policy;
use tool::{CallerType, Map, Wall};

use super::View;

/// Views at once.
const CLASSES: usize = 1_024;
/// Tools of all these views together: 64 MiB.
const TOOLS: usize = 16 << 20;
/// So many views there may be however large they are.
const LEAST: usize = 64;

/// Whose view, and for which way of calling.
type Key = (RightsClass, CallerType);
/// Made by who asks first, outside of the lock: a class that is new holds up no other.
type Slot = Arc<OnceLock<Arc<View>>>;

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
    places: Map<Key, usize>,
    slots: Vec<(Key, Slot)>,
    dice: u64,
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

    fn slot(&mut self, key: Key) -> (Slot, Option<Slot>) {
        let known = self.places.get(&key).and_then(|place| self.slots.get(*place));
        if let Some((_, slot)) = known {
            return (Arc::clone(slot), None);
        }
        let slot = Slot::default();
        let mut entry = (key.clone(), Arc::clone(&slot));
        if self.slots.len() < self.most {
            self.places.insert(key, self.slots.len());
            self.slots.push(entry);
            return (slot, None);
        }
        // Any of them: who goes through all classes in turn finds most of them still there, which
        // would not be so where the one used longest ago went.
        let place = self.roll();
        if let Some(old) = self.slots.get_mut(place) {
            std::mem::swap(old, &mut entry);
            self.places.remove(&entry.0);
            self.places.insert(key, place);
        }
        (slot, Some(entry.1))
    }

    fn roll(&mut self) -> usize {
        // Knuth's MMIX; the upper bits are the better ones.
        self.dice = self
            .dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.dice >> 33).unwrap_or_default() % self.slots.len().max(1)
    }
}

impl Views {
    /// A number for a new view.
    pub(super) fn id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Where this class's view of this snapshot is, or is to be put.
    pub(super) fn slot(&self, now: &Snapshot<Policy>, at: Option<Wall>, key: Key) -> Slot {
        let (slot, gone) = {
            let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
            // Who was late with an old snapshot does not take the place of the new one's views.
            if cached.of.is_some_and(|of| of > now.number) {
                return Slot::default();
            }
            let fresh = (!cached.holds(now.number, at)).then(|| Cached::begun(now, at));
            let gone = fresh.map(|fresh| std::mem::replace(&mut *cached, fresh));
            let (slot, evicted) = cached.slot(key);
            (slot, (gone, evicted))
        };
        // Views are large: they go where nobody waits.
        drop(gone);
        slot
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner).slots.len()
    }
}
