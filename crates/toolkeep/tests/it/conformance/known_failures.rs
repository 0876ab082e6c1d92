//! The list of known failures, one line each, with its reason.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::suite_run::Report;

/// Entries `scenario` or `scenario:check`, with reasons.
#[derive(Debug)]
pub(super) struct KnownFailures {
    known: BTreeMap<String, String>,
}

impl KnownFailures {
    /// Reads a file of `tests/conformance`.
    ///
    /// # Panics
    /// Panics if a line has no reason, because nobody could tell when to remove it.
    pub(super) fn read(name: &str) -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance").join(name);
        let text = std::fs::read_to_string(&file);
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        Self::parse(&text).unwrap_or_else(|line| panic!("{}: {line}", file.display()))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut known = BTreeMap::new();
        for line in text.lines().map(str::trim).filter(|line| line.starts_with("- ")) {
            let (entry, reason) = line.split_once(" # ").unwrap_or((line, ""));
            let entry = entry.trim_start_matches("- ").trim().to_owned();
            if reason.trim().len() < 10 {
                return Err(format!("`{entry}` has no reason: write `- {entry} # why it fails`"));
            }
            known.insert(entry, reason.to_owned());
        }
        Ok(Self { known })
    }

    /// Failures that are not known, and known ones that passed.
    pub(super) fn judge(&self, report: &Report) -> Vec<String> {
        let (mut wrong, mut used) = (Vec::new(), BTreeSet::new());
        for (name, scenario) in &report.scenarios {
            for (id, why) in &scenario.failed {
                let check = format!("{name}:{id}");
                let entry = [&check, name].into_iter().find(|it| self.known.contains_key(*it));
                match entry {
                    Some(entry) => drop(used.insert(entry.clone())),
                    None => wrong.push(format!("{check} fails and is not listed: {why}")),
                }
            }
        }
        let stale = self.known.keys().filter(|entry| !used.contains(*entry));
        wrong.extend(stale.map(|entry| format!("{entry} is listed and does not fail: remove it")));
        wrong
    }
}

mod tests {
    use super::KnownFailures;
    use crate::conformance::suite_run::{Report, Scenario};

    fn failing(scenario: &str, check: &str) -> Report {
        let mut failed = Scenario::default();
        failed.failed.insert(check.to_owned(), "because".to_owned());
        let mut report = Report::default();
        report.scenarios.insert(scenario.to_owned(), failed);
        report
    }

    #[test]
    fn what_is_listed_may_fail_and_nothing_else() {
        let known = KnownFailures::parse("server:\n  - a # the suite is wrong here\n").unwrap();
        assert!(known.judge(&failing("a", "x")).is_empty());
        assert_eq!(known.judge(&failing("b", "x")).len(), 2, "one not listed, one stale");
        let one = KnownFailures::parse("- a:x # the suite is wrong here").unwrap();
        assert!(one.judge(&failing("a", "x")).is_empty());
        assert_eq!(one.judge(&failing("a", "y")).len(), 2, "one not listed, one stale");
    }

    #[test]
    fn a_line_without_a_reason_is_refused() {
        assert!(KnownFailures::parse("- a").unwrap_err().contains("`a` has no reason"));
        assert!(KnownFailures::parse("- a # no").is_err());
    }
}
