//! An approved call that waits for capacity.

use std::sync::Arc;
use std::time::Duration;

use testkit::executor::HangingExecutor;
use tokio::task::JoinSet;
use tool::call_outcome::CallStatus;
use tool::{
    CallId, CatalogItem, ErrorCode, Interface, Offer, Org, PermissionLevel, SafetyLevel,
    SideEffects, SourceListing, SourceName, SourceTrust,
};

use super::{ApprovalState, Bench, ID, agent, code, principal, tool};
use crate::approvals::ApprovalSettings;
use crate::{CallRequest, ConcurrencyLimits, GatewayOptions};

/// A server on which one call of a key runs at once, with a call of the agent's that runs until it is given
/// up, and one that was approved meanwhile.
struct Full {
    bench: Bench,
    id: CallId,
    running: JoinSet<()>,
}

async fn full() -> Full {
    full_with(ApprovalSettings::default()).await
}

async fn full_with(settings: ApprovalSettings) -> Full {
    let bounds = ConcurrencyLimits { per_key: 1, ..ConcurrencyLimits::default() };
    let bench = Bench::with_options((
        settings,
        GatewayOptions { concurrency: bounds, ..GatewayOptions::default() },
    ));
    let hangs = tool("hangs", |tool| {
        (tool.traits.safety, tool.traits.effects) = (SafetyLevel::Safe, SideEffects::read_only());
    });
    let rm = tool("rm", |tool| tool.traits.min_level = PermissionLevel::User);
    let offers = vec![
        Offer { item: CatalogItem::Tool(Arc::new(rm)), executor: Arc::clone(&bench.executor) as _ },
        Offer {
            item: CatalogItem::Tool(Arc::new(hangs)),
            executor: Arc::new(HangingExecutor { honors_cancel: true }),
        },
    ];
    let shelf = catalog::SourceCatalog::new_starting(
        SourceName::new("s").unwrap(),
        "test",
        SourceTrust::Full,
    )
    .with_listing(&Org::default(), SourceListing { offers, ..SourceListing::default() });
    bench.set_catalog(catalog::Catalog::from_sources(2, vec![Arc::new(shelf)]));
    let mut running = JoinSet::new();
    let gateway = Arc::clone(&bench.gateway);
    running.spawn(async move {
        drop(gateway.call_tool(&agent(), CallRequest::new("hangs", "{}", Interface::Mcp)).await);
    });
    while bench.gateway.running_call_count() == 0 {
        tokio::task::yield_now().await;
    }
    let id = bench.hold_call().await;
    bench.approve(id).await.unwrap();
    // It has tried, and tries again.
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!((bench.executor.call_count(), bench.state(id).await), (0, ApprovalState::Approved));
    Full { bench, id, running }
}

#[tokio::test(start_paused = true)]
async fn an_approved_call_that_waits_for_capacity_is_void_once_its_key_is_revoked() {
    let Full { bench, id, mut running } = full().await;
    bench.ports.revoked_keys.lock().unwrap().extend([agent().key_id().to_owned()]);
    // There is room from here on.
    running.shutdown().await;
    let answer = bench.wait_for_response(id).await;
    assert_eq!(
        (answer.status, code(&answer)),
        (CallStatus::Refused, Some(ErrorCode::ApprovalVoid))
    );
    assert_eq!((bench.executor.call_count(), bench.state(id).await), (0, ApprovalState::Void));
}

#[tokio::test(start_paused = true)]
async fn an_approved_call_that_waits_for_capacity_runs_with_the_rights_of_that_moment() {
    let Full { bench, id, mut running } = full().await;
    let low = principal(ID, |key| key.level = PermissionLevel::Guest);
    bench.ports.principals.lock().unwrap().push(low);
    running.shutdown().await;
    let answer = bench.wait_for_response(id).await;
    assert_eq!((answer.status, code(&answer)), (CallStatus::Refused, Some(ErrorCode::UnknownTool)));
    assert_eq!(bench.executor.call_count(), 0);
    // The control: where nothing changed, it runs once there is room.
    let Full { bench, id, mut running } = full().await;
    running.shutdown().await;
    assert_eq!(bench.wait_for_response(id).await.status, CallStatus::Succeeded);
    assert_eq!(bench.executor.call_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn approved_calls_that_wait_for_capacity_count_among_those_of_their_key() {
    // A key's share is a quarter of all.
    let settings = ApprovalSettings {
        max_pending_per_key: 2,
        max_stored: 40,
        max_requests_per_minute: 1_000,
        ..ApprovalSettings::default()
    };
    let Full { bench, mut running, .. } = full_with(settings).await;
    for number in 1..10 {
        let answer = bench.call("{}").await;
        assert_eq!(answer.status, CallStatus::Pending, "{number}");
        bench.approve(answer.call_id).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(bench.executor.call_count(), 0);
    assert_eq!(code(&bench.call("{}").await), Some(ErrorCode::RateLimited));
    // The controls: another key has a share of its own, and what was approved runs once there is capacity.
    let bob = principal([9; 6], |key| key.subject = "bob".to_owned());
    let theirs = bench.gateway.call_tool(&bob, CallRequest::new("rm", "{}", Interface::Mcp)).await;
    assert_eq!(theirs.status, CallStatus::Pending);
    running.shutdown().await;
    while bench.executor.call_count() < 10 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// By which interface each record of a call says that it came.
fn recorded(bench: &Bench, id: CallId) -> Vec<Interface> {
    let records = bench.ledger.all_records().into_iter().filter(|frame| frame.call_id == Some(id));
    let doors = records.filter_map(|frame| frame.body.get("door"));
    doors.map(|door| door.decode().unwrap()).collect()
}

#[tokio::test]
async fn a_resumed_call_keeps_the_interface_it_came_by() {
    for interface in Interface::ALL.iter().copied() {
        let bench = Bench::new();
        let answer =
            bench.gateway.call_tool(&agent(), CallRequest::new("rm", "{}", interface)).await;
        bench.approve(answer.call_id).await.unwrap();
        assert_eq!(bench.wait_for_response(answer.call_id).await.status, CallStatus::Succeeded);
        // Pending, approved, intent: the outcome has none.
        assert_eq!(recorded(&bench, answer.call_id), [interface; 3], "{interface}");
    }
}
