//! `run_shell`: runs a shell command in a sandbox.
//!
//! The command text is not inspected. The sandbox limits what it can reach; the policy and an
//! approver decide whether it runs.

use std::sync::Arc;
use std::time::Duration;

use sandbox::process::{ChildExit, ChildProcess, DEFAULT_GRACE, SpawnError};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tool::clock::duration_millis;
use tool::display_text::truncate_and_escape_debug;
use tool::{
    BoxFuture, CallContext, Clock, ErrorCode, ExecuteError, ExecutionState, Executor, Json,
    Outcome, OutcomeBody, RecordedCall,
};

use crate::sandbox_provider::{SandboxProvider, child_usage};
use tool_manifest::BuiltinTool;
use tool_manifest::{ManifestRegistry, NumericLimit};

/// Largest captured output in characters (the research registry's numbers).
const MAX_STDOUT_CHARS: usize = 50_000;
const MAX_STDERR_CHARS: usize = 10_000;
/// `returncode` after a timeout (the research registry's number).
const TIMEOUT_RETURN_CODE: i32 = -1;

pub(crate) fn build_tool(
    registry: &ManifestRegistry,
    sandboxes: &Arc<SandboxProvider>,
    clock: &Arc<dyn Clock>,
) -> Option<BuiltinTool> {
    let declared = registry.find_tool("run_shell")?;
    let seconds = declared.numeric_limit("timeout");
    let (sandboxes, clock) = (Arc::clone(sandboxes), Arc::clone(clock));
    Some(declared.with_executor(RunShell { sandboxes, clock, timeout_limit: seconds }))
}

#[derive(Debug)]
struct RunShell {
    sandboxes: Arc<SandboxProvider>,
    clock: Arc<dyn Clock>,
    timeout_limit: NumericLimit,
}

/// How a command ended.
enum CommandEnd {
    Exited(ChildExit),
    TimedOut,
    Cancelled,
}

impl Executor for RunShell {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        Box::pin(self.run_command(call.call().arguments.as_value(), ctx))
    }
}

impl RunShell {
    async fn run_command(
        &self,
        args: &Value,
        ctx: &CallContext<'_>,
    ) -> Result<ExecutionState, ExecuteError> {
        let began = self.clock.monotonic_now();
        let line = args.get("command").and_then(Value::as_str).unwrap_or_default();
        let folder = args.get("cwd").and_then(Value::as_str);
        let limit = Duration::from_secs(self.timeout_limit.value_in(args, "timeout").max(1));
        let refused = |why: String| ExecuteError::not_sent(ErrorCode::Blocked, why);
        let spec = self.sandboxes.shell_command(line, folder).await.map_err(refused)?;
        let tier = spec.sandbox.as_ref().map(|sandbox_spec| sandbox_spec.level);
        let mut child = match self.sandboxes.launcher().spawn_child(&spec) {
            Ok(child) => child,
            Err(SpawnError::InvalidSpec { what, .. }) => {
                return Ok(ExecutionState::Completed(Outcome::tool_failure(&format!(
                    "command {what}"
                ))));
            }
            Err(error) => return Err(ExecuteError::not_sent(ErrorCode::Busy, error.to_string())),
        };
        drop(child.take_stdin());
        let streams = (child.take_stdout(), child.take_stderr());
        let (out, err, (ended, heavy)) = tokio::join!(
            capture_output(streams.0, MAX_STDOUT_CHARS),
            capture_output(streams.1, MAX_STDERR_CHARS),
            wait_or_kill(&mut child, limit, ctx)
        );
        if let Some(tier) = tier {
            ctx.record_sandbox_usage(child_usage(tier, &child));
        }
        let took = self.clock.monotonic_now().saturating_duration_since(began);
        let (code, timed_out, note) = match ended {
            CommandEnd::Cancelled => {
                return Err(ExecuteError::maybe_sent(
                    ErrorCode::Cancelled,
                    "the command was stopped",
                ));
            }
            CommandEnd::TimedOut => {
                let note = format!("the command was stopped after {} s", limit.as_secs());
                (TIMEOUT_RETURN_CODE, true, Some(note))
            }
            CommandEnd::Exited(ChildExit::NotStarted(why)) => return start_failure(&why, folder),
            CommandEnd::Exited(exit) => exit_report(&exit, heavy),
        };
        let mut fields = json!({
            "stdout": out.text,
            "stderr": err.text,
            "returncode": code,
            "elapsed_ms": duration_millis(took),
            "truncated": out.is_truncated || err.is_truncated,
        });
        if let (Some(fields), Some(note)) = (fields.as_object_mut(), note) {
            fields.insert("error".to_owned(), note.into());
        }
        let body = OutcomeBody::Value(Json::encode(&fields));
        Ok(ExecutionState::Completed(Outcome { body, is_error: timed_out || heavy }))
    }
}

