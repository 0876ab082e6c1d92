//! Tests of requests to nodes and of their outcomes.

use std::sync::Mutex;
use std::time::Duration;

use serde_json::json;
use testkit::context::{quiet_context, test_caller};
use tool::executor::{CancelSignal, DispatchState, ProgressSink};
use tool::node_registry::{HeartbeatState, NodeAccess, NodeRegistry as _};
use tool::{BoxFuture, CallContext, ErrorCode, Json, MonotonicTime, Outcome, OutcomeBody};

use crate::support::{
    Node, NodeEvent, call, listed_offers, register_tools, registry, run, set_address,
    set_node_addresses, timed,
};

fn value(outcome: Outcome) -> serde_json::Value {
    match outcome.body {
        OutcomeBody::Value(json) | OutcomeBody::Mcp(json) => json.to_value(),
    }
}

/// Nobody listens, as for the cluster tools' own callers.
struct UnwantedProgress;
impl ProgressSink for UnwantedProgress {
    fn report_progress(&self, _: f64, _: Option<f64>, _: Option<&str>) {}
    fn has_listener(&self) -> bool {
        false
    }
}

#[derive(Default)]
struct RecordedProgress(Mutex<Vec<(f64, Option<f64>, String)>>);
impl ProgressSink for RecordedProgress {
    fn report_progress(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        self.0.lock().unwrap().push((done, total, message.unwrap_or_default().to_owned()));
    }
}

#[tokio::test]
async fn a_call_goes_out_as_it_was_checked_with_what_is_left_of_its_time() {
    let mut node = Node::start().await;
    let registry = registry(Some(node.address), &["echo", "fails"]).await;
    let caller = test_caller();
    let deadline = MonotonicTime(Duration::from_secs(7));
    let ctx = CallContext { deadline, progress: &UnwantedProgress, ..quiet_context(&caller) };
    let outcome = call(&registry, "echo", r#"{ "text" : "hi" }"#, &ctx).await.unwrap();
    assert_eq!(value(outcome), json!({ "text": "hi" }));
    let within = Some(Duration::from_secs(7));
    let input = r#"{ "text" : "hi" }"#.to_owned();
    assert_eq!(node.next().await, NodeEvent::Call { tool: "echo".to_owned(), input, within });
    let outcome = call(&registry, "fails", "{}", &ctx).await.unwrap();
    assert!(outcome.is_error);
    assert_eq!(value(outcome), json!("it broke"), "no trace");
}

#[tokio::test]
async fn progress_is_told_where_somebody_listens() {
    let node = Node::start().await;
    let registry = registry(Some(node.address), &["tells"]).await;
    let (caller, ears) = (test_caller(), RecordedProgress::default());
    let ctx = CallContext { progress: &ears, ..quiet_context(&caller) };
    assert_eq!(value(call(&registry, "tells", "{}", &ctx).await.unwrap()), json!(true));
    assert_eq!(*ears.0.lock().unwrap(), [(1.0, Some(2.0), "half".to_owned())]);
    let ctx = CallContext { progress: &UnwantedProgress, ..quiet_context(&caller) };
    assert_eq!(value(call(&registry, "tells", "{}", &ctx).await.unwrap()), json!(false));
}

#[tokio::test]
async fn a_call_that_is_given_up_ends_at_its_node() {
    struct Soon(tokio_util::sync::CancellationToken);
    impl CancelSignal for Soon {
        fn cancelled(&self) -> BoxFuture<'_, ()> {
            Box::pin(self.0.cancelled())
        }
        fn is_cancelled(&self) -> bool {
            self.0.is_cancelled()
        }
    }
    for progress in [&UnwantedProgress as &dyn ProgressSink, &RecordedProgress::default()] {
        let mut node = Node::start().await;
        let registry = registry(Some(node.address), &["hangs"]).await;
        let (caller, soon) = (test_caller(), Soon(tokio_util::sync::CancellationToken::new()));
        let ctx = CallContext { cancel: &soon, progress, ..quiet_context(&caller) };
        let given_up = async {
            assert!(matches!(node.next().await, NodeEvent::Call { .. }));
            soon.0.cancel();
            node.next().await
        };
        let (ended, heard) = tokio::join!(call(&registry, "hangs", "{}", &ctx), given_up);
        assert_eq!(ended.unwrap_err().code, ErrorCode::Cancelled);
        assert_eq!(heard, NodeEvent::Dropped);
    }
}

