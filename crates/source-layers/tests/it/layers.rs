//! Executors around executors, over one that follows a script.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use std::time::Duration;

use serde_json::json;
use source_layers::{RetryOnceExecutor, RetrySource};
use testkit::source::{MockListing, MockSource};
use tool::executor::DispatchState;
use tool::{
    BoxFuture, CallContext, CatalogItem, ErrorCode, ExecuteError, ExecutionState, Executor, Json,
    Offer, Outcome, RecordedCall, SideEffect, SideEffects, Source as _, SourceListing, Tool,
    ToolName, ToolTraits,
};

use testkit::executor_run::{CancelSwitch, run_call, run_cancellable};

type Said = Result<Outcome, ExecuteError>;

/// Says what its script says, and notes the attempts.
#[derive(Debug)]
struct Script {
    answers: Mutex<VecDeque<Said>>,
    attempts: Mutex<Vec<u8>>,
    cancels: Option<Arc<CancelSwitch>>,
}

impl Executor for Script {
    fn execute<'a>(
        &'a self,
        _: RecordedCall<'a>,
        _: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        let mut attempts = self.attempts.lock().unwrap();
        let attempt = attempts.last().map_or(1, |last| last + 1);
        attempts.push(attempt);
        drop(attempts);
        if let Some(cancel) = &self.cancels {
            cancel.cancel_call();
        }
        let answer = self.answers.lock().unwrap().pop_front().expect("one call too many");
        Box::pin(std::future::ready(answer.map(ExecutionState::Completed)))
    }
}

fn tool(effects: SideEffects, idempotent: bool) -> Arc<Tool> {
    Arc::new(Tool {
        name: ToolName::new("t").unwrap(),
        title: None,
        description: String::new(),
        input_schema: Json::empty_object(),
        output_schema: None,
        traits: ToolTraits { effects, is_idempotent: idempotent, ..ToolTraits::default() },
        raw_definition: Json::empty_object(),
    })
}

fn reads() -> Arc<Tool> {
    tool(SideEffects::read_only(), false)
}

fn repeats() -> Arc<Tool> {
    tool(SideEffects::Declared(vec![SideEffect::SystemState]), true)
}

#[expect(clippy::unnecessary_wraps, reason = "it stands where a failure stands")]
fn good() -> Said {
    Ok(Outcome::from_value(Json::encode(&json!(1))))
}

fn lost(code: ErrorCode, sent: DispatchState) -> Said {
    Err(ExecuteError { code, message: "lost".into(), dispatch: sent, rpc_error: None })
}

/// Whether the call was made twice.
async fn retried(tool: &Arc<Tool>, first: Said) -> bool {
    let script = Arc::new(Script {
        answers: Mutex::new([first.clone(), good()].into()),
        attempts: Mutex::default(),
        cancels: None,
    });
    let retry = RetryOnceExecutor::new(Arc::<Script>::clone(&script));
    let outcome = run_call(tool, &retry, "{}").await;
    let attempts = script.attempts.lock().unwrap().clone();
    match attempts.as_slice() {
        [1] => assert_eq!(outcome, first),
        [1, 2] => assert_eq!(outcome, good()),
        other => panic!("{other:?}"),
    }
    attempts.len() == 2
}

#[tokio::test]
async fn a_read_only_tool_is_tried_again_after_any_passing_failure() {
    for code in
        [ErrorCode::UpstreamFailed, ErrorCode::UpstreamLost, ErrorCode::Timeout, ErrorCode::Busy]
    {
        assert!(retried(&reads(), lost(code, DispatchState::MaybeSent)).await, "{code}");
    }
    assert!(retried(&reads(), Ok(Outcome::tool_failure("try later"))).await);
}

#[tokio::test]
async fn an_idempotent_tool_is_tried_again_as_well() {
    for sent in [DispatchState::NotSent, DispatchState::MaybeSent] {
        assert!(retried(&repeats(), lost(ErrorCode::UpstreamLost, sent)).await);
    }
    assert!(retried(&repeats(), Ok(Outcome::tool_failure("try later"))).await);
}

