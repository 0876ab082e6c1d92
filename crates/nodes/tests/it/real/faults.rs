//! Three nodes, each a process of its own; a Kubernetes API server that says where they are; a MongoDB that
//! keeps what they have. All of them are killed and stopped while calls go on.
//!
//! What keeps the registry and what finds the nodes may be away: no call fails for that. Only calls of a
//! node that something happened to may fail, and none has two effects or one elsewhere.

#![expect(
    clippy::disallowed_methods,
    reason = "a test starts programs and reads what it told them"
)]

use std::collections::{BTreeMap, HashMap};
use std::io::Write as _;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use egress::{Egress, EgressSettings};
use nodes::{Authority, Registry};
use nodes_kubernetes::Kubernetes;
use proto::serve::serve;
use proto::tls::{Identity, NodeKey};
use rustix::process::{Pid, Signal, kill_process};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tool::Clock as _;
use tool::node::{NodeFault, Nodes as _};

use super::cluster::Cluster;
use super::mongo::Mongo;
use crate::faults::machine::{bound, port_at};
use crate::faults::writes::Writes;
use crate::faults::{
    NODES, RECOVERY, Real, Work, Wrong, at, callers, calls, judge, print, well, work,
};
use crate::kept::{own, tool};
use crate::support::has;

/// Names the folder of the node that this process is to be.
const NODE: &str = "TOOLKEEP_TEST_NODE";
/// How long something is away, where nothing has to be noticed first.
const AWAY: Duration = Duration::from_millis(200);
/// What is noticed is noticed within this: a watch may be silent for 13 s.
const NOTICED: Duration = Duration::from_secs(30);

/// What this process is, where it was started to be a node.
async fn is_a_node(folder: &Path) {
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let identity = Identity::of_pem(&text("node.pem"), &text("node.key"), &text("authority.pem"));
    let listener = bound(text("at").parse().unwrap()).await;
    let effects = folder.join("../effects");
    let writes = Writes::new(&text("id"), move |number, id| {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&effects);
        file.unwrap().write_all(format!("{number} {id}\n").as_bytes()).unwrap();
    });
    let tls = identity.unwrap().server().unwrap();
    serve(Arc::new(writes), listener, Some(tls), CancellationToken::new()).await.unwrap();
}

/// A node's process; killed when this is dropped.
struct Process(Child);

