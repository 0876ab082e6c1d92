//! What every keeper of the registry does. Each test runs over the store of one server, and, in
//! `real::`, over a MongoDB.

use std::sync::Arc;

use bytes::Bytes;
use egress::{Egress, EgressSettings};
use nodes::{Alone, Keep, Nowhere, Registry};
use serde_json::{Value, json};
use store::{MemoryStore, SqliteStore};
use testkit::clock::FakeClock;
use tool::node::{NodeFault, NodeTool, Nodes as _, Speaks};
use tool::store::Expect;
use tool::{Json, StoreError, Version};

macro_rules! over {
    ($make:expr) => {
        $crate::kept::each! { $make,
            what_is_put_is_read_again
            a_write_needs_what_stands_there
            a_removed_key_is_absent_and_comes_back_newer
            name_and_node_are_unique_together
            definitions_come_back_as_they_were
            of_racing_makers_one_wins
            racing_increments_lose_nothing
            all_is_read_nodes_and_owners_first
            a_registry_is_there_again_in_its_order
            owners_of_names_are_kept_and_freed
            two_servers_never_give_one_name_to_two_nodes
        }
    };
}
macro_rules! each {
    ($make:expr, $($test:ident)+) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            // What keeps it lives as long as the test.
            let (keep, _around) = $make.await;
            $crate::kept::$test(keep).await;
        }
    )+ };
}
pub(crate) use {each, over};

mod memory {
    super::over! { async { (std::sync::Arc::new(super::Alone(std::sync::Arc::new(super::MemoryStore::new()))) as _, ()) } }
}
mod sqlite {
    fn made() -> (super::Any, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let store = super::SqliteStore::open(folder.path().join("store.db")).unwrap();
        (std::sync::Arc::new(super::Alone(std::sync::Arc::new(store))), folder)
    }
    super::over! { std::future::ready(made()) }
}

pub(crate) type Any = Arc<dyn Keep>;

pub(crate) fn tool(node: &str, name: &str) -> NodeTool {
    NodeTool {
        name: name.to_owned(),
        node_id: node.to_owned(),
        input_spec: Json::of(&json!({ "text": "string" })),
        metadata: Json::of(&json!({ "version": "1", "node_id": node })),
        description: "Says it.".to_owned(),
    }
}

fn key(node: &str, name: &str) -> String {
    format!("cluster_tool/{node}/{name}")
}

/// A record as the registry writes it. The id is made of node and name.
fn record(tool: &NodeTool, created: u64) -> Bytes {
    use std::hash::{Hash as _, Hasher as _};
    let mut hasher = std::hash::DefaultHasher::new();
    (&tool.node_id, &tool.name).hash(&mut hasher);
    let id = format!("{:024x}", hasher.finish());
    let tool = serde_json::to_value(tool).unwrap();
    Bytes::from(json!({ "id": id, "created": created, "tool": tool }).to_string())
}

async fn set(
    keep: &Any,
    tool: &NodeTool,
    expect: Expect,
    created: u64,
) -> Result<Version, StoreError> {
    let key = key(&tool.node_id, &tool.name);
    keep.put(&key, expect, Some(record(tool, created))).await
}

fn is_conflict(result: &Result<Version, StoreError>) -> bool {
    matches!(result, Err(StoreError::Conflict { .. }))
}

async fn created(keep: &Any, key: &str) -> (u64, Version) {
    let row = keep.get(key).await.unwrap().unwrap();
    let read: Value = serde_json::from_slice(&row.bytes).unwrap();
    (read["created"].as_u64().unwrap(), row.version)
}

pub(crate) async fn what_is_put_is_read_again(keep: Any) {
    assert_eq!(keep.get(&key("n", "say")).await.unwrap(), None);
    let version = set(&keep, &tool("n", "say"), Expect::Absent, 7).await.unwrap();
    let row = keep.get(&key("n", "say")).await.unwrap().unwrap();
    assert_eq!((row.key, row.version, row.removed), (key("n", "say"), version, false));
    assert_eq!(row.bytes, record(&tool("n", "say"), 7));
    let owner = Bytes::from_static(b"{\"node\":\"n\",\"print\":\"0\"}");
    let version = keep.put("cluster_owner/say", Expect::Absent, Some(owner.clone())).await.unwrap();
    let row = keep.get("cluster_owner/say").await.unwrap().unwrap();
    assert_eq!((row.bytes, row.version), (owner, version));
    assert_eq!(keep.get("cluster_owner/other").await.unwrap(), None);
}

