//! A program has its caller's rights of each moment, not those of its beginning.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use catalog::{Catalog, CurrentSnapshot, SourceCatalog};
use gateway::{CredentialStatus, Gateway, GatewayOptions, NoopProgress, PrincipalResolver};
use identity::{
    CallerCredential, DelegationRequest, Directory, KeyId, KeyRecord, KeyRing, NewKey, Principal,
    RoleRecord,
};
use policy::Policy;
use serde_json::{Map, Value, json};
use store::MemoryStore;
use testkit::clock::FakeClock;
use testkit::executor::MockExecutor;
use testkit::ledger::MemoryLedger;
use tool::{
    BoxFuture, Caller, CallerType, CatalogItem, Clock as _, ExecutionState, Executor, Json, Offer,
    Org, Outcome, PermissionLevel, Secret, SideEffects, SourceListing, SourceName, SourceTrust,
    WallTime,
};

use crate::parent_call::NeverCancelled;
use crate::{
    CallOrigin, ExecutionMode, Interpreter, InterpreterSlot, ParentCall, PendingCalls,
    ProgramDependencies, ProgramRequest, Programs,
};

/// Calls that each program here makes, where nothing keeps it from them.
const CALLS: usize = 6;
/// The call in which the caller's rights change.
const CHANGES: usize = 2;

/// The keys as they stand, as a server has them.
#[derive(Debug)]
struct Keys(Mutex<KeyRing>);

impl PrincipalResolver for Keys {
    fn resolve_caller(&self, caller: &Caller, now: WallTime) -> CredentialStatus {
        match self.0.lock().unwrap().principal_of_caller(caller, now) {
            CallerCredential::Valid(principal) => CredentialStatus::Valid(principal.clone()),
            CallerCredential::Invalid => CredentialStatus::Invalid,
            CallerCredential::NotStoredHere => CredentialStatus::NotStoredHere,
        }
    }
}

impl Interpreter for Keys {
    fn acquire_slot<'a>(
        &'a self,
        _: &'a Caller,
    ) -> BoxFuture<'a, Result<Box<dyn InterpreterSlot>, String>> {
        Box::pin(async { Err("steps need no interpreter".to_owned()) })
    }
}

/// One installation: the key of a person, and one of an agent that was delegated from it.
struct Installation {
    keys: Arc<Keys>,
    clock: Arc<FakeClock>,
    records: [KeyRecord; 2],
    secrets: [Secret; 2],
}

fn directory(role: &RoleRecord) -> Directory {
    let text = serde_json::to_vec(role).unwrap();
    let key = RoleRecord::store_key(&role.name);
    let (directory, problems) =
        Directory::from_rows(identity::PersonaSet::default(), [(key.as_str(), text.as_slice())]);
    assert!(problems.is_empty(), "{problems:?}");
    directory
}

fn role() -> RoleRecord {
    let (description, rights) = (String::new(), BTreeSet::new());
    RoleRecord { name: "staff".to_owned(), description, max_level: None, rights, revoked_at: None }
}

impl Installation {
    fn new() -> Self {
        let clock = Arc::new(FakeClock::default());
        let now = clock.wall_now();
        let roles = vec!["staff".to_owned()];
        let level = PermissionLevel::Admin;
        let first =
            NewKey { level, roles, ..NewKey::for_user(KeyId::new("first").unwrap(), "ann") };
        let (first_secret, first) = first.issue_key([1; 32], now).unwrap();
        let ring = KeyRing::with_directory([first.clone()], directory(&role()));
        let maker = ring.verify_key(Some(first_secret.expose()), now).unwrap();
        let hand = DelegationRequest {
            expires_at: Some(WallTime(now.0 + 3_000)),
            ..DelegationRequest::default()
        };
        let id = KeyId::new("second").unwrap();
        let second = NewKey::delegate_key(id, (&first, &maker), hand, now).unwrap();
        let (second_secret, second) = second.issue_key([2; 32], now).unwrap();
        let records = [first, second];
        let ring = KeyRing::with_directory(records.clone(), directory(&role()));
        let keys = Arc::new(Keys(Mutex::new(ring)));
        Self { keys, clock, records, secrets: [first_secret, second_secret] }
    }

