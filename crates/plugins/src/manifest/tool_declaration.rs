//! Declaration of one tool in a manifest.

use std::time::Duration;

use serde_json::{Map, Value};
use tool::{
    AccessScope, CallerType, Json, PermissionLevel, SafetyLevel, SideEffect, SideEffects,
    ToolTraits,
};

use super::field_errors::FieldErrors;
use super::{
    MCP_NAME_RULE, NAME_RULE, PluginRuntime, escape_for_message, is_mcp_tool_name, is_plugin_name,
};
use crate::parameter_schema;

/// Default category of a tool (research registry).
const DEFAULT_CATEGORY: &str = "specialized";
/// Longest description, in bytes.
const MAX_DESCRIPTION_CHARS: usize = 16 << 10;
/// Maximum time limit of a call, in milliseconds.
const MAX_CALL_TIMEOUT: u64 = 3_600_000;

/// A tool as declared in the manifest.
#[derive(Debug, Clone)]
pub(crate) struct PluginToolDeclaration {
    pub(crate) name: String,
    pub(crate) description: String,
    /// A dotted name; of Python's tools alone.
    pub(crate) module: String,
    pub(crate) function: String,
    pub(crate) category: String,
    pub(crate) is_enabled: bool,
    /// As written.
    pub(crate) parameters: Json,
    /// The schema that they mean.
    pub(crate) input_schema: Value,
    pub(crate) dependencies: Vec<String>,
    /// Traits of the tool, without the access of the plugin.
    pub(crate) traits: ToolTraits,
    pub(crate) examples: Vec<ToolExample>,
    /// The whole entry as written.
    pub(crate) raw_definition: Json,
}

/// An example call with its expected result, for `plugin test`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolExample {
    pub(crate) input: Value,
    /// Members that the result must contain; others are ignored.
    pub(crate) expected_output: Option<Value>,
    /// Text that the error message must contain.
    pub(crate) expected_error: Option<String>,
}

impl PluginToolDeclaration {
    /// Parses entry number `index`. Errors begin with `Tool {index}: `.
    pub(super) fn parse_entry(
        tool: &Value,
        (index, runtime): (usize, &PluginRuntime),
        errors: &mut FieldErrors,
    ) -> Option<Self> {
        errors.prefix = format!("Tool {index}: ");
        let read = if let Some(fields) = tool.as_object() {
            Self::parse_fields(tool, fields, runtime, errors)
        } else {
            errors.push_error("it must be an object");
            None
        };
        errors.prefix = String::new();
        read
    }

    fn parse_fields(
        tool: &Value,
        fields: &Map<String, Value>,
        runs: &PluginRuntime,
        errors: &mut FieldErrors,
    ) -> Option<Self> {
        let python = *runs == PluginRuntime::Python;
        let mcp = matches!(runs, PluginRuntime::Mcp(_));
        let required: &[&str] = match runs {
            PluginRuntime::Python => &["name", "description", "module", "function"],
            PluginRuntime::Command(_) => &["name", "description"],
            PluginRuntime::Mcp(_) => &["name"],
        };
        for field in required {
            if fields.get(*field).is_none_or(Value::is_null) {
                errors.push_error(format!("missing '{field}'"));
            }
        }
        let name = errors.read_string(fields, "name")?;
        if !(if mcp { is_mcp_tool_name(&name) } else { is_plugin_name(&name) }) {
            let name_rule = if mcp { MCP_NAME_RULE } else { NAME_RULE };
            errors
                .push_error(format!("'name' `{}` must be {name_rule}", escape_for_message(&name)));
        }
        let description = errors.read_string(fields, "description").unwrap_or_default();
        if description.len() > MAX_DESCRIPTION_CHARS {
            errors
                .push_error(format!("'description' is longer than {MAX_DESCRIPTION_CHARS} bytes"));
        }
        let module = errors.read_string(fields, "module").unwrap_or_default();
        let function = errors.read_string(fields, "function").unwrap_or_else(|| name.clone());
        if python && fields.contains_key("module") && !module.split('.').all(is_identifier) {
            errors.push_error(format!(
                "invalid module name `{}` in 'module'",
                escape_for_message(&module)
            ));
        }
        if python && !is_identifier(&function) {
            errors.push_error(format!(
                "invalid function name `{}` in 'function'",
                escape_for_message(&function)
            ));
        }
        let empty = Map::new();
        let parameters = errors.read_object(fields, "parameters").unwrap_or(&empty);
        let input = parameter_schema::to_json_schema(parameters, errors);
        let category =
            errors.read_string(fields, "category").unwrap_or_else(|| DEFAULT_CATEGORY.to_owned());
        Some(Self {
            traits: parse_traits(fields, &category, errors),
            is_enabled: errors.read_bool(fields, "enabled", true),
            dependencies: errors.read_strings(fields, "dependencies"),
            examples: parse_examples(fields, errors),
            parameters: Json::encode(parameters),
            raw_definition: Json::encode(tool),
            name,
            description,
            module,
            function,
            category,
            input_schema: input,
        })
    }
}

