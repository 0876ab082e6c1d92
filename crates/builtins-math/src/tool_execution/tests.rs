//! Test helpers that call the tools.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use std::task::{Context, Waker};

use serde_json::Value;
use testkit::context::{quiet_context, test_caller};
use tokio_util::sync::CancellationToken;
use tool::{
    CallArguments, CallId, Caller, Clock, Executor as _, IntentReceipt, MonotonicTime, Org,
    RecordedCall, SourceName, ToolCall, ToolKey, WallTime,
};

use super::{Answer, RunContext, SharedResources};
use crate::tool_arguments::ToolArguments;

/// Clock that advances by this many milliseconds at each reading.
#[derive(Debug, Default)]
struct Stepping(AtomicU64, u64);

impl Clock for Stepping {
    fn wall_now(&self) -> WallTime {
        WallTime(0)
    }
    fn monotonic_now(&self) -> MonotonicTime {
        MonotonicTime(Duration::from_millis(self.0.fetch_add(self.1, Ordering::Relaxed)))
    }
}

/// Run without a limit.
pub(crate) fn endless() -> RunContext {
    let (stop, clock) = (CancellationToken::new(), Arc::new(Stepping::default()));
    RunContext { stop, clock, until: MonotonicTime(Duration::MAX) }
}

/// Run whose time is over after `times` checks.
pub(crate) fn short(times: u64) -> RunContext {
    let clock = Arc::new(Stepping(AtomicU64::new(0), 1));
    RunContext {
        stop: CancellationToken::new(),
        clock,
        until: MonotonicTime(Duration::from_millis(times)),
    }
}

/// Run that is cancelled.
pub(crate) fn given_up() -> RunContext {
    let run = endless();
    run.stop.cancel();
    run
}

pub(crate) fn outcome(name: &str, args: &Value, run: &RunContext) -> Result<Answer, String> {
    let found = crate::TOOLS.iter().find(|(tool, _)| *tool == name);
    let (_, computation) = found.unwrap_or_else(|| panic!("no tool {name}"));
    computation(ToolArguments::from_value(args), run)
}

/// Returns a tool's answer, parsed again from its JSON: a number that is not finite is null there.
pub(crate) fn answer(name: &str, args: &Value) -> Value {
    let answer = outcome(name, args, &endless()).unwrap_or_else(|e| panic!("{name} {args}: {e}"));
    answer.exact.map_or_else(
        || serde_json::from_str(&answer.value.to_string()).unwrap(),
        |exact| exact.to_value(),
    )
}

pub(crate) fn fault(name: &str, args: &Value) -> String {
    match outcome(name, args, &endless()) {
        Err(message) => message,
        Ok(answer) => panic!("{name} {args}: {}", answer.value),
    }
}

/// Computes until it is cancelled.
fn compute_until_cancelled(_: ToolArguments<'_>, run: &RunContext) -> Result<Answer, String> {
    loop {
        run.check_cancelled()?;
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[expect(clippy::unnecessary_wraps, reason = "as all computations")]
fn compute_at_once(_: ToolArguments<'_>, _: &RunContext) -> Result<Answer, String> {
    Ok(Value::Null.into())
}

fn granted_call() -> (ToolCall, IntentReceipt) {
    let tool = Arc::new(testkit::read_only_tool("t", "d", &serde_json::json!({"type": "object"})));
    let source = SourceName::new("builtin").unwrap();
    let key = ToolKey { org: Org::default(), source, name: tool.name.clone() };
    let (id, args) = (CallId(uuid::Uuid::nil()), CallArguments::parse("{}".to_owned()).unwrap());
    let call = ToolCall {
        id,
        parent_id: None,
        resumption: None,
        unsolicited_input: None,
        tool_key: key,
        tool,
        arguments: args,
    };
    (call, IntentReceipt::with_abandon_hook(id, drop))
}

#[tokio::test]
async fn one_key_has_half_of_the_threads_and_another_waits_for_none_of_its_queue() {
    let shared = SharedResources::new(Arc::new(Stepping::default()), None);
    let (endless, short) =
        (shared.build_executor(compute_until_cancelled), shared.build_executor(compute_at_once));
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get).max(2);
    let (ann, bob) = (test_caller(), Caller { key_id: "k2".to_owned(), ..test_caller() });
    let (anns, bobs) = (quiet_context(&ann), quiet_context(&bob));
    let (call, ticket) = granted_call();
    let granted = || RecordedCall::from_receipt(&call, &ticket).unwrap();
    let mut polled = Context::from_waker(Waker::noop());
    let mut running: Vec<_> = (0..threads).map(|_| endless.execute(granted(), &anns)).collect();
    assert!(running.iter_mut().all(|it| it.as_mut().poll(&mut polled).is_pending()));
    let mut own = short.execute(granted(), &anns);
    assert!(own.as_mut().poll(&mut polled).is_pending());
    let theirs = tokio::time::timeout(Duration::from_mins(1), short.execute(granted(), &bobs));
    theirs.await.unwrap().unwrap();
    // Control: a key's request beyond its share waits until one of its own has ended.
    assert!(own.as_mut().poll(&mut polled).is_pending());
    drop(running);
    own.await.unwrap();
}
