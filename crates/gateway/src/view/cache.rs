//! The views of one snapshot that are at hand: bounded, and never in force beyond it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use catalog::Snapshot;
use identity::RightsClass;
use policy::Policy;
use tool::{CallerType, Map, Wall};

use super::View;
use super::residuals::Shared;
use crate::Parts;
use crate::aside::{aside, away};

/// Views at once.
const CLASSES: usize = 1_024;
/// Tools of all these views together: 32 MiB, where no two have anything in common.
const TOOLS: usize = 16 << 20;
/// So many views there may be however large they are.
const LEAST: usize = 64;
/// Tools of a catalog of which a view takes about a millisecond: then it is made before it is asked for.
const MANY: usize = 5_000;
/// What a tool of a new view counts for as bytes. With a thousand rules some tens of tools take a
/// millisecond, and a view is made once.
const TOOL: usize = 1 << 14;
/// Tools that are looked at for that at each change: some hundred milliseconds. What the snapshot before
/// had too is not looked at again.
const AHEAD: usize = 2 << 20;
/// For so many changes a view goes on being made although nobody asks for it.
const IDLE: u32 = 64;

/// Whose view, and for which way of calling.
type Key = (RightsClass, CallerType);

/// A view that is to be made again: for how many snapshots nobody asked for it, and the newest there is.
type Wanted = (u32, Key, Option<Arc<View>>);

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

/// One view, and for how many snapshots it was not asked for.
#[derive(Debug)]
struct Place {
    slot: Slot,
    idle: u32,
}

/// The views of one snapshot.
#[derive(Debug, Default)]
pub(crate) struct Views {
    cached: Mutex<Cached>,
    /// Those of the snapshot that is about to be in force.
    next: Mutex<Option<Cached>>,
    ids: AtomicU64,
    /// Tools that were looked at to prepare views.
    #[cfg(test)]
    looked: std::sync::atomic::AtomicUsize,
}

#[derive(Debug, Default)]
struct Cached {
    /// The number of the snapshot.
    of: Option<u64>,
    /// From when to when it holds, where the policy goes by the time.
    span: Option<(Wall, Wall)>,
    /// Tools of its catalog.
    tools: usize,
    most: usize,
    places: Map<Key, Place>,
    /// The same keys, to choose one of them.
    keys: Vec<Key>,
    dice: u64,
    shared: Arc<Shared>,
}

impl Cached {
    fn begun(now: &Snapshot<Policy>, at: Option<Wall>) -> Self {
        let until = |at| now.rules.valid_until(at).unwrap_or(Wall(u64::MAX));
        let tools = now.catalog.len();
        let most = (TOOLS / tools.max(1)).clamp(LEAST, CLASSES);
        let span = at.map(|at| (at, until(at)));
        Self { of: Some(now.number), span, tools, most, ..Self::default() }
    }

    fn holds(&self, number: u64, at: Option<Wall>) -> bool {
        self.of == Some(number) && self.lasts(at)
    }

    /// A clock that was set back is a reason to look again, too.
    fn lasts(&self, at: Option<Wall>) -> bool {
        match (self.span, at) {
            (Some((from, until)), Some(at)) => from <= at && at < until,
            (span, at) => span.is_none() && at.is_none(),
        }
    }

