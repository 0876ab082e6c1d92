//! How the tests of the tools call them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use std::task::{Context, Waker};

use serde_json::Value;
use testkit::context::{caller, context};
use tokio_util::sync::CancellationToken;
use tool::{
    Args, Call, CallId, Caller, Clock, Executor as _, Granted, Mono, Org, SourceName, Ticket,
    ToolKey, Wall,
};

use super::{Answer, Run, Shop};
use crate::fields::Fields;

/// A clock that goes on by so many milliseconds each time it is looked at.
#[derive(Debug, Default)]
struct Stepping(AtomicU64, u64);

impl Clock for Stepping {
    fn wall(&self) -> Wall {
        Wall(0)
    }
    fn mono(&self) -> Mono {
        Mono(Duration::from_millis(self.0.fetch_add(self.1, Ordering::Relaxed)))
    }
}

/// A run that nothing stops.
pub(crate) fn endless() -> Run {
    let (stop, clock) = (CancellationToken::new(), Arc::new(Stepping::default()));
    Run { stop, clock, until: Mono(Duration::MAX) }
}

/// A run whose time is over after it has asked `times` times.
pub(crate) fn short(times: u64) -> Run {
    let clock = Arc::new(Stepping(AtomicU64::new(0), 1));
    Run { stop: CancellationToken::new(), clock, until: Mono(Duration::from_millis(times)) }
}

/// A run that was given up.
pub(crate) fn given_up() -> Run {
    let run = endless();
    run.stop.cancel();
    run
}

pub(crate) fn outcome(name: &str, args: &Value, run: &Run) -> Result<Answer, String> {
    let found = crate::TOOLS.iter().find(|(tool, _)| *tool == name);
    let (_, work) = found.unwrap_or_else(|| panic!("no tool {name}"));
    work(Fields::inside(args), run)
}

/// What a tool answers, read again from its JSON: a number that is not finite would be null there.
pub(crate) fn answer(name: &str, args: &Value) -> Value {
    let answer = outcome(name, args, &endless()).unwrap_or_else(|e| panic!("{name} {args}: {e}"));
    answer.exact.map_or_else(
        || serde_json::from_str(&answer.value.to_string()).unwrap(),
        |exact| exact.value(),
    )
}

pub(crate) fn fault(name: &str, args: &Value) -> String {
    match outcome(name, args, &endless()) {
        Err(message) => message,
        Ok(answer) => panic!("{name} {args}: {}", answer.value),
    }
}

/// Computes until it is given up.
fn endless_work(_: Fields<'_>, run: &Run) -> Result<Answer, String> {
    loop {
        run.go_on()?;
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[expect(clippy::unnecessary_wraps, reason = "as all work")]
fn short_work(_: Fields<'_>, _: &Run) -> Result<Answer, String> {
    Ok(Value::Null.into())
}

fn granted_call() -> (Call, Ticket) {
    let tool = Arc::new(testkit::tool("t", "d", &serde_json::json!({"type": "object"})));
    let source = SourceName::new("builtin").unwrap();
    let key = ToolKey { org: Org::default(), source, name: tool.name.clone() };
    let (id, args) = (CallId(uuid::Uuid::nil()), Args::check("{}".to_owned()).unwrap());
    let call = Call { id, parent: None, continues: None, unasked: None, key, tool, args };
    (call, Ticket::issue(id, drop))
}

#[tokio::test]
async fn one_key_has_half_of_the_threads_and_another_waits_for_none_of_its_queue() {
    let shop = Shop::new(Arc::new(Stepping::default()), None);
    let (endless, short) = (shop.executor(endless_work), shop.executor(short_work));
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get).max(2);
    let (ann, bob) = (caller(), Caller { key: "k2".to_owned(), ..caller() });
    let (anns, bobs) = (context(&ann), context(&bob));
    let (call, ticket) = granted_call();
    let granted = || Granted::of(&call, &ticket).unwrap();
    let mut polled = Context::from_waker(Waker::noop());
    let mut running: Vec<_> = (0..threads).map(|_| endless.execute(granted(), &anns)).collect();
    assert!(running.iter_mut().all(|it| it.as_mut().poll(&mut polled).is_pending()));
    let mut own = short.execute(granted(), &anns);
    assert!(own.as_mut().poll(&mut polled).is_pending());
    let theirs = tokio::time::timeout(Duration::from_mins(1), short.execute(granted(), &bobs));
    theirs.await.unwrap().unwrap();
    // The control: what the first key asks for beside its share waits until it has ended something.
    assert!(own.as_mut().poll(&mut polled).is_pending());
    drop(running);
    own.await.unwrap();
}
