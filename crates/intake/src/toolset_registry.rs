//! Toolsets: definitions of the configuration and of the store, with the items that their owners
//! accepted.
//!
//! Each has one row of the store. A definition of the configuration has a row for its accepted items
//! alone. An item that was accepted stays while its pattern is part of the definition.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use catalog::{SelectedItem, SourceSelection, Toolset};
use policy::{ToolsetDefinition, ToolsetEntry, ToolsetItemKind};
use serde::{Deserialize, Serialize};
use tool::ledger::{AuditEventRecord, AuditLog};
use tool::store::WritePrecondition;
use tool::{
    Caller, Clock, Digest, Org, SourceName, Store, StoreError, ToolName, Version, VersionedValue,
    WallTime,
};

use crate::toolset_error::ToolsetError;

/// Maximum number of toolsets in the store.
const MAX_STORED_TOOLSETS: usize = 1_000;

/// Toolsets by name, as a catalog has them.
pub(crate) type ToolsetTable = Arc<BTreeMap<SourceName, Arc<Toolset>>>;

/// An item that the owner of a toolset accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptedItem {
    /// Kind of the item.
    pub kind: ToolsetItemKind,
    /// Pattern that selected it.
    pub pattern: String,
    /// Digest of the accepted definition.
    pub digest: Digest,
}

/// Accepted items by their source and the names of their pins.
pub type AcceptedItems = BTreeMap<SourceName, BTreeMap<ToolName, AcceptedItem>>;

/// The row of a toolset.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct StoredToolset {
    /// The definition; absent for one of the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    definition: Option<ToolsetDefinition>,
    /// The accepted items.
    #[serde(default)]
    accepted: AcceptedItems,
    /// Subject that accepted last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    accepted_by: Option<String>,
    /// Time of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    accepted_at: Option<WallTime>,
}

/// A toolset with its accepted items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolsetRecord {
    /// The definition.
    pub definition: ToolsetDefinition,
    /// True if it is in the configuration, so that no interface changes it.
    pub is_configured: bool,
    /// Items that the owner accepted.
    pub accepted: AcceptedItems,
    /// Subject that accepted last.
    pub accepted_by: Option<String>,
    /// Time of that.
    pub accepted_at: Option<WallTime>,
}

#[derive(Debug, Default)]
struct RegistryState {
    configured: BTreeMap<SourceName, ToolsetDefinition>,
    rows: BTreeMap<SourceName, (Version, StoredToolset)>,
    /// The table that was compiled last.
    table: ToolsetTable,
}

/// The toolsets of an installation.
#[derive(Debug)]
pub struct ToolsetRegistry {
    org: Org,
    store: Arc<dyn Store>,
    audit_log: Arc<dyn AuditLog>,
    clock: Arc<dyn Clock>,
    state: Mutex<RegistryState>,
}

/// A change of the row of a toolset.
#[derive(Debug)]
pub(crate) enum ToolsetChange {
    /// Sets the definition.
    Define(Box<ToolsetDefinition>),
    /// Sets the accepted items.
    Accept(AcceptedItems),
    /// Sets both.
    Create(Box<ToolsetDefinition>, AcceptedItems),
    /// Removes the row.
    Remove,
}

impl ToolsetChange {
    fn event_kind(&self) -> &'static str {
        match self {
            Self::Define(_) => "toolset_changed",
            Self::Accept(_) => "toolset_accepted",
            Self::Create(..) => "toolset_created",
            Self::Remove => "toolset_removed",
        }
    }
}

impl ToolsetRegistry {
    pub(crate) fn new(
        org: Org,
        store: Arc<dyn Store>,
        audit_log: Arc<dyn AuditLog>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { org, store, audit_log, clock, state: Mutex::default() }
    }

