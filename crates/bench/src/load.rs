//! Callers: each sends its next request when the last answer is there, over one kept connection.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Barrier;

use crate::histogram::Histogram;
use crate::message::{Message, connect};

/// Calls of each caller before the clock starts.
pub(crate) const WARM: usize = 20;
/// After so long it starts all the same, where calls are not counted: at a target that takes a second for a
/// call, sixty-four callers would be at it for minutes.
const WARMING: Duration = Duration::from_secs(1);

/// When a slice ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Until {
    /// After this time.
    Time(Duration),
    /// After so many calls of each caller.
    Calls(u64),
}

/// What one slice showed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slice {
    pub(crate) calls: u64,
    /// Of them, those that were not answered as asked.
    pub(crate) failures: u64,
    pub(crate) elapsed: Duration,
    pub(crate) latencies: Histogram,
}

impl Slice {
    /// Calls in a second.
    pub(crate) fn rate(&self) -> f64 {
        self.calls as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// Runs `callers` at once.
///
/// # Errors
/// Where a caller finds no good answer before the clock starts, or loses its connection later and
/// cannot open another.
pub(crate) async fn run(message: &Message, callers: usize, until: Until) -> Result<Slice, String> {
    let message = Arc::new(message.clone());
    let start = Arc::new(Barrier::new(callers));
    let running: Vec<_> = (0..callers)
        .map(|_| tokio::spawn(caller(Arc::clone(&message), Arc::clone(&start), until)))
        .collect();
    let mut all = Slice::default();
    for one in running {
        let one = one.await.map_err(|e| e.to_string())??;
        all.calls += one.calls;
        all.failures += one.failures;
        all.elapsed = all.elapsed.max(one.elapsed);
        all.latencies.merge(&one.latencies);
    }
    Ok(all)
}

async fn caller(message: Arc<Message>, start: Arc<Barrier>, until: Until) -> Result<Slice, String> {
    let warm = warm_up(&message, until).await;
    // Every caller comes here, also with bad news: the others wait for it.
    start.wait().await;
    let mut connection = warm?;
    let mut slice = Slice::default();
    let begun = Instant::now();
    while match until {
        Until::Time(time) => begun.elapsed() < time,
        Until::Calls(calls) => slice.calls < calls,
    } {
        let sent = Instant::now();
        let answer = message.send(&mut connection).await;
        slice.latencies.record(sent.elapsed());
        slice.calls += 1;
        if !answer.as_ref().is_ok_and(|answer| message.fits(answer)) {
            slice.failures += 1;
        }
        if answer.is_err() {
            connection = connect(message.address).await?;
        }
    }
    slice.elapsed = begun.elapsed();
    Ok(slice)
}

type Connection = hyper::client::conn::http1::SendRequest<http_body_util::Full<bytes::Bytes>>;

async fn warm_up(message: &Message, until: Until) -> Result<Connection, String> {
    let mut connection = connect(message.address).await?;
    let begun = Instant::now();
    for _ in 0..WARM {
        let answer = message.send(&mut connection).await?;
        if !message.fits(&answer) {
            return Err(format!("{}: {}: {}", message.address, answer.status, answer.start()));
        }
        if matches!(until, Until::Time(_)) && begun.elapsed() > WARMING {
            break;
        }
    }
    Ok(connection)
}
