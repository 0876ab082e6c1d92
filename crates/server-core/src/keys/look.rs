//! Synchronization with the store: the initial load, and polling for writes of other processes. If
//! the store is unavailable for too long, authentication fails, because a key may have been revoked
//! meanwhile.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use identity::{Directory, KeyRecord, KeyRing, OrgRecord, Personas, Role, User};
use tokio::sync::watch;
use tool::{Clock, Code, Mono, Problem, StoreError, Version, Versioned};

use super::change::Seen;
use super::{BESIDE, KEYS, Keys, PERSONAS, STALE};
use crate::error::ApiError;

/// Rows per scan page.
const PAGE: usize = 5_000;
/// Maximum number of key rows, including ended keys that are not removed yet.
const ROWS: usize = 4 * KEYS;
/// Interval of the removal of ended keys.
const PURGE: Duration = Duration::from_mins(1);
/// Polling interval for writes of other processes.
const EVERY: Duration = Duration::from_millis(500);
/// Timeout of a store request.
const LONG: Duration = Duration::from_secs(5);

impl Keys {
    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reloads everything from the store.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable or has too many rows; the ring then stays
    /// unchanged.
    pub async fn reload(&self) -> Result<Vec<Problem>, StoreError> {
        loop {
            // A later reload of only the directory does not replace this one.
            let (newest, problems) = self.reload_once().await?;
            if newest {
                return Ok(problems);
            }
        }
    }

    async fn reload_once(&self) -> Result<(bool, Vec<Problem>), StoreError> {
        let reading = self.begin_reading();
        let beside = self.beside().await?;
        // Read last, so that a key never refers to a directory record that was not read.
        let keys = self.all(KeyRecord::STORE_PREFIX, ROWS).await?;
        let open = self.open;
        let made = away(move || {
            let (directory, mut problems) = beside.read();
            let mut records = Vec::with_capacity(keys.len());
            for row in &keys {
                match KeyRecord::read(&row.key, &row.bytes) {
                    Ok(record) => records.push((record, row.version.0)),
                    Err(problem) => problems.push(problem),
                }
            }
            let ring = KeyRing::of_rows(records, directory);
            (open.into_iter().fold(ring, KeyRing::open), problems)
        });
        let (ring, problems) = made.await?;
        Ok((reading.install(ring), problems))
    }

    /// Reloads the directory records and rebuilds all principals.
    ///
    /// # Errors
    /// As [`Keys::reload`].
    pub(super) async fn reload_directory(&self) -> Result<Vec<Problem>, StoreError> {
        let reading = self.begin_reading();
        let (beside, ring) = (self.beside().await?, self.ring());
        let made = away(move || {
            let (directory, problems) = beside.read();
            (ring.under(directory), problems)
        });
        let (ring, problems) = made.await?;
        // A later reload that finished first has seen all of this.
        let _newest = reading.install(ring);
        Ok(problems)
    }

    async fn beside(&self) -> Result<Beside, StoreError> {
        let personas = self.all(Personas::STORE_PREFIX, PERSONAS).await?;
        let mut rows = self.all(Role::STORE_PREFIX, BESIDE).await?;
        rows.extend(self.all(User::STORE_PREFIX, BESIDE).await?);
        // Each organization may have a row for its tools beside its record.
        rows.extend(self.all(OrgRecord::STORE_PREFIX, 2 * BESIDE).await?);
        let default = self.store.get(Personas::STORE_DEFAULT).await?;
        Ok(Beside { personas, rows, default, guests: self.guests.load_full() })
    }

