use std::sync::Arc;
use std::time::Duration;

use catalog::{Catalog, CurrentSnapshot, SourceCatalog};
use identity::{KeyId, KeyRing, NewKey, Principal};
use policy::{
    FilePosition, LocatedName, Policy, PolicyDocument, PolicyLayer, PolicyRule, RuleEffect,
    SessionTaint,
};
use serde_json::json;
use store::MemoryStore;
use testkit::clock::FakeClock;
use testkit::store::FaultyStore;
use tool::call_outcome::CallResponse;
use tool::store::WritePrecondition;
use tool::{
    AccessScope, Caller, CatalogItem, ErrorCode, Interface, Offer, Org, Secret, SourceListing,
    SourceName, SourceTrust, Store as _, WallTime,
};

use super::TAINT_PREFIX;
use crate::{
    ApprovalComponents, ApprovalSettings, CallRequest, CredentialStatus, Gateway,
    GatewayComponents, GatewayOptions, NoApprovalPorts, PrincipalResolver,
};

#[derive(Debug)]
struct NoOne;

impl PrincipalResolver for NoOne {
    fn resolve_caller(&self, _: &Caller, _: WallTime) -> CredentialStatus {
        CredentialStatus::NotStoredHere
    }
}

/// A server's store and clock, over which one process comes after the other.
#[derive(Default)]
struct Machine {
    store: Arc<MemoryStore>,
    clock: Arc<FakeClock>,
}

fn catalog() -> Catalog {
    let offers = ["fetch", "send"].map(|name| {
        let mut tool = testkit::read_only_tool(name, "d", &json!({ "type": "object" }));
        if name == "fetch" {
            tool.traits.scopes = vec![AccessScope::Network];
        }
        Offer {
            item: CatalogItem::Tool(Arc::new(tool)),
            executor: testkit::executor::echo_executor(),
        }
    });
    let listing = SourceListing { offers: offers.into(), ..SourceListing::default() };
    let shelf =
        SourceCatalog::new_starting(SourceName::new("s").unwrap(), "test", SourceTrust::Full)
            .with_listing(&Org::default(), listing);
    Catalog::from_sources(1, vec![Arc::new(shelf)])
}

/// What strangers wrote was seen: nothing is sent any more.
fn policy() -> Policy {
    let rule = PolicyRule {
        name: "no way out".to_owned(),
        effect: RuleEffect::Deny,
        tools: Some(vec![policy::ToolPattern::new("send").unwrap()]),
        condition: Some(LocatedName {
            text: "taint.untrusted".to_owned(),
            position: FilePosition::default(),
        }),
        time_window: None,
        examples: Vec::new(),
        position: FilePosition::default(),
    };
    let global = PolicyLayer { rules: vec![rule], ..PolicyLayer::default() };
    Policy::new(PolicyDocument { global, ..PolicyDocument::default() }).unwrap()
}

impl Machine {
    async fn started(&self) -> Arc<Gateway> {
        let gateway = Gateway::new(GatewayComponents {
            current: Arc::new(CurrentSnapshot::new(catalog(), policy())),
            ledger: Arc::new(testkit::ledger::MemoryLedger::default()),
            clock: Arc::clone(&self.clock) as _,
            credentials: Arc::new(testkit::context::NoopContext),
            mac_key: Secret::new("key"),
            approvals: Some(ApprovalComponents {
                store: Arc::clone(&self.store) as _,
                principal_resolver: Arc::new(NoOne),
                observer: Arc::new(NoApprovalPorts),
                settings: ApprovalSettings::default(),
            }),
            options: GatewayOptions::default(),
        });
        gateway.recover_approvals().await.unwrap();
        Arc::new(gateway)
    }

    async fn rows(&self) -> usize {
        self.store.scan_prefix(TAINT_PREFIX, None, 100).await.unwrap().len()
    }

    fn later(&self, minutes: u64) {
        self.clock.advance(Duration::from_mins(minutes));
    }
}

fn caller(id: &str) -> Principal {
    let key = NewKey::for_user(KeyId::new(id).unwrap(), "ann");
    let (secret, record) = key.issue_key([7; 32], WallTime(0)).unwrap();
    KeyRing::new([record]).verify_key(Some(secret.expose()), WallTime(1)).unwrap()
}

