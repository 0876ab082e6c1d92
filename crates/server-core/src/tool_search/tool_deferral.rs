//! The rule by which a list defers tools: models get their definitions only after a search.

use std::collections::HashSet;

use catalog::CatalogEntry;
use gateway::CatalogView;
use option_types::ListingOptions;
use tool::DeferMode;

/// Decides for one list which tools of a view are deferred: the names of `server.search.always` first,
/// then the setting of the tool's source, then the mode of the list.
#[derive(Debug)]
pub struct ToolDeferral<'v> {
    view: &'v CatalogView,
    /// Names of the tools that are never deferred.
    loaded: HashSet<&'v str>,
    defers_by_default: bool,
}

impl<'v> ToolDeferral<'v> {
    /// Creates the rule of a list whose mode defers all tools, or none.
    pub fn new(options: &ListingOptions, view: &'v CatalogView, defers_by_default: bool) -> Self {
        let named = options.always_listed.iter().filter_map(|name| view.find_tool(name));
        let loaded = named.map(|(entry, _)| entry.name.as_str()).collect();
        Self { view, loaded, defers_by_default }
    }

    /// Whether the list has this tool only after a search.
    pub fn is_deferred(&self, entry: &CatalogEntry) -> bool {
        if self.loaded.contains(entry.name.as_str()) {
            return false;
        }
        match self.view.defer_mode(entry) {
            DeferMode::Auto => self.defers_by_default,
            DeferMode::Never => false,
            DeferMode::Always => true,
        }
    }

    /// Returns the largest number of tools of the view that are not deferred, if the mode defers.
    pub(super) fn max_loaded(&self) -> usize {
        let sources = self.view.list_sources();
        let never = sources.filter(|source| source.defer_mode == DeferMode::Never);
        let of_sources = never.map(|source| self.view.tools_of(source.source.as_str()).count());
        self.loaded.len() + of_sources.sum::<usize>()
    }
}