#[tokio::test]
async fn the_callers_time_is_kept_also_where_the_node_keeps_none() {
    let node = Node::start().await;
    let registry = registry(Some(node.address), &["hangs"]).await;
    let caller = test_caller();
    let deadline = MonotonicTime(Duration::from_millis(200));
    // With progress the pipeline's own limit holds: an answer has begun by then.
    let ctx = CallContext { deadline, progress: &UnwantedProgress, ..quiet_context(&caller) };
    let error = call(&registry, "hangs", "{}", &ctx).await.unwrap_err();
    assert_eq!(
        (error.code, error.dispatch),
        (ErrorCode::Timeout, DispatchState::MaybeSent),
        "{error}"
    );
}

#[tokio::test]
async fn a_node_that_dies_takes_its_calls_along_and_no_more() {
    let mut node = Node::start().await;
    let (address, caller) = (node.address, test_caller());
    let registry = registry(Some(address), &["echo", "hangs"]).await;
    let ctx = quiet_context(&caller);
    let dies = async {
        assert!(matches!(node.next().await, NodeEvent::Call { .. }));
        node.kill();
    };
    let (lost, ()) = tokio::join!(call(&registry, "hangs", "{}", &ctx), dies);
    let lost = lost.unwrap_err();
    assert_eq!(
        (lost.code, lost.dispatch),
        (ErrorCode::UpstreamLost, DispatchState::MaybeSent),
        "{lost}"
    );
    // While it is away nothing is sent; one more call may go into the line as it breaks.
    let mut away = call(&registry, "echo", "{}", &ctx).await.unwrap_err();
    if away.dispatch == DispatchState::MaybeSent {
        away = call(&registry, "echo", "{}", &ctx).await.unwrap_err();
    }
    assert_eq!(
        (away.code, away.dispatch),
        (ErrorCode::UpstreamLost, DispatchState::NotSent),
        "{away}"
    );
    // It comes back, and the next call reaches it.
    let _node = Node::start_at(&address.to_string()).await;
    assert_eq!(value(call(&registry, "echo", "{}", &ctx).await.unwrap()), json!({}));
}

#[tokio::test]
async fn a_node_that_moved_is_called_where_it_is() {
    let (mut old, mut new) = (Node::start().await, Node::start().await);
    let registry = registry(Some(old.address), &["echo"]).await;
    let caller = test_caller();
    call(&registry, "echo", "{}", &quiet_context(&caller)).await.unwrap();
    assert!(matches!(old.next().await, NodeEvent::Call { .. }));
    assert_eq!(old.next().await, NodeEvent::Dropped);
    set_address(&registry, new.address);
    call(&registry, "echo", "{}", &quiet_context(&caller)).await.unwrap();
    assert!(matches!(new.next().await, NodeEvent::Call { .. }));
    assert!(old.events.try_recv().is_err());
}

#[tokio::test]
async fn a_node_without_an_address_or_that_drains_is_not_called() {
    let mut node = Node::start().await;
    let registry = registry(None, &["echo"]).await;
    let caller = test_caller();
    let ctx = quiet_context(&caller);
    let error = call(&registry, "echo", "{}", &ctx).await.unwrap_err();
    assert_eq!((error.code, error.dispatch), (ErrorCode::UpstreamLost, DispatchState::NotSent));
    assert_eq!(error.message, "`nodes.addresses` does not list the node `n1`");
    set_address(&registry, node.address);
    let own = NodeAccess::Node("n1".to_owned());
    registry.record_heartbeat(&own, "n1", HeartbeatState::Draining).unwrap();
    let error = call(&registry, "echo", "{}", &ctx).await.unwrap_err();
    assert_eq!((error.code, error.dispatch), (ErrorCode::UpstreamLost, DispatchState::NotSent));
    assert!(node.events.try_recv().is_err());
    registry.record_heartbeat(&own, "n1", HeartbeatState::Serving).unwrap();
    call(&registry, "echo", "{}", &ctx).await.unwrap();
    assert!(matches!(node.next().await, NodeEvent::Call { .. }));
}

