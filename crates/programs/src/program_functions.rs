//! Functions of a program: the tools that it may call, under their Python names.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use catalog::CatalogEntry;
use gateway::{CatalogView, Gateway};
use identity::Principal;
use serde_json::{Value, json};
use tool::CallerType;

/// Names that Python or the interpreter reserves.
pub(crate) const RESERVED_NAMES: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield", "TOOL", "CALL", "print", "len", "str", "int", "float", "list", "dict", "set",
    "sum", "min", "max", "abs", "all", "any", "sorted", "range", "round", "type", "open", "eval",
    "exec",
];
/// Delegation tools, which programs may not call (research registry).
const DELEGATION_TOOLS: &[&str] = &["delegate", "escalate"];
/// Bytes of the functions in a description: about 1,500 tokens.
const MAX_SIGNATURES_BYTES: usize = 6_000;
/// Number of cached function tables.
const MAX_CACHED_VIEWS: usize = 16;

/// A tool as a Python function.
#[derive(Debug, Clone)]
pub(crate) struct ScriptFunction {
    pub(crate) entry: Arc<CatalogEntry>,
    /// Whether a program may call it.
    pub(crate) is_chainable: bool,
    /// Parsed from the schema at the first call with positional arguments.
    parameters: Arc<OnceLock<Vec<String>>>,
}

impl ScriptFunction {
    pub(crate) fn tool_name(&self) -> &str {
        self.entry.name.as_str()
    }

    pub(crate) fn is_read_only(&self) -> bool {
        !self.entry.tool.traits.effects.may_change_state()
    }

    /// Returns whether the tool delegates work to another agent, which programs must not do.
    pub(crate) fn is_delegation_tool(&self) -> bool {
        DELEGATION_TOOLS.contains(&self.entry.tool_key.name.as_str())
    }

    /// Returns whether a repeated call has no further effect.
    pub(crate) fn is_repeatable(&self) -> bool {
        self.is_read_only() || self.entry.tool.traits.is_idempotent
    }

    /// Returns the parameter names: required ones first, each in the order of the definition.
    pub(crate) fn parameter_names(&self) -> &[String] {
        self.parameters.get_or_init(|| self.ordered_parameters())
    }

    fn ordered_parameters(&self) -> Vec<String> {
        let input = self.entry.tool.input_schema.to_value();
        let properties = input.get("properties").and_then(Value::as_object);
        let required: Vec<&str> = input
            .get("required")
            .and_then(Value::as_array)
            .map(|names| names.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let names = || properties.into_iter().flat_map(|it| it.keys());
        let is_required = |name: &&String| required.contains(&name.as_str());
        let others = names().filter(|name| !is_required(name));
        names().filter(is_required).chain(others).cloned().collect()
    }
}

/// Functions of one view, by Python name.
#[derive(Debug, Default)]
pub(crate) struct FunctionTable {
    by_name: BTreeMap<String, ScriptFunction>,
    /// Created on first use.
    signatures_text: OnceLock<String>,
}

impl FunctionTable {
    fn new(direct: &CatalogView, chain: &CatalogView) -> Self {
        let chained: HashSet<&str> = chain.list_tools().map(|entry| entry.name.as_str()).collect();
        let mut all = BTreeMap::new();
        // Callable functions come first, so that no other tool takes their names.
        for allowed in [true, false] {
            for entry in direct.list_tools().chain(chain.list_tools().filter(|_| allowed)) {
                let tool = entry.name.as_str();
                let (entry, parameters) = (Arc::clone(entry), Arc::default());
                let mut function = ScriptFunction { entry, is_chainable: false, parameters };
                function.is_chainable = chained.contains(tool) && !function.is_delegation_tool();
                if function.is_chainable == allowed {
                    all.entry(python_identifier(tool)).or_insert(function);
                }
            }
        }
        Self { by_name: all, signatures_text: OnceLock::new() }
    }

    /// Finds a function by its Python name or by the tool's own name.
    pub(crate) fn find_function(&self, name: &str) -> Option<&ScriptFunction> {
        self.by_name.get(name).or_else(|| self.by_name.get(&python_identifier(name))).filter(
            |function| {
                function.tool_name() == name || python_identifier(function.tool_name()) == name
            },
        )
    }