    fn principal(&self, which: usize) -> Principal {
        let ring = self.keys.0.lock().unwrap();
        ring.verify_key(Some(self.secrets[which].expose()), self.clock.wall_now()).unwrap()
    }

    /// Runs steps one after the other as this caller, with `change` in the middle of the second; gives
    /// back how many ran, and what became of the program.
    async fn run(
        &self,
        who: &Principal,
        change: impl Fn(&Self) + Send + Sync + 'static,
    ) -> (usize, Value) {
        let calls = Arc::new(AtomicUsize::new(0));
        let (counted, here) = (Arc::clone(&calls), self.clone());
        let executor: Arc<dyn Executor> = Arc::new(MockExecutor::new(move |_| {
            if counted.fetch_add(1, Ordering::SeqCst) + 1 == CHANGES {
                change(&here);
            }
            Ok(ExecutionState::Completed(Outcome::from_value(Json::encode(&"done"))))
        }));
        let catalog = catalog_of_look(executor);
        let ledger = Arc::new(MemoryLedger::default());
        let gateway = Arc::new(Gateway::new(gateway::GatewayComponents {
            current: Arc::new(CurrentSnapshot::new(catalog, Policy::default())),
            ledger: Arc::clone(&ledger) as _,
            clock: Arc::clone(&self.clock) as _,
            credentials: Arc::new(testkit::context::NoopContext),
            mac_key: Secret::new("key"),
            approvals: None,
            options: GatewayOptions::default(),
        }));
        let programs = Programs::new(ProgramDependencies {
            gateway: Arc::downgrade(&gateway),
            records: ledger as _,
            pending_calls: PendingCalls::new(),
            store: Arc::new(MemoryStore::default()),
            principal_resolver: Arc::clone(&self.keys) as _,
            interpreter: Arc::clone(&self.keys) as _,
            clock: Arc::clone(&self.clock) as _,
            default_mode: ExecutionMode::Sequential,
            observer: None,
            parallel_mutations: false,
        });
        let steps = (0..CALLS).map(|it| serde_json::from_value(step(it)).unwrap()).collect();
        let begin = ProgramRequest {
            code: String::new(),
            steps,
            inputs: Map::new(),
            execution_mode: ExecutionMode::Sequential,
            parallel_mutations: false,
            max_calls: 200,
        };
        let running = ParentCall {
            cancel_signal: &NeverCancelled,
            progress: &NoopProgress,
            report_usage: &|_| {},
        };
        let origin = CallOrigin {
            principal: who,
            call_id: gateway.new_call_id(),
            interface: tool::Interface::Library,
        };
        let shown = Box::pin(programs.start_program(origin, begin, running)).await.unwrap();
        (calls.load(Ordering::SeqCst), shown)
    }

    fn replace(&self, records: [KeyRecord; 2], role: &RoleRecord) {
        *self.keys.0.lock().unwrap() = KeyRing::with_directory(records, directory(role));
    }
}

/// A step that calls `look` after the step before it.
fn step(number: usize) -> Value {
    let before: Vec<_> = number.checked_sub(1).map(|it| format!("s{it}")).into_iter().collect();
    json!({ "id": format!("s{number}"), "tool": "look", "depends_on": before })
}

