//! Wave execution: runs the independent calls of each wave concurrently.

use futures_util::StreamExt as _;
use serde_json::{Map, Value};
use tool::call_outcome::{CallResponse, CallStatus};
use tool::clock::duration_millis;
use tool::{BoxFuture, CallId};

use super::call_recovery::{self, CallRecovery};
use super::nested_call::{CallProgress, NestedCallIds, SettledCall, record_answer};
use super::{RunSegment, SegmentAbort, SegmentResult, bind_arguments};
use crate::interpreter::{self, ExecutionMode, PlannedStep, WavePlan};
use crate::program_functions::{FunctionTable, ScriptFunction};
use crate::program_state::{Checkpoint, ProgramState, StepCall, WaveCheckpoint, WaveRecord};
use crate::program_store::StoredProgram;

/// Maximum number of concurrent calls of one wave.
const MAX_CONCURRENT_CALLS: usize = 4;

/// How a wave ended.
enum WaveResult {
    Completed,
    Failed(String),
    PendingApprovals(Vec<StepCall>),
}

/// A call of a wave.
struct PreparedCall<'f> {
    step: usize,
    function: &'f ScriptFunction,
    args: Map<String, Value>,
}

pub(crate) async fn start_waves(
    segment: &RunSegment<'_>,
    stored: &mut StoredProgram,
    plan: WavePlan,
    functions: &FunctionTable,
) -> Result<SegmentResult, SegmentAbort> {
    let values = stored.program.inputs.clone();
    let (done, held, making) = (Vec::new(), Vec::new(), Vec::new());
    let wave_state = WaveCheckpoint {
        plan,
        values,
        last_value: Value::Null,
        wave_index: 0,
        completed_steps: done,
        pending_steps: held,
        in_flight_steps: making,
    };
    run_waves(segment, stored, wave_state, functions).await
}

pub(crate) async fn resume_waves(
    segment: &RunSegment<'_>,
    stored: &mut StoredProgram,
    mut wave_state: WaveCheckpoint,
    settled: Vec<SettledCall>,
    functions: &FunctionTable,
) -> Result<SegmentResult, SegmentAbort> {
    let (mut failed, pending) = (None, std::mem::take(&mut wave_state.pending_steps));
    let mut expired = Vec::new();
    for settled in settled {
        let (missed, SettledCall { answer, value: came }) = (settled.is_expired(), settled);
        let Some(StepCall { step, .. }) =
            pending.iter().copied().find(|it| it.call == answer.call_id)
        else {
            continue;
        };
        if missed {
            // Not marked as completed, so it is requested again with the rest of its wave.
            stored.program.remove_call(answer.call_id);
            expired.extend(wave_state.tool_of_step(step, functions));
            continue;
        }
        record_answer(&mut stored.program, "", &answer);
        if answer.status == CallStatus::Unknown {
            // Not marked as completed, so it is repeated with the rest of its wave.
            let function_call = wave_state.plan.steps.get(step);
            let function = function_call
                .and_then(|it| RunSegment::chainable_function(functions, &it.function));
            let function =
                function.ok_or_else(|| call_recovery::outcome_unknown(answer.call_id, None))?;
            segment.rerun_id(answer.call_id, function)?;
            continue;
        }
        failed = failed.or(wave_state.store_value(step, came));
    }
    // Calls that were in flight when the process ended; repeated ones run with the rest of their
    // wave.
    for StepCall { step, call } in std::mem::take(&mut wave_state.in_flight_steps) {
        let wanted = wave_state.plan.steps.get(step);
        let function =
            wanted.and_then(|it| RunSegment::chainable_function(functions, &it.function));
        if let CallRecovery::Settled(answer, called) = segment.recover_call(call, function).await? {
            let tool = function.map_or("", ScriptFunction::tool_name);
            record_answer(&mut stored.program, tool, &answer);
            match called {
                CallProgress::Returned(value) => {
                    failed = failed.or(wave_state.store_value(step, value));
                }
                CallProgress::PendingApproval(call) => {
                    wave_state.pending_steps.push(StepCall { step, call });
                }
            }
        }
    }
    if let Some(message) =
        failed.filter(|_| stored.program.effective_mode == ExecutionMode::Dependency)
    {
        return Ok(SegmentResult::Failed(message));
    }
    let checkpoint = |state| Box::new(Checkpoint::Waves(Box::new(state)));
    if !expired.is_empty() {
        return Ok(SegmentResult::Paused(checkpoint(wave_state), expired));
    }
    if !wave_state.pending_steps.is_empty() {
        return Ok(SegmentResult::PendingApproval(checkpoint(wave_state)));
    }
    run_waves(segment, stored, wave_state, functions).await
}

