//! One step of a program: runs Python from the start or a suspended call to the next call or the
//! end.
//!
//! Between two steps the worker holds the program in [`SuspendedProgram`]. To keep it longer, or to release the
//! worker, the caller requests its state as bytes, which only this module reads.

mod script_plan;

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
use tool::display_text::truncate_and_escape_debug;

use super::python_runtime::{
    MAX_MEMORY_BYTES, MAX_RECURSION_DEPTH, ROUND_PRELUDE, format_exception, is_python_name,
    value_from_json, value_to_json,
};

/// Largest number of calls of a script, independent of other limits.
const MAX_SUSPENSIONS: usize = 100_000;
/// Largest output of one step, in bytes.
const MAX_PRINTED_BYTES: usize = 64 << 10;
/// The script's name in messages.
const SCRIPT_NAME: &str = "program";

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ProgramStepRequest {
    /// Plans the calls and their waves without running anything.
    Plan(script_plan::ScriptAnalysisRequest),
    /// Plans, and starts the script if it may run and has no waves.
    Begin { plan: script_plan::ScriptAnalysisRequest, inputs: Map<String, Value> },
    /// Continues the suspended program with the result of its call.
    Answer { came: ScriptCallResult },
    /// Returns the state of the suspended program, which is dropped if it `leaves`.
    Keep { leaves: bool },
    /// Continues from a saved state with the result of the call.
    GoOn { state: String, functions: Vec<String>, came: ScriptCallResult },
}

/// Result of a call: a value or an exception.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ScriptCallResult {
    Value(Value),
    Raised { kind: CallErrorKind, message: String },
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum CallErrorKind {
    /// Denied by policy or by an approver.
    Denied,
    /// Invalid arguments.
    Arguments,
    /// Any other failure.
    Failed,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum ProgramStepResponse {
    /// The program is suspended at a call.
    Call { function: String, args: Vec<Value>, kwargs: Map<String, Value>, printed: String },
    /// The program has ended with a value.
    Done { value: Value, printed: String },
    /// The program has ended with an exception.
    Raised { message: String, printed: String },
}

/// A plan and, if the script started, its first stop.
#[derive(Serialize)]
struct StartedProgram {
    #[serde(flatten)]
    plan: script_plan::ScriptAnalysis,
    #[serde(skip_serializing_if = "Option::is_none")]
    answered: Option<ProgramStepResponse>,
}

/// The program that is suspended at a tool call, with the functions it may call.
#[derive(Default)]
pub(super) struct SuspendedProgram(Option<(FunctionCall, Vec<String>)>);

impl SuspendedProgram {
    /// Drops the suspended program.
    pub(super) fn clear(&mut self) {
        self.0 = None;
    }

    /// Runs one step. Calls `on_start` unless the step continues the suspended program.
    pub(super) fn run_step(
        &mut self,
        request: &[u8],
        limit: Duration,
        on_start: impl FnOnce(),
    ) -> Result<Vec<u8>, String> {
        let request: ProgramStepRequest =
            serde_json::from_slice(request).map_err(|error| error.to_string())?;
        if !matches!(request, ProgramStepRequest::Answer { .. } | ProgramStepRequest::Keep { .. }) {
            self.clear();
            on_start();
        }
        let mut printed = String::new();
        match request {
            ProgramStepRequest::Plan(request) => to_json_bytes(&script_plan::plan_script(&request)),
            ProgramStepRequest::Begin { plan: request, inputs } => {
                let plan = script_plan::plan_script(&request);
                let answered = if plan.runs_as_python() {
                    let begun = start_program(&request.code, inputs, limit, &mut printed)?;
                    Some(self.run_to_call(begun, request.function_names(), &mut printed)?)
                } else {
                    None
                };
                to_json_bytes(&StartedProgram { plan, answered })
            }
            ProgramStepRequest::Answer { came } => {
                let (call, functions) = self.0.take().ok_or("no program waits for a result")?;
                let gone_on = resume_call(call, came, &mut printed)?;
                to_json_bytes(&self.run_to_call(gone_on, functions, &mut printed)?)
            }
            ProgramStepRequest::GoOn { state, functions, came } => {
                let gone_on = resume_call(restore_call(&state)?, came, &mut printed)?;
                to_json_bytes(&self.run_to_call(gone_on, functions, &mut printed)?)
            }
            ProgramStepRequest::Keep { leaves } => to_json_bytes(&self.save_state(leaves)?),
        }
    }

    /// Runs to the next call, where the program is suspended, or to the end.
    fn run_to_call(
        &mut self,
        progress: ProgramProgress,
        functions: Vec<String>,
        printed: &mut String,
    ) -> Result<ProgramStepResponse, String> {
        match drive_program(progress, &functions, printed)? {
            RunStop::Ended(answered) => Ok(answered),
            RunStop::Suspended(call, printed) => {
                let answered = call_response(&call, printed)?;
                self.0 = Some((*call, functions));
                Ok(answered)
            }
        }
    }

    fn save_state(&mut self, leaves: bool) -> Result<String, String> {
        let (call, functions) = self.0.take().ok_or("no program is running")?;
        let progress = RunProgress::FunctionCall(call);
        let state = monty::dump(SCRIPT_NAME, None, SessionRef::Running(&progress))
            .map_err(|error| format!("cannot store the program: {error}"))?;
        if !leaves {
            self.0 = progress.into_function_call().map(|call| (call, functions));
        }
        Ok(STANDARD.encode(state))
    }
}

fn to_json_bytes(value: &impl Serialize) -> Result<Vec<u8>, String> {
    serde_json::to_vec(value).map_err(|error| error.to_string())
}

fn print_writer(text: &mut String) -> PrintWriter<'_> {
    PrintWriter::CollectString(text, Some(MAX_PRINTED_BYTES))
}

