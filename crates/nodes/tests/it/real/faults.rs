//! Three node processes, a Kubernetes API server with their addresses, and a MongoDB with the
//! registry. All of them are killed and stopped during calls.
//!
//! An outage of the registry or of the address lookup fails no call. Only calls of an affected node
//! may fail, and no call has two effects, or one at another node.

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

use egress::{EgressClient, EgressOptions};
use nodes::{CertificateAuthority, PersistentNodeRegistry};
use nodes_kubernetes::KubernetesLocator;
use proto::server::serve_tcp;
use proto::tls::{NodeKey, TlsIdentity};
use rustix::process::{Pid, Signal, kill_process};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tool::Clock as _;
use tool::node_registry::{KeyProof, NodeError, NodeRegistry as _};

use super::cluster::Cluster;
use super::mongo::Mongo;
use crate::faults::machine::{bind_listener, free_port};
use crate::faults::writes::WriteLogTools;
use crate::faults::{
    NODES, RECOVERY, RealClock, Work, Wrong, at, calls, check_calls, offered_work,
    print_recovery_times, spawn_callers, wait_until_recovered,
};
use crate::kept::{node_access, tool};
use crate::support::register_tools;

/// Names the folder of the node that this process is to be.
const NODE: &str = "TOOLKEEP_TEST_NODE";
/// Duration of an outage that need not be detected first.
const OUTAGE_DURATION: Duration = Duration::from_millis(200);
/// Time limit of fault detection: a watch may be silent for 13 s.
const DETECTION_TIMEOUT: Duration = Duration::from_secs(30);

/// Role of this process if it was started as a node.
async fn is_a_node(folder: &Path) {
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let identity =
        TlsIdentity::from_pem(&text("node.pem"), &text("node.key"), &text("authority.pem"));
    let listener = bind_listener(text("at").parse().unwrap()).await;
    let effects = folder.join("../effects");
    let writes = WriteLogTools::new(&text("id"), move |number, id| {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&effects);
        file.unwrap().write_all(format!("{number} {id}\n").as_bytes()).unwrap();
    });
    let tls = identity.unwrap().server_config().unwrap();
    serve_tcp(Arc::new(writes), listener, Some(tls), CancellationToken::new()).await.unwrap();
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

struct ClusterFaultSetup {
    registry: Arc<PersistentNodeRegistry>,
    kubernetes: Arc<KubernetesLocator>,
    cluster: Cluster,
    mongo: Mongo,
    folder: tempfile::TempDir,
    nodes: Vec<Option<Process>>,
    _follows: JoinSet<()>,
}

impl ClusterFaultSetup {
    async fn new() -> Self {
        let clock = Arc::new(RealClock::default());
        let (cluster, mongo) = (Cluster::start().await, Mongo::start());
        let egress = EgressClient::new(EgressOptions::default()).unwrap();
        let registry = PersistentNodeRegistry::open_shared(
            mongo.open_store().await,
            egress,
            Arc::clone(&clock) as _,
        )
        .await;
        let kept = CertificateAuthority::generate(clock.wall_now()).unwrap();
        registry.set_authority(CertificateAuthority::from_stored(&kept).unwrap()).unwrap();
        let authority = CertificateAuthority::from_stored(&kept).unwrap();
        let port = free_port(&NODES.map(|(_, ip)| IpAddr::from(ip))).await;
        let settings = cluster.settings(cluster.account().await, true, port);
        let kubernetes =
            Arc::new(KubernetesLocator::new(settings, cluster.egress(), Arc::clone(&clock) as _));
        registry.set_locator(Arc::clone(&kubernetes));
        let folder = tempfile::tempdir().unwrap();
        for (node, (id, ip)) in NODES.iter().enumerate() {
            write_node_files(&authority, folder.path(), id, &at(node, port).to_string());
            // Another machine's, at the same address.
            write_node_files(
                &authority,
                folder.path(),
                &format!("not-{id}"),
                &at(node, port).to_string(),
            );
            cluster.put_node(id, Some(id), Some(&IpAddr::from(*ip).to_string())).await;
            register_tools(&registry, id, &["work"]).await;
        }
        let nodes = NODES.map(|(id, _)| Some(Process::start(&folder.path().join(id)))).into();
        let (registry, mut follows) = (Arc::new(registry), JoinSet::new());
        let (finds, hears) = (Arc::clone(&kubernetes), Arc::clone(&registry));
        follows.spawn(async move { finds.run_watch().await });
        follows.spawn(async move { hears.run_sync().await });
        Self { registry, kubernetes, cluster, mongo, folder, nodes, _follows: follows }
    }

    fn start(&mut self, node: usize) {
        self.nodes[node] = Some(Process::start(&self.folder.path().join(NODES[node].0)));
    }

    /// Injects a fault into a node, and reverts it.
    async fn node(&mut self, kind: &str, node: usize) {
        let (id, ip) = NODES[node];
        let ip = IpAddr::from(ip).to_string();
        match kind {
            "a node killed" => {
                drop(self.nodes[node].take());
                sleep(OUTAGE_DURATION).await;
                self.start(node);
            }
            "a node stopped" => {
                self.nodes[node].as_ref().unwrap().signal(Signal::STOP);
                sleep(OUTAGE_DURATION).await;
                self.nodes[node].as_ref().unwrap().signal(Signal::CONT);
            }
            "a node relabelled" => {
                self.cluster.put_node(id, Some("another"), Some(&ip)).await;
                sleep(OUTAGE_DURATION).await;
                self.cluster.put_node(id, Some(id), Some(&ip)).await;
            }
            "a node's address another's" => {
                drop(self.nodes[node].take());
                let evil = Process::start(&self.folder.path().join(format!("not-{id}")));
                sleep(2 * OUTAGE_DURATION).await;
                drop(evil);
                self.start(node);
            }
            other => panic!("{other}"),
        }
    }

