use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use catalog::{Catalog, CurrentSnapshot, SourceCatalog};
use identity::{KeyId, KeyRing, NewKey, Principal, Right};
use policy::{Policy, PolicyDocument, PolicyLayer, ToolPattern};
use serde_json::json;
use store::MemoryStore;
use testkit::clock::FakeClock;
use testkit::executor::MockExecutor;
use testkit::ledger::MemoryLedger;
use tokio::task::JoinSet;
use tool::call_outcome::{CallResponse, CallStatus, OutcomeBody};
use tool::ledger::RecordKind;
use tool::{
    ApprovalStep, ApprovalStepRecord, CallId, Caller, CatalogItem, ErrorCode, ExecutionState,
    Executor, IntentRecord, Interface, Json, Offer, Org, Outcome, PendingReason, PermissionLevel,
    SafetyLevel, Secret, SourceListing, SourceName, SourceTrust, Store, Tool, WallTime,
};

use super::{
    ApprovalComponents, ApprovalEvent, ApprovalObserver, ApprovalSettings, ApprovalState,
    ArgumentEdit, CredentialStatus, PrincipalResolver,
};
use crate::{CallRequest, Gateway, GatewayComponents, GatewayOptions};

/// An edit without a statement about what was reviewed.
fn edit_of(arguments: Json) -> ArgumentEdit {
    ArgumentEdit { arguments, reviewed: None }
}

mod approval_callbacks;
mod authority;
mod checks;
mod comparison;
mod limits;
mod renamed;
mod resumption;
mod share;

fn deny_policy(deny: Vec<ToolPattern>) -> Policy {
    let global = PolicyLayer { deny, ..PolicyLayer::default() };
    Policy::new(PolicyDocument { global, ..PolicyDocument::default() }).unwrap()
}

/// Ports of approvals: current principals, revoked keys, and the number of observed events.
#[derive(Debug, Default)]
struct TestPorts {
    principals: Mutex<Vec<Principal>>,
    revoked_keys: Mutex<HashSet<String>>,
    event_count: AtomicUsize,
}

impl PrincipalResolver for TestPorts {
    fn resolve_caller(&self, caller: &Caller, _: WallTime) -> CredentialStatus {
        if self.revoked_keys.lock().unwrap().contains(&caller.key_id) {
            return CredentialStatus::Invalid;
        }
        let principals = self.principals.lock().unwrap();
        match principals.iter().rev().find(|principal| principal.key_id() == caller.key_id) {
            Some(principal) => CredentialStatus::Valid(principal.clone()),
            None => CredentialStatus::NotStoredHere,
        }
    }
}

impl ApprovalObserver for TestPorts {
    fn notify_event(&self, _: &ApprovalEvent) {
        self.event_count.fetch_add(1, Ordering::SeqCst);
    }
}

struct Bench {
    gateway: Arc<Gateway>,
    ledger: Arc<MemoryLedger>,
    current: Arc<CurrentSnapshot<Policy>>,
    clock: Arc<FakeClock>,
    store: Arc<MemoryStore>,
    ports: Arc<TestPorts>,
    executor: Arc<MockExecutor>,
    settings: ApprovalSettings,
    options: GatewayOptions,
}

const ID: [u8; 6] = [1; 6];

fn principal(id: [u8; 6], change: impl FnOnce(&mut NewKey)) -> Principal {
    let mut key = NewKey::for_user(KeyId::random(id), "ann");
    change(&mut key);
    let (secret, record) = key.issue_key([7; 32], WallTime(0)).unwrap();
    KeyRing::new([record]).verify_key(Some(secret.expose()), WallTime(1)).unwrap()
}

fn agent() -> Principal {
    principal(ID, |_| {})
}

fn owner() -> Principal {
    principal([2; 6], |key| *key = NewKey::for_owner(KeyId::random([2; 6])))
}

