//! The registry in MongoDB: the common tests, compatibility with the cluster tools' own programs,
//! and a server that is killed, stopped and restarted.

#![expect(clippy::disallowed_methods, reason = "a test starts programs and looks at the clock")]

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use egress::{EgressClient, EgressOptions};
use mongodb::bson::{Document, doc};
use nodes::{PersistentNodeRegistry, RegistryStore as _};
use nodes_mongo::MongoRegistryStore;
use rustix::process::{Pid, Signal, kill_process};
use testkit::clock::FakeClock;
use testkit::installed_programs::installed_file;
use tool::node_registry::{NodeError, NodeRegistry as _, NodeTool};
use tool::{Json, Secret, Source as _};

use crate::kept::{Any, node_access, open_registry, over, tool, tool_names};

/// A MongoDB of the tests' own, which syncs each write. Killed when dropped.
pub(crate) struct Mongo {
    port: u16,
    folder: tempfile::TempDir,
    child: Child,
}

impl Mongo {
    pub(crate) fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = tempfile::tempdir().unwrap();
        let child = serve(port, folder.path());
        Self { port, folder, child }
    }

    fn url(&self) -> String {
        format!("mongodb://127.0.0.1:{}/tools_db?directConnection=true", self.port)
    }

    pub(crate) async fn open_store(&self) -> Any {
        Arc::new(MongoRegistryStore::from_url(&Secret::new(self.url())).await.unwrap())
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn restart(&mut self) {
        self.child = serve(self.port, self.folder.path());
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// As the cluster tools' own programs look at it.
    async fn raw(&self) -> mongodb::Collection<Document> {
        let client = mongodb::Client::with_uri_str(self.url()).await.unwrap();
        client.database("tools_db").collection("cluster_local_tools")
    }
}

impl Drop for Mongo {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn serve(port: u16, folder: &std::path::Path) -> Child {
    let mut command = Command::new(installed_file("venv-mongodb/bin/secantusd-py"));
    command.args(["--host", "127.0.0.1", "--port", &port.to_string(), "--sync-on-commit"]);
    command.arg("--storage-path").arg(folder.join("data"));
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().expect("SecantusDB, of `cargo xtask provision`");
    let since = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(since.elapsed() < Duration::from_mins(1), "the MongoDB does not listen");
        std::thread::sleep(Duration::from_millis(50));
    }
    child
}

async fn made() -> (Any, Mongo) {
    let mongo = Mongo::start();
    (mongo.open_store().await, mongo)
}

mod keeps {
    super::over! { super::made() }
}

/// Until it holds; how long that took.
async fn wait_until(what: &str, holds: impl Fn() -> bool) -> Duration {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < Duration::from_secs(20), "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    since.elapsed()
}

/// A registry that follows what others write, as long as this is kept.
struct Following {
    registry: Arc<PersistentNodeRegistry>,
    _task: tokio::task::JoinSet<()>,
}

impl Following {
    async fn of(keep: Any) -> Self {
        let egress = EgressClient::new(EgressOptions::default()).unwrap();
        let clock = Arc::new(FakeClock::default());
        let registry = Arc::new(PersistentNodeRegistry::open_shared(keep, egress, clock).await);
        let follows = Arc::clone(&registry);
        let mut task = tokio::task::JoinSet::new();
        task.spawn(async move { follows.run_sync().await });
        Self { registry, _task: task }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_is_stored_in_the_cluster_tools_collection_in_their_format() {
    let mongo = Mongo::start();
    let registry = open_registry(&mongo.open_store().await).await;
    let id = registry.register_tool(&node_access("n1"), tool("n1", "say")).await.unwrap();
    let raw = mongo.raw().await;
    let found = raw.find_one(doc! { "name": "say" }).await.unwrap().unwrap();
    assert_eq!(found.get_object_id("_id").unwrap().to_hex(), id);
    assert_eq!(found.get_str("node_id").unwrap(), "n1");
    assert_eq!(found.get_document("input_spec").unwrap(), &doc! { "text": "string" });
    assert_eq!(found.get_document("metadata").unwrap(), &doc! { "version": "1", "node_id": "n1" });
    assert_eq!(found.get_str("description").unwrap(), "Says it.");
    // Unique, independent of the writer.
    let again = raw.insert_one(doc! { "name": "say", "node_id": "n1" }).await.unwrap_err();
    assert!(again.to_string().contains("E11000"), "{again}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_put_there_is_no_tool_and_takes_none_along() {
    let mongo = Mongo::start();
    let raw = mongo.raw().await;
    let foreign = doc! {
        "name": "say", "node_id": "evil", "input_spec": {}, "metadata": {}, "description": "x",
    };
    raw.insert_one(foreign).await.unwrap();
    let keep = mongo.open_store().await;
    let registry = open_registry(&keep).await;
    assert!(registry.list_nodes().is_empty(), "nobody registered it");
    // Its owner shares it, so that the name alone would not stop the other node.
    let metadata = Json::encode(&serde_json::json!({ "shared": true }));
    let shared = |node| NodeTool { metadata: metadata.clone(), ..tool(node, "say") };
    registry.register_tool(&node_access("n1"), shared("n1")).await.unwrap();
    assert_eq!(tool_names(&registry, "n1"), ["say"]);
    // An obstacle is reported, and nothing is overwritten.
    let told = registry.register_tool(&node_access("evil"), shared("evil")).await.unwrap_err();
    assert!(
        matches!(&told, NodeError::Unavailable(why) if why.contains("remove it there")),
        "{told:?}"
    );
    assert_eq!(tool_names(&open_registry(&keep).await, "evil"), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_hear_of_each_others_writes() {
    let mongo = Mongo::start();
    let (one, other) = (
        Following::of(mongo.open_store().await).await,
        Following::of(mongo.open_store().await).await,
    );
    one.registry.register_tool(&node_access("n1"), tool("n1", "say")).await.unwrap();
    one.registry.register_tool(&node_access("n1"), tool("n1", "hear")).await.unwrap();
    wait_until("not heard of", || tool_names(&other.registry, "n1") == ["say", "hear"]).await;
    let louder = NodeTool { description: "Louder.".into(), ..tool("n1", "say") };
    other.registry.register_tool(&node_access("n1"), louder.clone()).await.unwrap();
    wait_until("not changed", || one.registry.find_tool("n1", "say") == Some(louder.clone())).await;
    one.registry.remove_tool(&node_access("n1"), "n1", "say").await.unwrap();
    wait_until("not removed", || tool_names(&other.registry, "n1") == ["hear"]).await;
    assert_eq!(tool_names(&one.registry, "n1"), ["hear"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_it_is_away_memory_serves_and_says_so_and_it_is_used_when_it_is_back() {
    let mut mongo = Mongo::start();
    let following = [
        Following::of(mongo.open_store().await).await,
        Following::of(mongo.open_store().await).await,
    ];
    let both = following.each_ref().map(|it| &*it.registry);
    let [one, other] = both;
    one.register_tool(&node_access("n1"), tool("n1", "say")).await.unwrap();
    wait_until("not heard of", || tool_names(other, "n1") == ["say"]).await;
    for stopped in [false, true] {
        if stopped {
            mongo.signal(Signal::STOP);
        } else {
            mongo.kill();
        }
        wait_until("not told", || both.iter().all(|registry| registry.staleness().is_some())).await;
        assert_eq!(tool_names(other, "n1")[0], "say", "served from memory");
        let source = &other.node_sources()[0];
        let listing = source.list_offers().await.unwrap();
        assert!(listing.stale_since.is_some());
        assert_eq!(listing.offers.len(), tool_names(other, "n1").len());
        assert!(listing.problems[0].message.starts_with("MongoDB: "), "{:?}", listing.problems);
        let since = Instant::now();
        let refused = one.register_tool(&node_access("n1"), tool("n1", "late")).await.unwrap_err();
        assert!(matches!(&refused, NodeError::Unavailable(why) if why.contains("MongoDB")));
        assert!(since.elapsed() < Duration::from_secs(15), "{:?}", since.elapsed());
        if stopped {
            mongo.signal(Signal::CONT);
        } else {
            mongo.restart();
        }
        let back =
            wait_until("not back", || both.iter().all(|registry| registry.staleness().is_none()))
                .await;
        assert!(back < Duration::from_secs(5), "{back:?}");
        eprintln!("stopped {stopped}: back after {back:?}");
        assert!(source.list_offers().await.unwrap().stale_since.is_none());
        let name = format!("after-{stopped}");
        one.register_tool(&node_access("n1"), tool("n1", &name)).await.unwrap();
        wait_until("not heard of", || tool_names(other, "n1").contains(&name)).await;
    }
}

/// A proxy to it that delays all traffic.
struct SlowProxy {
    port: u16,
    delay: Arc<std::sync::atomic::AtomicU64>,
    _task: tokio::task::JoinSet<()>,
}

impl SlowProxy {
    async fn to(port: u16) -> Self {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap().port();
        let delay = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let (held, mut task) = (Arc::clone(&delay), tokio::task::JoinSet::new());
        task.spawn(async move {
            let mut open = tokio::task::JoinSet::new();
            loop {
                let (from, _) = listener.accept().await.unwrap();
                let to = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                let (mut from, mut to) = (from.into_split(), to.into_split());
                let held = Arc::clone(&held);
                open.spawn(async move { drop(tokio::io::copy(&mut to.0, &mut from.1).await) });
                open.spawn(async move {
                    let mut part = vec![0; 16 << 10];
                    while let Ok(read @ 1..) = from.0.read(&mut part).await {
                        let ms = held.load(std::sync::atomic::Ordering::SeqCst);
                        tokio::time::sleep(Duration::from_millis(ms)).await;
                        if to.1.write_all(&part[..read]).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { port: own, delay, _task: task }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_slow_holds_up_nobody_who_reads_and_is_used_again_within_5_s() {
    let mongo = Mongo::start();
    let slow = SlowProxy::to(mongo.port).await;
    let url = format!("mongodb://127.0.0.1:{}/tools_db?directConnection=true", slow.port);
    let keep: Any = Arc::new(MongoRegistryStore::from_url(&Secret::new(url)).await.unwrap());
    let following = Following::of(keep).await;
    let registry = &following.registry;
    registry.register_tool(&node_access("n1"), tool("n1", "say")).await.unwrap();
    slow.delay.store(8_000, std::sync::atomic::Ordering::SeqCst);
    let by = node_access("n1");
    let late = registry.register_tool(&by, tool("n1", "late"));
    tokio::pin!(late);
    let mut longest = Duration::ZERO;
    let since = Instant::now();
    let told = loop {
        let begun = Instant::now();
        assert_eq!(tool_names(registry, "n1")[0], "say", "served from memory");
        assert_eq!(registry.node_sources()[0].list_offers().await.unwrap().offers.len(), 1);
        longest = longest.max(begun.elapsed());
        tokio::select! {
            told = &mut late => break told,
            () = tokio::time::sleep(Duration::from_millis(20)) => {}
        }
        assert!(since.elapsed() < Duration::from_secs(30), "a write waits for ever");
    };
    assert!(
        matches!(&told, Err(NodeError::Unavailable(why)) if why.contains("MongoDB")),
        "{told:?}"
    );
    assert!(longest < Duration::from_secs(1), "{longest:?}");
    wait_until("not told", || registry.staleness().is_some()).await;
    slow.delay.store(0, std::sync::atomic::Ordering::SeqCst);
    let back = wait_until("not back", || registry.staleness().is_none()).await;
    // Requests from the slow phase must finish first.
    assert!(back < Duration::from_secs(8 + 5), "{back:?}");
    let since = Instant::now();
    registry.register_tool(&node_access("n1"), tool("n1", "after")).await.unwrap();
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    eprintln!("refused, read in {longest:?} meanwhile, back after {back:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_begins_without_it_knows_nothing_says_so_and_reads_it_later() {
    let mut mongo = Mongo::start();
    open_registry(&mongo.open_store().await)
        .await
        .register_tool(&node_access("n1"), tool("n1", "say"))
        .await
        .unwrap();
    mongo.kill();
    let late = Following::of(mongo.open_store().await).await;
    assert!(late.registry.staleness().unwrap().reason.starts_with("MongoDB: "));
    assert!(late.registry.list_nodes().is_empty());
    mongo.restart();
    wait_until("not read", || late.registry.staleness().is_none()).await;
    assert_eq!(tool_names(&late.registry, "n1"), ["say"]);
}

#[tokio::test]
async fn what_is_no_mongodb_is_told_without_its_password() {
    for url in
        ["http://h", "mongodb://", "x", "mongodb+srv://u:hunter2@h/", "mongodb://u:hunter2@h:x/"]
    {
        let told = MongoRegistryStore::from_url(&Secret::new(url)).await.unwrap_err().to_string();
        assert!(told.starts_with("invalid MongoDB URL: "), "{url}: {told}");
        assert!(!told.contains("hunter2"), "{told}");
    }
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("mongodb://u:hunter2@{}/", silent.local_addr().unwrap());
    let keep = MongoRegistryStore::from_url(&Secret::new(&url)).await.unwrap();
    let told = keep.load_all().await.unwrap_err().to_string();
    assert!(told.starts_with("MongoDB: ") && !told.contains("hunter2"), "{told}");
    assert!(!format!("{keep:?}").contains("hunter2"));
}
