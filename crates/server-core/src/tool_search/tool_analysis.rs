//! Analyzed tools, each made once for its definition.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use catalog::CatalogEntry;
use search::{AnalyzedTool, ToolText, sentence_text};
use serde_json::Value;
use tool::{Tool, ToolKey, ToolName};

use super::sentence_vectors::{TextDigest, digest_of};

/// Maximum memory of all analyzed tools; beyond it they are cleared, and indexes keep what they have.
const MAX_ANALYZED_BYTES: usize = 256 << 20;

/// An analyzed tool with the definition that it was made of.
#[derive(Debug)]
struct AnalyzedEntry {
    tool: Arc<Tool>,
    analyzed: Arc<AnalyzedTool>,
    /// Digest of its text, if there is a sentence model.
    digest: Option<TextDigest>,
}

impl AnalyzedEntry {
    fn memory_bytes(&self) -> usize {
        size_of::<((ToolKey, ToolName), Self)>() + self.analyzed.memory_bytes()
    }
}

/// Analyzed tools by key and listed name.
#[derive(Debug, Default)]
pub(super) struct AnalyzedTools {
    known: Mutex<KnownTools>,
    /// Whether there is a sentence model, which needs the digests of texts.
    has_model: bool,
}

#[derive(Debug, Default)]
struct KnownTools {
    entries: HashMap<(ToolKey, ToolName), AnalyzedEntry>,
    bytes: usize,
}

impl AnalyzedTools {
    /// Creates an empty set.
    pub(super) fn new(has_model: bool) -> Self {
        Self { known: Mutex::default(), has_model }
    }

    /// Returns the analyzed tool of an entry, from the cache if its definition is unchanged.
    pub(super) fn analyze(&self, entry: &CatalogEntry) -> (Arc<AnalyzedTool>, Option<TextDigest>) {
        let lock = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (entry.tool_key.clone(), entry.name.clone());
        let is_same = |tool: &Arc<Tool>| Arc::ptr_eq(tool, &entry.tool) || **tool == *entry.tool;
        if let Some(known) = lock().entries.get(&key).filter(|known| is_same(&known.tool)) {
            return (Arc::clone(&known.analyzed), known.digest);
        }
        let schema = entry.tool.input_schema.to_value();
        let analyzed = Arc::new(tool_text(entry, Some(&schema), AnalyzedTool::from_text));
        let digest = self.has_model.then(|| digest_of(&tool_text(entry, None, sentence_text)));
        let (tool, made) = (Arc::clone(&entry.tool), Arc::clone(&analyzed));
        let cleared = lock().insert(key, AnalyzedEntry { tool, analyzed: made, digest });
        gateway::drop_in_background(cleared.is_some(), cleared);
        (analyzed, digest)
    }
}

impl KnownTools {
    /// Inserts a tool. Returns the others if they exceeded the limit and were cleared.
    fn insert(&mut self, key: (ToolKey, ToolName), entry: AnalyzedEntry) -> Option<Self> {
        let is_full = self.bytes >= MAX_ANALYZED_BYTES;
        let cleared = is_full.then(|| std::mem::take(self));
        self.bytes += entry.memory_bytes();
        let before = self.entries.insert(key, entry);
        self.bytes -= before.map_or(0, |before| before.memory_bytes());
        cleared
    }
}

/// Passes the texts of a tool to a function.
pub(super) fn tool_text<T>(
    entry: &CatalogEntry,
    input_schema: Option<&Value>,
    read: impl FnOnce(&ToolText<'_>) -> T,
) -> T {
    let tool = &entry.tool;
    read(&ToolText {
        name: entry.name.as_str(),
        title: tool.title.as_deref(),
        description: &tool.description,
        input_schema,
        source: entry.tool_key.source.as_str(),
        source_description: "",
        categories: &tool.traits.categories,
    })
}
