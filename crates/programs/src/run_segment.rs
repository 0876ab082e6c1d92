//! One run segment of a program: from its start or a pause to the next pause or its end.

mod call_recovery;
mod interpreter_session;
mod nested_call;
mod segment_outcome;
mod sequential;
mod wave_execution;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use gateway::Gateway;
use identity::Principal;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use tool::call_outcome::CallFailure;
use tool::{CallArguments, CallerType, ErrorCode, SandboxUsage};

use crate::interpreter::{ExecutionMode, ScriptPlan};
use crate::program_functions::{FunctionTable, ScriptFunction};
use crate::program_state::{Checkpoint, ProgramState, ProgramStatus};
use crate::program_store::StoredProgram;
use crate::step_plan::{self, ProgramStep};
use crate::{ParentCall, Programs};
pub(crate) use segment_outcome::{SegmentAbort, SegmentResult};

/// Runs one segment of a program as its current caller.
pub(crate) struct RunSegment<'a> {
    pub(crate) programs: &'a Programs,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) principal: &'a Principal,
    pub(crate) parent_call: ParentCall<'a>,
    /// Cancelled when the caller cancels the program.
    pub(crate) cancellation: CancellationToken,
    /// Sandbox usage of the steps at the interpreter.
    sandbox_usage: Mutex<Option<SandboxUsage>>,
}

impl<'a> RunSegment<'a> {
    pub(crate) fn new(
        programs: &'a Programs,
        (gateway, principal): (Arc<Gateway>, &'a Principal),
        parent_call: ParentCall<'a>,
        cancellation: CancellationToken,
    ) -> Self {
        Self {
            programs,
            gateway,
            principal,
            parent_call,
            cancellation,
            sandbox_usage: Mutex::default(),
        }
    }
}

impl RunSegment<'_> {
    /// Runs a program from its start.
    pub(crate) async fn start_segment(
        &self,
        mut stored: StoredProgram,
        steps: &[ProgramStep],
    ) -> Result<StoredProgram, CallFailure> {
        let functions = self.programs.function_cache.get_or_build(&self.gateway, self.principal);
        let referenced = functions.find_in_script(&stored.program.code);
        let started = self.programs.dependencies.clock.monotonic_now();
        let start_result = if steps.is_empty() {
            sequential::start_script(self, &stored.program, &referenced).await
        } else {
            plan_steps(&stored.program, steps, &functions).map(|plan| (plan, None))
        };
        let (plan, python) = match start_result {
            Ok(started_script) => started_script,
            Err(abort) => return self.finish_segment(stored, Err(abort), started).await,
        };
        stored.program.effective_mode = plan.effective_mode;
        stored.program.fell_back_to_sequential = plan.fell_back_to_sequential;
        if !plan.blocked_tools.is_empty() {
            let now = self.programs.dependencies.clock.wall_now();
            stored.program.finish_program(
                now,
                ProgramStatus::Failed,
                Err(blocked_tools_message(&plan.blocked_tools, &functions)),
            );
            return Ok(stored);
        }
        let result = match (plan.waves, python) {
            (Some(waves), _) => {
                wave_execution::start_waves(self, &mut stored, waves, &functions).await
            }
            (None, Some(python)) => {
                sequential::run_script(self, &mut stored, python, &functions).await
            }
            (None, None) => {
                Err(CallFailure::new(ErrorCode::Internal, "the interpreter did not start").into())
            }
        };
        self.finish_segment(stored, result, started).await
    }

    /// Resumes a program from its checkpoint with the results of its pending calls.
    pub(crate) async fn resume_segment(
        &self,
        mut stored: StoredProgram,
        settled: Vec<nested_call::SettledCall>,
    ) -> Result<StoredProgram, CallFailure> {
        let Some(checkpoint) = stored.program.checkpoint.clone() else { return Ok(stored) };
        let functions = self.programs.function_cache.get_or_build(&self.gateway, self.principal);
        // The first writer resumes it; others get a conflict.
        self.programs.save_program(&mut stored).await?;
        let started = self.programs.dependencies.clock.monotonic_now();
        let result = match checkpoint {
            Checkpoint::Python { state, functions: function_names, call } => {
                let saved = sequential::SavedPosition {
                    state,
                    function_names,
                    call,
                    settled_calls: settled,
                };
                sequential::resume_script(self, &mut stored, saved, &functions).await
            }
            Checkpoint::Waves(wave_state) => {
                wave_execution::resume_waves(self, &mut stored, *wave_state, settled, &functions)
                    .await
            }
        };
        self.finish_segment(stored, result, started).await
    }

