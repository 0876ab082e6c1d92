//! Incremental changes of keys: each is applied to the ring without a reload, no matter who wrote
//! it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use identity::{KeyRecord, KeyRing};
use tool::store::WritePrecondition;
use tool::{StoreError, Version, VersionedValue};

use super::KeyStore;
use crate::error::ApiError;

/// The synchronization state of the ring with the store.
#[derive(Debug, Default)]
pub(super) struct ReloadState {
    /// The last version from change notifications, or the newest one before a reload: of the writes
    /// during a reload it may see a late one and miss an early one.
    pub(super) version: Version,
    /// The number of the reload that produced the ring.
    installed_reload: u64,
    /// The number of running reloads.
    running_reloads: usize,
    /// Key changes newer than the processed notifications, by id: a reload or older notifications
    /// must not undo them.
    recent_changes: HashMap<String, KeyChange>,
    /// Versions of directory records that this process wrote.
    own_directory_writes: HashSet<Version>,
}

#[derive(Debug, Clone)]
struct KeyChange {
    version: Version,
    /// `None` if it was removed.
    record: Option<KeyRecord>,
}

impl KeyChange {
    fn apply_to(&self, ring: &KeyRing, id: &str) -> Option<KeyRing> {
        let known = ring.version(id);
        match &self.record {
            Some(_) if known.is_some_and(|known| known >= self.version.0) => None,
            Some(record) => Some(ring.with_record(record.clone(), self.version.0)),
            None => {
                known.is_some_and(|known| known < self.version.0).then(|| ring.without_record(id))
            }
        }
    }
}

/// A running reload; it ends when this value is dropped, including cancellation.
pub(super) struct RingReload<'a> {
    keys: &'a KeyStore,
    number: u64,
}

impl Drop for RingReload<'_> {
    fn drop(&mut self) {
        self.keys.lock_reload_state().running_reloads -= 1;
    }
}

impl RingReload<'_> {
    /// Installs the ring, unless a later reload finished first; returns whether it was installed.
    pub(super) fn install_ring(self, key_ring: KeyRing) -> bool {
        let mut seen = self.keys.lock_reload_state();
        let newest = seen.installed_reload < self.number;
        if newest {
            seen.installed_reload = self.number;
            // Changes during the reload.
            let changes = seen.recent_changes.iter();
            let key_ring = changes.fold(key_ring, |key_ring, (id, change)| {
                change.apply_to(&key_ring, id).unwrap_or(key_ring)
            });
            self.keys.ring.store(Arc::new(key_ring));
        }
        drop(seen);
        self.keys.notify_change();
        newest
    }
}

impl KeyStore {
    pub(super) fn start_reload(&self) -> RingReload<'_> {
        let number = self.reload_counter.fetch_add(1, Ordering::SeqCst);
        self.lock_reload_state().running_reloads += 1;
        RingReload { keys: self, number }
    }

    fn notify_change(&self) {
        self.reloads.send_modify(|number| *number += 1);
    }

    /// Applies one change of a key to the ring, written by this process or reported by a
    /// notification.
    pub(super) fn apply_key_change(&self, id: &str, version: Version, record: Option<KeyRecord>) {
        let mut seen = self.lock_reload_state();
        if seen.recent_changes.get(id).is_some_and(|change| change.version >= version) {
            return;
        }
        let change = KeyChange { version, record };
        let ring = change.apply_to(&self.ring.load(), id);
        seen.recent_changes.insert(id.to_owned(), change);
        if let Some(ring) = ring {
            self.ring.store(Arc::new(ring));
            drop(seen);
            self.notify_change();
        }
    }

    /// Applies a change notification for a key.
    pub(super) fn apply_change_notification(&self, id: &str, row: &VersionedValue) {
        if row.is_removal {
            return self.apply_key_change(id, row.version, None);
        }
        if self.ring.load().version(id).is_some_and(|known| known >= row.version.0) {
            return;
        }
        let record = KeyRecord::parse_record(&row.key, &row.bytes).inspect_err(|problem| {
            tracing::warn!(place = problem.location, "{}", problem.message);
        });
        self.apply_key_change(id, row.version, record.ok());
    }

    /// Records a directory write of this process, so that its notification is ignored.
    pub(super) fn record_own_write(&self, version: Version) {
        self.lock_reload_state().own_directory_writes.insert(version);
    }

    pub(super) fn is_own_write(&self, version: Version) -> bool {
        self.lock_reload_state().own_directory_writes.contains(&version)
    }

    /// Marks all writes up to this version as processed.
    pub(super) fn advance_to(&self, version: Version) {
        let mut seen = self.lock_reload_state();
        seen.version = seen.version.max(version);
        let passed = seen.version;
        if seen.running_reloads == 0 {
            seen.recent_changes.retain(|_, change| change.version > passed);
        }
        seen.own_directory_writes.retain(|version| *version > passed);
    }

    /// Removes the record of an ended key from the store.
    pub(super) async fn remove_key(&self, id: &str) -> Result<(), ApiError> {
        let key = format!("{}{id}", KeyRecord::STORE_PREFIX);
        let Some(there) = self.store.get_value(&key).await? else { return Ok(()) };
        match self.store.put_value(&key, WritePrecondition::Version(there.version), None).await {
            Ok(version) => self.apply_key_change(id, version, None),
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
