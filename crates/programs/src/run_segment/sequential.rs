//! Sequential execution: runs the script as Python, from one call to the next.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};

use super::call_recovery::{self, CallRecovery};
use super::interpreter_session::InterpreterSession;
use super::nested_call::{CallProgress, NestedCallIds, SettledCall, record_answer};
use super::{RunSegment, SegmentAbort, SegmentResult, bind_arguments};
use crate::interpreter::{
    self, ExceptionKind, ExecutionMode, FunctionTraits, InterpreterRequest, InterpreterResponse,
    PlanRequest, ScriptPlan,
};
use crate::program_functions::{FunctionTable, ScriptFunction};
use crate::program_state::{CallPhase, ProgramState, ScriptCall, WaveRecord};
use crate::program_store::StoredProgram;
use tool::ErrorCode;
use tool::call_outcome::{CallFailure, CallResponse, CallStatus};
use tool::display_text::truncate_and_escape_debug;

/// Duration of a call after which its program releases the interpreter slot.
const SLOT_RELEASE_AFTER: Duration = Duration::from_millis(20);

/// Saved position of a script: interpreter state and the call at which it stopped.
pub(crate) struct SavedPosition {
    pub(crate) state: String,
    pub(crate) function_names: Vec<String>,
    pub(crate) call: CallPhase,
    /// Results of the pending calls.
    pub(crate) settled_calls: Vec<SettledCall>,
}

/// A started script: its session and the response of its first step.
pub(crate) type StartedScript = (InterpreterSession, InterpreterResponse);

/// Plans a script, and starts it if it runs as Python and is not blocked.
pub(crate) async fn start_script(
    segment: &RunSegment<'_>,
    program: &ProgramState,
    referenced: &BTreeMap<String, ScriptFunction>,
) -> Result<(ScriptPlan, Option<StartedScript>), SegmentAbort> {
    let names = referenced.keys().cloned().chain(["TOOL".to_owned(), "CALL".to_owned()]);
    let mut session = InterpreterSession::new(segment, names.collect()).await?;
    let functions = function_traits(referenced);
    let plan = plan_request(program, &functions);
    let request = InterpreterRequest::Start { plan, inputs: &program.inputs };
    let mut plan: ScriptPlan = session.send_request(segment, &request).await?;
    let python = plan.first_response.take();
    if python.is_none() {
        session.close_session(segment);
    }
    Ok((plan, python.map(|answered| (session, answered))))
}

/// Plans a script without starting it.
pub(crate) async fn plan_script(
    segment: &RunSegment<'_>,
    program: &ProgramState,
    referenced: &BTreeMap<String, ScriptFunction>,
) -> Result<ScriptPlan, SegmentAbort> {
    let mut session = InterpreterSession::new(segment, Vec::new()).await?;
    let functions = function_traits(referenced);
    let plan = session
        .send_request(segment, &InterpreterRequest::Plan(plan_request(program, &functions)))
        .await?;
    session.close_session(segment);
    Ok(plan)
}

fn function_traits(
    referenced: &BTreeMap<String, ScriptFunction>,
) -> BTreeMap<String, FunctionTraits> {
    let traits = |it: &ScriptFunction| FunctionTraits {
        is_read_only: it.is_read_only(),
        is_chainable: it.is_chainable,
    };
    referenced.iter().map(|(name, it)| (name.clone(), traits(it))).collect()
}

fn plan_request<'a>(
    program: &'a ProgramState,
    functions: &'a BTreeMap<String, FunctionTraits>,
) -> PlanRequest<'a> {
    PlanRequest {
        code: &program.code,
        functions,
        inputs: program.inputs.keys().map(String::as_str).collect(),
        mode: program.mode,
        allows_read_only_parallel: program.mode == ExecutionMode::Sequential,
        allows_parallel_mutations: program.parallel_mutations,
    }
}

pub(crate) async fn resume_script(
    segment: &RunSegment<'_>,
    stored: &mut StoredProgram,
    saved: SavedPosition,
    functions: &FunctionTable,
) -> Result<SegmentResult, SegmentAbort> {
    let SavedPosition { state, function_names: names, call, settled_calls: settled } = saved;
    let mut session = InterpreterSession::from_state(state, names);
    let called = match call {
        CallPhase::Returned(result) => ScriptCallProgress::Returned(result),
        CallPhase::PendingApproval(held) => {
            let none = || CallFailure::new(ErrorCode::Internal, "the program is not waiting");
            let settled = settled.into_iter().next().ok_or_else(none)?;
            if settled.is_expired() {
                return pause_expired(segment, stored, (&mut session, held), functions).await;
            }
            settle_pending(segment, stored, (&mut session, held, settled), functions).await?
        }
        CallPhase::InFlight(making) => {
            recover_in_flight(segment, stored, (&mut session, making), functions).await?
        }
    };
    let came = match called {
        ScriptCallProgress::Returned(came) => came,
        ScriptCallProgress::PendingApproval(held) => {
            return suspend_script(segment, session, held).await;
        }
    };
    let response = session.resume_with(segment, &came).await?;
    run_script(segment, stored, (session, response), functions).await
}

