//! A program has its caller's rights of each moment, not those of its beginning.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use catalog::{Catalog, Current, Shelf};
use gateway::{Gateway, Holder, Holders, Options, Unheard};
use identity::{Directory, Hand, KeyId, KeyRecord, KeyRing, NewKey, Principal, Role};
use policy::Policy;
use serde_json::{Map, Value, json};
use store::MemoryStore;
use testkit::clock::FakeClock;
use testkit::executor::Scripted;
use testkit::ledger::MemoryLedger;
use tool::{
    Boxed, Caller, CallerType, Clock as _, Effects, Executor, Item, Json, Level, Listing, Offer,
    Org, Outcome, Secret, SourceName, Step, Trust, Wall,
};

use super::Never;
use crate::{Begin, Interpreter, Mode, Parts, PendingCalls, Programs, Running, Turn};

/// Calls that each program here makes, where nothing keeps it from them.
const CALLS: usize = 6;
/// The call in which the caller's rights change.
const CHANGES: usize = 2;

/// The keys as they stand, as a server has them.
#[derive(Debug)]
struct Keys(Mutex<KeyRing>);

impl Holders for Keys {
    fn holder(&self, caller: &Caller, now: Wall) -> Holder {
        match self.0.lock().unwrap().standing(caller, now) {
            Some(Some(principal)) => Holder::Holds(principal.clone()),
            Some(None) => Holder::Gone,
            None => Holder::Elsewhere,
        }
    }
}

impl Interpreter for Keys {
    fn turn<'a>(&'a self, _: &'a Caller) -> Boxed<'a, Result<Box<dyn Turn>, String>> {
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

fn directory(role: &Role) -> Directory {
    let text = serde_json::to_vec(role).unwrap();
    let key = Role::store_key(&role.name);
    let (directory, problems) =
        Directory::read(identity::Personas::default(), [(key.as_str(), text.as_slice())]);
    assert!(problems.is_empty(), "{problems:?}");
    directory
}

fn role() -> Role {
    let (description, rights) = (String::new(), BTreeSet::new());
    Role { name: "staff".to_owned(), description, level: None, rights, revoked: None }
}

impl Installation {
    fn new() -> Self {
        let clock = Arc::new(FakeClock::default());
        let now = clock.wall();
        let roles = vec!["staff".to_owned()];
        let level = Level::Admin;
        let first = NewKey { level, roles, ..NewKey::user(KeyId::new("first").unwrap(), "ann") };
        let (first_secret, first) = first.issue([1; 32], now).unwrap();
        let ring = KeyRing::with([first.clone()], directory(&role()));
        let maker = ring.verify(Some(first_secret.open()), now).unwrap();
        let hand = Hand { expires: Some(Wall(now.0 + 3_000)), ..Hand::default() };
        let id = KeyId::new("second").unwrap();
        let second = NewKey::delegated(id, (&first, &maker), hand, now).unwrap();
        let (second_secret, second) = second.issue([2; 32], now).unwrap();
        let records = [first, second];
        let ring = KeyRing::with(records.clone(), directory(&role()));
        let keys = Arc::new(Keys(Mutex::new(ring)));
        Self { keys, clock, records, secrets: [first_secret, second_secret] }
    }

    fn principal(&self, which: usize) -> Principal {
        let ring = self.keys.0.lock().unwrap();
        ring.verify(Some(self.secrets[which].open()), self.clock.wall()).unwrap()
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
        let executor: Arc<dyn Executor> = Arc::new(Scripted::new(move |_| {
            if counted.fetch_add(1, Ordering::SeqCst) + 1 == CHANGES {
                change(&here);
            }
            Ok(Step::Done(Outcome::value(Json::of(&"done"))))
        }));
        let mut look = testkit::tool("look", "d", &json!({ "type": "object" }));
        look.traits.level = Level::Admin;
        look.traits.effects = Effects::read_only();
        look.traits.callers = vec![CallerType::Direct, CallerType::Chain];
        let offers = vec![Offer { item: Item::Tool(Arc::new(look)), executor }];
        let shelf = Shelf::starting(SourceName::new("s").unwrap(), "test", Trust::Full)
            .listed(&Org::default(), Listing { offers, ..Listing::default() });
        let catalog = Catalog::merge(1, vec![Arc::new(shelf)]);
        let ledger = Arc::new(MemoryLedger::default());
        let gateway = Arc::new(Gateway::new(gateway::Parts {
            current: Arc::new(Current::new(catalog, Policy::default())),
            ledger: Arc::clone(&ledger) as _,
            clock: Arc::clone(&self.clock) as _,
            credentials: Arc::new(testkit::context::Quiet),
            mac_key: Secret::new("key"),
            holding: None,
            options: Options::default(),
        }));
        let programs = Programs::new(Parts {
            gateway: Arc::downgrade(&gateway),
            records: ledger as _,
            pending_calls: PendingCalls::new(),
            store: Arc::new(MemoryStore::default()),
            holders: Arc::clone(&self.keys) as _,
            interpreter: Arc::clone(&self.keys) as _,
            clock: Arc::clone(&self.clock) as _,
            mode: Mode::Seq,
            parallel_mutations: false,
        });
        let step = |number: usize| {
            let before: Vec<_> =
                number.checked_sub(1).map(|it| format!("s{it}")).into_iter().collect();
            json!({ "id": format!("s{number}"), "tool": "look", "depends_on": before })
        };
        let steps = (0..CALLS).map(|it| serde_json::from_value(step(it)).unwrap()).collect();
        let begin = Begin {
            code: String::new(),
            steps,
            inputs: Map::new(),
            mode: Mode::Seq,
            parallel_mutations: false,
            most_calls: 200,
        };
        let running = Running { cancel: &Never, progress: &Unheard, caged: &|_| {} };
        let id = gateway.new_call();
        let shown = Box::pin(programs.begin((who, id, tool::Interface::Library), begin, running))
            .await
            .unwrap();
        (calls.load(Ordering::SeqCst), shown)
    }

    fn replace(&self, records: [KeyRecord; 2], role: &Role) {
        *self.keys.0.lock().unwrap() = KeyRing::with(records, directory(role));
    }
}

impl Clone for Installation {
    fn clone(&self) -> Self {
        let secrets = [0, 1].map(|it: usize| Secret::new(self.secrets[it].open().to_owned()));
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
            records[revoked].revoked = Some(here.clock.wall());
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
        let role = Role { revoked: Some(here.clock.wall()), ..role() };
        here.replace(here.records.clone(), &role);
    };
    let lowered = |here: &Installation| {
        let role = Role { level: Some(Level::User), ..role() };
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
    let (ran, shown) = here.run(&here.principal(0).lowered(Level::User), |_| {}).await;
    assert_eq!((ran, &shown["status"]), (0, &json!("failed")), "{shown}");
    assert_eq!(here.run(&here.principal(0), |_| {}).await.0, CALLS);
}
