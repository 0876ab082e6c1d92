//! What a rights class sees: worked out once per catalog, policy and class.

mod cache;
mod residuals;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use catalog::{Catalog, Entry, Shelf, Snapshot};
use identity::{Principal, RightsClass};
use policy::{Admission, Facts, Policy, Residual};
use tool::{CallerType, Digest, Limits, Map, SourceName, ToolName, Wall};

use crate::{Gateway, Target};

pub(crate) use cache::Views;
use residuals::{Building, Residuals, Shared};

/// The part of one catalog that one rights class may call, under one policy.
#[derive(Debug)]
pub struct View {
    /// Names this view in this process, so that others can cache what they make of it.
    pub id: u64,
    catalog: Arc<Catalog>,
    policy: Policy,
    residuals: Residuals,
    /// Methods of sources that may be called.
    methods: Map<(SourceName, ToolName), Residual>,
    /// Sources of which there is a tool or a method.
    sources: HashSet<SourceName>,
    /// Bytes of the largest arguments that any of its tools takes.
    arguments: usize,
}

impl View {
    fn new(
        id: u64,
        now: &Snapshot<Policy>,
        (rights, by, at): (&RightsClass, CallerType, Wall),
        shared: &Shared,
    ) -> Self {
        let (catalog, policy) = (Arc::clone(&now.catalog), now.rules.clone());
        let lens = policy.lens(rights, by, at);
        let admit = |entry: &Arc<Entry>| match lens.admit(&Facts::of(&entry.key, &entry.tool)) {
            Admission::Visible(residual) => Some(residual),
            Admission::Hidden(_) => None,
        };
        let mut residuals = Building::default();
        let mut sources = HashSet::new();
        let mut arguments = Limits::ARGUMENTS.bytes;
        for entry in catalog.tools() {
            let residual = admit(entry);
            if residual.is_some() {
                arguments = arguments.max(entry.tool.traits.limits().bytes);
            }
            if residual.is_some() && !sources.contains(&entry.key.source) {
                sources.insert(entry.key.source.clone());
            }
            residuals.push(residual);
        }
        let methods = catalog.shelves().iter().flat_map(|shelf| &shelf.methods);
        let methods = methods.filter_map(|entry| {
            Some(((entry.key.source.clone(), entry.key.name.clone()), admit(entry)?))
        });
        let methods: Map<(SourceName, ToolName), Residual> = methods.collect();
        sources.extend(methods.keys().map(|(source, _)| source.clone()));
        drop(lens);
        let residuals = shared.settle(residuals);
        Self { id, catalog, policy, residuals, methods, sources, arguments }
    }

    /// Bytes of the largest arguments that any of its tools takes: what a door has to take in, as it
    /// knows the caller before it knows the tool.
    pub fn arguments(&self) -> usize {
        self.arguments
    }

    /// A tool of this view; hidden and unknown are both nothing.
    pub fn find(&self, name: &str) -> Option<(&Arc<Entry>, &Residual)> {
        let (at, entry) = self.catalog.find(name)?;
        Some((entry, self.residuals.get(at)?))
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
    pub fn tools(&self) -> impl Iterator<Item = &Arc<Entry>> + Clone {
        self.tools_from(0)
    }

    /// Its tools behind the one of this name; nothing where it has none of that name. Those before are
    /// not gone through.
    pub fn tools_after<'a>(
        &'a self,
        name: &str,
    ) -> Option<impl Iterator<Item = &'a Arc<Entry>> + Clone + use<'a>> {
        let (at, entry) = self.catalog.find(name)?;
        let seen = entry.key.name.as_str() == name && self.residuals.get(at).is_some();
        seen.then(|| self.tools_from(at + 1))
    }

    fn tools_from(&self, at: usize) -> impl Iterator<Item = &Arc<Entry>> + Clone {
        let tools = self.catalog.tools().get(at..).unwrap_or_default();
        let seen = tools.iter().zip(self.residuals.seen(at));
        seen.filter_map(|(entry, seen)| seen.then_some(entry))
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
    pub fn rules(&self) -> &Policy {
        &self.policy
    }

    /// What records name that policy by.
    pub fn policy(&self) -> Digest {
        self.policy.digest()
    }
}

impl Gateway {
    /// What this principal sees now, of one snapshot of catalog and policy. A call keeps the view it began
    /// with.
    pub fn view(&self, principal: &Principal, by: CallerType) -> Arc<View> {
        let now = self.parts.current.load();
        let at = now.rules.has_times().then(|| self.parts.clock.wall());
        let key = (principal.rights().clone(), by);
        self.views.of(&now, at, &key, |id, shared| {
            View::new(id, &now, (&key.0, by, at.unwrap_or(Wall(0))), shared)
        })
    }
}

#[cfg(test)]
mod tests;