    /// All rows with a key prefix. More than `most` rows are an error, so that none is dropped
    /// silently.
    async fn all(&self, prefix: &str, most: usize) -> Result<Vec<Versioned>, StoreError> {
        let mut rows: Vec<Versioned> = Vec::new();
        loop {
            let after = rows.last().map(|row| row.key.clone());
            let page = self.store.scan(prefix, after.as_deref(), PAGE).await?;
            let full = page.len() >= PAGE;
            rows.extend(page);
            if rows.len() > most {
                let told = format!(
                    "the store holds more than {most} rows of `{prefix}`, and no more can be read"
                );
                return Err(StoreError::Unavailable(told));
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
    pub async fn look(&self, clock: &dyn Clock) -> Result<(), StoreError> {
        let late = || StoreError::Unavailable(format!("no answer within {LONG:?}"));
        let looked =
            tokio::time::timeout(LONG, self.looked()).await.unwrap_or_else(|_| Err(late()));
        match &looked {
            Ok(()) => self.failing.store(0, Ordering::Release),
            // The first failure counts.
            Err(_) => drop(self.failing.compare_exchange(
                0,
                millis(clock.mono()),
                Ordering::AcqRel,
                Ordering::Acquire,
            )),
        }
        looked
    }

    async fn looked(&self) -> Result<(), StoreError> {
        loop {
            let since = self.seen().version;
            let news = match self.store.news(since).await {
                Ok(news) => news,
                // There were more removals than the store remembers.
                Err(error) if since.0 > 0 => {
                    self.reload().await.map_err(|_| error)?;
                    self.seen().version = Version(0);
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            let Some(last) = news.iter().map(|one| one.version).max() else { return Ok(()) };
            for row in &news {
                if let Some(id) = row.key.strip_prefix(KeyRecord::STORE_PREFIX) {
                    self.take_news(id, row);
                }
            }
            if news.iter().any(|row| is_beside(&row.key) && !self.is_own(row.version)) {
                self.reload_directory().await?;
            }
            self.passed(last);
        }
    }

    /// Polls the store forever, twice a second: writes of other processes take effect within a
    /// second.
    pub async fn tend(&self, clock: Arc<dyn Clock>) {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut failed, mut purged) = (false, None::<Mono>);
        loop {
            ticks.tick().await;
            let now = clock.mono();
            if purged.is_none_or(|purged| now.since(purged) >= PURGE) {
                purged = Some(now);
                if let Err(error) = self.purge(clock.wall()).await {
                    tracing::warn!(
                        error = error.message(),
                        "keys that ended long ago are not removed yet"
                    );
                }
            }
            let looked = self.look(clock.as_ref()).await;
            if let Err(error) = &looked
                && !failed
            {
                tracing::error!(%error, "the store of the keys does not answer");
            }
            failed = looked.is_err();
        }
    }

    /// Checks that the cached keys are recent enough for authentication.
    ///
    /// # Errors
    /// [`Code::StoreUnavailable`] after the store was unavailable for [`STALE`].
    pub(crate) fn fresh(&self, clock: &dyn Clock) -> Result<(), ApiError> {
        // This is on the path of every request.
        let since = self.failing.load(Ordering::Acquire);
        let stale = u64::try_from(STALE.as_millis()).unwrap_or(u64::MAX);
        if since == 0 || millis(clock.mono()).saturating_sub(since) < stale {
            return Ok(());
        }
        let told = "the store of the keys does not answer, so nobody can be let in";
        Err(ApiError::new(Code::StoreUnavailable, told)
            .fix("see the server's log; it goes on by itself once the store is back"))
    }

    /// Subscribes to reloads.
    pub fn readings(&self) -> watch::Receiver<u64> {
        self.read.subscribe()
    }
}

/// Milliseconds plus one, because 0 means none.
fn millis(at: Mono) -> u64 {
    u64::try_from(at.0.as_millis()).unwrap_or(u64::MAX).saturating_add(1)
}

/// The directory rows as read from the store.
struct Beside {
    personas: Vec<Versioned>,
    rows: Vec<Versioned>,
    default: Option<Versioned>,
    guests: Option<Arc<BTreeSet<String>>>,
}

impl Beside {
    fn read(&self) -> (Directory, Vec<Problem>) {
        let (personas, mut problems) = Personas::read(pairs(&self.personas));
        let default = self.default.as_ref();
        let default = default.map(|kept| String::from_utf8_lossy(&kept.bytes).into_owned());
        let guests = self.guests.as_deref().cloned();
        let personas = personas.with_default(default).guests(guests);
        let (directory, of_directory) = Directory::read(personas, pairs(&self.rows));
        problems.extend(of_directory);
        (directory, problems)
    }
}

/// Runs work on a blocking thread, so that connections are not delayed.
async fn away<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| StoreError::Unavailable(format!("the keys are not read: {error}")))
}

fn is_beside(key: &str) -> bool {
    let prefixes =
        [Personas::STORE_PREFIX, Role::STORE_PREFIX, User::STORE_PREFIX, OrgRecord::STORE_PREFIX];
    key == Personas::STORE_DEFAULT || prefixes.iter().any(|prefix| key.starts_with(prefix))
}

fn pairs(stored: &[Versioned]) -> impl Iterator<Item = (&str, &[u8])> {
    stored.iter().map(|one| (one.key.as_str(), one.bytes.as_ref()))
}