async fn run_waves(
    segment: &RunSegment<'_>,
    stored: &mut StoredProgram,
    mut wave_state: WaveCheckpoint,
    functions: &FunctionTable,
) -> Result<SegmentResult, SegmentAbort> {
    while let Some(order) = wave_state.plan.waves.get(wave_state.wave_index) {
        let left: Vec<usize> = order
            .iter()
            .copied()
            .filter(|step| !wave_state.completed_steps.contains(step))
            .collect();
        let started = segment.programs.dependencies.clock.monotonic_now();
        let mut tools = Vec::new();
        let wave_result = match prepare_calls(&wave_state, &left, functions) {
            Ok(ready) => {
                tools.extend(ready.iter().map(|it| it.function.tool_name().to_owned()));
                run_wave(segment, stored, &mut wave_state, ready).await?
            }
            Err(told) => WaveResult::Failed(told),
        };
        let elapsed =
            segment.programs.dependencies.clock.monotonic_now().saturating_duration_since(started);
        let elapsed_ms = duration_millis(elapsed);
        let parallel_mutations = stored.program.parallel_mutations;
        stored.program.waves.push(WaveRecord { tools, elapsed_ms, parallel_mutations });
        match wave_result {
            WaveResult::Completed => {}
            WaveResult::Failed(told) => return Ok(SegmentResult::Failed(told)),
            WaveResult::PendingApprovals(held) => {
                wave_state.pending_steps = held;
                return Ok(SegmentResult::PendingApproval(Box::new(Checkpoint::Waves(Box::new(
                    wave_state,
                )))));
            }
        }
        (wave_state.wave_index, wave_state.completed_steps) =
            (wave_state.wave_index + 1, Vec::new());
        report_progress(segment, &wave_state);
    }
    stored.program.set_observation(&wave_state.observation_text());
    Ok(wave_state.into_result())
}

/// Name for the value of an unnamed step; it is not a Python identifier.
fn placeholder_name(step: usize) -> String {
    format!("#{step}")
}

fn report_progress(segment: &RunSegment<'_>, wave_state: &WaveCheckpoint) {
    let (done, all) = (wave_state.wave_index, wave_state.plan.waves.len());
    let message = format!("wave {done} of {all}");
    #[expect(clippy::cast_precision_loss, reason = "waves are bounded far below 2^53")]
    segment.parent_call.progress.report_progress(done as f64, Some(all as f64), Some(&message));
}

/// Prepares the calls of these steps with their argument values.
fn prepare_calls<'f>(
    wave_state: &WaveCheckpoint,
    steps: &[usize],
    functions: &'f FunctionTable,
) -> Result<Vec<PreparedCall<'f>>, String> {
    let one = |step: &usize| {
        let function_call = wave_state.plan.steps.get(*step).ok_or("a step is missing")?;
        let name = function_call.function.as_str();
        let function = RunSegment::chainable_function(functions, name)
            .ok_or_else(|| format!("the tool `{name}` is no longer available to programs"))?;
        let fill = |it: &interpreter::ValueTemplate| {
            it.resolve(&wave_state.values).ok_or_else(|| format!("{name}(): a name has no value"))
        };
        let args = function_call.args.iter().map(fill).collect::<Result<Vec<_>, _>>()?;
        let kwargs = function_call.kwargs.iter().map(|(key, it)| Ok((key.clone(), fill(it)?)));
        let args = bind_arguments(function, args, kwargs.collect::<Result<_, String>>()?)?;
        Ok(PreparedCall { step: *step, function, args })
    };
    steps.iter().map(one).collect()
}

/// Runs read-only calls concurrently first, and then the others in order.
async fn run_wave(
    segment: &RunSegment<'_>,
    stored: &mut StoredProgram,
    wave_state: &mut WaveCheckpoint,
    ready: Vec<PreparedCall<'_>>,
) -> Result<WaveResult, SegmentAbort> {
    if let Err(message) = RunSegment::check_call_limit(&stored.program, ready.len()) {
        return Ok(WaveResult::Failed(message));
    }
    let beside =
        |it: &PreparedCall<'_>| it.function.is_read_only() || stored.program.parallel_mutations;
    let (beside, after): (Vec<_>, Vec<_>) = ready.into_iter().partition(beside);
    let (mut pending, mut failed) = (Vec::new(), None);
    // The other calls run one at a time, each in its own row.
    let mut rows = vec![beside];
    rows.extend(after.into_iter().map(|it| vec![it]));
    for row in rows {
        if failed.is_some() || !pending.is_empty() {
            break;
        }
        failed = run_concurrently(segment, stored, wave_state, (&row, &mut pending)).await?;
    }
    // Concurrent calls continue after an error; a dependency chain stops at its first error.
    Ok(match failed.filter(|_| stored.program.effective_mode == ExecutionMode::Dependency) {
        Some(told) => WaveResult::Failed(told),
        None if pending.is_empty() => WaveResult::Completed,
        None => WaveResult::PendingApprovals(pending),
    })
}

