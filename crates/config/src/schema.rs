//! The published JSON Schema of the file, made from the types that read it.

use schemars::Schema;
use schemars::transform::{RecursiveTransform, Transform as _};

use super::low;

/// JSON Schema 2020-12, as text with a line break at its end.
pub fn schema() -> String {
    let mut schema = schemars::schema_for!(low::File);
    RecursiveTransform(one_line).transform(&mut schema);
    let text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    text + "\n"
}

/// Descriptions come from comments, which are broken into lines for the source only.
fn one_line(schema: &mut Schema) {
    if let Some(description) = schema.get_mut("description")
        && let Some(text) = description.as_str()
    {
        *description = text.replace('\n', " ").into();
    }
}

#[cfg(test)]
mod tests;
