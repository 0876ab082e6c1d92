//! Pending calls of a tool whose name another source comes to have.

use std::sync::Arc;

use catalog::Catalog;
use testkit::executor::MockExecutor;
use tool::call_outcome::CallStatus;
use tool::{ExecutionState, Interface, Outcome};

use super::{Bench, agent, source_catalog, tool};
use crate::CallRequest;

/// Another source comes to have the name while the call waits.
#[tokio::test(start_paused = true)]
async fn an_approved_call_runs_the_tool_that_was_called_whoever_has_its_name_by_then() {
    let bench = Bench::new();
    let other = Arc::new(MockExecutor::new(|args| {
        Ok(ExecutionState::Completed(Outcome::from_value(args)))
    }));
    let id = bench.hold_call().await;
    let rm = || vec![tool("rm", |_| {})];
    let sources =
        vec![source_catalog("first", rm(), &other), source_catalog("s", rm(), &bench.executor)];
    bench.set_catalog(Catalog::from_sources(2, sources));
    bench.approve(id).await.unwrap();
    assert_eq!(bench.wait_for_response(id).await.status, CallStatus::Succeeded);
    assert_eq!((bench.executor.call_count(), other.call_count()), (1, 0));
    // The control: the name leads to the other source.
    let id = bench.hold_call().await;
    bench.approve(id).await.unwrap();
    assert_eq!(bench.wait_for_response(id).await.status, CallStatus::Succeeded);
    assert_eq!((bench.executor.call_count(), other.call_count()), (1, 1));
}

/// A client that can only call again gets the answer of its own call, and of no other tool of that name.
#[tokio::test(start_paused = true)]
async fn a_call_is_not_the_earlier_one_of_another_sources_tool_of_that_name() {
    let bench = Bench::new();
    let other = Arc::new(MockExecutor::new(|args| {
        Ok(ExecutionState::Completed(Outcome::from_value(args)))
    }));
    let id = bench.hold_call().await;
    let again = || CallRequest::new("rm", r#"{"n": 1}"#.to_owned(), Interface::Mcp);
    assert_eq!(bench.gateway.find_unfetched_call(&agent(), &again()), Some(id), "the control");
    let rm = || vec![tool("rm", |_| {})];
    let sources =
        vec![source_catalog("first", rm(), &other), source_catalog("s", rm(), &bench.executor)];
    bench.set_catalog(Catalog::from_sources(2, sources));
    assert_eq!(bench.gateway.find_unfetched_call(&agent(), &again()), None);
    let qualified = CallRequest::new("s.rm", r#"{"n": 1}"#.to_owned(), Interface::Mcp);
    assert_eq!(bench.gateway.find_unfetched_call(&agent(), &qualified), Some(id));
}
