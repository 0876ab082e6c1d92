//! The clock for expiry of keys, tokens and delegations. It never goes back.
//!
//! The system clock may be set back, manually or by a correction, and expired credentials would
//! become valid again. This clock is the later of the system clock and the latest time that it has
//! shown, which is persisted in the store. While the system clock is behind, this clock runs at
//! half speed: an expiry takes at most twice as long, and the clocks converge.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tool::store::Expect;
use tool::{Clock, Mono, Store, StoreError, Wall};

/// Store key of the latest time, in milliseconds since 1970, as text.
const STORE_KEY: &str = "clock/latest";
/// Interval for storing the latest time.
const EVERY: Duration = Duration::from_mins(1);
/// Tolerated difference between concurrent reads of the system clock, in milliseconds.
const AT_ONCE: u64 = 10;
/// How far the system clock may be behind before it is reported, in milliseconds.
const BEHIND: u64 = 60_000;

/// A monotonic wall clock over another clock.
#[derive(Debug)]
pub struct SteadyClock {
    machine: Arc<dyn Clock>,
    /// The latest time that was shown.
    latest: AtomicU64,
    slow: Mutex<Slow>,
}

/// Progress while the system clock was behind.
#[derive(Debug, Default)]
struct Slow {
    /// The latest time at the last update. Another value means that the system clock caught up
    /// since.
    latest: u64,
    at: Option<Mono>,
}

impl SteadyClock {
    /// Creates a clock over this one, without any history.
    pub fn new(machine: Arc<dyn Clock>) -> Self {
        Self { machine, latest: AtomicU64::new(0), slow: Mutex::default() }
    }

    /// Restores the latest time from the store.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable.
    pub async fn restore(&self, store: &dyn Store) -> Result<(), StoreError> {
        let there = store.get(STORE_KEY).await?;
        let text = there.and_then(|there| String::from_utf8(there.bytes.to_vec()).ok());
        // An invalid value is ignored; the system clock counts.
        let latest = text.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        self.latest.fetch_max(latest, Ordering::AcqRel);
        Ok(())
    }

