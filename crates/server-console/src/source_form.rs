//! The forms of a new source, one for each kind, made from the schema of the configuration file.

use serde_json::{Map, Value, json};
use server_core::configuration_file::SourceEntry;

use crate::argument_form::{ArgumentForm, FieldError};
use crate::form_post::FormFields;

/// Kind of a new source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SourceKind {
    McpUrl,
    McpCommand,
    Module,
    ToolFile,
}

impl SourceKind {
    pub(crate) const ALL: [Self; 4] =
        [Self::McpUrl, Self::McpCommand, Self::Module, Self::ToolFile];

    /// The word in addresses, and the title.
    pub(crate) const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::McpUrl => ("mcp_url", "MCP server at a URL"),
            Self::McpCommand => ("mcp_command", "MCP server as a program"),
            Self::Module => ("module", "HTTP module"),
            Self::ToolFile => ("tools", "Tool file"),
        }
    }

    /// Parses the word; the first kind without one.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        if word.is_empty() {
            return Some(Self::McpUrl);
        }
        Self::ALL.into_iter().find(|kind| kind.names().0 == word)
    }

    /// Keys of the entry that the form has, after its name.
    const fn keys(self) -> &'static [&'static str] {
        match self {
            Self::McpUrl | Self::McpCommand => &["mcp", "trust", "trust_annotations", "timeout"],
            Self::Module => &["module", "credential", "trust", "timeout"],
            Self::ToolFile => &["tools", "trust", "timeout"],
        }
    }

    /// Keys of `mcp` that the form has, the required one first.
    const fn mcp_keys(self) -> &'static [&'static str] {
        match self {
            Self::McpUrl => &["url", "headers", "oauth"],
            Self::McpCommand => &["command", "args", "env", "cwd"],
            Self::Module | Self::ToolFile => &[],
        }
    }

    /// Makes the form from the schema of the configuration file.
    pub(crate) fn form(self, config_schema: &Value) -> ArgumentForm {
        let mut config_schema = config_schema.clone();
        simplify_types(&mut config_schema);
        let config_schema = &config_schema;
        let mcp = pick_properties(config_schema, "Mcp", self.mcp_keys());
        let mut properties = pick_properties(config_schema, "Source", &["name"]);
        for (name, schema) in pick_properties(config_schema, "Source", self.keys()) {
            let schema = if name == "mcp" {
                json!({ "type": "object", "properties": mcp,
                    "required": self.mcp_keys().get(..1).unwrap_or_default() })
            } else {
                schema
            };
            properties.insert(name, schema);
        }
        let required: Vec<_> =
            std::iter::once("name").chain(self.keys().iter().copied().take(1)).collect();
        ArgumentForm::from_schema(&json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "$defs": config_schema.get("$defs"),
        }))
    }

    /// Reads the entry of the configuration file from a form.
    ///
    /// # Errors
    /// All fields whose text is not a value of their type.
    pub(crate) fn read_entry(
        self,
        config_schema: &Value,
        fields: &FormFields,
    ) -> Result<SourceEntry, Vec<FieldError>> {
        let text = self.form(config_schema).read_arguments(fields)?;
        serde_json::from_str(&text).map_err(|error| vec![FieldError::new("", &error.to_string())])
    }
}

/// Returns properties of a definition, in this order.
fn pick_properties(config_schema: &Value, definition: &str, keys: &[&str]) -> Map<String, Value> {
    let all = config_schema.pointer(&format!("/$defs/{definition}/properties"));
    let pick = |key: &&str| {
        let schema = all.and_then(|all| all.get(*key)).cloned().unwrap_or_default();
        ((*key).to_owned(), schema)
    };
    keys.iter().map(pick).collect()
}

/// Simplifies types for a form: a truth value that may also be a variable is a truth value, and a
/// scalar of any type is a text.
fn simplify_types(schema: &mut Value) {
    let is_boolean = schema.pointer("/anyOf/0/type").is_some_and(|name| name == "boolean")
        && schema.pointer("/anyOf/1/pattern").is_some();
    let is_scalar = schema.pointer("/type/0").is_some_and(|name| name == "string");
    if let Some(fields) = schema.as_object_mut() {
        if is_boolean {
            fields.remove("anyOf");
            fields.insert("type".to_owned(), "boolean".into());
        } else if is_scalar {
            fields.insert("type".to_owned(), "string".into());
        }
        fields.values_mut().for_each(simplify_types);
    } else if let Some(items) = schema.as_array_mut() {
        items.iter_mut().for_each(simplify_types);
    }
}
