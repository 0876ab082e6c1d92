//! Three nodes whose places Kubernetes tells, called all the time, while they are killed, stopped, cut off
//! from their labels, and while another node gets their address.
//!
//! Of every call there is one outcome; no effect is there twice, none at a node that was not meant; and
//! only calls of the node that something happened to fail.

pub(crate) mod machine;
pub(crate) mod writes;

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use egress::{Egress, EgressSettings, Origin};
use nodes::{Authority, Registry};
use nodes_kubernetes::{Kubernetes, KubernetesSettings};
use serde_json::json;
use store::MemoryStore;
use testkit::context::{caller, context};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tool::executor::Sent;
use tool::node::PIN;
use tool::{Body, Executor, Json, Mono, Wall};

use crate::kubernetes::Api;
use crate::support::{Heard, Node, call, has, offered, registry, run};
use machine::{Effects, Machine, port_at};

/// The nodes, by where they are.
pub(crate) const NODES: [(&str, [u8; 4]); 3] =
    [("n1", [127, 0, 0, 41]), ("n2", [127, 0, 0, 42]), ("n3", [127, 0, 0, 43])];
const CALLERS: u64 = 16;
/// After a fault is over its node is called again within this.
pub(crate) const RECOVERY: Duration = Duration::from_secs(5);

/// The machine's own time.
#[derive(Debug)]
pub(crate) struct Real(Instant);

impl Default for Real {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl tool::Clock for Real {
    #[expect(clippy::disallowed_methods, reason = "certificates are judged by it")]
    fn wall(&self) -> Wall {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        Wall(u64::try_from(now.as_millis()).unwrap())
    }
    fn mono(&self) -> Mono {
        Mono(self.0.elapsed())
    }
}

/// When something was wrong with a node.
pub(crate) type Wrong = Vec<(usize, Instant, Option<Instant>)>;

/// The tool, and what runs it on all three.
pub(crate) type Work = (Arc<tool::Tool>, Arc<dyn Executor>);

/// One call, and what came of it.
pub(crate) struct Ended {
    number: u64,
    pinned: Option<usize>,
    began: Instant,
    over: Instant,
    /// The node that says it ran it, or whether it may have been sent, and why not.
    outcome: Result<String, (Sent, String)>,
}

struct World {
    registry: Arc<Registry>,
    api: Api,
    authority: Authority,
    effects: Effects,
    machines: Vec<Option<Machine>>,
    port: u16,
    wrong: Arc<Mutex<Wrong>>,
    _follows: JoinSet<()>,
}

pub(crate) fn at(node: usize, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::from(NODES[node].1), port)
}

impl World {
    async fn new() -> Self {
        let clock = Arc::new(Real::default());
        let egress = || Egress::new(EgressSettings::default()).unwrap();
        let store = Arc::new(MemoryStore::new());
        let registry = Registry::open(store, egress(), Arc::clone(&clock) as _).await.unwrap();
        let kept = Authority::make(tool::Clock::wall(clock.as_ref())).unwrap();
        registry.set_authority(Authority::open(&kept).unwrap()).unwrap();
        let (authority, effects) = (Authority::open(&kept).unwrap(), Effects::default());
        let port = port_at(&NODES.map(|(_, ip)| IpAddr::from(ip))).await;
        let api = Api::start().await;
        let settings = KubernetesSettings {
            api: Origin::parse(&format!("http://{}", api.address)).unwrap(),
            token_file: None,
            https: true,
            port,
        };
        let kubernetes = Arc::new(Kubernetes::new(settings, egress(), clock));
        registry.find_by(Arc::clone(&kubernetes));
        let mut follows = JoinSet::new();
        follows.spawn(async move { kubernetes.follow().await });
        let mut machines = Vec::new();
        for (node, (id, ip)) in NODES.iter().enumerate() {
            machines.push(Some(Machine::start(id, at(node, port), &authority, &effects).await));
            api.put(id, Some(id), Some(&IpAddr::from(*ip).to_string()));
            has(&registry, id, &["work"]).await;
        }
        let (registry, wrong) = (Arc::new(registry), Arc::default());
        Self { registry, api, authority, effects, machines, port, wrong, _follows: follows }
    }

    async fn start(&mut self, node: usize) {
        let at = at(node, self.port);
        let id = NODES[node].0;
        self.machines[node] = Some(Machine::start(id, at, &self.authority, &self.effects).await);
    }

