//! Turns each file of `tools/` into JSON, so that the program reads it in a fraction of a millisecond and
//! needs nothing that reads YAML: the tools in their order, each with its name. What a field means is
//! decided in `tool_manifest::ManifestRegistry`.

use std::error::Error;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

#[expect(clippy::disallowed_methods, reason = "cargo and a build script speak in variables")]
fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=tools");
    let folder = std::env::var("OUT_DIR")?;
    for entry in fs::read_dir("tools")? {
        let path = entry?.path();
        let place = path.display();
        let tools = read_tools(&path).map_err(|error| format!("{place}: {error}"))?;
        let name = path.file_stem().ok_or("a file without a name")?;
        let json = Path::new(&folder).join(name).with_extension("json");
        fs::write(json, serde_json::to_vec(&tools)?)?;
    }
    Ok(())
}

fn read_tools(path: &Path) -> Result<Vec<Value>, Box<dyn Error>> {
    let yaml = fs::read_to_string(path)?;
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
        Ok(Value::Object(tool))
    };
    tools.iter().map(named).collect()
}
