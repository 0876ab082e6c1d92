//! One change of a key: it is put into the ring without reading anything else, whoever wrote it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use identity::{KeyRecord, KeyRing};
use tool::store::Expect;
use tool::{StoreError, Version, Versioned};

use super::Keys;
use crate::error::ApiError;

/// What is known of the store, beside what is in the ring.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The last write that news told of, and no reading: one may see a late write and miss an early one.
    pub(super) version: Version,
    /// The reading that the ring is of.
    reading: u64,
    /// Readings that are on their way.
    under_way: usize,
    /// Changes of keys that news have not passed, by id: a reading or older news must not undo them.
    recent: HashMap<String, Change>,
    /// Writes of ours beside the keys.
    beside: HashSet<Version>,
}

#[derive(Debug, Clone)]
struct Change {
    version: Version,
    /// `None` where it was removed.
    record: Option<KeyRecord>,
}

impl Change {
    fn applied(&self, ring: &KeyRing, id: &str) -> Option<KeyRing> {
        let known = ring.version(id);
        match &self.record {
            Some(_) if known.is_some_and(|known| known >= self.version.0) => None,
            Some(record) => Some(ring.with_record(record.clone(), self.version.0)),
            None => known.is_some_and(|known| known < self.version.0).then(|| ring.without(id)),
        }
    }
}

/// A reading that is on its way; ends with it, also where it is given up.
pub(super) struct Reading<'a> {
    keys: &'a Keys,
    number: u64,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.keys.seen().under_way -= 1;
    }
}

impl Reading<'_> {
    /// Its ring is that of the server, unless a reading that began later was faster; whether it is.
    pub(super) fn install(self, ring: KeyRing) -> bool {
        let mut seen = self.keys.seen();
        let newest = seen.reading < self.number;
        if newest {
            seen.reading = self.number;
            // What changed meanwhile.
            let changes = seen.recent.iter();
            let ring =
                changes.fold(ring, |ring, (id, change)| change.applied(&ring, id).unwrap_or(ring));
            self.keys.ring.store(Arc::new(ring));
        }
        drop(seen);
        self.keys.tell_change();
        newest
    }
}

impl Keys {
    pub(super) fn begin_reading(&self) -> Reading<'_> {
        let number = self.begun.fetch_add(1, Ordering::SeqCst);
        self.seen().under_way += 1;
        Reading { keys: self, number }
    }

    fn tell_change(&self) {
        self.read.send_modify(|number| *number += 1);
    }

    /// Takes one change of a key into the ring: what this process wrote, or what news tell of.
    pub(super) fn changed(&self, id: &str, version: Version, record: Option<KeyRecord>) {
        let mut seen = self.seen();
        if seen.recent.get(id).is_some_and(|change| change.version >= version) {
            return;
        }
        let change = Change { version, record };
        let ring = change.applied(&self.ring.load(), id);
        seen.recent.insert(id.to_owned(), change);
        if let Some(ring) = ring {
            self.ring.store(Arc::new(ring));
            drop(seen);
            self.tell_change();
        }
    }

    /// What news tell of a key.
    pub(super) fn take_news(&self, id: &str, row: &Versioned) {
        if row.removed {
            return self.changed(id, row.version, None);
        }
        if self.ring.load().version(id).is_some_and(|known| known >= row.version.0) {
            return;
        }
        let record = KeyRecord::read(&row.key, &row.bytes).inspect_err(|problem| {
            tracing::warn!(place = problem.place, "{}", problem.message);
        });
        self.changed(id, row.version, record.ok());
    }

    /// This process wrote something beside the keys; news of it are no news.
    pub(super) fn wrote_beside(&self, version: Version) {
        self.seen().beside.insert(version);
    }

    pub(super) fn is_own(&self, version: Version) -> bool {
        self.seen().beside.contains(&version)
    }

    /// All up to this write is known.
    pub(super) fn passed(&self, version: Version) {
        let mut seen = self.seen();
        seen.version = seen.version.max(version);
        let passed = seen.version;
        if seen.under_way == 0 {
            seen.recent.retain(|_, change| change.version > passed);
        }
        seen.beside.retain(|version| *version > passed);
    }

    /// Takes the record of a key that ended for good out of the store.
    pub(super) async fn forget(&self, id: &str) -> Result<(), ApiError> {
        let key = format!("{}{id}", KeyRecord::STORE_PREFIX);
        let Some(there) = self.store.get(&key).await? else { return Ok(()) };
        match self.store.put(&key, Expect::Version(there.version), None).await {
            Ok(version) => self.changed(id, version, None),
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
