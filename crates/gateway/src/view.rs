//! The part of a catalog that a rights class may call, built once per catalog, policy and class.

mod cache;
mod residuals;
mod seen;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use catalog::{At, Catalog, Entry, Shelf, Snapshot};
use identity::{Principal, RightsClass};
use policy::{Admission, Facts, Policy, Residual};
use tool::{CallerType, Digest, Limits, SourceName, ToolKey, Wall};

use crate::{Gateway, Target};

pub(crate) use cache::Views;
use residuals::Shared;
use seen::Seen;

/// The part of one catalog that one rights class may call, under one policy.
#[derive(Debug)]
pub struct View {
    /// Id of this view within the process, for caches of derived data.
    pub id: u64,
    catalog: Arc<Catalog>,
    policy: Policy,
    /// Source views by catalog slot.
    parts: Box<[Option<Arc<Seen>>]>,
    /// Maximum size in bytes of the arguments of any of its tools.
    arguments: usize,
    /// Number of tools that were evaluated to build it.
    looked: usize,
}

impl View {
    /// Builds a view. Unchanged sources of the class's previous view, valid at the same time, are
    /// reused.
    fn new(
        id: u64,
        now: &Snapshot<Policy>,
        (rights, by, at): (&RightsClass, CallerType, Wall),
        (shared, before): (&Shared, Option<&Self>),
    ) -> Self {
        let (catalog, policy) = (Arc::clone(&now.catalog), now.rules.clone());
        let before = before.filter(|before| before.policy.is(&policy));
        let lens = policy.lens(rights, by, at);
        let admit = |entry: &Arc<Entry>| match lens.admit(&Facts::of(&entry.key, &entry.tool)) {
            Admission::Visible(residual) => Some(residual),
            Admission::Hidden(_) => None,
        };
        let mut looked = 0;
        let slots = catalog.parts().iter().enumerate();
        let parts = slots.map(|(slot, part)| {
            let part = part.as_ref()?;
            let seen = before.and_then(|before| before.seen(slot));
            if let Some(same) = seen.filter(|seen| Arc::ptr_eq(seen.part(), part)) {
                return Some(shared.one(Arc::clone(same)));
            }
            looked += part.shelf().tools.len();
            Some(Seen::new(part, admit, shared))
        });
        let parts: Box<[Option<Arc<Seen>>]> = parts.collect();
        drop(lens);
        let most = parts.iter().flatten().map(|seen| seen.arguments()).max();
        let arguments = most.unwrap_or(Limits::ARGUMENTS.bytes);
        Self { id, catalog, policy, parts, arguments, looked }
    }

    fn seen(&self, slot: usize) -> Option<&Arc<Seen>> {
        self.parts.get(slot)?.as_ref()
    }

    /// Returns the view of one source.
    fn of(&self, source: &str) -> Option<&Arc<Seen>> {
        self.seen(self.catalog.slot(source)?)
    }

    fn residual(&self, at: At) -> Option<&Residual> {
        self.seen(at.slot())?.tool(at.place())
    }

    /// Returns the maximum size of arguments in bytes: the size that an interface must accept, as
    /// it knows the caller before the tool.
    pub fn arguments(&self) -> usize {
        self.arguments
    }

    /// Finds a tool by name; `None` for hidden and unknown ones.
    pub fn find(&self, name: &str) -> Option<(&Arc<Entry>, &Residual)> {
        let (at, entry) = self.catalog.find(name)?;
        Some((entry, self.residual(at)?))
    }

    /// Finds a tool by its source and its own name there; `None` for hidden and unknown ones.
    pub fn find_of(&self, source: &str, name: &str) -> Option<(&Arc<Entry>, &Residual)> {
        let (at, entry) = self.catalog.find_of(source, name)?;
        Some((entry, self.residual(at)?))
    }

    /// Finds a tool by its key; `None` for hidden and unknown ones.
    pub fn find_key(&self, key: &ToolKey) -> Option<(&Arc<Entry>, &Residual)> {
        let (at, entry) = self.catalog.find_key(key)?;
        Some((entry, self.residual(at)?))
    }

