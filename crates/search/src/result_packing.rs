//! Fits tool definitions into a budget of tokens: whole definitions first, then compact ones.

use serde_json::{Map, Value, json};
use tool::{Json, Tool};

/// Bytes of JSON that count as one token; what providers' tokenizers make of definitions on average.
const BYTES_PER_TOKEN: usize = 4;
/// Maximum size of the description in a compact definition, in characters.
const COMPACT_DESCRIPTION_CHARS: usize = 200;
/// Maximum number of allowed values that a compact definition lists.
const COMPACT_VALUES: usize = 12;

/// Forms of a definition in search results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefinitionForm {
    /// Name, complete description and complete input schema.
    Full,
    /// Name, first sentence of the description, and required parameters.
    Compact,
}

impl DefinitionForm {
    /// Returns the word as it appears in responses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Compact => "compact",
        }
    }
}

/// Limit of the definitions of one response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackingBudget {
    /// Maximum number of tokens of all definitions together; absent: no limit.
    pub tokens: Option<usize>,
}

/// A definition that fits the budget.
#[derive(Debug, Clone, PartialEq)]
pub struct PackedTool {
    /// Index of the tool in the given order.
    pub index: usize,
    /// Form of the definition.
    pub form: DefinitionForm,
    /// Complete JSON of the definition in this form.
    pub definition: Json,
    /// Estimated number of its tokens.
    pub tokens: usize,
}

/// Fits definitions into a budget, the best tools first. A tool whose complete definition does not
/// fit gets the compact one; one whose compact definition does not fit either is left out. No
/// definition is cut.
pub fn pack_results<'a>(
    tools: impl IntoIterator<Item = (&'a str, &'a Tool)>,
    budget: PackingBudget,
) -> Vec<PackedTool> {
    let mut left = budget.tokens.unwrap_or(usize::MAX);
    let mut packed = Vec::new();
    for (index, (name, tool)) in tools.into_iter().enumerate() {
        let forms = [
            (DefinitionForm::Full, full_definition as fn(&str, &Tool) -> Json),
            (DefinitionForm::Compact, compact_definition),
        ];
        let fitting = forms.into_iter().find_map(|(form, write)| {
            let definition = write(name, tool);
            let tokens = count_tokens(definition.as_str());
            (tokens <= left).then_some(PackedTool { index, form, definition, tokens })
        });
        if let Some(fitting) = fitting {
            left -= fitting.tokens;
            packed.push(fitting);
        }
    }
    packed
}

/// Estimates the number of tokens of a text.
pub fn count_tokens(text: &str) -> usize {
    text.len().div_ceil(BYTES_PER_TOKEN)
}

/// Returns the complete definition under the name by which the tool is called.
pub fn full_definition(name: &str, tool: &Tool) -> Json {
    Json::object_from([
        ("name", &Json::encode(name)),
        ("description", &Json::encode(&tool.description)),
        ("inputSchema", &tool.input_schema),
    ])
}

/// Returns a compact definition: the first sentence of the description, and required parameters
/// without descriptions.
pub fn compact_definition(name: &str, tool: &Tool) -> Json {
    let schema = tool.input_schema.to_value();
    Json::encode(&json!({
        "name": name,
        "description": first_sentence(&tool.description),
        "inputSchema": compact_schema(&schema),
    }))
}

/// Returns the definition of a tool whose schema is deferred: one line, and a schema that every
/// object fits.
pub fn deferred_definition(name: &str, tool: &Tool) -> Json {
    Json::encode(&json!({
        "name": name,
        "description": first_sentence(&tool.description),
        "inputSchema": {"type": "object"},
    }))
}

fn compact_schema(schema: &Value) -> Value {
    let required = schema.get("required").and_then(Value::as_array);
    let names: Vec<&str> = required.into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = names.iter().filter_map(|name| {
        let property = schema.get("properties")?.get(*name)?;
        Some(((*name).to_owned(), compact_property(property)))
    });
    let properties: Map<String, Value> = properties.collect();
    json!({"type": "object", "properties": properties, "required": names})
}

