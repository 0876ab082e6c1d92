//! Incremental changes of keys: each is applied to the ring without a reload, no matter who wrote
//! it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use identity::{KeyRecord, KeyRing};
use tool::store::Expect;
use tool::{StoreError, Version, Versioned};

use super::Keys;
use crate::error::ApiError;

/// The synchronization state of the ring with the store.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The last version from change notifications, not from reloads: a reload may see a late write
    /// and miss an early one.
    pub(super) version: Version,
    /// The number of the reload that produced the ring.
    reading: u64,
    /// The number of running reloads.
    under_way: usize,
    /// Key changes newer than the processed notifications, by id: a reload or older notifications
    /// must not undo them.
    recent: HashMap<String, Change>,
    /// Versions of directory records that this process wrote.
    beside: HashSet<Version>,
}

#[derive(Debug, Clone)]
struct Change {
    version: Version,
    /// `None` if it was removed.
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

/// A running reload; it ends when this value is dropped, including cancellation.
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
    /// Installs the ring, unless a later reload finished first; returns whether it was installed.
    pub(super) fn install(self, ring: KeyRing) -> bool {
        let mut seen = self.keys.seen();
        let newest = seen.reading < self.number;
        if newest {
            seen.reading = self.number;
            // Changes during the reload.
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

    /// Applies one change of a key to the ring, written by this process or reported by a
    /// notification.
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

    /// Applies a change notification for a key.
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

    /// Records a directory write of this process, so that its notification is ignored.
    pub(super) fn wrote_beside(&self, version: Version) {
        self.seen().beside.insert(version);
    }

    pub(super) fn is_own(&self, version: Version) -> bool {
        self.seen().beside.contains(&version)
    }

    /// Marks all writes up to this version as processed.
    pub(super) fn passed(&self, version: Version) {
        let mut seen = self.seen();
        seen.version = seen.version.max(version);
        let passed = seen.version;
        if seen.under_way == 0 {
            seen.recent.retain(|_, change| change.version > passed);
        }
        seen.beside.retain(|version| *version > passed);
    }

    /// Removes the record of an ended key from the store.
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
