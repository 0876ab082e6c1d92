//! Selection of the tests whose requirements this machine meets.

use super::requirement_state::{CheckedRequirement, RequirementState};

/// Tests that do not run because of one requirement.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ExcludedTests {
    pub(super) count: u64,
    /// Whether they count as failed, because nobody left them out.
    pub(super) are_failed: bool,
    /// Line of the report: how many tests, why, and what helps.
    pub(super) report_line: String,
}

/// Tests that can run, and those that cannot.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TestSelection {
    /// Number of tests that run.
    pub(super) run_count: u64,
    /// End of nextest's filter expression that leaves out the others.
    pub(super) filter: String,
    pub(super) excluded: Vec<ExcludedTests>,
}

impl TestSelection {
    /// Selects from `tests`, each with its binary, a space and its name. A test that needs several
    /// absent things is counted once: as left out if one of them is excluded, else as failed.
    pub(super) fn select_tests(tests: &[String], checked: &[CheckedRequirement]) -> Self {
        let mut selection = Self::default();
        let mut absent: Vec<&CheckedRequirement> =
            checked.iter().filter(|found| !found.is_available()).collect();
        absent.sort_by_key(|found| found.is_missing());
        let mut counts = vec![0_u64; absent.len()];
        for test in tests {
            let reason = absent.iter().position(|found| found.requirement.is_needed_by(test));
            match reason.and_then(|index| counts.get_mut(index)) {
                Some(count) => *count += 1,
                None => selection.run_count += 1,
            }
        }
        for (found, count) in absent.into_iter().zip(counts).filter(|(_, count)| *count > 0) {
            selection.excluded.push(exclude_tests(found, count));
            selection.filter.push_str(&found.requirement.exclusion_filter());
        }
        selection
    }
}

fn exclude_tests(found: &CheckedRequirement, count: u64) -> ExcludedTests {
    let name = found.requirement.name;
    let report_line = match &found.state {
        RequirementState::Missing(why) => {
            let fix = found.requirement.fix_advice();
            format!("failed: {count} tests need {name}: {why}; {fix}")
        }
        _ => format!("left out: {count} tests need {name} (--without {name})"),
    };
    ExcludedTests { count, are_failed: found.is_missing(), report_line }
}

#[cfg(test)]
mod tests {
    use super::super::requirement_state::{CheckedRequirement, RequirementState};
    use super::super::test_requirements::{Provision, TestRequirement};
    use super::TestSelection;

    const DISK: TestRequirement = TestRequirement {
        name: "disk",
        description: "a disk",
        provision: Provision::Advice("attach a disk"),
        check: |_| Ok(String::new()),
        tests: &["a::it disk::", "b "],
    };
    const TAPE: TestRequirement = TestRequirement {
        name: "tape",
        provision: Provision::Packages(&["tape"]),
        tests: &["a::it disk::tape::"],
        ..DISK
    };

    /// Selects from four tests where the disk and the tape have these states.
    fn selection(disk: RequirementState, tape: RequirementState) -> TestSelection {
        let tests =
            ["a::it disk::full", "a::it disk::tape::x", "b tests::y", "bb z"].map(str::to_owned);
        let checked = [(&DISK, disk), (&TAPE, tape)]
            .map(|(requirement, state)| CheckedRequirement { requirement, state });
        TestSelection::select_tests(&tests, &checked)
    }

    fn found() -> RequirementState {
        RequirementState::Available("here".to_owned())
    }

    fn missing() -> RequirementState {
        RequirementState::Missing("it is not there".to_owned())
    }

    /// Returns the counts of what runs, fails and is skipped.
    fn counts(selection: &TestSelection) -> (u64, u64, u64) {
        let count = |failed| {
            let excluded = selection.excluded.iter().filter(|it| it.are_failed == failed);
            excluded.map(|it| it.count).sum()
        };
        (selection.run_count, count(true), count(false))
    }

    #[test]
    fn every_test_is_counted_once() {
        let excluded = || RequirementState::Excluded;
        for (disk, tape, expected) in [
            (found(), found(), (4, 0, 0)),
            (missing(), found(), (1, 3, 0)),
            (excluded(), found(), (1, 0, 3)),
            (found(), missing(), (3, 1, 0)),
            (missing(), missing(), (1, 3, 0)),
            // Whoever leaves the tape out gets no failure of a test that needs both.
            (missing(), excluded(), (1, 2, 1)),
            (excluded(), missing(), (1, 0, 3)),
        ] {
            let shown = format!("{disk:?} {tape:?}");
            assert_eq!(counts(&selection(disk, tape)), expected, "{shown}");
        }
    }

    #[test]
    fn the_filter_leaves_out_what_cannot_run() {
        assert_eq!(selection(found(), found()).filter, "");
        let filter = " & not (binary_id(=a::it) & test(/^disk::/)) & not binary_id(=b)";
        assert_eq!(selection(missing(), found()).filter, filter);
    }

    #[test]
    fn the_report_says_why_and_what_helps() {
        let lines = |disk, tape| -> Vec<String> {
            selection(disk, tape).excluded.into_iter().map(|it| it.report_line).collect()
        };
        assert_eq!(
            lines(RequirementState::Excluded, found()),
            ["left out: 3 tests need disk (--without disk)"]
        );
        assert_eq!(
            lines(missing(), found()),
            ["failed: 3 tests need disk: it is not there; attach a disk, or leave its tests out \
              with `--without disk`"]
        );
        assert_eq!(
            lines(found(), missing()),
            ["failed: 1 tests need tape: it is not there; `apt-get install tape`, or leave its \
              tests out with `--without tape`"]
        );
    }
}