pub(crate) async fn a_write_needs_what_stands_there(keep: Any) {
    let said = tool("n", "say");
    let first = set(&keep, &said, Expect::Absent, 1).await.unwrap();
    assert!(is_conflict(&set(&keep, &said, Expect::Absent, 2).await));
    let second = set(&keep, &said, Expect::Version(first), 2).await.unwrap();
    assert!(second > first);
    assert!(is_conflict(&set(&keep, &said, Expect::Version(first), 3).await));
    assert!(is_conflict(&keep.put(&key("n", "say"), Expect::Version(first), None).await));
    assert_eq!(created(&keep, &key("n", "say")).await, (2, second));
    let other = set(&keep, &tool("n", "hear"), Expect::Absent, 1).await.unwrap();
    assert!(is_conflict(&set(&keep, &said, Expect::Version(other), 3).await));
}

pub(crate) async fn a_removed_key_is_absent_and_comes_back_newer(keep: Any) {
    let said = tool("n", "say");
    let first = set(&keep, &said, Expect::Absent, 1).await.unwrap();
    keep.put(&key("n", "say"), Expect::Version(first), None).await.unwrap();
    assert_eq!(keep.get(&key("n", "say")).await.unwrap(), None);
    assert!(is_conflict(&set(&keep, &said, Expect::Version(first), 2).await));
    assert!(is_conflict(&keep.put(&key("n", "say"), Expect::Version(first), None).await));
    assert!(set(&keep, &said, Expect::Absent, 2).await.unwrap() > first);
}

pub(crate) async fn name_and_node_are_unique_together(keep: Any) {
    for (node, name) in [("n", "say"), ("m", "say"), ("n", "hear"), ("say", "n")] {
        set(&keep, &tool(node, name), Expect::Absent, 1).await.unwrap();
    }
    for (node, name) in [("n", "say"), ("say", "n")] {
        assert!(is_conflict(&set(&keep, &tool(node, name), Expect::Absent, 2).await));
        assert_eq!(created(&keep, &key(node, name)).await.0, 1);
    }
}

pub(crate) async fn definitions_come_back_as_they_were(keep: Any) {
    let spec = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
        "properties": {"z": {"$ref": "#/$defs/a.b"}, "a": {"const": [1, -2, 4_294_967_296_i64, 1.5, null, true, "é"]}},
        "$defs": {"a.b": {"description": "\u{1f600} \"quoted\"\n", "": {}, "minimum": -0.5e-7}},
    });
    let odd = NodeTool { input_spec: Json::of(&spec), ..tool("n", "odd") };
    let odd = keep.as_kept(odd).unwrap();
    set(&keep, &odd, Expect::Absent, 1).await.unwrap();
    let row = keep.get(&key("n", "odd")).await.unwrap().unwrap();
    assert_eq!(row.bytes, record(&odd, 1));
    assert_eq!(odd.input_spec.value(), spec);
    assert_eq!(keep.as_kept(odd.clone()).unwrap(), odd, "once is enough");
}

pub(crate) async fn of_racing_makers_one_wins(keep: Any) {
    let mut racers = tokio::task::JoinSet::new();
    for racer in 0..20 {
        let keep = Arc::clone(&keep);
        racers.spawn(async move { set(&keep, &tool("n", "say"), Expect::Absent, racer).await });
    }
    let results = racers.join_all().await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{results:?}");
    assert_eq!(results.iter().filter(|result| is_conflict(result)).count(), 19, "{results:?}");
}

