//! Switches: sources and tools that an operator has turned off. They are in no list and cannot be
//! called, whatever their pins say.
//!
//! They are one row of the store. A server reads it when it starts, so that a tool that was turned off
//! is off from the first listing on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tool::ledger::{AuditEventRecord, AuditLog};
use tool::store::WritePrecondition;
use tool::{Caller, Clock, LedgerError, Org, SourceName, Store, StoreError, ToolName, Version};

/// Maximum number of tools that are turned off one by one; a whole source is one switch.
const MAX_DISABLED_TOOLS: usize = 10_000;
/// Maximum number of attempts to write the row that others change concurrently.
const MAX_WRITE_ATTEMPTS: usize = 4;

/// The sources and tools that are turned off.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DisabledNames {
    /// Sources that offer nothing.
    pub sources: BTreeSet<SourceName>,
    /// Tools by their source.
    pub tools: BTreeMap<SourceName, BTreeSet<ToolName>>,
}

impl DisabledNames {
    fn set_switch(&mut self, switch: &ToolSwitch<'_>) {
        let ToolSwitch { source, tool, is_enabled, .. } = *switch;
        match (tool, is_enabled) {
            (None, true) => drop(self.sources.remove(source)),
            (None, false) => drop(self.sources.insert(source.clone())),
            (Some(tool), false) => {
                self.tools.entry(source.clone()).or_default().insert(tool.clone());
            }
            (Some(tool), true) => {
                if let Some(tools) = self.tools.get_mut(source) {
                    tools.remove(tool);
                }
                self.tools.retain(|_, tools| !tools.is_empty());
            }
        }
    }
}

/// A switch to set.
#[derive(Debug, Clone, Copy)]
pub struct ToolSwitch<'a> {
    /// The source.
    pub source: &'a SourceName,
    /// One of its tools; `None` for the whole source.
    pub tool: Option<&'a ToolName>,
    /// Whether it is on.
    pub is_enabled: bool,
    /// Caller who sets it.
    pub changed_by: &'a Caller,
}

/// Errors of setting a switch.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// There are too many switches.
    #[error(
        "{MAX_DISABLED_TOOLS} tools are turned off, the maximum; turn off whole sources instead"
    )]
    TooMany,
    /// The store operation failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The change cannot be recorded, and so was not made.
    #[error(transparent)]
    Record(#[from] LedgerError),
}

/// The switches with their row in the store.
#[derive(Debug)]
pub(crate) struct ToolSwitches {
    org: Org,
    store: Arc<dyn Store>,
    audit_log: Arc<dyn AuditLog>,
    clock: Arc<dyn Clock>,
    current: Mutex<Arc<DisabledNames>>,
}

impl ToolSwitches {
    pub(crate) fn new(
        org: Org,
        store: Arc<dyn Store>,
        audit_log: Arc<dyn AuditLog>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { org, store, audit_log, clock, current: Mutex::default() }
    }

    /// Reads the row. Until then, everything is on.
    pub(crate) async fn load(&self) -> Result<(), StoreError> {
        let (_, names) = self.read_row().await?;
        self.replace(names);
        Ok(())
    }

    /// Returns what is turned off.
    pub(crate) fn disabled_names(&self) -> Arc<DisabledNames> {
        Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn replace(&self, names: DisabledNames) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(names);
    }

    /// Sets a switch, and records it first.
    pub(crate) async fn set_switch(
        &self,
        switch: ToolSwitch<'_>,
    ) -> Result<Arc<DisabledNames>, SwitchError> {
        let mut tries = 0;
        loop {
            let (version, before) = self.read_row().await?;
            let mut names = before.clone();
            names.set_switch(&switch);
            if names == before {
                self.replace(names);
                return Ok(self.disabled_names());
            }
            if names.tools.values().map(BTreeSet::len).sum::<usize>() > MAX_DISABLED_TOOLS {
                return Err(SwitchError::TooMany);
            }
            if tries == 0 {
                self.audit_log.record_event(&self.audit_event(&switch))?;
            }
            let bytes = serde_json::to_vec(&names).map_err(|error| {
                StoreError::Unavailable(format!("cannot encode the switches: {error}"))
            })?;
            let expect = version.map_or(WritePrecondition::Absent, WritePrecondition::Version);
            match self.store.put_value(&self.row_key(), expect, Some(bytes.into())).await {
                Ok(_) => {
                    self.replace(names);
                    return Ok(self.disabled_names());
                }
                Err(StoreError::Conflict { .. }) if tries < MAX_WRITE_ATTEMPTS => tries += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn row_key(&self) -> String {
        format!("switches/{}", self.org)
    }

    async fn read_row(&self) -> Result<(Option<Version>, DisabledNames), StoreError> {
        let key = self.row_key();
        let Some(row) = self.store.get_value(&key).await? else {
            return Ok((None, DisabledNames::default()));
        };
        let names = serde_json::from_slice(&row.bytes).map_err(|error| {
            StoreError::Unavailable(format!("cannot parse the switches in `{key}`: {error}"))
        })?;
        Ok((Some(row.version), names))
    }

    fn audit_event(&self, switch: &ToolSwitch<'_>) -> AuditEventRecord {
        let kind = match (switch.tool.is_some(), switch.is_enabled) {
            (true, true) => "tool_enabled",
            (true, false) => "tool_disabled",
            (false, true) => "source_enabled",
            (false, false) => "source_disabled",
        };
        AuditEventRecord {
            recorded_at: self.clock.wall_now(),
            org: self.org.clone(),
            kind: kind.to_owned(),
            changed_by: Some(switch.changed_by.clone()),
            source: Some(switch.source.clone()),
            tool: switch.tool.cloned(),
            digest_before: None,
            digest_after: None,
            comment: None,
        }
    }
}
