//! `run_shell`: runs a shell command in a sandbox.
//!
//! The command text is not inspected. The sandbox limits what it can reach; the policy and an
//! approver decide whether it runs.

use std::sync::Arc;
use std::time::Duration;

use sandbox::process::{Child, Exit, GRACE, SpawnError};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tool::{
    Body, Boxed, Clock, Code, Context, ExecuteError, Executor, Granted, Json, Outcome, Step,
};

use crate::cages::{Cages, caged_child};
use tool_manifest::Builtin;
use tool_manifest::{Bound, Registry};

/// Largest captured output of stdout and stderr, in characters (spec 3's numbers).
const MOST: (usize, usize) = (50_000, 10_000);
/// `returncode` after a timeout (spec 3's number).
const OUT_OF_TIME: i32 = -1;

pub(crate) fn builtin(
    registry: &Registry,
    cages: &Arc<Cages>,
    clock: &Arc<dyn Clock>,
) -> Option<Builtin> {
    let declared = registry.get("run_shell")?;
    let seconds = declared.bound("timeout");
    let (cages, clock) = (Arc::clone(cages), Arc::clone(clock));
    Some(declared.run_by(RunShell { cages, clock, seconds }))
}

#[derive(Debug)]
struct RunShell {
    cages: Arc<Cages>,
    clock: Arc<dyn Clock>,
    seconds: Bound,
}

/// How a command ended.
enum Ended {
    ByItself(Exit),
    OutOfTime,
    GivenUp,
}

impl Executor for RunShell {
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        ctx: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        Box::pin(self.run(call.call().args.value(), ctx))
    }
}

impl RunShell {
    async fn run(&self, args: &Value, ctx: &Context<'_>) -> Result<Step, ExecuteError> {
        let began = self.clock.mono();
        let line = args.get("command").and_then(Value::as_str).unwrap_or_default();
        let folder = args.get("cwd").and_then(Value::as_str);
        let limit = Duration::from_secs(self.seconds.of(args, "timeout").max(1));
        let refused = |why: String| ExecuteError::before(Code::Blocked, why);
        let spec = self.cages.shell(line, folder).await.map_err(refused)?;
        let tier = spec.cage.as_ref().map(|cage| cage.tier);
        let mut child = match self.cages.launcher().spawn(&spec) {
            Ok(child) => child,
            Err(SpawnError::BadSpec { what, .. }) => {
                return Ok(Step::Done(Outcome::failed(&format!("command {what}"))));
            }
            Err(error) => return Err(ExecuteError::before(Code::Busy, error.to_string())),
        };
        drop(child.stdin());
        let streams = (child.stdout(), child.stderr());
        let (out, err, (ended, heavy)) = tokio::join!(
            kept(streams.0, MOST.0),
            kept(streams.1, MOST.1),
            until_ended(&mut child, limit, ctx)
        );
        if let Some(tier) = tier {
            ctx.ran_caged(caged_child(tier, &child));
        }
        let took = self.clock.mono().since(began).as_millis();
        let (code, timed_out, note) = match ended {
            Ended::GivenUp => {
                return Err(ExecuteError::during(Code::Cancelled, "the command was ended"));
            }
            Ended::OutOfTime => {
                let note = format!("the command was ended after {} s", limit.as_secs());
                (OUT_OF_TIME, true, Some(note))
            }
            Ended::ByItself(Exit::NotStarted(why)) => return not_started(&why, folder),
            Ended::ByItself(exit) => code(&exit, heavy),
        };
        let mut fields = json!({
            "stdout": out.text,
            "stderr": err.text,
            "returncode": code,
            "elapsed_ms": u64::try_from(took).unwrap_or(u64::MAX),
            "truncated": out.cut || err.cut,
        });
        if let (Some(fields), Some(note)) = (fields.as_object_mut(), note) {
            fields.insert("error".to_owned(), note.into());
        }
        let body = Body::Value(Json::of(&fields));
        Ok(Step::Done(Outcome { body, is_error: timed_out || heavy }))
    }
}

async fn until_ended(child: &mut Child, limit: Duration, ctx: &Context<'_>) -> (Ended, bool) {
    let ended = tokio::select! {
        ended = tokio::time::timeout(limit, child.wait()) => ended.ok().map(Ended::ByItself),
        () = ctx.cancel.cancelled() => Some(Ended::GivenUp),
    };
    match ended {
        Some(Ended::ByItself(exit)) => (Ended::ByItself(exit), child.too_heavy()),
        other => {
            child.end(GRACE).await;
            (other.unwrap_or(Ended::OutOfTime), false)
        }
    }
}

/// Reports a signal as Python does, as a negative number.
fn code(exit: &Exit, heavy: bool) -> (i32, bool, Option<String>) {
    match exit {
        Exit::Code(code) => (*code, false, None),
        Exit::Signal(number) if heavy => {
            (-number, false, Some("the command took more memory than it may".to_owned()))
        }
        Exit::Signal(number) => (-number, false, Some(format!("ended by signal {number}"))),
        Exit::NotStarted(_) | Exit::Lost => {
            (-9, false, Some("its supervisor was killed from outside".to_owned()))
        }
    }
}

fn not_started(why: &str, folder: Option<&str>) -> Result<Step, ExecuteError> {
    if why.contains("working directory") {
        let shown: String =
            folder.unwrap_or(".").chars().take(200).flat_map(char::escape_debug).collect();
        let told = format!(
            "cwd: `{shown}` is no folder that the command can be in; give one in the working folder"
        );
        return Ok(Step::Done(Outcome::failed(&told)));
    }
    Err(ExecuteError::before(Code::Blocked, why.to_owned()))
}

#[derive(Default)]
struct Kept {
    text: String,
    cut: bool,
}

/// Captures the first `most` characters. The rest is read and discarded, so that the writer never
/// blocks.
async fn kept(stream: Option<impl AsyncRead + Unpin>, most: usize) -> Kept {
    let Some(mut stream) = stream else { return Kept::default() };
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
    Kept {
        text: text.get(..end.unwrap_or(text.len())).unwrap_or_default().to_owned(),
        cut: cut || end.is_some(),
    }
}
