//! What reaches a node, and what comes of it.

use std::sync::Mutex;
use std::time::Duration;

use serde_json::json;
use testkit::context::{caller, context};
use tool::executor::{Cancel, Progress, Sent};
use tool::node::{Beat, Nodes as _, Speaks};
use tool::{Body, Boxed, Code, Context, Json, Mono, Outcome};

use crate::support::{Heard, Node, call, has, live, moved, offered, registry, run, timed};

fn value(outcome: Outcome) -> serde_json::Value {
    match outcome.body {
        Body::Value(json) | Body::Mcp(json) => json.value(),
    }
}

/// Nobody listens, as for spec 4's own callers.
struct Deaf;
impl Progress for Deaf {
    fn report(&self, _: f64, _: Option<f64>, _: Option<&str>) {}
    fn wanted(&self) -> bool {
        false
    }
}

#[derive(Default)]
struct Ears(Mutex<Vec<(f64, Option<f64>, String)>>);
impl Progress for Ears {
    fn report(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        self.0.lock().unwrap().push((done, total, message.unwrap_or_default().to_owned()));
    }
}

#[tokio::test]
async fn a_call_goes_out_as_it_was_checked_with_what_is_left_of_its_time() {
    let mut node = Node::start().await;
    let registry = registry(Some(node.address), &["echo", "fails"]).await;
    let caller = caller();
    let deadline = Mono(Duration::from_secs(7));
    let ctx = Context { deadline, progress: &Deaf, ..context(&caller) };
    let outcome = call(&registry, "echo", r#"{ "text" : "hi" }"#, &ctx).await.unwrap();
    assert_eq!(value(outcome), json!({ "text": "hi" }));
    let within = Some(Duration::from_secs(7));
    let input = r#"{ "text" : "hi" }"#.to_owned();
    assert_eq!(node.next().await, Heard::Call { tool: "echo".to_owned(), input, within });
    let outcome = call(&registry, "fails", "{}", &ctx).await.unwrap();
    assert!(outcome.is_error);
    assert_eq!(value(outcome), json!("it broke"), "no trace");
}

#[tokio::test]
async fn progress_is_told_where_somebody_listens() {
    let node = Node::start().await;
    let registry = registry(Some(node.address), &["tells"]).await;
    let (caller, ears) = (caller(), Ears::default());
    let ctx = Context { progress: &ears, ..context(&caller) };
    assert_eq!(value(call(&registry, "tells", "{}", &ctx).await.unwrap()), json!(true));
    assert_eq!(*ears.0.lock().unwrap(), [(1.0, Some(2.0), "half".to_owned())]);
    let ctx = Context { progress: &Deaf, ..context(&caller) };
    assert_eq!(value(call(&registry, "tells", "{}", &ctx).await.unwrap()), json!(false));
}

#[tokio::test]
async fn a_call_that_is_given_up_ends_at_its_node() {
    struct Soon(tokio_util::sync::CancellationToken);
    impl Cancel for Soon {
        fn cancelled(&self) -> Boxed<'_, ()> {
            Box::pin(self.0.cancelled())
        }
        fn is_cancelled(&self) -> bool {
            self.0.is_cancelled()
        }
    }
    for progress in [&Deaf as &dyn Progress, &Ears::default()] {
        let mut node = Node::start().await;
        let registry = registry(Some(node.address), &["hangs"]).await;
        let (caller, soon) = (caller(), Soon(tokio_util::sync::CancellationToken::new()));
        let ctx = Context { cancel: &soon, progress, ..context(&caller) };
        let given_up = async {
            assert!(matches!(node.next().await, Heard::Call { .. }));
            soon.0.cancel();
            node.next().await
        };
        let (ended, heard) = tokio::join!(call(&registry, "hangs", "{}", &ctx), given_up);
        assert_eq!(ended.unwrap_err().code, Code::Cancelled);
        assert_eq!(heard, Heard::Dropped);
    }
}

#[tokio::test]
async fn the_callers_time_is_kept_also_where_the_node_keeps_none() {
    let node = Node::start().await;
    let registry = registry(Some(node.address), &["hangs"]).await;
    let caller = caller();
    let deadline = Mono(Duration::from_millis(200));
    // With progress the pipeline's own limit holds: an answer has begun by then.
    let ctx = Context { deadline, progress: &Deaf, ..context(&caller) };
    let error = call(&registry, "hangs", "{}", &ctx).await.unwrap_err();
    assert_eq!((error.code, error.sent), (Code::Timeout, Sent::Maybe), "{error}");
}

