//! Calls at a fixed rate, in turn with and without a live tail that somebody watches.

use std::time::{Duration, Instant};

use http_body_util::BodyExt as _;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::browser_session::BrowserSession;
use super::tool_call;
use crate::histogram::LatencyHistogram;
use crate::system_stats;
use crate::timed_request::{TimedRequest, open_connection};
use crate::toolkeep_process::ToolkeepServer;

/// Number of calls per second.
pub(super) const RATE: u32 = 5_000;
const CALLERS: u32 = 16;
/// Length of one turn.
const TURN: Duration = Duration::from_secs(4);
/// Turns with, and as many without.
const TURNS: usize = 10;

/// Figures of turns with or without a tail.
#[derive(Default)]
pub(super) struct TailSide {
    pub(super) calls: u64,
    /// CPU of the server.
    cpu: Duration,
    pub(super) latencies: LatencyHistogram,
    /// Bytes of events.
    pub(super) event_bytes: u64,
}

impl TailSide {
    /// Microseconds of the server's CPU for one call.
    pub(super) fn cpu_per_call(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / (self.calls as f64).max(1.0)
    }
}

/// Both sides, and the median of the ratios of CPU of neighbouring turns.
pub(super) struct TailComparison {
    pub(super) without: TailSide,
    pub(super) with: TailSide,
    pub(super) cpu_ratio: f64,
}

impl TailComparison {
    /// Measures both sides in turns.
    pub(super) async fn measure(
        server: &ToolkeepServer,
        session: &BrowserSession,
    ) -> Result<Self, String> {
        let call = tool_call(server, "calculator", &serde_json::json!({"expression": "6*7"}));
        let (mut without, mut with) = (TailSide::default(), TailSide::default());
        let mut ratios = Vec::new();
        for number in 0..TURNS {
            // In alternating order: whatever drifts falls on both sides alike.
            let (plain, watched) = if number % 2 == 0 {
                let plain = take_turn(server, &call, &mut without).await?;
                (plain, watched_turn((server, session), &call, &mut with).await?)
            } else {
                let watched = watched_turn((server, session), &call, &mut with).await?;
                (take_turn(server, &call, &mut without).await?, watched)
            };
            ratios.push(watched / plain.max(1e-9));
        }
        with.event_bytes = count_events(server, session, &call).await?;
        ratios.sort_unstable_by(f64::total_cmp);
        let cpu_ratio = ratios.get(ratios.len() / 2).copied().unwrap_or_default();
        Ok(Self { without, with, cpu_ratio })
    }
}

/// Runs one turn while somebody reads the stream.
async fn watched_turn(
    (server, session): (&ToolkeepServer, &BrowserSession),
    call: &TimedRequest,
    side: &mut TailSide,
) -> Result<f64, String> {
    let mut events = session.open_stream("/ui/events/calls").await?;
    let reader: JoinHandle<()> =
        tokio::spawn(async move { while let Some(Ok(_)) = events.frame().await {} });
    let cpu = take_turn(server, call, side).await;
    // Without its end the stream never ends.
    reader.abort();
    cpu
}

/// Counts the bytes of events in one turn.
async fn count_events(
    server: &ToolkeepServer,
    session: &BrowserSession,
    call: &TimedRequest,
) -> Result<u64, String> {
    let mut events = session.open_stream("/ui/events/calls").await?;
    let counted = async {
        let mut bytes = 0;
        let end = Instant::now() + TURN;
        while let Ok(Some(Ok(frame))) =
            tokio::time::timeout(end.saturating_duration_since(Instant::now()), events.frame())
                .await
        {
            bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
        }
        bytes
    };
    let mut side = TailSide::default();
    let (bytes, turn) = tokio::join!(counted, take_turn(server, call, &mut side));
    turn.map(|_| bytes)
}

/// Runs one turn and returns the microseconds of CPU for one call.
async fn take_turn(
    server: &ToolkeepServer,
    call: &TimedRequest,
    side: &mut TailSide,
) -> Result<f64, String> {
    let before = system_stats::process_cpu(server.process.pid());
    let running: Vec<_> = (0..CALLERS).map(|_| tokio::spawn(call_at_rate(call.clone()))).collect();
    let mut turn = TailSide::default();
    for one in running {
        let latencies = one.await.map_err(|e| e.to_string())??;
        turn.calls += latencies.count();
        turn.latencies.merge(&latencies);
    }
    turn.cpu = system_stats::process_cpu(server.process.pid()).saturating_sub(before);
    side.calls += turn.calls;
    side.cpu += turn.cpu;
    side.latencies.merge(&turn.latencies);
    Ok(turn.cpu_per_call())
}

/// Makes the calls of one caller at its share of the rate.
async fn call_at_rate(call: TimedRequest) -> Result<LatencyHistogram, String> {
    let mut connection = open_connection(call.address).await?;
    let mut ticks = tokio::time::interval(Duration::from_secs(1) * CALLERS / RATE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (begun, mut latencies) = (Instant::now(), LatencyHistogram::default());
    while begun.elapsed() < TURN {
        ticks.tick().await;
        let sent = Instant::now();
        let answer = call.send_on(&mut connection).await?;
        latencies.record_latency(sent.elapsed());
        if !call.is_expected(&answer) {
            return Err(format!("a call got {}: {}", answer.status, answer.body_start()));
        }
    }
    Ok(latencies)
}
