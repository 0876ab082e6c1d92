//! Which tool a pending call is for.

use std::sync::Arc;

use catalog::Catalog;
use testkit::executor::Scripted;
use tool::outcome::Status;
use tool::{Outcome, Step};

use super::{Bench, shelf_of, tool};

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