async fn call(gateway: &Arc<Gateway>, who: &Principal, tool: &str) -> CallResponse {
    gateway.call_tool(who, CallRequest::new(tool, "{}", Interface::Library)).await
}

fn code(answer: &CallResponse) -> Option<ErrorCode> {
    answer.result.as_ref().err().map(|failure| failure.code)
}

/// What is due is written, as the task beside the gateway does it.
async fn written(gateway: &Gateway, machine: &Machine) {
    assert!(gateway.write_taints(machine.store.as_ref()).await);
}

#[tokio::test]
async fn the_end_of_a_process_writes_what_is_due() {
    let (machine, eve) = (Machine::default(), caller("eve"));
    let process = machine.started().await;
    call(&process, &eve, "fetch").await;
    process.drain_calls().await;
    let next = machine.started().await;
    assert_eq!(code(&call(&next, &eve, "send").await), Some(ErrorCode::Denied));
}

#[tokio::test]
async fn a_restart_makes_nobody_clean() {
    let (machine, eve, ann) = (Machine::default(), caller("eve"), caller("ann"));
    let first = machine.started().await;
    assert_eq!(code(&call(&first, &eve, "send").await), None);
    assert_eq!(code(&call(&first, &eve, "fetch").await), None);
    assert_eq!(code(&call(&first, &eve, "send").await), Some(ErrorCode::Denied));
    written(&first, &machine).await;
    machine.later(30);
    let second = machine.started().await;
    assert_eq!(code(&call(&second, &eve, "send").await), Some(ErrorCode::Denied));
    assert_eq!(code(&call(&second, &ann, "send").await), None, "another caller");
    // After an hour of silence it counts no more, and a start later nothing is left of it.
    machine.later(61);
    assert_eq!(code(&call(&second, &eve, "send").await), None);
    machine.later(20);
    let third = machine.started().await;
    assert_eq!((code(&call(&third, &eve, "send").await), machine.rows().await), (None, 0));
}

#[tokio::test]
async fn who_still_calls_stays_marked_over_restarts() {
    let (machine, eve) = (Machine::default(), caller("eve"));
    let mut process = machine.started().await;
    call(&process, &eve, "fetch").await;
    for _ in 0..8 {
        written(&process, &machine).await;
        process = machine.started().await;
        machine.later(50);
        assert_eq!(code(&call(&process, &eve, "send").await), Some(ErrorCode::Denied));
    }
    // It is written when something is new, and then now and again, and never for each call.
    written(&process, &machine).await;
    let version =
        async || machine.store.scan_prefix(TAINT_PREFIX, None, 1).await.unwrap()[0].version;
    let before = version().await;
    for _ in 0..100 {
        call(&process, &eve, "fetch").await;
    }
    written(&process, &machine).await;
    assert_eq!(version().await, before);
}

#[tokio::test]
async fn a_row_that_cannot_be_read_may_be_anyones() {
    let (machine, ann) = (Machine::default(), caller("ann"));
    let bytes = Some(b"{\"key\":".to_vec().into());
    machine.store.put_value("taint/x", WritePrecondition::Absent, bytes).await.unwrap();
    let process = machine.started().await;
    let both = SessionTaint { has_untrusted: true, has_private: true };
    assert_eq!(process.caller_taint(&ann), both);
    assert_eq!(code(&call(&process, &ann, "send").await), Some(ErrorCode::Denied));
    // Starting twice makes nobody clean.
    assert_eq!(machine.started().await.caller_taint(&ann), both);
    machine.later(61);
    assert_eq!(process.caller_taint(&ann), SessionTaint::default());
}

#[tokio::test]
async fn what_cannot_be_written_is_written_later() {
    let (machine, eve) = (Machine::default(), caller("eve"));
    let process = machine.started().await;
    call(&process, &eve, "fetch").await;
    let down = FaultyStore::new(MemoryStore::new());
    down.set_down(true);
    assert!(!process.write_taints(&down).await);
    written(&process, &machine).await;
    assert_eq!(machine.rows().await, 1);
}
