//! What is asked of the interpreter, and what it answers: each a value that stands for itself.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tool::{Boxed, Caged, Caller, Json};

/// Runs Python, for as many programs at once as it has places.
pub trait Interpreter: Send + Sync + fmt::Debug {
    /// A place for a program of this caller, as soon as there is one.
    ///
    /// # Errors
    /// In words, for the caller.
    fn turn<'a>(&'a self, whose: &'a Caller) -> Boxed<'a, Result<Box<dyn Turn>, String>>;
}

/// A place at the interpreter, where a program stays between its steps. It is given up where this is dropped.
pub trait Turn: Send + Sync + fmt::Debug {
    /// One step: an object in, an object out. Where its future is dropped, the place is gone.
    ///
    /// # Errors
    /// In words, for the caller: it took too long, or too much.
    fn step(&mut self, asked: Json) -> Boxed<'_, Result<Json, String>>;

    /// Whether others wait for a place.
    fn is_wanted(&self) -> bool;

    /// No program is left there: the place is for others. Answers what the steps took, where that is known.
    fn over(self: Box<Self>) -> Option<Caged>;
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Asked<'a> {
    Plan(ToPlan<'a>),
    Begin { plan: ToPlan<'a>, inputs: &'a Map<String, Value> },
    Answer { came: &'a Came },
    Keep { leaves: bool },
    GoOn { state: &'a str, functions: &'a [String], came: &'a Came },
}

/// What is planned.
#[derive(Debug, Serialize)]
pub(crate) struct ToPlan<'a> {
    pub(crate) code: &'a str,
    pub(crate) functions: &'a BTreeMap<String, Traits>,
    pub(crate) inputs: Vec<&'a str>,
    pub(crate) mode: Mode,
    pub(crate) parallel: bool,
    pub(crate) parallel_mutations: bool,
}

/// What planning needs of a function.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Traits {
    pub(crate) read_only: bool,
    pub(crate) chain: bool,
}

/// How the calls of a program follow each other (spec 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// In order, as Python runs them.
    Seq,
    /// In waves, by what each needs.
    Dep,
    /// In order, without looking ahead.
    Legacy,
    /// All at once, where none changes anything or needs another.
    ParallelReadOnly,
}

impl Mode {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Seq => "seq",
            Self::Dep => "dep",
            Self::Legacy => "legacy",
            Self::ParallelReadOnly => "parallel_read_only",
        }
    }
}

/// What a call came to.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Came {
    Value(Value),
    Raised { kind: Kind, message: String },
}

/// Which exception a call that failed is in the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Denied,
    Arguments,
    Failed,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answered {
    Call { function: String, args: Vec<Value>, kwargs: Map<String, Value>, printed: String },
    Done { value: Value, printed: String },
    Raised { message: String, printed: String },
}

/// What a script calls, and in which waves.
#[derive(Debug, Deserialize)]
pub(crate) struct Plan {
    pub(crate) called: Vec<String>,
    pub(crate) blocked: Vec<String>,
    pub(crate) used: Mode,
    pub(crate) fallback: bool,
    #[serde(default)]
    pub(crate) waves: Option<Waves>,
    /// What came of it, where it was begun.
    #[serde(default)]
    pub(crate) answered: Option<Answered>,
}

/// Calls in waves.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Waves {
    pub(crate) steps: Vec<Step>,
    pub(crate) order: Vec<Vec<usize>>,
    pub(crate) value: Option<Plain>,
    pub(crate) last: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Step {
    pub(crate) function: String,
    pub(crate) args: Vec<Plain>,
    pub(crate) kwargs: Vec<(String, Plain)>,
    pub(crate) name: Option<String>,
}

/// A value with names in it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Plain {
    Value(Value),
    Name(String),
    /// A part of a named value: keys of objects, places in lists.
    Part(String, Vec<String>),
    List(Vec<Self>),
    Dict(Vec<(String, Self)>),
}

/// The part at `path`; nothing where there is none.
fn part<'v>(value: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, key| match value {
        Value::Array(items) => items.get(key.parse::<usize>().ok()?),
        other => other.get(key),
    })
}

impl Plain {
    /// With the values put in; nothing where one is not there.
    pub(crate) fn filled(&self, values: &Map<String, Value>) -> Option<Value> {
        Some(match self {
            Self::Value(value) => value.clone(),
            Self::Name(name) => values.get(name)?.clone(),
            Self::Part(name, path) => part(values.get(name)?, path)?.clone(),
            Self::List(items) => {
                Value::Array(items.iter().map(|it| it.filled(values)).collect::<Option<_>>()?)
            }
            Self::Dict(items) => {
                let pair = |(key, it): &(String, Self)| Some((key.clone(), it.filled(values)?));
                Value::Object(items.iter().map(pair).collect::<Option<_>>()?)
            }
        })
    }
}
