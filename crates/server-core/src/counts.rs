//! Counts calls where they are recorded, each exactly once, however it ends: a door does not learn how a
//! call ended whose caller went away, the record does.

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

/// Calls by door and how they ended; clones share their numbers.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    family: Family<Ended, Counter>,
    known: Arc<ByDoor<OfDoor>>,
}

/// Counters of one door, in the order of [`Status::ALL`].
type OfDoor = [OnceLock<Counter>; Status::ALL.len()];

impl Counts {
    /// The same ledger, counted.
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
