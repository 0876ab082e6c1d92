//! Metrics in the Prometheus text format. There are no labels for tool names or subjects, to keep
//! cardinality low.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tool::Interface;
use tool::call_outcome::CallResponse;

use crate::call_counters::{CallCounters, PerInterface};
use crate::poll_times::PollTimes;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InterfaceLabel {
    door: &'static str,
}

fn latency_histogram() -> Histogram {
    Histogram::new([0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0])
}

/// The metrics of a server.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    latencies: Family<InterfaceLabel, Histogram, fn() -> Histogram>,
    histograms: PerInterface<Histogram>,
    /// Answered calls, and the sum of their durations in milliseconds.
    answered: AtomicU64,
    elapsed_ms: AtomicU64,
    running: Gauge,
    tools: Gauge,
    catalog: Gauge<u64, AtomicU64>,
    unavailable_sources: Gauge,
    ledger_available: Gauge,
    /// Times of the polls of connections' tasks.
    pub poll_times: Arc<PollTimes>,
}

impl Metrics {
    pub(crate) fn new(counts: &CallCounters) -> Self {
        let mut registry = Registry::with_prefix("toolkeep");
        let (running, tools, catalog) = (Gauge::default(), Gauge::default(), Gauge::default());
        let (sources_away, ledger_up) = (Gauge::default(), Gauge::default());
        let seconds = Family::new_with_constructor(latency_histogram as fn() -> Histogram);
        registry.register("calls", "Calls by interface and outcome", counts.metric_family());
        let help = "Duration of calls in seconds, from request to response";
        registry.register("call_seconds", help, seconds.clone());
        registry.register("calls_running", "Running calls", running.clone());
        registry.register("tools", "Tools in the catalog", tools.clone());
        registry.register("catalog_number", "Version of the catalog", catalog.clone());
        registry.register("sources_away", "Stale or failed sources", sources_away.clone());
        registry.register(
            "ledger_up",
            "1 if calls can be recorded, otherwise \
            0",
            ledger_up.clone(),
        );
        let poll_times = Arc::<PollTimes>::default();
        let help = "Polls of connections' tasks that held their thread for more than a millisecond";
        registry.register("connection_long_polls", help, poll_times.long_polls());
        let known = PerInterface::default();
        Self {
            registry,
            latencies: seconds,
            histograms: known,
            answered: AtomicU64::new(0),
            elapsed_ms: AtomicU64::new(0),
            running,
            tools,
            catalog,
            unavailable_sources: sources_away,
            ledger_available: ledger_up,
            poll_times,
        }
    }
}

/// Gauge values that are read during a scrape.
#[derive(Debug)]
pub struct GaugeValues {
    /// Running calls.
    pub running: usize,
    /// Tools in the catalog.
    pub tools: usize,
    /// The number of the current catalog.
    pub catalog: u64,
    /// Stale or failed sources.
    pub unavailable_sources: usize,
    /// Whether the ledger is available.
    pub is_ledger_available: bool,
}

impl Metrics {
    /// Observes the latency of an answered call. Statuses are counted when calls are recorded.
    pub fn observe_call(&self, interface: Interface, answer: &CallResponse) {
        self.answered.fetch_add(1, Ordering::Relaxed);
        self.elapsed_ms.fetch_add(answer.elapsed_ms, Ordering::Relaxed);
        let seconds = std::time::Duration::from_millis(answer.elapsed_ms).as_secs_f64();
        let of =
            || self.latencies.get_or_create_owned(&InterfaceLabel { door: interface.as_str() });
        match self.histograms.get_or_init(interface, of) {
            Some(known) => known.observe(seconds),
            None => of().observe(seconds),
        }
    }

    /// The number of answered calls, and the sum of their durations in milliseconds.
    pub(crate) fn answered_calls(&self) -> (u64, u64) {
        (self.answered.load(Ordering::Relaxed), self.elapsed_ms.load(Ordering::Relaxed))
    }

    /// All metrics in the Prometheus text format.
    pub fn encode_text(&self, now: &GaugeValues) -> String {
        let as_gauge = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        self.running.set(as_gauge(now.running));
        self.tools.set(as_gauge(now.tools));
        self.catalog.inner().store(now.catalog, Ordering::Relaxed);
        self.unavailable_sources.set(as_gauge(now.unavailable_sources));
        self.ledger_available.set(i64::from(now.is_ledger_available));
        let mut text = String::new();
        // Writing to a string cannot fail; a scraper would notice an empty page.
        match encode(&mut text, &self.registry) {
            Ok(()) => text,
            Err(_) => String::new(),
        }
    }
}