impl Process {
    fn start(folder: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", &format!("{}::{TEST}", module_path!().split_once("::").unwrap().1)]);
        command.env(NODE, folder).stdin(Stdio::null()).stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

struct World {
    registry: Arc<Registry>,
    kubernetes: Arc<Kubernetes>,
    cluster: Cluster,
    mongo: Mongo,
    folder: tempfile::TempDir,
    nodes: Vec<Option<Process>>,
    _follows: JoinSet<()>,
}

impl World {
    async fn new() -> Self {
        let clock = Arc::new(Real::default());
        let (cluster, mongo) = (Cluster::start().await, Mongo::start());
        let egress = Egress::new(EgressSettings::default()).unwrap();
        let registry = Registry::shared(mongo.keep().await, egress, Arc::clone(&clock) as _).await;
        let kept = Authority::make(clock.wall()).unwrap();
        registry.set_authority(Authority::open(&kept).unwrap()).unwrap();
        let authority = Authority::open(&kept).unwrap();
        let port = port_at(&NODES.map(|(_, ip)| IpAddr::from(ip))).await;
        let settings = cluster.settings(cluster.account().await, true, port);
        let kubernetes =
            Arc::new(Kubernetes::new(settings, cluster.egress(), Arc::clone(&clock) as _));
        registry.find_by(Arc::clone(&kubernetes));
        let folder = tempfile::tempdir().unwrap();
        for (node, (id, ip)) in NODES.iter().enumerate() {
            joined(&authority, folder.path(), id, &at(node, port).to_string());
            // Another machine's, at the same address.
            joined(&authority, folder.path(), &format!("not-{id}"), &at(node, port).to_string());
            cluster.put(id, Some(id), Some(&IpAddr::from(*ip).to_string())).await;
            has(&registry, id, &["work"]).await;
        }
        let nodes = NODES.map(|(id, _)| Some(Process::start(&folder.path().join(id)))).into();
        let (registry, mut follows) = (Arc::new(registry), JoinSet::new());
        let (finds, hears) = (Arc::clone(&kubernetes), Arc::clone(&registry));
        follows.spawn(async move { finds.follow().await });
        follows.spawn(async move { hears.follow().await });
        Self { registry, kubernetes, cluster, mongo, folder, nodes, _follows: follows }
    }

    fn start(&mut self, node: usize) {
        self.nodes[node] = Some(Process::start(&self.folder.path().join(NODES[node].0)));
    }

    /// Does something to a node, and takes it back.
    async fn node(&mut self, kind: &str, node: usize) {
        let (id, ip) = NODES[node];
        let ip = IpAddr::from(ip).to_string();
        match kind {
            "a node killed" => {
                drop(self.nodes[node].take());
                sleep(AWAY).await;
                self.start(node);
            }
            "a node stopped" => {
                self.nodes[node].as_ref().unwrap().signal(Signal::STOP);
                sleep(AWAY).await;
                self.nodes[node].as_ref().unwrap().signal(Signal::CONT);
            }
            "a node relabelled" => {
                self.cluster.put(id, Some("another"), Some(&ip)).await;
                sleep(AWAY).await;
                self.cluster.put(id, Some(id), Some(&ip)).await;
            }
            "a node's address another's" => {
                drop(self.nodes[node].take());
                let evil = Process::start(&self.folder.path().join(format!("not-{id}")));
                sleep(2 * AWAY).await;
                drop(evil);
                self.start(node);
            }
            other => panic!("{other}"),
        }
    }

    /// Takes away what finds nodes, or what keeps the registry, until that is noticed, and has it back; how
    /// long until it is used again.
    async fn around(&mut self, api: Option<bool>, mongo: Option<bool>) -> Duration {
        self.away(api, mongo).await;
        let mut longest = Duration::ZERO;
        if let Some(stopped) = mongo {
            if stopped {
                self.mongo.signal(Signal::CONT);
            } else {
                self.mongo.again();
            }
            let back = until("not read again", RECOVERY, || self.registry.stale().is_none()).await;
            longest = longest.max(back);
        }
        if let Some(stopped) = api {
            if stopped {
                self.cluster.signal(Signal::CONT);
            } else {
                self.cluster.again().await;
            }
            let back = until("not heard again", RECOVERY, || self.kubernetes.stale().is_none());
            longest = longest.max(back.await);
        }
        longest
    }

    async fn away(&mut self, api: Option<bool>, mongo: Option<bool>) {
        match api {
            Some(true) => self.cluster.signal(Signal::STOP),
            Some(false) => self.cluster.kill(),
            None => {}
        }
        match mongo {
            Some(true) => self.mongo.signal(Signal::STOP),
            Some(false) => self.mongo.kill(),
            None => {}
        }
        let told = || {
            (api.is_none() || self.kubernetes.stale().is_some())
                && (mongo.is_none() || self.registry.stale().is_some())
        };
        until("nobody says that it is away", NOTICED, told).await;
        if mongo.is_some() {
            let late = self.registry.register(&own("n1"), tool("n1", "late")).await;
            let refused =
                matches!(&late, Err(NodeFault::Unavailable(why)) if why.contains("MongoDB"));
            assert!(refused, "{late:?}");
        }
    }

    fn effects(&self) -> HashMap<u64, Vec<String>> {
        let mut effects: HashMap<u64, Vec<String>> = HashMap::new();
        let text = std::fs::read_to_string(self.folder.path().join("effects")).unwrap();
        for line in text.lines() {
            let (number, id) = line.split_once(' ').unwrap();
            effects.entry(number.parse().unwrap()).or_default().push(id.to_owned());
        }
        effects
    }
}

/// The folder of a node that joined, and where it is.
fn joined(authority: &Authority, folder: &Path, id: &str, at: &str) {
    let folder = folder.join(id);
    std::fs::create_dir(&folder).unwrap();
    let key = NodeKey::new().unwrap();
    let proof = key.prove(id).unwrap();
    let signed = authority.certify(id, (key.public(), &proof), Real::default().wall()).unwrap();
    let files = [
        ("id", id),
        ("at", at),
        ("node.pem", &signed.certificate),
        ("node.key", &key.pem().unwrap()),
        ("authority.pem", &signed.authority),
    ];
    for (name, text) in files {
        std::fs::write(folder.join(name), text).unwrap();
    }
}

/// Until it holds; how long that took.
async fn until(what: &str, most: Duration, holds: impl Fn() -> bool) -> Duration {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < most, "{what}");
        sleep(Duration::from_millis(5)).await;
    }
    since.elapsed()
}

