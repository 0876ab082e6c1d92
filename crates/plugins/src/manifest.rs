//! `manifest.json` (spec 3): what a plugin is, and what it declares of its tools.
//!
//! All faults of a file are told in one message, in spec 3's words. What a manifest says grants nothing.

mod declared;
mod faults;
mod schema;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};
use tool::{Json, Limits, Problem};

pub(crate) use declared::{Declared, Example, is_identifier};
pub(crate) use faults::Faults;
pub use schema::SCHEMA;

use crate::folder::{Content, MANIFEST};
use crate::grant::Needs;

/// Most tools of one plugin.
pub(crate) const MOST_TOOLS: usize = 200;
/// Longest name of a plugin or a tool, in characters: both together with a dot are a tool's name.
const LONGEST: usize = 60;
/// What a manifest may hold beside what a plugin needs.
const KNOWN: [&str; 13] = [
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

/// A manifest that was read and keeps every rule.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// The plugin's name: small letters, digits and `_`.
    pub name: String,
    /// Its version, by its own word.
    pub version: String,
    /// What it is for.
    pub description: String,
    /// Whether it is to be used at all.
    pub enabled: bool,
    pub(crate) kind: Kind,
    pub(crate) dependencies: Vec<String>,
    pub(crate) settings_schema: Map<String, Value>,
    pub(crate) needs: Needs,
    pub(crate) tools: Vec<Declared>,
    /// What is odd and does no harm.
    pub(crate) remarks: Vec<String>,
}

/// How a plugin is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Functions of modules in its folder.
    Python,
    /// A program that speaks the lines of a plugin.
    Command(Vec<String>),
    /// An MCP server.
    Mcp(Vec<String>),
}

impl Kind {
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Command(_) => "command",
            Self::Mcp(_) => "mcp",
        }
    }
}

/// Why a manifest cannot be used: all of it in one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Invalid manifest {place}: {faults}")]
pub struct ManifestError {
    /// The file.
    pub place: String,
    /// What is wrong, joined by `; `.
    pub faults: String,
}

impl Manifest {
    /// Reads the text of the manifest at `place`.
    ///
    /// # Errors
    /// [`ManifestError`] with everything that is wrong.
    pub fn read(text: &[u8], place: &str) -> Result<Self, ManifestError> {
        let error = |faults: String| ManifestError { place: place.to_owned(), faults };
        let json = Json::check(text.to_vec(), Limits::DEFINITION);
        let json =
            json.map_err(|fault| error(format!("it is no JSON that can be used: {fault}")))?;
        let value = json.value();
        let Some(fields) = value.as_object() else {
            return Err(error("it must be an object".to_owned()));
        };
        let mut faults = Faults::default();
        let manifest = Self::of(fields, &mut faults);
        match manifest {
            Some(manifest) if faults.is_empty() => Ok(manifest),
            _ => Err(error(faults.joined())),
        }
    }

    /// Reads the manifest among the files of a plugin.
    ///
    /// # Errors
    /// What is wrong with it, or that it is not there.
    pub(crate) fn of_content(content: &Content, place: &str) -> Result<Self, Problem> {
        let missing = || Problem::new(place, "the manifest is not there");
        let text = content.file(MANIFEST).ok_or_else(missing)?;
        Self::read(text, place).map_err(|error| Problem::new(place, error.to_string()))
    }

