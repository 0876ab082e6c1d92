//! Pending calls of a tool whose name another source comes to have.

use std::sync::Arc;

use catalog::Catalog;
use testkit::executor::Scripted;
use tool::outcome::Status;
use tool::{Interface, Outcome, Step};

use super::{Bench, agent, shelf_of, tool};
use crate::Request;

/// Another source comes to have the name while the call waits.
#[tokio::test(start_paused = true)]
async fn an_approved_call_runs_the_tool_that_was_called_whoever_has_its_name_by_then() {
    let bench = Bench::new();
    let other = Arc::new(Scripted::new(|args| Ok(Step::Done(Outcome::value(args)))));
    let id = bench.held().await;
    let rm = || vec![tool("rm", |_| {})];
    let shelves = vec![shelf_of("first", rm(), &other), shelf_of("s", rm(), &bench.ran)];
    bench.swapped(Catalog::merge(2, shelves));
    bench.approve(id).await.unwrap();
    assert_eq!(bench.settled(id).await.status, Status::Succeeded);
    assert_eq!((bench.ran.calls(), other.calls()), (1, 0));
    // The control: the name leads to the other source.
    let id = bench.held().await;
    bench.approve(id).await.unwrap();
    assert_eq!(bench.settled(id).await.status, Status::Succeeded);
    assert_eq!((bench.ran.calls(), other.calls()), (1, 1));
}

/// A client that can only call again gets the answer of its own call, and of no other tool of that name.
#[tokio::test(start_paused = true)]
async fn a_call_is_not_the_earlier_one_of_another_sources_tool_of_that_name() {
    let bench = Bench::new();
    let other = Arc::new(Scripted::new(|args| Ok(Step::Done(Outcome::value(args)))));
    let id = bench.held().await;
    let again = || Request::new("rm", r#"{"n": 1}"#.to_owned(), Interface::Mcp);
    assert_eq!(bench.gateway.earlier(&agent(), &again()), Some(id), "the control");
    let rm = || vec![tool("rm", |_| {})];
    let shelves = vec![shelf_of("first", rm(), &other), shelf_of("s", rm(), &bench.ran)];
    bench.swapped(Catalog::merge(2, shelves));
    assert_eq!(bench.gateway.earlier(&agent(), &again()), None);
    let qualified = Request::new("s.rm", r#"{"n": 1}"#.to_owned(), Interface::Mcp);
    assert_eq!(bench.gateway.earlier(&agent(), &qualified), Some(id));
}
