//! One source in the merged catalog: its source catalog and its resolved name claims.

use std::collections::BTreeMap;
use std::sync::Arc;

use tool::Problem;

use crate::catalog_entry::CatalogEntry;
use crate::name_claims::{ClaimChanges, NameClaim};
use crate::source_catalog::SourceCatalog;

/// A source catalog and the tools that won their names. Catalogs share it as long as it does not
/// change.
#[derive(Debug, Clone)]
pub struct MergedSource {
    source_catalog: Arc<SourceCatalog>,
    /// Tools by index; `None` if other sources have both possible names.
    tools: Vec<Option<Arc<CatalogEntry>>>,
    len: usize,
    /// Lost names, and titles that look like another source's tool.
    name_problems: BTreeMap<NameClaim, Problem>,
}

/// Outcome of a claim.
#[derive(Debug)]
pub(crate) struct ClaimOutcome {
    pub(crate) claim: NameClaim,
    /// Tool, if it won a name and can be called.
    pub(crate) tool: Option<Arc<CatalogEntry>>,
    pub(crate) problem: Option<Problem>,
}

impl MergedSource {
    /// Creates the successor of a merged source: claims that `changes` does not name stay resolved.
    pub(crate) fn with_source_catalog(
        previous: Option<&Self>,
        source_catalog: Arc<SourceCatalog>,
        changes: &ClaimChanges,
    ) -> Self {
        let mut tools = previous.map_or_else(Vec::new, |previous| previous.tools.clone());
        let mut name_problems =
            previous.map_or_else(BTreeMap::new, |previous| previous.name_problems.clone());
        for (_, claim) in &changes.removed {
            name_problems.remove(claim);
            if let Some(tool) = tools.get_mut(claim.tool_index()).filter(|_| claim.is_tool()) {
                *tool = None;
            }
        }
        tools.resize(source_catalog.tools.len(), None);
        let len = tools.iter().flatten().count();
        Self { source_catalog, tools, len, name_problems }
    }

    /// Returns the source catalog.
    pub fn source_catalog(&self) -> &Arc<SourceCatalog> {
        &self.source_catalog
    }

    /// Iterates over its tools in their source's order.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<CatalogEntry>> + Clone {
        self.tools.iter().flatten()
    }

    /// Returns the tool slots from an index on, including empty ones.
    pub fn tools_from(&self, index: usize) -> &[Option<Arc<CatalogEntry>>] {
        self.tools.get(index..).unwrap_or_default()
    }

    /// Returns the number of tools.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there is no tool.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the tool at an index of the source catalog.
    pub(crate) fn tool_at(&self, index: usize) -> Option<&Arc<CatalogEntry>> {
        self.tools.get(index)?.as_ref()
    }

    /// Iterates over problems with names and titles.
    pub(crate) fn list_name_problems(&self) -> impl Iterator<Item = &Problem> {
        self.name_problems.values()
    }

    /// Applies the outcome of one claim. A merged source shared with another catalog is copied only
    /// if something changes.
    pub(crate) fn apply_outcome(merged: &mut Arc<Self>, outcome: ClaimOutcome) {
        let ClaimOutcome { claim, tool, problem: told } = outcome;
        let place = claim.tool_index();
        let same = match (merged.tool_at(place).filter(|_| claim.is_tool()), &tool) {
            (None, None) => true,
            // An entry under its qualified name is created again each time.
            (Some(old), Some(new)) => {
                Arc::ptr_eq(old, new) || (new.name != new.tool_key.name && old.is_same_entry(new))
            }
            _ => false,
        };
        if same && merged.name_problems.get(&claim) == told.as_ref() {
            return;
        }
        let part = Arc::make_mut(merged);
        if let Some(at) = part.tools.get_mut(place).filter(|_| claim.is_tool()) {
            part.len = part.len + usize::from(tool.is_some()) - usize::from(at.is_some());
            *at = tool;
        }
        match told {
            Some(told) => part.name_problems.insert(claim, told),
            None => part.name_problems.remove(&claim),
        };
    }
}
