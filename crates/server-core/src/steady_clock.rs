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
use tool::clock::duration_millis;
use tool::store::WritePrecondition;
use tool::{Clock, MonotonicTime, Store, StoreError, WallTime};

/// Store key of the latest time, in milliseconds since 1970, as text.
const STORE_KEY: &str = "clock/latest";
/// Interval for storing the latest time.
const STORE_INTERVAL: Duration = Duration::from_mins(1);
/// Tolerated difference between concurrent reads of the system clock, in milliseconds.
const READ_TOLERANCE_MS: u64 = 10;
/// How far the system clock may be behind before it is reported, in milliseconds.
const REPORT_BEHIND_MS: u64 = 60_000;

/// A monotonic wall clock over another clock.
#[derive(Debug)]
pub struct SteadyClock {
    system_clock: Arc<dyn Clock>,
    /// The latest time that was shown.
    latest: AtomicU64,
    slow_progress: Mutex<SlowProgress>,
}

/// Progress while the system clock was behind.
#[derive(Debug, Default)]
struct SlowProgress {
    /// The latest time at the last update. Another value means that the system clock caught up
    /// since.
    latest: u64,
    at: Option<MonotonicTime>,
}

impl SteadyClock {
    /// Creates a clock over this one, without any history.
    pub fn new(system_clock: Arc<dyn Clock>) -> Self {
        Self { system_clock, latest: AtomicU64::new(0), slow_progress: Mutex::default() }
    }

