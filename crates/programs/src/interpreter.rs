//! Interpreter port and its protocol: requests, responses and plans.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tool::{BoxFuture, Caller, Json, SandboxUsage};

/// Runs Python scripts in a bounded number of slots.
pub trait Interpreter: Send + Sync + fmt::Debug {
    /// A place for a program of this caller, as soon as there is one.
    ///
    /// # Errors
    /// In words, for the caller.
    fn acquire_slot<'a>(
        &'a self,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Box<dyn InterpreterSlot>, String>>;
}

/// An acquired interpreter slot. A program holds it between its steps; dropping it releases the
/// slot.
pub trait InterpreterSlot: Send + Sync + fmt::Debug {
    /// Runs one step: a request object in, a response object out. Dropping the future closes the
    /// slot.
    ///
    /// # Errors
    /// A message for the caller if the step exceeded its time or memory.
    fn send_request(&mut self, request: Json) -> BoxFuture<'_, Result<Json, String>>;

    /// Returns whether other programs wait for a slot.
    fn has_waiters(&self) -> bool;

    /// Releases the slot for other programs. Returns the sandbox usage of the steps, if known.
    fn release_slot(self: Box<Self>) -> Option<SandboxUsage>;
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum InterpreterRequest<'a> {
    Plan(PlanRequest<'a>),
    #[serde(rename = "begin")]
    Start {
        plan: PlanRequest<'a>,
        inputs: &'a Map<String, Value>,
    },
    #[serde(rename = "answer")]
    Continue {
        came: &'a CallValue,
    },
    #[serde(rename = "keep")]
    SaveState {
        leaves: bool,
    },
    #[serde(rename = "go_on")]
    Restore {
        state: &'a str,
        functions: &'a [String],
        came: &'a CallValue,
    },
}

/// Request to plan a script.
#[derive(Debug, Serialize)]
pub(crate) struct PlanRequest<'a> {
    pub(crate) code: &'a str,
    pub(crate) functions: &'a BTreeMap<String, FunctionTraits>,
    pub(crate) inputs: Vec<&'a str>,
    pub(crate) mode: ExecutionMode,
    #[serde(rename = "parallel")]
    pub(crate) allows_read_only_parallel: bool,
    #[serde(rename = "parallel_mutations")]
    pub(crate) allows_parallel_mutations: bool,
}

/// Traits of a function that planning needs.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct FunctionTraits {
    #[serde(rename = "read_only")]
    pub(crate) is_read_only: bool,
    #[serde(rename = "chain")]
    pub(crate) is_chainable: bool,
}

/// Execution mode of a program (research registry).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionMode {
    /// In sequence, as Python runs them.
    #[serde(rename = "seq")]
    Sequential,
    /// In waves, by the dependencies of the calls.
    #[serde(rename = "dep")]
    Dependency,
    /// In sequence, without planning.
    Legacy,
    /// All concurrently, if no call has side effects or depends on another.
    ParallelReadOnly,
}

impl ExecutionMode {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Sequential => "seq",
            Self::Dependency => "dep",
            Self::Legacy => "legacy",
            Self::ParallelReadOnly => "parallel_read_only",
        }
    }
}

/// Result of a call for the script: a value or an exception.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallValue {
    Value(Value),
    Raised { kind: ExceptionKind, message: String },
}

/// Python exception class of a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ExceptionKind {
    Denied,
    Arguments,
    Failed,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum InterpreterResponse {
    Call { function: String, args: Vec<Value>, kwargs: Map<String, Value>, printed: String },
    Done { value: Value, printed: String },
    Raised { message: String, printed: String },
}

/// Plan of a script: the tools it calls, and their waves.
#[derive(Debug, Deserialize)]
pub(crate) struct ScriptPlan {
    #[serde(rename = "called")]
    pub(crate) called_tools: Vec<String>,
    #[serde(rename = "blocked")]
    pub(crate) blocked_tools: Vec<String>,
    #[serde(rename = "used")]
    pub(crate) effective_mode: ExecutionMode,
    #[serde(rename = "fallback")]
    pub(crate) fell_back_to_sequential: bool,
    #[serde(default)]
    pub(crate) waves: Option<WavePlan>,
    /// First response of the script, if it was started.
    #[serde(default)]
    #[serde(rename = "answered")]
    pub(crate) first_response: Option<InterpreterResponse>,
}

/// Plan of the calls in waves.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct WavePlan {
    pub(crate) steps: Vec<PlannedStep>,
    #[serde(rename = "order")]
    pub(crate) waves: Vec<Vec<usize>>,
    #[serde(rename = "value")]
    pub(crate) result_template: Option<ValueTemplate>,
    #[serde(rename = "last")]
    pub(crate) returns_last_value: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PlannedStep {
    pub(crate) function: String,
    pub(crate) args: Vec<ValueTemplate>,
    pub(crate) kwargs: Vec<(String, ValueTemplate)>,
    pub(crate) name: Option<String>,
}

/// JSON value template with references to results of other steps.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ValueTemplate {
    Value(Value),
    #[serde(rename = "name")]
    Reference(String),
    /// A part of a named value: object keys and list indexes.
    #[serde(rename = "part")]
    PathReference(String, Vec<String>),
    List(Vec<Self>),
    Dict(Vec<(String, Self)>),
}

/// Returns the value at `path`; `None` if there is none.
fn value_at_path<'v>(value: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, key| match value {
        Value::Array(items) => items.get(key.parse::<usize>().ok()?),
        other => other.get(key),
    })
}

impl ValueTemplate {
    /// Replaces the references by `values`; `None` if one is missing.
    pub(crate) fn resolve(&self, values: &Map<String, Value>) -> Option<Value> {
        Some(match self {
            Self::Value(value) => value.clone(),
            Self::Reference(name) => values.get(name)?.clone(),
            Self::PathReference(name, path) => value_at_path(values.get(name)?, path)?.clone(),
            Self::List(items) => {
                Value::Array(items.iter().map(|it| it.resolve(values)).collect::<Option<_>>()?)
            }
            Self::Dict(items) => {
                let pair = |(key, it): &(String, Self)| Some((key.clone(), it.resolve(values)?));
                Value::Object(items.iter().map(pair).collect::<Option<_>>()?)
            }
        })
    }
}