    fn of(fields: &Map<String, Value>, faults: &mut Faults) -> Option<Self> {
        for field in ["name", "version", "description"] {
            faults.required(fields, field);
        }
        version_known(fields.get("schema_version"), faults);
        let name = faults.text(fields, "name").unwrap_or_default();
        if fields.contains_key("name") && !is_name(&name) {
            faults.tell(format!("'name' `{}` must be {NAMES}", shown(&name)));
        }
        let kind = kind(fields, faults);
        let tools = match fields.get("tools") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(tools)) => tools.clone(),
            Some(_) => {
                faults.tell("'tools' must be a list");
                Vec::new()
            }
        };
        if tools.len() > MOST_TOOLS {
            faults.tell(format!("'tools' has {} entries, {MOST_TOOLS} are allowed", tools.len()));
        }
        let runs = kind.as_ref().unwrap_or(&Kind::Python);
        let mut declared = Vec::new();
        for (index, tool) in tools.iter().take(MOST_TOOLS).enumerate() {
            declared.extend(Declared::read(tool, (index, runs), faults));
        }
        twice(&declared, faults);
        let unknown = fields.keys().filter(|key| !KNOWN.contains(&key.as_str()));
        let remarks = unknown.map(|key| format!("the key `{}` means nothing here", shown(key)));
        let remarks = remarks.take(10).collect();
        let empty = Map::new();
        let settings_schema = faults.object(fields, "settings_schema").unwrap_or(&empty).clone();
        Some(Self {
            name,
            version: faults.text(fields, "version").unwrap_or_default(),
            description: faults.text(fields, "description").unwrap_or_default(),
            enabled: faults.flag(fields, "enabled", true),
            dependencies: faults.texts(fields, "dependencies"),
            needs: Needs::read(fields.get("needs"), faults),
            kind: kind?,
            settings_schema,
            tools: declared,
            remarks,
        })
    }
}

/// What names are made of.
const NAMES: &str = "small letters, digits and `_`, beginning with a letter, 60 at most";

pub(crate) fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(fits)
        && name.len() <= LONGEST
}

/// What MCP's names of tools are made of.
const MCP_NAMES: &str = "letters, digits, `_`, `-` and `.`, 60 at most";

fn is_mcp_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    !name.is_empty() && name.chars().all(fits) && name.len() <= LONGEST
}

pub(crate) fn shown(text: &str) -> String {
    text.chars().take(80).flat_map(char::escape_debug).collect()
}

fn version_known(version: Option<&Value>, faults: &mut Faults) {
    match version {
        None | Some(Value::Null) => {}
        Some(Value::String(text)) if text == "1" || text.starts_with("1.") => {}
        Some(other) => {
            let other = shown(&other.to_string());
            faults
                .tell(format!("'schema_version' {other} is not known; this version reads \"1.0\""));
        }
    }
}

fn kind(fields: &Map<String, Value>, faults: &mut Faults) -> Option<Kind> {
    let command = || fields.get("command").is_some();
    let kind = match fields.get("kind") {
        None | Some(Value::Null) if command() => "command",
        None | Some(Value::Null) => "python",
        Some(Value::String(kind)) => kind,
        Some(_) => "",
    };
    match kind {
        "python" if command() => {
            faults.tell("'command' belongs to the kinds command and mcp");
            None
        }
        "python" => Some(Kind::Python),
        "command" => words(fields, faults).map(Kind::Command),
        "mcp" => words(fields, faults).map(Kind::Mcp),
        _ => {
            faults.tell("'kind' must be one of python, command, mcp");
            None
        }
    }
}

/// The program and its arguments.
fn words(fields: &Map<String, Value>, faults: &mut Faults) -> Option<Vec<String>> {
    let words = match fields.get("command") {
        Some(Value::String(word)) => vec![word.clone()],
        Some(Value::Array(_)) => faults.texts(fields, "command"),
        _ => Vec::new(),
    };
    let fits = words.first().is_some_and(|word| !word.is_empty())
        && words.len() <= 64
        && words.iter().all(|word| word.len() <= 4096 && !word.contains('\0'));
    if !fits {
        faults.tell("'command' must be a list of the program and its arguments");
    }
    fits.then_some(words)
}

fn twice(tools: &[Declared], faults: &mut Faults) {
    for (index, tool) in tools.iter().enumerate() {
        if tools.iter().take(index).any(|other| other.name == tool.name) {
            faults.tell(format!("Tool {index}: there is a tool `{}` already", shown(&tool.name)));
        }
    }
}
