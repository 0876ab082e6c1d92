//! Call counters by interface and status. Each call is counted exactly once, when its end is
//! recorded, even if its client disconnected.

mod known;

use std::sync::{Arc, OnceLock};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tool::outcome::Status;
use tool::{Interface, Ledger};

pub(crate) use known::ByDoor;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Ended {
    door: &'static str,
    status: &'static str,
}

/// Calls counted by interface and status. Clones share the counters.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    family: Family<Ended, Counter>,
    known: Arc<ByDoor<OfDoor>>,
}

/// The counters of one interface, in the order of [`Status::ALL`].
type OfDoor = [OnceLock<Counter>; Status::ALL.len()];

impl Counts {
    /// Wraps a ledger so that finished calls are counted.
    pub fn over(&self, ledger: Arc<dyn Ledger>) -> Arc<dyn Ledger> {
        let counts = self.clone();
        ledger::watched(ledger, move |door, status| counts.add(door, status))
    }

    pub(crate) fn family(&self) -> Family<Ended, Counter> {
        self.family.clone()
    }

    fn add(&self, door: Interface, status: Status) {
        let labels = || Ended { door: door.as_str(), status: status.as_str() };
        let known = self.known.of(door, Default::default);
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
