//! The bounded cache of views for one snapshot.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use catalog::CatalogSnapshot;
use identity::RightsClass;
use policy::Policy;
use tool::{CallerType, FastMap, WallTime};

use super::CatalogView;
use super::residual_table::ResidualInterner;
use crate::GatewayComponents;
use crate::background_work::{block_in_place_if, drop_in_background, run_blocking_if_large};

/// Maximum number of cached views.
const MAX_VIEWS: usize = 1_024;
/// Total number of tools in all cached views: 32 MiB, if no two share anything.
const TOTAL_TOOL_BUDGET: usize = 16 << 20;
/// Minimum number of cached views, however large they are.
const MIN_VIEWS: usize = 64;
/// Number of tools from which views are built in advance: then a change costs each class what
/// changed, and no caller waits for it.
const PREBUILD_MIN_TOOLS: usize = 500;
/// Number of tools from which a view takes a millisecond to build or to drop.
const LARGE_CATALOG_TOOLS: usize = 5_000;
/// Number of bytes that building one tool of a view corresponds to. With a thousand rules, some
/// tens of tools take a millisecond, and a view is built once.
const EQUIVALENT_BYTES_PER_TOOL: usize = 1 << 12;
/// Number of tools evaluated in advance at each change: some hundred milliseconds. Unchanged tools
/// are not evaluated again.
const PREBUILD_TOOL_BUDGET: usize = 2 << 20;
/// Number of snapshots for which an unused view is still rebuilt.
const MAX_IDLE_SNAPSHOTS: u32 = 64;

/// Key of a view: rights class and caller type.
type ViewKey = (RightsClass, CallerType);

/// A view to rebuild: number of snapshots without use, key, and the latest view.
type RebuildRequest = (u32, ViewKey, Option<Arc<CatalogView>>);

/// A built view, or a cell in which the first caller builds it outside the lock, so that a new
/// class delays no other.
#[derive(Debug, Clone)]
enum ViewSlot {
    Built(Arc<CatalogView>),
    Building(Arc<OnceLock<Arc<CatalogView>>>),
}

/// Cell of a new view, and the interner that it may share with others.
type UnbuiltView = (Arc<OnceLock<Arc<CatalogView>>>, Arc<ResidualInterner>);

impl ViewSlot {
    /// Returns the built view if it is ready, and remembers it.
    fn resolve(&mut self) -> Self {
        if let Self::Building(slot) = self
            && let Some(view) = slot.get()
        {
            *self = Self::Built(Arc::clone(view));
        }
        self.clone()
    }
}

/// A cached view and the number of snapshots without use.
#[derive(Debug)]
struct CachedView {
    slot: ViewSlot,
    idle_snapshots: u32,
}

/// Views of one snapshot.
#[derive(Debug, Default)]
pub(crate) struct ViewCache {
    current: Mutex<SnapshotViews>,
    /// Views of the snapshot that is about to become active.
    next: Mutex<Option<SnapshotViews>>,
    ids: AtomicU64,
    /// Number of tools evaluated to prebuild views.
    #[cfg(test)]
    looked: std::sync::atomic::AtomicUsize,
}

#[derive(Debug, Default)]
struct SnapshotViews {
    /// Version of the snapshot.
    snapshot_version: Option<u64>,
    /// Time range of validity, if the policy depends on the time.
    valid_between: Option<(WallTime, WallTime)>,
    /// Number of tools in its catalog.
    tool_count: usize,
    capacity: usize,
    views: FastMap<ViewKey, CachedView>,
    /// Keys of the views, for random choice.
    keys: Vec<ViewKey>,
    random_state: u64,
    /// The policy of the snapshot.
    policy: Option<Policy>,
    interner: Arc<ResidualInterner>,
}

impl SnapshotViews {
    fn for_snapshot(now: &CatalogSnapshot<Policy>, at: Option<WallTime>) -> Self {
        let until = |at| now.policy.visibility_valid_until(at).unwrap_or(WallTime(u64::MAX));
        let tools = now.catalog.len();
        let most = (TOTAL_TOOL_BUDGET / tools.max(1)).clamp(MIN_VIEWS, MAX_VIEWS);
        let span = at.map(|at| (at, until(at)));
        Self {
            snapshot_version: Some(now.version),
            valid_between: span,
            tool_count: tools,
            capacity: most,
            policy: Some(now.policy.clone()),
            ..Self::default()
        }
    }

    /// Takes over the shared parts of these views, if they are of the same policy and valid.
    fn share_parts_of(
        &mut self,
        before: &Self,
        now: &CatalogSnapshot<Policy>,
        at: Option<WallTime>,
    ) {
        let policy = before.policy.as_ref();
        if policy.is_some_and(|policy| policy.is_same_policy(&now.policy)) && before.is_valid_at(at)
        {
            self.interner = Arc::clone(&before.interner);
        }
    }

    fn is_for(&self, number: u64, at: Option<WallTime>) -> bool {
        self.snapshot_version == Some(number) && self.is_valid_at(at)
    }