/// Progress of a call of the script.
enum ScriptCallProgress {
    Returned(interpreter::CallValue),
    PendingApproval(ScriptCall),
}

impl ScriptCallProgress {
    fn from_progress(called: CallProgress, script_call: ScriptCall) -> Self {
        match called {
            CallProgress::Returned(came) => Self::Returned(came),
            CallProgress::PendingApproval(call) => {
                Self::PendingApproval(ScriptCall { call, ..script_call })
            }
        }
    }
}

/// Pauses the program after an approval expired. The call was not made, and is requested again on
/// resume.
async fn pause_expired(
    segment: &RunSegment<'_>,
    stored: &mut StoredProgram,
    (session, pending): (&mut InterpreterSession, ScriptCall),
    functions: &FunctionTable,
) -> Result<SegmentResult, SegmentAbort> {
    stored.program.remove_call(pending.call);
    let function = RunSegment::chainable_function(functions, &pending.function);
    let tool = function.map_or(pending.function.as_str(), ScriptFunction::tool_name).to_owned();
    let script_call = ScriptCall { call: segment.new_call_id(), ..pending };
    Ok(SegmentResult::Paused(
        Box::new(session.capture_checkpoint(segment, CallPhase::InFlight(script_call)).await?),
        vec![tool],
    ))
}

/// Settles a pending call that has ended.
async fn settle_pending(
    segment: &RunSegment<'_>,
    stored: &mut StoredProgram,
    (session, pending, SettledCall { answer, value: came }): (
        &mut InterpreterSession,
        ScriptCall,
        SettledCall,
    ),
    functions: &FunctionTable,
) -> Result<ScriptCallProgress, SegmentAbort> {
    let function = RunSegment::chainable_function(functions, &pending.function);
    let tool = function.map_or(pending.function.as_str(), ScriptFunction::tool_name).to_owned();
    record_wave(stored, &tool, &answer);
    let Some(function) = function.filter(|_| answer.status == CallStatus::Unknown) else {
        return match answer.status {
            CallStatus::Unknown => Err(call_recovery::outcome_unknown(answer.call_id, None)),
            _ => Ok(ScriptCallProgress::Returned(came)),
        };
    };
    let call = segment.rerun_id(answer.call_id, function)?;
    execute_with_checkpoints(segment, stored, (session, ScriptCall { call, ..pending }), function)
        .await
}

/// Recovers a call that was in flight when the process ended.
async fn recover_in_flight(
    segment: &RunSegment<'_>,
    stored: &mut StoredProgram,
    (session, script_call): (&mut InterpreterSession, ScriptCall),
    functions: &FunctionTable,
) -> Result<ScriptCallProgress, SegmentAbort> {
    let function = RunSegment::chainable_function(functions, &script_call.function);
    match segment.recover_call(script_call.call, function).await? {
        CallRecovery::Settled(answer, called) => {
            let tool = function
                .map_or(script_call.function.as_str(), ScriptFunction::tool_name)
                .to_owned();
            record_wave(stored, &tool, &answer);
            Ok(ScriptCallProgress::from_progress(called, script_call))
        }
        CallRecovery::RunAgain(call) => match function {
            Some(function) => {
                execute_with_checkpoints(
                    segment,
                    stored,
                    (session, ScriptCall { call, ..script_call }),
                    function,
                )
                .await
            }
            None => Ok(unknown_tool(&script_call.function)),
        },
    }
}

/// Runs the script from the response of its last step.
pub(crate) async fn run_script(
    segment: &RunSegment<'_>,
    stored: &mut StoredProgram,
    (mut session, mut response): StartedScript,
    functions: &FunctionTable,
) -> Result<SegmentResult, SegmentAbort> {
    loop {
        let function_call = match response {
            InterpreterResponse::Done { value, printed } => {
                session.close_session(segment);
                stored.program.append_output(&printed);
                return Ok(SegmentResult::Completed(value));
            }
            InterpreterResponse::Raised { message, printed } => {
                session.close_session(segment);
                stored.program.append_output(&printed);
                return Ok(SegmentResult::Failed(message));
            }
            InterpreterResponse::Call { function, args, kwargs, printed } => {
                stored.program.append_output(&printed);
                (function, args, kwargs)
            }
        };
        let result =
            match dispatch_call(segment, stored, (&mut session, function_call), functions).await? {
                ScriptCallProgress::Returned(came) => came,
                ScriptCallProgress::PendingApproval(held) => {
                    return suspend_script(segment, session, held).await;
                }
            };
        response = session.resume_with(segment, &result).await?;
    }
}