    /// Finds a method of one source; `None` for hidden and unknown ones.
    pub fn method(&self, source: &str, name: &str) -> Option<(&Arc<Entry>, &Residual)> {
        self.of(source)?.method(name)
    }

    /// Finds the target of a request.
    pub(crate) fn target(&self, target: &Target) -> Option<(&Arc<Entry>, &Residual)> {
        match target {
            Target::Tool(name) => self.find(name),
            Target::Of { source, name } => self.find_of(source, name),
            Target::Method { source, name } => self.method(source, name),
        }
    }

    /// Returns the catalog of a source of which the view has a tool or method.
    pub fn shelf(&self, source: &str) -> Option<&Arc<Shelf>> {
        self.of(source).filter(|seen| seen.any()).map(|seen| seen.part().shelf())
    }

    /// Iterates over its tools in the catalog's order.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<Entry>> + Clone {
        self.tools_from(0, 0)
    }

    /// Iterates over its tools after the one of this name, without visiting those before; `None` if
    /// it has no such tool.
    pub fn tools_after<'a>(
        &'a self,
        name: &str,
    ) -> Option<impl Iterator<Item = &'a Arc<Entry>> + Clone + use<'a>> {
        let (at, entry) = self.catalog.find(name)?;
        let seen = entry.name.as_str() == name && self.residual(at).is_some();
        seen.then(|| self.tools_from(at.slot(), at.place() + 1))
    }

    fn tools_from(&self, slot: usize, place: usize) -> impl Iterator<Item = &Arc<Entry>> + Clone {
        let rest = self.parts.iter().skip(slot + 1).flatten();
        let first = self.seen(slot).map(|seen| seen.tools_from(place));
        first.into_iter().flatten().chain(rest.flat_map(|seen| seen.tools_from(0)))
    }

    /// Iterates over its tools of one source.
    pub fn tools_of(&self, source: &str) -> impl Iterator<Item = &Arc<Entry>> + Clone {
        self.of(source).into_iter().flat_map(|seen| seen.tools_from(0))
    }

    /// Returns the number of its tools by source.
    pub fn count_by_source(&self) -> HashMap<&SourceName, usize> {
        let seen = self.parts.iter().flatten().filter(|seen| seen.count() > 0);
        seen.map(|seen| (&seen.part().shelf().source, seen.count())).collect()
    }

    /// Returns true if it has a tool of this source.
    pub fn has_source(&self, source: &str) -> bool {
        self.of(source).is_some_and(|seen| seen.count() > 0)
    }

    /// Returns a hash of the names and definitions of its tools, or of those of one source; equal
    /// across views of a class while they are unchanged.
    pub fn print(&self, source: Option<&str>) -> u64 {
        let one = source.map(|source| self.of(source));
        let all = source.is_none().then(|| self.parts.iter().flatten());
        let seen = one.into_iter().flatten().chain(all.into_iter().flatten());
        let mut hash = DefaultHasher::new();
        seen.filter(|seen| seen.count() > 0).for_each(|seen| seen.print().hash(&mut hash));
        hash.finish()
    }

    /// Returns the catalog of which it is a part.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Returns the policy under which it was built.
    pub fn rules(&self) -> &Policy {
        &self.policy
    }

    /// Returns the digest of that policy, as in records.
    pub fn policy(&self) -> Digest {
        self.policy.digest()
    }
}

impl Gateway {
    /// Returns the view of this principal in the active snapshot. A call keeps the view that it
    /// started with.
    pub fn view(&self, principal: &Principal, by: CallerType) -> Arc<View> {
        let now = self.parts.current.load();
        let at = now.rules.has_times().then(|| self.parts.clock.wall());
        let key = (principal.rights().clone(), by);
        self.views.of(&now, at, &key, |id, shared| {
            View::new(id, &now, (&key.0, by, at.unwrap_or(Wall(0))), (shared, None))
        })
    }
}

#[cfg(test)]
mod tests;
