//! Three nodes with addresses from Kubernetes, called continuously while they are killed, stopped
//! or lose their labels, and while another node gets their address.
//!
//! Every call has one outcome. No effect occurs twice or at the wrong node, and only calls of an
//! affected node fail.

pub(crate) mod machine;
pub(crate) mod writes;

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use egress::{EgressClient, EgressOptions, Origin};
use nodes::{CertificateAuthority, PersistentNodeRegistry};
use nodes_kubernetes::{KubernetesLocator, KubernetesSettings};
use serde_json::json;
use store::MemoryStore;
use testkit::context::{quiet_context, test_caller};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tool::executor::DispatchState;
use tool::node_registry::NODE_META_KEY;
use tool::{Executor, Json, MonotonicTime, OutcomeBody, WallTime};

use crate::kubernetes::FakeApiServer;
use crate::support::{Node, NodeEvent, call, listed_offers, register_tools, registry, run};
use machine::{Effects, Machine, free_port};

/// The nodes by address.
pub(crate) const NODES: [(&str, [u8; 4]); 3] =
    [("n1", [127, 0, 0, 41]), ("n2", [127, 0, 0, 42]), ("n3", [127, 0, 0, 43])];
const CALLERS: u64 = 16;
/// After a fault is over its node is called again within this.
pub(crate) const RECOVERY: Duration = Duration::from_secs(5);

/// The machine's own time.
#[derive(Debug)]
pub(crate) struct RealClock(Instant);

impl Default for RealClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl tool::Clock for RealClock {
    #[expect(clippy::disallowed_methods, reason = "certificates are judged by it")]
    fn wall_now(&self) -> WallTime {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        WallTime(u64::try_from(now.as_millis()).unwrap())
    }
    fn monotonic_now(&self) -> MonotonicTime {
        MonotonicTime(self.0.elapsed())
    }
}

/// When something was wrong with a node.
pub(crate) type Wrong = Vec<(usize, Instant, Option<Instant>)>;

/// The tool, and what runs it on all three.
pub(crate) type Work = (Arc<tool::Tool>, Arc<dyn Executor>);

/// One call and its outcome.
pub(crate) struct FinishedCall {
    number: u64,
    pinned: Option<usize>,
    began: Instant,
    over: Instant,
    /// The node that reports the execution; or whether the call may have been sent, with the
    /// reason.
    outcome: Result<String, (DispatchState, String)>,
}

struct FaultSetup {
    registry: Arc<PersistentNodeRegistry>,
    api: FakeApiServer,
    authority: CertificateAuthority,
    effects: Effects,
    machines: Vec<Option<Machine>>,
    port: u16,
    wrong: Arc<Mutex<Wrong>>,
    _follows: JoinSet<()>,
}

pub(crate) fn at(node: usize, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::from(NODES[node].1), port)
}

impl FaultSetup {
    async fn new() -> Self {
        let clock = Arc::new(RealClock::default());
        let egress = || EgressClient::new(EgressOptions::default()).unwrap();
        let store = Arc::new(MemoryStore::new());
        let registry = PersistentNodeRegistry::open_local(store, egress(), Arc::clone(&clock) as _)
            .await
            .unwrap();
        let kept = CertificateAuthority::generate(tool::Clock::wall_now(clock.as_ref())).unwrap();
        registry.set_authority(CertificateAuthority::from_stored(&kept).unwrap()).unwrap();
        let (authority, effects) =
            (CertificateAuthority::from_stored(&kept).unwrap(), Effects::default());
        let port = free_port(&NODES.map(|(_, ip)| IpAddr::from(ip))).await;
        let api = FakeApiServer::start().await;
        let settings = KubernetesSettings {
            api_server: Origin::parse(&format!("http://{}", api.address)).unwrap(),
            token_file: None,
            ca_file: None,
            uses_tls: true,
            port,
        };
        let kubernetes = Arc::new(KubernetesLocator::new(settings, egress(), clock));
        registry.set_locator(Arc::clone(&kubernetes));
        let mut follows = JoinSet::new();
        follows.spawn(async move { kubernetes.run_watch().await });
        let mut machines = Vec::new();
        for (node, (id, ip)) in NODES.iter().enumerate() {
            machines.push(Some(Machine::start(id, at(node, port), &authority, &effects).await));
            api.put_node(id, Some(id), Some(&IpAddr::from(*ip).to_string()));
            register_tools(&registry, id, &["work"]).await;
        }
        let (registry, wrong) = (Arc::new(registry), Arc::default());
        Self { registry, api, authority, effects, machines, port, wrong, _follows: follows }
    }

    async fn start(&mut self, node: usize) {
        let at = at(node, self.port);
        let id = NODES[node].0;
        self.machines[node] = Some(Machine::start(id, at, &self.authority, &self.effects).await);
    }

    /// Injects a fault into a node, and reverts it.
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
                self.api.put_node(id, Some("another"), Some(&ip));
                sleep(lasts).await;
                self.api.put_node(id, Some(id), Some(&ip));
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
pub(crate) async fn offered_work(registry: &PersistentNodeRegistry) -> Work {
    let (tool, first) = listed_offers(registry, 0, "work").await;
    let mut others = Vec::new();
    for node in 1..NODES.len() {
        others.push(listed_offers(registry, node, "work").await.1);
    }
    (tool, first.merge_with(&others).unwrap())
}

/// Calls continuously while `goes_on` accepts the number of the next call.
pub(crate) fn spawn_callers(
    work: &Work,
    next: &Arc<AtomicU64>,
    goes_on: impl Fn(u64) -> bool + Clone + Send + 'static,
) -> JoinSet<Vec<FinishedCall>> {
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
                all.push(run_one_call(&work, number, pinned).await);
            }
        });
    }
    callers
}

