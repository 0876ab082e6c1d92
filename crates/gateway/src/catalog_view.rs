//! The part of a catalog that a rights class may call, built once per catalog, policy and class.

mod residual_table;
mod source_view;
mod toolset_selection;
mod view_cache;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use catalog::{Catalog, CatalogEntry, CatalogSnapshot, SourceCatalog, ToolPosition, Toolset};
use identity::{Principal, RightsClass};
use policy::{Policy, ResidualPolicy, ToolAdmission, ToolFacts};
use tool::{CallerType, DeferMode, Digest, JsonLimits, SourceName, ToolKey, WallTime};

use crate::{CallTarget, Gateway};

use residual_table::ResidualInterner;
use source_view::SourceView;
pub(crate) use view_cache::ViewCache;

/// The part of one catalog that one rights class may call, under one policy.
#[derive(Debug)]
pub struct CatalogView {
    /// Id of this view within the process, for caches of derived data.
    pub id: u64,
    catalog: Arc<Catalog>,
    /// Toolset that the caller is bound to, if it may use it.
    toolset: Option<Arc<Toolset>>,
    policy: Policy,
    /// Source views by catalog slot.
    source_views: Box<[Option<Arc<SourceView>>]>,
    /// Maximum size in bytes of the arguments of any of its tools.
    max_argument_bytes: usize,
    /// Whether every list defers some of its tools.
    always_defers: bool,
    /// Number of tools that were evaluated to build it.
    evaluated_tools: usize,
}

impl CatalogView {
    /// Builds a view. Unchanged sources of the class's previous view, valid at the same time, are
    /// reused.
    fn new(
        id: u64,
        now: &CatalogSnapshot<Policy>,
        (rights, by, at): (&RightsClass, CallerType, WallTime),
        (shared, before): (&ResidualInterner, Option<&Self>),
    ) -> Self {
        let (catalog, toolset) = toolset_selection::visible_catalog(now, rights);
        let policy = now.policy.clone();
        let before = before.filter(|before| before.policy.is_same_policy(&policy));
        let lens = policy.for_class(rights, by, at);
        let admit = |entry: &Arc<CatalogEntry>| match lens
            .admit_tool(&ToolFacts::from_tool(&entry.tool_key, &entry.tool))
        {
            ToolAdmission::Visible(residual) => Some(residual),
            ToolAdmission::Hidden(_) => None,
        };
        let mut looked = 0;
        let is_whole = Arc::ptr_eq(&catalog, &now.catalog);
        let slots = catalog.merged_sources().iter().enumerate();
        let parts = slots.map(|(slot, part)| {
            let part = part.as_ref()?;
            let source = || part.source_catalog().source.as_str();
            let whole = if is_whole { part } else { now.catalog.find_merged_source(source())? };
            let seen = before.and_then(|before| before.source_view_at(slot));
            if let Some(same) = seen.filter(|seen| seen.is_of(part, whole)) {
                return Some(Arc::clone(same));
            }
            let view = SourceView::new((part, whole), admit, (shared, seen.map(Arc::as_ref)));
            looked += view.evaluated_tools();
            Some(view)
        });
        let parts: Box<[Option<Arc<SourceView>>]> = parts.collect();
        drop(lens);
        let most = parts.iter().flatten().map(|seen| seen.max_argument_bytes()).max();
        let arguments = most.unwrap_or(JsonLimits::ARGUMENTS.max_bytes);
        let always_defers = parts.iter().flatten().any(|seen| {
            let mode = seen.merged_source().source_catalog().defer_mode;
            mode == DeferMode::Always && seen.tool_count() > 0
        });
        Self {
            id,
            catalog,
            toolset,
            policy,
            source_views: parts,
            max_argument_bytes: arguments,
            always_defers,
            evaluated_tools: looked,
        }
    }

    fn source_view_at(&self, slot: usize) -> Option<&Arc<SourceView>> {
        self.source_views.get(slot)?.as_ref()
    }

    /// Returns the view of one source.
    fn source_view(&self, source: &str) -> Option<&Arc<SourceView>> {
        self.source_view_at(self.catalog.slot_of(source)?)
    }

    fn residual_at(&self, at: ToolPosition) -> Option<&ResidualPolicy> {
        self.source_view_at(at.slot_index())?.residual_at(at.tool_index())
    }