    /// Plans the program and previews the decisions, without executing calls.
    pub(crate) async fn dry_run(
        &self,
        program: &ProgramState,
        steps: &[ProgramStep],
    ) -> Result<Value, CallFailure> {
        let functions = self.programs.function_cache.get_or_build(&self.gateway, self.principal);
        let referenced = functions.find_in_script(&program.code);
        let plan = if steps.is_empty() {
            sequential::plan_script(self, program, &referenced).await
        } else {
            plan_steps(program, steps, &functions)
        };
        let plan = match plan {
            Ok(plan) => plan,
            Err(SegmentAbort::Failed(failure)) => return Err(failure),
            Err(_) => {
                return Err(CallFailure::new(
                    ErrorCode::Cancelled,
                    "the caller cancelled the call",
                ));
            }
        };
        let view = self.gateway.view_for(self.principal, CallerType::Chain);
        let empty = CallArguments::parse("{}")
            .map_err(|error| CallFailure::new(ErrorCode::Internal, error.to_string()))?;
        let mut decisions = BTreeMap::new();
        for name in &plan.called_tools {
            let Some(function) = functions.find_function(name) else { continue };
            let (principal, tool) = ((self.principal, CallerType::Chain), function.tool_name());
            // A condition on arguments may decide differently once they are known.
            if let Some(message) = self.gateway.explain_decision(&view, principal, tool, &empty) {
                decisions.insert(
                    tool,
                    json!({ "decision": message.decision, "why": message.reason_text }),
                );
            }
        }
        Ok(json!({
            "status": "dry_run", "calls": plan.called_tools, "blocked": plan.blocked_tools,
            "mode_used": plan.effective_mode, "fallback_to_seq": plan.fell_back_to_sequential, "decisions": decisions,
            "waves": plan.waves.map(|plan| plan.waves),
        }))
    }

    /// Reports the sandbox usage to the record of the call that runs the program.
    pub(crate) fn report_usage(&self) {
        let usage = self.sandbox_usage.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(usage) = usage {
            (self.parent_call.report_usage)(usage);
        }
    }

    fn add_usage(&self, usage: SandboxUsage) {
        let mut total = self.sandbox_usage.lock().unwrap_or_else(PoisonError::into_inner);
        *total = Some(usage.plus_earlier(total.take()));
    }

    /// Waits for `work` until the program is cancelled.
    async fn until_cancelled<T>(&self, work: impl Future<Output = T>) -> Result<T, SegmentAbort> {
        tokio::select! {
            biased;
            () = self.parent_call.cancel_signal.cancelled() => Err(SegmentAbort::Cancelled),
            () = self.cancellation.cancelled() => Err(SegmentAbort::Cancelled),
            output = work => Ok(output),
        }
    }

    /// Finds a function that programs may call.
    pub(crate) fn chainable_function<'f>(
        functions: &'f FunctionTable,
        name: &str,
    ) -> Option<&'f ScriptFunction> {
        functions.find_function(name).filter(|function| function.is_chainable)
    }
}

/// Plans a program of steps: its waves and the tools that are blocked for programs.
fn plan_steps(
    program: &ProgramState,
    steps: &[ProgramStep],
    functions: &FunctionTable,
) -> Result<ScriptPlan, SegmentAbort> {
    let waves = step_plan::plan_waves(steps, &program.inputs)
        .map_err(|why| CallFailure::new(ErrorCode::InvalidArguments, why))?;
    let called_tools: Vec<String> = steps.iter().map(|step| step.tool_name().to_owned()).collect();
    let is_blocked = |tool: &&String| RunSegment::chainable_function(functions, tool).is_none();
    let blocked: BTreeSet<String> = called_tools.iter().filter(is_blocked).cloned().collect();
    Ok(ScriptPlan {
        called_tools,
        blocked_tools: blocked.into_iter().collect(),
        effective_mode: ExecutionMode::Dependency,
        fell_back_to_sequential: false,
        waves: Some(waves),
        first_response: None,
    })
}

/// Formats the error of blocked tools: the research registry's text for a missing opt-in, else the
/// reason.
fn blocked_tools_message(blocked: &[String], functions: &FunctionTable) -> String {
    let (mut others, mut closed) = (Vec::new(), Vec::new());
    let mut message = Vec::new();
    for name in blocked {
        // As the gate lists it: a tool by its name, or `TOOL(name)`.
        let bare_name = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
        match functions.find_function(bare_name.unwrap_or(name)) {
            Some(function) if function.is_delegation_tool() => {
                message.push(format!("`{name}` routes and never runs in a chain."));
            }
            Some(function) if function.is_read_only() && !function.is_chainable => {
                closed.push(format!("`{name}`"));
            }
            _ => others.push(name.as_str()),
        }
    }
    if !closed.is_empty() {
        let (names, verb) = (closed.join(", "), if closed.len() == 1 { "does" } else { "do" });
        message.push(format!("{names} {verb} not allow `chain` under `allowed_callers`."));
    }
    let first = if others.is_empty() {
        String::new()
    } else {
        let others = others.join(", ");
        format!(
            " multi-tool chaining requires chain opt-in for non-read-only tools. Blocked tools: {others}."
        )
    };
    let rest: String = message.iter().flat_map(|sentence| [" ", sentence.as_str()]).collect();
    format!("Structured mode:{first}{rest}")
}

/// Binds the arguments of a call to parameter names; positional ones in the order of the
/// parameters.
pub(crate) fn bind_arguments(
    function: &ScriptFunction,
    args: Vec<Value>,
    mut kwargs: Map<String, Value>,
) -> Result<Map<String, Value>, String> {
    if args.is_empty() {
        return Ok(kwargs);
    }
    let (tool, parameters) = (function.tool_name(), function.parameter_names());
    if args.len() > parameters.len() {
        let (given, most) = (args.len(), parameters.len());
        return Err(format!("{tool}() takes at most {most} arguments, got {given}"));
    }
    for (name, value) in parameters.iter().zip(args) {
        if kwargs.contains_key(name) {
            return Err(format!("{tool}() got `{name}` twice"));
        }
        kwargs.insert(name.clone(), value);
    }
    Ok(kwargs)
}

#[cfg(test)]
mod tests;
