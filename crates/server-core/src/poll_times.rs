//! Times for which tasks of connections hold their thread. A connection shares its thread with others, which wait
//! meanwhile. Calls that run in a task of their own, those with effects and streamed ones, are not observed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use tokio::time::Instant;

/// A poll that takes longer delays the other connections of its thread noticeably.
const LONG_POLL: Duration = Duration::from_millis(1);

/// Times of the polls of all connections' tasks. Work that moved the other tasks of its thread away
/// (`gateway::block_in_place_if`) does not count.
#[derive(Debug, Default)]
pub struct PollTimes {
    long_polls: Counter,
    longest_nanos: AtomicU64,
}

impl PollTimes {
    /// Runs a task, and observes how long each poll of it holds the thread.
    pub async fn observe_task<T: Future>(&self, task: T) -> T::Output {
        let mut task = std::pin::pin!(task);
        std::future::poll_fn(|context| {
            let (begin, _) = (Instant::now(), gateway::take_blocking_time());
            let polled: Poll<_> = task.as_mut().poll(context);
            self.observe_poll(begin.elapsed().saturating_sub(gateway::take_blocking_time()));
            polled
        })
        .await
    }

    fn observe_poll(&self, held: Duration) {
        if held > LONG_POLL {
            self.long_polls.inc();
        }
        let nanos = u64::try_from(held.as_nanos()).unwrap_or(u64::MAX);
        // It is read at each poll and rarely written, so that connections seldom wait for its cache line.
        if nanos > self.longest_nanos.load(Ordering::Relaxed) {
            self.longest_nanos.fetch_max(nanos, Ordering::Relaxed);
        }
    }

    /// The number of polls above a millisecond, as a metric.
    pub(crate) fn long_polls(&self) -> Counter {
        self.long_polls.clone()
    }

    /// Returns the longest poll since the last call, for measurements.
    pub fn take_longest(&self) -> Duration {
        Duration::from_nanos(self.longest_nanos.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::PollTimes;

    fn hold_thread() {
        std::thread::sleep(Duration::from_millis(100));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_poll_that_holds_its_thread_is_long_unless_it_moved_the_others_away() {
        let times = Arc::<PollTimes>::default();
        let longest = async |is_moved: bool| {
            let observed = Arc::clone(&times);
            let work = async move { gateway::block_in_place_if(is_moved, hold_thread) };
            let tasks = tokio_util::task::TaskTracker::new();
            tasks.spawn(async move { observed.observe_task(work).await }).await.unwrap();
            times.take_longest()
        };
        let (moved, held) = (longest(true).await, longest(false).await);
        assert!(held >= Duration::from_millis(100) && moved * 2 < held, "{moved:?} {held:?}");
        assert_eq!(times.take_longest(), Duration::ZERO);
        assert!(times.long_polls().get() >= 1);
    }
}