    /// Restores the latest time from the store.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable.
    pub async fn restore_latest(&self, store: &dyn Store) -> Result<(), StoreError> {
        let there = store.get_value(STORE_KEY).await?;
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
    pub async fn store_latest(&self, store: &dyn Store) -> Result<(), StoreError> {
        let now = self.wall_now().0;
        let there = store.get_value(STORE_KEY).await?;
        let text = there.as_ref().and_then(|there| std::str::from_utf8(&there.bytes).ok());
        if text.and_then(|text| text.parse::<u64>().ok()).is_some_and(|stored| stored >= now) {
            return Ok(());
        }
        let expect = there
            .map_or(WritePrecondition::Absent, |there| WritePrecondition::Version(there.version));
        match store.put_value(STORE_KEY, expect, Some(Bytes::from(now.to_string()))).await {
            // Another server on this store wrote its own time.
            Ok(_) | Err(StoreError::Conflict { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes the latest time: for a machine whose clock was ahead and is correct now.
    ///
    /// # Errors
    /// Returns an error if the store is unavailable.
    pub async fn forget_latest(store: &dyn Store) -> Result<(), StoreError> {
        let Some(there) = store.get_value(STORE_KEY).await? else { return Ok(()) };
        store.put_value(STORE_KEY, WritePrecondition::Version(there.version), None).await.map(drop)
    }

    /// Stores the latest time once a minute, forever, and reports a system clock that is behind.
    pub async fn store_periodically(&self, store: &dyn Store) {
        let mut ticks = tokio::time::interval(STORE_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut was_behind, mut failed) = (false, false);
        loop {
            ticks.tick().await;
            let (latest, machine) = (self.wall_now(), self.system_clock.wall_now());
            let is_behind = latest.0.saturating_sub(machine.0) > REPORT_BEHIND_MS;
            if is_behind && !was_behind {
                tracing::warn!(
                    %machine, %latest,
                    "the system clock is behind the latest stored time, which is used for \
                     expirations instead; if the stored time is wrong, start once with \
                     `--accept-clock`"
                );
            }
            was_behind = is_behind;
            let stored = self.store_latest(store).await;
            if let Err(error) = &stored
                && !failed
            {
                tracing::warn!(%error, "cannot store the latest time");
            }
            failed = stored.is_err();
        }
    }

    /// The time while the system clock is behind `latest`.
    fn slow_time(&self, latest: u64) -> u64 {
        let now = self.system_clock.monotonic_now();
        let mut slow = self.slow_progress.lock().unwrap_or_else(PoisonError::into_inner);
        let since = slow.at.filter(|_| slow.latest == latest);
        let Some(since) = since else {
            *slow = SlowProgress { latest, at: Some(now) };
            return latest;
        };
        let half = duration_millis(now.saturating_duration_since(since)) / 2;
        if half == 0 {
            return latest;
        }
        let on = latest.saturating_add(half);
        *slow = SlowProgress { latest: on, at: Some(now) };
        self.latest.fetch_max(on, Ordering::AcqRel).max(on)
    }
}

impl Clock for SteadyClock {
    fn wall_now(&self) -> WallTime {
        let (machine, latest) =
            (self.system_clock.wall_now().0, self.latest.load(Ordering::Acquire));
        WallTime(match machine.cmp(&latest) {
            // On the path of every request: nothing is written within a millisecond.
            Equal => machine,
            Greater => self.latest.fetch_max(machine, Ordering::AcqRel).max(machine),
            Less if latest - machine <= READ_TOLERANCE_MS => latest,
            Less => self.slow_time(latest),
        })
    }

    fn monotonic_now(&self) -> MonotonicTime {
        self.system_clock.monotonic_now()
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
        let begun = steady.wall_now();
        machine.advance(Duration::from_secs(100));
        let latest = steady.wall_now();
        assert_eq!(latest, machine.wall_now());
        machine.step_back(Duration::from_secs(100));
        assert!(machine.wall_now() == begun, "the machine's clock is back");
        assert_eq!(steady.wall_now(), latest);
        let mut before = latest;
        for second in 1..200_u64 {
            machine.advance(Duration::from_secs(1));
            let now = steady.wall_now();
            assert!(now >= before && now >= machine.wall_now(), "{second}: {now}");
            assert!(
                now.0 == latest.0 + second * 500 || now == machine.wall_now(),
                "{second}: {now}"
            );
            before = now;
        }
        machine.advance(Duration::from_secs(1));
        assert_eq!(steady.wall_now(), machine.wall_now());
        machine.advance(Duration::from_secs(1));
        assert_eq!(steady.wall_now(), machine.wall_now(), "and is the machine's again");
        // After another step back it starts again from there.
        machine.step_back(Duration::from_hours(1));
        assert_eq!(steady.wall_now(), before_of(&machine, Duration::from_hours(1)));
    }

    fn before_of(machine: &FakeClock, by: Duration) -> tool::WallTime {
        tool::WallTime(machine.wall_now().0 + u64::try_from(by.as_millis()).unwrap())
    }

    #[tokio::test]
    async fn the_latest_time_outlives_a_restart() {
        let (machine, steady) = clocks();
        let store = MemoryStore::new();
        let version = async || store.get_value(STORE_KEY).await.unwrap().map(|there| there.version);
        machine.advance(Duration::from_hours(2));
        steady.store_latest(&store).await.unwrap();
        let (latest, first) = (steady.wall_now(), version().await);
        steady.store_latest(&store).await.unwrap();
        assert_eq!(version().await, first, "nothing to write");
        machine.step_back(Duration::from_hours(2));
        let again = SteadyClock::new(Arc::clone(&machine) as _);
        assert_eq!(again.wall_now(), machine.wall_now(), "what forgot is behind");
        again.restore_latest(&store).await.unwrap();
        assert_eq!(again.wall_now(), latest);
        // The operator can reset a wrong clock.
        SteadyClock::forget_latest(&store).await.unwrap();
        let accepted = SteadyClock::new(Arc::clone(&machine) as _);
        accepted.restore_latest(&store).await.unwrap();
        assert_eq!(accepted.wall_now(), machine.wall_now());
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_stored_once_a_minute() {
        let (machine, steady) = clocks();
        let store = MemoryStore::new();
        let mut versions = std::collections::BTreeSet::new();
        {
            let tending = steady.store_periodically(&store);
            tokio::pin!(tending);
            for _ in 0..60 {
                machine.advance(Duration::from_secs(10));
                drop(tokio::time::timeout(Duration::from_secs(10), &mut tending).await);
                versions
                    .extend(store.get_value(STORE_KEY).await.unwrap().map(|there| there.version));
            }
        }
        assert!((10..=11).contains(&versions.len()), "{versions:?}");
    }
}
