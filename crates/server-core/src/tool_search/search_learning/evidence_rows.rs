//! Rows of learned evidence in the store, one for each tool of an organisation.
//!
//! Each write reads the row first, so that servers of one store add to one another's evidence.

use std::sync::{MutexGuard, PoisonError};

use search::ToolEvidence;
use serde::{Deserialize, Serialize};
use tool::store::{VersionedValue, WritePrecondition};
use tool::{Json, StoreError, ToolKey, Version};

use super::identity_hashes::OrgTag;
use super::org_evidence::OrgEvidence;
use super::{EvidenceByOrg, SearchLearning};

/// Maximum number of organisations with evidence.
pub(super) const MAX_ORGS: usize = 64;
/// Number of rows that are read at once.
const ROWS_PER_READ: usize = 100;
/// Number of attempts to write a row that other servers write too.
const WRITE_ATTEMPTS: usize = 8;

/// A row as it is stored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EvidenceRow {
    tool: ToolKey,
    stems: ToolEvidence,
}

/// Returns the organisation and the name in the key of a row.
fn parts_of_key(key: &str) -> Option<(OrgTag, &str)> {
    let (org, name) = key.strip_prefix(SearchLearning::STORE_PREFIX)?.split_once('/')?;
    Some((OrgTag::from_hex(org)?, name))
}

fn precondition_of(row: Option<&VersionedValue>) -> WritePrecondition {
    row.map_or(WritePrecondition::Absent, |row| WritePrecondition::Version(row.version))
}

/// Replaces the evidence of a tool; empty evidence removes it. An organisation beyond the maximum gets none.
fn set_evidence(
    all: &mut EvidenceByOrg,
    (org, tool, name): (OrgTag, &ToolKey, &str),
    evidence: ToolEvidence,
) {
    if all.len() >= MAX_ORGS && !all.contains_key(&org) {
        return;
    }
    let of_org = all.entry(org).or_default();
    of_org.set_tool((tool, name), evidence);
    if of_org.is_empty() {
        all.remove(&org);
    }
}

impl SearchLearning {
    fn row_key(org: OrgTag, name: &str) -> String {
        format!("{}{}/{name}", Self::STORE_PREFIX, org.to_hex())
    }

    /// Puts the evidence of a tool into memory; empty evidence removes it.
    fn apply_evidence(&self, (org, tool, name): (OrgTag, &ToolKey, &str), evidence: ToolEvidence) {
        set_evidence(&mut self.write_evidence(), (org, tool, name), evidence);
    }

    /// Reads the stored evidence, which then replaces that in memory. Rows of organisations that do not learn any more
    /// are removed, and so is evidence that is too old.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read; the evidence in memory then stays.
    pub async fn load_stored(&self) -> Result<(), StoreError> {
        let newest = self.store.current_version().await?;
        let loaded = self.read_all_rows().await?;
        *self.write_evidence() = loaded;
        self.set_read_version(newest);
        *self.lock_purged_day() = None;
        self.remove_old_evidence().await;
        Ok(())
    }

    async fn read_all_rows(&self) -> Result<EvidenceByOrg, StoreError> {
        let mut loaded = EvidenceByOrg::new();
        let (mut after, mut removed) = (None::<String>, 0_usize);
        loop {
            let prefix = Self::STORE_PREFIX;
            let rows = self.store.scan_prefix(prefix, after.as_deref(), ROWS_PER_READ).await?;
            let Some(last) = rows.last() else { break };
            after = Some(last.key.clone());
            for row in &rows {
                if !self.load_row(&mut loaded, row).await {
                    self.remove_row(row).await;
                    removed += 1;
                }
            }
        }
        if removed > 0 {
            let message = "removed what tool search learned in organisations that do not learn";
            tracing::info!(rows = removed, "{message}");
        }
        Ok(loaded)
    }

    /// Loads a row, within the bounds. Returns false if its organisation does not learn, or exceeds the maximum.
    async fn load_row(&self, loaded: &mut EvidenceByOrg, row: &VersionedValue) -> bool {
        let org = parts_of_key(&row.key).filter(|(org, _)| self.is_learning_tag(*org));
        let Some((org, name)) = org else { return false };
        if loaded.len() >= MAX_ORGS && !loaded.contains_key(&org) {
            return false;
        }
        let Some((tool, evidence)) = self.parse_row((org, name), row) else { return true };
        set_evidence(loaded, (org, &tool, name), evidence);
        while let Some(excess) = loaded.get(&org).and_then(OrgEvidence::excess_tool) {
            let name = self.hasher.row_name(&excess);
            set_evidence(loaded, (org, &excess, &name), ToolEvidence::default());
            self.remove_tool(org, &excess).await;
        }
        true
    }

    /// Removes a row, unless it was written again.
    async fn remove_row(&self, row: &VersionedValue) {
        let written = WritePrecondition::Version(row.version);
        match self.store.put_value(&row.key, written, None).await {
            Ok(_) | Err(StoreError::Conflict { .. }) => {}
            Err(error) => {
                tracing::warn!(%error, key = row.key, "cannot remove what tool search learned");
            }
        }
    }

    fn set_read_version(&self, version: Version) {
        *self.read_version.lock().unwrap_or_else(PoisonError::into_inner) = version;
    }

