//! Which tools a program can call, under which names of Python.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use catalog::Entry;
use gateway::{Gateway, View};
use identity::Principal;
use serde_json::{Value, json};
use tool::CallerType;

/// Names that a script has already.
pub(crate) const TAKEN: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield", "TOOL", "CALL", "print", "len", "str", "int", "float", "list", "dict", "set",
    "sum", "min", "max", "abs", "all", "any", "sorted", "range", "round", "type", "open", "eval",
    "exec",
];
/// Tools that hand the work to another: never part of a program (spec 3).
const ROUTING: &[&str] = &["delegate", "escalate"];
/// Bytes of the functions in a description: about 1,500 tokens.
const DESCRIBED: usize = 6_000;
/// Views whose functions are remembered.
const VIEWS: usize = 16;

/// A tool as a function.
#[derive(Debug, Clone)]
pub(crate) struct Function {
    pub(crate) entry: Arc<Entry>,
    /// Whether a program may call it.
    pub(crate) chain: bool,
    /// Read from its schema when it is first called by place.
    parameters: Arc<OnceLock<Vec<String>>>,
}

impl Function {
    pub(crate) fn tool(&self) -> &str {
        self.entry.name.as_str()
    }

    pub(crate) fn read_only(&self) -> bool {
        !self.entry.tool.traits.effects.any()
    }

    /// Whether it hands the work to another, which a program never does.
    pub(crate) fn routes(&self) -> bool {
        ROUTING.contains(&self.entry.key.name.as_str())
    }

    /// Whether a second call changes nothing that the first did not.
    pub(crate) fn may_repeat(&self) -> bool {
        self.read_only() || self.entry.tool.traits.idempotent
    }

    /// The names of its parameters: what is required first, each in the order of the definition.
    pub(crate) fn parameters(&self) -> &[String] {
        self.parameters.get_or_init(|| self.read_parameters())
    }

    fn read_parameters(&self) -> Vec<String> {
        let input = self.entry.tool.input.value();
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

/// The functions of one view.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    all: BTreeMap<String, Function>,
    /// Made when it is first asked for.
    described: OnceLock<String>,
}

impl Functions {
    fn new(direct: &View, chain: &View) -> Self {
        let chained: HashSet<&str> = chain.tools().map(|entry| entry.name.as_str()).collect();
        let mut all = BTreeMap::new();
        // What a program may call comes first, so that nothing else takes its name.
        for allowed in [true, false] {
            for entry in direct.tools().chain(chain.tools().filter(|_| allowed)) {
                let tool = entry.name.as_str();
                let (entry, parameters) = (Arc::clone(entry), Arc::default());
                let mut function = Function { entry, chain: false, parameters };
                function.chain = chained.contains(tool) && !function.routes();
                if function.chain == allowed {
                    all.entry(python(tool)).or_insert(function);
                }
            }
        }
        Self { all, described: OnceLock::new() }
    }

    /// By function name, or by the tool's own.
    pub(crate) fn find(&self, name: &str) -> Option<&Function> {
        self.all
            .get(name)
            .or_else(|| self.all.get(&python(name)))
            .filter(|function| function.tool() == name || python(function.tool()) == name)
    }

    /// Those whose name stands somewhere in `code`, also within a text.
    pub(crate) fn named_in(&self, code: &str) -> BTreeMap<String, Function> {
        let word = |c: char| !(c.is_alphanumeric() || c == '_');
        let quoted = |c: char| matches!(c, '"' | '\'');
        let names = code.split(word).chain(code.split(quoted)).filter(|it| it.len() <= 200);
        names
            .collect::<HashSet<_>>()
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), self.find(name)?.clone())))
            .collect()
    }

    /// The functions as lines of Python, for the description of the tool that runs programs: as many as fit.
    pub(crate) fn described(&self) -> &str {
        self.described.get_or_init(|| {
            let chained = || self.all.iter().filter(|(_, it)| it.chain);
            let (mut text, mut shown) = ("Functions:".to_owned(), 0);
            for (name, it) in chained() {
                let line = signature(name, it);
                if text.len() + line.len() > DESCRIBED {
                    break;
                }
                text.push('\n');
                text.push_str(&line);
                shown += 1;
            }
            match chained().count() - shown {
                0 => text,
                more => format!("{text}\nand {more} more, which get_chainable_tools lists"),
            }
        })
    }

    /// For people and models.
    pub(crate) fn shown(&self) -> Value {
        let chained = self.all.iter().filter(|(_, it)| it.chain);
        let all: Vec<Value> = chained
            .map(|(name, it)| {
                json!({
                    "function": name, "tool": it.tool(), "signature": signature(name, it),
                    "description": it.entry.tool.description, "read_only": it.read_only(),
                    "effects": it.entry.tool.traits.effects.words(),
                })
            })
            .collect();
        json!({ "count": all.len(), "tools": all })
    }
}

/// As a line of Python, with the types that the schema names.
fn signature(name: &str, function: &Function) -> String {
    let input = function.entry.tool.input.value();
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
    let parameters: Vec<String> = function.parameters().iter().map(parameter).collect();
    format!("{name}({})", parameters.join(", "))
}

/// A tool's name as one of Python.
pub(crate) fn python(tool: &str) -> String {
    let fits = |c: char| if c.is_alphanumeric() || c == '_' { c } else { '_' };
    let mut name: String = tool.chars().map(fits).collect();
    if name.starts_with(|c: char| c.is_numeric()) {
        name.insert(0, '_');
    }
    if TAKEN.contains(&name.as_str()) {
        name.push('_');
    }
    name
}

/// The functions of the views that were asked for lately: they are made once for each.
#[derive(Debug, Default)]
pub(crate) struct Cached(Mutex<Vec<(Pair, Arc<Functions>)>>);

type Pair = (Arc<View>, Arc<View>);

impl Cached {
    pub(crate) fn of(&self, gateway: &Gateway, who: &Principal) -> Arc<Functions> {
        let direct = gateway.view(who, CallerType::Direct);
        let chain = gateway.view(who, CallerType::Chain);
        let same = |pair: &Pair| Arc::ptr_eq(&pair.0, &direct) && Arc::ptr_eq(&pair.1, &chain);
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, functions)) = cached.iter().find(|(pair, _)| same(pair)) {
            return Arc::clone(functions);
        }
        let functions = Arc::new(Functions::new(&direct, &chain));
        if cached.len() == VIEWS {
            cached.remove(0);
        }
        cached.push(((direct, chain), Arc::clone(&functions)));
        functions
    }
}
