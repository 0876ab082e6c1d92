//! Attack inputs that are kept outside of this repository. Where they are absent nothing is proven:
//! the test says so, and fails where `TOOLKEEP_REQUIRE_DATA` asks for them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

mod paths;
mod ssrf;

/// The rows of a file under `TOOLKEEP_DATA`, or else beside the workspace.
fn rows(file: &str) -> Option<Vec<BTreeMap<String, Value>>> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let folder =
        std::env::var_os("TOOLKEEP_DATA").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    let path = folder.join("attacks").join(file);
    match std::fs::read_to_string(&path) {
        Ok(text) => Some(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()),
        Err(error) => {
            let required =
                std::env::var_os("TOOLKEEP_REQUIRE_DATA").is_some_and(|word| word == "1");
            assert!(
                !required,
                "{}: {error}; set TOOLKEEP_DATA to the folder of the data",
                path.display()
            );
            println!("not run: {}: {error}", path.display());
            None
        }
    }
}

fn text<'a>(row: &'a BTreeMap<String, Value>, field: &str) -> &'a str {
    row.get(field).and_then(Value::as_str).unwrap_or_default()
}