#[tokio::test]
async fn an_input_that_is_no_object_goes_out_as_it_is() {
    let mut node = Node::start().await;
    let registry = registry(Some(node.address), &["echo"]).await;
    let caller = test_caller();
    let ctx = CallContext { progress: &UnwantedProgress, ..quiet_context(&caller) };
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
        let args = tool::node_registry::node_call_arguments(&Json::encode(&input));
        call(&registry, "echo", args.as_str(), &ctx).await.unwrap();
        let NodeEvent::Call { input, .. } = node.next().await else { panic!("no call") };
        assert_eq!(input, sent);
        assert_eq!(node.next().await, NodeEvent::Dropped);
    }
}

/// Two nodes with the tool `echo`, and it as one tool in both places.
async fn two_node_tool(
    one: &Node,
    other: &Node,
) -> (nodes::PersistentNodeRegistry, std::sync::Arc<tool::Tool>, std::sync::Arc<dyn tool::Executor>)
{
    two_node_tool_with_clock(&std::sync::Arc::default(), one, other).await
}

async fn two_node_tool_with_clock(
    clock: &std::sync::Arc<testkit::clock::FakeClock>,
    one: &Node,
    other: &Node,
) -> (nodes::PersistentNodeRegistry, std::sync::Arc<tool::Tool>, std::sync::Arc<dyn tool::Executor>)
{
    let registry = timed(std::sync::Arc::clone(clock) as _, None, &["echo", "hangs"]).await;
    register_tools(&registry, "n2", &["echo", "hangs"]).await;
    set_node_addresses(&registry, &[("n1", one.address), ("n2", other.address)]);
    let (tool, first) = listed_offers(&registry, 0, "echo").await;
    let (_, second) = listed_offers(&registry, 1, "echo").await;
    let placed = first.merge_with(&[second]).unwrap();
    assert_eq!(placed.node_ids(), ["n1", "n2"]);
    (registry, tool, placed)
}

#[tokio::test]
async fn a_tool_on_two_nodes_runs_on_the_first_and_where_the_caller_says() {
    let (mut one, mut other) = (Node::start().await, Node::start().await);
    let (_registry, tool, placed) = two_node_tool(&one, &other).await;
    let caller = test_caller();
    run((&tool, &placed), "{}", &quiet_context(&caller)).await.unwrap();
    assert!(matches!(one.next().await, NodeEvent::Call { .. }));
    let pin = |node: &str| Json::encode(&json!({ "toolkeep/node": node }));
    let meta = pin("n2");
    let pinned = CallContext { meta: Some(&meta), ..quiet_context(&caller) };
    run((&tool, &placed), "{}", &pinned).await.unwrap();
    assert!(matches!(other.next().await, NodeEvent::Call { .. }));
    let meta = pin("n3");
    let nowhere = CallContext { meta: Some(&meta), ..quiet_context(&caller) };
    let error = run((&tool, &placed), "{}", &nowhere).await.unwrap_err();
    assert_eq!(
        (error.message.as_str(), error.dispatch),
        ("the tool is not on the node `n3`", DispatchState::NotSent)
    );
}