#[tokio::test]
async fn a_tool_that_may_change_something_is_never_tried_again() {
    for effects in [SideEffects::Unknown, SideEffects::Declared(vec![SideEffect::ModifiesFiles])] {
        let tool = tool(effects, false);
        for sent in [DispatchState::NotSent, DispatchState::MaybeSent] {
            assert!(!retried(&tool, lost(ErrorCode::UpstreamLost, sent)).await);
        }
        assert!(!retried(&tool, Ok(Outcome::tool_failure("try later"))).await);
    }
}

#[tokio::test]
async fn a_denial_and_a_success_stand() {
    for code in [
        ErrorCode::Denied,
        ErrorCode::Blocked,
        ErrorCode::InvalidArguments,
        ErrorCode::Cancelled,
        ErrorCode::TooLarge,
    ] {
        assert!(!retried(&reads(), lost(code, DispatchState::NotSent)).await, "{code}");
    }
    let denial = "Permission denied: notes.x requires 'admin' but user has 'guest'";
    assert!(!retried(&reads(), Ok(Outcome::tool_failure(denial))).await);
    assert!(!retried(&reads(), good()).await);
}

#[tokio::test]
async fn a_second_failure_stands_and_a_call_given_up_is_not_repeated() {
    let failure = lost(ErrorCode::UpstreamLost, DispatchState::NotSent);
    let script = |cancels| Script {
        answers: Mutex::new([failure.clone(), failure.clone()].into()),
        attempts: Mutex::default(),
        cancels,
    };
    let retry = RetryOnceExecutor::new(Arc::new(script(None)));
    assert_eq!(run_call(&reads(), &retry, "{}").await, failure);
    let cancel = Arc::new(CancelSwitch::default());
    let cancelled = Arc::new(script(Some(Arc::clone(&cancel))));
    let retry = RetryOnceExecutor::new(Arc::<Script>::clone(&cancelled));
    assert_eq!(run_cancellable(&reads(), &retry, "{}", &cancel).await, failure);
    assert_eq!(*cancelled.attempts.lock().unwrap(), [1]);
}

/// `retry: once` of a source: only what may run twice is wrapped, and both tries have their time.
#[tokio::test]
async fn a_source_that_retries_wraps_only_what_may_run_twice() {
    let script = |answers: Vec<Said>| {
        let answers = Mutex::new(answers.into());
        Arc::new(Script { answers, attempts: Mutex::default(), cancels: None })
    };
    let limited = |tool: Arc<Tool>| {
        let mut tool = Tool::clone(&tool);
        tool.traits.timeout = Some(Duration::from_secs(32));
        Arc::new(tool)
    };
    let lost = || lost(ErrorCode::Timeout, DispatchState::MaybeSent);
    let (reading, writing) = (script(vec![lost(), good()]), script(vec![lost()]));
    let offer = |tool: Arc<Tool>, executor: &Arc<Script>| Offer {
        item: CatalogItem::Tool(limited(tool)),
        executor: Arc::<Script>::clone(executor),
    };
    let offers = vec![offer(reads(), &reading), offer(tool(SideEffects::Unknown, false), &writing)];
    let listing = SourceListing { offers, ..SourceListing::default() };
    let source = RetrySource::new(Arc::new(MockSource::new("s", MockListing::Listing(listing))));
    let listing = source.list_offers().await.unwrap();
    let mut limits = Vec::new();
    let mut outcomes = Vec::new();
    for Offer { item, executor } in &listing.offers {
        let CatalogItem::Tool(tool) = item else { panic!("no tool") };
        limits.push(tool.traits.timeout.unwrap().as_secs());
        outcomes.push(run_call(tool, executor.as_ref(), "{}").await);
    }
    assert_eq!(limits, [64, 32]);
    assert_eq!(outcomes, [good(), lost()]);
    assert_eq!(*reading.attempts.lock().unwrap(), [1, 2]);
    assert_eq!(*writing.attempts.lock().unwrap(), [1]);
}