    /// Stores the latest time, if it is later than the stored one.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable.
    pub async fn store(&self, store: &dyn Store) -> Result<(), StoreError> {
        let now = self.wall().0;
        let there = store.get(STORE_KEY).await?;
        let text = there.as_ref().and_then(|there| std::str::from_utf8(&there.bytes).ok());
        if text.and_then(|text| text.parse::<u64>().ok()).is_some_and(|stored| stored >= now) {
            return Ok(());
        }
        let expect = there.map_or(Expect::Absent, |there| Expect::Version(there.version));
        match store.put(STORE_KEY, expect, Some(Bytes::from(now.to_string()))).await {
            // Another server on this store wrote its own time.
            Ok(_) | Err(StoreError::Conflict { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes the latest time: for a machine whose clock was ahead and is correct now.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable.
    pub async fn forget(store: &dyn Store) -> Result<(), StoreError> {
        let Some(there) = store.get(STORE_KEY).await? else { return Ok(()) };
        store.put(STORE_KEY, Expect::Version(there.version), None).await.map(drop)
    }

    /// Stores the latest time once a minute, forever, and reports a system clock that is behind.
    pub async fn tend(&self, store: &dyn Store) {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut was_behind, mut failed) = (false, false);
        loop {
            ticks.tick().await;
            let (latest, machine) = (self.wall(), self.machine.wall());
            let is_behind = latest.0.saturating_sub(machine.0) > BEHIND;
            if is_behind && !was_behind {
                tracing::warn!(
                    %machine, %latest,
                    "the machine's clock is behind the latest time that was seen: ends are judged by that; if it was wrong, start once with `--accept-clock`"
                );
            }
            was_behind = is_behind;
            let stored = self.store(store).await;
            if let Err(error) = &stored
                && !failed
            {
                tracing::warn!(%error, "the latest time is not stored");
            }
            failed = stored.is_err();
        }
    }

    /// The time while the system clock is behind `latest`.
    fn slowly(&self, latest: u64) -> u64 {
        let now = self.machine.mono();
        let mut slow = self.slow.lock().unwrap_or_else(PoisonError::into_inner);
        let since = slow.at.filter(|_| slow.latest == latest);
        let Some(since) = since else {
            *slow = Slow { latest, at: Some(now) };
            return latest;
        };
        let half = u64::try_from(now.since(since).as_millis() / 2).unwrap_or(u64::MAX);
        if half == 0 {
            return latest;
        }
        let on = latest.saturating_add(half);
        *slow = Slow { latest: on, at: Some(now) };
        self.latest.fetch_max(on, Ordering::AcqRel).max(on)
    }
}

impl Clock for SteadyClock {
    fn wall(&self) -> Wall {
        let (machine, latest) = (self.machine.wall().0, self.latest.load(Ordering::Acquire));
        Wall(match machine.cmp(&latest) {
            // On the path of every request: nothing is written within a millisecond.
            Equal => machine,
            Greater => self.latest.fetch_max(machine, Ordering::AcqRel).max(machine),
            Less if latest - machine <= AT_ONCE => latest,
            Less => self.slowly(latest),
        })
    }

    fn mono(&self) -> Mono {
        self.machine.mono()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use store::MemoryStore;
    use testkit::clock::FakeClock;
    use tool::{Clock as _, Store as _};

    use super::{STORE_KEY, SteadyClock};

    fn clocks() -> (Arc<FakeClock>, SteadyClock) {
        let machine = Arc::new(FakeClock::default());
        let steady = SteadyClock::new(Arc::clone(&machine) as _);
        (machine, steady)
    }

    #[test]
    fn it_never_goes_back_and_goes_on_at_half_speed_until_the_machine_is_there() {
        let (machine, steady) = clocks();
        let begun = steady.wall();
        machine.advance(Duration::from_secs(100));
        let latest = steady.wall();
        assert_eq!(latest, machine.wall());
        machine.step_back(Duration::from_secs(100));
        assert!(machine.wall() == begun, "the machine's clock is back");
        assert_eq!(steady.wall(), latest);
        let mut before = latest;
        for second in 1..200_u64 {
            machine.advance(Duration::from_secs(1));
            let now = steady.wall();
            assert!(now >= before && now >= machine.wall(), "{second}: {now}");
            assert!(now.0 == latest.0 + second * 500 || now == machine.wall(), "{second}: {now}");
            before = now;
        }
        machine.advance(Duration::from_secs(1));
        assert_eq!(steady.wall(), machine.wall());
        machine.advance(Duration::from_secs(1));
        assert_eq!(steady.wall(), machine.wall(), "and is the machine's again");
        // After another step back it starts again from there.
        machine.step_back(Duration::from_hours(1));
        assert_eq!(steady.wall(), before_of(&machine, Duration::from_hours(1)));
    }

    fn before_of(machine: &FakeClock, by: Duration) -> tool::Wall {
        tool::Wall(machine.wall().0 + u64::try_from(by.as_millis()).unwrap())
    }

    #[tokio::test]
    async fn the_latest_time_outlives_a_restart() {
        let (machine, steady) = clocks();
        let store = MemoryStore::new();
        let version = async || store.get(STORE_KEY).await.unwrap().map(|there| there.version);
        machine.advance(Duration::from_hours(2));
        steady.store(&store).await.unwrap();
        let (latest, first) = (steady.wall(), version().await);
        steady.store(&store).await.unwrap();
        assert_eq!(version().await, first, "nothing to write");
        machine.step_back(Duration::from_hours(2));
        let again = SteadyClock::new(Arc::clone(&machine) as _);
        assert_eq!(again.wall(), machine.wall(), "what forgot is behind");
        again.restore(&store).await.unwrap();
        assert_eq!(again.wall(), latest);
        // The operator can reset a wrong clock.
        SteadyClock::forget(&store).await.unwrap();
        let accepted = SteadyClock::new(Arc::clone(&machine) as _);
        accepted.restore(&store).await.unwrap();
        assert_eq!(accepted.wall(), machine.wall());
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_stored_once_a_minute() {
        let (machine, steady) = clocks();
        let store = MemoryStore::new();
        let mut versions = std::collections::BTreeSet::new();
        {
            let tending = steady.tend(&store);
            tokio::pin!(tending);
            for _ in 0..60 {
                machine.advance(Duration::from_secs(10));
                drop(tokio::time::timeout(Duration::from_secs(10), &mut tending).await);
                versions.extend(store.get(STORE_KEY).await.unwrap().map(|there| there.version));
            }
        }
        assert!((10..=11).contains(&versions.len()), "{versions:?}");
    }
}
