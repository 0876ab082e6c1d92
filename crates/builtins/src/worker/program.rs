//! One step of a program: runs Python from its start, or from the call at which it is suspended, to
//! the next call or to the end.
//!
//! Between two steps the worker holds the program in [`Desk`]. To keep it longer, or to release the
//! worker, the caller requests its state as bytes, which only this module reads.

mod plan;

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use monty::{Dump, FunctionCall, MontyRun, RunProgress, Session, SessionRef};
use monty_types::{
    CompileOptions, ExcType, ExtFunctionResult, MontyException, MontyObject, NameLookupResult,
    PrintWriter, ResourceLimits, ResourceTracker,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::python::{DEPTH, MEMORY, ROUND, is_name, json, object, told};

/// Largest number of calls of a script, independent of other limits.
const SUSPENSIONS: usize = 100_000;
/// Largest output of one step, in bytes.
const PRINTED: usize = 64 << 10;
/// The script's name in messages.
const SCRIPT: &str = "program";

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Asked {
    /// Plans the calls and their waves without running anything.
    Plan(plan::Asked),
    /// Plans, and starts the script if it may run and has no waves.
    Begin { plan: plan::Asked, inputs: Map<String, Value> },
    /// Continues the suspended program with the result of its call.
    Answer { came: Came },
    /// Returns the state of the suspended program, which is dropped if it `leaves`.
    Keep { leaves: bool },
    /// Continues from a saved state with the result of the call.
    GoOn { state: String, functions: Vec<String>, came: Came },
}

/// Result of a call: a value or an exception.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Came {
    Value(Value),
    Raised { kind: Kind, message: String },
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    /// Denied by policy or by an approver.
    Denied,
    /// Invalid arguments.
    Arguments,
    /// Any other failure.
    Failed,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Answered {
    /// The program is suspended at a call.
    Call { function: String, args: Vec<Value>, kwargs: Map<String, Value>, printed: String },
    /// The program has ended with a value.
    Done { value: Value, printed: String },
    /// The program has ended with an exception.
    Raised { message: String, printed: String },
}

/// A plan and, if the script started, its first stop.
#[derive(Serialize)]
struct Begun {
    #[serde(flatten)]
    plan: plan::Plan,
    #[serde(skip_serializing_if = "Option::is_none")]
    answered: Option<Answered>,
}

/// The program that is suspended at a tool call, with the functions it may call.
#[derive(Default)]
pub(super) struct Desk(Option<(FunctionCall, Vec<String>)>);

impl Desk {
    /// Drops the suspended program.
    pub(super) fn clear(&mut self) {
        self.0 = None;
    }

    /// Runs one step. Calls `fresh` unless the step continues the suspended program.
    pub(super) fn step(
        &mut self,
        asked: &[u8],
        limit: Duration,
        fresh: impl FnOnce(),
    ) -> Result<Vec<u8>, String> {
        let asked: Asked = serde_json::from_slice(asked).map_err(|error| error.to_string())?;
        if !matches!(asked, Asked::Answer { .. } | Asked::Keep { .. }) {
            self.clear();
            fresh();
        }
        let mut printed = String::new();
        match asked {
            Asked::Plan(asked) => written(&plan::plan(&asked)),
            Asked::Begin { plan: asked, inputs } => {
                let plan = plan::plan(&asked);
                let answered = if plan.runs_as_python() {
                    let begun = begin(&asked.code, inputs, limit, &mut printed)?;
                    Some(self.ran(begun, asked.names(), &mut printed)?)
                } else {
                    None
                };
                written(&Begun { plan, answered })
            }
            Asked::Answer { came } => {
                let (call, functions) = self.0.take().ok_or("no program waits for an answer")?;
                let gone_on = resumed(call, came, &mut printed)?;
                written(&self.ran(gone_on, functions, &mut printed)?)
            }
            Asked::GoOn { state, functions, came } => {
                let gone_on = resumed(paused(&state)?, came, &mut printed)?;
                written(&self.ran(gone_on, functions, &mut printed)?)
            }
            Asked::Keep { leaves } => written(&self.kept(leaves)?),
        }
    }

    /// Runs to the next call, where the program is suspended, or to the end.
    fn ran(
        &mut self,
        progress: Progress,
        functions: Vec<String>,
        printed: &mut String,
    ) -> Result<Answered, String> {
        match ran(progress, &functions, printed)? {
            Ran::Ended(answered) => Ok(answered),
            Ran::Called(call, printed) => {
                let answered = called(&call, printed)?;
                self.0 = Some((*call, functions));
                Ok(answered)
            }
        }
    }

    fn kept(&mut self, leaves: bool) -> Result<String, String> {
        let (call, functions) = self.0.take().ok_or("no program is here to be kept")?;
        let progress = RunProgress::FunctionCall(call);
        let state = monty::dump(SCRIPT, None, SessionRef::Running(&progress))
            .map_err(|error| format!("the program cannot be kept: {error}"))?;
        if !leaves {
            self.0 = progress.into_function_call().map(|call| (call, functions));
        }
        Ok(STANDARD.encode(state))
    }
}

fn written(value: &impl Serialize) -> Result<Vec<u8>, String> {
    serde_json::to_vec(value).map_err(|error| error.to_string())
}

fn printing(text: &mut String) -> PrintWriter<'_> {
    PrintWriter::CollectString(text, Some(PRINTED))
}

