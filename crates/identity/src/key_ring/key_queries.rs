//! Queries over all keys of a ring. Each reads every key.

use std::collections::{BTreeMap, HashSet};

use tool::WallTime;

use super::KeyRing;
use crate::{KeyRecord, RightsClass};

impl KeyRing {
    /// Counts the keys that are neither revoked nor expired.
    pub fn count_valid(&self, now: WallTime) -> usize {
        self.entries.values().filter(|held| held.invalid_reason_at(now).is_none()).count()
    }

    /// Iterates over the keys that were revoked or expired before `deadline`, by their own record
    /// or a parent's.
    pub fn ended_before(&self, deadline: WallTime) -> impl Iterator<Item = &KeyRecord> {
        let ended = move |record: &&KeyRecord| self.invalid_since(record, deadline).is_some();
        self.rows.values().map(|row| &row.record).filter(ended)
    }

    /// Returns the time at which a key ended, if it is before `until`. A key with a missing parent
    /// counts as ended.
    fn invalid_since(&self, record: &KeyRecord, until: WallTime) -> Option<WallTime> {
        let above: Option<Vec<_>> =
            record.delegations.iter().map(|hand| self.find_record(&hand.delegated_by)).collect();
        let Some(above) = above else { return Some(WallTime(0)) };
        let ends = above
            .into_iter()
            .chain(std::iter::once(record))
            .flat_map(|one| [one.revoked_at, one.expires_at]);
        ends.flatten().filter(|end| *end <= until).min()
    }

    /// Returns at most `limit` matching records after an id, ordered by id, without sorting all.
    pub fn page_records(
        &self,
        after: Option<&str>,
        limit: usize,
        matches: impl Fn(&KeyRecord) -> bool,
    ) -> Vec<&KeyRecord> {
        let mut page = BTreeMap::new();
        for row in self.rows.values() {
            let id = row.record.id.as_str();
            let late =
                page.len() >= limit && page.last_key_value().is_some_and(|(last, _)| id > *last);
            if late || after.is_some_and(|after| id <= after) || !matches(&row.record) {
                continue;
            }
            page.insert(id, &row.record);
            if page.len() > limit {
                let _beyond = page.pop_last();
            }
        }
        page.into_values().collect()
    }

    /// Iterates over all records in no order.
    pub(crate) fn iter_records(&self) -> impl Iterator<Item = &KeyRecord> {
        self.rows.values().map(|row| &row.record)
    }

    /// Counts the matching records.
    pub fn count_records(&self, matches: impl Fn(&KeyRecord) -> bool) -> usize {
        self.iter_records().filter(|record| matches(record)).count()
    }

    /// Returns all records ordered by id.
    pub fn sorted_records(&self) -> Vec<&KeyRecord> {
        let mut records: Vec<_> = self.iter_records().collect();
        records.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        records
    }

    /// Returns the distinct rights classes, which a server may prepare in advance.
    pub fn rights_classes(&self) -> Vec<RightsClass> {
        let principals = self.entries.values().map(|held| &held.principal).chain(&self.anonymous);
        let unique: HashSet<_> = principals.map(|p| p.rights_class().clone()).collect();
        unique.into_iter().collect()
    }
}