    /// Does something to a node, and takes it back.
    async fn fault(&mut self, kind: &str, node: usize, lasts: Duration) {
        let (id, ip) = NODES[node];
        let ip = IpAddr::from(ip).to_string();
        match kind {
            "killed" => {
                drop(self.machines[node].take());
                sleep(lasts).await;
                self.start(node).await;
            }
            "cut off" => {
                self.machines[node].as_ref().unwrap().stop(true);
                sleep(lasts).await;
                self.machines[node].as_ref().unwrap().stop(false);
            }
            "relabelled" => {
                self.api.put(id, Some("another"), Some(&ip));
                sleep(lasts).await;
                self.api.put(id, Some(id), Some(&ip));
            }
            "its address another's" => {
                drop(self.machines[node].take());
                let (place, evil) = (at(node, self.port), "n9");
                let evil = Machine::start(evil, place, &self.authority, &self.effects).await;
                sleep(lasts).await;
                drop(evil);
                self.start(node).await;
            }
            "API server away" => {
                self.api.stop().await;
                sleep(lasts).await;
                self.api.listen().await;
            }
            other => panic!("{other}"),
        }
    }
}

/// The tool, on all three.
pub(crate) async fn work(registry: &Registry) -> Work {
    let (tool, first) = offered(registry, 0, "work").await;
    let mut others = Vec::new();
    for node in 1..NODES.len() {
        others.push(offered(registry, node, "work").await.1);
    }
    (tool, first.beside(&others).unwrap())
}

/// Callers of it, for as long as `goes_on` with the number of the next call.
pub(crate) fn callers(
    work: &Work,
    next: &Arc<AtomicU64>,
    goes_on: impl Fn(u64) -> bool + Clone + Send + 'static,
) -> JoinSet<Vec<Ended>> {
    let mut callers = JoinSet::new();
    for each in 0..CALLERS {
        let (work, next, goes_on) = (work.clone(), Arc::clone(next), goes_on.clone());
        callers.spawn(async move {
            let mut all = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::SeqCst);
                if !goes_on(number) {
                    return all;
                }
                // One in four is for a node that it names.
                let pinned =
                    ((number + each) % 4 == 0).then(|| usize::try_from(number / 4 % 3).unwrap());
                all.push(one(&work, number, pinned).await);
            }
        });
    }
    callers
}

/// A node that a call is meant for, or none.
async fn one((tool, work): &Work, number: u64, pinned: Option<usize>) -> Ended {
    let caller = caller();
    let meta = pinned.map(|node| Json::of(&json!({ PIN: NODES[node].0 })));
    let ctx = tool::Context { meta: meta.as_ref(), ..context(&caller) };
    let began = Instant::now();
    let answer = run((tool, work), &json!({ "n": number }).to_string(), &ctx).await;
    let outcome = answer.map_err(|error| (error.sent, error.message)).map(|outcome| {
        let (Body::Value(json) | Body::Mcp(json)) = outcome.body;
        let value = json.value();
        assert_eq!(value["n"], number, "the answer is to another call");
        value["by"].as_str().unwrap().to_owned()
    });
    Ended { number, pinned, began, over: Instant::now(), outcome }
}

