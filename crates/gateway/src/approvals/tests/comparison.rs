//! Comparison of a pending call with the last approved one, and edits that name the reviewed arguments.

use std::time::Duration;

use tool::{ErrorCode, Interface, Json, JsonLimits};

use super::super::ArgumentEdit;
use super::{ApprovalState, Bench, agent, owner};

/// Ids of calls are in order only from one millisecond to the next.
const MOMENT: Duration = Duration::from_millis(1);

#[tokio::test]
async fn a_pending_call_is_compared_with_the_last_approved_one() {
    let bench = Bench::new();
    let gateway = &bench.gateway;
    let last = async |id| {
        let found = gateway.last_approved_call(&owner(), id).await.unwrap();
        found.map(|call| (call.id, call.arguments.as_str().to_owned()))
    };
    let first = bench.hold_call().await;
    assert_eq!(last(first).await, None);
    bench.approve(first).await.unwrap();
    bench.wait_for_response(first).await;
    bench.clock.advance(MOMENT);
    let denied = bench.call(r#"{"n": 2}"#).await.call_id;
    assert_eq!(last(denied).await, Some((first, r#"{"n": 1}"#.to_owned())));
    gateway.deny_call((&owner(), Interface::Rest), denied, None).await.unwrap();
    bench.clock.advance(MOMENT);
    let second = bench.call(r#"{"n": 3}"#).await.call_id;
    assert_eq!(last(second).await, Some((first, r#"{"n": 1}"#.to_owned())), "not the denied one");
    bench.approve(second).await.unwrap();
    bench.clock.advance(MOMENT);
    let third = bench.call(r#"{"n": 4}"#).await.call_id;
    assert_eq!(last(third).await, Some((second, r#"{"n": 3}"#.to_owned())));
    assert_eq!(last(second).await, Some((first, r#"{"n": 1}"#.to_owned())), "only earlier ones");
    // Its caller sees its own calls, as in the list.
    assert!(gateway.last_approved_call(&agent(), third).await.unwrap().is_some());
}

#[tokio::test]
async fn an_edit_of_arguments_that_changed_meanwhile_is_refused() {
    let bench = Bench::new();
    let id = bench.hold_call().await;
    let seen = bench.gateway.get_approval(&owner(), id).await.unwrap().arguments_sha256;
    let edit = async |text: &str| {
        let arguments = Json::parse(text.to_owned(), JsonLimits::ARGUMENTS).unwrap();
        let edit = ArgumentEdit { arguments, reviewed: Some(seen) };
        bench.gateway.edit_arguments((&owner(), Interface::Rest), id, edit).await
    };
    let edited = edit(r#"{"n": 2}"#).await.unwrap();
    assert_eq!(edit(r#"{"n": 3}"#).await.unwrap_err().code, ErrorCode::Conflict);
    let now = bench.gateway.get_approval(&owner(), id).await.unwrap();
    assert_eq!((now.state, now.edit_count), (ApprovalState::Pending, 1));
    assert_eq!(now.arguments_sha256, edited.arguments_sha256);
}
