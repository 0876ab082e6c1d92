//! Call counters by interface and status. Each call is counted exactly once, when its end is
//! recorded, even if its client disconnected.

mod per_interface;

use std::sync::{Arc, OnceLock};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tool::call_outcome::CallStatus;
use tool::{Interface, Ledger};

pub(crate) use per_interface::PerInterface;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct CallLabels {
    door: &'static str,
    status: &'static str,
}

/// Calls counted by interface and status. Clones share the counters.
#[derive(Debug, Clone, Default)]
pub struct CallCounters {
    family: Family<CallLabels, Counter>,
    by_interface: Arc<PerInterface<StatusCounters>>,
}

/// The counters of one interface, in the order of [`CallStatus::ALL`].
type StatusCounters = [OnceLock<Counter>; CallStatus::ALL.len()];

impl CallCounters {
    /// Wraps a ledger so that finished calls are counted.
    pub fn wrap_ledger(&self, ledger: Arc<dyn Ledger>) -> Arc<dyn Ledger> {
        let counts = self.clone();
        ledger::observe_completions(ledger, move |door, status| {
            counts.increment_counter(door, status);
        })
    }

    pub(crate) fn metric_family(&self) -> Family<CallLabels, Counter> {
        self.family.clone()
    }

    /// Sums up the calls of all interfaces with one of these statuses.
    pub(crate) fn count_calls(&self, statuses: &[CallStatus]) -> u64 {
        let counters = self.by_interface.iter();
        let of = |counters: &StatusCounters, status: CallStatus| {
            counters.get(status as usize).and_then(OnceLock::get).map_or(0, Counter::get)
        };
        counters.flat_map(|kept| statuses.iter().map(move |status| of(kept, *status))).sum()
    }

    fn increment_counter(&self, door: Interface, status: CallStatus) {
        let labels = || CallLabels { door: door.as_str(), status: status.as_str() };
        let known = self.by_interface.get_or_init(door, Default::default);
        match known.and_then(|of| of.get(status as usize)) {
            Some(counter) => {
                counter.get_or_init(|| self.family.get_or_create_owned(&labels())).inc()
            }
            None => self.family.get_or_create(&labels()).inc(),
        };
    }
}

#[cfg(test)]
mod tests;
