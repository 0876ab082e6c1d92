//! Tests of what is rejected before it is held: calls that are sure to fail.

use std::sync::Arc;

use testkit::executor::MockExecutor;
use tool::call_outcome::CallStatus;
use tool::{ErrorCode, ExecutionState, Interface, Json, JsonLimits, Outcome};

use super::{Bench, catalog_snapshot, edit_of, owner, tool};

/// A tool that takes no 13.
fn superstitious() -> Arc<MockExecutor> {
    let executor =
        MockExecutor::new(|args| Ok(ExecutionState::Completed(Outcome::from_value(args))));
    Arc::new(executor.with_check(|args| match args.as_value()["n"].as_u64() {
        Some(13) => Err("Path not allowed: 13".to_owned()),
        _ => Ok(()),
    }))
}

#[tokio::test]
async fn a_call_that_cannot_succeed_is_rejected_and_not_held() {
    let (bench, executor) = (Bench::new(), superstitious());
    bench.set_catalog(catalog_snapshot(2, vec![tool("rm", |_| {})], &executor));
    let rejected = bench.call(r#"{"n": 13}"#).await;
    let failure = rejected.result.unwrap_err();
    assert_eq!((rejected.status, failure.code), (CallStatus::Refused, ErrorCode::InvalidArguments));
    assert_eq!(failure.message, "Path not allowed: 13");
    let approver = owner();
    let pending = bench.gateway.list_approvals(&approver, true, (None, 10)).await.unwrap();
    assert!(pending.approvals.is_empty(), "{:?}", pending.approvals);
    // The control: the same call with arguments that the tool takes is held.
    let held = bench.hold_call().await;
    let pending = bench.gateway.list_approvals(&approver, true, (None, 10)).await.unwrap();
    assert_eq!(pending.approvals[0].id, held);
    assert_eq!(executor.call_count(), 0, "a check runs nothing");
}

#[tokio::test]
async fn an_approver_cannot_edit_a_call_into_one_that_cannot_succeed() {
    let (bench, executor) = (Bench::new(), superstitious());
    bench.set_catalog(catalog_snapshot(2, vec![tool("rm", |_| {})], &executor));
    let (id, approver) = (bench.hold_call().await, owner());
    let edit = async |args: &str| {
        let args = Json::parse(args.to_owned(), JsonLimits::ARGUMENTS).unwrap();
        bench.gateway.edit_arguments((&approver, Interface::Rest), id, edit_of(args)).await
    };
    assert_eq!(edit(r#"{"n": 13}"#).await.unwrap_err().code, ErrorCode::InvalidArguments);
    // The control: other arguments are taken.
    assert_eq!(edit(r#"{"n": 12}"#).await.unwrap().arguments.as_str(), r#"{"n": 12}"#);
}
