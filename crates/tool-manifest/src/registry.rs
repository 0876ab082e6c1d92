//! Declarations of built-in tools in the shape of spec 3's `tool_registry.yaml`, read from JSON
//! that the build generates.

mod narrow;
mod schema;

pub use narrow::Narrowing;

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tool::{
    CallerType, Effect, Effects, Executor, Json, Level, Safety, Scope, Tool, ToolName, Traits,
};

use crate::builtin::{Aside, Builtin, Compute, Pure};
use crate::work::{Long, Work};

/// All declared tools, in file order.
#[derive(Debug, Clone)]
pub struct Registry(Vec<Declared>);

/// Declaration of one tool.
#[derive(Debug, Clone)]
pub struct Declared {
    tool: Arc<Tool>,
    handler: Arc<str>,
    /// JSON Schema of the arguments.
    input: Value,
}

/// Default and maximum of a numeric argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// Default value.
    pub usual: u64,
    /// Largest value.
    pub most: u64,
}

impl Bound {
    /// Returns the argument or its default, limited to the maximum.
    pub fn of(self, args: &Value, name: &str) -> u64 {
        args.get(name).and_then(Value::as_u64).unwrap_or(self.usual).min(self.most)
    }

    /// Returns the argument as a size.
    pub fn size(self, args: &Value, name: &str) -> usize {
        usize::try_from(self.of(args, name)).unwrap_or(usize::MAX)
    }
}

impl Registry {
    /// Parses the JSON that the build generates from a `tool_registry.yaml`.
    ///
    /// # Errors
    /// The error of serde for a malformed file.
    pub fn read(text: &str) -> Result<Self, serde_json::Error> {
        let entries: Vec<Entry> = serde_json::from_str(text)?;
        Ok(Self(entries.into_iter().map(Entry::declared).collect()))
    }

    /// Returns the declaration of `name`, unless it is missing or disabled.
    pub fn get(&self, name: &str) -> Option<&Declared> {
        self.0.iter().find(|declared| declared.tool.name.as_str() == name)
    }

    /// Returns the position of `builtin` in the file; tools of other registries come last.
    pub fn place(&self, builtin: &Builtin) -> usize {
        let same = |declared: &Declared| declared.tool.name == builtin.tool.name;
        self.0.iter().position(same).unwrap_or(usize::MAX)
    }

    /// Returns the names of all tools.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|declared| declared.tool.name.as_str())
    }
}

impl Declared {
    /// Returns default and maximum of a numeric argument; 0 if the file lacks them, which the
    /// tool's tests detect.
    pub fn bound(&self, name: &str) -> Bound {
        let parameter = self.input.get("properties").and_then(|all| all.get(name));
        let number = |key| parameter.and_then(|it| it.get(key)).and_then(Value::as_u64);
        let most = number("maximum").unwrap_or(0);
        Bound { usual: number("default").unwrap_or(most), most }
    }

    /// Binds the declaration to a function that runs on the calling task.
    pub fn pure(&self, compute: impl Compute + 'static) -> Builtin {
        self.run_by(Pure(compute))
    }

    /// Binds the declaration to a function that may take over a millisecond and runs on a blocking
    /// thread.
    pub fn aside(&self, compute: impl Compute + 'static) -> Builtin {
        self.run_by(Aside(Arc::new(compute)))
    }

    /// Binds the declaration to work that may take seconds and reports progress.
    pub fn long(&self, work: impl Work + 'static) -> Builtin {
        self.run_by(Long(Arc::new(work)))
    }

    /// Returns the tool's definition.
    pub fn tool(&self) -> &Arc<Tool> {
        &self.tool
    }

    /// Appends a sentence to the description, for facts known only at run time.
    #[must_use]
    pub fn with_description(&self, more: &str) -> Self {
        let mut tool = Tool::clone(&self.tool);
        tool.description = format!("{} {more}", tool.description.trim_end());
        let description = Json::of(&tool.description);
        tool.received = tool.received.with("description", &description);
        Self { tool: Arc::new(tool), ..self.clone() }
    }

    /// Binds the declaration to an executor.
    pub fn run_by(&self, executor: impl Executor + 'static) -> Builtin {
        let (tool, handler) = (Arc::clone(&self.tool), Arc::clone(&self.handler));
        Builtin { tool, executor: Arc::new(executor), handler }
    }
}

/// A serialized declaration.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    category: String,
    #[serde(default)]
    categories: Vec<String>,
    description: String,
    parameters: Map<String, Value>,
    #[serde(default)]
    other_parameters: bool,
    returns: Value,
    permissions: Vec<Scope>,
    #[serde(default = "guest")]
    required_permission: Level,
    #[serde(default = "safe")]
    safety: Safety,
    side_effects: Vec<Effect>,
    #[serde(default)]
    destructive: bool,
    allowed_callers: Vec<CallerType>,
    timeout_ms: Option<u64>,
    arguments_mib: Option<usize>,
    implementation: Option<Implementation>,
    #[serde(rename = "examples")]
    _examples: serde::de::IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Implementation {
    #[serde(rename = "type")]
    _kind: Kind,
    handler: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Builtin,
}

fn guest() -> Level {
    Level::Guest
}

fn safe() -> Safety {
    Safety::Safe
}

impl Entry {
    fn declared(self) -> Declared {
        let input = schema::of_parameters(self.parameters, self.other_parameters);
        let output = schema::of_value(self.returns);
        let handler = self.implementation.map_or_else(|| self.name.clone(), |it| it.handler);
        let mut categories = vec![self.category];
        categories.extend(self.categories);
        let effects = Effects::Declared(self.side_effects);
        let traits = Traits {
            level: self.required_permission,
            scopes: self.permissions,
            safety: self.safety,
            categories,
            idempotent: !effects.any(),
            effects,
            destructive: self.destructive,
            callers: self.allowed_callers,
            timeout: self.timeout_ms.map(Duration::from_millis),
            arguments: self.arguments_mib.map(|size| size << 20),
            ..Traits::default()
        };
        let received = json!({
            "name": self.name,
            "description": self.description,
            "type": "function",
            "parameters": input,
            "output": output,
            "implementation": { "type": "builtin", "handler": handler },
        });
        let tool = Tool {
            name: fixed_name(&self.name),
            title: None,
            description: self.description,
            input: Json::of(&input),
            output: Some(Json::of(&output)),
            traits,
            received: Json::of(&received),
        };
        Declared { tool: Arc::new(tool), handler: handler.into(), input }
    }
}

#[expect(clippy::expect_used, reason = "the names are constants, and every test reads them")]
fn fixed_name(name: &str) -> ToolName {
    ToolName::new(name).expect("a built-in has a valid name")
}
