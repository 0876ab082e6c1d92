//! The visible part of one source for one rights class; reused by the class's next view while source and
//! policy are unchanged.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, OnceLock};

use catalog::{CatalogEntry, MergedSource};
use policy::ResidualPolicy;
use tool::JsonLimits;

use super::residual_table::{ResidualInterner, ResidualTable, ResidualTableBuilder};

#[derive(Debug)]
pub(super) struct SourceView {
    merged_source: Arc<MergedSource>,
    tools: ResidualTable,
    /// Residuals of methods by their index in the source.
    methods: Box<[Option<ResidualPolicy>]>,
    tool_count: usize,
    /// Maximum size in bytes of the arguments of any of its tools.
    max_argument_bytes: usize,
    fingerprint: OnceLock<u64>,
}

impl SourceView {
    pub(super) fn new(
        merged_source: &Arc<MergedSource>,
        admit: impl Fn(&Arc<CatalogEntry>) -> Option<ResidualPolicy>,
        interner: &ResidualInterner,
    ) -> Arc<Self> {
        let mut residuals = ResidualTableBuilder::default();
        let (mut count, mut arguments) = (0, JsonLimits::ARGUMENTS.max_bytes);
        for place in merged_source.tools_from(0) {
            let seen = place.as_ref().and_then(|entry| Some((entry, admit(entry)?)));
            if let Some((entry, _)) = &seen {
                arguments = arguments.max(entry.tool.traits.argument_limits().max_bytes);
                count += 1;
            }
            residuals.push_residual(seen.map(|(_, residual)| residual));
        }
        // A class without any tool of a source that has tools does not get its other items either.
        let closed = count == 0 && !merged_source.source_catalog().tools.is_empty();
        let methods = merged_source.source_catalog().methods.iter();
        let methods = methods.map(|entry| admit(entry).filter(|_| !closed)).collect();
        let (merged_source, print) = (Arc::clone(merged_source), OnceLock::new());
        let tools = interner.build_table(residuals);
        interner.intern_source_view(Arc::new(Self {
            merged_source,
            tools,
            methods,
            tool_count: count,
            max_argument_bytes: arguments,
            fingerprint: print,
        }))
    }

    /// Returns the merged source.
    pub(super) fn merged_source(&self) -> &Arc<MergedSource> {
        &self.merged_source
    }

    /// Returns true if both have equal content in shared memory.
    pub(super) fn shares_parts_with(&self, other: &Self) -> bool {
        self.tools.shares_parts_with(&other.tools) && self.methods == other.methods
    }

    pub(super) fn residual_at(&self, index: usize) -> Option<&ResidualPolicy> {
        self.tools.residual_at(index)
    }

    /// Finds a method by name with its residual.
    pub(super) fn find_method(&self, name: &str) -> Option<(&Arc<CatalogEntry>, &ResidualPolicy)> {
        let mut methods = self.merged_source.source_catalog().methods.iter().zip(&self.methods);
        let (entry, residual) = methods.find(|(entry, _)| entry.tool_key.name.as_str() == name)?;
        Some((entry, residual.as_ref()?))
    }

    /// Iterates over the visible tools from an index on.
    pub(super) fn tools_from(
        &self,
        index: usize,
    ) -> impl Iterator<Item = &Arc<CatalogEntry>> + Clone {
        let tools =
            self.merged_source.tools_from(index).iter().zip(self.tools.visible_tools(index));
        tools.filter_map(|(entry, seen)| entry.as_ref().filter(|_| seen))
    }

    /// Returns the number of visible tools.
    pub(super) fn tool_count(&self) -> usize {
        self.tool_count
    }

    /// Returns true if it has any visible item.
    pub(super) fn has_items(&self) -> bool {
        self.tool_count > 0 || self.methods.iter().any(Option::is_some)
    }

    pub(super) fn max_argument_bytes(&self) -> usize {
        self.max_argument_bytes
    }

    /// Returns a hash of the names and definitions of the visible tools, computed on first use.
    pub(super) fn fingerprint(&self) -> u64 {
        *self.fingerprint.get_or_init(|| {
            let mut hash = DefaultHasher::new();
            for entry in self.tools_from(0) {
                entry.name.as_str().hash(&mut hash);
                entry.definition_digest.hash(&mut hash);
            }
            hash.finish()
        })
    }
}