    /// Returns the maximum size of arguments in bytes: the size that an interface must accept, as
    /// it knows the caller before the tool.
    pub fn max_argument_bytes(&self) -> usize {
        self.max_argument_bytes
    }

    /// Returns true if every list defers some of its tools, by the setting of their source.
    pub fn always_defers(&self) -> bool {
        self.always_defers
    }

    /// Returns whether lists defer a tool, by the setting of its source.
    pub fn defer_mode(&self, entry: &CatalogEntry) -> DeferMode {
        let source = self.catalog.find_source(entry.tool_key.source.as_str());
        source.map_or(DeferMode::Auto, |source| source.defer_mode)
    }

    /// Finds a tool by name; `None` for hidden and unknown ones.
    pub fn find_tool(&self, name: &str) -> Option<(&Arc<CatalogEntry>, &ResidualPolicy)> {
        let (at, entry) = self.catalog.find_tool(name)?;
        Some((entry, self.residual_at(at)?))
    }

    /// Finds a tool by its source and its own name there; `None` for hidden and unknown ones.
    pub fn find_in_source(
        &self,
        source: &str,
        name: &str,
    ) -> Option<(&Arc<CatalogEntry>, &ResidualPolicy)> {
        let (at, entry) = self.catalog.find_in_source(source, name)?;
        Some((entry, self.residual_at(at)?))
    }

    /// Finds a tool by its key; `None` for hidden and unknown ones.
    pub fn find_by_key(&self, key: &ToolKey) -> Option<(&Arc<CatalogEntry>, &ResidualPolicy)> {
        let (at, entry) = self.catalog.find_by_key(key)?;
        Some((entry, self.residual_at(at)?))
    }

    /// Finds a method of one source; `None` for hidden and unknown ones.
    pub fn find_method(
        &self,
        source: &str,
        name: &str,
    ) -> Option<(&Arc<CatalogEntry>, &ResidualPolicy)> {
        self.source_view(source)?.find_method(name)
    }

    /// Finds the target of a request.
    pub(crate) fn find_target(
        &self,
        target: &CallTarget,
    ) -> Option<(&Arc<CatalogEntry>, &ResidualPolicy)> {
        match target {
            CallTarget::Tool(name) => self.find_tool(name),
            CallTarget::SourceTool { source, name } => self.find_in_source(source, name),
            CallTarget::Method { source, name } => self.find_method(source, name),
        }
    }

    /// Returns the catalog of a source of which the view has a tool or method.
    pub fn source_catalog(&self, source: &str) -> Option<&Arc<SourceCatalog>> {
        self.source_view(source)
            .filter(|seen| seen.has_items())
            .map(|seen| seen.merged_source().source_catalog())
    }

    /// Iterates over the catalogs of the sources of which it has a tool or method, in the catalog's
    /// order.
    pub fn list_sources(&self) -> impl Iterator<Item = &Arc<SourceCatalog>> {
        let seen = self.source_views.iter().flatten().filter(|seen| seen.has_items());
        seen.map(|seen| seen.merged_source().source_catalog())
    }

