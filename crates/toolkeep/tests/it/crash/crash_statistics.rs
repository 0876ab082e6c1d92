//! Statistics of many kills.

use std::fmt;
use std::time::Duration;

use super::record_check::Missing;

/// The promise for a restart.
const PROMISED: Duration = Duration::from_secs(2);

/// Statistics of a series of kills.
#[derive(Debug, Default)]
pub(crate) struct CrashStatistics {
    /// Kills under load.
    pub(crate) points: usize,
    /// Additional kills during the start of the server.
    pub(crate) while_starting: usize,
    /// Writes torn by hand after a kill.
    pub(crate) torn: usize,
    pub(crate) acknowledged: usize,
    /// Of them, calls with effects.
    pub(crate) with_effects: usize,
    /// Number of lookups of acknowledged calls.
    pub(crate) looked_up: usize,
    /// Calls that were under way at a kill.
    pub(crate) unknown: usize,
    pub(crate) missing: Vec<Missing>,
    pub(crate) findings: Vec<String>,
    pub(crate) ready: Vec<Duration>,
}

impl CrashStatistics {
    pub(crate) fn add(&mut self, other: &Self) {
        self.points += other.points;
        self.while_starting += other.while_starting;
        self.torn += other.torn;
        self.acknowledged += other.acknowledged;
        self.with_effects += other.with_effects;
        self.looked_up += other.looked_up;
        self.unknown += other.unknown;
        self.missing.extend_from_slice(&other.missing);
        self.findings.extend_from_slice(&other.findings);
        self.ready.extend_from_slice(&other.ready);
    }

    pub(crate) fn restarts(&self) -> usize {
        self.ready.len()
    }

    /// Restarts that took longer than promised.
    pub(crate) fn slow(&self) -> usize {
        self.ready.iter().filter(|ready| **ready > PROMISED).count()
    }

    fn quantile(&self, part: usize) -> u128 {
        let mut sorted = self.ready.clone();
        sorted.sort_unstable();
        let at = (sorted.len() * part / 100).min(sorted.len().saturating_sub(1));
        sorted.get(at).map_or(0, Duration::as_millis)
    }
}

impl fmt::Display for CrashStatistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} kills under load, {} more while starting, {} torn writes; {} calls acknowledged \
             ({} with effects), looked up {} times, {} missing; {} under way, all unknown; {} \
             findings of verify; {} restarts, ready after {} ms (median), {} ms (most), {} over 2 s",
            self.points,
            self.while_starting,
            self.torn,
            self.acknowledged,
            self.with_effects,
            self.looked_up,
            self.missing.len(),
            self.unknown,
            self.findings.len(),
            self.restarts(),
            self.quantile(50),
            self.quantile(100),
            self.slow(),
        )
    }
}
