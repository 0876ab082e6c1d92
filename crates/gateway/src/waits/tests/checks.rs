//! Tests of what is rejected before it is held: calls that are sure to fail.

use std::sync::Arc;

use testkit::executor::Scripted;
use tool::outcome::Status;
use tool::{Code, Interface, Json, Limits, Outcome, Step};

use super::{Bench, merged, owner, tool};

/// A tool that takes no 13.
fn superstitious() -> Arc<Scripted> {
    let ran = Scripted::new(|args| Ok(Step::Done(Outcome::value(args))));
    Arc::new(ran.checked(|args| match args.value()["n"].as_u64() {
        Some(13) => Err("Path not allowed: 13".to_owned()),
        _ => Ok(()),
    }))
}

#[tokio::test]
async fn a_call_that_cannot_succeed_is_rejected_and_not_held() {
    let (bench, ran) = (Bench::new(), superstitious());
    bench.swapped(merged(2, vec![tool("rm", |_| {})], &ran));
    let rejected = bench.call(r#"{"n": 13}"#).await;
    let failure = rejected.result.unwrap_err();
    assert_eq!((rejected.status, failure.code), (Status::Refused, Code::InvalidArguments));
    assert_eq!(failure.message, "Path not allowed: 13");
    let approver = owner();
    let pending = bench.gateway.approvals(&approver, true, (None, 10)).await.unwrap();
    assert!(pending.approvals.is_empty(), "{:?}", pending.approvals);
    // The control: the same call with arguments that the tool takes is held.
    let held = bench.held().await;
    let pending = bench.gateway.approvals(&approver, true, (None, 10)).await.unwrap();
    assert_eq!(pending.approvals[0].id, held);
    assert_eq!(ran.calls(), 0, "a check runs nothing");
}

#[tokio::test]
async fn an_approver_cannot_edit_a_call_into_one_that_cannot_succeed() {
    let (bench, ran) = (Bench::new(), superstitious());
    bench.swapped(merged(2, vec![tool("rm", |_| {})], &ran));
    let (id, approver) = (bench.held().await, owner());
    let edit = async |args: &str| {
        let args = Json::check(args.to_owned(), Limits::ARGUMENTS).unwrap();
        bench.gateway.edit((&approver, Interface::Rest), id, args).await
    };
    assert_eq!(edit(r#"{"n": 13}"#).await.unwrap_err().code, Code::InvalidArguments);
    // The control: other arguments are taken.
    assert_eq!(edit(r#"{"n": 12}"#).await.unwrap().arguments.as_str(), r#"{"n": 12}"#);
}
