//! Load generator: each caller sends its next request after the previous answer, over one
//! connection.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Barrier;

use crate::histogram::LatencyHistogram;
use crate::timed_request::{TimedRequest, open_connection};

/// Warm-up calls of each caller before the measurement starts.
pub(crate) const WARMUP_CALLS: usize = 20;
/// Longest warm-up of a timed slice; otherwise a target that needs a second per call would take
/// minutes.
const MAX_WARMUP: Duration = Duration::from_secs(1);

/// The condition that ends a slice.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SliceEnd {
    /// Ends after this time.
    Time(Duration),
    /// Ends after this number of calls per caller.
    Calls(u64),
}

/// Measurements of one slice.
#[derive(Debug, Clone, Default)]
pub(crate) struct LoadSlice {
    pub(crate) calls: u64,
    /// Calls without the expected answer.
    pub(crate) failures: u64,
    pub(crate) elapsed: Duration,
    pub(crate) latencies: LatencyHistogram,
}

impl LoadSlice {
    /// Returns the calls per second.
    pub(crate) fn rate(&self) -> f64 {
        self.calls as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// Runs one slice with this number of concurrent callers.
///
/// # Errors
/// A caller gets a wrong answer during warm-up, or cannot reopen a lost connection.
pub(crate) async fn run_slice(
    request: &TimedRequest,
    callers: usize,
    end: SliceEnd,
) -> Result<LoadSlice, String> {
    let request = Arc::new(request.clone());
    let start = Arc::new(Barrier::new(callers));
    let running: Vec<_> = (0..callers)
        .map(|_| tokio::spawn(run_caller(Arc::clone(&request), Arc::clone(&start), end)))
        .collect();
    let mut all = LoadSlice::default();
    for one in running {
        let one = one.await.map_err(|e| e.to_string())??;
        all.calls += one.calls;
        all.failures += one.failures;
        all.elapsed = all.elapsed.max(one.elapsed);
        all.latencies.merge(&one.latencies);
    }
    Ok(all)
}

async fn run_caller(
    message: Arc<TimedRequest>,
    start: Arc<Barrier>,
    until: SliceEnd,
) -> Result<LoadSlice, String> {
    let warm = warm_up(&message, until).await;
    // Every caller reaches the barrier, even after an error, because the others wait for it.
    start.wait().await;
    let mut connection = warm?;
    let mut slice = LoadSlice::default();
    let begun = Instant::now();
    while match until {
        SliceEnd::Time(time) => begun.elapsed() < time,
        SliceEnd::Calls(calls) => slice.calls < calls,
    } {
        let sent = Instant::now();
        let answer = message.send_on(&mut connection).await;
        slice.latencies.record_latency(sent.elapsed());
        slice.calls += 1;
        if !answer.as_ref().is_ok_and(|answer| message.is_expected(answer)) {
            slice.failures += 1;
        }
        if answer.is_err() {
            connection = open_connection(message.address).await?;
        }
    }
    slice.elapsed = begun.elapsed();
    Ok(slice)
}

type RequestSender = hyper::client::conn::http1::SendRequest<http_body_util::Full<bytes::Bytes>>;

async fn warm_up(message: &TimedRequest, until: SliceEnd) -> Result<RequestSender, String> {
    let mut connection = open_connection(message.address).await?;
    let begun = Instant::now();
    for _ in 0..WARMUP_CALLS {
        let answer = message.send_on(&mut connection).await?;
        if !message.is_expected(&answer) {
            return Err(format!("{}: {}: {}", message.address, answer.status, answer.body_start()));
        }
        if matches!(until, SliceEnd::Time(_)) && begun.elapsed() > MAX_WARMUP {
            break;
        }
    }
    Ok(connection)
}