fn tool(name: &str, change: impl FnOnce(&mut Tool)) -> Tool {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let mut tool = testkit::read_only_tool(name, "d", &schema);
    tool.traits.safety = SafetyLevel::Dangerous;
    tool.traits.effects = tool::SideEffects::Unknown;
    change(&mut tool);
    tool
}

fn catalog_snapshot(number: u64, tools: Vec<Tool>, executor: &Arc<MockExecutor>) -> Catalog {
    catalog_with_source("s", number, tools, executor)
}

fn catalog_with_source(
    source: &str,
    number: u64,
    tools: Vec<Tool>,
    executor: &Arc<MockExecutor>,
) -> Catalog {
    Catalog::from_sources(number, vec![source_catalog(source, tools, executor)])
}

fn source_catalog(
    source: &str,
    tools: Vec<Tool>,
    executor: &Arc<MockExecutor>,
) -> Arc<SourceCatalog> {
    let offers = tools.into_iter().map(|tool| Offer {
        item: CatalogItem::Tool(Arc::new(tool)),
        executor: Arc::clone(executor) as Arc<dyn Executor>,
    });
    let listing = SourceListing { offers: offers.collect(), ..SourceListing::default() };
    let shelf =
        SourceCatalog::new_starting(SourceName::new(source).unwrap(), "test", SourceTrust::Full);
    Arc::new(shelf.with_listing(&Org::default(), listing))
}

impl Bench {
    fn new() -> Self {
        Self::with(ApprovalSettings::default())
    }

    fn with(settings: ApprovalSettings) -> Self {
        Self::with_options((settings, GatewayOptions::default()))
    }

    fn with_options((settings, options): (ApprovalSettings, GatewayOptions)) -> Self {
        let executor = Arc::new(MockExecutor::new(|args| {
            Ok(ExecutionState::Completed(Outcome::from_value(args)))
        }));
        let current = CurrentSnapshot::new(
            catalog_snapshot(1, vec![tool("rm", |_| {})], &executor),
            Policy::default(),
        );
        let current = Arc::new(current);
        let ledger = Arc::new(MemoryLedger::default());
        let bench = Self {
            gateway: Arc::new(Gateway::new(GatewayComponents {
                current: Arc::clone(&current),
                ledger: Arc::clone(&ledger) as _,
                clock: Arc::new(FakeClock::default()),
                credentials: Arc::new(testkit::context::NoopContext),
                mac_key: Secret::new("key"),
                approvals: None,
                options: GatewayOptions::default(),
            })),
            ledger,
            current,
            clock: Arc::new(FakeClock::default()),
            store: Arc::new(MemoryStore::new()),
            ports: Arc::new(TestPorts::default()),
            executor,
            settings,
            options,
        };
        bench.ports.principals.lock().unwrap().push(agent());
        let gateway = bench.new_process();
        Self { gateway, ..bench }
    }

    /// Activates another catalog.
    fn set_catalog(&self, catalog: Catalog) {
        self.current.update_snapshot(Some(&Arc::new(catalog)), None);
    }

    /// Activates another policy.
    fn set_policy(&self, policy: &Policy) {
        self.current.update_snapshot(None, Some(policy));
    }

    /// Creates another process over the same store, ledger and clock.
    fn new_process(&self) -> Arc<Gateway> {
        Arc::new(Gateway::new(GatewayComponents {
            current: Arc::clone(&self.current),
            ledger: Arc::clone(&self.ledger) as _,
            clock: Arc::clone(&self.clock) as _,
            credentials: Arc::new(testkit::context::NoopContext),
            mac_key: Secret::new("key"),
            approvals: Some(ApprovalComponents {
                store: Arc::clone(&self.store) as Arc<dyn Store>,
                principal_resolver: Arc::clone(&self.ports) as _,
                observer: Arc::clone(&self.ports) as _,
                settings: self.settings.clone(),
            }),
            options: self.options,
        }))
    }

    async fn call(&self, args: &str) -> CallResponse {
        let request = CallRequest::new("rm", args.to_owned(), Interface::Mcp);
        self.gateway.call_tool(&agent(), request).await
    }