/// Keeps the type of a parameter, and its values if they are few.
fn compact_property(property: &Value) -> Value {
    let mut kept = Map::new();
    if let Some(kind) = property.get("type") {
        kept.insert("type".to_owned(), kind.clone());
    }
    let values = property.get("enum").and_then(Value::as_array);
    if let Some(values) = values.filter(|values| values.len() <= COMPACT_VALUES) {
        kept.insert("enum".to_owned(), Value::Array(values.clone()));
    }
    if let Some(kind) = property.get("items").and_then(|items| items.get("type")) {
        kept.insert("items".to_owned(), json!({"type": kind}));
    }
    Value::Object(kept)
}

/// Returns the first sentence of a description, at most [`COMPACT_DESCRIPTION_CHARS`] long.
fn first_sentence(description: &str) -> String {
    let text = description.trim_start();
    let line = text.lines().next().unwrap_or_default();
    let mut ends = line.match_indices(". ").chain(line.match_indices("。"));
    let sentence = ends.next().and_then(|(at, end)| line.get(..at + end.trim_end().len()));
    let sentence = sentence.unwrap_or(line).trim_end();
    match sentence.char_indices().nth(COMPACT_DESCRIPTION_CHARS) {
        Some((end, _)) => sentence.get(..end).unwrap_or_default().to_owned() + "…",
        None => sentence.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tool::{Json, Tool, ToolName};

    use super::{DefinitionForm, PackingBudget, compact_definition, count_tokens, pack_results};

    fn tool(name: &str, words: usize) -> Tool {
        let schema = json!({"type": "object", "properties": {
            "path": {"type": "string", "description": "word ".repeat(words)},
            "mode": {"type": "string", "enum": ["r", "w"], "description": "How."},
            "optional": {"type": "integer"},
        }, "required": ["path", "mode"]});
        let description = "Reads 1.5 files. ".to_owned() + &"More text. ".repeat(words);
        Tool::new(ToolName::new(name).unwrap(), description, Json::encode(&schema))
    }

    fn pack(tools: &[Tool], tokens: usize) -> Vec<(usize, DefinitionForm)> {
        let named = tools.iter().map(|tool| (tool.name.as_str(), tool));
        let packed = pack_results(named, PackingBudget { tokens: Some(tokens) });
        assert!(packed.iter().map(|it| it.tokens).sum::<usize>() <= tokens);
        for it in &packed {
            assert_eq!(it.tokens, count_tokens(it.definition.as_str()));
            let whole: Value = serde_json::from_str(it.definition.as_str()).unwrap();
            assert_eq!(whole["name"], tools[it.index].name.as_str());
        }
        packed.into_iter().map(|it| (it.index, it.form)).collect()
    }

    #[test]
    fn whole_definitions_come_first_then_compact_ones_and_none_is_cut() {
        use DefinitionForm::{Compact, Full};
        let tools = [tool("a", 10), tool("b", 1_000), tool("c", 10), tool("d", 10)];
        let sizes = pack_results(tools.iter().map(|it| ("x", it)), PackingBudget { tokens: None });
        let full = sizes[0].tokens;
        assert_eq!(pack(&tools, 100_000), [(0, Full), (1, Full), (2, Full), (3, Full)]);
        assert_eq!(pack(&tools, full + 80), [(0, Full), (1, Compact)]);
        assert_eq!(pack(&tools, 3 * full + 80), [(0, Full), (1, Compact), (2, Full), (3, Full)]);
        assert_eq!(pack(&tools, 10), []);
    }

    #[test]
    fn a_compact_definition_has_the_first_sentence_and_what_is_required() {
        let compact: Value = compact_definition("a", &tool("a", 10)).decode().unwrap();
        let expected = json!({"name": "a", "description": "Reads 1.5 files.", "inputSchema": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "mode": {"type": "string", "enum": ["r", "w"]}},
            "required": ["path", "mode"]}});
        assert_eq!(compact, expected);
        let long = Tool::new(ToolName::new("b").unwrap(), "é".repeat(1_000), Json::empty_object());
        let compact: Value = compact_definition("b", &long).decode().unwrap();
        assert_eq!(compact["description"].as_str().unwrap().chars().count(), 201);
    }
}
