//! Suite runs against the fixture behind Toolkeep, at `/mcp/{source}` and at `/mcp`; additional
//! failures are Toolkeep's.

use testkit::key_proxy;
use testkit::mcp_fixture::{self, FixtureEra, FixtureOptions};

use super::fixture_suite::{LEGACY, MODERN, NEW, OLD};
use super::suite_run::Suite;
use crate::support::installation::Installation;
use crate::support::server_process::start_server;

/// Where a suite is run.
#[derive(Clone, Copy)]
enum Place {
    /// At the endpoint of the fixture.
    OneSource,
    /// At the endpoint of all sources, where tools and prompts have the name of their source in
    /// front. The suites have names of their own, which a proxy completes.
    AllSources,
}

/// Judges Toolkeep in front of a fixture that speaks `era`.
async fn passes(suite: Suite, era: FixtureEra, known: &'static str) {
    passes_at(Place::OneSource, suite, era, known).await;
}

async fn passes_at(place: Place, suite: Suite, era: FixtureEra, known: &'static str) {
    let fixture = mcp_fixture::start_fixture(FixtureOptions { era, page_size: 0 }).await.unwrap();
    let url = &fixture.url;
    let home = Installation::new(&format!(
        "version: 1\nsources: [{{ name: fixture, trust: full, mcp: {{ url: '{url}' }} }}]\n"
    ));
    let server = start_server(&home).await;
    let key = std::fs::read_to_string(server.data.join("agent.key")).unwrap();
    let (path, prefix) = match place {
        Place::OneSource => ("/mcp/fixture", ""),
        Place::AllSources => ("/mcp", "fixture."),
    };
    let target = format!("{}{path}", server.url);
    let door = key_proxy::start_prefixing_proxy(&target, key.trim(), prefix).await.unwrap();
    let report = suite.server(&door.url).await;
    assert!(server.stop().await.success());
    Suite { known, ..suite }.judge(&report);
}

/// The control: the suites can give no key, and what adds it for them loses nothing.
#[tokio::test(flavor = "multi_thread")]
async fn the_door_that_adds_the_key_loses_nothing() {
    let fixture = mcp_fixture::start_fixture(FixtureOptions::default()).await.unwrap();
    let door = key_proxy::start_proxy(&fixture.url, "none").await.unwrap();
    for suite in [OLD, NEW, MODERN] {
        suite.judge(&suite.server(&door.url).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn toolkeep_passes_the_suite_0_1() {
    passes(OLD, FixtureEra::Both, "toolkeep-0.1.yml").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn toolkeep_passes_the_suite_0_2() {
    passes(NEW, FixtureEra::Both, "toolkeep-0.2.yml").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn toolkeep_passes_2025_11_25_before_a_server_of_either_era() {
    passes(LEGACY, FixtureEra::Both, "toolkeep-0.2.yml").await;
    passes(LEGACY, FixtureEra::Legacy, "toolkeep-0.2.yml").await;
    passes(LEGACY, FixtureEra::Modern, "toolkeep-bridge-2025-11-25.yml").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn toolkeep_passes_2026_07_28_before_a_server_of_both_eras() {
    passes(MODERN, FixtureEra::Both, "toolkeep-2026-07-28.yml").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn toolkeep_passes_2026_07_28_before_a_server_of_2026_07_28() {
    passes(MODERN, FixtureEra::Modern, "toolkeep-2026-07-28.yml").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn toolkeep_passes_2026_07_28_before_a_server_of_2025_11_25() {
    passes(MODERN, FixtureEra::Legacy, "toolkeep-bridge-2026-07-28.yml").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_endpoint_of_all_sources_passes_2025_11_25() {
    for era in [FixtureEra::Both, FixtureEra::Legacy] {
        passes_at(Place::AllSources, LEGACY, era, "toolkeep-0.2.yml").await;
    }
    passes_at(Place::AllSources, OLD, FixtureEra::Both, "toolkeep-0.1.yml").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_endpoint_of_all_sources_passes_2026_07_28() {
    for era in [FixtureEra::Both, FixtureEra::Modern] {
        passes_at(Place::AllSources, MODERN, era, "toolkeep-all-2026-07-28.yml").await;
    }
}
