//! The visible part of one source for one rights class; reused by the class's next view while source and
//! policy are unchanged.

use std::hash::{BuildHasher, DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, OnceLock};

use catalog::{CatalogEntry, MergedSource};
use policy::ResidualPolicy;
use tool::{FastMap, JsonLimits};

use super::residual_table::{CHUNK_TOOLS, ResidualInterner, ResidualTable, ResidualTableBuilder};

#[derive(Debug)]
pub(super) struct SourceView {
    merged_source: Arc<MergedSource>,
    /// The same source with the items that a toolset leaves out, which decide on its other items.
    whole_source: Arc<MergedSource>,
    tools: ResidualTable,
    /// One for each chunk of the table.
    chunks: Box<[ChunkSummary]>,
    /// Residuals of methods by their index in the source.
    methods: Box<[Option<ResidualPolicy>]>,
    tool_count: usize,
    /// Maximum size in bytes of the arguments of any of its tools.
    max_argument_bytes: usize,
    /// Number of tools that were evaluated to build it.
    evaluated_tools: usize,
}

/// What is known of the visible tools of a chunk; the same as long as its tools are.
#[derive(Debug, Clone)]
struct ChunkSummary {
    tool_count: usize,
    max_argument_bytes: usize,
    /// Hash of names and definitions, computed on first use.
    fingerprint: OnceLock<u64>,
}

/// Factor of the fingerprint, an odd number: tools weigh by their places among the visible ones, so
/// that hidden ones do not count.
const FINGERPRINT_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl SourceView {
    /// Builds the view of a source. Chunks of tools that the class's previous view of the source
    /// has, under the same policy, are taken from it; `whole` is the same source with the items that a
    /// toolset leaves out.
    pub(super) fn new(
        (merged_source, whole): (&Arc<MergedSource>, &Arc<MergedSource>),
        admit: impl Fn(&Arc<CatalogEntry>) -> Option<ResidualPolicy>,
        (interner, previous): (&ResidualInterner, Option<&Self>),
    ) -> Arc<Self> {
        let mut residuals = ResidualTableBuilder::default();
        let (mut chunks, mut known, mut evaluated) = (Vec::new(), FastMap::default(), 0);
        for (number, tools) in merged_source.tools_from(0).chunks(CHUNK_TOOLS).enumerate() {
            let same = previous.and_then(|previous| previous.same_chunk(number, tools));
            if let Some((before, chunk, summary)) = same {
                residuals.push_chunk(before, chunk, &mut known);
                chunks.push(summary.clone());
                continue;
            }
            let (mut count, mut arguments) = (0, JsonLimits::ARGUMENTS.max_bytes);
            for tool in tools {
                let seen = tool.as_ref().and_then(|entry| Some((entry, admit(entry)?)));
                if let Some((entry, _)) = &seen {
                    arguments = arguments.max(entry.tool.traits.argument_limits().max_bytes);
                    count += 1;
                }
                residuals.push_residual(seen.map(|(_, residual)| residual));
            }
            evaluated += tools.len();
            let fingerprint = OnceLock::new();
            chunks.push(ChunkSummary {
                tool_count: count,
                max_argument_bytes: arguments,
                fingerprint,
            });
        }
        let count = chunks.iter().map(|chunk| chunk.tool_count).sum();
        let most = chunks.iter().map(|chunk| chunk.max_argument_bytes).max();
        // A class without any tool of a source that has tools does not get its other items either.
        let closed = count == 0
            && !whole.source_catalog().tools.is_empty()
            && (Arc::ptr_eq(merged_source, whole)
                || !whole.tools().any(|entry| admit(entry).is_some()));
        let methods = merged_source.source_catalog().methods.iter();
        let methods = methods.map(|entry| admit(entry).filter(|_| !closed)).collect();
        let tools = interner.build_table(residuals);
        interner.intern_source_view(Arc::new(Self {
            merged_source: Arc::clone(merged_source),
            whole_source: Arc::clone(whole),
            tools,
            chunks: chunks.into(),
            methods,
            tool_count: count,
            max_argument_bytes: most.unwrap_or(JsonLimits::ARGUMENTS.max_bytes),
            evaluated_tools: evaluated,
        }))
    }

    /// Returns the table and a chunk of it, if the tools of the chunk are these.
    fn same_chunk(
        &self,
        number: usize,
        tools: &[Option<Arc<CatalogEntry>>],
    ) -> Option<(&ResidualTable, &[u16], &ChunkSummary)> {
        let chunk = self.tools.chunk_at(number).filter(|chunk| chunk.len() == tools.len())?;
        let before = self.merged_source.tools_from(number * CHUNK_TOOLS).iter();
        let address = |tool: &Option<Arc<CatalogEntry>>| tool.as_ref().map(Arc::as_ptr);
        let is_same = before.zip(tools).all(|(one, other)| address(one) == address(other));
        is_same.then_some((&self.tools, chunk, self.chunks.get(number)?))
    }

    /// Returns the number of tools that were evaluated to build it.
    pub(super) fn evaluated_tools(&self) -> usize {
        self.evaluated_tools
    }

    /// Returns the merged source.
    /// Whether it is the view of these sources as they are.
    pub(super) fn is_of(
        &self,
        merged_source: &Arc<MergedSource>,
        whole: &Arc<MergedSource>,
    ) -> bool {
        Arc::ptr_eq(&self.merged_source, merged_source) && Arc::ptr_eq(&self.whole_source, whole)
    }

    pub(super) fn merged_source(&self) -> &Arc<MergedSource> {
        &self.merged_source
    }

    /// Returns a hash of the addresses of its parts.
    pub(super) fn parts_hash(&self, hash_state: &impl BuildHasher) -> u64 {
        self.tools.parts_hash(hash_state)
    }

    /// Returns true if both have equal content in shared memory.
    pub(super) fn shares_parts_with(&self, other: &Self) -> bool {
        self.tools.shares_parts_with(&other.tools)
            && self.methods == other.methods
            && Arc::ptr_eq(&self.whole_source, &other.whole_source)
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

    /// Returns a hash of the names and definitions of the visible tools. A changed source computes
    /// those of its changed chunks.
    pub(super) fn fingerprint(&self) -> u64 {
        let whole = self.chunks.iter().enumerate().fold(0_u64, |hash, (number, chunk)| {
            let exponent = u32::try_from(chunk.tool_count).unwrap_or(u32::MAX);
            let own = chunk.fingerprint.get_or_init(|| self.chunk_fingerprint(number));
            hash.wrapping_mul(FINGERPRINT_FACTOR.wrapping_pow(exponent)).wrapping_add(*own)
        });
        whole ^ self.tool_count as u64
    }

    fn chunk_fingerprint(&self, number: usize) -> u64 {
        let visible = self
            .tools_from(number * CHUNK_TOOLS)
            .take(self.chunks.get(number).map_or(0, |chunk| chunk.tool_count));
        visible.fold(0_u64, |hash, entry| {
            let mut own = DefaultHasher::new();
            entry.name.as_str().hash(&mut own);
            entry.definition_digest.hash(&mut own);
            if entry.has_overrides {
                (&entry.tool.title, &entry.tool.description).hash(&mut own);
            }
            hash.wrapping_mul(FINGERPRINT_FACTOR).wrapping_add(own.finish())
        })
    }
}
