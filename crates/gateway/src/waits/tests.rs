mod share;

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use catalog::{Catalog, Current, Shelf};
use identity::{KeyId, KeyRing, NewKey, Principal, Right};
use policy::{Layer, Pattern, Policy, Rules};
use serde_json::json;
use store::MemoryStore;
use testkit::clock::FakeClock;
use testkit::executor::Scripted;
use testkit::ledger::MemoryLedger;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tool::ledger::Kind;
use tool::outcome::{Answer, Body, Status};
use tool::{
    CallId, Caller, Code, Executor, Intent, Interface, Item, Json, Level, Listing, Offer, Org,
    Outcome, Safety, Secret, SourceName, Step, Store, Tool, Trust, Wait, WaitStep, Waited, Wall,
};

use super::{Event, Herald, Holder, Holders, Holding, Patience, State};
use crate::{Gateway, Options, Parts, Request};

mod authority;
mod checks;
mod renamed;
mod resumption;

fn denying(deny: Vec<Pattern>) -> Policy {
    let global = Layer { deny, ..Layer::default() };
    Policy::new(Rules { global, ..Rules::default() }).unwrap()
}

/// Keys as they stand now, and who is told.
#[derive(Debug, Default)]
struct World {
    now: Mutex<Vec<Principal>>,
    gone: Mutex<HashSet<String>>,
    told: AtomicUsize,
}

impl Holders for World {
    fn holder(&self, caller: &Caller, _: Wall) -> Holder {
        if self.gone.lock().unwrap().contains(&caller.key) {
            return Holder::Gone;
        }
        let now = self.now.lock().unwrap();
        match now.iter().rev().find(|principal| principal.key() == caller.key) {
            Some(principal) => Holder::Holds(principal.clone()),
            None => Holder::Elsewhere,
        }
    }
}

impl Herald for World {
    fn tell(&self, _: &Event) {
        self.told.fetch_add(1, Ordering::SeqCst);
    }
}

struct Bench {
    gateway: Arc<Gateway>,
    ledger: Arc<MemoryLedger>,
    current: Arc<Current<Policy>>,
    clock: Arc<FakeClock>,
    store: Arc<MemoryStore>,
    world: Arc<World>,
    ran: Arc<Scripted>,
    patience: Patience,
    options: Options,
}

const ID: [u8; 6] = [1; 6];

fn principal(id: [u8; 6], change: impl FnOnce(&mut NewKey)) -> Principal {
    let mut key = NewKey::user(KeyId::random(id), "ann");
    change(&mut key);
    let (secret, record) = key.issue([7; 32], Wall(0)).unwrap();
    KeyRing::new([record]).verify(Some(secret.open()), Wall(1)).unwrap()
}

fn agent() -> Principal {
    principal(ID, |_| {})
}

fn owner() -> Principal {
    principal([2; 6], |key| *key = NewKey::owner(KeyId::random([2; 6])))
}

fn tool(name: &str, change: impl FnOnce(&mut Tool)) -> Tool {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let mut tool = testkit::tool(name, "d", &schema);
    tool.traits.safety = Safety::Dangerous;
    tool.traits.effects = tool::Effects::Unknown;
    change(&mut tool);
    tool
}

fn merged(number: u64, tools: Vec<Tool>, ran: &Arc<Scripted>) -> Catalog {
    merged_of("s", number, tools, ran)
}

fn merged_of(source: &str, number: u64, tools: Vec<Tool>, ran: &Arc<Scripted>) -> Catalog {
    Catalog::merge(number, vec![shelf_of(source, tools, ran)])
}

fn shelf_of(source: &str, tools: Vec<Tool>, ran: &Arc<Scripted>) -> Arc<Shelf> {
    let offers = tools.into_iter().map(|tool| Offer {
        item: Item::Tool(Arc::new(tool)),
        executor: Arc::clone(ran) as Arc<dyn Executor>,
    });
    let listing = Listing { offers: offers.collect(), ..Listing::default() };
    let shelf = Shelf::starting(SourceName::new(source).unwrap(), "test", Trust::Full);
    Arc::new(shelf.listed(&Org::default(), listing))
}

impl Bench {
    fn new() -> Self {
        Self::with(Patience::default())
    }

    fn with(patience: Patience) -> Self {
        Self::made((patience, Options::default()))
    }

