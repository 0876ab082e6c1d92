use std::sync::Arc;
use std::time::Duration;

use catalog::{Catalog, Current, Shelf};
use identity::{KeyId, KeyRing, NewKey, Principal};
use policy::{At, Effect, Layer, Policy, Rule, Rules, Taint, Word};
use serde_json::json;
use store::MemoryStore;
use testkit::clock::FakeClock;
use testkit::store::FaultyStore;
use tool::outcome::Answer;
use tool::store::Expect;
use tool::{
    Caller, Code, Interface, Item, Listing, Offer, Org, Scope, Secret, SourceName, Store as _,
    Trust, Wall,
};

use super::PREFIX;
use crate::{Gateway, Holder, Holders, Holding, Nobody, Options, Parts, Patience, Request};

#[derive(Debug)]
struct NoOne;

impl Holders for NoOne {
    fn holder(&self, _: &Caller, _: Wall) -> Holder {
        Holder::Elsewhere
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
        let mut tool = testkit::tool(name, "d", &json!({ "type": "object" }));
        if name == "fetch" {
            tool.traits.scopes = vec![Scope::Network];
        }
        Offer { item: Item::Tool(Arc::new(tool)), executor: testkit::executor::echo() }
    });
    let listing = Listing { offers: offers.into(), ..Listing::default() };
    let shelf = Shelf::starting(SourceName::new("s").unwrap(), "test", Trust::Full)
        .listed(&Org::default(), listing);
    Catalog::merge(1, vec![Arc::new(shelf)])
}

/// What strangers wrote was seen: nothing is sent any more.
fn policy() -> Policy {
    let rule = Rule {
        name: "no way out".to_owned(),
        effect: Effect::Deny,
        tools: Some(vec![policy::Pattern::new("send").unwrap()]),
        when: Some(Word { text: "taint.untrusted".to_owned(), at: At::default() }),
        time: None,
        examples: Vec::new(),
        at: At::default(),
    };
    let global = Layer { rules: vec![rule], ..Layer::default() };
    Policy::new(Rules { global, ..Rules::default() }).unwrap()
}

impl Machine {
    async fn started(&self) -> Arc<Gateway> {
        let gateway = Gateway::new(Parts {
            current: Arc::new(Current::new(catalog(), policy())),
            ledger: Arc::new(testkit::ledger::MemoryLedger::default()),
            clock: Arc::clone(&self.clock) as _,
            credentials: Arc::new(testkit::context::Quiet),
            mac_key: Secret::new("key"),
            holding: Some(Holding {
                store: Arc::clone(&self.store) as _,
                holders: Arc::new(NoOne),
                herald: Arc::new(Nobody),
                patience: Patience::default(),
            }),
            options: Options::default(),
        });
        gateway.restore().await.unwrap();
        Arc::new(gateway)
    }

    async fn rows(&self) -> usize {
        self.store.scan(PREFIX, None, 100).await.unwrap().len()
    }

    fn later(&self, minutes: u64) {
        self.clock.advance(Duration::from_mins(minutes));
    }
}

fn caller(id: &str) -> Principal {
    let key = NewKey::user(KeyId::new(id).unwrap(), "ann");
    let (secret, record) = key.issue([7; 32], Wall(0)).unwrap();
    KeyRing::new([record]).verify(Some(secret.open()), Wall(1)).unwrap()
}

async fn call(gateway: &Arc<Gateway>, who: &Principal, tool: &str) -> Answer {
    gateway.call(who, Request::new(tool, "{}", Interface::Library)).await
}

fn code(answer: &Answer) -> Option<Code> {
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
    process.drain().await;
    let next = machine.started().await;
    assert_eq!(code(&call(&next, &eve, "send").await), Some(Code::Denied));
}

#[tokio::test]
async fn a_restart_makes_nobody_clean() {
    let (machine, eve, ann) = (Machine::default(), caller("eve"), caller("ann"));
    let first = machine.started().await;
    assert_eq!(code(&call(&first, &eve, "send").await), None);
    assert_eq!(code(&call(&first, &eve, "fetch").await), None);
    assert_eq!(code(&call(&first, &eve, "send").await), Some(Code::Denied));
    written(&first, &machine).await;
    machine.later(30);
    let second = machine.started().await;
    assert_eq!(code(&call(&second, &eve, "send").await), Some(Code::Denied));
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
        assert_eq!(code(&call(&process, &eve, "send").await), Some(Code::Denied));
    }
    // It is written when something is new, and then now and again, and never for each call.
    written(&process, &machine).await;
    let version = async || machine.store.scan(PREFIX, None, 1).await.unwrap()[0].version;
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
    machine.store.put("taint/x", Expect::Absent, bytes).await.unwrap();
    let process = machine.started().await;
    let both = Taint { untrusted: true, private: true };
    assert_eq!(process.taint(&ann), both);
    assert_eq!(code(&call(&process, &ann, "send").await), Some(Code::Denied));
    // Starting twice makes nobody clean.
    assert_eq!(machine.started().await.taint(&ann), both);
    machine.later(61);
    assert_eq!(process.taint(&ann), Taint::default());
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
