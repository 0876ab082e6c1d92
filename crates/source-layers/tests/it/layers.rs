//! Executors around executors, over one that follows a script.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use std::time::Duration;

use serde_json::json;
use source_layers::{RetryOnce, Retrying};
use testkit::source::{Answer, Scripted};
use tool::executor::Sent;
use tool::{
    Boxed, Code, Context, Effect, Effects, ExecuteError, Executor, Granted, Item, Json, Listing,
    Offer, Outcome, Source as _, Step, Tool, ToolName, Traits,
};

use testkit::run::{Switch, run, run_until};

type Said = Result<Outcome, ExecuteError>;

/// Says what its script says, and notes the attempts.
#[derive(Debug)]
struct Script {
    answers: Mutex<VecDeque<Said>>,
    attempts: Mutex<Vec<u8>>,
    cancels: Option<Arc<Switch>>,
}

impl Executor for Script {
    fn execute<'a>(
        &'a self,
        _: Granted<'a>,
        _: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        let mut attempts = self.attempts.lock().unwrap();
        let attempt = attempts.last().map_or(1, |last| last + 1);
        attempts.push(attempt);
        drop(attempts);
        if let Some(cancel) = &self.cancels {
            cancel.cancel();
        }
        let answer = self.answers.lock().unwrap().pop_front().expect("one call too many");
        Box::pin(std::future::ready(answer.map(Step::Done)))
    }
}

fn tool(effects: Effects, idempotent: bool) -> Arc<Tool> {
    Arc::new(Tool {
        name: ToolName::new("t").unwrap(),
        title: None,
        description: String::new(),
        input: Json::empty(),
        output: None,
        traits: Traits { effects, idempotent, ..Traits::default() },
        received: Json::empty(),
    })
}

fn reads() -> Arc<Tool> {
    tool(Effects::read_only(), false)
}

fn repeats() -> Arc<Tool> {
    tool(Effects::Declared(vec![Effect::SystemState]), true)
}

#[expect(clippy::unnecessary_wraps, reason = "it stands where a failure stands")]
fn good() -> Said {
    Ok(Outcome::value(Json::of(&json!(1))))
}

fn lost(code: Code, sent: Sent) -> Said {
    Err(ExecuteError { code, message: "lost".into(), sent, rpc: None })
}

/// Whether the call was made twice.
async fn retried(tool: &Arc<Tool>, first: Said) -> bool {
    let script = Arc::new(Script {
        answers: Mutex::new([first.clone(), good()].into()),
        attempts: Mutex::default(),
        cancels: None,
    });
    let retry = RetryOnce::new(Arc::<Script>::clone(&script));
    let outcome = run(tool, &retry, "{}").await;
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
    for code in [Code::UpstreamFailed, Code::UpstreamLost, Code::Timeout, Code::Busy] {
        assert!(retried(&reads(), lost(code, Sent::Maybe)).await, "{code}");
    }
    assert!(retried(&reads(), Ok(Outcome::failed("try later"))).await);
}

#[tokio::test]
async fn an_idempotent_tool_is_tried_again_as_well() {
    for sent in [Sent::No, Sent::Maybe] {
        assert!(retried(&repeats(), lost(Code::UpstreamLost, sent)).await);
    }
    assert!(retried(&repeats(), Ok(Outcome::failed("try later"))).await);
}

#[tokio::test]
async fn a_tool_that_may_change_something_is_never_tried_again() {
    for effects in [Effects::Unknown, Effects::Declared(vec![Effect::ModifiesFiles])] {
        let tool = tool(effects, false);
        for sent in [Sent::No, Sent::Maybe] {
            assert!(!retried(&tool, lost(Code::UpstreamLost, sent)).await);
        }
        assert!(!retried(&tool, Ok(Outcome::failed("try later"))).await);
    }
}

#[tokio::test]
async fn a_denial_and_a_success_stand() {
    for code in
        [Code::Denied, Code::Blocked, Code::InvalidArguments, Code::Cancelled, Code::TooLarge]
    {
        assert!(!retried(&reads(), lost(code, Sent::No)).await, "{code}");
    }
    let denial = "Permission denied: notes.x requires 'admin' but user has 'guest'";
    assert!(!retried(&reads(), Ok(Outcome::failed(denial))).await);
    assert!(!retried(&reads(), good()).await);
}

#[tokio::test]
async fn a_second_failure_stands_and_a_call_given_up_is_not_repeated() {
    let failure = lost(Code::UpstreamLost, Sent::No);
    let script = |cancels| Script {
        answers: Mutex::new([failure.clone(), failure.clone()].into()),
        attempts: Mutex::default(),
        cancels,
    };
    let retry = RetryOnce::new(Arc::new(script(None)));
    assert_eq!(run(&reads(), &retry, "{}").await, failure);
    let cancel = Arc::new(Switch::default());
    let cancelled = Arc::new(script(Some(Arc::clone(&cancel))));
    let retry = RetryOnce::new(Arc::<Script>::clone(&cancelled));
    assert_eq!(run_until(&reads(), &retry, "{}", &cancel).await, failure);
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
    let lost = || lost(Code::Timeout, Sent::Maybe);
    let (reading, writing) = (script(vec![lost(), good()]), script(vec![lost()]));
    let offer = |tool: Arc<Tool>, executor: &Arc<Script>| Offer {
        item: Item::Tool(limited(tool)),
        executor: Arc::<Script>::clone(executor),
    };
    let offers = vec![offer(reads(), &reading), offer(tool(Effects::Unknown, false), &writing)];
    let listing = Listing { offers, ..Listing::default() };
    let source = Retrying::new(Arc::new(Scripted::new("s", Answer::Listing(listing))));
    let listing = source.list().await.unwrap();
    let mut limits = Vec::new();
    let mut outcomes = Vec::new();
    for Offer { item, executor } in &listing.offers {
        let Item::Tool(tool) = item else { panic!("no tool") };
        limits.push(tool.traits.timeout.unwrap().as_secs());
        outcomes.push(run(tool, executor.as_ref(), "{}").await);
    }
    assert_eq!(limits, [64, 32]);
    assert_eq!(outcomes, [good(), lost()]);
    assert_eq!(*reading.attempts.lock().unwrap(), [1, 2]);
    assert_eq!(*writing.attempts.lock().unwrap(), [1]);
}
