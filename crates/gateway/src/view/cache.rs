//! The bounded cache of views for one snapshot.

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

/// Maximum number of cached views.
const CLASSES: usize = 1_024;
/// Total number of tools in all cached views: 32 MiB, if no two share anything.
const TOOLS: usize = 16 << 20;
/// Minimum number of cached views, however large they are.
const LEAST: usize = 64;
/// Number of tools from which building a view takes about a millisecond, so that views are built in
/// advance.
const MANY: usize = 5_000;
/// Number of bytes that building one tool of a view corresponds to. With a thousand rules, some
/// tens of tools take a millisecond, and a view is built once.
const TOOL: usize = 1 << 14;
/// Number of tools evaluated in advance at each change: some hundred milliseconds. Unchanged tools
/// are not evaluated again.
const AHEAD: usize = 2 << 20;
/// Number of snapshots for which an unused view is still rebuilt.
const IDLE: u32 = 64;

/// Key of a view: rights class and caller type.
type Key = (RightsClass, CallerType);

/// A view to rebuild: number of snapshots without use, key, and the latest view.
type Wanted = (u32, Key, Option<Arc<View>>);

/// A built view, or a cell in which the first caller builds it outside the lock, so that a new
/// class delays no other.
#[derive(Debug, Clone)]
enum Slot {
    Made(Arc<View>),
    Making(Arc<OnceLock<Arc<View>>>),
}

/// Cell of a new view, and the interner that it may share with others.
type New = (Arc<OnceLock<Arc<View>>>, Arc<Shared>);

impl Slot {
    /// Returns the built view if it is ready, and remembers it.
    fn now(&mut self) -> Self {
        if let Self::Making(slot) = self
            && let Some(view) = slot.get()
        {
            *self = Self::Made(Arc::clone(view));
        }
        self.clone()
    }
}

/// A cached view and the number of snapshots without use.
#[derive(Debug)]
struct Place {
    slot: Slot,
    idle: u32,
}

/// Views of one snapshot.
#[derive(Debug, Default)]
pub(crate) struct Views {
    cached: Mutex<Cached>,
    /// Views of the snapshot that is about to become active.
    next: Mutex<Option<Cached>>,
    ids: AtomicU64,
    /// Number of tools evaluated to prebuild views.
    #[cfg(test)]
    looked: std::sync::atomic::AtomicUsize,
}

#[derive(Debug, Default)]
struct Cached {
    /// Version of the snapshot.
    of: Option<u64>,
    /// Time range of validity, if the policy depends on the time.
    span: Option<(Wall, Wall)>,
    /// Number of tools in its catalog.
    tools: usize,
    most: usize,
    places: Map<Key, Place>,
    /// Keys of the views, for random choice.
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

    /// A clock that was set back also invalidates the views.
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
            // Evicts a random view: a client that cycles through all classes then finds most of
            // them still cached, unlike with least-recently-used eviction.
            place = self.roll();
            if let Some(old) = self.keys.get_mut(place) {
                gone = self.places.remove(old).map(|place| place.slot);
                *old = key.clone();
            }
        }
        self.places.insert(key.clone(), Place { slot: slot.clone(), idle: 0 });
        (slot, gone)
    }

    /// Inserts a view that nobody requested yet.
    fn keep(&mut self, key: Key, view: View, idle: u32) {
        let slot = Slot::Made(Arc::new(view));
        self.keys.push(key.clone());
        self.places.insert(key, Place { slot, idle });
    }

    /// Returns the views to rebuild for the next snapshot, most recently used first.
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

    /// Returns the prebuilt views, if nobody has requested this snapshot yet.
    fn prepared(&self, at: Option<Wall>) -> Map<Key, (u32, Option<Arc<View>>)> {
        let lasts = self.lasts(at);
        let made = |slot: &Slot| match slot {
            Slot::Made(view) => Some(Arc::clone(view)).filter(|_| lasts),
            Slot::Making(_) => None,
        };
        let places = self.places.iter();
        places.map(|(key, place)| (key.clone(), (place.idle, made(&place.slot)))).collect()
    }

    /// Stops rebuilding these until they are requested, unless another snapshot became active
    /// meanwhile.
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
        // Uses Knuth's MMIX generator; its upper bits are the better ones.
        self.dice = self
            .dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.dice >> 33).unwrap_or(usize::MAX) % self.keys.len().max(1)
    }
}

impl Views {
    /// Creates the cache of a gateway. For large catalogs, views are built before a snapshot
    /// becomes active, so that no call waits for one.
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

    /// Builds the views of `next` for the classes that used the current snapshot or one of its last
    /// predecessors.
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

    /// Prefers the views that were prebuilt last, which nobody has requested yet: otherwise each
    /// change would repeat the work of all previous ones, and no view would become idle. Also
    /// returns the keys that are idle.
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

    /// Takes the prebuilt views of this snapshot, or starts without any.
    fn fresh(&self, now: &Snapshot<Policy>, at: Option<Wall>) -> Cached {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let ready = next.take_if(|next| next.holds(now.number, at));
        ready.unwrap_or_else(|| Cached::begun(now, at))
    }

    /// Returns the view of a rights class for this snapshot; `make` builds a missing one with an id
    /// and the shared interner.
    pub(super) fn of(
        &self,
        now: &Snapshot<Policy>,
        at: Option<Wall>,
        key: &Key,
        make: impl FnOnce(u64, &Shared) -> View,
    ) -> Arc<View> {
        match self.slot(now, at, key) {
            Ok(view) => view,
            // Building, or waiting for it, delays no other connection of the thread.
            Err((slot, shared)) => aside(now.catalog.len().saturating_mul(TOOL), || {
                let id = || self.ids.fetch_add(1, Ordering::Relaxed);
                Arc::clone(slot.get_or_init(|| Arc::new(make(id(), &shared))))
            }),
        }
    }

    /// Returns the view, or the cell in which to build it.
    fn slot(&self, now: &Snapshot<Policy>, at: Option<Wall>, key: &Key) -> Result<Arc<View>, New> {
        let (found, gone, evicted) = {
            let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
            // A late caller with an old snapshot does not replace the views of the new one.
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
        // Views are large and may hold the last reference to a catalog: they are dropped in the
        // background.
        let before = gone.as_ref().map(|gone| gone.tools);
        if before.is_some() || evicted.is_some() {
            let tools = before.unwrap_or_default().max(now.catalog.len());
            away(tools > MANY, (gone, evicted));
        }
        found
    }

    /// Returns the number of tools evaluated for prebuilding since the last query.
    #[cfg(test)]
    pub(super) fn looked(&self) -> usize {
        self.looked.swap(0, Ordering::Relaxed)
    }

    /// Returns the number of views of a snapshot that was not requested yet.
    #[cfg(test)]
    pub(super) fn ready(&self) -> usize {
        let next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        next.as_ref().map_or(0, |next| next.keys.len())
    }

    /// Returns the number of views.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner).keys.len()
    }
}
