//! Turns `tool_registry.yaml` into JSON, so that the program reads it in a fraction of a millisecond and
//! needs nothing that reads YAML: the tools in their order, each with its name. What a field means is
//! decided where it is used, in `src/registry.rs`.

use std::error::Error;
use std::path::Path;

use serde_json::{Map, Value};

#[expect(clippy::disallowed_methods, reason = "cargo and a build script speak in variables")]
fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=tool_registry.yaml");
    let yaml = std::fs::read_to_string("tool_registry.yaml")?;
    let options = serde_saphyr::options! {
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::Error,
        strict_booleans: true,
    };
    let read: Value = serde_saphyr::from_str_with_options(&yaml, options)?;
    let tools = read.get("tools").and_then(Value::as_object).ok_or("`tools` is no mapping")?;
    let named = |(name, fields): (&String, &Value)| {
        let fields = fields.as_object().ok_or_else(|| format!("`{name}` is no mapping"))?;
        let mut tool = Map::new();
        tool.insert("name".to_owned(), Value::from(name.as_str()));
        tool.extend(fields.clone());
        Ok::<_, String>(Value::Object(tool))
    };
    let tools = tools.iter().map(named).collect::<Result<Vec<_>, _>>()?;
    let folder = std::env::var("OUT_DIR")?;
    std::fs::write(Path::new(&folder).join("tool_registry.json"), serde_json::to_vec(&tools)?)?;
    Ok(())
}
