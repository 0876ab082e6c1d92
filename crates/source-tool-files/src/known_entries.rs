//! Entries of the last reading of a file, which the next one reuses: of ten thousand tools usually
//! one changes.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use tool::{Executor, Tool};

use super::document::{FileSettings, ToolEntry};
use super::tool_entry::EntryError;

/// A tool of the last reading.
#[derive(Debug, Clone)]
pub(super) struct KnownEntry {
    pub(super) mapping_key: Option<String>,
    pub(super) tool: Arc<Tool>,
    pub(super) executor: Arc<dyn Executor>,
    pub(super) warnings: Vec<EntryError>,
}

/// The tools of one reading by the hash of their texts. Only those that their texts and the settings
/// of the file decide alone.
#[derive(Debug, Default)]
pub(super) struct KnownEntries {
    settings: FileSettings,
    by_text: HashMap<u64, KnownEntry>,
    hash_state: RandomState,
}

impl KnownEntries {
    pub(super) fn new(settings: FileSettings) -> Self {
        Self { settings, by_text: HashMap::new(), hash_state: RandomState::new() }
    }

    /// Returns the tool of an entry with the same text in a file of the same settings.
    pub(super) fn find_entry(
        &self,
        entry: &ToolEntry,
        settings: &FileSettings,
    ) -> Option<&KnownEntry> {
        let known = self.by_text.get(&self.hash_state.hash_one(entry.json.as_str()))?;
        let is_same = known.tool.raw_definition == entry.json
            && known.mapping_key == entry.mapping_key
            && self.settings == *settings;
        is_same.then_some(known)
    }

    pub(super) fn insert_entry(&mut self, entry: KnownEntry) {
        let hash = self.hash_state.hash_one(entry.tool.raw_definition.as_str());
        drop(self.by_text.insert(hash, entry));
    }
}

/// The last reading of a file.
#[derive(Debug, Default)]
pub(super) struct LastReading(Mutex<Arc<KnownEntries>>);

impl LastReading {
    pub(super) fn entries(&self) -> Arc<KnownEntries> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn replace(&self, entries: KnownEntries) {
        let entries = Arc::new(entries);
        let before =
            std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), entries);
        drop(before);
    }
}