    /// Makes a call that needs an approval.
    async fn hold_call(&self) -> CallId {
        let answer = self.call(r#"{"n": 1}"#).await;
        assert_eq!(answer.status, CallStatus::Pending, "{answer:?}");
        assert!(
            matches!(answer.result, Ok(ExecutionState::Pending(PendingReason::Approval(_)))),
            "{answer:?}"
        );
        answer.call_id
    }

    async fn wait_for_response(&self, id: CallId) -> CallResponse {
        self.gateway.wait_for_result(&agent(), id, Duration::from_mins(20)).await.unwrap()
    }

    async fn approve(
        &self,
        id: CallId,
    ) -> Result<super::ApprovalDetails, tool::call_outcome::CallFailure> {
        self.gateway.approve_call((&owner(), Interface::Rest), id, None).await
    }

    fn steps(&self, id: CallId) -> Vec<ApprovalStep> {
        let frames = self.ledger.all_records().into_iter();
        let steps = frames
            .filter(|frame| frame.call_id == Some(id) && frame.kind == RecordKind::ApprovalStep);
        steps.map(|frame| frame.body.decode::<ApprovalStepRecord>().unwrap().step).collect()
    }

    async fn state(&self, id: CallId) -> ApprovalState {
        self.gateway.get_approval(&owner(), id).await.unwrap().state
    }
}

fn body(answer: &CallResponse) -> &str {
    match &answer.result {
        Ok(ExecutionState::Completed(Outcome { body: OutcomeBody::Value(json), .. })) => {
            json.as_str()
        }
        other => panic!("{other:?}"),
    }
}

fn code(answer: &CallResponse) -> Option<ErrorCode> {
    answer.result.as_ref().err().map(|failure| failure.code)
}

#[expect(clippy::disallowed_methods, reason = "how many tries are asked for")]
fn deep(usual: usize, deep: usize) -> usize {
    if std::env::var("TOOLKEEP_DEEP").is_ok_and(|value| value == "1") { deep } else { usual }
}

#[tokio::test]
async fn an_approved_call_runs_once_with_what_was_stored_and_every_step_is_on_record() {
    let bench = Bench::new();
    let id = bench.hold_call().await;
    assert_eq!((bench.executor.call_count(), bench.gateway.pending_approval_count()), (0, 1));
    let shown = bench.approve(id).await.unwrap();
    assert_eq!(shown.decision.unwrap().subject, "owner");
    let answer = bench.wait_for_response(id).await;
    assert_eq!((answer.status, body(&answer)), (CallStatus::Succeeded, r#"{"n": 1}"#));
    let kinds = bench.ledger.record_kinds(id);
    assert_eq!(
        kinds,
        [
            RecordKind::ApprovalStep,
            RecordKind::ApprovalStep,
            RecordKind::Intent,
            RecordKind::Outcome
        ]
    );
    assert_eq!(bench.steps(id), [ApprovalStep::Requested, ApprovalStep::Approved]);
    let frames = bench.ledger.all_records();
    let waited: ApprovalStepRecord = frames[1].body.decode().unwrap();
    assert_eq!(waited.decided_by.unwrap().caller.subject, "owner");
    let intent: IntentRecord = frames[2].body.decode().unwrap();
    assert_eq!((&*intent.reason, intent.caller.subject.as_str()), ("approved", "ann"));
    // Who comes later gets the same answer, and nothing runs again.
    assert_eq!(bench.wait_for_response(id).await.result, answer.result);
    let again = bench.approve(id).await.unwrap_err();
    assert_eq!(again.code, ErrorCode::Conflict);
    assert_eq!((bench.executor.call_count(), bench.gateway.pending_approval_count()), (1, 0));
    assert!(bench.ports.event_count.load(Ordering::SeqCst) >= 3);
}

#[tokio::test]
async fn a_denied_call_never_runs_and_its_caller_is_told_why() {
    let bench = Bench::new();
    let id = bench.hold_call().await;
    let mut waiting = JoinSet::new();
    waiting.spawn({
        let gateway = Arc::clone(&bench.gateway);
        async move { gateway.wait_for_result(&agent(), id, Duration::from_mins(5)).await.unwrap() }
    });
    bench
        .gateway
        .deny_call((&owner(), Interface::Rest), id, Some("not \u{200b}today"))
        .await
        .unwrap();
    let answer = waiting.join_next().await.unwrap().unwrap();
    assert_eq!(
        (answer.status, code(&answer)),
        (CallStatus::Refused, Some(ErrorCode::ApprovalDenied))
    );
    let message = answer.result.unwrap_err().message;
    assert_eq!(message, "the call was denied by a person: not \\u{200b}today");
    assert_eq!(bench.steps(id), [ApprovalStep::Requested, ApprovalStep::Denied]);
    assert_eq!(
        bench.ledger.record_kinds(id),
        [RecordKind::ApprovalStep, RecordKind::Refusal, RecordKind::ApprovalStep]
    );
    assert_eq!(bench.approve(id).await.unwrap_err().code, ErrorCode::Conflict);
    assert_eq!(bench.executor.call_count(), 0);
}

#[tokio::test]
async fn edited_arguments_are_checked_and_what_was_seen_before_cannot_be_approved() {
    let bench = Bench::new();
    let id = bench.hold_call().await;
    let before = bench.gateway.get_approval(&owner(), id).await.unwrap();
    let edit = async |args: &str| {
        let args = Json::parse(args.to_owned(), tool::JsonLimits::ARGUMENTS).unwrap();
        bench.gateway.edit_arguments((&owner(), Interface::Rest), id, edit_of(args)).await
    };
    assert_eq!(edit(r#"{"n": "x"}"#).await.unwrap_err().code, ErrorCode::InvalidArguments);
    let edited = edit(r#"{"n": 7}"#).await.unwrap();
    assert_eq!((edited.edit_count, edited.state), (1, ApprovalState::Pending));
    assert_ne!(edited.arguments_sha256, before.arguments_sha256);
    let by = (&owner(), Interface::Rest);
    let stale = bench.gateway.approve_call(by, id, Some(before.arguments_sha256)).await;
    assert_eq!(stale.unwrap_err().code, ErrorCode::Conflict);
    bench.gateway.approve_call(by, id, Some(edited.arguments_sha256)).await.unwrap();
    assert_eq!(body(&bench.wait_for_response(id).await), r#"{"n": 7}"#);
    assert_eq!(
        bench.steps(id),
        [ApprovalStep::Requested, ApprovalStep::Edited, ApprovalStep::Approved]
    );
}

#[tokio::test(start_paused = true)]
async fn what_nobody_decides_expires_by_either_clock_and_is_forgotten_later() {
    let bench = Bench::new();
    let id = bench.hold_call().await;
    bench.clock.advance(Duration::from_mins(10));
    assert_eq!(bench.approve(id).await.unwrap_err().code, ErrorCode::Conflict);
    let answer = bench.wait_for_response(id).await;
    assert_eq!(
        (answer.status, code(&answer)),
        (CallStatus::Refused, Some(ErrorCode::ApprovalExpired))
    );
    assert_eq!(bench.steps(id), [ApprovalStep::Requested, ApprovalStep::Expired]);
    // The sweep does it where nobody asks, and forgets in the end.
    let other = bench.hold_call().await;
    let mut tending = JoinSet::new();
    tending.spawn({
        let gateway = Arc::clone(&bench.gateway);
        async move { gateway.run_maintenance().await }
    });
    bench.clock.advance(Duration::from_mins(11));
    assert!(bench.gateway.expire_due().await);
    assert_eq!(bench.state(other).await, ApprovalState::Expired);
    bench.clock.advance(Duration::from_hours(2));
    assert!(bench.gateway.expire_due().await);
    assert_eq!(
        bench.gateway.get_approval(&owner(), other).await.unwrap_err().code,
        ErrorCode::NotFound
    );
    assert_eq!(bench.store.scan_prefix("wait/", None, 9).await.unwrap(), []);
    tending.abort_all();
    assert_eq!(bench.executor.call_count(), 0);
}

#[tokio::test]
async fn what_has_expired_is_not_listed_as_pending() {
    let bench = Bench::new();
    let id = bench.hold_call().await;
    let listed = async |pending: bool| {
        let page = bench.gateway.list_approvals(&owner(), pending, (None, 9)).await.unwrap();
        page.approvals.into_iter().map(|shown| (shown.id, shown.state)).collect::<Vec<_>>()
    };
    // Positive control: while it waits it is listed.
    assert_eq!(listed(true).await, [(id, ApprovalState::Pending)]);
    // Nothing sweeps meanwhile.
    bench.clock.advance(Duration::from_mins(10));
    assert_eq!(listed(true).await, []);
    assert_eq!(listed(false).await, [(id, ApprovalState::Expired)]);
    assert_eq!(bench.steps(id), [ApprovalStep::Requested, ApprovalStep::Expired]);
}

#[tokio::test]
async fn who_may_not_approve_does_not() {
    let bench = Bench::new();
    let id = bench.hold_call().await;
    let refused = async |who: &Principal, door: Interface| {
        bench.gateway.approve_call((who, door), id, None).await.unwrap_err().code
    };
    // An agent that was given the right has lost it on the way.
    let armed = principal([3; 6], |key| key.subject = "bob".to_owned());
    assert_eq!(refused(&armed, Interface::Rest).await, ErrorCode::NotFound);
    assert_eq!(refused(&agent(), Interface::Rest).await, ErrorCode::Forbidden);
    let foreign = principal([4; 6], |key| {
        *key = NewKey::for_owner(KeyId::random([4; 6]));
        key.org = Org::new("other").unwrap();
    });
    assert_eq!(refused(&foreign, Interface::Rest).await, ErrorCode::NotFound);
    let own = principal([5; 6], |key| {
        key.is_agent = false;
        key.rights = [Right::Approve].into();
    });
    let low = principal([6; 6], |key| {
        (key.is_agent, key.level, key.subject) = (false, PermissionLevel::Guest, "eve".to_owned());
        key.rights = [Right::Approve].into();
    });
    let higher = tool("rm", |tool| tool.traits.min_level = PermissionLevel::User);
    bench.set_catalog(catalog_snapshot(2, vec![higher], &bench.executor));
    let high = bench.hold_call().await;
    let by_low = bench.gateway.approve_call((&low, Interface::Rest), high, None).await;
    assert_eq!(by_low.unwrap_err().code, ErrorCode::NotFound, "the tool is not in its view");
    assert_eq!(bench.executor.call_count(), 0);
    // Positive control: the person whose agent called may, and that is on record.
    let shown = bench.gateway.approve_call((&own, Interface::Rest), high, None).await.unwrap();
    assert!(shown.decision.unwrap().is_own_call);
    assert_eq!(bench.wait_for_response(high).await.status, CallStatus::Succeeded);
    // Nobody else gets its answer.
    let other = bench.gateway.wait_for_result(&armed, high, Duration::ZERO).await;
    assert_eq!(other.unwrap_err().code, ErrorCode::NotFound);
}

/// What may change, and what the caller is told then.
type Change = (&'static str, fn(&Bench), ErrorCode);

fn changes() -> [Change; 6] {
    [
        (
            "the definition",
            |b| {
                let changed =
                    tool("rm", |tool| tool.raw_definition = Json::encode(&json!({"name": "rm"})));
                b.set_catalog(catalog_snapshot(2, vec![changed], &b.executor));
            },
            ErrorCode::ApprovalVoid,
        ),
        (
            "the tool is gone",
            |b| b.set_catalog(catalog_snapshot(2, vec![], &b.executor)),
            ErrorCode::NotFound,
        ),
        (
            "the policy hides it",
            |b| {
                let deny = vec![ToolPattern::new("rm").unwrap()];
                b.set_policy(&deny_policy(deny));
            },
            ErrorCode::NotFound,
        ),
        (
            "it is held for another reason",
            |b| {
                let changed = tool("rm", |tool| {
                    (tool.traits.safety, tool.traits.is_destructive) = (SafetyLevel::Safe, true);
                });
                b.set_catalog(catalog_snapshot(2, vec![changed], &b.executor));
            },
            ErrorCode::ApprovalVoid,
        ),
        (
            "the key was revoked",
            |b| b.ports.revoked_keys.lock().unwrap().extend([agent().key_id().to_owned()]),
            ErrorCode::ApprovalVoid,
        ),
        (
            "the key was lowered",
            |b| {
                let low = principal(ID, |key| key.level = PermissionLevel::Guest);
                b.ports.principals.lock().unwrap().push(low);
                let higher = tool("rm", |tool| tool.traits.min_level = PermissionLevel::User);
                b.set_catalog(catalog_snapshot(2, vec![higher], &b.executor));
            },
            ErrorCode::UnknownTool,
        ),
    ]
}

#[tokio::test]
async fn what_changed_while_it_was_held_is_honoured_when_it_goes_on() {
    for (what, change, expected) in changes() {
        let bench = Bench::new();
        let id = bench.hold_call().await;
        change(&bench);
        if expected == ErrorCode::NotFound {
            // No approver sees the tool any more: nobody lets the call run, and it ends by itself.
            assert_eq!(bench.approve(id).await.unwrap_err().code, expected, "{what}");
            bench.clock.advance(Duration::from_mins(10));
            assert_eq!(
                code(&bench.wait_for_response(id).await),
                Some(ErrorCode::ApprovalExpired),
                "{what}"
            );
            assert_eq!(bench.executor.call_count(), 0, "{what}");
            continue;
        }
        bench.approve(id).await.unwrap();
        let answer = bench.wait_for_response(id).await;
        assert_eq!((answer.status, code(&answer)), (CallStatus::Refused, Some(expected)), "{what}");
        assert_eq!(bench.executor.call_count(), 0, "{what}");
        assert_eq!(bench.state(id).await, ApprovalState::Void, "{what}");
    }
    // Positive control: another policy that says the same of this call lets it go on.
    let bench = Bench::new();
    let id = bench.hold_call().await;
    let deny = vec![ToolPattern::new("other").unwrap()];
    bench.set_policy(&deny_policy(deny));
    bench.approve(id).await.unwrap();
    assert_eq!(bench.wait_for_response(id).await.status, CallStatus::Succeeded);
}

fn approval_policy(names: &[(&str, Option<&str>)]) -> Policy {
    let rules = names.iter().map(|(name, tool)| policy::PolicyRule {
        name: (*name).to_owned(),
        effect: policy::RuleEffect::RequireApproval,
        tools: tool.map(|tool| vec![ToolPattern::new(tool).unwrap()]),
        condition: None,
        time_window: None,
        examples: Vec::new(),
        position: policy::FilePosition::default(),
    });
    let global = PolicyLayer { rules: rules.collect(), ..PolicyLayer::default() };
    Policy::new(PolicyDocument { global, ..PolicyDocument::default() }).unwrap()
}

#[tokio::test]
async fn an_approval_lifts_the_holds_that_were_shown_and_no_rule_that_came_later() {
    let plain = |bench: &Bench| {
        let safe = tool("rm", |tool| tool.traits.safety = SafetyLevel::Safe);
        bench.set_catalog(catalog_snapshot(2, vec![safe], &bench.executor));
    };
    // The reason code is the same, before and after.
    for (after, runs) in [
        (approval_policy(&[("first", None)]), true),
        (approval_policy(&[("first", None), ("second", None)]), false),
        (approval_policy(&[("second", None)]), false),
        // Another rule under the same name.
        (approval_policy(&[("first", Some("rm"))]), false),
        (approval_policy(&[("other", Some("read")), ("first", None)]), true),
        (Policy::default(), true),
    ] {
        let bench = Bench::new();
        plain(&bench);
        bench.set_policy(&approval_policy(&[("first", None)]));
        let id = bench.hold_call().await;
        let shown = bench.gateway.get_approval(&owner(), id).await.unwrap();
        assert_eq!((shown.reason.as_str(), shown.approval_reasons.len()), ("rule_hold", 1));
        assert!(
            shown.approval_reasons[0].starts_with("rule first "),
            "{:?}",
            shown.approval_reasons
        );
        bench.set_policy(&after);
        bench.approve(id).await.unwrap();
        let answer = bench.wait_for_response(id).await;
        assert_eq!(answer.status == CallStatus::Succeeded, runs, "{answer:?}");
        assert_eq!(bench.executor.call_count(), usize::from(runs));
        if !runs {
            assert_eq!(code(&answer), Some(ErrorCode::ApprovalVoid));
        }
    }
    // A rule that comes to a tool that was held for what it is, too.
    let bench = Bench::new();
    let id = bench.hold_call().await;
    bench.set_policy(&approval_policy(&[("late", None)]));
    bench.approve(id).await.unwrap();
    assert_eq!(code(&bench.wait_for_response(id).await), Some(ErrorCode::ApprovalVoid));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_attempts_at_once_one_runs() {
    let tries = deep(1_000, 10_000);
    let bench = Bench::new();
    let id = bench.hold_call().await;
    // A second process of the same installation takes part.
    let other = bench.new_process();
    other.recover_approvals().await.unwrap();
    bench.clock.advance(Duration::from_secs(1));
    let mut all = JoinSet::new();
    for n in 0..tries {
        let gateway = Arc::clone(if n % 2 == 0 { &bench.gateway } else { &other });
        all.spawn(async move {
            match n % 5 {
                0 => drop(gateway.approve_call((&owner(), Interface::Rest), id, None).await),
                1 => drop(gateway.deny_call((&owner(), Interface::Mcp), id, None).await),
                _ => drop(gateway.wait_for_result(&agent(), id, Duration::ZERO).await),
            }
        });
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
    bench.gateway.drain_calls().await;
    other.drain_calls().await;
    let state = bench.state(id).await;
    let expected = usize::from(state == ApprovalState::Done);
    assert!(matches!(state, ApprovalState::Done | ApprovalState::Denied), "{state:?}");
    let intents =
        bench.ledger.record_kinds(id).iter().filter(|kind| **kind == RecordKind::Intent).count();
    println!("races: {tries} attempts, {state:?}, {} executions", bench.executor.call_count());
    assert_eq!((bench.executor.call_count(), intents), (expected, expected));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_approvals_and_retries_at_once_run_one_execution() {
    let tries = deep(1_000, 10_000);
    let bench = Bench::new();
    let id = bench.hold_call().await;
    let other = bench.new_process();
    other.recover_approvals().await.unwrap();
    let mut all = JoinSet::new();
    for n in 0..tries {
        let gateway = Arc::clone(if n % 2 == 0 { &bench.gateway } else { &other });
        all.spawn(async move {
            if n % 3 == 0 {
                drop(gateway.approve_call((&owner(), Interface::Rest), id, None).await);
            } else {
                drop(gateway.wait_for_result(&agent(), id, Duration::ZERO).await);
            }
        });
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
    bench.gateway.drain_calls().await;
    other.drain_calls().await;
    println!("approvals: {tries} attempts, {} executions", bench.executor.call_count());
    assert_eq!((bench.executor.call_count(), bench.state(id).await), (1, ApprovalState::Done));
}

#[tokio::test]
async fn a_restart_runs_nothing_by_itself() {
    let bench = Bench::new();
    let (pending, approved, begun) =
        (bench.hold_call().await, bench.hold_call().await, bench.hold_call().await);
    // As the process was killed: behind the approval, and behind its use.
    for (id, state) in [(approved, "approved"), (begun, "consumed")] {
        let row = bench.store.get_value(&format!("wait/{id}")).await.unwrap().unwrap();
        let mut stored: serde_json::Value = serde_json::from_slice(&row.bytes).unwrap();
        stored["state"] = json!(state);
        stored["decision"] = json!({"by": owner().caller(), "door": "rest", "at": 0});
        let bytes = serde_json::to_vec(&stored).unwrap();
        let expect = tool::store::WritePrecondition::Version(row.version);
        bench.store.put_value(&row.key, expect, Some(bytes.into())).await.unwrap();
    }
    let next = bench.new_process();
    assert_eq!(next.recover_approvals().await.unwrap(), 2);
    next.expire_due().await;
    tokio::task::yield_now().await;
    assert_eq!(bench.executor.call_count(), 0);
    let wait_for_response =
        async |id| next.wait_for_result(&agent(), id, Duration::from_mins(1)).await.unwrap();
    let unknown = wait_for_response(begun).await;
    assert_eq!(unknown.status, CallStatus::Unknown);
    assert_eq!(bench.executor.call_count(), 0);
    // Its caller comes back, and the approval stands.
    assert_eq!(wait_for_response(approved).await.status, CallStatus::Succeeded);
    assert_eq!((bench.executor.call_count(), next.pending_approval_count()), (1, 1));
    next.approve_call((&owner(), Interface::Rest), pending, None).await.unwrap();
    assert_eq!(wait_for_response(pending).await.status, CallStatus::Succeeded);
    assert_eq!(bench.executor.call_count(), 2);
}

#[tokio::test]
async fn a_client_gives_the_approval_only_where_the_operator_lets_its_key() {
    let bench = Bench::new();
    let id = bench.hold_call().await;
    let by = (&agent(), Interface::Mcp);
    assert_eq!(
        bench.gateway.confirm_as_client(by, id, true).await.unwrap_err().code,
        ErrorCode::Forbidden
    );
    assert_eq!((bench.executor.call_count(), bench.state(id).await), (0, ApprovalState::Pending));
    let client_confirm = HashSet::from([agent().key_id().to_owned()]);
    let bench = Bench::with(ApprovalSettings {
        client_confirming_keys: client_confirm,
        ..ApprovalSettings::default()
    });
    let (yes, no) = (bench.hold_call().await, bench.hold_call().await);
    bench.gateway.confirm_as_client(by, yes, true).await.unwrap();
    bench.gateway.confirm_as_client(by, no, false).await.unwrap();
    assert_eq!(bench.wait_for_response(yes).await.status, CallStatus::Succeeded);
    assert_eq!(code(&bench.wait_for_response(no).await), Some(ErrorCode::ApprovalDenied));
    // Another key's call is not its to confirm.
    let bob = principal([9; 6], |key| key.subject = "bob".to_owned());
    let other =
        bench.gateway.call_tool(&bob, CallRequest::new("rm", "{}", Interface::Mcp)).await.call_id;
    assert_eq!(
        bench.gateway.confirm_as_client(by, other, true).await.unwrap_err().code,
        ErrorCode::NotFound
    );
}

#[tokio::test]
async fn no_record_no_wait_and_no_store_no_wait() {
    let bench = Bench::new();
    bench.ledger.fail_from(Some(tool::Durability::Written));
    assert_eq!(code(&bench.call("{}").await), Some(ErrorCode::RecordUnavailable));
    assert_eq!(
        (
            bench.gateway.pending_approval_count(),
            bench.store.scan_prefix("wait/", None, 9).await.unwrap()
        ),
        (0, vec![])
    );
    bench.ledger.fail_from(None);
    let id = bench.hold_call().await;
    // The intent cannot be written: the approval is used up, and nothing runs.
    bench.ledger.fail_from(Some(tool::Durability::Synced));
    assert_eq!(bench.approve(id).await.unwrap_err().code, ErrorCode::RecordUnavailable);
    bench.ledger.fail_from(None);
    assert_eq!(
        bench.wait_for_response(id).await.status,
        CallStatus::Succeeded,
        "its caller returned"
    );
    assert_eq!(bench.executor.call_count(), 1);
}