type ProgramProgress = Result<RunProgress, MontyException>;

fn start_program(
    code: &str,
    inputs: Map<String, Value>,
    limit: Duration,
    printed: &mut String,
) -> Result<ProgramProgress, String> {
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for (name, value) in inputs {
        if !is_python_name(&name) {
            let shown = truncate_and_escape_debug(&name, 100);
            return Err(format!("inputs: `{shown}` is not a valid Python name"));
        }
        names.push(name);
        values.push(value_from_json(value)?);
    }
    let limits = ResourceLimits::default()
        .max_duration(limit)
        .max_memory(MAX_MEMORY_BYTES)
        .max_recursion_depth(MAX_RECURSION_DEPTH)
        .max_suspensions(MAX_SUSPENSIONS);
    // Every script has the prelude, so that line numbers agree after a resume.
    let code = format!("{ROUND_PRELUDE}{code}");
    let program = MontyRun::new(code, SCRIPT_NAME, names, CompileOptions::default());
    Ok(program.and_then(|program| {
        program.start(values, ResourceTracker::new(limits), print_writer(printed))
    }))
}

/// Restores the call at which a saved state is suspended.
fn restore_call(state: &str) -> Result<FunctionCall, String> {
    let bytes = STANDARD.decode(state).map_err(|_| "the state has an unknown format".to_owned())?;
    let dump = Dump::load(&bytes).map_err(|error| {
        format!("the program was stored by another version of Toolkeep and cannot resume: {error}")
    })?;
    match dump.state {
        Session::Running(progress) => progress.into_function_call(),
        _ => None,
    }
    .ok_or_else(|| "the state is not the state of a call".to_owned())
}

fn resume_call(
    call: FunctionCall,
    came: ScriptCallResult,
    printed: &mut String,
) -> Result<ProgramProgress, String> {
    let result = match came {
        ScriptCallResult::Value(value) => ExtFunctionResult::Return(value_from_json(value)?),
        ScriptCallResult::Raised { kind, message } => {
            let kind = match kind {
                CallErrorKind::Denied => ExcType::PermissionError,
                CallErrorKind::Arguments => ExcType::TypeError,
                CallErrorKind::Failed => ExcType::RuntimeError,
            };
            ExtFunctionResult::Error(MontyException::new(kind, Some(message)))
        }
    };
    Ok(call.resume(result, print_writer(printed)))
}

/// How a running script stops.
enum RunStop {
    Ended(ProgramStepResponse),
    Suspended(Box<FunctionCall>, String),
}

/// Drives a program to its next tool call or to the end. Resolves function names; everything else
/// the program requests is unavailable.
fn drive_program(
    mut progress: ProgramProgress,
    functions: &[String],
    printed: &mut String,
) -> Result<RunStop, String> {
    loop {
        let text = std::mem::take(printed);
        match progress {
            Err(error) => {
                let message = format_exception(&error, ROUND_PRELUDE.lines().count());
                return Ok(RunStop::Ended(ProgramStepResponse::Raised { message, printed: text }));
            }
            Ok(RunProgress::Complete(value)) => {
                let value = value_to_json(&value, 0)?;
                return Ok(RunStop::Ended(ProgramStepResponse::Done { value, printed: text }));
            }
            Ok(RunProgress::FunctionCall(call)) if functions.contains(&call.function_name) => {
                return Ok(RunStop::Suspended(Box::new(call), text));
            }
            Ok(RunProgress::FunctionCall(call)) => {
                let unknown = ExtFunctionResult::NotFound(call.function_name.clone());
                *printed = text;
                progress = call.resume(unknown, print_writer(printed));
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
                progress = lookup.resume(found, print_writer(printed));
            }
            Ok(RunProgress::OsCall(call)) => {
                *printed = text;
                progress = call.abort(unavailable_error(), print_writer(printed));
            }
            Ok(RunProgress::ResolveFutures(futures)) => {
                *printed = text;
                progress = futures.abort(unavailable_error(), print_writer(printed));
            }
        }
    }
}

fn unavailable_error() -> MontyException {
    let told = "programs have no access to files, the environment, the clock or tasks";
    MontyException::new(ExcType::RuntimeError, Some(told.to_owned()))
}

fn call_response(call: &FunctionCall, printed: String) -> Result<ProgramStepResponse, String> {
    let args = call.args.iter().map(|it| value_to_json(it, 0)).collect::<Result<_, _>>()?;
    let mut kwargs = Map::new();
    for (name, value) in &call.kwargs {
        let MontyObject::String(name) = name else {
            return Err("a keyword is not a \
            string"
                .to_owned());
        };
        kwargs.insert(name.clone(), value_to_json(value, 0)?);
    }
    Ok(ProgramStepResponse::Call { function: call.function_name.clone(), args, kwargs, printed })
}

#[cfg(test)]
mod tests;