/// A node that a call is meant for, or none.
async fn run_one_call((tool, work): &Work, number: u64, pinned: Option<usize>) -> FinishedCall {
    let caller = test_caller();
    let meta = pinned.map(|node| Json::encode(&json!({ NODE_META_KEY: NODES[node].0 })));
    let ctx = tool::CallContext { meta: meta.as_ref(), ..quiet_context(&caller) };
    let began = Instant::now();
    let answer = run((tool, work), &json!({ "n": number }).to_string(), &ctx).await;
    let outcome = answer.map_err(|error| (error.dispatch, error.message)).map(|outcome| {
        let (OutcomeBody::Value(json) | OutcomeBody::Mcp(json)) = outcome.body;
        let value = json.to_value();
        assert_eq!(value["n"], number, "the answer is to another call");
        value["by"].as_str().unwrap().to_owned()
    });
    FinishedCall { number, pinned, began, over: Instant::now(), outcome }
}

/// Until a call for that node is answered by it.
pub(crate) async fn wait_until_recovered(
    work: &Work,
    next: &AtomicU64,
    node: usize,
) -> (Duration, Vec<FinishedCall>) {
    let (since, mut all) = (Instant::now(), Vec::new());
    loop {
        let ended = run_one_call(work, next.fetch_add(1, Ordering::SeqCst), Some(node)).await;
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
    if std::env::var_os("TOOLKEEP_DEEP").is_some() { 100_000 } else { 6_000 }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_nodes_come_and_go_every_call_has_one_outcome_and_no_effect_is_twice_or_elsewhere() {
    let mut world = FaultSetup::new().await;
    let work = offered_work(&world.registry).await;
    let next = Arc::new(AtomicU64::new(0));
    let mut all = Vec::new();
    for node in 0..NODES.len() {
        all.extend(wait_until_recovered(&work, &next, node).await.1);
    }
    // Failures before the first request to Kubernetes are not counted.
    let begun = Instant::now();
    world
        .wrong
        .lock()
        .unwrap()
        .extend((0..NODES.len()).map(|node| (node, begun - RECOVERY, Some(begun))));
    let most = calls();
    let mut callers = spawn_callers(&work, &next, move |number| number < most);
    let mut table: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
    let kinds = ["killed", "cut off", "relabelled", "its address another's", "API server away"];
    let mut turn = 0;
    while next.load(Ordering::SeqCst) < most {
        let (kind, node) = (kinds[turn % kinds.len()], turn % NODES.len());
        let begun = Instant::now();
        world.wrong.lock().unwrap().push((node, begun, None));
        world.fault(kind, node, Duration::from_millis(200)).await;
        let (took, ended) = wait_until_recovered(&work, &next, node).await;
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
    check_calls(&all, &world.effects.lock().unwrap(), &world.wrong.lock().unwrap());
    print_recovery_times(table);
}

/// Duration of recovery after each fault.
pub(crate) fn print_recovery_times(table: BTreeMap<&str, Vec<Duration>>) {
    println!(
        "| fault | times | good again after, median | longest |\n| --- | ---: | ---: | ---: |"
    );
    for (kind, mut times) in table {
        times.sort_unstable();
        let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
        println!("| {kind} | {} | {median:.1?} | {longest:.1?} |", times.len());
    }
}

/// Control: if only the address identifies a node, any holder of the address gets the call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_certificates_a_call_goes_to_whoever_has_the_address() {
    let mut first = Node::start().await;
    let registry = registry(Some(first.address), &["echo"]).await;
    let (address, caller) = (first.address, test_caller());
    call(&registry, "echo", "{}", &quiet_context(&caller)).await.unwrap();
    assert!(matches!(first.next().await, NodeEvent::Call { .. }));
    first.kill();
    let mut another = Node::start_at(&address.to_string()).await;
    while call(&registry, "echo", "{}", &quiet_context(&caller)).await.is_err() {
        sleep(Duration::from_millis(5)).await;
    }
    assert!(matches!(another.next().await, NodeEvent::Call { .. }));
}

/// Conditions that all calls together must meet.
pub(crate) fn check_calls(
    all: &[FinishedCall],
    effects: &HashMap<u64, Vec<String>>,
    wrong: &Wrong,
) {
    let (mut good, mut failed) = (0, 0);
    for call in all {
        let ran = effects.get(&call.number).map_or(&[][..], Vec::as_slice);
        assert!(ran.len() <= 1, "call {} has {} effects", call.number, ran.len());
        let meant = |id: &String| match call.pinned {
            Some(node) => id == NODES[node].0,
            None => NODES.iter().any(|(known, _)| id == known),
        };
        assert!(ran.iter().all(meant), "call {} ran at {ran:?}", call.number);
        // A fault of the node during the call.
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
                assert!(
                    *sent != DispatchState::NotSent || ran.is_empty(),
                    "call {}: {why}",
                    call.number
                );
                assert!(near(call.pinned), "call {} failed beside any fault: {why}", call.number);
                // A call that may run anywhere fails only if it was in flight to the faulty node.
                let moved = call.pinned.is_some() || *sent != DispatchState::NotSent;
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
