//! Indexes of subjects, so that creating a key reads no record of another key.

use std::collections::{BTreeMap, BTreeSet};

use tool::confusable_text::confusable_skeletons;
use tool::identifier::is_confusable;
use tool::{Org, PermissionLevel};

use crate::KeyRecord;
use crate::sharded_map::ShardedMap;

/// Subjects of all keys of a ring, including revoked and expired ones. Derived from the records.
#[derive(Debug, Clone, Default)]
pub(crate) struct SubjectIndex {
    /// Number of keys by level for each subject.
    levels: ShardedMap<BTreeMap<PermissionLevel, usize>>,
    names: NameIndex,
}

impl SubjectIndex {
    pub(crate) fn insert(&mut self, record: &KeyRecord) {
        let key = scoped_key(&record.org, &record.subject);
        let mut levels = self.levels.get(&key).cloned().unwrap_or_default();
        if levels.is_empty() {
            self.names.insert(record.org.as_str(), &record.subject);
        }
        *levels.entry(record.level).or_default() += 1;
        self.levels.insert(&key, levels);
    }

    pub(crate) fn remove(&mut self, record: &KeyRecord) {
        let key = scoped_key(&record.org, &record.subject);
        let Some(mut levels) = self.levels.get(&key).cloned() else { return };
        if let Some(count) = levels.get_mut(&record.level) {
            *count = count.saturating_sub(1);
        }
        levels.retain(|_, count| *count > 0);
        if levels.is_empty() {
            self.levels.remove(&key);
            self.names.remove(record.org.as_str(), &record.subject);
        } else {
            self.levels.insert(&key, levels);
        }
    }

    /// Returns the highest level of the keys with this subject; `None` if there are none.
    pub(crate) fn highest_level(&self, org: &Org, subject: &str) -> Option<PermissionLevel> {
        self.levels.get(&scoped_key(org, subject))?.keys().next_back().copied()
    }

    /// Returns the index of subject names.
    pub(crate) fn names(&self) -> &NameIndex {
        &self.names
    }
}

/// Subject names by organisation and confusable skeleton.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NameIndex(ShardedMap<BTreeSet<String>>);

impl NameIndex {
    pub(crate) fn insert(&mut self, org: &str, name: &str) {
        for key in confusable_skeletons(name).map(|look| skeleton_key(org, name.is_ascii(), &look))
        {
            let mut names = self.0.get(&key).cloned().unwrap_or_default();
            names.insert(name.to_owned());
            self.0.insert(&key, names);
        }
    }

    fn remove(&mut self, org: &str, name: &str) {
        for key in confusable_skeletons(name).map(|look| skeleton_key(org, name.is_ascii(), &look))
        {
            let Some(mut names) = self.0.get(&key).cloned() else { continue };
            names.remove(name);
            if names.is_empty() {
                self.0.remove(&key);
            } else {
                self.0.insert(&key, names);
            }
        }
    }

    /// Finds a name of the organisation that a reader may confuse with this one.
    pub(crate) fn find_confusable(&self, org: &Org, name: &str) -> Option<&str> {
        // Two ASCII names never count as confusable, so an ASCII name is compared with non-ASCII
        // names only.
        let kinds: &[bool] = if name.is_ascii() { &[false] } else { &[false, true] };
        confusable_skeletons(name)
            .flat_map(|look| {
                kinds.iter().map(move |ascii| skeleton_key(org.as_str(), *ascii, &look))
            })
            .filter_map(|key| self.0.get(&key))
            .flatten()
            .map(String::as_str)
            .find(|other| is_confusable(name, other))
    }
}

fn scoped_key(org: &Org, subject: &str) -> String {
    format!("{org}/{subject}")
}

fn skeleton_key(org: &str, ascii: bool, look: &str) -> String {
    let kind = if ascii { "ascii" } else { "other" };
    format!("{org}/{kind}/{look}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tool::identifier::is_confusable;
    use tool::{Org, PermissionLevel, WallTime};

    use crate::{KeyId, KeyRecord, KeyRing, NewKey};

    const SUBJECTS: [&str; 8] = ["ann", "annl", "ann1", "coco", "сосо", "Zoë", "Zoe", "zoe"];
    const LEVELS: [PermissionLevel; 4] = [
        PermissionLevel::Guest,
        PermissionLevel::User,
        PermissionLevel::Admin,
        PermissionLevel::Owner,
    ];

    fn record(id: usize, org: &Org, subject: &str, level: PermissionLevel) -> KeyRecord {
        let id = KeyId::new(format!("k{id}")).unwrap();
        let new = NewKey { org: org.clone(), level, ..NewKey::for_user(id, subject) };
        new.issue_key([3; 32], WallTime(1)).unwrap().1
    }

    proptest! {
        #[test]
        fn the_index_agrees_with_a_scan_of_all_records(
            changes in prop::collection::vec((0_usize..12, 0_usize..9, 0_usize..4, any::<bool>()), 1..40)
        ) {
            let orgs = [Org::default(), "other".parse().unwrap()];
            let mut ring = KeyRing::default();
            for (id, subject, level, other) in changes {
                ring = match SUBJECTS.get(subject) {
                    Some(subject) => {
                        let org = &orgs[usize::from(other)];
                        ring.with_record(record(id, org, subject, LEVELS[level]), 1)
                    }
                    None => ring.without_record(&format!("k{id}")),
                };
            }
            for org in &orgs {
                let of_org = || ring.iter_records().filter(|record| record.org == *org);
                for subject in SUBJECTS.iter().chain(&["none", "cосо"]) {
                    let same = of_org().filter(|record| record.subject == *subject);
                    let highest = same.map(|record| record.level).max();
                    prop_assert_eq!(ring.subjects().highest_level(org, subject), highest);
                    let like = of_org().any(|record| is_confusable(subject, &record.subject));
                    let found = ring.subjects().names().find_confusable(org, subject);
                    prop_assert_eq!(found.is_some(), like, "{}: {:?}", subject, found);
                }
            }
        }
    }
}