async fn suspend_script(
    segment: &RunSegment<'_>,
    mut session: InterpreterSession,
    pending: ScriptCall,
) -> Result<SegmentResult, SegmentAbort> {
    session.suspend_session(segment).await?;
    Ok(SegmentResult::PendingApproval(Box::new(
        session.capture_checkpoint(segment, CallPhase::PendingApproval(pending)).await?,
    )))
}

type FunctionCall = (String, Vec<Value>, Map<String, Value>);

async fn dispatch_call(
    segment: &RunSegment<'_>,
    stored: &mut StoredProgram,
    (place, (mut name, mut args, kwargs)): (&mut InterpreterSession, FunctionCall),
    functions: &FunctionTable,
) -> Result<ScriptCallProgress, SegmentAbort> {
    if matches!(name.as_str(), "TOOL" | "CALL") {
        let Some(Value::String(tool)) = (!args.is_empty()).then(|| args.remove(0)) else {
            let message = format!("{name}() needs the name of a tool as its first argument");
            return Ok(raise_exception(ExceptionKind::Arguments, message));
        };
        name = tool;
    }
    let Some(function) = RunSegment::chainable_function(functions, &name) else {
        return Ok(unknown_tool(&name));
    };
    let args = match bind_arguments(function, args, kwargs) {
        Ok(args) => args,
        Err(told) => return Ok(raise_exception(ExceptionKind::Arguments, told)),
    };
    if let Err(told) = RunSegment::check_call_limit(&stored.program, 1) {
        return Err(CallFailure::new(ErrorCode::TooLarge, told).into());
    }
    let script_call = ScriptCall { call: segment.new_call_id(), function: name, args };
    execute_with_checkpoints(segment, stored, (place, script_call), function).await
}

/// Makes a call, with checkpoints before and after one with side effects.
async fn execute_with_checkpoints(
    segment: &RunSegment<'_>,
    stored: &mut StoredProgram,
    (session, script_call): (&mut InterpreterSession, ScriptCall),
    function: &ScriptFunction,
) -> Result<ScriptCallProgress, SegmentAbort> {
    let ids = NestedCallIds {
        program: stored.program.id,
        call: script_call.call,
        index: stored.program.call_index(script_call.call),
    };
    let effects = !function.is_read_only();
    if effects {
        let at =
            session.capture_checkpoint(segment, CallPhase::InFlight(script_call.clone())).await?;
        segment.save_checkpoint(stored, at).await?;
    }
    let (answer, called) = {
        let mut calling = std::pin::pin!(segment.execute_call(ids, function, &script_call.args));
        if let Ok(called) = tokio::time::timeout(SLOT_RELEASE_AFTER, &mut calling).await {
            called?
        } else {
            session.suspend_session(segment).await?;
            calling.await?
        }
    };
    record_wave(stored, function.tool_name(), &answer);
    if let (CallProgress::Returned(result), true) = (&called, effects) {
        let at = session.capture_checkpoint(segment, CallPhase::Returned(result.clone())).await?;
        segment.save_checkpoint(stored, at).await?;
    }
    segment.programs.lock_index().notify_watchers(&stored.program);
    let done = stored.program.calls.len();
    #[expect(clippy::cast_precision_loss, reason = "calls are bounded far below 2^53")]
    segment.parent_call.progress.report_progress(done as f64, None, Some(function.tool_name()));
    Ok(ScriptCallProgress::from_progress(called, script_call))
}

fn raise_exception(kind: ExceptionKind, message: String) -> ScriptCallProgress {
    ScriptCallProgress::Returned(interpreter::CallValue::Raised { kind, message })
}

fn unknown_tool(name: &str) -> ScriptCallProgress {
    let name = truncate_and_escape_debug(name, 100);
    let message = format!("no tool `{name}` for programs; call get_chainable_tools to list them");
    raise_exception(ExceptionKind::Failed, message)
}

/// In order, each call that has ended is a wave of its own.
fn record_wave(stored: &mut StoredProgram, tool: &str, answer: &CallResponse) {
    record_answer(&mut stored.program, tool, answer);
    if !matches!(answer.result, Ok(tool::ExecutionState::Pending(_))) {
        stored.program.waves.push(WaveRecord {
            tools: vec![tool.to_owned()],
            elapsed_ms: answer.elapsed_ms,
            parallel_mutations: false,
        });
    }
}
