//! Executors around executors, over one that follows a script.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use serde_json::json;
use tokio::sync::Semaphore;
use tool::executor::Sent;
use tool::{
    Boxed, Code, Context, Effect, Effects, ExecuteError, Executor, Granted, Json, Outcome, Step,
    Tool, ToolName, Traits,
};
use upstreams::layers::{Concurrency, Gate, RetryOnce};

use crate::fakes::{Switch, run, run_until};

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
        ctx: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        self.attempts.lock().unwrap().push(ctx.attempt);
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
async fn an_idempotent_tool_is_tried_again_only_where_nothing_was_sent() {
    assert!(retried(&repeats(), lost(Code::UpstreamLost, Sent::No)).await);
    assert!(!retried(&repeats(), lost(Code::UpstreamLost, Sent::Maybe)).await);
    assert!(!retried(&repeats(), Ok(Outcome::failed("try later"))).await);
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

/// Runs until it is let go; counts those that began.
#[derive(Debug)]
struct Held {
    began: Semaphore,
    leave: Semaphore,
}

impl Held {
    fn new() -> Arc<Self> {
        Arc::new(Self { began: Semaphore::new(0), leave: Semaphore::new(0) })
    }

    /// Resolves when one more has begun.
    async fn one_began(&self) {
        self.began.acquire().await.unwrap().forget();
    }
}

impl Executor for Held {
    fn execute<'a>(
        &'a self,
        _: Granted<'a>,
        _: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        self.began.add_permits(1);
        Box::pin(async {
            self.leave.acquire().await.unwrap().forget();
            good().map(Step::Done)
        })
    }
}

#[tokio::test]
async fn calls_wait_for_their_turn_and_those_beyond_are_busy() {
    let held = Held::new();
    let gate = Gate::new(1, 1);
    let limited = Concurrency::new(Arc::<Held>::clone(&held), gate);
    let tool = reads();
    let (first, second) = (run(&tool, &limited, "{}"), run(&tool, &limited, "{}"));
    let third = async {
        held.one_began().await;
        let mut third = Box::pin(run(&tool, &limited, "{}"));
        let Poll::Ready(Err(error)) = futures_util::poll!(third.as_mut()) else {
            panic!("it waits")
        };
        assert_eq!((error.code, error.sent), (Code::Busy, Sent::No));
        assert_eq!(error.message, "1 calls of this source run and 1 wait; try again later");
        assert_eq!(held.began.available_permits(), 0, "the second began before its turn");
        held.leave.add_permits(2);
    };
    let (first, second, ()) = tokio::join!(first, second, third);
    assert_eq!((first, second), (good(), good()));
    held.leave.add_permits(1);
    assert_eq!(run(&tool, &limited, "{}").await, good());
}

#[tokio::test]
async fn whoever_gives_up_leaves_the_queue() {
    let held = Held::new();
    let limited = Concurrency::new(Arc::<Held>::clone(&held), Gate::new(1, 1));
    let tool = reads();
    let cancel = Switch::default();
    let first = run(&tool, &limited, "{}");
    let others = async {
        held.one_began().await;
        for _ in 0..3 {
            let cancel = Switch::default();
            let waiting = run_until(&tool, &limited, "{}", &cancel);
            let giving_up = async { cancel.cancel() };
            let (outcome, ()) = tokio::join!(waiting, giving_up);
            assert_eq!(outcome.unwrap_err().code, Code::Cancelled);
        }
        // Dropped, not told: its place in the queue is free as well.
        let mut dropped = Box::pin(run_until(&tool, &limited, "{}", &cancel));
        assert!(futures_util::poll!(dropped.as_mut()).is_pending());
        drop(dropped);
        let mut waits = Box::pin(run(&tool, &limited, "{}"));
        assert!(futures_util::poll!(waits.as_mut()).is_pending());
        held.leave.add_permits(2);
        assert_eq!(waits.await, good());
    };
    let (first, ()) = tokio::join!(first, others);
    assert_eq!(first, good());
}