type Progress = Result<RunProgress, MontyException>;

fn begin(
    code: &str,
    inputs: Map<String, Value>,
    limit: Duration,
    printed: &mut String,
) -> Result<Progress, String> {
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for (name, value) in inputs {
        if !is_name(&name) {
            let shown: String = name.chars().take(100).flat_map(char::escape_debug).collect();
            return Err(format!("inputs: `{shown}` is no name of Python"));
        }
        names.push(name);
        values.push(object(value)?);
    }
    let limits = ResourceLimits::default()
        .max_duration(limit)
        .max_memory(MEMORY)
        .max_recursion_depth(DEPTH)
        .max_suspensions(SUSPENSIONS);
    // Every script has the prelude, so that line numbers agree after a resume.
    let code = format!("{ROUND}{code}");
    let program = MontyRun::new(code, SCRIPT, names, CompileOptions::default());
    Ok(program
        .and_then(|program| program.start(values, ResourceTracker::new(limits), printing(printed))))
}

/// Restores the call at which a saved state is suspended.
fn paused(state: &str) -> Result<FunctionCall, String> {
    let bytes = STANDARD.decode(state).map_err(|_| "the state is none of ours".to_owned())?;
    let dump = Dump::load(&bytes).map_err(|error| {
        format!("the program was kept by another version of Toolkeep and cannot go on: {error}")
    })?;
    match dump.state {
        Session::Running(progress) => progress.into_function_call(),
        _ => None,
    }
    .ok_or_else(|| "the state is not that of a call".to_owned())
}

fn resumed(call: FunctionCall, came: Came, printed: &mut String) -> Result<Progress, String> {
    let result = match came {
        Came::Value(value) => ExtFunctionResult::Return(object(value)?),
        Came::Raised { kind, message } => {
            let kind = match kind {
                Kind::Denied => ExcType::PermissionError,
                Kind::Arguments => ExcType::TypeError,
                Kind::Failed => ExcType::RuntimeError,
            };
            ExtFunctionResult::Error(MontyException::new(kind, Some(message)))
        }
    };
    Ok(call.resume(result, printing(printed)))
}

/// How a running script stops.
enum Ran {
    Ended(Answered),
    Called(Box<FunctionCall>, String),
}

/// Drives a program to its next tool call or to the end. Resolves function names; everything else
/// the program requests is unavailable.
fn ran(mut progress: Progress, functions: &[String], printed: &mut String) -> Result<Ran, String> {
    loop {
        let text = std::mem::take(printed);
        match progress {
            Err(error) => {
                let message = told(&error, ROUND.lines().count());
                return Ok(Ran::Ended(Answered::Raised { message, printed: text }));
            }
            Ok(RunProgress::Complete(value)) => {
                let value = json(&value, 0)?;
                return Ok(Ran::Ended(Answered::Done { value, printed: text }));
            }
            Ok(RunProgress::FunctionCall(call)) if functions.contains(&call.function_name) => {
                return Ok(Ran::Called(Box::new(call), text));
            }
            Ok(RunProgress::FunctionCall(call)) => {
                let unknown = ExtFunctionResult::NotFound(call.function_name.clone());
                *printed = text;
                progress = call.resume(unknown, printing(printed));
            }
            Ok(RunProgress::NameLookup(lookup)) => {
                let known = lookup.object_id().is_none() && functions.contains(&lookup.name);
                let found = if known {
                    let name = lookup.name.clone();
                    NameLookupResult::Value(MontyObject::Function { name, docstring: None })
                } else {
                    NameLookupResult::Undefined
                };
                *printed = text;
                progress = lookup.resume(found, printing(printed));
            }
            Ok(RunProgress::OsCall(call)) => {
                *printed = text;
                progress = call.abort(absent(), printing(printed));
            }
            Ok(RunProgress::ResolveFutures(futures)) => {
                *printed = text;
                progress = futures.abort(absent(), printing(printed));
            }
        }
    }
}

fn absent() -> MontyException {
    let told = "a program has no files, no environment, no clock and no tasks of its own";
    MontyException::new(ExcType::RuntimeError, Some(told.to_owned()))
}

fn called(call: &FunctionCall, printed: String) -> Result<Answered, String> {
    let args = call.args.iter().map(|it| json(it, 0)).collect::<Result<_, _>>()?;
    let mut kwargs = Map::new();
    for (name, value) in &call.kwargs {
        let MontyObject::String(name) = name else { return Err("a keyword is no text".to_owned()) };
        kwargs.insert(name.clone(), json(value, 0)?);
    }
    Ok(Answered::Call { function: call.function_name.clone(), args, kwargs, printed })
}

#[cfg(test)]
mod tests;