/// A catalog with the tool `look`, which administrators may call directly and in programs.
fn catalog_of_look(executor: Arc<dyn Executor>) -> Catalog {
    let mut look = testkit::read_only_tool("look", "d", &json!({ "type": "object" }));
    look.traits.min_level = PermissionLevel::Admin;
    look.traits.effects = SideEffects::read_only();
    look.traits.allowed_callers = vec![CallerType::Direct, CallerType::Chain];
    let offers = vec![Offer { item: CatalogItem::Tool(Arc::new(look)), executor }];
    let listing = SourceListing { offers, ..SourceListing::default() };
    let source =
        SourceCatalog::new_starting(SourceName::new("s").unwrap(), "test", SourceTrust::Full)
            .with_listing(&Org::default(), listing);
    Catalog::from_sources(1, vec![Arc::new(source)])
}

impl Clone for Installation {
    fn clone(&self) -> Self {
        let secrets = [0, 1].map(|it: usize| Secret::new(self.secrets[it].expose().to_owned()));
        let (keys, clock) = (Arc::clone(&self.keys), Arc::clone(&self.clock));
        Self { keys, clock, records: self.records.clone(), secrets }
    }
}

/// The control of all the others: with its rights as they were, each call runs.
#[tokio::test]
async fn a_program_whose_caller_keeps_its_rights_makes_all_its_calls() {
    for which in [0, 1] {
        let here = Installation::new();
        let (ran, shown) = here.run(&here.principal(which), |_| {}).await;
        assert_eq!((ran, &shown["status"]), (CALLS, &json!("succeeded")), "{shown}");
    }
}

#[tokio::test]
async fn a_program_ends_where_its_key_is_revoked_and_makes_no_further_call() {
    // Its own key, and the one that it was delegated from.
    for (which, revoked) in [(0, 0), (1, 1), (1, 0)] {
        let here = Installation::new();
        let revoke = move |here: &Installation| {
            let mut records = here.records.clone();
            records[revoked].revoked_at = Some(here.clock.wall_now());
            here.replace(records, &role());
        };
        let (ran, shown) = here.run(&here.principal(which), revoke).await;
        assert_eq!((ran, &shown["status"]), (CHANGES, &json!("failed")), "{shown}");
        let error = shown["error"].as_str().unwrap();
        assert!(error.contains("revoked or has expired"), "{error}");
    }
}

#[tokio::test]
async fn a_program_ends_where_its_delegated_key_expires() {
    let here = Installation::new();
    let later = |here: &Installation| here.clock.advance(Duration::from_secs(3));
    let (ran, shown) = here.run(&here.principal(1), later).await;
    assert_eq!((ran, &shown["status"]), (CHANGES, &json!("failed")), "{shown}");
    // The control: the key that it was delegated from has no end.
    let here = Installation::new();
    assert_eq!(here.run(&here.principal(0), later).await.0, CALLS);
}

#[tokio::test]
async fn a_program_has_no_tool_that_its_caller_lost() {
    let revoked = |here: &Installation| {
        let role = RoleRecord { revoked_at: Some(here.clock.wall_now()), ..role() };
        here.replace(here.records.clone(), &role);
    };
    let lowered = |here: &Installation| {
        let role = RoleRecord { max_level: Some(PermissionLevel::User), ..role() };
        here.replace(here.records.clone(), &role);
    };
    let one = Installation::new();
    let (ran, shown) = one.run(&one.principal(0), revoked).await;
    assert_eq!((ran, &shown["status"]), (CHANGES, &json!("failed")), "{shown}");
    let one = Installation::new();
    let (ran, shown) = one.run(&one.principal(0), lowered).await;
    assert_eq!((ran, &shown["status"]), (CHANGES, &json!("failed")), "{shown}");
    assert!(shown["error"].as_str().unwrap().contains("unknown tool"), "{shown}");
}

/// A program begun with less never gets what its caller has beside.
#[tokio::test]
async fn a_program_gets_no_more_than_it_began_with() {
    let here = Installation::new();
    let (ran, shown) =
        here.run(&here.principal(0).with_max_level(PermissionLevel::User), |_| {}).await;
    assert_eq!((ran, &shown["status"]), (0, &json!("failed")), "{shown}");
    assert_eq!(here.run(&here.principal(0), |_| {}).await.0, CALLS);
}
