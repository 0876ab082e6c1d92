//! A tool in the form of each model provider: its size in a context, and what its schema loses.

use catalog::CatalogEntry;
use formats::{ProviderFormat, render_tool};

/// A tool in one provider's form.
#[derive(Debug)]
pub struct ProviderForm {
    /// Name of the format, as `?format=` takes it.
    pub format: &'static str,
    /// Estimated tokens; `None` if the format cannot express the tool.
    pub tokens: Option<usize>,
    /// What differs from the tool's schema, each with its place.
    pub losses: Vec<String>,
}

/// Lists the forms of a tool.
pub fn list_provider_forms(entry: &CatalogEntry) -> Vec<ProviderForm> {
    let form = |format: &ProviderFormat| {
        let rendered = render_tool(*format, &entry.tool, entry.name.as_str());
        let losses = rendered.losses.iter();
        ProviderForm {
            format: format.as_str(),
            tokens: rendered.json.map(|json| search::count_tokens(json.as_str())),
            losses: losses.map(|loss| format!("{}: {}", loss.pointer, loss.reason)).collect(),
        }
    };
    ProviderFormat::ALL.iter().map(form).collect()
}

/// Estimates the tokens of a tool's definition in a list: its name, description and schema.
pub fn definition_tokens(entry: &CatalogEntry) -> usize {
    let (name, tool) = (entry.name.as_str(), &entry.tool);
    [name, &tool.description, tool.input_schema.as_str()]
        .into_iter()
        .map(search::count_tokens)
        .sum()
}