#[tokio::test]
async fn a_node_that_dies_takes_its_calls_along_and_no_more() {
    let mut node = Node::start().await;
    let (address, caller) = (node.address, caller());
    let registry = registry(Some(address), &["echo", "hangs"]).await;
    let ctx = context(&caller);
    let dies = async {
        assert!(matches!(node.next().await, Heard::Call { .. }));
        node.kill();
    };
    let (lost, ()) = tokio::join!(call(&registry, "hangs", "{}", &ctx), dies);
    let lost = lost.unwrap_err();
    assert_eq!((lost.code, lost.sent), (Code::UpstreamLost, Sent::Maybe), "{lost}");
    // While it is away nothing is sent; one more call may go into the line as it breaks.
    let mut away = call(&registry, "echo", "{}", &ctx).await.unwrap_err();
    if away.sent == Sent::Maybe {
        away = call(&registry, "echo", "{}", &ctx).await.unwrap_err();
    }
    assert_eq!((away.code, away.sent), (Code::UpstreamLost, Sent::No), "{away}");
    // It comes back, and the next call reaches it.
    let _node = Node::at(&address.to_string()).await;
    assert_eq!(value(call(&registry, "echo", "{}", &ctx).await.unwrap()), json!({}));
}

#[tokio::test]
async fn a_node_that_moved_is_called_where_it_is() {
    let (mut old, mut new) = (Node::start().await, Node::start().await);
    let registry = registry(Some(old.address), &["echo"]).await;
    let caller = caller();
    call(&registry, "echo", "{}", &context(&caller)).await.unwrap();
    assert!(matches!(old.next().await, Heard::Call { .. }));
    assert_eq!(old.next().await, Heard::Dropped);
    moved(&registry, new.address);
    call(&registry, "echo", "{}", &context(&caller)).await.unwrap();
    assert!(matches!(new.next().await, Heard::Call { .. }));
    assert!(old.heard.try_recv().is_err());
}

#[tokio::test]
async fn a_node_without_an_address_or_that_drains_is_not_called() {
    let mut node = Node::start().await;
    let registry = registry(None, &["echo"]).await;
    let caller = caller();
    let ctx = context(&caller);
    let error = call(&registry, "echo", "{}", &ctx).await.unwrap_err();
    assert_eq!((error.code, error.sent), (Code::UpstreamLost, Sent::No));
    assert_eq!(error.message, "`nodes.addresses` does not name the node `n1`");
    moved(&registry, node.address);
    let own = Speaks::For("n1".to_owned());
    registry.beat(&own, "n1", Beat::Draining).unwrap();
    let error = call(&registry, "echo", "{}", &ctx).await.unwrap_err();
    assert_eq!((error.code, error.sent), (Code::UpstreamLost, Sent::No));
    assert!(node.heard.try_recv().is_err());
    registry.beat(&own, "n1", Beat::Serving).unwrap();
    call(&registry, "echo", "{}", &ctx).await.unwrap();
    assert!(matches!(node.next().await, Heard::Call { .. }));
}