    /// Returns the functions whose name occurs in `code`, also within a string.
    pub(crate) fn find_in_script(&self, code: &str) -> BTreeMap<String, ScriptFunction> {
        let word = |c: char| !(c.is_alphanumeric() || c == '_');
        let quoted = |c: char| matches!(c, '"' | '\'');
        let names = code.split(word).chain(code.split(quoted)).filter(|it| it.len() <= 200);
        names
            .collect::<HashSet<_>>()
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), self.find_function(name)?.clone())))
            .collect()
    }

    /// Returns the function signatures for the description of `run_program`, as many as fit.
    pub(crate) fn signatures_text(&self) -> &str {
        self.signatures_text.get_or_init(|| {
            let chained = || self.by_name.iter().filter(|(_, it)| it.is_chainable);
            let (mut text, mut shown) = ("Functions:".to_owned(), 0);
            for (name, it) in chained() {
                let line = format_signature(name, it);
                if text.len() + line.len() > MAX_SIGNATURES_BYTES {
                    break;
                }
                text.push('\n');
                text.push_str(&line);
                shown += 1;
            }
            match chained().count() - shown {
                0 => text,
                more => format!("{text}\nand {more} more; call get_chainable_tools to list them"),
            }
        })
    }

    /// Returns the functions as JSON.
    pub(crate) fn to_json(&self) -> Value {
        let chained = self.by_name.iter().filter(|(_, it)| it.is_chainable);
        let all: Vec<Value> = chained
            .map(|(name, it)| {
                json!({
                    "function": name, "tool": it.tool_name(), "signature": format_signature(name, it),
                    "description": it.entry.tool.description, "read_only": it.is_read_only(),
                    "effects": it.entry.tool.traits.effects.effect_names(),
                })
            })
            .collect();
        json!({ "count": all.len(), "tools": all })
    }
}

/// Formats a signature as a line of Python, with the types from the schema.
fn format_signature(name: &str, function: &ScriptFunction) -> String {
    let input = function.entry.tool.input_schema.to_value();
    let required = input.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let parameter = |name: &String| {
        let kind =
            input.get("properties").and_then(|it| it.get(name)).and_then(|it| it.get("type"));
        let kind = match kind.and_then(Value::as_str) {
            Some("string") => ": str",
            Some("integer") => ": int",
            Some("number") => ": float",
            Some("boolean") => ": bool",
            Some("array") => ": list",
            Some("object") => ": dict",
            _ => "",
        };
        let optional = if required.contains(&json!(name)) { "" } else { " = None" };
        format!("{name}{kind}{optional}")
    };
    let parameters: Vec<String> = function.parameter_names().iter().map(parameter).collect();
    format!("{name}({})", parameters.join(", "))
}

/// Converts a tool name to a Python identifier.
pub(crate) fn python_identifier(tool: &str) -> String {
    let fits = |c: char| if c.is_alphanumeric() || c == '_' { c } else { '_' };
    let mut name: String = tool.chars().map(fits).collect();
    if name.starts_with(|c: char| c.is_numeric()) {
        name.insert(0, '_');
    }
    if RESERVED_NAMES.contains(&name.as_str()) {
        name.push('_');
    }
    name
}

/// Cache of function tables; a table is built once for each pair of views.
#[derive(Debug, Default)]
pub(crate) struct FunctionTableCache(Mutex<Vec<(ViewPair, Arc<FunctionTable>)>>);

type ViewPair = (Arc<CatalogView>, Arc<CatalogView>);

impl FunctionTableCache {
    pub(crate) fn get_or_build(
        &self,
        gateway: &Gateway,
        principal: &Principal,
    ) -> Arc<FunctionTable> {
        let direct = gateway.view_for(principal, CallerType::Direct);
        let chain = gateway.view_for(principal, CallerType::Chain);
        let same = |pair: &ViewPair| Arc::ptr_eq(&pair.0, &direct) && Arc::ptr_eq(&pair.1, &chain);
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, functions)) = cached.iter().find(|(pair, _)| same(pair)) {
            return Arc::clone(functions);
        }
        let functions = Arc::new(FunctionTable::new(&direct, &chain));
        if cached.len() == MAX_CACHED_VIEWS {
            cached.remove(0);
        }
        cached.push(((direct, chain), Arc::clone(&functions)));
        functions
    }
}
