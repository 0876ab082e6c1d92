//! Synchronisation with the writes of other servers that share the registry.
//!
//! One task synchronises, so that only one reload runs at a time. It subscribes before it loads, so
//! that no change is missed; newer cached records are kept.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;
use tool::node_registry::NodeError;
use tool::{Backoff, StoreError, Version};

use super::PersistentNodeRegistry;
use super::cache::RegistryContext;
use crate::peer_events::RECONNECT_BACKOFF;
use crate::registry_store::RecordChange;

impl PersistentNodeRegistry {
    /// Synchronises with the writes of other servers until it is cancelled. If the store is
    /// unavailable, the registry is served from memory and marked as stale.
    pub async fn run_sync(&self) {
        let mut backoff = RECONNECT_BACKOFF;
        loop {
            if let Err(error) = self.context.sync_once(&mut backoff).await {
                self.context.set_staleness(Some(error.to_string()));
            }
            tokio::time::sleep(backoff.next_delay()).await;
        }
    }
}

impl RegistryContext {
    /// Synchronises until the change feed fails.
    async fn sync_once(&self, backoff: &mut Backoff) -> Result<(), StoreError> {
        // Without other writers there are no changes.
        let Some(mut receiver) = self.store.subscribe_changes().await? else {
            return std::future::pending().await;
        };
        self.reload_all().await?;
        backoff.reset();
        loop {
            match receiver.next_change().await? {
                RecordChange::Updated(row) => {
                    let is_newer = |old: Option<Version>| old.is_none_or(|old| old < row.version);
                    self.apply_record(&row.key, Some(&row), is_newer);
                }
                RecordChange::Invalidated(key) => self
                    .reload_key(&key)
                    .await
                    .map_err(|fault| StoreError::Unavailable(fault.to_string()))?,
            }
        }
    }

    /// Reloads all records. Newer records that this server wrote meanwhile are kept.
    pub(super) async fn reload_all(&self) -> Result<(), StoreError> {
        let before = self.key_versions();
        let max_version = before.iter().map(|(_, version)| *version).max();
        let rows = self.store.load_all().await?;
        for row in &rows {
            let if_version = |old: Option<Version>| old <= max_version || old < Some(row.version);
            self.apply_record(&row.key, Some(row), if_version);
        }
        let stored_keys: HashSet<&str> = rows.iter().map(|row| row.key.as_str()).collect();
        for (key, _) in before.iter().filter(|(key, _)| !stored_keys.contains(key.as_str())) {
            self.apply_record(key, None, |old| old <= max_version);
        }
        self.set_staleness(None);
        Ok(())
    }

    /// Reloads one key after a conflicting write. Concurrent callers share one read (single
    /// flight).
    pub(crate) async fn reload_key(&self, key: &str) -> Result<(), NodeError> {
        loop {
            let mut result_receiver = match self.in_flight_reads.join_read(key) {
                ReadTurn::Leader(guard) => {
                    let read = self.read_key(key).await;
                    guard.result_sender.send_replace(Some(read.clone()));
                    return read;
                }
                ReadTurn::Follower(others) => others,
            };
            // The reading caller may have been cancelled.
            if let Ok(read) = result_receiver.wait_for(Option::is_some).await
                && let Some(read) = read.clone()
            {
                return read;
            }
        }
    }

    async fn read_key(&self, key: &str) -> Result<(), NodeError> {
        let cached_version = self.cached_version(key);
        let row = self.store.get_record(key).await;
        let row = row.map_err(|error| NodeError::Unavailable(error.to_string()))?;
        self.apply_record(key, row.as_ref(), |old| old == cached_version);
        Ok(())
    }
}

/// The result of a shared read; `None` while it runs.
type ReadResult = Option<Result<(), NodeError>>;

/// The reads in flight, by key.
#[derive(Debug, Default)]
pub(super) struct InFlightReads(Mutex<HashMap<String, watch::Receiver<ReadResult>>>);

/// Whether a caller reads a key itself or waits for another read.
enum ReadTurn<'a> {
    Leader(LeaderGuard<'a>),
    Follower(watch::Receiver<ReadResult>),
}

/// Removes the read from the table when it is dropped.
struct LeaderGuard<'a> {
    reads: &'a InFlightReads,
    key: String,
    result_sender: watch::Sender<ReadResult>,
}

impl InFlightReads {
    fn join_read(&self, key: &str) -> ReadTurn<'_> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(others) = all.get(key) {
            return ReadTurn::Follower(others.clone());
        }
        let (result_sender, others) = watch::channel(None);
        all.insert(key.to_owned(), others);
        ReadTurn::Leader(LeaderGuard { reads: self, key: key.to_owned(), result_sender })
    }
}

impl Drop for LeaderGuard<'_> {
    fn drop(&mut self) {
        self.reads.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}