async fn wait_or_kill(
    child: &mut ChildProcess,
    limit: Duration,
    ctx: &CallContext<'_>,
) -> (CommandEnd, bool) {
    let ended = tokio::select! {
        ended = tokio::time::timeout(limit, child.wait_ended()) => ended.ok().map(CommandEnd::Exited),
        () = ctx.cancel.cancelled() => Some(CommandEnd::Cancelled),
    };
    match ended {
        Some(CommandEnd::Exited(exit)) => (CommandEnd::Exited(exit), child.exceeded_memory_limit()),
        other => {
            child.terminate_tree(DEFAULT_GRACE).await;
            (other.unwrap_or(CommandEnd::TimedOut), false)
        }
    }
}

/// Reports a signal as Python does, as a negative number.
fn exit_report(exit: &ChildExit, heavy: bool) -> (i32, bool, Option<String>) {
    match exit {
        ChildExit::Code(code) => (*code, false, None),
        ChildExit::Signal(number) if heavy => {
            (-number, false, Some("the command exceeded its memory limit".to_owned()))
        }
        ChildExit::Signal(number) => (-number, false, Some(format!("ended by signal {number}"))),
        ChildExit::NotStarted(_) | ChildExit::SupervisorLost => {
            (-9, false, Some("its supervisor was killed from outside".to_owned()))
        }
    }
}

fn start_failure(why: &str, folder: Option<&str>) -> Result<ExecutionState, ExecuteError> {
    if why.contains("working directory") {
        let shown = truncate_and_escape_debug(folder.unwrap_or("."), 200);
        let told = format!(
            "cwd: `{shown}` is no folder that the command can be in; give one in the working folder"
        );
        return Ok(ExecutionState::Completed(Outcome::tool_failure(&told)));
    }
    Err(ExecuteError::not_sent(ErrorCode::Blocked, why.to_owned()))
}

#[derive(Default)]
struct CapturedOutput {
    text: String,
    is_truncated: bool,
}

/// Captures the first `most` characters. The rest is read and discarded, so that the writer never
/// blocks.
async fn capture_output(stream: Option<impl AsyncRead + Unpin>, most: usize) -> CapturedOutput {
    let Some(mut stream) = stream else { return CapturedOutput::default() };
    let (mut all, mut chunk) = (Vec::new(), vec![0; 16 << 10]);
    let mut cut = false;
    while let Ok(count @ 1..) = stream.read(&mut chunk).await {
        let room = (4 * most).saturating_sub(all.len());
        let taken = chunk.get(..count.min(room)).unwrap_or_default();
        all.extend_from_slice(taken);
        cut |= taken.len() < count;
    }
    let text = String::from_utf8_lossy(&all);
    let end = text.char_indices().nth(most).map(|(at, _)| at);
    CapturedOutput {
        text: text.get(..end.unwrap_or(text.len())).unwrap_or_default().to_owned(),
        is_truncated: cut || end.is_some(),
    }
}
