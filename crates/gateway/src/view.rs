//! What a rights class sees: worked out once per catalog, policy and class.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use catalog::{Catalog, Entry, Shelf};
use identity::{Principal, RightsClass};
use policy::{Admission, Facts, Policy, Residual};
use tool::{CallerType, Digest, Map, SourceName, ToolName, Wall};

use crate::{Gateway, Target};

/// Classes remembered at once; past that the cache starts anew.
const CLASSES: usize = 1_024;

/// The part of one catalog that one rights class may call, under one policy.
#[derive(Debug)]
pub struct View {
    /// Names this view in this process, so that others can cache what they make of it.
    pub id: u64,
    catalog: Arc<Catalog>,
    policy: Digest,
    /// By place in the catalog.
    residuals: Vec<Option<Residual>>,
    /// Methods of sources that may be called.
    methods: Map<(SourceName, ToolName), Residual>,
    /// Sources of which there is a tool or a method.
    sources: HashSet<SourceName>,
}

impl View {
    fn new(
        id: u64,
        catalog: Arc<Catalog>,
        policy: &Policy,
        (rights, by, now): (&RightsClass, CallerType, Wall),
    ) -> Self {
        let lens = policy.lens(rights, by, now);
        let admit = |entry: &Arc<Entry>| match lens.admit(&Facts::of(&entry.key, &entry.tool)) {
            Admission::Visible(residual) => Some(residual),
            Admission::Hidden(_) => None,
        };
        let residuals: Vec<_> = catalog.tools().iter().map(admit).collect();
        let methods = catalog.shelves().iter().flat_map(|shelf| &shelf.methods);
        let methods = methods.filter_map(|entry| {
            Some(((entry.key.source.clone(), entry.key.name.clone()), admit(entry)?))
        });
        let methods: Map<(SourceName, ToolName), Residual> = methods.collect();
        let seen = catalog.tools().iter().zip(&residuals).filter(|(_, seen)| seen.is_some());
        let mut sources: HashSet<_> = seen.map(|(entry, _)| entry.key.source.clone()).collect();
        sources.extend(methods.keys().map(|(source, _)| source.clone()));
        Self { id, catalog, policy: policy.digest(), residuals, methods, sources }
    }

    /// A tool of this view; hidden and unknown are both nothing.
    pub fn find(&self, name: &str) -> Option<(&Arc<Entry>, &Residual)> {
        let (at, entry) = self.catalog.find(name)?;
        let residual = self.residuals.get(at)?.as_ref()?;
        Some((entry, residual))
    }

    /// A method of one source; hidden and unknown are both nothing.
    pub fn method(&self, source: &str, name: &str) -> Option<(&Arc<Entry>, &Residual)> {
        let entry = self.catalog.method(source, name)?;
        let key = (entry.key.source.clone(), entry.key.name.clone());
        Some((entry, self.methods.get(&key)?))
    }

    /// What a request is for.
    pub(crate) fn target(&self, target: &Target) -> Option<(&Arc<Entry>, &Residual)> {
        match target {
            Target::Tool(name) => self.find(name),
            Target::Of { source, name } => {
                self.find(name).filter(|(entry, _)| entry.key.source.as_str() == source)
            }
            Target::Method { source, name } => self.method(source, name),
        }
    }

    /// The shelf of a source of which this view has anything: a tool, or a method.
    pub fn shelf(&self, source: &str) -> Option<&Arc<Shelf>> {
        self.sources.contains(source).then(|| self.catalog.shelf(source))?
    }

    /// Its tools, in the catalog's order.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<Entry>> {
        let seen = self.catalog.tools().iter().zip(&self.residuals);
        seen.filter_map(|(entry, residual)| residual.as_ref().map(|_| entry))
    }

    /// How many tools it has of each source, in one pass.
    pub fn count_by_source(&self) -> HashMap<&SourceName, usize> {
        let mut counts = HashMap::new();
        for entry in self.tools() {
            *counts.entry(&entry.key.source).or_default() += 1;
        }
        counts
    }

    /// Whether it has a tool of this source.
    pub fn has_source(&self, source: &str) -> bool {
        self.tools().any(|entry| entry.key.source.as_str() == source)
    }

    /// The catalog it is a part of.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// The policy it was made under.
    pub fn policy(&self) -> Digest {
        self.policy
    }
}

/// The views of one catalog and one policy.
#[derive(Debug, Default)]
pub(crate) struct Views {
    cached: Mutex<Cached>,
    ids: AtomicU64,
}

#[derive(Debug, Default)]
struct Cached {
    of: Option<(u64, Digest)>,
    /// From when to when it holds, where the policy goes by the time.
    span: Option<(Wall, Wall)>,
    /// Made by who asks first, outside of the lock: a class that is new holds up no other.
    views: Map<(RightsClass, CallerType), Arc<OnceLock<Arc<View>>>>,
}

impl Cached {
    /// A clock that was set back is a reason to look again, too.
    fn holds(&self, of: (u64, Digest), now: Option<Wall>) -> bool {
        let (of_these, room) = (self.of == Some(of), self.views.len() < CLASSES);
        let in_time = match (self.span, now) {
            (Some((from, until)), Some(now)) => from <= now && now < until,
            (span, now) => span.is_none() && now.is_none(),
        };
        of_these && room && in_time
    }
}

impl Gateway {
    /// What this principal sees now. A call keeps the view it began with.
    pub fn view(&self, principal: &Principal, by: CallerType) -> Arc<View> {
        let (catalog, policy) = (self.parts.catalog.load(), self.parts.policy.load());
        let of = (catalog.number, policy.digest());
        let key = (principal.rights().clone(), by);
        let now = policy.has_times().then(|| self.parts.clock.wall());
        let slot = {
            let mut cached = self.views.cached.lock().unwrap_or_else(PoisonError::into_inner);
            if !cached.holds(of, now) {
                let span = now.map(|now| (now, policy.valid_until(now).unwrap_or(Wall(u64::MAX))));
                *cached = Cached { of: Some(of), span, views: Map::default() };
            }
            Arc::clone(cached.views.entry(key).or_default())
        };
        let new = || {
            let id = self.views.ids.fetch_add(1, Ordering::Relaxed);
            let who = (principal.rights(), by, now.unwrap_or(Wall(0)));
            Arc::new(View::new(id, Arc::clone(&catalog), &policy, who))
        };
        Arc::clone(slot.get_or_init(new))
    }
}

#[cfg(test)]
mod tests;