    fn made((patience, options): (Patience, Options)) -> Self {
        let ran = Arc::new(Scripted::new(|args| Ok(Step::Done(Outcome::value(args)))));
        let current = Current::new(merged(1, vec![tool("rm", |_| {})], &ran), Policy::default());
        let current = Arc::new(current);
        let ledger = Arc::new(MemoryLedger::default());
        let bench = Self {
            gateway: Arc::new(Gateway::new(Parts {
                current: Arc::clone(&current),
                ledger: Arc::clone(&ledger) as _,
                clock: Arc::new(FakeClock::default()),
                credentials: Arc::new(testkit::context::Quiet),
                mac_key: Secret::new("key"),
                holding: None,
                options: Options::default(),
            })),
            ledger,
            current,
            clock: Arc::new(FakeClock::default()),
            store: Arc::new(MemoryStore::new()),
            world: Arc::new(World::default()),
            ran,
            patience,
            options,
        };
        bench.world.now.lock().unwrap().push(agent());
        let gateway = bench.process();
        Self { gateway, ..bench }
    }

    /// Another catalog is in force from here on.
    fn swapped(&self, catalog: Catalog) {
        self.current.swap(Some(&Arc::new(catalog)), None);
    }

    /// Other rules are.
    fn ruled(&self, policy: &Policy) {
        self.current.swap(None, Some(policy));
    }

    /// Another process over the same store, ledger and clock.
    fn process(&self) -> Arc<Gateway> {
        Arc::new(Gateway::new(Parts {
            current: Arc::clone(&self.current),
            ledger: Arc::clone(&self.ledger) as _,
            clock: Arc::clone(&self.clock) as _,
            credentials: Arc::new(testkit::context::Quiet),
            mac_key: Secret::new("key"),
            holding: Some(Holding {
                store: Arc::clone(&self.store) as Arc<dyn Store>,
                holders: Arc::clone(&self.world) as _,
                herald: Arc::clone(&self.world) as _,
                patience: self.patience.clone(),
            }),
            options: self.options,
        }))
    }

    async fn call(&self, args: &str) -> Answer {
        let request = Request::new("rm", args.to_owned(), Interface::Mcp);
        self.gateway.call(&agent(), request).await
    }

