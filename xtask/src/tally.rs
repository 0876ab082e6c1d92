//! Counts tests, from what nextest and rustdoc print.
//!
//! A run counts only as far as its own closing words say so: words that cannot be read are a failure,
//! never a zero.

use serde_json::Value;

/// Tests that ran, and those that were left out on purpose.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Tally {
    /// Both together.
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    /// The plain closing line.
    pub(crate) fn line(self) -> String {
        let Self { passed, failed, skipped } = self;
        let rest = if skipped == 0 { String::new() } else { format!(", {skipped} skipped") };
        format!("{passed} passed, {failed} failed{rest}")
    }
}

/// Reads nextest's `Summary [ 1.2s] 3 tests run: 2 passed, 1 failed, 4 skipped`. What ran and did not
/// pass has failed, by whatever word. What was left out is counted by the caller, who knows why.
pub(crate) fn nextest(text: &str) -> Option<Tally> {
    let line = text.lines().rev().find(|line| line.trim_start().starts_with("Summary ["))?;
    let (ran, outcomes) = line.split_once(']')?.1.split_once(" run: ")?;
    // `3/5 tests` where the run was cut short: the rest did not pass.
    let all = ran.split_whitespace().next()?.rsplit('/').next()?.parse::<u64>().ok()?;
    let passed = outcomes.split(',').find_map(|part| count(part, "passed")).unwrap_or(0);
    Some(Tally { passed, failed: all.checked_sub(passed)?, skipped: 0 })
}

/// Adds up rustdoc's `test result: ok. 3 passed; 0 failed; 1 ignored; …` lines, one a crate.
pub(crate) fn doctests(text: &str) -> Option<Tally> {
    let mut all = None;
    for line in text.lines().filter_map(|line| line.trim().strip_prefix("test result: ")) {
        let (_, outcomes) = line.split_once(". ")?;
        let number = |word| outcomes.split(';').find_map(|part| count(part, word));
        let skipped = number("ignored")?;
        let one = Tally { passed: number("passed")?, failed: number("failed")?, skipped };
        all.get_or_insert_with(Tally::default).add(one);
    }
    all
}

fn count(part: &str, word: &str) -> Option<u64> {
    let (number, rest) = part.trim().split_once(' ')?;
    (rest.split_whitespace().next()? == word).then(|| number.parse().ok())?
}

/// How many tests there are, by what they need.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listed {
    /// Nothing but the checkout.
    pub(crate) plain: u64,
    /// Programs from package registries: modules `real::`, `conformance::` and `clients::`
    /// of an integration test.
    pub(crate) real: u64,
    /// Shared data: modules `data::` of an integration test.
    pub(crate) data: u64,
    /// To mount a small disk: modules `root::` of an integration test.
    pub(crate) root: u64,
}

/// Reads `cargo nextest list --message-format json`.
pub(crate) fn listed(json: &str) -> Result<Listed, String> {
    let tree: Value =
        serde_json::from_str(json).map_err(|e| format!("nextest's list cannot be read: {e}"))?;
    let suites = tree.get("rust-suites").and_then(Value::as_object);
    let mut listed = Listed::default();
    for suite in suites.ok_or("nextest's list has no suites")?.values() {
        let integration = suite.get("kind").and_then(Value::as_str) == Some("test");
        let cases = suite.get("testcases").and_then(Value::as_object);
        for name in cases.into_iter().flat_map(|cases| cases.keys()) {
            match name.split("::").next() {
                Some("real" | "conformance" | "clients") if integration => listed.real += 1,
                Some("data") if integration => listed.data += 1,
                Some("root") if integration => listed.root += 1,
                _ => listed.plain += 1,
            }
        }
    }
    Ok(listed)
}

#[cfg(test)]
mod tests {
    use super::{Listed, Tally, doctests, listed, nextest};

    fn tally(passed: u64, failed: u64, skipped: u64) -> Tally {
        Tally { passed, failed, skipped }
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
            assert_eq!(nextest(line), expected, "{line}");
        }
    }

    #[test]
    fn the_last_summary_counts() {
        let text = "Summary [1s] 1 test run: 1 passed, 0 skipped\nx\nSummary [1s] 2 tests run: 1 passed, 1 failed, 0 skipped\n";
        assert_eq!(nextest(text), Some(tally(1, 1, 0)));
    }

    #[test]
    fn doctest_results_add_up() {
        let text = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s\n\
                    test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(doctests(text), Some(tally(4, 2, 1)));
        assert_eq!(doctests("error: could not compile"), None);
        assert_eq!(doctests("test result: ok. many passed; 0 failed; 0 ignored"), None);
    }

    #[test]
    fn the_closing_line_is_plain() {
        assert_eq!(tally(5, 0, 0).line(), "5 passed, 0 failed");
        assert_eq!(tally(5, 1, 2).line(), "5 passed, 1 failed, 2 skipped");
    }

    #[test]
    fn only_integration_tests_are_real_or_data() {
        let json = r#"{"rust-suites":{
            "a::it":{"kind":"test","testcases":{"real::x":{},"conformance::x":{},"clients::x":{},"data::y":{},"root::w":{},"realm::z":{}}},
            "a":{"kind":"lib","testcases":{"data::tests::x":{}}}}}"#;
        assert_eq!(listed(json).unwrap(), Listed { plain: 2, real: 3, data: 1, root: 1 });
        assert!(listed("{}").is_err());
    }
}
