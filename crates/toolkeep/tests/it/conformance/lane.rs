//! Toolkeep with the fixture behind it, at `/mcp/{source}`: what the fixture alone passes and this
//! does not is lost in Toolkeep.

use testkit::keyed;
use testkit::mcp_fixture::{self, Era, Options};

use super::alone::{LEGACY, MODERN, NEW, OLD};
use super::suite::Suite;
use crate::support::home::Home;
use crate::support::server::serve;

/// Judges Toolkeep in front of a fixture that speaks `era`.
async fn passes(suite: Suite, era: Era, known: &'static str) {
    let fixture = mcp_fixture::start(Options { era, page: 0 }).await.unwrap();
    let url = &fixture.url;
    let home = Home::new(&format!(
        "version: 1\nsources: [{{ name: fixture, trust: full, mcp: {{ url: '{url}' }} }}]\n"
    ));
    let server = serve(&home).await;
    let key = std::fs::read_to_string(server.data.join("agent.key")).unwrap();
    let target = format!("{}/mcp/fixture", server.url);
    let door = keyed::start(&target, key.trim()).await.unwrap();
    let report = suite.server(&door.url).await;
    assert!(server.stop().await.success());
    Suite { known, ..suite }.judge(&report);
}

/// The control: the suites can give no key, and what adds it for them loses nothing.
#[tokio::test(flavor = "multi_thread")]
async fn the_door_that_adds_the_key_loses_nothing() {
    let fixture = mcp_fixture::start(Options::default()).await.unwrap();
    let door = keyed::start(&fixture.url, "none").await.unwrap();
    for suite in [OLD, NEW, MODERN] {
        suite.judge(&suite.server(&door.url).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn toolkeep_passes_the_suite_0_1() {
    passes(OLD, Era::Both, "toolkeep-0.1.yml").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn toolkeep_passes_the_suite_0_2() {
    passes(NEW, Era::Both, "toolkeep-0.2.yml").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn toolkeep_passes_2025_11_25_before_a_server_of_either_era() {
    passes(LEGACY, Era::Both, "toolkeep-0.2.yml").await;
    passes(LEGACY, Era::Legacy, "toolkeep-0.2.yml").await;
    passes(LEGACY, Era::Modern, "toolkeep-bridge-2025-11-25.yml").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn toolkeep_passes_2026_07_28_before_a_server_of_both_eras() {
    passes(MODERN, Era::Both, "toolkeep-2026-07-28.yml").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn toolkeep_passes_2026_07_28_before_a_server_of_2026_07_28() {
    passes(MODERN, Era::Modern, "toolkeep-2026-07-28.yml").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn toolkeep_passes_2026_07_28_before_a_server_of_2025_11_25() {
    passes(MODERN, Era::Legacy, "toolkeep-bridge-2026-07-28.yml").await;
}