    /// Iterates over the catalogs of the sources of which it has a method of [`tool::MCP_METHODS`],
    /// in the catalog's order.
    pub fn sources_with_method<'a>(
        &'a self,
        method: &'a str,
    ) -> impl Iterator<Item = &'a Arc<SourceCatalog>> + Clone {
        self.sources_with_method_after(method, None)
    }

    /// Iterates over the same catalogs after that of a source, without visiting those before it; over all
    /// without one.
    pub fn sources_with_method_after<'a>(
        &'a self,
        method: &'a str,
        source: Option<&str>,
    ) -> impl Iterator<Item = &'a Arc<SourceCatalog>> + Clone + use<'a> {
        let slot = source.map_or(Some(0), |source| Some(self.catalog.slot_of(source)? + 1));
        let seen = slot.and_then(|slot| self.source_views.get(slot..));
        let seen = seen.into_iter().flatten().flatten();
        seen.filter(move |seen| seen.find_method(method).is_some())
            .map(|seen| seen.merged_source().source_catalog())
    }

    /// Iterates over the catalogs of the sources with a method that list a resource or template of
    /// this URI, without visiting the others.
    pub fn sources_with_uri<'a>(
        &'a self,
        method: &'a str,
        uri: &str,
    ) -> impl Iterator<Item = &'a Arc<SourceCatalog>> {
        let seen = self.catalog.slots_with_uri(uri).filter_map(|slot| self.source_view_at(slot));
        seen.filter(move |seen| seen.find_method(method).is_some())
            .map(|seen| seen.merged_source().source_catalog())
    }

    /// Iterates over its tools in the catalog's order.
    pub fn list_tools(&self) -> impl Iterator<Item = &Arc<CatalogEntry>> + Clone {
        self.tools_from(0, 0)
    }

    /// Iterates over its tools after the one of this name, without visiting those before; `None` if
    /// it has no such tool.
    pub fn tools_after<'a>(
        &'a self,
        name: &str,
    ) -> Option<impl Iterator<Item = &'a Arc<CatalogEntry>> + Clone + use<'a>> {
        let (at, entry) = self.catalog.find_tool(name)?;
        let seen = entry.name.as_str() == name && self.residual_at(at).is_some();
        seen.then(|| self.tools_from(at.slot_index(), at.tool_index() + 1))
    }

    fn tools_from(
        &self,
        slot: usize,
        place: usize,
    ) -> impl Iterator<Item = &Arc<CatalogEntry>> + Clone {
        let rest = self.source_views.iter().skip(slot + 1).flatten();
        let first = self.source_view_at(slot).map(|seen| seen.tools_from(place));
        first.into_iter().flatten().chain(rest.flat_map(|seen| seen.tools_from(0)))
    }

    /// Iterates over its tools of one source, in the catalog's order.
    pub fn tools_of(&self, source: &str) -> impl Iterator<Item = &Arc<CatalogEntry>> + Clone {
        self.source_view(source).into_iter().flat_map(|seen| seen.tools_from(0))
    }

    /// Returns the number of its tools.
    pub fn tool_count(&self) -> usize {
        self.source_views.iter().flatten().map(|seen| seen.tool_count()).sum()
    }

    /// Returns the number of its tools by source.
    pub fn count_by_source(&self) -> HashMap<&SourceName, usize> {
        let seen = self.source_views.iter().flatten().filter(|seen| seen.tool_count() > 0);
        seen.map(|seen| (&seen.merged_source().source_catalog().source, seen.tool_count()))
            .collect()
    }

    /// Returns true if it has a tool of this source.
    pub fn has_source(&self, source: &str) -> bool {
        self.source_view(source).is_some_and(|seen| seen.tool_count() > 0)
    }

    /// Returns a hash of the names and definitions of its tools, or of those of one source; equal
    /// across views of a class while they are unchanged.
    pub fn fingerprint(&self, source: Option<&str>) -> u64 {
        let one = source.map(|source| self.source_view(source));
        let all = source.is_none().then(|| self.source_views.iter().flatten());
        let seen = one.into_iter().flatten().chain(all.into_iter().flatten());
        let mut hash = DefaultHasher::new();
        seen.filter(|seen| seen.tool_count() > 0)
            .for_each(|seen| seen.fingerprint().hash(&mut hash));
        hash.finish()
    }

    /// Returns the toolset that narrows it; `None` if there is none, or the caller may not use it.
    pub fn toolset(&self) -> Option<&Arc<Toolset>> {
        self.toolset.as_ref()
    }

    /// Returns the catalog of which it is a part: for a caller with a toolset, its selection.
    pub fn full_catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Returns the policy under which it was built.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns the digest of that policy, as in records.
    pub fn policy_digest(&self) -> Digest {
        self.policy.digest()
    }
}

impl Gateway {
    /// Returns the view of this principal in the active snapshot. A call keeps the view that it
    /// started with.
    pub fn view_for(&self, principal: &Principal, caller_type: CallerType) -> Arc<CatalogView> {
        self.view_for_class(principal.rights_class(), caller_type)
    }

    /// Returns the view of a rights class in the active snapshot.
    pub fn view_for_class(
        &self,
        rights: &RightsClass,
        caller_type: CallerType,
    ) -> Arc<CatalogView> {
        let now = self.components.current.load_snapshot();
        let at = now.policy.is_time_dependent().then(|| self.components.clock.wall_now());
        let key = (rights.clone(), caller_type);
        self.views.get_or_build(&now, at, &key, |id, shared| {
            CatalogView::new(
                id,
                &now,
                (&key.0, caller_type, at.unwrap_or(WallTime(0))),
                (shared, None),
            )
        })
    }
}

#[cfg(test)]
mod tests;
