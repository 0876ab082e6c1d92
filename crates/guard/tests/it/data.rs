//! Attack inputs that are kept outside of this repository. Where they are absent nothing is proven:
//! the test says so, and fails where `TOOLKEEP_REQUIRE_DATA` asks for them.

use std::collections::BTreeMap;

use serde_json::Value;

mod paths;
mod ssrf;

/// One row: what it has depends on its family.
type Row = BTreeMap<String, Value>;

fn text<'a>(row: &'a Row, field: &str) -> &'a str {
    row.get(field).and_then(Value::as_str).unwrap_or_default()
}
