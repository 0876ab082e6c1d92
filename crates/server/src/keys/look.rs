//! Reading the store anew: after each write of ours, and as soon as somebody else wrote. Where the store
//! does not answer for too long, nobody is let in: a key may have been revoked meanwhile.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use identity::{Directory, KeyRecord, KeyRing, OrgRecord, Personas, Role, User};
use tokio::sync::watch;
use tool::{Clock, Code, Mono, Problem, StoreError, Version, Versioned};

use super::{BESIDE, KEYS, Keys, PERSONAS, STALE};
use crate::error::ApiError;

/// How often the store is asked what others wrote.
const EVERY: Duration = Duration::from_millis(500);
/// How long it may take to answer.
const LONG: Duration = Duration::from_secs(5);

/// How far the store was looked at.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The last write that news told of, and no reading: one may see a late write and miss an early one.
    version: Version,
    /// The reading that the ring is of.
    reading: u64,
}

impl Keys {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads all of it again.
    ///
    /// # Errors
    /// Where the store does not answer; the ring then stays as it is.
    pub async fn reload(&self) -> Result<Vec<Problem>, StoreError> {
        let reading = self.begun.fetch_add(1, Ordering::SeqCst);
        let (ring, problems) = self.stored().await?;
        {
            let mut seen = self.seen();
            // A reading that began later has seen more: it stays.
            if seen.reading < reading {
                seen.reading = reading;
                self.ring.store(Arc::new(ring));
            }
        }
        self.read.send_replace(reading);
        Ok(problems)
    }

    async fn stored(&self) -> Result<(KeyRing, Vec<Problem>), StoreError> {
        let scan = |prefix, most| self.store.scan(prefix, None, most);
        let personas = scan(Personas::STORE_PREFIX, PERSONAS).await?;
        let mut beside = Vec::new();
        for prefix in [Role::STORE_PREFIX, User::STORE_PREFIX, OrgRecord::STORE_PREFIX] {
            beside.extend(scan(prefix, BESIDE).await?);
        }
        // Last, so that a key never stands beside less than was there when it was made.
        let keys = scan(KeyRecord::STORE_PREFIX, KEYS).await?;
        let (personas, mut problems) = Personas::read(pairs(&personas));
        let default = self.store.get(Personas::STORE_DEFAULT).await?;
        let default = default.map(|kept| String::from_utf8_lossy(&kept.bytes).into_owned());
        let guests = self.guests.load_full().map(|guests| BTreeSet::clone(&guests));
        let personas = personas.with_default(default).guests(guests);
        let (directory, of_directory) = Directory::read(personas, pairs(&beside));
        let (ring, of_keys) = KeyRing::read(pairs(&keys), directory);
        problems.extend(of_directory.into_iter().chain(of_keys));
        let ring = match self.open {
            Some(level) => ring.open(level),
            None => ring,
        };
        Ok((ring, problems))
    }

    /// Looks whether others wrote, and reads anew where they did.
    ///
    /// # Errors
    /// Where the store does not answer, or not within five seconds.
    pub async fn look(&self, clock: &dyn Clock) -> Result<(), StoreError> {
        let late = || StoreError::Unavailable(format!("no answer within {LONG:?}"));
        let looked =
            tokio::time::timeout(LONG, self.looked()).await.unwrap_or_else(|_| Err(late()));
        match &looked {
            Ok(()) => self.failing.store(0, Ordering::Release),
            // The first of several counts.
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
        let since = self.seen().version;
        let news = self.store.news(since).await?;
        let Some(last) = news.iter().map(|one| one.version).max() else { return Ok(()) };
        if news.iter().any(|one| is_ours(&one.key)) {
            self.reload().await?;
        }
        let mut seen = self.seen();
        seen.version = seen.version.max(last);
        Ok(())
    }

    /// Looks for ever, twice a second: what others write counts within a second.
    pub async fn tend(&self, clock: Arc<dyn Clock>) {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut failed = false;
        loop {
            ticks.tick().await;
            let looked = self.look(clock.as_ref()).await;
            if let Err(error) = &looked
                && !failed
            {
                tracing::error!(%error, "the store of the keys does not answer");
            }
            failed = looked.is_err();
        }
    }

    /// Whether what is known of the keys may still be gone by.
    ///
    /// # Errors
    /// [`Code::StoreUnavailable`] once the store has failed for [`STALE`].
    pub(crate) fn fresh(&self, clock: &dyn Clock) -> Result<(), ApiError> {
        // Every request comes by here.
        let since = self.failing.load(Ordering::Acquire);
        let stale = u64::try_from(STALE.as_millis()).unwrap_or(u64::MAX);
        if since == 0 || millis(clock.mono()).saturating_sub(since) < stale {
            return Ok(());
        }
        let told = "the store of the keys does not answer, so nobody can be let in";
        Err(ApiError::new(Code::StoreUnavailable, told)
            .fix("see the server's log; it goes on by itself once the store is back"))
    }

    /// Tells of each reading.
    pub fn readings(&self) -> watch::Receiver<u64> {
        self.read.subscribe()
    }
}

/// Milliseconds and one: 0 stands for none.
fn millis(at: Mono) -> u64 {
    u64::try_from(at.0.as_millis()).unwrap_or(u64::MAX).saturating_add(1)
}

fn is_ours(key: &str) -> bool {
    let prefixes = [
        KeyRecord::STORE_PREFIX,
        Personas::STORE_PREFIX,
        Role::STORE_PREFIX,
        User::STORE_PREFIX,
        OrgRecord::STORE_PREFIX,
    ];
    key == Personas::STORE_DEFAULT || prefixes.iter().any(|prefix| key.starts_with(prefix))
}

fn pairs(stored: &[Versioned]) -> impl Iterator<Item = (&str, &[u8])> {
    stored.iter().map(|one| (one.key.as_str(), one.bytes.as_ref()))
}