    /// Takes away what finds nodes, or what keeps the registry, until that is noticed, and has it back; how
    /// long until it is used again.
    async fn outage_of_services(&mut self, api: Option<bool>, mongo: Option<bool>) -> Duration {
        self.apply_outage(api, mongo).await;
        let mut longest = Duration::ZERO;
        if let Some(stopped) = mongo {
            if stopped {
                self.mongo.signal(Signal::CONT);
            } else {
                self.mongo.restart();
            }
            let back =
                wait_until("not read again", RECOVERY, || self.registry.staleness().is_none())
                    .await;
            longest = longest.max(back);
        }
        if let Some(stopped) = api {
            if stopped {
                self.cluster.signal(Signal::CONT);
            } else {
                self.cluster.restart().await;
            }
            let back = wait_until("not heard again", RECOVERY, || {
                self.kubernetes.stale_reason().is_none()
            });
            longest = longest.max(back.await);
        }
        longest
    }

    async fn apply_outage(&mut self, api: Option<bool>, mongo: Option<bool>) {
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
            (api.is_none() || self.kubernetes.stale_reason().is_some())
                && (mongo.is_none() || self.registry.staleness().is_some())
        };
        wait_until("nobody says that it is away", DETECTION_TIMEOUT, told).await;
        if mongo.is_some() {
            let late = self.registry.register_tool(&node_access("n1"), tool("n1", "late")).await;
            let refused =
                matches!(&late, Err(NodeError::Unavailable(why)) if why.contains("MongoDB"));
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

/// Folder of a node that joined, and its address.
fn write_node_files(authority: &CertificateAuthority, folder: &Path, id: &str, at: &str) {
    let folder = folder.join(id);
    std::fs::create_dir(&folder).unwrap();
    let key = NodeKey::generate().unwrap();
    let signature = key.sign_proof(id).unwrap();
    let proof = KeyProof { public_key: key.public_key(), signature: &signature };
    let signed =
        authority.issue_node_certificate(id, proof, RealClock::default().wall_now()).unwrap();
    let files = [
        ("id", id),
        ("at", at),
        ("node.pem", &signed.certificate_pem),
        ("node.key", &key.private_key_pem().unwrap()),
        ("authority.pem", &signed.ca_certificate_pem),
    ];
    for (name, text) in files {
        std::fs::write(folder.join(name), text).unwrap();
    }
}

/// Until it holds; how long that took.
async fn wait_until(what: &str, most: Duration, holds: impl Fn() -> bool) -> Duration {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < most, "{what}");
        sleep(Duration::from_millis(5)).await;
    }
    since.elapsed()
}

/// Faults in order, of one node or of the surrounding services.
const NODE_FAULTS: [&str; 4] =
    ["a node killed", "a node stopped", "a node relabelled", "a node's address another's"];
const SERVICE_OUTAGES: [(&str, Option<bool>, Option<bool>); 5] = [
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
    let mut world = ClusterFaultSetup::new().await;
    let work = offered_work(&world.registry).await;
    let next = Arc::new(AtomicU64::new(0));
    let (mut all, mut wrong, mut table) = (Vec::new(), Wrong::new(), BTreeMap::new());
    for node in 0..NODES.len() {
        all.extend(wait_until_recovered(&work, &next, node).await.1);
    }
    // Failures before the first request to Kubernetes are not counted.
    let begun = Instant::now();
    wrong.extend((0..NODES.len()).map(|node| (node, begun - RECOVERY, Some(begun))));
    let (most, over) = (calls(), Arc::new(AtomicBool::new(false)));
    let ends = Arc::clone(&over);
    let mut callers =
        spawn_callers(&work, &next, move |number| number < most || !ends.load(Ordering::SeqCst));
    for (turn, (name, api, mongo)) in SERVICE_OUTAGES.into_iter().enumerate() {
        for (each, kind) in NODE_FAULTS.into_iter().enumerate() {
            let node = (turn + each) % NODES.len();
            let (took, ended) =
                to_a_node(&mut world, (kind, node), (&work, &next), &mut wrong).await;
            all.extend(ended);
            table.entry(kind).or_insert_with(Vec::new).push(took);
        }
        // Nobody is to blame for a call that fails meanwhile.
        let took = world.outage_of_services(api, mongo).await;
        table.entry(name).or_default().push(took);
    }
    // All three in one moment.
    let begun = Instant::now();
    wrong.push((0, begun, None));
    drop(world.nodes[0].take());
    let took = world.outage_of_services(Some(false), Some(false)).await;
    world.start(0);
    let (again, ended) = wait_until_recovered(&work, &next, 0).await;
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
    check_calls(&all, &world.effects(), &wrong);
    print_recovery_times(table);
}

/// One fault of a node; how long until it was called again, and the calls that were made to see that.
async fn to_a_node(
    world: &mut ClusterFaultSetup,
    (kind, node): (&str, usize),
    (work, next): (&Work, &AtomicU64),
    wrong: &mut Wrong,
) -> (Duration, Vec<crate::faults::FinishedCall>) {
    wrong.push((node, Instant::now(), None));
    world.node(kind, node).await;
    let back = wait_until_recovered(work, next, node).await;
    wrong.last_mut().unwrap().2 = Some(Instant::now());
    back
}