/// Until a call for that node is answered by it.
pub(crate) async fn well(work: &Work, next: &AtomicU64, node: usize) -> (Duration, Vec<Ended>) {
    let (since, mut all) = (Instant::now(), Vec::new());
    loop {
        let ended = one(work, next.fetch_add(1, Ordering::SeqCst), Some(node)).await;
        let good = ended.outcome.is_ok();
        all.push(ended);
        if good {
            return (since.elapsed(), all);
        }
        assert!(since.elapsed() < RECOVERY, "{} is not called again", NODES[node].0);
        sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn calls() -> u64 {
    if std::env::var_os("TOOLKEEP_DEEP").is_some() { 100_000 } else { 20_000 }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_nodes_come_and_go_every_call_has_one_outcome_and_no_effect_is_twice_or_elsewhere() {
    let mut world = World::new().await;
    let work = work(&world.registry).await;
    let next = Arc::new(AtomicU64::new(0));
    let mut all = Vec::new();
    for node in 0..NODES.len() {
        all.extend(well(&work, &next, node).await.1);
    }
    // What failed before Kubernetes was asked for the first time is nobody's fault.
    let begun = Instant::now();
    world
        .wrong
        .lock()
        .unwrap()
        .extend((0..NODES.len()).map(|node| (node, begun - RECOVERY, Some(begun))));
    let most = calls();
    let mut callers = callers(&work, &next, move |number| number < most);
    let mut table: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
    let kinds = ["killed", "cut off", "relabelled", "its address another's", "API server away"];
    let mut turn = 0;
    while next.load(Ordering::SeqCst) < most {
        let (kind, node) = (kinds[turn % kinds.len()], turn % NODES.len());
        let begun = Instant::now();
        world.wrong.lock().unwrap().push((node, begun, None));
        world.fault(kind, node, Duration::from_millis(200)).await;
        let (took, ended) = well(&work, &next, node).await;
        all.extend(ended);
        world.wrong.lock().unwrap().last_mut().unwrap().2 = Some(Instant::now());
        table.entry(kind).or_default().push(took);
        turn += 1;
        sleep(Duration::from_millis(20)).await;
    }
    while let Some(each) = callers.join_next().await {
        all.extend(each.unwrap());
    }
    assert!(turn >= kinds.len(), "every fault was there: {turn}");
    judge(&all, &world.effects.lock().unwrap(), &world.wrong.lock().unwrap());
    print(table);
}

/// How long it took after each fault.
pub(crate) fn print(table: BTreeMap<&str, Vec<Duration>>) {
    println!(
        "| fault | times | good again after, median | longest |\n| --- | ---: | ---: | ---: |"
    );
    for (kind, mut times) in table {
        times.sort_unstable();
        let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
        println!("| {kind} | {} | {median:.1?} | {longest:.1?} |", times.len());
    }
}

/// The control: where nothing but the address says who a node is, whoever has it gets the call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_certificates_a_call_goes_to_whoever_has_the_address() {
    let mut first = Node::start().await;
    let registry = registry(Some(first.address), &["echo"]).await;
    let (address, caller) = (first.address, caller());
    call(&registry, "echo", "{}", &context(&caller)).await.unwrap();
    assert!(matches!(first.next().await, Heard::Call { .. }));
    first.kill();
    let mut another = Node::at(&address.to_string()).await;
    while call(&registry, "echo", "{}", &context(&caller)).await.is_err() {
        sleep(Duration::from_millis(5)).await;
    }
    assert!(matches!(another.next().await, Heard::Call { .. }));
}

/// What must hold of all calls together.
pub(crate) fn judge(all: &[Ended], effects: &HashMap<u64, Vec<String>>, wrong: &Wrong) {
    let (mut good, mut failed) = (0, 0);
    for call in all {
        let ran = effects.get(&call.number).map_or(&[][..], Vec::as_slice);
        assert!(ran.len() <= 1, "call {} has {} effects", call.number, ran.len());
        let meant = |id: &String| match call.pinned {
            Some(node) => id == NODES[node].0,
            None => NODES.iter().any(|(known, _)| id == known),
        };
        assert!(ran.iter().all(meant), "call {} ran at {ran:?}", call.number);
        // What happened to a node while the call was on its way.
        let near = |node: Option<usize>| {
            wrong.iter().any(|(victim, from, to)| {
                node.is_none_or(|node| node == *victim)
                    && *from <= call.over
                    && to.is_none_or(|to| call.began <= to)
            })
        };
        match &call.outcome {
            Ok(by) => {
                assert_eq!(ran, [by.as_str()], "call {} was acknowledged", call.number);
                good += 1;
            }
            Err((sent, why)) => {
                assert!(*sent != Sent::No || ran.is_empty(), "call {}: {why}", call.number);
                assert!(near(call.pinned), "call {} failed beside any fault: {why}", call.number);
                // One that may run anywhere fails only where it was on its way to the victim.
                let moved = call.pinned.is_some() || *sent != Sent::No;
                assert!(moved, "call {} could have gone on: {why}", call.number);
                failed += 1;
            }
        }
    }
    let made: std::collections::BTreeSet<_> = all.iter().map(|call| call.number).collect();
    assert_eq!(made.len(), all.len(), "every call ended once");
    assert!(effects.keys().all(|number| made.contains(number)), "an effect that nobody asked for");
    assert!(good > failed * 10, "{good} good, {failed} failed");
    println!(
        "{} calls: {good} acknowledged, {failed} failed with their node, 0 twice, 0 elsewhere",
        all.len()
    );
}