    /// A clock that was set back also invalidates the views.
    fn is_valid_at(&self, at: Option<WallTime>) -> bool {
        match (self.valid_between, at) {
            (Some((from, until)), Some(at)) => from <= at && at < until,
            (span, at) => span.is_none() && at.is_none(),
        }
    }

    fn view_slot(&mut self, key: &ViewKey) -> (ViewSlot, Option<ViewSlot>) {
        if let Some(place) = self.views.get_mut(key) {
            place.idle_snapshots = 0;
            return (place.slot.resolve(), None);
        }
        let slot = ViewSlot::Building(Arc::default());
        let (mut gone, mut place) = (None, self.keys.len());
        if place < self.capacity {
            self.keys.push(key.clone());
        } else {
            // Evicts a random view: a client that cycles through all classes then finds most of
            // them still cached, unlike with least-recently-used eviction.
            place = self.pick_random();
            if let Some(old) = self.keys.get_mut(place) {
                gone = self.views.remove(old).map(|place| place.slot);
                *old = key.clone();
            }
        }
        self.views.insert(key.clone(), CachedView { slot: slot.clone(), idle_snapshots: 0 });
        (slot, gone)
    }

    /// Inserts a view that nobody requested yet.
    fn insert_prebuilt(&mut self, key: ViewKey, view: CatalogView, idle: u32) {
        let slot = ViewSlot::Built(Arc::new(view));
        self.keys.push(key.clone());
        self.views.insert(key, CachedView { slot, idle_snapshots: idle });
    }

    /// Returns the views to rebuild for the next snapshot, most recently used first.
    fn select_rebuilds(&mut self, at: Option<WallTime>) -> Vec<RebuildRequest> {
        let lasts = self.is_valid_at(at);
        let made = |slot| match slot {
            ViewSlot::Built(view) => Some(view),
            ViewSlot::Building(_) => None,
        };
        let places =
            self.views.iter_mut().filter(|(_, place)| place.idle_snapshots < MAX_IDLE_SNAPSHOTS);
        let wanted = places.map(|(key, place)| {
            (place.idle_snapshots, key.clone(), made(place.slot.resolve()).filter(|_| lasts))
        });
        let mut wanted: Vec<_> =
            wanted.filter(|(idle, _, view)| *idle == 0 || view.is_some()).collect();
        wanted.sort_by_key(|(idle, ..)| *idle);
        wanted
    }

    /// Returns the prebuilt views, if nobody has requested this snapshot yet.
    fn prebuilt_views(
        &self,
        at: Option<WallTime>,
    ) -> FastMap<ViewKey, (u32, Option<Arc<CatalogView>>)> {
        let lasts = self.is_valid_at(at);
        let made = |slot: &ViewSlot| match slot {
            ViewSlot::Built(view) => Some(Arc::clone(view)).filter(|_| lasts),
            ViewSlot::Building(_) => None,
        };
        let places = self.views.iter();
        places
            .map(|(key, place)| (key.clone(), (place.idle_snapshots, made(&place.slot))))
            .collect()
    }

    /// Stops rebuilding these until they are requested, unless another snapshot became active
    /// meanwhile.
    fn stop_rebuilding(&mut self, of: Option<u64>, idle: &[ViewKey]) {
        if self.snapshot_version == of {
            for key in idle {
                if let Some(place) = self.views.get_mut(key) {
                    place.idle_snapshots = MAX_IDLE_SNAPSHOTS;
                }
            }
        }
    }

    fn pick_random(&mut self) -> usize {
        // Uses Knuth's MMIX generator; its upper bits are the better ones.
        self.random_state = self
            .random_state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.random_state >> 33).unwrap_or(usize::MAX) % self.keys.len().max(1)
    }
}

impl ViewCache {
    /// Creates the cache of a gateway. For large catalogs, views are built before a snapshot
    /// becomes active, so that no call waits for one.
    pub(crate) fn with_prebuild(components: &GatewayComponents) -> Arc<Self> {
        let views = Arc::new(Self::default());
        let (told, clock) = (Arc::downgrade(&views), Arc::clone(&components.clock));
        components.current.set_before_swap(move |next| {
            if let Some(views) = told.upgrade().filter(|_| next.catalog.len() > PREBUILD_MIN_TOOLS)
            {
                let at = next.policy.is_time_dependent().then(|| clock.wall_now());
                block_in_place_if(true, || views.prebuild(next, at));
            }
        });
        views
    }

