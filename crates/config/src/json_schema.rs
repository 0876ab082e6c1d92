//! The published JSON Schema of the file, made from the declarations that read it.

use serde_json::Map;

use super::config_file::ConfigFile;
use super::section::SchemaDefinitions;

/// Renders the JSON Schema 2020-12 of the configuration file, with a line break at its end.
pub fn render_json_schema() -> String {
    let mut definitions = SchemaDefinitions::default();
    let file = definitions.object_schema::<ConfigFile>();
    let mut schema = Map::new();
    schema.insert("$schema".to_owned(), "https://json-schema.org/draft/2020-12/schema".into());
    schema.insert("title".to_owned(), "Toolkeep configuration".into());
    schema.extend(file);
    schema.insert("$defs".to_owned(), definitions.0.into());
    let text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    text + "\n"
}

#[cfg(test)]
mod tests;
