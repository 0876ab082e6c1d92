//! An approved call that waits for capacity.

use std::sync::Arc;
use std::time::Duration;

use testkit::executor::Hanging;
use tokio::task::JoinSet;
use tool::outcome::Status;
use tool::{
    CallId, Code, Effects, Interface, Item, Level, Listing, Offer, Org, Safety, SourceName, Trust,
};

use super::{Bench, ID, State, agent, code, principal, tool};
use crate::waits::Patience;
use crate::{Bounds, Options, Request};

/// A server on which one call of a key runs at once, with a call of the agent's that runs until it is given
/// up, and one that was approved meanwhile.
struct Full {
    bench: Bench,
    id: CallId,
    running: JoinSet<()>,
}

async fn full() -> Full {
    full_with(Patience::default()).await
}

async fn full_with(patience: Patience) -> Full {
    let bounds = Bounds { per_key: 1, ..Bounds::default() };
    let bench = Bench::made((patience, Options { bounds, ..Options::default() }));
    let hangs = tool("hangs", |tool| {
        (tool.traits.safety, tool.traits.effects) = (Safety::Safe, Effects::read_only());
    });
    let rm = tool("rm", |tool| tool.traits.level = Level::User);
    let offers = vec![
        Offer { item: Item::Tool(Arc::new(rm)), executor: Arc::clone(&bench.ran) as _ },
        Offer { item: Item::Tool(Arc::new(hangs)), executor: Arc::new(Hanging { listens: true }) },
    ];
    let shelf = catalog::Shelf::starting(SourceName::new("s").unwrap(), "test", Trust::Full)
        .listed(&Org::default(), Listing { offers, ..Listing::default() });
    bench.swapped(catalog::Catalog::merge(2, vec![Arc::new(shelf)]));
    let mut running = JoinSet::new();
    let gateway = Arc::clone(&bench.gateway);
    running.spawn(async move {
        drop(gateway.call(&agent(), Request::new("hangs", "{}", Interface::Mcp)).await);
    });
    while bench.gateway.running() == 0 {
        tokio::task::yield_now().await;
    }
    let id = bench.held().await;
    bench.approve(id).await.unwrap();
    // It has tried, and tries again.
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!((bench.ran.calls(), bench.state(id).await), (0, State::Approved));
    Full { bench, id, running }
}

#[tokio::test(start_paused = true)]
async fn an_approved_call_that_waits_for_capacity_is_void_once_its_key_is_revoked() {
    let Full { bench, id, mut running } = full().await;
    bench.world.gone.lock().unwrap().extend([agent().key().to_owned()]);
    // There is room from here on.
    running.shutdown().await;
    let answer = bench.settled(id).await;
    assert_eq!((answer.status, code(&answer)), (Status::Refused, Some(Code::ApprovalVoid)));
    assert_eq!((bench.ran.calls(), bench.state(id).await), (0, State::Void));
}

#[tokio::test(start_paused = true)]
async fn an_approved_call_that_waits_for_capacity_runs_with_the_rights_of_that_moment() {
    let Full { bench, id, mut running } = full().await;
    let low = principal(ID, |key| key.level = Level::Guest);
    bench.world.now.lock().unwrap().push(low);
    running.shutdown().await;
    let answer = bench.settled(id).await;
    assert_eq!((answer.status, code(&answer)), (Status::Refused, Some(Code::UnknownTool)));
    assert_eq!(bench.ran.calls(), 0);
    // The control: where nothing changed, it runs once there is room.
    let Full { bench, id, mut running } = full().await;
    running.shutdown().await;
    assert_eq!(bench.settled(id).await.status, Status::Succeeded);
    assert_eq!(bench.ran.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn approved_calls_that_wait_for_capacity_count_among_those_of_their_key() {
    // A key's share is a quarter of all.
    let patience = Patience { pending: 2, total: 40, per_minute: 1_000, ..Patience::default() };
    let Full { bench, mut running, .. } = full_with(patience).await;
    for number in 1..10 {
        let answer = bench.call("{}").await;
        assert_eq!(answer.status, Status::Waiting, "{number}");
        bench.approve(answer.call).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(bench.ran.calls(), 0);
    assert_eq!(code(&bench.call("{}").await), Some(Code::RateLimited));
    // The controls: another key has a share of its own, and what was approved runs once there is capacity.
    let bob = principal([9; 6], |key| key.subject = "bob".to_owned());
    let theirs = bench.gateway.call(&bob, Request::new("rm", "{}", Interface::Mcp)).await;
    assert_eq!(theirs.status, Status::Waiting);
    running.shutdown().await;
    while bench.ran.calls() < 10 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// By which interface each record of a call says that it came.
fn recorded(bench: &Bench, id: CallId) -> Vec<Interface> {
    let of = bench.ledger.frames().into_iter().filter(|frame| frame.call == Some(id));
    let doors = of.filter_map(|frame| frame.body.get("door"));
    doors.map(|door| door.read().unwrap()).collect()
}

#[tokio::test]
async fn a_resumed_call_keeps_the_interface_it_came_by() {
    for interface in Interface::ALL.iter().copied() {
        let bench = Bench::new();
        let answer = bench.gateway.call(&agent(), Request::new("rm", "{}", interface)).await;
        bench.approve(answer.call).await.unwrap();
        assert_eq!(bench.settled(answer.call).await.status, Status::Succeeded);
        // Pending, approved, intent: the outcome has none.
        assert_eq!(recorded(&bench, answer.call), [interface; 3], "{interface}");
    }
}