#[tokio::test]
async fn calls_go_to_the_other_node_while_one_is_away_or_ends() {
    let (one, mut other) = (Node::start().await, Node::start().await);
    let (registry, tool, placed) = two_node_tool(&one, &other).await;
    let caller = test_caller();
    let ctx = quiet_context(&caller);
    let answerer = std::sync::OnceLock::new();
    run((&tool, &placed), "{}", &CallContext { answering_node: Some(&answerer), ..ctx })
        .await
        .unwrap();
    assert_eq!(answerer.get().map(String::as_str), Some("n1"));
    assert!(registry.accepts_calls("n1") && registry.accepts_calls("n2"));
    one.kill();
    // An unsent call fails over to the other node; a call that may have been sent does not.
    let mut answered = 0;
    for _ in 0..5 {
        let answerer = std::sync::OnceLock::new();
        let ctx = CallContext { answering_node: Some(&answerer), ..ctx };
        match run((&tool, &placed), "{}", &ctx).await {
            Ok(_) => {
                assert_eq!(answerer.get().map(String::as_str), Some("n2"), "who answered");
                answered += 1;
            }
            Err(error) => assert_eq!(
                (error.code, error.dispatch),
                (ErrorCode::UpstreamLost, DispatchState::MaybeSent)
            ),
        }
    }
    assert!(answered >= 4, "{answered}");
    assert!(!registry.accepts_calls("n1") && registry.accepts_calls("n2"));
    assert!(matches!(other.next().await, NodeEvent::Call { .. }));
    registry.record_heartbeat(&NodeAccess::All, "n2", HeartbeatState::Draining).unwrap();
    let error = run((&tool, &placed), "{}", &ctx).await.unwrap_err();
    assert_eq!((error.code, error.dispatch), (ErrorCode::UpstreamLost, DispatchState::NotSent));
}

#[tokio::test]
async fn a_call_that_changes_nothing_goes_on_at_the_other_node_where_its_own_is_lost() {
    for reads in [true, false] {
        let (mut one, other) = (Node::start().await, Node::start().await);
        let registry = registry(None, &["hangs"]).await;
        register_tools(&registry, "n2", &["hangs"]).await;
        set_node_addresses(&registry, &[("n1", one.address), ("n2", other.address)]);
        let tools = reads.then(|| "hangs".to_owned()).into_iter().collect();
        registry.set_read_only(option_types::ToolSelection::Named(tools));
        let (tool, first) = listed_offers(&registry, 0, "hangs").await;
        let (_, second) = listed_offers(&registry, 1, "hangs").await;
        let (placed, caller) = (first.merge_with(&[second]).unwrap(), test_caller());
        let (ctx, mut other) = (quiet_context(&caller), Some(other));
        let dies = async {
            assert!(matches!(one.next().await, NodeEvent::Call { .. }));
            one.kill();
            if reads {
                let mut other = other.take().unwrap();
                assert!(matches!(other.next().await, NodeEvent::Call { .. }));
                other.kill();
            }
        };
        let call = (&tool, &placed);
        let (lost, ()) = tokio::join!(run(call, "{}", &ctx), dies);
        let lost = lost.unwrap_err();
        assert_eq!(
            (lost.code, lost.dispatch),
            (ErrorCode::UpstreamLost, DispatchState::MaybeSent),
            "{lost}"
        );
        // It may have had its effect, so no other node receives it.
        assert!(other.is_none_or(|mut other| other.events.try_recv().is_err()));
    }
}

#[tokio::test]
async fn a_node_that_no_longer_says_that_it_lives_is_asked_last() {
    let (mut one, mut other) = (Node::start().await, Node::start().await);
    let clock = std::sync::Arc::default();
    let (registry, tool, placed) = two_node_tool_with_clock(&clock, &one, &other).await;
    let caller = test_caller();
    for node in ["n1", "n2"] {
        registry
            .record_heartbeat(&NodeAccess::Node(node.to_owned()), node, HeartbeatState::Serving)
            .unwrap();
    }
    run((&tool, &placed), "{}", &quiet_context(&caller)).await.unwrap();
    assert!(matches!(one.next().await, NodeEvent::Call { .. }));
    assert_eq!(one.next().await, NodeEvent::Dropped);
    clock.advance(Duration::from_secs(21));
    registry
        .record_heartbeat(&NodeAccess::Node("n2".to_owned()), "n2", HeartbeatState::Serving)
        .unwrap();
    run((&tool, &placed), "{}", &quiet_context(&caller)).await.unwrap();
    assert!(matches!(other.next().await, NodeEvent::Call { .. }));
    assert!(one.events.try_recv().is_err());
    // Where all are silent, or there is no other, it is called all the same: silence is no proof.
    clock.advance(Duration::from_secs(21));
    run((&tool, &placed), "{}", &quiet_context(&caller)).await.unwrap();
    assert!(matches!(one.next().await, NodeEvent::Call { .. }));
}