    fn slot(&mut self, key: &Key) -> (Slot, Option<Slot>) {
        if let Some(place) = self.places.get_mut(key) {
            place.idle = 0;
            return (place.slot.now(), None);
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
                gone = self.places.remove(old).map(|place| place.slot);
                *old = key.clone();
            }
        }
        self.places.insert(key.clone(), Place { slot: slot.clone(), idle: 0 });
        (slot, gone)
    }

    /// Takes up a view that nobody asked for yet.
    fn keep(&mut self, key: Key, view: View, idle: u32) {
        let slot = Slot::Made(Arc::new(view));
        self.keys.push(key.clone());
        self.places.insert(key, Place { slot, idle });
    }

    /// What is to be made again for the next snapshot: what was asked for last first.
    fn wanted(&mut self, at: Option<Wall>) -> Vec<Wanted> {
        let lasts = self.lasts(at);
        let made = |slot| match slot {
            Slot::Made(view) => Some(view),
            Slot::Making(_) => None,
        };
        let places = self.places.iter_mut().filter(|(_, place)| place.idle < IDLE);
        let wanted = places.map(|(key, place)| {
            (place.idle, key.clone(), made(place.slot.now()).filter(|_| lasts))
        });
        let mut wanted: Vec<_> =
            wanted.filter(|(idle, _, view)| *idle == 0 || view.is_some()).collect();
        wanted.sort_by_key(|(idle, ..)| *idle);
        wanted
    }

    /// The views that were prepared, where nobody has asked for this snapshot yet.
    fn prepared(&self, at: Option<Wall>) -> Map<Key, (u32, Option<Arc<View>>)> {
        let lasts = self.lasts(at);
        let made = |slot: &Slot| match slot {
            Slot::Made(view) => Some(Arc::clone(view)).filter(|_| lasts),
            Slot::Making(_) => None,
        };
        let places = self.places.iter();
        places.map(|(key, place)| (key.clone(), (place.idle, made(&place.slot)))).collect()
    }

    /// These are not made again until somebody asks, unless somebody has asked for another snapshot meanwhile.
    fn give_up(&mut self, of: Option<u64>, idle: &[Key]) {
        if self.of == of {
            for key in idle {
                if let Some(place) = self.places.get_mut(key) {
                    place.idle = IDLE;
                }
            }
        }
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
    /// For a gateway of these parts. Of large catalogs the views are made before they are in force, so
    /// that no call waits for one.
    pub(crate) fn before(parts: &Parts) -> Arc<Self> {
        let views = Arc::new(Self::default());
        let (told, clock) = (Arc::downgrade(&views), Arc::clone(&parts.clock));
        parts.current.ahead(move |next| {
            if let Some(views) = told.upgrade().filter(|_| next.catalog.len() > MANY) {
                views.prepare(next, next.rules.has_times().then(|| clock.wall()));
            }
        });
        views
    }

    /// Makes the views of `next` for the classes that asked for one of the snapshot now, or of one of the
    /// last before it.
    fn prepare(&self, next: &Snapshot<Policy>, at: Option<Wall>) {
        let mut fresh = Cached::begun(next, at);
        let lock = || self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        let (of, wanted) = {
            let mut cached = lock();
            (cached.of, cached.wanted(at))
        };
        let (wanted, idle) = self.newest(wanted, at);
        if !idle.is_empty() {
            lock().give_up(of, &idle);
        }
        let mut looked = 0;
        for (idle, key, before) in wanted.into_iter().take(fresh.most) {
            let id = self.ids.fetch_add(1, Ordering::Relaxed);
            let of = (&key.0, key.1, at.unwrap_or(Wall(0)));
            let view = View::new(id, next, of, (&fresh.shared, before.as_deref()));
            looked += view.looked;
            fresh.keep(key, view, idle + 1);
            if looked >= AHEAD {
                break;
            }
        }
        #[cfg(test)]
        self.looked.fetch_add(looked, Ordering::Relaxed);
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(fresh);
    }

    /// The same from the views that were prepared last. Nobody has asked for those yet: without them each
    /// change would look at what all changes before it had changed, and no view would ever be idle.
    /// Beside them those that are idle now.
    fn newest(&self, wanted: Vec<Wanted>, at: Option<Wall>) -> (Vec<Wanted>, Vec<Key>) {
        let next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(prepared) = next.as_ref().map(|next| next.prepared(at)) else {
            return (wanted, Vec::new());
        };
        drop(next);
        let mut gone = Vec::new();
        let newest = wanted.into_iter().filter_map(|(idle, key, before)| {
            let Some((longer, view)) = prepared.get(&key) else { return Some((idle, key, before)) };
            if *longer >= IDLE {
                gone.push(key);
                return None;
            }
            Some((*longer, key, view.clone().or(before)))
        });
        let mut newest: Vec<_> = newest.collect();
        newest.sort_by_key(|(idle, ..)| *idle);
        (newest, gone)
    }

    /// What was prepared of this snapshot, or nothing yet.
    fn fresh(&self, now: &Snapshot<Policy>, at: Option<Wall>) -> Cached {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let ready = next.take_if(|next| next.holds(now.number, at));
        ready.unwrap_or_else(|| Cached::begun(now, at))
    }

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
            // Who makes it, or waits for it, holds up no other connection of its thread.
            Err((slot, shared)) => aside(now.catalog.len().saturating_mul(TOOL), || {
                let id = || self.ids.fetch_add(1, Ordering::Relaxed);
                Arc::clone(slot.get_or_init(|| Arc::new(make(id(), &shared))))
            }),
        }
    }

    /// The view, or where it is to be put.
    fn slot(&self, now: &Snapshot<Policy>, at: Option<Wall>, key: &Key) -> Result<Arc<View>, New> {
        let (found, gone, evicted) = {
            let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
            // Who was late with an old snapshot does not take the place of the new one's views.
            if cached.of.is_some_and(|of| of > now.number) {
                return Err(New::default());
            }
            let fresh = (!cached.holds(now.number, at)).then(|| self.fresh(now, at));
            let gone = fresh.map(|fresh| std::mem::replace(&mut *cached, fresh));
            let (slot, evicted) = cached.slot(key);
            let found = match slot {
                Slot::Made(view) => Ok(view),
                Slot::Making(slot) => Err((slot, Arc::clone(&cached.shared))),
            };
            (found, gone, evicted)
        };
        // Views are large, and the last of them has its catalog: they go where nobody waits.
        let before = gone.as_ref().map(|gone| gone.tools);
        if before.is_some() || evicted.is_some() {
            let tools = before.unwrap_or_default().max(now.catalog.len());
            away(tools > MANY, (gone, evicted));
        }
        found
    }

    /// How many tools were looked at to prepare views, since this was asked last.
    #[cfg(test)]
    pub(super) fn looked(&self) -> usize {
        self.looked.swap(0, Ordering::Relaxed)
    }

    /// How many are there of a snapshot that was not asked for yet.
    #[cfg(test)]
    pub(super) fn ready(&self) -> usize {
        let next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        next.as_ref().map_or(0, |next| next.keys.len())
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner).keys.len()
    }
}