    /// Parses a row, within the bounds of a tool. A row that cannot be read counts as none.
    fn parse_row(
        &self,
        (org, name): (OrgTag, &str),
        row: &VersionedValue,
    ) -> Option<(ToolKey, ToolEvidence)> {
        match serde_json::from_slice::<EvidenceRow>(&row.bytes) {
            Ok(EvidenceRow { tool, mut stems }) if self.hasher.row_name(&tool) == name => {
                stems.apply_bounds();
                Some((tool, stems))
            }
            _ => {
                let org = org.to_hex();
                tracing::warn!(org, name, "cannot read what tool search learned");
                None
            }
        }
    }

    /// Reads the rows that were written since the last time, by this server or others, and removes evidence
    /// that became too old.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub async fn follow_store(&self) -> Result<(), StoreError> {
        loop {
            let since = *self.read_version.lock().unwrap_or_else(PoisonError::into_inner);
            let changes = match self.store.changes_since(since).await {
                Ok(changes) => changes,
                // There were more removals than the store remembers.
                Err(_) if since.0 > 0 => return self.load_stored().await,
                Err(error) => return Err(error),
            };
            let Some(last) = changes.iter().map(|row| row.version).max() else { break };
            for row in &changes {
                self.apply_row(row).await;
            }
            self.set_read_version(last);
        }
        self.remove_old_evidence().await;
        Ok(())
    }

    /// Puts a changed row of the store into memory, within the bounds.
    async fn apply_row(&self, row: &VersionedValue) {
        let org = parts_of_key(&row.key).filter(|(org, _)| self.is_learning_tag(*org));
        let Some((org, name)) = org else { return };
        if row.is_removal {
            let tool = self.read_evidence().get(&org).and_then(|it| it.tool_of_row(name));
            if let Some(tool) = tool {
                self.apply_evidence((org, &tool, name), ToolEvidence::default());
            }
        } else if let Some((tool, evidence)) = self.parse_row((org, name), row) {
            self.apply_evidence((org, &tool, name), evidence);
            self.evict_excess_tools(org).await;
        }
    }

    pub(super) fn tools_of_org(&self, org: OrgTag) -> Vec<ToolKey> {
        self.read_evidence().get(&org).map(OrgEvidence::all_tools).unwrap_or_default()
    }

    /// Removes the tools with the weakest evidence beyond the maximum of an organisation.
    pub(super) async fn evict_excess_tools(&self, org: OrgTag) {
        loop {
            let excess = self.read_evidence().get(&org).and_then(OrgEvidence::excess_tool);
            let Some(tool) = excess else { return };
            self.remove_tool(org, &tool).await;
        }
    }

    /// Removes the evidence of a tool from memory, and from the store if that can be written.
    pub(super) async fn remove_tool(&self, org: OrgTag, tool: &ToolKey) {
        if let Err(error) = self.update_row(org, tool, clear_evidence).await {
            tracing::warn!(%error, "cannot remove what tool search learned");
        }
        let name = self.hasher.row_name(tool);
        self.apply_evidence((org, tool, &name), ToolEvidence::default());
    }

    /// Changes the evidence of a tool, in the store and then in memory. `change` returns whether it changed
    /// anything; empty evidence removes the row.
    pub(super) async fn update_row(
        &self,
        org: OrgTag,
        tool: &ToolKey,
        change: impl Fn(&mut ToolEvidence) -> bool,
    ) -> Result<(), StoreError> {
        let name = self.hasher.row_name(tool);
        let key = Self::row_key(org, &name);
        for _ in 0..WRITE_ATTEMPTS {
            let row = self.store.get_value(&key).await?;
            let read = row.as_ref().and_then(|row| serde_json::from_slice(&row.bytes).ok());
            let mut evidence = read.map(|row: EvidenceRow| row.stems).unwrap_or_default();
            if !change(&mut evidence) {
                self.apply_evidence((org, tool, &name), evidence);
                return Ok(());
            }
            let new = EvidenceRow { tool: tool.clone(), stems: evidence };
            let bytes = (!new.stems.is_empty()).then(|| Json::encode(&new).bytes().clone());
            match self.store.put_value(&key, precondition_of(row.as_ref()), bytes).await {
                Ok(_) => {
                    self.apply_evidence((org, tool, &name), new.stems);
                    return Ok(());
                }
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        tracing::debug!(key, "other servers keep writing what tool search learned");
        Ok(())
    }

    fn lock_purged_day(&self) -> MutexGuard<'_, Option<u32>> {
        self.purged_day.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes evidence that is too old, once a day. A row that cannot be written is left to the next start.
    async fn remove_old_evidence(&self) {
        let today = self.today();
        if *self.lock_purged_day() == Some(today) {
            return;
        }
        let old: Vec<(OrgTag, Vec<ToolKey>)> = {
            let evidence = self.read_evidence();
            evidence.iter().map(|(org, it)| (*org, it.tools_with_expired(today))).collect()
        };
        for (org, tools) in old {
            for tool in tools {
                let remove = |evidence: &mut ToolEvidence| evidence.remove_expired(today);
                if let Err(error) = self.update_row(org, &tool, remove).await {
                    let tool = tool.name.as_str();
                    tracing::warn!(%error, tool, "cannot remove what tool search learned");
                }
            }
        }
        *self.lock_purged_day() = Some(today);
    }
}

/// Removes all evidence of a tool.
fn clear_evidence(evidence: &mut ToolEvidence) -> bool {
    let had_any = !evidence.is_empty();
    *evidence = ToolEvidence::default();
    had_any
}

#[cfg(test)]
mod tests;