    /// Builds the views of `next` for the classes that used the current snapshot or one of its last
    /// predecessors.
    fn prebuild(&self, next: &CatalogSnapshot<Policy>, at: Option<WallTime>) {
        let mut fresh = SnapshotViews::for_snapshot(next, at);
        let lock = || self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let (of, wanted) = {
            let mut cached = lock();
            fresh.share_parts_of(&cached, next, at);
            (cached.snapshot_version, cached.select_rebuilds(at))
        };
        fresh.interner.retain_sources(&next.catalog);
        let (wanted, idle) = self.newest_views(wanted, at);
        if !idle.is_empty() {
            lock().stop_rebuilding(of, &idle);
        }
        // Without a view to start from, views of a small catalog are built when they are requested.
        let is_large = next.catalog.len() > LARGE_CATALOG_TOOLS;
        let wanted = wanted.into_iter().filter(|(.., before)| is_large || before.is_some());
        let mut looked = 0;
        for (idle, key, before) in wanted.take(fresh.capacity) {
            let id = self.ids.fetch_add(1, Ordering::Relaxed);
            let of = (&key.0, key.1, at.unwrap_or(WallTime(0)));
            let view = CatalogView::new(id, next, of, (&fresh.interner, before.as_deref()));
            looked += view.evaluated_tools;
            fresh.insert_prebuilt(key, view, idle + 1);
            if looked >= PREBUILD_TOOL_BUDGET {
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
    fn newest_views(
        &self,
        wanted: Vec<RebuildRequest>,
        at: Option<WallTime>,
    ) -> (Vec<RebuildRequest>, Vec<ViewKey>) {
        let next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(prepared) = next.as_ref().map(|next| next.prebuilt_views(at)) else {
            return (wanted, Vec::new());
        };
        drop(next);
        let mut gone = Vec::new();
        let newest = wanted.into_iter().filter_map(|(idle, key, before)| {
            let Some((longer, view)) = prepared.get(&key) else { return Some((idle, key, before)) };
            if *longer >= MAX_IDLE_SNAPSHOTS {
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
    fn take_prebuilt(
        &self,
        before: &SnapshotViews,
        now: &CatalogSnapshot<Policy>,
        at: Option<WallTime>,
    ) -> SnapshotViews {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let ready = next.take_if(|next| next.is_for(now.version, at));
        drop(next);
        ready.unwrap_or_else(|| {
            let mut fresh = SnapshotViews::for_snapshot(now, at);
            fresh.share_parts_of(before, now, at);
            fresh.interner.retain_sources(&now.catalog);
            fresh
        })
    }

    /// Returns the view of a rights class for this snapshot; `build` builds a missing one with an
    /// id and the shared interner.
    pub(super) fn get_or_build(
        &self,
        snapshot: &CatalogSnapshot<Policy>,
        time: Option<WallTime>,
        key: &ViewKey,
        build: impl FnOnce(u64, &ResidualInterner) -> CatalogView,
    ) -> Arc<CatalogView> {
        match self.find_or_reserve(snapshot, time, key) {
            Ok(view) => view,
            // Building, or waiting for it, delays no other connection of the thread.
            Err((slot, shared)) => run_blocking_if_large(
                snapshot.catalog.len().saturating_mul(EQUIVALENT_BYTES_PER_TOOL),
                || {
                    let id = || self.ids.fetch_add(1, Ordering::Relaxed);
                    Arc::clone(slot.get_or_init(|| Arc::new(build(id(), &shared))))
                },
            ),
        }
    }

    /// Returns the view, or the cell in which to build it.
    fn find_or_reserve(
        &self,
        now: &CatalogSnapshot<Policy>,
        at: Option<WallTime>,
        key: &ViewKey,
    ) -> Result<Arc<CatalogView>, UnbuiltView> {
        let (found, gone, evicted) = {
            let mut cached = self.current.lock().unwrap_or_else(PoisonError::into_inner);
            // A late caller with an old snapshot does not replace the views of the new one.
            if cached.snapshot_version.is_some_and(|of| of > now.version) {
                return Err(UnbuiltView::default());
            }
            let fresh =
                (!cached.is_for(now.version, at)).then(|| self.take_prebuilt(&cached, now, at));
            let gone = fresh.map(|fresh| std::mem::replace(&mut *cached, fresh));
            let (slot, evicted) = cached.view_slot(key);
            let found = match slot {
                ViewSlot::Built(view) => Ok(view),
                ViewSlot::Building(slot) => Err((slot, Arc::clone(&cached.interner))),
            };
            (found, gone, evicted)
        };
        // Views are large and may hold the last reference to a catalog: they are dropped in the
        // background.
        let before = gone.as_ref().map(|gone| gone.tool_count);
        if before.is_some() || evicted.is_some() {
            let tools = before.unwrap_or_default().max(now.catalog.len());
            drop_in_background(tools > LARGE_CATALOG_TOOLS, (gone, evicted));
        }
        found
    }

    /// Returns the number of tools evaluated for prebuilding since the last query.
    #[cfg(test)]
    pub(super) fn take_evaluated_count(&self) -> usize {
        self.looked.swap(0, Ordering::Relaxed)
    }

    /// Returns the number of views of a snapshot that was not requested yet.
    #[cfg(test)]
    pub(super) fn prebuilt_count(&self) -> usize {
        let next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        next.as_ref().map_or(0, |next| next.keys.len())
    }

    /// Returns the number of views.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).keys.len()
    }
}
