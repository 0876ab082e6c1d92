//! One tool of a manifest.

use std::time::Duration;

use serde_json::{Map, Value};
use tool::{CallerType, Effect, Effects, Json, Level, Safety, Scope, Traits};

use super::faults::Faults;
use super::{Kind, MCP_NAMES, NAMES, is_mcp_name, is_name, shown};
use crate::parameters;

/// The category of a tool that names none (spec 3).
const CATEGORY: &str = "specialized";
/// Longest description, in bytes.
const MOST_DESCRIPTION: usize = 16 << 10;
/// The longest that a call may be allowed to take.
const LONGEST_CALL: u64 = 3_600_000;

/// A tool as its manifest declares it.
#[derive(Debug, Clone)]
pub(crate) struct Declared {
    pub(crate) name: String,
    pub(crate) description: String,
    /// A dotted name; of Python's tools alone.
    pub(crate) module: String,
    pub(crate) function: String,
    pub(crate) category: String,
    pub(crate) enabled: bool,
    /// As written.
    pub(crate) parameters: Json,
    /// The schema that they mean.
    pub(crate) input: Value,
    pub(crate) dependencies: Vec<String>,
    /// Without what the plugin needs.
    pub(crate) traits: Traits,
    pub(crate) examples: Vec<Example>,
    /// The whole entry as written.
    pub(crate) received: Json,
}

/// A call and what comes of it, for `plugin test`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Example {
    pub(crate) input: Value,
    /// What must be in the answer: members that it names, and those alone.
    pub(crate) output: Option<Value>,
    /// What must be in the text of the failure.
    pub(crate) error: Option<String>,
}

impl Declared {
    /// Reads entry number `index`; what is wrong is told and begins with `Tool {index}: `.
    pub(super) fn read(
        tool: &Value,
        (index, runs): (usize, &Kind),
        faults: &mut Faults,
    ) -> Option<Self> {
        faults.of = format!("Tool {index}: ");
        let read = if let Some(fields) = tool.as_object() {
            Self::of(tool, fields, runs, faults)
        } else {
            faults.tell("it must be an object");
            None
        };
        faults.of = String::new();
        read
    }

    fn of(
        tool: &Value,
        fields: &Map<String, Value>,
        runs: &Kind,
        faults: &mut Faults,
    ) -> Option<Self> {
        let python = *runs == Kind::Python;
        let mcp = matches!(runs, Kind::Mcp(_));
        let required: &[&str] = match runs {
            Kind::Python => &["name", "description", "module", "function"],
            Kind::Command(_) => &["name", "description"],
            Kind::Mcp(_) => &["name"],
        };
        for field in required {
            if fields.get(*field).is_none_or(Value::is_null) {
                faults.tell(format!("missing '{field}'"));
            }
        }
        let name = faults.text(fields, "name")?;
        if !(if mcp { is_mcp_name(&name) } else { is_name(&name) }) {
            let of = if mcp { MCP_NAMES } else { NAMES };
            faults.tell(format!("'name' `{}` must be {of}", shown(&name)));
        }
        let description = faults.text(fields, "description").unwrap_or_default();
        if description.len() > MOST_DESCRIPTION {
            faults.tell(format!("'description' is longer than {MOST_DESCRIPTION} bytes"));
        }
        let module = faults.text(fields, "module").unwrap_or_default();
        let function = faults.text(fields, "function").unwrap_or_else(|| name.clone());
        if python && fields.contains_key("module") && !module.split('.').all(is_identifier) {
            faults.tell(format!("'module' `{}` is no name of a module", shown(&module)));
        }
        if python && !is_identifier(&function) {
            faults.tell(format!("'function' `{}` is no name of a function", shown(&function)));
        }
        let empty = Map::new();
        let parameters = faults.object(fields, "parameters").unwrap_or(&empty);
        let input = parameters::schema(parameters, faults);
        let category = faults.text(fields, "category").unwrap_or_else(|| CATEGORY.to_owned());
        Some(Self {
            traits: traits(fields, &category, faults),
            enabled: faults.flag(fields, "enabled", true),
            dependencies: faults.texts(fields, "dependencies"),
            examples: examples(fields, faults),
            parameters: Json::of(parameters),
            received: Json::of(tool),
            name,
            description,
            module,
            function,
            category,
            input,
        })
    }
}

