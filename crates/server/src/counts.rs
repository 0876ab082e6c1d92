//! Counts calls where they are recorded, each exactly once, however it ends: a door does not learn how a
//! call ended whose caller went away, the record does.

use std::borrow::Cow;
use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tool::Ledger;
use tool::outcome::Status;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Ended {
    door: Cow<'static, str>,
    status: &'static str,
}

/// Calls by door and how they ended; clones share their numbers.
#[derive(Debug, Clone, Default)]
pub struct Counts(Family<Ended, Counter>);

impl Counts {
    /// The same ledger, counted.
    pub fn over(&self, ledger: Arc<dyn Ledger>) -> Arc<dyn Ledger> {
        let counts = self.clone();
        ledger::watched(ledger, move |door, status| counts.add(door, status))
    }

    pub(crate) fn family(&self) -> Family<Ended, Counter> {
        self.0.clone()
    }

    fn add(&self, door: &str, status: Status) {
        // Counted with each call, so nothing is made for the doors that are known.
        let door = match door {
            "mcp" => Cow::Borrowed("mcp"),
            "rest" => Cow::Borrowed("rest"),
            other => Cow::Owned(other.to_owned()),
        };
        self.0.get_or_create(&Ended { door, status: status.as_str() }).inc();
    }
}

#[cfg(test)]
mod tests;
