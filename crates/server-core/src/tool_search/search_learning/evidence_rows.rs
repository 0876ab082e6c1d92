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
use super::{Lesson, MAX_ORGS, SearchLearning};

/// Prefix of all rows: `search-learning/ORGANISATION/TOOL`, both as hashes.
const ROW_PREFIX: &str = "search-learning/";
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

/// Returns the organisation in the key of a row.
fn org_of_key(key: &str) -> Option<OrgTag> {
    let (org, _) = key.strip_prefix(ROW_PREFIX)?.split_once('/')?;
    OrgTag::from_hex(org)
}

fn precondition_of(row: Option<&VersionedValue>) -> WritePrecondition {
    row.map_or(WritePrecondition::Absent, |row| WritePrecondition::Version(row.version))
}

impl SearchLearning {
    fn row_key(&self, org: OrgTag, tool: &ToolKey) -> String {
        format!("{ROW_PREFIX}{}/{}", org.to_hex(), self.hasher.row_name(tool))
    }

    /// Returns whether the organisation of a row learns.
    fn is_learning_tag(&self, org: OrgTag) -> bool {
        let is_org = |name: &String| self.hasher.org_tag(name) == org;
        self.options.learns_everywhere() || self.options.learning_orgs.iter().any(is_org)
    }

    /// Reads the stored evidence. Rows of organisations that do not learn any more are removed, and so is
    /// evidence that is too old.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read or written.
    pub async fn load_stored(&self) -> Result<(), StoreError> {
        self.evidence.write().unwrap_or_else(PoisonError::into_inner).clear();
        *self.lock_purged_day() = None;
        let (mut after, mut first_page) = (None::<String>, None);
        loop {
            let rows = self.store.scan_prefix(ROW_PREFIX, after.as_deref(), ROWS_PER_READ).await?;
            // Whatever is written from here on is newer than all rows of the first page.
            let newest = rows.iter().map(|row| row.version).max().unwrap_or_default();
            first_page.get_or_insert(newest);
            let Some(last) = rows.last() else { break };
            after = Some(last.key.clone());
            for row in &rows {
                match org_of_key(&row.key).filter(|org| self.is_learning_tag(*org)) {
                    Some(org) => self.apply_row(org, row),
                    None => self.remove_row(row).await?,
                }
            }
        }
        self.set_read_version(first_page.unwrap_or_default());
        self.remove_old_evidence().await
    }

