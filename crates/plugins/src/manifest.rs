//! `manifest.json` (research registry): the metadata of a plugin and the declarations of its tools.
//!
//! All errors of a file are reported in one message, in the research registry's format. A manifest
//! grants no access.

mod field_errors;
mod schema;
#[cfg(test)]
mod tests;
mod tool_declaration;

use serde_json::{Map, Value};
use tool::display_text::truncate_and_escape_debug;
use tool::{Json, JsonLimits, Problem};

pub(crate) use field_errors::FieldErrors;
pub use schema::SCHEMA;
pub(crate) use tool_declaration::{PluginToolDeclaration, ToolExample, is_identifier};

use crate::access::RequestedAccess;
use crate::plugin_folder::{FolderContent, MANIFEST_FILE};

/// Most tools of one plugin.
pub(crate) const MAX_TOOLS: usize = 200;
/// Longest name of a plugin or a tool, in characters: both together with a dot are a tool's name.
const MAX_NAME_CHARS: usize = 60;
/// Known fields of a manifest.
const KNOWN_FIELDS: [&str; 13] = [
    "$schema",
    "schema_version",
    "name",
    "version",
    "description",
    "enabled",
    "dependencies",
    "settings_schema",
    "tools",
    "kind",
    "command",
    "needs",
    "author",
];

/// A parsed and valid manifest.
#[derive(Debug, Clone)]
pub struct PluginManifest {
    /// The plugin's name: small letters, digits and `_`.
    pub name: String,
    /// The plugin's version string.
    pub version: String,
    /// The plugin's description of its purpose.
    pub description: String,
    /// Whether the plugin is enabled.
    pub is_enabled: bool,
    pub(crate) kind: PluginRuntime,
    pub(crate) dependencies: Vec<String>,
    pub(crate) settings_schema: Map<String, Value>,
    pub(crate) requested_access: RequestedAccess,
    pub(crate) tools: Vec<PluginToolDeclaration>,
    /// Warnings that do not prevent the use of the plugin.
    pub(crate) warnings: Vec<String>,
}

/// Kind of process that runs a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PluginRuntime {
    /// Functions of modules in its folder.
    Python,
    /// A program that speaks the lines of a plugin.
    Command(Vec<String>),
    /// An MCP server.
    Mcp(Vec<String>),
}

impl PluginRuntime {
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Command(_) => "command",
            Self::Mcp(_) => "mcp",
        }
    }
}

/// Error of an invalid manifest, with all problems in one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Invalid manifest {place}: {faults}")]
pub struct ManifestError {
    /// The file.
    pub place: String,
    /// All problems, joined by `; `.
    pub faults: String,
}

impl PluginManifest {
    /// Reads the text of the manifest at `place`.
    ///
    /// # Errors
    /// [`ManifestError`] with everything that is wrong.
    pub fn parse_manifest(text: &[u8], manifest_path: &str) -> Result<Self, ManifestError> {
        let error =
            |errors: String| ManifestError { place: manifest_path.to_owned(), faults: errors };
        let json = Json::parse(text.to_vec(), JsonLimits::DEFINITION);
        let json = json.map_err(|fault| error(format!("it is not valid JSON: {fault}")))?;
        let value = json.to_value();
        let Some(fields) = value.as_object() else {
            return Err(error("it must be an object".to_owned()));
        };
        let mut faults = FieldErrors::default();
        let manifest = Self::parse_fields(fields, &mut faults);
        match manifest {
            Some(manifest) if faults.is_empty() => Ok(manifest),
            _ => Err(error(faults.join_errors())),
        }
    }

    /// Parses the manifest of a plugin folder.
    ///
    /// # Errors
    /// The errors of the manifest, or that it is missing.
    pub(crate) fn from_content(
        content: &FolderContent,
        manifest_path: &str,
    ) -> Result<Self, Problem> {
        let missing = || Problem::new(manifest_path, "the manifest does not exist");
        let text = content.file_content(MANIFEST_FILE).ok_or_else(missing)?;
        Self::parse_manifest(text, manifest_path)
            .map_err(|error| Problem::new(manifest_path, error.to_string()))
    }