    fn lock_state(&self) -> MutexGuard<'_, RegistryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn row_prefix(&self) -> String {
        format!("toolsets/{}/", self.org)
    }

    fn row_key(&self, name: &SourceName) -> String {
        format!("{}{name}", self.row_prefix())
    }

    /// Reads all rows. One that cannot be read is left out: its toolset offers nothing.
    pub(crate) async fn load(&self) -> Result<(), StoreError> {
        let prefix = self.row_prefix();
        let rows = self.store.scan_prefix(&prefix, None, MAX_STORED_TOOLSETS).await?;
        let read = |row: VersionedValue| {
            let name = SourceName::new(row.key.strip_prefix(&prefix)?).ok()?;
            match serde_json::from_slice::<StoredToolset>(&row.bytes) {
                Ok(stored) => Some((name, (row.version, stored))),
                Err(error) => {
                    tracing::error!(toolset = %name, %error, "cannot read the toolset; it offers nothing");
                    None
                }
            }
        };
        self.lock_state().rows = rows.into_iter().filter_map(read).collect();
        Ok(())
    }

    /// Sets the definitions of the configuration.
    pub(crate) fn set_configured(&self, definitions: Vec<ToolsetDefinition>) {
        let named = definitions.into_iter().map(|it| (it.name.clone(), it));
        self.lock_state().configured = named.collect();
    }

    /// Returns the toolset of this name.
    pub fn find_toolset(&self, name: &str) -> Option<ToolsetRecord> {
        self.lock_state().find_record(name)
    }

    /// Lists all toolsets by name.
    pub fn list_toolsets(&self) -> Vec<ToolsetRecord> {
        let state = self.lock_state();
        let names: std::collections::BTreeSet<_> =
            state.configured.keys().chain(state.rows.keys()).collect();
        names.into_iter().filter_map(|name| state.find_record(name.as_str())).collect()
    }

    /// Compiles the table of all toolsets. Unchanged ones stay the same.
    pub(crate) fn compile_table(&self) -> ToolsetTable {
        let records = self.list_toolsets();
        let mut state = self.lock_state();
        let compiled = records.into_iter().map(|record| {
            let name = record.definition.name.clone();
            let toolset = compile_toolset(record);
            let known = state.table.get(&name).filter(|known| ***known == toolset);
            let toolset = known.map_or_else(|| Arc::new(toolset), Arc::clone);
            (name, toolset)
        });
        let table: ToolsetTable = Arc::new(compiled.collect());
        state.table = Arc::clone(&table);
        table
    }

    /// Writes a change, which is recorded first.
    pub(crate) async fn write_change(
        &self,
        name: &SourceName,
        change: ToolsetChange,
        changed_by: &Caller,
    ) -> Result<(), ToolsetError> {
        let before = self.lock_state().rows.get(name).cloned();
        if before.is_none() && self.lock_state().rows.len() >= MAX_STORED_TOOLSETS {
            return Err(ToolsetError::TooMany);
        }
        let now = self.clock.wall_now();
        self.audit_log.record_event(&AuditEventRecord {
            recorded_at: now,
            org: self.org.clone(),
            kind: change.event_kind().to_owned(),
            changed_by: Some(changed_by.clone()),
            source: None,
            tool: None,
            digest_before: None,
            digest_after: None,
            comment: Some(format!("toolset {name}")),
        })?;
        let (version, mut stored) =
            before.map_or((None, StoredToolset::default()), |(version, row)| (Some(version), row));
        let accept = |stored: &mut StoredToolset, items| {
            stored.accepted = items;
            (stored.accepted_by, stored.accepted_at) =
                (Some(changed_by.subject.clone()), Some(now));
        };
        let row = match change {
            ToolsetChange::Remove => None,
            ToolsetChange::Define(definition) => {
                stored.definition = Some(*definition);
                Some(stored)
            }
            ToolsetChange::Accept(items) => {
                accept(&mut stored, items);
                Some(stored)
            }
            ToolsetChange::Create(definition, items) => {
                stored.definition = Some(*definition);
                accept(&mut stored, items);
                Some(stored)
            }
        };
        self.put_row(name, version, row).await
    }

    async fn put_row(
        &self,
        name: &SourceName,
        version: Option<Version>,
        row: Option<StoredToolset>,
    ) -> Result<(), ToolsetError> {
        let bytes = row.as_ref().map(serde_json::to_vec).transpose().map_err(|error| {
            StoreError::Unavailable(format!("cannot encode the toolset: {error}"))
        })?;
        let expect = version.map_or(WritePrecondition::Absent, WritePrecondition::Version);
        let key = self.row_key(name);
        let written = self.store.put_value(&key, expect, bytes.map(Into::into)).await;
        let version = match written {
            Ok(version) => version,
            Err(StoreError::Conflict { .. }) => return Err(ToolsetError::Changed(name.clone())),
            Err(error) => return Err(error.into()),
        };
        let mut state = self.lock_state();
        match row {
            Some(row) => drop(state.rows.insert(name.clone(), (version, row))),
            None => drop(state.rows.remove(name)),
        }
        Ok(())
    }
}

impl RegistryState {
    /// Returns a toolset; one of the configuration hides one of the store of the same name.
    fn find_record(&self, name: &str) -> Option<ToolsetRecord> {
        let row = self.rows.get(name).map(|(_, row)| row);
        let configured = self.configured.get(name);
        let definition = configured.or_else(|| row?.definition.as_ref())?.clone();
        Some(ToolsetRecord {
            definition,
            is_configured: configured.is_some(),
            accepted: row.map(|row| row.accepted.clone()).unwrap_or_default(),
            accepted_by: row.and_then(|row| row.accepted_by.clone()),
            accepted_at: row.and_then(|row| row.accepted_at),
        })
    }
}

fn compile_toolset(record: ToolsetRecord) -> Toolset {
    let ToolsetRecord { definition, accepted, .. } = record;
    let mut sources: BTreeMap<SourceName, SourceSelection> = BTreeMap::new();
    for (source, items) in accepted {
        for (pin, item) in items {
            let mut entries = definition.entries_of(item.kind).iter();
            let Some(entry) = entries.find(|entry| entry.pattern == item.pattern) else { continue };
            let selection = sources.entry(source.clone()).or_default();
            let list = match item.kind {
                ToolsetItemKind::Tool => &mut selection.tools,
                ToolsetItemKind::Prompt | ToolsetItemKind::Resource | ToolsetItemKind::Skill => {
                    &mut selection.companions
                }
            };
            list.insert(pin, selected_item(entry, item.digest));
        }
    }
    let ToolsetDefinition { name, title, description, roles, .. } = definition;
    Toolset::new(name, (title, description), roles, sources)
}

fn selected_item(entry: &ToolsetEntry, digest: Digest) -> SelectedItem {
    SelectedItem {
        digest,
        name: entry.name.as_ref().and_then(|name| ToolName::new(name).ok()),
        title: entry.title.clone(),
        description: entry.description.clone(),
    }
}
