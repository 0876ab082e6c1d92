//! Attack inputs from shared data, where they are there.

mod claimed;
mod origins;

use std::path::PathBuf;

use serde_json::Value;

/// The rows of a file of the data folder; `None` where it is not there and need not be.
#[expect(clippy::disallowed_methods, reason = "where the data is, and whether it must be")]
fn rows(file: &str) -> Option<Vec<Value>> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("TOOLKEEP_DATA").map_or_else(beside, PathBuf::from);
    let path = folder.join(file);
    match std::fs::read_to_string(&path) {
        Ok(text) => Some(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()),
        Err(error) => {
            let required = std::env::var("TOOLKEEP_REQUIRE_DATA").is_ok_and(|word| word == "1");
            assert!(!required, "{}: {error}", path.display());
            println!("not run: no {file} in the data folder; TOOLKEEP_DATA names it");
            None
        }
    }
}