#[tokio::test]
async fn an_input_that_is_no_object_goes_out_as_it_is() {
    let mut node = Node::start().await;
    let registry = registry(Some(node.address), &["echo"]).await;
    let caller = caller();
    let ctx = Context { progress: &Deaf, ..context(&caller) };
    for (input, sent) in [
        (json!("str"), r#""str""#),
        (json!([1, 2]), "[1,2]"),
        (json!(null), "null"),
        (json!(5), "5"),
        // Positive controls: objects are what they are, also one that has such an argument among others.
        (json!({ "text": "hi" }), r#"{"text":"hi"}"#),
        (json!({ "toolkeep/input": 1, "x": 2 }), r#"{"toolkeep/input":1,"x":2}"#),
        (json!({ "x": "toolkeep/input" }), r#"{"x":"toolkeep/input"}"#),
    ] {
        let args = tool::node::arguments(&Json::of(&input));
        call(&registry, "echo", args.as_str(), &ctx).await.unwrap();
        let Heard::Call { input, .. } = node.next().await else { panic!("no call") };
        assert_eq!(input, sent);
        assert_eq!(node.next().await, Heard::Dropped);
    }
}

/// Two nodes with the tool `echo`, and it as one tool in both places.
async fn both(
    one: &Node,
    other: &Node,
) -> (nodes::Registry, std::sync::Arc<tool::Tool>, std::sync::Arc<dyn tool::Executor>) {
    both_at(&std::sync::Arc::default(), one, other).await
}

async fn both_at(
    clock: &std::sync::Arc<testkit::clock::FakeClock>,
    one: &Node,
    other: &Node,
) -> (nodes::Registry, std::sync::Arc<tool::Tool>, std::sync::Arc<dyn tool::Executor>) {
    let registry = timed(std::sync::Arc::clone(clock) as _, None, &["echo", "hangs"]).await;
    has(&registry, "n2", &["echo", "hangs"]).await;
    live(&registry, &[("n1", one.address), ("n2", other.address)]);
    let (tool, first) = offered(&registry, 0, "echo").await;
    let (_, second) = offered(&registry, 1, "echo").await;
    let placed = first.beside(&[second]).unwrap();
    assert_eq!(placed.places(), ["n1", "n2"]);
    (registry, tool, placed)
}

#[tokio::test]
async fn a_tool_on_two_nodes_runs_on_the_first_and_where_the_caller_says() {
    let (mut one, mut other) = (Node::start().await, Node::start().await);
    let (_registry, tool, placed) = both(&one, &other).await;
    let caller = caller();
    run((&tool, &placed), "{}", &context(&caller)).await.unwrap();
    assert!(matches!(one.next().await, Heard::Call { .. }));
    let pin = |node: &str| Json::of(&json!({ "toolkeep/node": node }));
    let meta = pin("n2");
    let pinned = Context { meta: Some(&meta), ..context(&caller) };
    run((&tool, &placed), "{}", &pinned).await.unwrap();
    assert!(matches!(other.next().await, Heard::Call { .. }));
    let meta = pin("n3");
    let nowhere = Context { meta: Some(&meta), ..context(&caller) };
    let error = run((&tool, &placed), "{}", &nowhere).await.unwrap_err();
    assert_eq!(
        (error.message.as_str(), error.sent),
        ("the tool is not on the node `n3`", Sent::No)
    );
}

#[tokio::test]
async fn calls_go_to_the_other_node_while_one_is_away_or_ends() {
    let (one, mut other) = (Node::start().await, Node::start().await);
    let (registry, tool, placed) = both(&one, &other).await;
    let caller = caller();
    let ctx = context(&caller);
    let answerer = std::sync::OnceLock::new();
    run((&tool, &placed), "{}", &Context { node: Some(&answerer), ..ctx }).await.unwrap();
    assert_eq!(answerer.get().map(String::as_str), Some("n1"));
    assert!(registry.takes_calls("n1") && registry.takes_calls("n2"));
    one.kill();
    // What was sent to nobody is sent to the other; where it may have been sent, it is not.
    let mut answered = 0;
    for _ in 0..5 {
        let answerer = std::sync::OnceLock::new();
        let ctx = Context { node: Some(&answerer), ..ctx };
        match run((&tool, &placed), "{}", &ctx).await {
            Ok(_) => {
                assert_eq!(answerer.get().map(String::as_str), Some("n2"), "who answered");
                answered += 1;
            }
            Err(error) => assert_eq!((error.code, error.sent), (Code::UpstreamLost, Sent::Maybe)),
        }
    }
    assert!(answered >= 4, "{answered}");
    assert!(!registry.takes_calls("n1") && registry.takes_calls("n2"));
    assert!(matches!(other.next().await, Heard::Call { .. }));
    registry.beat(&Speaks::All, "n2", Beat::Draining).unwrap();
    let error = run((&tool, &placed), "{}", &ctx).await.unwrap_err();
    assert_eq!((error.code, error.sent), (Code::UpstreamLost, Sent::No));
}

#[tokio::test]
async fn a_call_that_changes_nothing_goes_on_at_the_other_node_where_its_own_is_lost() {
    for reads in [true, false] {
        let (mut one, other) = (Node::start().await, Node::start().await);
        let registry = registry(None, &["hangs"]).await;
        has(&registry, "n2", &["hangs"]).await;
        live(&registry, &[("n1", one.address), ("n2", other.address)]);
        let tools = reads.then(|| "hangs".to_owned()).into_iter().collect();
        registry.set_read_only(nodes::ReadOnly::Named(tools));
        let (tool, first) = offered(&registry, 0, "hangs").await;
        let (_, second) = offered(&registry, 1, "hangs").await;
        let (placed, caller) = (first.beside(&[second]).unwrap(), caller());
        let (ctx, mut other) = (context(&caller), Some(other));
        let dies = async {
            assert!(matches!(one.next().await, Heard::Call { .. }));
            one.kill();
            if reads {
                let mut other = other.take().unwrap();
                assert!(matches!(other.next().await, Heard::Call { .. }));
                other.kill();
            }
        };
        let call = (&tool, &placed);
        let (lost, ()) = tokio::join!(run(call, "{}", &ctx), dies);
        let lost = lost.unwrap_err();
        assert_eq!((lost.code, lost.sent), (Code::UpstreamLost, Sent::Maybe), "{lost}");
        // It may have had its effect: nobody else hears of it.
        assert!(other.is_none_or(|mut other| other.heard.try_recv().is_err()));
    }
}

#[tokio::test]
async fn a_node_that_no_longer_says_that_it_lives_is_asked_last() {
    let (mut one, mut other) = (Node::start().await, Node::start().await);
    let clock = std::sync::Arc::default();
    let (registry, tool, placed) = both_at(&clock, &one, &other).await;
    let caller = caller();
    for node in ["n1", "n2"] {
        registry.beat(&Speaks::For(node.to_owned()), node, Beat::Serving).unwrap();
    }
    run((&tool, &placed), "{}", &context(&caller)).await.unwrap();
    assert!(matches!(one.next().await, Heard::Call { .. }));
    assert_eq!(one.next().await, Heard::Dropped);
    clock.advance(Duration::from_secs(21));
    registry.beat(&Speaks::For("n2".to_owned()), "n2", Beat::Serving).unwrap();
    run((&tool, &placed), "{}", &context(&caller)).await.unwrap();
    assert!(matches!(other.next().await, Heard::Call { .. }));
    assert!(one.heard.try_recv().is_err());
    // Where all are silent, or there is no other, it is called all the same: silence is no proof.
    clock.advance(Duration::from_secs(21));
    run((&tool, &placed), "{}", &context(&caller)).await.unwrap();
    assert!(matches!(one.next().await, Heard::Call { .. }));
}
