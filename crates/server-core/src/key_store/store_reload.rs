//! Synchronization with the store: the initial load, and polling for writes of other processes. If
//! the store is unavailable for too long, authentication fails, because a key may have been revoked
//! meanwhile.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use identity::{Directory, KeyRecord, KeyRing, OrgRecord, PersonaSet, RoleRecord, UserRecord};
use tokio::sync::watch;
use tool::clock::duration_millis;
use tool::{Clock, ErrorCode, MonotonicTime, Problem, StoreError, VersionedValue};

use super::key_changes::ReloadState;
use super::{KeyStore, MAX_DIRECTORY_RECORDS, MAX_KEYS, MAX_PERSONAS, STALE_AFTER};
use crate::error::ApiError;

/// Rows per scan page.
const SCAN_PAGE_ROWS: usize = 5_000;
/// Maximum number of key rows, including ended keys that are not removed yet.
const MAX_KEY_ROWS: usize = 4 * MAX_KEYS;
/// Interval of the removal of ended keys.
const PURGE_INTERVAL: Duration = Duration::from_mins(1);
/// Polling interval for writes of other processes.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Timeout of a store request.
const STORE_TIMEOUT: Duration = Duration::from_secs(5);

impl KeyStore {
    pub(super) fn lock_reload_state(&self) -> MutexGuard<'_, ReloadState> {
        self.reload_state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reloads everything from the store. The next poll begins with the writes during it.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable or has too many rows; the ring then stays
    /// unchanged.
    pub async fn reload(&self) -> Result<Vec<Problem>, StoreError> {
        let newest_write = self.store.current_version().await?;
        loop {
            // A later reload of only the directory does not replace this one.
            let (newest, problems) = self.reload_once().await?;
            if newest {
                self.advance_to(newest_write);
                return Ok(problems);
            }
        }
    }

    async fn reload_once(&self) -> Result<(bool, Vec<Problem>), StoreError> {
        let reading = self.start_reload();
        let beside = self.read_directory_rows().await?;
        // Read last, so that a key never refers to a directory record that was not read.
        let keys = self.scan_rows(KeyRecord::STORE_PREFIX, MAX_KEY_ROWS).await?;
        let open = self.anonymous_level;
        let made = run_blocking(move || {
            let (directory, mut problems) = beside.parse_directory();
            let mut records = Vec::with_capacity(keys.len());
            for row in &keys {
                match KeyRecord::parse_record(&row.key, &row.bytes) {
                    Ok(record) => records.push((record, row.version.0)),
                    Err(problem) => problems.push(problem),
                }
            }
            let ring = KeyRing::from_rows(records, directory);
            (open.into_iter().fold(ring, KeyRing::with_anonymous_access), problems)
        });
        let (ring, problems) = made.await?;
        Ok((reading.install_ring(ring), problems))
    }

    /// Reloads the directory records and rebuilds all principals.
    ///
    /// # Errors
    /// As [`KeyStore::reload`].
    pub(super) async fn reload_directory(&self) -> Result<Vec<Problem>, StoreError> {
        let reading = self.start_reload();
        let (beside, ring) = (self.read_directory_rows().await?, self.key_ring());
        let made = run_blocking(move || {
            let (directory, problems) = beside.parse_directory();
            (ring.with_other_directory(directory), problems)
        });
        let (ring, problems) = made.await?;
        // A later reload that finished first has seen all of this.
        let _newest = reading.install_ring(ring);
        Ok(problems)
    }

    async fn read_directory_rows(&self) -> Result<DirectoryRows, StoreError> {
        let personas = self.scan_rows(PersonaSet::STORE_PREFIX, MAX_PERSONAS).await?;
        let mut rows = self.scan_rows(RoleRecord::STORE_PREFIX, MAX_DIRECTORY_RECORDS).await?;
        rows.extend(self.scan_rows(UserRecord::STORE_PREFIX, MAX_DIRECTORY_RECORDS).await?);
        // Each organization may have a row for its tools beside its record.
        rows.extend(self.scan_rows(OrgRecord::STORE_PREFIX, 2 * MAX_DIRECTORY_RECORDS).await?);
        let default = self.store.get_value(PersonaSet::STORE_DEFAULT_KEY).await?;
        Ok(DirectoryRows {
            personas,
            records: rows,
            default_persona: default,
            guest_sources: self.guest_sources.load_full(),
        })
    }

    /// All rows with a key prefix. More than `most` rows are an error, so that none is dropped
    /// silently.
    async fn scan_rows(
        &self,
        prefix: &str,
        most: usize,
    ) -> Result<Vec<VersionedValue>, StoreError> {
        let mut rows: Vec<VersionedValue> = Vec::new();
        loop {
            let after = rows.last().map(|row| row.key.clone());
            let page = self.store.scan_prefix(prefix, after.as_deref(), SCAN_PAGE_ROWS).await?;
            let full = page.len() >= SCAN_PAGE_ROWS;
            rows.extend(page);
            if rows.len() > most {
                let message =
                    format!("the store has more than {most} rows of `{prefix}`, the maximum");
                return Err(StoreError::Unavailable(message));
            }
            if !full {
                return Ok(rows);
            }
        }
    }

