//! Tools for programs, identical at every interface.

use builtin_manifests::ToolFamily;
use std::sync::Arc;
use std::time::Duration;

use gateway::{OnBehalf, PrincipalExecutor, PrincipalPort};
use serde::Deserialize;
use serde_json::{Map, Value};
use tool::{
    BoxFuture, CallContext, CallId, ErrorCode, ExecuteError, ExecutionState, Interface, Json,
    Outcome, RecordedCall,
};
use tool_manifest::BuiltinTool;

use crate::program_view;
use crate::{CallOrigin, ExecutionMode, ParentCall, ProgramRequest, ProgramStep, Programs};

/// Calls of a program that names no number.
const DEFAULT_MAX_CALLS: usize = 200;

const PROGRAM_TOOLS: &[(&str, ProgramTool)] = &[
    ("run_program", ProgramTool::Run),
    ("program_status", ProgramTool::Status),
    ("get_chainable_tools", ProgramTool::ListFunctions),
];

/// Creates the tools that run and manage programs.
pub fn program_tools(programs: &Arc<Programs>) -> Vec<BuiltinTool> {
    let made = |(name, does): &(&str, ProgramTool)| {
        Some(ToolFamily::Programs.registry().find_tool(name)?.with_executor(PrincipalPort(
            ProgramToolExecutor { tool: *does, programs: Arc::clone(programs) },
        )))
    };
    PROGRAM_TOOLS.iter().filter_map(made).collect()
}

#[derive(Debug, Clone, Copy)]
enum ProgramTool {
    Run,
    Status,
    ListFunctions,
}

#[derive(Debug)]
struct ProgramToolExecutor {
    tool: ProgramTool,
    programs: Arc<Programs>,
}

/// Arguments of the tool that runs a program.
#[derive(Deserialize)]
struct RunProgramArgs {
    #[serde(default)]
    code: Option<String>,
    #[serde(default)]
    steps: Option<Vec<ProgramStep>>,
    #[serde(default)]
    inputs: Option<Map<String, Value>>,
    #[serde(default)]
    mode: Option<ExecutionMode>,
    #[serde(default)]
    parallel_mutations: Option<bool>,
    #[serde(default)]
    max_calls: Option<usize>,
    #[serde(default)]
    dry_run: Option<bool>,
}

#[derive(Deserialize)]
struct ProgramStatusArgs {
    program: CallId,
    #[serde(default)]
    wait_seconds: Option<u64>,
    #[serde(default)]
    resume: Option<bool>,
}

impl ProgramToolExecutor {
    async fn run_tool(
        &self,
        caller: OnBehalf<'_>,
        call: RecordedCall<'_>,
        ctx: &CallContext<'_>,
    ) -> Result<ExecutionState, ExecuteError> {
        // The restricted principal of the request: a program has the same rights.
        let principal = caller.principal;
        let (id, args) = (call.call().id, call.call().arguments.as_json());
        let result = match self.tool {
            ProgramTool::Run => {
                let run: RunProgramArgs = decode_args(args)?;
                let dry = run.dry_run.unwrap_or_default();
                let (code, steps) = script_or_steps(run.code, run.steps)?;
                let begin = ProgramRequest {
                    code,
                    steps,
                    inputs: run.inputs.unwrap_or_default(),
                    execution_mode: run.mode.unwrap_or_else(|| self.programs.default_mode()),
                    parallel_mutations: run
                        .parallel_mutations
                        .unwrap_or_else(|| self.programs.allows_parallel_mutations()),
                    max_calls: run.max_calls.unwrap_or(DEFAULT_MAX_CALLS),
                };
                let report_usage = |took| ctx.record_sandbox_usage(took);
                let running = ParentCall {
                    cancel_signal: ctx.cancel,
                    progress: ctx.progress,
                    report_usage: &report_usage,
                };
                let origin = CallOrigin { principal, call_id: id, interface: Interface::Tool };
                if dry {
                    self.programs.plan_program(origin, begin, running).await
                } else {
                    let started = self.programs.start_program(origin, begin, running);
                    Box::pin(started).await.map(program_view::model_view)
                }
            }
            ProgramTool::Status => {
                let ProgramStatusArgs { program, wait_seconds, resume } = decode_args(args)?;
                let wait = Duration::from_secs(wait_seconds.unwrap_or_default());
                if resume.unwrap_or_default() {
                    self.programs.resume_and_wait(principal, program, wait).await
                } else {
                    self.programs.wait_for_program(principal, program, wait).await
                }
            }
            ProgramTool::ListFunctions => self.programs.list_functions(principal),
        };
        let told =
            result.map_err(|failure| ExecuteError::maybe_sent(failure.code, failure.message))?;
        let failed = told.get("status").and_then(Value::as_str) == Some("failed");
        let is_error = failed && matches!(self.tool, ProgramTool::Run);
        Ok(ExecutionState::Completed(Outcome {
            is_error,
            ..Outcome::from_value(Json::encode(&told))
        }))
    }
}

/// A script or steps.
fn script_or_steps(
    code: Option<String>,
    steps: Option<Vec<ProgramStep>>,
) -> Result<(String, Vec<ProgramStep>), ExecuteError> {
    match (code, steps) {
        (Some(code), None) => Ok((code, Vec::new())),
        (None, Some(steps)) if !steps.is_empty() => Ok((String::new(), steps)),
        _ => {
            let message = "give either `code` or `steps`, and at least one step";
            Err(ExecuteError::not_sent(ErrorCode::InvalidArguments, message))
        }
    }
}

fn decode_args<T: for<'de> Deserialize<'de>>(args: &Json) -> Result<T, ExecuteError> {
    args.decode()
        .map_err(|error| ExecuteError::not_sent(ErrorCode::InvalidArguments, error.to_string()))
}

impl PrincipalExecutor for ProgramToolExecutor {
    fn execute<'a>(
        &'a self,
        caller: OnBehalf<'a>,
        call: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        Box::pin(self.run_tool(caller, call, ctx))
    }

    fn only_calls(&self) -> bool {
        true
    }
}