    /// A call that is held.
    async fn held(&self) -> CallId {
        let answer = self.call(r#"{"n": 1}"#).await;
        assert_eq!(answer.status, Status::Waiting, "{answer:?}");
        assert!(matches!(answer.result, Ok(Step::Wait(Wait::Approval(_)))), "{answer:?}");
        answer.call
    }

    async fn settled(&self, id: CallId) -> Answer {
        self.gateway.settled(&agent(), id, Duration::from_mins(20)).await.unwrap()
    }

    async fn approve(&self, id: CallId) -> Result<super::Shown, tool::outcome::Failure> {
        self.gateway.approve((&owner(), Interface::Rest), id, None).await
    }

    fn steps(&self, id: CallId) -> Vec<WaitStep> {
        let frames = self.ledger.frames().into_iter();
        let of = frames.filter(|frame| frame.call == Some(id) && frame.kind == Kind::Wait);
        of.map(|frame| frame.body.read::<Waited>().unwrap().step).collect()
    }

    async fn state(&self, id: CallId) -> State {
        self.gateway.approval(&owner(), id).await.unwrap().state
    }
}

fn body(answer: &Answer) -> &str {
    match &answer.result {
        Ok(Step::Done(Outcome { body: Body::Value(json), .. })) => json.as_str(),
        other => panic!("{other:?}"),
    }
}

fn code(answer: &Answer) -> Option<Code> {
    answer.result.as_ref().err().map(|failure| failure.code)
}

#[expect(clippy::disallowed_methods, reason = "how many tries are asked for")]
fn deep(usual: usize, deep: usize) -> usize {
    if std::env::var("TOOLKEEP_DEEP").is_ok_and(|it| it == "1") { deep } else { usual }
}

#[tokio::test]
async fn an_approved_call_runs_once_with_what_was_stored_and_every_step_is_on_record() {
    let bench = Bench::new();
    let id = bench.held().await;
    assert_eq!((bench.ran.calls(), bench.gateway.waiting()), (0, 1));
    let shown = bench.approve(id).await.unwrap();
    assert_eq!(shown.decided.unwrap().subject, "owner");
    let answer = bench.settled(id).await;
    assert_eq!((answer.status, body(&answer)), (Status::Succeeded, r#"{"n": 1}"#));
    let kinds = bench.ledger.kinds(id);
    assert_eq!(kinds, [Kind::Wait, Kind::Wait, Kind::Intent, Kind::Outcome]);
    assert_eq!(bench.steps(id), [WaitStep::Held, WaitStep::Approved]);
    let frames = bench.ledger.frames();
    let waited: Waited = frames[1].body.read().unwrap();
    assert_eq!(waited.by.unwrap().0.subject, "owner");
    let intent: Intent = frames[2].body.read().unwrap();
    assert_eq!((&*intent.reason, intent.caller.subject.as_str()), ("approved", "ann"));
    // Who comes later gets the same answer, and nothing runs again.
    assert_eq!(bench.settled(id).await.result, answer.result);
    let again = bench.approve(id).await.unwrap_err();
    assert_eq!(again.code, Code::Conflict);
    assert_eq!((bench.ran.calls(), bench.gateway.waiting()), (1, 0));
    assert!(bench.world.told.load(Ordering::SeqCst) >= 3);
}

#[tokio::test]
async fn a_denied_call_never_runs_and_its_caller_is_told_why() {
    let bench = Bench::new();
    let id = bench.held().await;
    let mut waiting = JoinSet::new();
    waiting.spawn({
        let gateway = Arc::clone(&bench.gateway);
        async move { gateway.settled(&agent(), id, Duration::from_mins(5)).await.unwrap() }
    });
    bench.gateway.deny((&owner(), Interface::Rest), id, Some("not \u{200b}today")).await.unwrap();
    let answer = waiting.join_next().await.unwrap().unwrap();
    assert_eq!((answer.status, code(&answer)), (Status::Refused, Some(Code::ApprovalDenied)));
    let told = answer.result.unwrap_err().message;
    assert_eq!(told, "the call was denied by a person: not \\u{200b}today");
    assert_eq!(bench.steps(id), [WaitStep::Held, WaitStep::Denied]);
    assert_eq!(bench.ledger.kinds(id), [Kind::Wait, Kind::Refused, Kind::Wait]);
    assert_eq!(bench.approve(id).await.unwrap_err().code, Code::Conflict);
    assert_eq!(bench.ran.calls(), 0);
}

#[tokio::test]
async fn edited_arguments_are_checked_and_what_was_seen_before_cannot_be_approved() {
    let bench = Bench::new();
    let id = bench.held().await;
    let before = bench.gateway.approval(&owner(), id).await.unwrap();
    let edit = async |args: &str| {
        let args = Json::check(args.to_owned(), tool::Limits::ARGUMENTS).unwrap();
        bench.gateway.edit((&owner(), Interface::Rest), id, args).await
    };
    assert_eq!(edit(r#"{"n": "x"}"#).await.unwrap_err().code, Code::InvalidArguments);
    let edited = edit(r#"{"n": 7}"#).await.unwrap();
    assert_eq!((edited.edits, edited.state), (1, State::Pending));
    assert_ne!(edited.arguments_sha256, before.arguments_sha256);
    let by = (&owner(), Interface::Rest);
    let stale = bench.gateway.approve(by, id, Some(before.arguments_sha256)).await;
    assert_eq!(stale.unwrap_err().code, Code::Conflict);
    bench.gateway.approve(by, id, Some(edited.arguments_sha256)).await.unwrap();
    assert_eq!(body(&bench.settled(id).await), r#"{"n": 7}"#);
    assert_eq!(bench.steps(id), [WaitStep::Held, WaitStep::Edited, WaitStep::Approved]);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_decides_expires_by_either_clock_and_is_forgotten_later() {
    let bench = Bench::new();
    let id = bench.held().await;
    bench.clock.advance(Duration::from_mins(10));
    assert_eq!(bench.approve(id).await.unwrap_err().code, Code::Conflict);
    let answer = bench.settled(id).await;
    assert_eq!((answer.status, code(&answer)), (Status::Refused, Some(Code::ApprovalExpired)));
    assert_eq!(bench.steps(id), [WaitStep::Held, WaitStep::Expired]);
    // The sweep does it where nobody asks, and forgets in the end.
    let other = bench.held().await;
    let mut tending = JoinSet::new();
    tending.spawn({
        let gateway = Arc::clone(&bench.gateway);
        async move { gateway.tend().await }
    });
    bench.clock.advance(Duration::from_mins(11));
    assert!(bench.gateway.sweep().await);
    assert_eq!(bench.state(other).await, State::Expired);
    bench.clock.advance(Duration::from_hours(2));
    assert!(bench.gateway.sweep().await);
    assert_eq!(bench.gateway.approval(&owner(), other).await.unwrap_err().code, Code::NotFound);
    assert_eq!(bench.store.scan("wait/", None, 9).await.unwrap(), []);
    tending.abort_all();
    assert_eq!(bench.ran.calls(), 0);
}

#[tokio::test]
async fn what_has_expired_is_not_listed_as_pending() {
    let bench = Bench::new();
    let id = bench.held().await;
    let listed = async |pending: bool| {
        let page = bench.gateway.approvals(&owner(), pending, (None, 9)).await.unwrap();
        page.approvals.into_iter().map(|shown| (shown.id, shown.state)).collect::<Vec<_>>()
    };
    // Positive control: while it waits it is listed.
    assert_eq!(listed(true).await, [(id, State::Pending)]);
    // Nothing sweeps meanwhile.
    bench.clock.advance(Duration::from_mins(10));
    assert_eq!(listed(true).await, []);
    assert_eq!(listed(false).await, [(id, State::Expired)]);
    assert_eq!(bench.steps(id), [WaitStep::Held, WaitStep::Expired]);
}

#[tokio::test]
async fn who_may_not_approve_does_not() {
    let bench = Bench::new();
    let id = bench.held().await;
    let refused = async |who: &Principal, door: Interface| {
        bench.gateway.approve((who, door), id, None).await.unwrap_err().code
    };
    // An agent that was given the right has lost it on the way.
    let armed = principal([3; 6], |key| key.subject = "bob".to_owned());
    assert_eq!(refused(&armed, Interface::Rest).await, Code::NotFound);
    assert_eq!(refused(&agent(), Interface::Rest).await, Code::Forbidden);
    let foreign = principal([4; 6], |key| {
        *key = NewKey::owner(KeyId::random([4; 6]));
        key.org = Org::new("other").unwrap();
    });
    assert_eq!(refused(&foreign, Interface::Rest).await, Code::NotFound);
    let own = principal([5; 6], |key| {
        key.agent = false;
        key.rights = [Right::Approve].into();
    });
    let low = principal([6; 6], |key| {
        (key.agent, key.level, key.subject) = (false, Level::Guest, "eve".to_owned());
        key.rights = [Right::Approve].into();
    });
    let higher = tool("rm", |tool| tool.traits.level = Level::User);
    bench.swapped(merged(2, vec![higher], &bench.ran));
    let high = bench.held().await;
    let by_low = bench.gateway.approve((&low, Interface::Rest), high, None).await;
    assert_eq!(by_low.unwrap_err().code, Code::NotFound, "the tool is not in its view");
    assert_eq!(bench.ran.calls(), 0);
    // Positive control: the person whose agent called may, and that is on record.
    let shown = bench.gateway.approve((&own, Interface::Rest), high, None).await.unwrap();
    assert!(shown.decided.unwrap().own);
    assert_eq!(bench.settled(high).await.status, Status::Succeeded);
    // Nobody else gets its answer.
    let other = bench.gateway.settled(&armed, high, Duration::ZERO).await;
    assert_eq!(other.unwrap_err().code, Code::NotFound);
}

/// What may change, and what the caller is told then.
type Change = (&'static str, fn(&Bench), Code);

fn changes() -> [Change; 6] {
    [
        (
            "the definition",
            |b| {
                let changed = tool("rm", |tool| tool.received = Json::of(&json!({"name": "rm"})));
                b.swapped(merged(2, vec![changed], &b.ran));
            },
            Code::ApprovalVoid,
        ),
        ("the tool is gone", |b| b.swapped(merged(2, vec![], &b.ran)), Code::NotFound),
        (
            "the policy hides it",
            |b| {
                let deny = vec![Pattern::new("rm").unwrap()];
                b.ruled(&denying(deny));
            },
            Code::NotFound,
        ),
        (
            "it is held for another reason",
            |b| {
                let changed = tool("rm", |tool| {
                    (tool.traits.safety, tool.traits.destructive) = (Safety::Safe, true);
                });
                b.swapped(merged(2, vec![changed], &b.ran));
            },
            Code::ApprovalVoid,
        ),
        (
            "the key was revoked",
            |b| b.world.gone.lock().unwrap().extend([agent().key().to_owned()]),
            Code::ApprovalVoid,
        ),
        (
            "the key was lowered",
            |b| {
                let low = principal(ID, |key| key.level = Level::Guest);
                b.world.now.lock().unwrap().push(low);
                let higher = tool("rm", |tool| tool.traits.level = Level::User);
                b.swapped(merged(2, vec![higher], &b.ran));
            },
            Code::UnknownTool,
        ),
    ]
}

#[tokio::test]
async fn what_changed_while_it_was_held_is_honoured_when_it_goes_on() {
    for (what, change, expected) in changes() {
        let bench = Bench::new();
        let id = bench.held().await;
        change(&bench);
        if expected == Code::NotFound {
            // No approver sees the tool any more: nobody lets the call run, and it ends by itself.
            assert_eq!(bench.approve(id).await.unwrap_err().code, expected, "{what}");
            bench.clock.advance(Duration::from_mins(10));
            assert_eq!(code(&bench.settled(id).await), Some(Code::ApprovalExpired), "{what}");
            assert_eq!(bench.ran.calls(), 0, "{what}");
            continue;
        }
        bench.approve(id).await.unwrap();
        let answer = bench.settled(id).await;
        assert_eq!((answer.status, code(&answer)), (Status::Refused, Some(expected)), "{what}");
        assert_eq!(bench.ran.calls(), 0, "{what}");
        assert_eq!(bench.state(id).await, State::Void, "{what}");
    }
    // Positive control: another policy that says the same of this call lets it go on.
    let bench = Bench::new();
    let id = bench.held().await;
    let deny = vec![Pattern::new("other").unwrap()];
    bench.ruled(&denying(deny));
    bench.approve(id).await.unwrap();
    assert_eq!(bench.settled(id).await.status, Status::Succeeded);
}

fn holding(names: &[(&str, Option<&str>)]) -> Policy {
    let rules = names.iter().map(|(name, tool)| policy::Rule {
        name: (*name).to_owned(),
        effect: policy::Effect::Hold,
        tools: tool.map(|tool| vec![Pattern::new(tool).unwrap()]),
        when: None,
        time: None,
        examples: Vec::new(),
        at: policy::At::default(),
    });
    let global = Layer { rules: rules.collect(), ..Layer::default() };
    Policy::new(Rules { global, ..Rules::default() }).unwrap()
}

#[tokio::test]
async fn an_approval_lifts_the_holds_that_were_shown_and_no_rule_that_came_later() {
    let plain = |bench: &Bench| {
        let safe = tool("rm", |tool| tool.traits.safety = Safety::Safe);
        bench.swapped(merged(2, vec![safe], &bench.ran));
    };
    // The reason code is the same, before and after.
    for (after, runs) in [
        (holding(&[("first", None)]), true),
        (holding(&[("first", None), ("second", None)]), false),
        (holding(&[("second", None)]), false),
        // Another rule under the same name.
        (holding(&[("first", Some("rm"))]), false),
        (holding(&[("other", Some("read")), ("first", None)]), true),
        (Policy::default(), true),
    ] {
        let bench = Bench::new();
        plain(&bench);
        bench.ruled(&holding(&[("first", None)]));
        let id = bench.held().await;
        let shown = bench.gateway.approval(&owner(), id).await.unwrap();
        assert_eq!((shown.reason.as_str(), shown.holds.len()), ("rule_hold", 1));
        assert!(shown.holds[0].starts_with("rule first "), "{:?}", shown.holds);
        bench.ruled(&after);
        bench.approve(id).await.unwrap();
        let answer = bench.settled(id).await;
        assert_eq!(answer.status == Status::Succeeded, runs, "{answer:?}");
        assert_eq!(bench.ran.calls(), usize::from(runs));
        if !runs {
            assert_eq!(code(&answer), Some(Code::ApprovalVoid));
        }
    }
    // A rule that comes to a tool that was held for what it is, too.
    let bench = Bench::new();
    let id = bench.held().await;
    bench.ruled(&holding(&[("late", None)]));
    bench.approve(id).await.unwrap();
    assert_eq!(code(&bench.settled(id).await), Some(Code::ApprovalVoid));
}

#[tokio::test(start_paused = true)]
async fn other_times_and_bounds_count_from_when_they_are_said() {
    let bench = Bench::with(Patience { pending: 1, ..Patience::default() });
    let first = bench.held().await;
    let of = |shown: &super::Shown| shown.expires.0 - shown.created.0;
    assert_eq!(code(&bench.call("{}").await), Some(Code::RateLimited));
    let confirm = HashSet::from([agent().key().to_owned()]);
    assert!(!bench.gateway.client_confirms(&agent()));
    bench.gateway.set_patience(Patience {
        pending: 2,
        expires: Duration::from_mins(1),
        client_confirm: confirm,
        ..Patience::default()
    });
    let second = bench.held().await;
    let (old, new) = (
        bench.gateway.approval(&owner(), first).await.unwrap(),
        bench.gateway.approval(&owner(), second).await.unwrap(),
    );
    assert_eq!((of(&old), of(&new)), (600_000, 60_000), "what waits keeps its time");
    assert!(bench.gateway.client_confirms(&agent()));
    assert_eq!(code(&bench.call("{}").await), Some(Code::RateLimited));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_attempts_at_once_one_runs() {
    let tries = deep(1_000, 10_000);
    let bench = Bench::new();
    let id = bench.held().await;
    // A second process of the same installation takes part.
    let other = bench.process();
    other.restore().await.unwrap();
    bench.clock.advance(Duration::from_secs(1));
    let mut all = JoinSet::new();
    for n in 0..tries {
        let gateway = Arc::clone(if n % 2 == 0 { &bench.gateway } else { &other });
        all.spawn(async move {
            match n % 5 {
                0 => drop(gateway.approve((&owner(), Interface::Rest), id, None).await),
                1 => drop(gateway.deny((&owner(), Interface::Mcp), id, None).await),
                _ => drop(gateway.settled(&agent(), id, Duration::ZERO).await),
            }
        });
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
    bench.gateway.drain().await;
    other.drain().await;
    let state = bench.state(id).await;
    let expected = usize::from(state == State::Done);
    assert!(matches!(state, State::Done | State::Denied), "{state:?}");
    let intents = bench.ledger.kinds(id).iter().filter(|kind| **kind == Kind::Intent).count();
    println!("races: {tries} attempts, {state:?}, {} executions", bench.ran.calls());
    assert_eq!((bench.ran.calls(), intents), (expected, expected));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_approvals_and_retries_at_once_run_one_execution() {
    let tries = deep(1_000, 10_000);
    let bench = Bench::new();
    let id = bench.held().await;
    let other = bench.process();
    other.restore().await.unwrap();
    let mut all = JoinSet::new();
    for n in 0..tries {
        let gateway = Arc::clone(if n % 2 == 0 { &bench.gateway } else { &other });
        all.spawn(async move {
            if n % 3 == 0 {
                drop(gateway.approve((&owner(), Interface::Rest), id, None).await);
            } else {
                drop(gateway.settled(&agent(), id, Duration::ZERO).await);
            }
        });
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
    bench.gateway.drain().await;
    other.drain().await;
    println!("approvals: {tries} attempts, {} executions", bench.ran.calls());
    assert_eq!((bench.ran.calls(), bench.state(id).await), (1, State::Done));
}

#[tokio::test]
async fn a_restart_runs_nothing_by_itself() {
    let bench = Bench::new();
    let (pending, approved, begun) = (bench.held().await, bench.held().await, bench.held().await);
    // As the process was killed: behind the approval, and behind its use.
    for (id, state) in [(approved, "approved"), (begun, "consumed")] {
        let row = bench.store.get(&format!("wait/{id}")).await.unwrap().unwrap();
        let mut kept: serde_json::Value = serde_json::from_slice(&row.bytes).unwrap();
        kept["state"] = json!(state);
        kept["decision"] = json!({"by": owner().caller(), "door": "rest", "at": 0});
        let bytes = serde_json::to_vec(&kept).unwrap();
        let expect = tool::store::Expect::Version(row.version);
        bench.store.put(&row.key, expect, Some(bytes.into())).await.unwrap();
    }
    let next = bench.process();
    assert_eq!(next.restore().await.unwrap(), 2);
    next.sweep().await;
    tokio::task::yield_now().await;
    assert_eq!(bench.ran.calls(), 0);
    let settled = async |id| next.settled(&agent(), id, Duration::from_mins(1)).await.unwrap();
    let unknown = settled(begun).await;
    assert_eq!(unknown.status, Status::Unknown);
    assert_eq!(bench.ran.calls(), 0);
    // Its caller comes back, and the approval stands.
    assert_eq!(settled(approved).await.status, Status::Succeeded);
    assert_eq!((bench.ran.calls(), next.waiting()), (1, 1));
    next.approve((&owner(), Interface::Rest), pending, None).await.unwrap();
    assert_eq!(settled(pending).await.status, Status::Succeeded);
    assert_eq!(bench.ran.calls(), 2);
}

#[tokio::test]
async fn one_key_cannot_tire_people_out() {
    let patience = Patience { pending: 3, per_minute: 5, ..Patience::default() };
    let bench = Bench::with(patience);
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(bench.held().await);
    }
    let fourth = bench.call("{}").await;
    assert_eq!((fourth.status, code(&fourth)), (Status::Refused, Some(Code::RateLimited)));
    for id in ids {
        bench.gateway.deny((&owner(), Interface::Rest), id, None).await.unwrap();
    }
    bench.held().await;
    bench.held().await;
    assert_eq!(code(&bench.call("{}").await), Some(Code::RateLimited), "six within a minute");
    bench.clock.advance(Duration::from_mins(1));
    bench.held().await;
    // Another key is not in its way.
    let bob = principal([9; 6], |key| key.subject = "bob".to_owned());
    let answer = bench.gateway.call(&bob, Request::new("rm", "{}", Interface::Mcp)).await;
    assert_eq!(answer.status, Status::Waiting);
}

#[tokio::test]
async fn a_client_gives_the_approval_only_where_the_operator_lets_its_key() {
    let bench = Bench::new();
    let id = bench.held().await;
    let by = (&agent(), Interface::Mcp);
    assert_eq!(bench.gateway.confirm(by, id, true).await.unwrap_err().code, Code::Forbidden);
    assert_eq!((bench.ran.calls(), bench.state(id).await), (0, State::Pending));
    let client_confirm = HashSet::from([agent().key().to_owned()]);
    let bench = Bench::with(Patience { client_confirm, ..Patience::default() });
    let (yes, no) = (bench.held().await, bench.held().await);
    bench.gateway.confirm(by, yes, true).await.unwrap();
    bench.gateway.confirm(by, no, false).await.unwrap();
    assert_eq!(bench.settled(yes).await.status, Status::Succeeded);
    assert_eq!(code(&bench.settled(no).await), Some(Code::ApprovalDenied));
    // Another key's call is not its to confirm.
    let bob = principal([9; 6], |key| key.subject = "bob".to_owned());
    let other = bench.gateway.call(&bob, Request::new("rm", "{}", Interface::Mcp)).await.call;
    assert_eq!(bench.gateway.confirm(by, other, true).await.unwrap_err().code, Code::NotFound);
}

#[tokio::test]
async fn no_record_no_wait_and_no_store_no_wait() {
    let bench = Bench::new();
    bench.ledger.fail_from(Some(tool::Durability::Written));
    assert_eq!(code(&bench.call("{}").await), Some(Code::RecordUnavailable));
    assert_eq!(
        (bench.gateway.waiting(), bench.store.scan("wait/", None, 9).await.unwrap()),
        (0, vec![])
    );
    bench.ledger.fail_from(None);
    let id = bench.held().await;
    // The intent cannot be written: the approval is used up, and nothing runs.
    bench.ledger.fail_from(Some(tool::Durability::Synced));
    assert_eq!(bench.approve(id).await.unwrap_err().code, Code::RecordUnavailable);
    bench.ledger.fail_from(None);
    assert_eq!(bench.settled(id).await.status, Status::Succeeded, "its caller came back");
    assert_eq!(bench.ran.calls(), 1);
}

fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// In a process of its own, as nextest runs it.
#[tokio::test]
async fn ten_thousand_pending_calls_take_bounded_memory_and_each_can_go_on() {
    let patience = Patience { pending: 100_000, per_minute: 100_000, ..Patience::default() };
    let bench = Bench::with(patience);
    let before = resident();
    let mut ids = Vec::new();
    for _ in 0..10_000 {
        ids.push(bench.call(r#"{"n": 1}"#).await.call);
    }
    let grown = resident().saturating_sub(before);
    let mut took = Vec::new();
    for id in ids.iter().rev().take(200) {
        let begun = Instant::now();
        bench.approve(*id).await.unwrap();
        assert_eq!(bench.settled(*id).await.status, Status::Succeeded);
        took.push(begun.elapsed());
    }
    took.sort();
    let (middle, last) = (took[took.len() / 2], took[took.len() * 99 / 100]);
    println!(
        "held: 10000 calls: {} MiB with store and record in memory; \
         approved and ended in {middle:?} (p50), {last:?} (p99)",
        grown >> 20
    );
    assert_eq!(bench.gateway.waiting(), 9_800);
    assert!(grown < 50 << 20, "{grown}");
}

/// Contracts 1.5: the function says approved, denied with or without a reason, or modified; what does not
/// fit, and a function without the right, run nothing.
#[tokio::test]
async fn golden_results_of_the_approval_callback_have_spec_1s_object_and_texts() {
    use crate::facade::{Asked, Runner, Verdict};
    type Says = fn(&super::Shown) -> Verdict;
    let modified = |_: &super::Shown| Verdict::Modified(r#"{"n":2}"#.into());
    let unfit = |_: &super::Shown| Verdict::Modified(r#"{"n":"two"}"#.into());
    let says: [(&str, Says, Principal); 6] = [
        ("approved", |_| Verdict::Approved, owner()),
        ("denied", |_| Verdict::Denied(None), owner()),
        ("denied with a reason", |_| Verdict::Denied(Some("not today".to_owned())), owner()),
        ("modified", modified, owner()),
        ("modified to what does not fit", unfit, owner()),
        ("a function without the right", |_| Verdict::Approved, agent()),
    ];
    let mut shown = Vec::new();
    for (name, says, who) in says {
        let bench = Bench::new();
        let runner = Runner::new(Arc::clone(&bench.gateway), agent()).approved_by(who, says);
        let args = r#"{"n":1}"#.into();
        let asked = Asked { id: "call_1".to_owned(), name: "rm".to_owned(), args };
        let mut result = runner.execute(asked).await;
        result.metadata.execution_time_ms = 0;
        assert_eq!((result.id.as_str(), result.success), ("call_1", result.error.is_none()));
        assert_eq!(bench.ran.calls(), usize::from(result.success), "{name}");
        assert_eq!(result.metadata.approved, result.success, "{name}");
        shown.push(json!({"function": name, "result": result}));
    }
    insta::assert_json_snapshot!("approval_callback", shown);
}

/// Who decides first counts, also where the function never says anything; and no call waits for ever.
#[tokio::test(start_paused = true)]
async fn a_callback_that_says_nothing_holds_nobody_for_ever() {
    use crate::facade::{Ask, Asked, Runner, Verdict};
    struct Silent;
    impl Ask for Silent {
        fn ask<'a>(&'a self, _: &'a super::Shown) -> tool::Boxed<'a, Verdict> {
            Box::pin(std::future::pending())
        }
    }
    let bench = Bench::new();
    let runner = Runner::new(Arc::clone(&bench.gateway), agent()).approved_by(owner(), Silent);
    let asked = || Asked { id: "1".to_owned(), name: "rm".to_owned(), args: r#"{"n":1}"#.into() };
    let mut tasks = JoinSet::new();
    let first = runner.clone();
    let asked_first = asked();
    tasks.spawn(async move { first.execute(asked_first).await });
    let id = loop {
        let page = bench.gateway.approvals(&owner(), true, (None, 10)).await.unwrap();
        if let Some(shown) = page.approvals.first() {
            break shown.id;
        }
        tokio::task::yield_now().await;
    };
    bench.approve(id).await.unwrap();
    let result = tasks.join_next().await.unwrap().unwrap();
    assert!(result.success, "{result:?}");
    assert!(!result.metadata.approved, "another agreed, not the function");
}
