//! Toolkeep as the client: for each scenario a server of the suite's, and a Toolkeep before it that
//! is used as the scenario wants.

use std::path::PathBuf;

use super::suite::Suite;
use crate::support::server::TOOLKEEP;

/// All that 2025-11-25 asks of a client, without the authorization of its suite.
const CORE: Suite = Suite {
    installed: "conformance-0.2",
    words: &["--suite", "core"],
    known: "client-core.yml",
    scenarios: 0,
};

/// The command line to which the suite adds the address of its server.
fn line() -> String {
    let folder = PathBuf::from(TOOLKEEP).parent().unwrap().join("examples");
    let driver = folder.join("it-driver");
    assert!(driver.exists(), "no `it-driver`: build it with `cargo build -p toolkeep --examples`");
    format!("{} {TOOLKEEP}", driver.display())
}

#[expect(
    dead_code,
    reason = "waits for the lane: then `#[tokio::test(flavor = \"multi_thread\")]`"
)]
async fn toolkeep_is_a_good_client() {
    CORE.judge(&CORE.client(&line()).await);
}
