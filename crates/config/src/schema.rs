//! The published JSON Schema of the file, made from the declarations that read it.

use serde_json::Map;

use super::file::File;
use super::section::Definitions;

/// JSON Schema 2020-12, as text with a line break at its end.
pub fn schema() -> String {
    let mut definitions = Definitions::default();
    let file = definitions.object::<File>();
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