impl Declared {
    /// A tool of an MCP server that the manifest says nothing of.
    pub(crate) fn listed(own: &str) -> Self {
        let nothing = Map::new();
        let mut faults = Faults::default();
        Self {
            name: own.to_owned(),
            description: String::new(),
            module: String::new(),
            function: String::new(),
            category: CATEGORY.to_owned(),
            enabled: true,
            parameters: Json::empty(),
            input: parameters::schema(&nothing, &mut faults),
            dependencies: Vec::new(),
            traits: traits(&nothing, CATEGORY, &mut faults),
            examples: Vec::new(),
            received: Json::empty(),
        }
    }
}

pub(crate) fn is_identifier(word: &str) -> bool {
    let mut chars = word.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
        && word.len() <= 200
}

/// What policy may ask. A plugin's code reaches into this machine: nobody's guest calls it, unless its
/// manifest says so.
fn traits(fields: &Map<String, Value>, category: &str, faults: &mut Faults) -> Traits {
    let mut categories = vec![category.to_lowercase()];
    for more in faults.texts(fields, "categories") {
        let more = more.to_lowercase();
        if !categories.contains(&more) {
            categories.push(more);
        }
    }
    let effects = faults.words::<Effect>(fields, "side_effects");
    let timeout = faults.number(fields, "timeout_ms").map(|ms| ms.min(LONGEST_CALL));
    Traits {
        level: faults.word(fields, "required_permission").unwrap_or(Level::User),
        scopes: faults.words::<Scope>(fields, "permissions").unwrap_or_default(),
        safety: faults.word(fields, "safety").unwrap_or(Safety::Safe),
        categories,
        effects: effects.map_or(Effects::Unknown, Effects::Declared),
        idempotent: faults.flag(fields, "idempotent", false),
        destructive: faults.flag(fields, "destructive", false),
        callers: callers(fields, faults),
        timeout: timeout.map(Duration::from_millis),
        approval: faults.flag(fields, "requires_approval", false),
        ..Traits::default()
    }
}

/// Spec 3: what is no list means `["direct"]`.
fn callers(fields: &Map<String, Value>, faults: &mut Faults) -> Vec<CallerType> {
    if !fields.get("allowed_callers").is_some_and(Value::is_array) {
        return vec![CallerType::Direct];
    }
    let word = |word: String| match word.as_str() {
        "direct" => Some(CallerType::Direct),
        "chain" => Some(CallerType::Chain),
        other => {
            let told = format!("'allowed_callers': `{}` is none of direct, chain", shown(other));
            faults.tell(told);
            None
        }
    };
    let words = Faults::default().texts(fields, "allowed_callers");
    words.into_iter().filter_map(word).collect()
}

fn examples(fields: &Map<String, Value>, faults: &mut Faults) -> Vec<Example> {
    let Some(Value::Array(all)) = fields.get("examples").filter(|it| !it.is_null()) else {
        if fields.get("examples").is_some_and(|it| !it.is_null()) {
            faults.tell("'examples' must be a list");
        }
        return Vec::new();
    };
    let mut read = Vec::new();
    for example in all.iter().take(100) {
        let input = example.get("input").cloned().unwrap_or_else(|| Value::Object(Map::new()));
        let error = example.get("error").and_then(Value::as_str).map(str::to_owned);
        if !input.is_object() {
            faults.tell("'examples': 'input' must be an object");
        }
        read.push(Example { input, output: example.get("output").cloned(), error });
    }
    read
}