    fn parse_fields(fields: &Map<String, Value>, errors: &mut FieldErrors) -> Option<Self> {
        for field in ["name", "version", "description"] {
            errors.require_field(fields, field);
        }
        check_schema_version(fields.get("schema_version"), errors);
        let name = errors.read_string(fields, "name").unwrap_or_default();
        if fields.contains_key("name") && !is_plugin_name(&name) {
            errors
                .push_error(format!("'name' `{}` must be {NAME_RULE}", escape_for_message(&name)));
        }
        let kind = parse_kind(fields, errors);
        let tools = match fields.get("tools") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(tools)) => tools.clone(),
            Some(_) => {
                errors.push_error("'tools' must be a list");
                Vec::new()
            }
        };
        if tools.len() > MAX_TOOLS {
            errors.push_error(format!(
                "'tools' has {} entries; the maximum is {MAX_TOOLS}",
                tools.len()
            ));
        }
        let runs = kind.as_ref().unwrap_or(&PluginRuntime::Python);
        let mut declared = Vec::new();
        for (index, tool) in tools.iter().take(MAX_TOOLS).enumerate() {
            declared.extend(PluginToolDeclaration::parse_entry(tool, (index, runs), errors));
        }
        check_duplicates(&declared, errors);
        let unknown = fields.keys().filter(|key| !KNOWN_FIELDS.contains(&key.as_str()));
        let remarks = unknown.map(|key| format!("unknown key `{}`", escape_for_message(key)));
        let remarks = remarks.take(10).collect();
        let empty = Map::new();
        let settings_schema =
            errors.read_object(fields, "settings_schema").unwrap_or(&empty).clone();
        Some(Self {
            name,
            version: errors.read_string(fields, "version").unwrap_or_default(),
            description: errors.read_string(fields, "description").unwrap_or_default(),
            is_enabled: errors.read_bool(fields, "enabled", true),
            dependencies: errors.read_strings(fields, "dependencies"),
            requested_access: RequestedAccess::from_manifest(fields.get("needs"), errors),
            kind: kind?,
            settings_schema,
            tools: declared,
            warnings: remarks,
        })
    }
}

/// Rule for plugin names, for messages.
const NAME_RULE: &str = "at most 60 lower-case letters, digits and `_`, beginning with a letter";

pub(crate) fn is_plugin_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(fits)
        && name.len() <= MAX_NAME_CHARS
}

/// Rule for MCP tool names, for messages.
const MCP_NAME_RULE: &str = "at most 60 letters, digits, `_`, `-` and `.`";

fn is_mcp_tool_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    !name.is_empty() && name.chars().all(fits) && name.len() <= MAX_NAME_CHARS
}

pub(crate) fn escape_for_message(text: &str) -> String {
    truncate_and_escape_debug(text, 80)
}

fn check_schema_version(version: Option<&Value>, errors: &mut FieldErrors) {
    match version {
        None | Some(Value::Null) => {}
        Some(Value::String(text)) if text == "1" || text.starts_with("1.") => {}
        Some(other) => {
            let other = escape_for_message(&other.to_string());
            errors.push_error(format!("'schema_version' {other} is not supported; use \"1.0\""));
        }
    }
}

fn parse_kind(fields: &Map<String, Value>, errors: &mut FieldErrors) -> Option<PluginRuntime> {
    let command = || fields.get("command").is_some();
    let kind = match fields.get("kind") {
        None | Some(Value::Null) if command() => "command",
        None | Some(Value::Null) => "python",
        Some(Value::String(kind)) => kind,
        Some(_) => "",
    };
    match kind {
        "python" if command() => {
            errors.push_error("'command' is only for the kinds command and mcp");
            None
        }
        "python" => Some(PluginRuntime::Python),
        "command" => parse_command(fields, errors).map(PluginRuntime::Command),
        "mcp" => parse_command(fields, errors).map(PluginRuntime::Mcp),
        _ => {
            errors.push_error("'kind' must be one of python, command, mcp");
            None
        }
    }
}

/// The program and its arguments.
fn parse_command(fields: &Map<String, Value>, errors: &mut FieldErrors) -> Option<Vec<String>> {
    let words = match fields.get("command") {
        Some(Value::String(word)) => vec![word.clone()],
        Some(Value::Array(_)) => errors.read_strings(fields, "command"),
        _ => Vec::new(),
    };
    let fits = words.first().is_some_and(|word| !word.is_empty())
        && words.len() <= 64
        && words.iter().all(|word| word.len() <= 4096 && !word.contains('\0'));
    if !fits {
        errors.push_error("'command' must be a list of the program and its arguments");
    }
    fits.then_some(words)
}

fn check_duplicates(tools: &[PluginToolDeclaration], errors: &mut FieldErrors) {
    for (index, tool) in tools.iter().enumerate() {
        if tools.iter().take(index).any(|other| other.name == tool.name) {
            errors.push_error(format!(
                "Tool {index}: the tool `{}` already exists",
                escape_for_message(&tool.name)
            ));
        }
    }
}
