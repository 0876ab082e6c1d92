//! Suite runs against the fixture alone: it must pass completely to serve as a baseline.

use testkit::mcp_fixture::{self, FixtureEra, FixtureOptions};

use super::suite_run::Suite;

/// The suite that the registry calls the latest.
pub(super) const OLD: Suite = Suite {
    installed: "conformance-0.1",
    words: &["--suite", "active"],
    known: "fixture-0.1.yml",
    scenarios: 30,
};
/// The scenarios that the suite itself does not count yet.
pub(super) const OLD_PENDING: Suite = Suite { words: &["--suite", "pending"], scenarios: 2, ..OLD };
/// The suite that knows 2026-07-28.
pub(super) const NEW: Suite = Suite {
    installed: "conformance-0.2",
    words: &["--suite", "active"],
    known: "fixture-0.2.yml",
    scenarios: 31,
};
/// All that 2025-11-25 asks of a server.
pub(super) const LEGACY: Suite =
    Suite { words: &["--requirements", "2025-11-25"], scenarios: 33, ..NEW };
/// All that 2026-07-28 asks of a server, and its extensions.
pub(super) const MODERN: Suite = Suite {
    words: &["--requirements", "2026-07-28"],
    known: "fixture-2026-07-28.yml",
    scenarios: 50,
    ..NEW
};

async fn passes(suite: Suite, era: FixtureEra) {
    let fixture = mcp_fixture::start_fixture(FixtureOptions { era, page_size: 0 }).await.unwrap();
    suite.judge(&suite.server(&fixture.url).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fixture_passes_the_suite_0_1() {
    passes(OLD, FixtureEra::Both).await;
    passes(OLD_PENDING, FixtureEra::Both).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fixture_passes_the_suite_0_2() {
    passes(NEW, FixtureEra::Both).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fixture_of_one_era_passes_what_2025_11_25_requires() {
    passes(LEGACY, FixtureEra::Legacy).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fixture_of_either_kind_passes_what_2026_07_28_requires() {
    passes(MODERN, FixtureEra::Both).await;
    passes(MODERN, FixtureEra::Modern).await;
}

/// Control: the suite detects known faults.
#[tokio::test(flavor = "multi_thread")]
async fn the_suite_finds_that_the_other_era_is_missing() {
    let fixture =
        mcp_fixture::start_fixture(FixtureOptions { era: FixtureEra::Legacy, page_size: 0 })
            .await
            .unwrap();
    let report = MODERN.server(&fixture.url).await;
    let failed = report.scenarios.values().filter(|it| !it.failed.is_empty()).count();
    assert!(failed > 40, "only {failed} of {} scenarios fail", report.scenarios.len());
}