    /// Polls for writes of other processes and applies them.
    ///
    /// # Errors
    /// Returns an error if the store does not answer within five seconds.
    pub async fn poll_changes(&self, clock: &dyn Clock) -> Result<(), StoreError> {
        let late = || StoreError::Unavailable(format!("no answer within {STORE_TIMEOUT:?}"));
        let looked = tokio::time::timeout(STORE_TIMEOUT, self.apply_changes())
            .await
            .unwrap_or_else(|_| Err(late()));
        match &looked {
            Ok(()) => self.failing_since.store(0, Ordering::Release),
            // The first failure counts.
            Err(_) => drop(self.failing_since.compare_exchange(
                0,
                nonzero_millis(clock.monotonic_now()),
                Ordering::AcqRel,
                Ordering::Acquire,
            )),
        }
        looked
    }

    async fn apply_changes(&self) -> Result<(), StoreError> {
        loop {
            let since = self.lock_reload_state().version;
            let news = match self.store.changes_since(since).await {
                Ok(news) => news,
                // There were more removals than the store remembers.
                Err(error) if since.0 > 0 => {
                    self.reload().await.map_err(|_| error)?;
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            let Some(last) = news.iter().map(|one| one.version).max() else { return Ok(()) };
            for row in &news {
                if let Some(id) = row.key.strip_prefix(KeyRecord::STORE_PREFIX) {
                    self.apply_change_notification(id, row);
                }
            }
            if news.iter().any(|row| is_directory_key(&row.key) && !self.is_own_write(row.version))
            {
                self.reload_directory().await?;
            }
            self.advance_to(last);
        }
    }

    /// Polls the store forever, twice a second: writes of other processes take effect within a
    /// second.
    pub async fn watch_store(&self, clock: Arc<dyn Clock>) {
        let mut ticks = tokio::time::interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut failed, mut purged) = (false, None::<MonotonicTime>);
        loop {
            ticks.tick().await;
            let now = clock.monotonic_now();
            if purged.is_none_or(|purged| now.saturating_duration_since(purged) >= PURGE_INTERVAL) {
                purged = Some(now);
                if let Err(error) = self.purge_ended(clock.wall_now()).await {
                    tracing::warn!(error = error.message(), "cannot remove expired keys yet");
                }
            }
            let looked = self.poll_changes(clock.as_ref()).await;
            if let Err(error) = &looked
                && !failed
            {
                tracing::error!(%error, "the key store is unavailable");
            }
            failed = looked.is_err();
        }
    }

    /// Checks that the cached keys are recent enough for authentication.
    ///
    /// # Errors
    /// [`ErrorCode::StoreUnavailable`] after the store was unavailable for [`STALE_AFTER`].
    pub(crate) fn check_not_stale(&self, clock: &dyn Clock) -> Result<(), ApiError> {
        // This is on the path of every request.
        let since = self.failing_since.load(Ordering::Acquire);
        let stale = duration_millis(STALE_AFTER);
        if since == 0 || nonzero_millis(clock.monotonic_now()).saturating_sub(since) < stale {
            return Ok(());
        }
        let message = "the key store is unavailable, so no credential can be verified";
        Err(ApiError::new(ErrorCode::StoreUnavailable, message).with_help(
            "see the server's log; requests are accepted again as soon as the store \
                responds",
        ))
    }

    /// Subscribes to reloads of the ring.
    pub fn subscribe_reloads(&self) -> watch::Receiver<u64> {
        self.reloads.subscribe()
    }
}

/// Milliseconds plus one, because 0 means none.
fn nonzero_millis(at: MonotonicTime) -> u64 {
    duration_millis(at.0).saturating_add(1)
}

/// The directory rows as read from the store.
struct DirectoryRows {
    personas: Vec<VersionedValue>,
    records: Vec<VersionedValue>,
    default_persona: Option<VersionedValue>,
    guest_sources: Option<Arc<BTreeSet<String>>>,
}

impl DirectoryRows {
    fn parse_directory(&self) -> (Directory, Vec<Problem>) {
        let (personas, mut problems) = PersonaSet::from_rows(key_value_pairs(&self.personas));
        let default = self.default_persona.as_ref();
        let default = default.map(|kept| String::from_utf8_lossy(&kept.bytes).into_owned());
        let guests = self.guest_sources.as_deref().cloned();
        let personas = personas.with_default(default).with_guest_modules(guests);
        let (directory, of_directory) =
            Directory::from_rows(personas, key_value_pairs(&self.records));
        problems.extend(of_directory);
        (directory, problems)
    }
}

/// Runs work on a blocking thread, so that connections are not delayed.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| StoreError::Unavailable(format!("cannot read the keys: {error}")))
}

fn is_directory_key(key: &str) -> bool {
    let prefixes = [
        PersonaSet::STORE_PREFIX,
        RoleRecord::STORE_PREFIX,
        UserRecord::STORE_PREFIX,
        OrgRecord::STORE_PREFIX,
    ];
    key == PersonaSet::STORE_DEFAULT_KEY || prefixes.iter().any(|prefix| key.starts_with(prefix))
}

fn key_value_pairs(stored: &[VersionedValue]) -> impl Iterator<Item = (&str, &[u8])> {
    stored.iter().map(|one| (one.key.as_str(), one.bytes.as_ref()))
}