    /// Removes a row, unless it was written again.
    async fn remove_row(&self, row: &VersionedValue) -> Result<(), StoreError> {
        let written = WritePrecondition::Version(row.version);
        match self.store.put_value(&row.key, written, None).await {
            Ok(_) | Err(StoreError::Conflict { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn set_read_version(&self, version: Version) {
        *self.read_version.lock().unwrap_or_else(PoisonError::into_inner) = version;
    }

    /// Puts a row of the store into memory. A row that cannot be read counts as none.
    fn apply_row(&self, org: OrgTag, row: &VersionedValue) {
        match serde_json::from_slice::<EvidenceRow>(&row.bytes) {
            Ok(EvidenceRow { tool, stems: evidence }) if self.row_key(org, &tool) == row.key => {
                self.apply_evidence(org, &tool, evidence);
            }
            _ => tracing::warn!(key = row.key, "cannot read what tool search learned"),
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
                let org = org_of_key(&row.key).filter(|org| self.is_learning_tag(*org));
                match org {
                    Some(org) if row.is_removal => self.forget_row(org, &row.key),
                    Some(org) => self.apply_row(org, row),
                    None => {}
                }
            }
            self.set_read_version(last);
        }
        self.remove_old_evidence().await
    }

    /// Removes the evidence of a removed row from memory.
    fn forget_row(&self, org: OrgTag, key: &str) {
        let tools = self.tools_of_org(org);
        let tool = tools.iter().find(|tool| self.row_key(org, tool) == key);
        if let Some(tool) = tool {
            self.apply_evidence(org, tool, ToolEvidence::default());
        }
    }

    fn tools_of_org(&self, org: OrgTag) -> Vec<ToolKey> {
        let evidence = self.evidence.read().unwrap_or_else(PoisonError::into_inner);
        evidence.get(&org).map(OrgEvidence::all_tools).unwrap_or_default()
    }

    /// Keeps what the queued calls teach.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read or written; the calls that are not kept stay queued.
    pub async fn write_lessons(&self) -> Result<(), StoreError> {
        loop {
            let lesson = self.lock_lessons().pop_front();
            let Some(lesson) = lesson else { return Ok(()) };
            if let Err(error) = self.write_lesson(&lesson).await {
                self.lock_lessons().push_front(lesson);
                return Err(error);
            }
        }
    }

    async fn write_lesson(&self, lesson: &Lesson) -> Result<(), StoreError> {
        let today = self.today();
        if !self.teaches_anything(lesson, today) {
            return Ok(());
        }
        self.make_room_for_org(lesson.org).await?;
        self.update_row(lesson.org, &lesson.tool, |evidence| {
            let is_shorter = evidence.remove_expired(today);
            evidence.add_call(&lesson.stems, lesson.caller, today) || is_shorter
        })
        .await?;
        while let Some(tool) = self.excess_tool(lesson.org) {
            self.update_row(lesson.org, &tool, clear_evidence).await?;
        }
        Ok(())
    }

    /// Returns whether a call changes anything, so that the store is not read for one that is known.
    fn teaches_anything(&self, lesson: &Lesson, today: u32) -> bool {
        let evidence = self.evidence.read().unwrap_or_else(PoisonError::into_inner);
        let known = evidence.get(&lesson.org).and_then(|org| org.tool(&lesson.tool));
        let mut known = known.cloned().unwrap_or_default();
        known.add_call(&lesson.stems, lesson.caller, today)
    }

    fn excess_tool(&self, org: OrgTag) -> Option<ToolKey> {
        let evidence = self.evidence.read().unwrap_or_else(PoisonError::into_inner);
        evidence.get(&org)?.excess_tool()
    }

    /// Removes the evidence of the organisation that was taught the longest time ago, if there is no room for
    /// another one.
    async fn make_room_for_org(&self, org: OrgTag) -> Result<(), StoreError> {
        let oldest = {
            let evidence = self.evidence.read().unwrap_or_else(PoisonError::into_inner);
            let is_full = evidence.len() >= MAX_ORGS && !evidence.contains_key(&org);
            let oldest = evidence.iter().min_by_key(|(org, it)| (it.rank(), **org));
            oldest.filter(|_| is_full).map(|(org, _)| *org)
        };
        let Some(oldest) = oldest else { return Ok(()) };
        for tool in self.tools_of_org(oldest) {
            self.update_row(oldest, &tool, clear_evidence).await?;
        }
        Ok(())
    }

    /// Changes the evidence of a tool, in the store and then in memory. `change` returns whether it changed
    /// anything; empty evidence removes the row.
    async fn update_row(
        &self,
        org: OrgTag,
        tool: &ToolKey,
        change: impl Fn(&mut ToolEvidence) -> bool,
    ) -> Result<(), StoreError> {
        let key = self.row_key(org, tool);
        for _ in 0..WRITE_ATTEMPTS {
            let row = self.store.get_value(&key).await?;
            let read = row.as_ref().and_then(|row| serde_json::from_slice(&row.bytes).ok());
            let mut evidence = read.map(|row: EvidenceRow| row.stems).unwrap_or_default();
            if !change(&mut evidence) {
                self.apply_evidence(org, tool, evidence);
                return Ok(());
            }
            let new = EvidenceRow { tool: tool.clone(), stems: evidence };
            let bytes = (!new.stems.is_empty()).then(|| Json::encode(&new).bytes().clone());
            match self.store.put_value(&key, precondition_of(row.as_ref()), bytes).await {
                Ok(_) => {
                    self.apply_evidence(org, tool, new.stems);
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

    /// Removes evidence that is too old, once a day.
    async fn remove_old_evidence(&self) -> Result<(), StoreError> {
        let today = self.today();
        if *self.lock_purged_day() == Some(today) {
            return Ok(());
        }
        let old: Vec<(OrgTag, Vec<ToolKey>)> = {
            let evidence = self.evidence.read().unwrap_or_else(PoisonError::into_inner);
            evidence.iter().map(|(org, it)| (*org, it.tools_with_expired(today))).collect()
        };
        for (org, tools) in old {
            for tool in tools {
                self.update_row(org, &tool, |evidence| evidence.remove_expired(today)).await?;
            }
        }
        *self.lock_purged_day() = Some(today);
        Ok(())
    }
}

/// Removes all evidence of a tool.
fn clear_evidence(evidence: &mut ToolEvidence) -> bool {
    let had_any = !evidence.is_empty();
    *evidence = ToolEvidence::default();
    had_any
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use option_types::ListingOptions;
    use search::{CallerMark, MAX_EVIDENCE_DAYS};
    use store::MemoryStore;
    use testkit::clock::FakeClock;
    use tool::{Org, Secret, SourceName, Store as _, ToolKey, ToolName};

    use super::super::org_evidence::MAX_ORG_TOOLS;
    use super::{Lesson, MAX_ORGS, OrgTag, ROW_PREFIX, SearchLearning};

    const DAY: Duration = Duration::from_hours(24);

    fn learning_on(store: &Arc<MemoryStore>, clock: &Arc<FakeClock>) -> SearchLearning {
        let options = ListingOptions {
            learning_orgs: vec![ListingOptions::ALL_ORGS.to_owned()],
            ..ListingOptions::default()
        };
        let (store, clock) = (Arc::clone(store) as _, Arc::clone(clock) as _);
        SearchLearning::new(&options, store, clock, &Secret::new("key"))
    }

    fn org(learning: &SearchLearning, number: usize) -> OrgTag {
        learning.hasher.org_tag(&format!("org{number}"))
    }

    fn lesson(org: OrgTag, tool: usize, caller: u32) -> Lesson {
        let tool = ToolKey {
            org: Org::default(),
            source: SourceName::new("s").unwrap(),
            name: ToolName::new(format!("t{tool:04}")).unwrap(),
        };
        Lesson { org, tool, stems: vec![7], caller: CallerMark { key: caller, subject: caller } }
    }

    async fn teach(learning: &SearchLearning, lesson: Lesson) {
        learning.lock_lessons().push_back(lesson);
        learning.write_lessons().await.unwrap();
    }

    async fn rows_of(store: &MemoryStore, org: OrgTag) -> usize {
        let prefix = format!("{ROW_PREFIX}{}/", org.to_hex());
        store.scan_prefix(&prefix, None, 10_000).await.unwrap().len()
    }

    fn learned(learning: &SearchLearning, org: OrgTag) -> usize {
        let today = learning.today();
        let evidence = learning.evidence.read().unwrap();
        evidence.get(&org).map_or(0, |it| it.tools_of(7, today).count())
    }

    #[tokio::test]
    async fn organisations_and_their_tools_are_bounded_in_memory_and_in_the_store() {
        let (store, clock) = (Arc::new(MemoryStore::new()), Arc::new(FakeClock::default()));
        let learning = learning_on(&store, &clock);
        let first = org(&learning, 0);
        for tool in 0..=MAX_ORG_TOOLS {
            teach(&learning, lesson(first, tool, 1)).await;
        }
        assert_eq!(rows_of(&store, first).await, MAX_ORG_TOOLS);
        clock.advance(DAY);
        for number in 1..MAX_ORGS {
            teach(&learning, lesson(org(&learning, number), 1, 1)).await;
        }
        assert_eq!(rows_of(&store, first).await, MAX_ORG_TOOLS, "control: there was room");
        teach(&learning, lesson(org(&learning, MAX_ORGS), 1, 1)).await;
        assert_eq!((rows_of(&store, first).await, learned(&learning, first)), (0, 0));
        assert_eq!(learned(&learning, org(&learning, 1)), 1, "the oldest leaves alone");
    }

    #[tokio::test]
    async fn evidence_that_is_too_old_leaves_memory_and_the_store() {
        let (store, clock) = (Arc::new(MemoryStore::new()), Arc::new(FakeClock::default()));
        let (learning, other) = (learning_on(&store, &clock), learning_on(&store, &clock));
        let acme = org(&learning, 0);
        teach(&learning, lesson(acme, 1, 1)).await;
        clock.advance(DAY * MAX_EVIDENCE_DAYS);
        learning.follow_store().await.unwrap();
        assert_eq!((rows_of(&store, acme).await, learned(&learning, acme)), (1, 1), "control");
        clock.advance(DAY);
        assert_eq!(learned(&learning, acme), 0, "it does not count at once");
        learning.follow_store().await.unwrap();
        assert_eq!(rows_of(&store, acme).await, 0);
        // Another server reads that too, and a start removes what nobody did.
        other.load_stored().await.unwrap();
        assert_eq!(learned(&other, acme), 0);
        teach(&other, lesson(acme, 1, 1)).await;
        clock.advance(DAY * (MAX_EVIDENCE_DAYS + 1));
        learning_on(&store, &clock).load_stored().await.unwrap();
        assert_eq!(rows_of(&store, acme).await, 0);
    }

    #[tokio::test]
    async fn a_removed_row_leaves_the_memory_of_other_servers() {
        let (store, clock) = (Arc::new(MemoryStore::new()), Arc::new(FakeClock::default()));
        let (one, other) = (learning_on(&store, &clock), learning_on(&store, &clock));
        let acme = org(&one, 0);
        teach(&one, lesson(acme, 1, 1)).await;
        teach(&one, lesson(acme, 2, 1)).await;
        other.load_stored().await.unwrap();
        assert_eq!(learned(&other, acme), 2);
        let tool = lesson(acme, 1, 1).tool;
        one.update_row(acme, &tool, super::clear_evidence).await.unwrap();
        other.follow_store().await.unwrap();
        assert_eq!((learned(&one, acme), learned(&other, acme)), (1, 1));
    }
}
