//! Declarations of built-in tools, from the JSON that the build of `builtin-manifests` generates.
//!
//! The YAML files have the shape of the research registry's `tool_registry.yaml`.

mod parameter_schema;
mod tool_restriction;

pub use tool_restriction::ToolRestriction;

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tool::{
    AccessScope, CallerType, Executor, Json, PermissionLevel, SafetyLevel, SideEffect, SideEffects,
    Tool, ToolName, ToolTraits,
};

use crate::blocking_task::{BlockingTask, ProgressExecutor};
use crate::builtin_tool::{BlockingExecutor, BuiltinTool, InlineExecutor, ToolFunction};

/// All declared tools, in file order.
#[derive(Debug, Clone)]
pub struct ManifestRegistry(Vec<ToolDeclaration>);

/// Declaration of one tool.
#[derive(Debug, Clone)]
pub struct ToolDeclaration {
    tool: Arc<Tool>,
    handler: Arc<str>,
    /// JSON Schema of the arguments.
    input: Value,
}

/// Default and maximum of a numeric argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumericLimit {
    /// Default value.
    pub default: u64,
    /// Largest value.
    pub max: u64,
}

impl NumericLimit {
    /// Returns the argument or its default, limited to the maximum.
    pub fn value_in(self, args: &Value, name: &str) -> u64 {
        args.get(name).and_then(Value::as_u64).unwrap_or(self.default).min(self.max)
    }

    /// Returns the argument as a size.
    pub fn usize_in(self, args: &Value, name: &str) -> usize {
        usize::try_from(self.value_in(args, name)).unwrap_or(usize::MAX)
    }
}

impl ManifestRegistry {
    /// Parses the JSON that the build generates from a YAML file of `builtin-manifests`.
    ///
    /// # Errors
    /// The error of serde for a malformed file.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        let entries: Vec<ManifestEntry> = serde_json::from_str(text)?;
        Ok(Self(entries.into_iter().map(ManifestEntry::into_declaration).collect()))
    }

    /// Returns the declaration of `name`, unless it is missing or disabled.
    pub fn find_tool(&self, name: &str) -> Option<&ToolDeclaration> {
        self.0.iter().find(|declared| declared.tool.name.as_str() == name)
    }

    /// Returns the position of `builtin` in the file; tools of other registries come last.
    pub fn position_of(&self, builtin: &BuiltinTool) -> usize {
        let same = |declared: &ToolDeclaration| declared.tool.name == builtin.tool.name;
        self.0.iter().position(same).unwrap_or(usize::MAX)
    }

    /// Returns the names of all tools.
    pub fn tool_names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|declared| declared.tool.name.as_str())
    }
}

impl ToolDeclaration {
    /// Returns default and maximum of a numeric argument; 0 if the file lacks them, which the
    /// tool's tests detect.
    pub fn numeric_limit(&self, name: &str) -> NumericLimit {
        let parameter = self.input.get("properties").and_then(|all| all.get(name));
        let number = |key| parameter.and_then(|it| it.get(key)).and_then(Value::as_u64);
        let most = number("maximum").unwrap_or(0);
        NumericLimit { default: number("default").unwrap_or(most), max: most }
    }

    /// Binds the declaration to a function that runs on the calling task.
    pub fn with_inline(&self, compute: impl ToolFunction + 'static) -> BuiltinTool {
        self.with_executor(InlineExecutor(compute))
    }

    /// Binds the declaration to a function that may take over a millisecond and runs on a blocking
    /// thread.
    pub fn with_blocking(&self, compute: impl ToolFunction + 'static) -> BuiltinTool {
        self.with_executor(BlockingExecutor(Arc::new(compute)))
    }

    /// Binds the declaration to work that may take seconds and reports progress.
    pub fn with_progress(&self, work: impl BlockingTask + 'static) -> BuiltinTool {
        self.with_executor(ProgressExecutor(Arc::new(work)))
    }

    /// Returns the tool's definition.
    pub fn tool(&self) -> &Arc<Tool> {
        &self.tool
    }

    /// Appends a sentence to the description, for facts known only at run time.
    #[must_use]
    pub fn with_description(&self, sentence: &str) -> Self {
        let mut tool = Tool::clone(&self.tool);
        tool.description = format!("{} {sentence}", tool.description.trim_end());
        let description = Json::encode(&tool.description);
        tool.raw_definition = tool.raw_definition.with_member("description", &description);
        Self { tool: Arc::new(tool), ..self.clone() }
    }

    /// Binds the declaration to an executor.
    pub fn with_executor(&self, executor: impl Executor + 'static) -> BuiltinTool {
        let (tool, handler) = (Arc::clone(&self.tool), Arc::clone(&self.handler));
        BuiltinTool { tool, executor: Arc::new(executor), handler }
    }
}

/// A serialized declaration.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ManifestEntry {
    name: String,
    category: String,
    #[serde(default)]
    categories: Vec<String>,
    description: String,
    parameters: Map<String, Value>,
    #[serde(default)]
    other_parameters: bool,
    returns: Value,
    permissions: Vec<AccessScope>,
    #[serde(default = "default_level")]
    required_permission: PermissionLevel,
    #[serde(default = "default_safety")]
    safety: SafetyLevel,
    side_effects: Vec<SideEffect>,
    #[serde(default)]
    destructive: bool,
    allowed_callers: Vec<CallerType>,
    timeout_ms: Option<u64>,
    arguments_mib: Option<usize>,
    implementation: Option<ToolImplementation>,
    #[serde(rename = "examples")]
    _examples: serde::de::IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolImplementation {
    #[serde(rename = "type")]
    _kind: ImplementationKind,
    handler: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ImplementationKind {
    Builtin,
}

fn default_level() -> PermissionLevel {
    PermissionLevel::Guest
}

fn default_safety() -> SafetyLevel {
    SafetyLevel::Safe
}

impl ManifestEntry {
    fn into_declaration(self) -> ToolDeclaration {
        let input = parameter_schema::parameters_schema(self.parameters, self.other_parameters);
        let output = parameter_schema::value_schema(self.returns);
        let handler = self.implementation.map_or_else(|| self.name.clone(), |it| it.handler);
        let mut categories = vec![self.category];
        categories.extend(self.categories);
        let effects = SideEffects::Declared(self.side_effects);
        let traits = ToolTraits {
            min_level: self.required_permission,
            scopes: self.permissions,
            safety: self.safety,
            categories,
            is_idempotent: !effects.may_change_state(),
            effects,
            is_destructive: self.destructive,
            allowed_callers: self.allowed_callers,
            timeout: self.timeout_ms.map(Duration::from_millis),
            max_argument_bytes: self.arguments_mib.map(|size| size << 20),
            ..ToolTraits::default()
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
            name: builtin_name(&self.name),
            title: None,
            description: self.description,
            input_schema: Json::encode(&input),
            output_schema: Some(Json::encode(&output)),
            traits,
            raw_definition: Json::encode(&received),
        };
        ToolDeclaration { tool: Arc::new(tool), handler: handler.into(), input }
    }
}

#[expect(clippy::expect_used, reason = "the names are constants, and every test reads them")]
fn builtin_name(name: &str) -> ToolName {
    ToolName::new(name).expect("a built-in has a valid name")
}
