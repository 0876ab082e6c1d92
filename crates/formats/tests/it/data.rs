//! Real definitions and real calls from shared data, where they are there.

mod lowered;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tool::{Json, Tool, ToolName, Traits};

/// The rows of a packed file of the data folder; `None` where it is not there and need not be.
#[expect(clippy::disallowed_methods, reason = "where the data is, and how it is unpacked")]
fn rows(file: &str) -> Option<Vec<Value>> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("TOOLKEEP_DATA").map_or_else(beside, PathBuf::from);
    let path = folder.join(file);
    if !Path::exists(&path) {
        let required = std::env::var("TOOLKEEP_REQUIRE_DATA").is_ok_and(|word| word == "1");
        assert!(!required, "{}: not there", path.display());
        println!("not run: no {file} in the data folder; TOOLKEEP_DATA names it");
        return None;
    }
    let unpacked = Command::new("gzip").arg("-dc").arg(&path).output().unwrap();
    assert!(unpacked.status.success(), "{}", path.display());
    let text = String::from_utf8(unpacked.stdout).unwrap();
    Some(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// A definition as a tool. One without a schema takes any arguments.
fn tool(row: &Value, index: usize) -> Tool {
    let input = match &row["parameters"] {
        Value::Null => serde_json::json!({ "type": "object" }),
        schema => schema.clone(),
    };
    Tool {
        name: ToolName::new(format!("t{index}")).unwrap(),
        title: None,
        description: row["description"].as_str().unwrap_or_default().to_owned(),
        input: Json::of(&input),
        output: None,
        traits: Traits::default(),
        received: Json::empty(),
    }
}