impl PluginToolDeclaration {
    /// Creates the declaration of an MCP server's tool that the manifest does not mention.
    pub(crate) fn from_server_listing(own_name: &str) -> Self {
        let nothing = Map::new();
        let mut errors = FieldErrors::default();
        Self {
            name: own_name.to_owned(),
            description: String::new(),
            module: String::new(),
            function: String::new(),
            category: DEFAULT_CATEGORY.to_owned(),
            is_enabled: true,
            parameters: Json::empty_object(),
            input_schema: parameter_schema::to_json_schema(&nothing, &mut errors),
            dependencies: Vec::new(),
            traits: parse_traits(&nothing, DEFAULT_CATEGORY, &mut errors),
            examples: Vec::new(),
            raw_definition: Json::empty_object(),
        }
    }
}

pub(crate) fn is_identifier(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
        && text.len() <= 200
}

/// Parses the traits for policy. Plugin code runs on this machine, so guests may not call it unless
/// its manifest allows it.
fn parse_traits(
    fields: &Map<String, Value>,
    category: &str,
    errors: &mut FieldErrors,
) -> ToolTraits {
    let mut categories = vec![category.to_lowercase()];
    for more in errors.read_strings(fields, "categories") {
        let more = more.to_lowercase();
        if !categories.contains(&more) {
            categories.push(more);
        }
    }
    let effects = errors.read_parsed_list::<SideEffect>(fields, "side_effects");
    let timeout =
        errors.read_positive_integer(fields, "timeout_ms").map(|ms| ms.min(MAX_CALL_TIMEOUT));
    ToolTraits {
        min_level: errors
            .read_parsed(fields, "required_permission")
            .unwrap_or(PermissionLevel::User),
        scopes: errors.read_parsed_list::<AccessScope>(fields, "permissions").unwrap_or_default(),
        safety: errors.read_parsed(fields, "safety").unwrap_or(SafetyLevel::Safe),
        categories,
        effects: effects.map_or(SideEffects::Unknown, SideEffects::Declared),
        is_idempotent: errors.read_bool(fields, "idempotent", false),
        is_destructive: errors.read_bool(fields, "destructive", false),
        allowed_callers: parse_callers(fields, errors),
        timeout: timeout.map(Duration::from_millis),
        requires_approval: errors.read_bool(fields, "requires_approval", false),
        ..ToolTraits::default()
    }
}

/// A value that is no list means `["direct"]`, as in the research registry.
fn parse_callers(fields: &Map<String, Value>, errors: &mut FieldErrors) -> Vec<CallerType> {
    if !fields.get("allowed_callers").is_some_and(Value::is_array) {
        return vec![CallerType::Direct];
    }
    let word = |word: String| match word.as_str() {
        "direct" => Some(CallerType::Direct),
        "chain" => Some(CallerType::Chain),
        other => {
            let message = format!(
                "'allowed_callers': unknown value `{}`; use direct or chain",
                escape_for_message(other)
            );
            errors.push_error(message);
            None
        }
    };
    let words = FieldErrors::default().read_strings(fields, "allowed_callers");
    words.into_iter().filter_map(word).collect()
}

fn parse_examples(fields: &Map<String, Value>, errors: &mut FieldErrors) -> Vec<ToolExample> {
    let Some(Value::Array(all)) = fields.get("examples").filter(|it| !it.is_null()) else {
        if fields.get("examples").is_some_and(|it| !it.is_null()) {
            errors.push_error("'examples' must be a list");
        }
        return Vec::new();
    };
    let mut read = Vec::new();
    for example in all.iter().take(100) {
        let input = example.get("input").cloned().unwrap_or_else(|| Value::Object(Map::new()));
        let error = example.get("error").and_then(Value::as_str).map(str::to_owned);
        if !input.is_object() {
            errors.push_error("'examples': 'input' must be an object");
        }
        read.push(ToolExample {
            input,
            expected_output: example.get("output").cloned(),
            expected_error: error,
        });
    }
    read
}