/// What is done, in turn: to one node, or to what stands around them.
const OF_NODES: [&str; 4] =
    ["a node killed", "a node stopped", "a node relabelled", "a node's address another's"];
const AROUND: [(&str, Option<bool>, Option<bool>); 5] = [
    ("MongoDB killed", None, Some(false)),
    ("MongoDB stopped", None, Some(true)),
    ("the API server killed", Some(false), None),
    ("the API server stopped", Some(true), None),
    ("both killed at once", Some(false), Some(false)),
];
const TEST: &str =
    "with_all_of_it_killed_and_stopped_every_call_has_one_outcome_and_only_victims_fail";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_all_of_it_killed_and_stopped_every_call_has_one_outcome_and_only_victims_fail() {
    if let Some(folder) = std::env::var_os(NODE) {
        return is_a_node(Path::new(&folder)).await;
    }
    let mut world = World::new().await;
    let work = work(&world.registry).await;
    let next = Arc::new(AtomicU64::new(0));
    let (mut all, mut wrong, mut table) = (Vec::new(), Wrong::new(), BTreeMap::new());
    for node in 0..NODES.len() {
        all.extend(well(&work, &next, node).await.1);
    }
    // What failed before Kubernetes was asked for the first time is nobody's fault.
    let begun = Instant::now();
    wrong.extend((0..NODES.len()).map(|node| (node, begun - RECOVERY, Some(begun))));
    let (most, over) = (calls(), Arc::new(AtomicBool::new(false)));
    let ends = Arc::clone(&over);
    let mut callers =
        callers(&work, &next, move |number| number < most || !ends.load(Ordering::SeqCst));
    for (turn, (name, api, mongo)) in AROUND.into_iter().enumerate() {
        for (each, kind) in OF_NODES.into_iter().enumerate() {
            let node = (turn + each) % NODES.len();
            let (took, ended) =
                to_a_node(&mut world, (kind, node), (&work, &next), &mut wrong).await;
            all.extend(ended);
            table.entry(kind).or_insert_with(Vec::new).push(took);
        }
        // Nobody is to blame for a call that fails meanwhile.
        let took = world.around(api, mongo).await;
        table.entry(name).or_default().push(took);
    }
    // All three in one moment.
    let begun = Instant::now();
    wrong.push((0, begun, None));
    drop(world.nodes[0].take());
    let took = world.around(Some(false), Some(false)).await;
    world.start(0);
    let (again, ended) = well(&work, &next, 0).await;
    all.extend(ended);
    wrong.last_mut().unwrap().2 = Some(Instant::now());
    table
        .entry("a node, the API server and MongoDB killed at once")
        .or_default()
        .push(took.max(again));
    while next.load(Ordering::SeqCst) < most {
        sleep(Duration::from_millis(50)).await;
    }
    over.store(true, Ordering::SeqCst);
    while let Some(each) = callers.join_next().await {
        all.extend(each.unwrap());
    }
    assert!(u64::try_from(all.len()).unwrap() >= most);
    judge(&all, &world.effects(), &wrong);
    print(table);
}

/// One fault of a node; how long until it was called again, and the calls that were made to see that.
async fn to_a_node(
    world: &mut World,
    (kind, node): (&str, usize),
    (work, next): (&Work, &AtomicU64),
    wrong: &mut Wrong,
) -> (Duration, Vec<crate::faults::Ended>) {
    wrong.push((node, Instant::now(), None));
    world.node(kind, node).await;
    let back = well(work, next, node).await;
    wrong.last_mut().unwrap().2 = Some(Instant::now());
    back
}