pub(crate) async fn racing_increments_lose_nothing(keep: Any) {
    set(&keep, &tool("n", "say"), Expect::Absent, 0).await.unwrap();
    let mut racers = tokio::task::JoinSet::new();
    for _ in 0..5 {
        let keep = Arc::clone(&keep);
        racers.spawn(async move {
            for _ in 0..10 {
                loop {
                    let (count, version) = created(&keep, &key("n", "say")).await;
                    let said = tool("n", "say");
                    match set(&keep, &said, Expect::Version(version), count + 1).await {
                        Ok(_) => break,
                        Err(StoreError::Conflict { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        });
    }
    racers.join_all().await;
    assert_eq!(created(&keep, &key("n", "say")).await.0, 50);
}

pub(crate) async fn all_is_read_nodes_and_owners_first(keep: Any) {
    let some = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
    set(&keep, &tool("n", "say"), Expect::Absent, 1).await.unwrap();
    let owner = some("{\"node\":\"n\",\"print\":\"0\"}");
    keep.put("cluster_owner/say", Expect::Absent, owner).await.unwrap();
    keep.put("cluster_node/n", Expect::Absent, some("{\"created\":1}")).await.unwrap();
    let gone = keep.put("cluster_owner/gone", Expect::Absent, some("{}")).await.unwrap();
    keep.put("cluster_owner/gone", Expect::Version(gone), None).await.unwrap();
    let all: Vec<_> = keep.all().await.unwrap().into_iter().map(|row| row.key).collect();
    assert_eq!(all, ["cluster_node/n", "cluster_owner/say", "cluster_tool/n/say"]);
}

pub(crate) async fn over_it(keep: &Any) -> Registry {
    let egress = Egress::new(EgressSettings::default()).unwrap();
    let registry = Registry::shared(Arc::clone(keep), egress, Arc::new(FakeClock::default())).await;
    assert_eq!(registry.stale(), None);
    registry
}

pub(crate) fn own(node: &str) -> Speaks {
    Speaks::For(node.to_owned())
}

pub(crate) fn names(registry: &Registry, node: &str) -> Vec<String> {
    registry.tools(node).into_iter().map(|tool| tool.name).collect()
}

pub(crate) async fn a_registry_is_there_again_in_its_order(keep: Any) {
    let registry = over_it(&keep).await;
    for (node, name) in [("n2", "z"), ("n1", "m"), ("n2", "a")] {
        registry.register(&own(node), tool(node, name)).await.unwrap();
    }
    let first = registry.register(&own("n2"), tool("n2", "z")).await.unwrap();
    let louder = NodeTool { description: "Louder.".into(), ..tool("n2", "z") };
    assert_eq!(registry.register(&own("n2"), louder.clone()).await.unwrap(), first);
    registry.remove(&own("n1"), "n1", "m").await.unwrap();
    for registry in [registry, over_it(&keep).await] {
        assert_eq!(names(&registry, "n2"), ["z", "a"]);
        assert_eq!(registry.tool("n2", "z"), Some(louder.clone()));
        let nodes: Vec<_> =
            registry.nodes().into_iter().map(|node| (node.node_id, node.tools)).collect();
        assert_eq!(nodes, [("n2".to_owned(), 2), ("n1".to_owned(), 0)]);
    }
}

pub(crate) async fn owners_of_names_are_kept_and_freed(keep: Any) {
    let registry = over_it(&keep).await;
    registry.register(&own("n1"), tool("n1", "say")).await.unwrap();
    registry.remove(&own("n1"), "n1", "say").await.unwrap();
    let other = NodeTool { description: "Says something else.".into(), ..tool("n2", "say") };
    let taken = NodeFault::Taken { name: "say".to_owned(), owner: "n1".to_owned() };
    let again = over_it(&keep).await;
    assert_eq!(again.register(&own("n2"), other.clone()).await, Err(taken.clone()));
    // A person frees it at one server, and the other one, which remembers an owner, looks.
    registry.remove(&Speaks::All, "n1", "say").await.unwrap();
    again.register(&own("n2"), other).await.unwrap();
    let late = registry.register(&own("n1"), tool("n1", "say")).await;
    assert!(matches!(&late, Err(NodeFault::Taken { owner, .. }) if owner == "n2"), "{late:?}");
}

pub(crate) async fn two_servers_never_give_one_name_to_two_nodes(keep: Any) {
    let (one, other) = (over_it(&keep).await, over_it(&keep).await);
    let mine = |node: &str| NodeTool { description: node.to_owned(), ..tool(node, "say") };
    let (first, second) = (own("n1"), own("n2"));
    let (won, lost) =
        tokio::join!(one.register(&first, mine("n1")), other.register(&second, mine("n2")));
    assert!(won.is_ok() != lost.is_ok(), "{won:?} {lost:?}");
    for result in [won, lost] {
        assert!(matches!(result, Ok(_) | Err(NodeFault::Taken { .. })), "{result:?}");
    }
    assert_eq!(over_it(&keep).await.nodes().iter().map(|node| node.tools).sum::<usize>(), 1);
}

#[tokio::test]
async fn a_registry_that_can_be_kept_nowhere_knows_nothing_and_says_why() {
    let why = StoreError::Unavailable("the URL cannot be used".to_owned());
    let egress = Egress::new(EgressSettings::default()).unwrap();
    let clock = Arc::new(FakeClock::default());
    let registry = Registry::shared(Arc::new(Nowhere(why)), egress, clock).await;
    assert_eq!(registry.stale().unwrap().why, "the URL cannot be used");
    let refused = registry.register(&own("n1"), tool("n1", "say")).await;
    assert_eq!(refused, Err(NodeFault::Unavailable("the URL cannot be used".to_owned())));
    assert!(registry.nodes().is_empty());
}

/// Counts who reads a key at once, and takes its time.
#[derive(Debug)]
struct Counting {
    inner: nodes::Alone,
    now: std::sync::Mutex<std::collections::HashMap<String, usize>>,
    most: std::sync::atomic::AtomicUsize,
    reads: std::sync::atomic::AtomicUsize,
}

impl nodes::Keep for Counting {
    fn all(&self) -> tool::Boxed<'_, Result<Vec<tool::Versioned>, tool::StoreError>> {
        self.inner.all()
    }
    fn get<'a>(
        &'a self,
        key: &'a str,
    ) -> tool::Boxed<'a, Result<Option<tool::Versioned>, tool::StoreError>> {
        use std::sync::atomic::Ordering::SeqCst;
        Box::pin(async move {
            let at_once = {
                let mut now = self.now.lock().unwrap();
                let count = now.entry(key.to_owned()).or_default();
                *count += 1;
                *count
            };
            self.most.fetch_max(at_once, SeqCst);
            self.reads.fetch_add(1, SeqCst);
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            let read = self.inner.get(key).await;
            *self.now.lock().unwrap().get_mut(key).unwrap() -= 1;
            read
        })
    }
    fn put<'a>(
        &'a self,
        key: &'a str,
        expect: tool::store::Expect,
        bytes: Option<bytes::Bytes>,
    ) -> tool::Boxed<'a, Result<tool::Version, tool::StoreError>> {
        self.inner.put(key, expect, bytes)
    }
    fn listen(&self) -> tool::Boxed<'_, Result<Option<Box<dyn nodes::Heard>>, tool::StoreError>> {
        self.inner.listen()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_read_anew_by_one_at_a_time_however_many_want_it() {
    use std::sync::atomic::Ordering::SeqCst;
    let keep = Arc::new(Counting {
        inner: nodes::Alone(Arc::new(store::MemoryStore::new())),
        now: std::sync::Mutex::default(),
        most: 0.into(),
        reads: 0.into(),
    });
    let any: Any = Arc::clone(&keep) as _;
    let registry = Arc::new(over_it(&any).await);
    registry.register(&own("n5"), tool("n5", "say")).await.unwrap();
    let mut all = tokio::task::JoinSet::new();
    for id in 0..50 {
        let registry = Arc::clone(&registry);
        all.spawn(async move {
            let node = format!("a{id}");
            let other = NodeTool { description: "Mine.".into(), ..tool(&node, "say") };
            registry.register(&own(&node), other).await
        });
    }
    while let Some(taken) = all.join_next().await {
        assert!(matches!(taken.unwrap(), Err(NodeFault::Taken { .. })));
    }
    assert_eq!(keep.most.load(SeqCst), 1, "one refresh in flight for a key");
    let reads = keep.reads.load(SeqCst);
    assert!((1..25).contains(&reads), "50 asked, {reads} read");
}
