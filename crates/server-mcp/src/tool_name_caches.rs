//! Caches of the newest catalog for `tools/call`: arguments that are repeated in headers, and the
//! native names of a source's tools.

use std::sync::{Arc, Mutex, PoisonError};

use catalog::{Catalog, MergedSource, ToolPosition};
use gateway::CatalogView;
use mcp::headers::ArgumentHeaders;
use server_core::tool_lists::run_blocking_if_many_tools;
use tool::{FastMap, Json};

use super::endpoint::{Endpoint, is_mcp_source};

/// A map from native tool names.
pub(crate) type NameMap<T> = Arc<FastMap<String, T>>;

/// Tools with arguments that are repeated in headers, of the newest catalog.
#[derive(Debug, Default)]
pub(crate) struct ArgumentHeaderCache(Mutex<Arc<CatalogArgumentHeaders>>);

/// The argument headers of one catalog. Sources that did not change since the previous catalog are
/// not indexed again.
#[derive(Debug, Default)]
pub(crate) struct CatalogArgumentHeaders {
    catalog_number: Option<u64>,
    /// Whether any tool has such arguments.
    pub(crate) has_any: bool,
    /// The argument headers of each merged source, by its slot.
    by_slot: Vec<Option<(Arc<MergedSource>, NameMap<ArgumentHeaders>)>>,
}

impl ArgumentHeaderCache {
    pub(crate) fn for_catalog(&self, catalog: &Catalog) -> Arc<CatalogArgumentHeaders> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = Arc::clone(&lock());
        if before.catalog_number == Some(catalog.version) {
            return before;
        }
        // Indexed outside the lock: two callers may do it at once after a change, with equal
        // results.
        let marked = Arc::new(run_blocking_if_many_tools(catalog.len(), || {
            CatalogArgumentHeaders::index_catalog(catalog, &before)
        }));
        *lock() = Arc::clone(&marked);
        marked
    }
}

impl CatalogArgumentHeaders {
    fn index_catalog(catalog: &Catalog, before: &Self) -> Self {
        let slots = catalog.merged_sources().iter().enumerate();
        let parts = slots.map(|(slot, part)| {
            let part = part.as_ref()?;
            let known = before.by_slot.get(slot).and_then(Option::as_ref);
            let known = known.filter(|(known, _)| Arc::ptr_eq(known, part));
            Some(known.cloned().unwrap_or_else(|| (Arc::clone(part), index_source(part))))
        });
        let parts: Vec<_> = parts.collect();
        let any = parts.iter().flatten().any(|(_, marked)| !marked.is_empty());
        Self { catalog_number: Some(catalog.version), has_any: any, by_slot: parts }
    }

    /// The argument headers of a tool; `None` if it has none.
    pub(crate) fn get(&self, at: ToolPosition, name: &str) -> Option<&ArgumentHeaders> {
        self.by_slot.get(at.slot_index())?.as_ref()?.1.get(name)
    }
}

fn index_source(part: &MergedSource) -> NameMap<ArgumentHeaders> {
    let read = part.tools().filter_map(|entry| {
        Some((entry.name.to_string(), argument_headers(&entry.tool.input_schema)?))
    });
    Arc::new(read.collect())
}

/// The argument headers of a schema; `None` if it has none. A schema with invalid marks has none:
/// clients must not list it, and cannot send them.
pub(crate) fn argument_headers(schema: &Json) -> Option<ArgumentHeaders> {
    if !schema.as_str().contains("x-mcp-header") {
        return None;
    }
    let mirror = ArgumentHeaders::from_schema(&schema.to_value()).ok()?;
    Some(mirror).filter(|mirror| !mirror.is_empty())
}

/// The native names of a source's tools, as its endpoint lists them, with their names in the
/// catalog.
#[derive(Debug, Default)]
pub(crate) struct NativeNameCache(Mutex<FastMap<(u64, String), NameMap<String>>>);

/// Maximum number of cached views and sources; the cache is cleared beyond that.
const MAX_CACHED_SOURCES: usize = 1_024;

impl NativeNameCache {
    pub(crate) fn for_source(
        &self,
        view: &CatalogView,
        scope: &Endpoint,
        source: &str,
    ) -> NameMap<String> {
        let key = (view.id, source.to_owned());
        if let Some(found) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Arc::clone(found);
        }
        let received =
            scope.source_catalog(view).ok().flatten().is_some_and(|shelf| is_mcp_source(shelf));
        let names = view.tools_of(source).map(|entry| {
            let own = entry.tool.raw_definition.get("name").filter(|_| received);
            let own = own.and_then(|own| own.decode().ok());
            (own.unwrap_or_else(|| entry.tool_key.name.to_string()), entry.name.to_string())
        });
        let names = Arc::new(names.collect());
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.len() >= MAX_CACHED_SOURCES {
            cached.clear();
        }
        cached.insert(key, Arc::clone(&names));
        names
    }
}
