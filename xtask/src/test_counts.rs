//! Test counts, parsed from the output of nextest and rustdoc.
//!
//! Only the summary lines count. A missing or unreadable summary is a failure, never zero tests.

use serde_json::Value;

/// Counts of tests that passed, failed or were skipped.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TestCounts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl TestCounts {
    /// Adds the counts of another run.
    pub(crate) fn add_counts(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    /// Returns the counts as the closing line of a run.
    pub(crate) fn summary_line(self) -> String {
        let Self { passed, failed, skipped } = self;
        let rest = if skipped == 0 { String::new() } else { format!(", {skipped} skipped") };
        format!("{passed} passed, {failed} failed{rest}")
    }
}

/// Parses nextest's `Summary [ 1.2s] 3 tests run: 2 passed, 1 failed, 4 skipped`. A test that ran
/// and did not pass counts as failed. Skipped tests are not counted: the caller knows why they were
/// left out.
pub(crate) fn parse_nextest(text: &str) -> Option<TestCounts> {
    let line = text.lines().rev().find(|line| line.trim_start().starts_with("Summary ["))?;
    let (ran, outcomes) = line.split_once(']')?.1.split_once(" run: ")?;
    // `3/5 tests` if the run was interrupted: the remaining ones did not pass.
    let all = ran.split_whitespace().next()?.rsplit('/').next()?.parse::<u64>().ok()?;
    let passed = outcomes.split(',').find_map(|part| parse_count(part, "passed")).unwrap_or(0);
    Some(TestCounts { passed, failed: all.checked_sub(passed)?, skipped: 0 })
}

/// Adds up rustdoc's `test result: ok. 3 passed; 0 failed; 1 ignored; …` lines, one a crate.
pub(crate) fn parse_doctests(text: &str) -> Option<TestCounts> {
    let mut all = None;
    for line in text.lines().filter_map(|line| line.trim().strip_prefix("test result: ")) {
        let (_, outcomes) = line.split_once(". ")?;
        let number = |word| outcomes.split(';').find_map(|part| parse_count(part, word));
        let skipped = number("ignored")?;
        let one = TestCounts { passed: number("passed")?, failed: number("failed")?, skipped };
        all.get_or_insert_with(TestCounts::default).add_counts(one);
    }
    all
}

fn parse_count(part: &str, word: &str) -> Option<u64> {
    let (number, rest) = part.trim().split_once(' ')?;
    (rest.split_whitespace().next()? == word).then(|| number.parse().ok())?
}

/// All tests, each as nextest prints it: its binary, a space and its name.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct TestInventory {
    /// Tests that need no installs.
    pub(crate) hermetic: Vec<String>,
    /// Tests that need programs from package registries: modules `real::`, `conformance::` and
    /// `clients::` of an integration test.
    pub(crate) real: Vec<String>,
}

/// Reads `cargo nextest list --message-format json`.
pub(crate) fn parse_list(json: &str) -> Result<TestInventory, String> {
    let tree: Value =
        serde_json::from_str(json).map_err(|e| format!("nextest's list cannot be read: {e}"))?;
    let suites = tree.get("rust-suites").and_then(Value::as_object);
    let mut listed = TestInventory::default();
    for (binary, suite) in suites.ok_or("nextest's list has no suites")? {
        let integration = suite.get("kind").and_then(Value::as_str) == Some("test");
        let cases = suite.get("testcases").and_then(Value::as_object);
        for name in cases.into_iter().flat_map(|cases| cases.keys()) {
            let tests = match name.split("::").next() {
                Some("real" | "conformance" | "clients") if integration => &mut listed.real,
                _ => &mut listed.hermetic,
            };
            tests.push(format!("{binary} {name}"));
        }
    }
    Ok(listed)
}

#[cfg(test)]
mod tests {
    use super::{TestCounts, TestInventory, parse_doctests, parse_list, parse_nextest};

    fn tally(passed: u64, failed: u64, skipped: u64) -> TestCounts {
        TestCounts { passed, failed, skipped }
    }

    #[test]
    fn nextest_summaries_are_read() {
        for (line, expected) in [
            ("     Summary [   0.009s] 3 tests run: 3 passed, 0 skipped", Some(tally(3, 0, 0))),
            ("Summary [ 1.0s] 1 test run: 1 passed, 2 skipped", Some(tally(1, 0, 0))),
            (
                "  Summary [ 9.1s] 10 tests run: 7 passed (2 slow, 1 leaky), 2 failed, 1 timed out, 4 skipped",
                Some(tally(7, 3, 0)),
            ),
            (
                "  Summary [ 9.1s] 3/10 tests run: 2 passed, 1 failed, 0 skipped",
                Some(tally(2, 8, 0)),
            ),
            ("  Summary [ 0.0s] 0 tests run: 0 passed, 8 skipped", Some(tally(0, 0, 0))),
            ("  Summary [ 0.5s] 2 tests run: 2 failed, 0 skipped", Some(tally(0, 2, 0))),
            ("3 tests run: 3 passed", None),
            ("Summary [ 1.0s] three tests run: 3 passed", None),
            ("", None),
        ] {
            assert_eq!(parse_nextest(line), expected, "{line}");
        }
    }

    #[test]
    fn the_last_summary_counts() {
        let text = "Summary [1s] 1 test run: 1 passed, 0 skipped\nx\nSummary [1s] 2 tests run: 1 passed, 1 failed, 0 skipped\n";
        assert_eq!(parse_nextest(text), Some(tally(1, 1, 0)));
    }

    #[test]
    fn doctest_results_add_up() {
        let text = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s\n\
                    test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(parse_doctests(text), Some(tally(4, 2, 1)));
        assert_eq!(parse_doctests("error: could not compile"), None);
        assert_eq!(parse_doctests("test result: ok. many passed; 0 failed; 0 ignored"), None);
    }

    #[test]
    fn the_closing_line_is_plain() {
        assert_eq!(tally(5, 0, 0).summary_line(), "5 passed, 0 failed");
        assert_eq!(tally(5, 1, 2).summary_line(), "5 passed, 1 failed, 2 skipped");
    }

    #[test]
    fn only_integration_tests_are_real() {
        let json = r#"{"rust-suites":{
            "a::it":{"kind":"test","testcases":{"real::x":{},"conformance::x":{},"clients::x":{},"data::y":{},"realm::z":{}}},
            "a":{"kind":"lib","testcases":{"real::tests::x":{}}}}}"#;
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let mut listed = parse_list(json).unwrap();
        listed.hermetic.sort();
        listed.real.sort();
        assert_eq!(
            listed,
            TestInventory {
                hermetic: names(&["a real::tests::x", "a::it data::y", "a::it realm::z"]),
                real: names(&["a::it clients::x", "a::it conformance::x", "a::it real::x"]),
            }
        );
        assert!(parse_list("{}").is_err());
    }
}