/// Runs calls concurrently, with checkpoints before and after if one may have side effects. Returns
/// the first error.
async fn run_concurrently(
    segment: &RunSegment<'_>,
    stored: &mut StoredProgram,
    wave_state: &mut WaveCheckpoint,
    (row, pending): (&[PreparedCall<'_>], &mut Vec<StepCall>),
) -> Result<Option<String>, SegmentAbort> {
    let prepared: Vec<_> = row.iter().map(|it| (it, segment.new_call_id())).collect();
    let effects = |(it, _): &&(&PreparedCall<'_>, CallId)| !it.function.is_read_only();
    wave_state.in_flight_steps = prepared
        .iter()
        .filter(effects)
        .map(|(it, call)| StepCall { step: it.step, call: *call })
        .collect();
    let keeps = !wave_state.in_flight_steps.is_empty();
    if keeps {
        segment.save_checkpoint(stored, Checkpoint::Waves(Box::new(wave_state.clone()))).await?;
    }
    // They are noted in this order when they have ended.
    let first = stored.program.calls.len();
    let calls = prepared.iter().enumerate();
    let ids = |at, call| NestedCallIds { program: stored.program.id, call, index: first + at };
    let calls: Vec<_> =
        calls.map(|(at, (it, call))| start_call(segment, ids(at, *call), it)).collect();
    let result: Vec<_> =
        futures_util::stream::iter(calls).buffered(MAX_CONCURRENT_CALLS).collect().await;
    let mut failed = None;
    for (it, called) in row.iter().zip(result) {
        failed = failed.or(wave_state.settle_step(&mut stored.program, it, called?, pending));
    }
    wave_state.in_flight_steps.clear();
    if keeps && pending.is_empty() {
        segment.save_checkpoint(stored, Checkpoint::Waves(Box::new(wave_state.clone()))).await?;
    }
    segment.programs.lock_index().notify_watchers(&stored.program);
    Ok(failed)
}

fn start_call<'a>(
    segment: &'a RunSegment<'a>,
    ids: NestedCallIds,
    it: &'a PreparedCall<'a>,
) -> BoxFuture<'a, Result<(CallResponse, CallProgress), SegmentAbort>> {
    Box::pin(segment.execute_call(ids, it.function, &it.args))
}

impl WaveCheckpoint {
    /// The tool that a step calls.
    fn tool_of_step(&self, step: usize, functions: &FunctionTable) -> Option<String> {
        let function_call = self.plan.steps.get(step)?;
        let function = RunSegment::chainable_function(functions, &function_call.function);
        Some(function.map_or(function_call.function.as_str(), ScriptFunction::tool_name).to_owned())
    }

    fn settle_step(
        &mut self,
        program: &mut ProgramState,
        it: &PreparedCall<'_>,
        (answer, called): (CallResponse, CallProgress),
        pending: &mut Vec<StepCall>,
    ) -> Option<String> {
        record_answer(program, it.function.tool_name(), &answer);
        match called {
            CallProgress::Returned(came) => self.store_value(it.step, came),
            CallProgress::PendingApproval(call) => {
                pending.push(StepCall { step: it.step, call });
                None
            }
        }
    }

    /// Stores the value of a step, and returns the error message if it raised one.
    fn store_value(&mut self, step: usize, result: interpreter::CallValue) -> Option<String> {
        let (value, raised) = match result {
            interpreter::CallValue::Value(value) => (value, None),
            interpreter::CallValue::Raised { message, .. } => {
                (Value::String(format!("[ERROR: {message}]")), Some(message))
            }
        };
        self.completed_steps.push(step);
        if step + 1 == self.plan.steps.len() {
            self.last_value = value.clone();
        }
        let name = self.plan.steps.get(step).and_then(|it| it.name.clone());
        self.values.insert(name.unwrap_or_else(|| placeholder_name(step)), value);
        raised
    }

    /// Returns the research registry's text of a turn: the result of each call in script order.
    fn observation_text(&self) -> String {
        let of = |(at, step): (usize, &PlannedStep)| {
            let name = step.name.clone();
            let value =
                match self.values.get(&name.clone().unwrap_or_else(|| placeholder_name(at)))? {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
            Some(format!("[{}]: {value}", name.as_deref().unwrap_or(&step.function)))
        };
        let blocks: Vec<_> = self.plan.steps.iter().enumerate().filter_map(of).collect();
        format!("Observation:\n{}", blocks.join("\n---\n"))
    }

    fn into_result(self) -> SegmentResult {
        let Self { plan, values, last_value: last, .. } = self;
        match &plan.result_template {
            Some(plain) => plain.resolve(&values).map_or_else(
                || SegmentResult::Failed("a name in the last value has none".to_owned()),
                SegmentResult::Completed,
            ),
            None if plan.returns_last_value => SegmentResult::Completed(last),
            None => SegmentResult::Completed(Value::Null),
        }
    }
}
