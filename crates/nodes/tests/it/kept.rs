//! Common tests of registry storage. Each runs with the store of one server, and, in `real::`, with
//! MongoDB.

use std::sync::Arc;

use bytes::Bytes;
use egress::{EgressClient, EgressOptions};
use nodes::{LocalRegistryStore, PersistentNodeRegistry, RegistryStore, UnavailableRegistryStore};
use serde_json::{Value, json};
use store::{MemoryStore, SqliteStore};
use testkit::clock::FakeClock;
use tool::node_registry::{NodeAccess, NodeError, NodeRegistry as _, NodeTool};
use tool::store::WritePrecondition;
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
            // The storage lives as long as the test.
            let (keep, _around) = $make.await;
            $crate::kept::$test(keep).await;
        }
    )+ };
}
pub(crate) use {each, over};

mod memory {
    super::over! { async { (std::sync::Arc::new(super::LocalRegistryStore(std::sync::Arc::new(super::MemoryStore::new()))) as _, ()) } }
}
mod sqlite {
    fn made() -> (super::Any, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let store = super::SqliteStore::open_file(folder.path().join("store.db")).unwrap();
        (std::sync::Arc::new(super::LocalRegistryStore(std::sync::Arc::new(store))), folder)
    }
    super::over! { std::future::ready(made()) }
}

pub(crate) type Any = Arc<dyn RegistryStore>;

pub(crate) fn tool(node: &str, name: &str) -> NodeTool {
    NodeTool {
        name: name.to_owned(),
        node_id: node.to_owned(),
        input_spec: Json::encode(&json!({ "text": "string" })),
        metadata: Json::encode(&json!({ "version": "1", "node_id": node })),
        description: "Says it.".to_owned(),
    }
}

fn key(node: &str, name: &str) -> String {
    format!("cluster_tool/{node}/{name}")
}

/// A record as the registry writes it. Its ID consists of node and name.
fn record(tool: &NodeTool, created: u64) -> Bytes {
    use std::hash::{Hash as _, Hasher as _};
    let mut hasher = std::hash::DefaultHasher::new();
    (&tool.node_id, &tool.name).hash(&mut hasher);
    let id = format!("{:024x}", hasher.finish());
    let tool = serde_json::to_value(tool).unwrap();
    Bytes::from(json!({ "id": id, "created": created, "tool": tool }).to_string())
}

async fn write_record(
    keep: &Any,
    tool: &NodeTool,
    expect: WritePrecondition,
    created: u64,
) -> Result<Version, StoreError> {
    let key = key(&tool.node_id, &tool.name);
    keep.put_record(&key, expect, Some(record(tool, created))).await
}

fn is_conflict(result: &Result<Version, StoreError>) -> bool {
    matches!(result, Err(StoreError::Conflict { .. }))
}

async fn created(keep: &Any, key: &str) -> (u64, Version) {
    let row = keep.get_record(key).await.unwrap().unwrap();
    let read: Value = serde_json::from_slice(&row.bytes).unwrap();
    (read["created"].as_u64().unwrap(), row.version)
}

pub(crate) async fn what_is_put_is_read_again(keep: Any) {
    assert_eq!(keep.get_record(&key("n", "say")).await.unwrap(), None);
    let version =
        write_record(&keep, &tool("n", "say"), WritePrecondition::Absent, 7).await.unwrap();
    let row = keep.get_record(&key("n", "say")).await.unwrap().unwrap();
    assert_eq!((row.key, row.version, row.is_removal), (key("n", "say"), version, false));
    assert_eq!(row.bytes, record(&tool("n", "say"), 7));
    let owner = Bytes::from_static(b"{\"node\":\"n\",\"print\":\"0\"}");
    let version = keep
        .put_record("cluster_owner/say", WritePrecondition::Absent, Some(owner.clone()))
        .await
        .unwrap();
    let row = keep.get_record("cluster_owner/say").await.unwrap().unwrap();
    assert_eq!((row.bytes, row.version), (owner, version));
    assert_eq!(keep.get_record("cluster_owner/other").await.unwrap(), None);
}

pub(crate) async fn a_write_needs_what_stands_there(keep: Any) {
    let said = tool("n", "say");
    let first = write_record(&keep, &said, WritePrecondition::Absent, 1).await.unwrap();
    assert!(is_conflict(&write_record(&keep, &said, WritePrecondition::Absent, 2).await));
    let second = write_record(&keep, &said, WritePrecondition::Version(first), 2).await.unwrap();
    assert!(second > first);
    assert!(is_conflict(&write_record(&keep, &said, WritePrecondition::Version(first), 3).await));
    assert!(is_conflict(
        &keep.put_record(&key("n", "say"), WritePrecondition::Version(first), None).await
    ));
    assert_eq!(created(&keep, &key("n", "say")).await, (2, second));
    let other =
        write_record(&keep, &tool("n", "hear"), WritePrecondition::Absent, 1).await.unwrap();
    assert!(is_conflict(&write_record(&keep, &said, WritePrecondition::Version(other), 3).await));
}

pub(crate) async fn a_removed_key_is_absent_and_comes_back_newer(keep: Any) {
    let said = tool("n", "say");
    let first = write_record(&keep, &said, WritePrecondition::Absent, 1).await.unwrap();
    keep.put_record(&key("n", "say"), WritePrecondition::Version(first), None).await.unwrap();
    assert_eq!(keep.get_record(&key("n", "say")).await.unwrap(), None);
    assert!(is_conflict(&write_record(&keep, &said, WritePrecondition::Version(first), 2).await));
    assert!(is_conflict(
        &keep.put_record(&key("n", "say"), WritePrecondition::Version(first), None).await
    ));
    assert!(write_record(&keep, &said, WritePrecondition::Absent, 2).await.unwrap() > first);
}

pub(crate) async fn name_and_node_are_unique_together(keep: Any) {
    for (node, name) in [("n", "say"), ("m", "say"), ("n", "hear"), ("say", "n")] {
        write_record(&keep, &tool(node, name), WritePrecondition::Absent, 1).await.unwrap();
    }
    for (node, name) in [("n", "say"), ("say", "n")] {
        assert!(is_conflict(
            &write_record(&keep, &tool(node, name), WritePrecondition::Absent, 2).await
        ));
        assert_eq!(created(&keep, &key(node, name)).await.0, 1);
    }
}

pub(crate) async fn definitions_come_back_as_they_were(keep: Any) {
    let spec = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
        "properties": {"z": {"$ref": "#/$defs/a.b"}, "a": {"const": [1, -2, 4_294_967_296_i64, 1.5, null, true, "é"]}},
        "$defs": {"a.b": {"description": "\u{1f600} \"quoted\"\n", "": {}, "minimum": -0.5e-7}},
    });
    let odd = NodeTool { input_spec: Json::encode(&spec), ..tool("n", "odd") };
    let odd = keep.normalize_tool(odd).unwrap();
    write_record(&keep, &odd, WritePrecondition::Absent, 1).await.unwrap();
    let row = keep.get_record(&key("n", "odd")).await.unwrap().unwrap();
    assert_eq!(row.bytes, record(&odd, 1));
    assert_eq!(odd.input_spec.to_value(), spec);
    assert_eq!(keep.normalize_tool(odd.clone()).unwrap(), odd, "once is enough");
}

pub(crate) async fn of_racing_makers_one_wins(keep: Any) {
    let mut racers = tokio::task::JoinSet::new();
    for racer in 0..20 {
        let keep = Arc::clone(&keep);
        racers.spawn(async move {
            write_record(&keep, &tool("n", "say"), WritePrecondition::Absent, racer).await
        });
    }
    let results = racers.join_all().await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{results:?}");
    assert_eq!(results.iter().filter(|result| is_conflict(result)).count(), 19, "{results:?}");
}

pub(crate) async fn racing_increments_lose_nothing(keep: Any) {
    write_record(&keep, &tool("n", "say"), WritePrecondition::Absent, 0).await.unwrap();
    let mut racers = tokio::task::JoinSet::new();
    for _ in 0..5 {
        let keep = Arc::clone(&keep);
        racers.spawn(async move {
            for _ in 0..10 {
                loop {
                    let (count, version) = created(&keep, &key("n", "say")).await;
                    let said = tool("n", "say");
                    match write_record(&keep, &said, WritePrecondition::Version(version), count + 1)
                        .await
                    {
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
    write_record(&keep, &tool("n", "say"), WritePrecondition::Absent, 1).await.unwrap();
    let owner = some("{\"node\":\"n\",\"print\":\"0\"}");
    keep.put_record("cluster_owner/say", WritePrecondition::Absent, owner).await.unwrap();
    keep.put_record("cluster_node/n", WritePrecondition::Absent, some("{\"created\":1}"))
        .await
        .unwrap();
    let gone =
        keep.put_record("cluster_owner/gone", WritePrecondition::Absent, some("{}")).await.unwrap();
    keep.put_record("cluster_owner/gone", WritePrecondition::Version(gone), None).await.unwrap();
    let all: Vec<_> = keep.load_all().await.unwrap().into_iter().map(|row| row.key).collect();
    assert_eq!(all, ["cluster_node/n", "cluster_owner/say", "cluster_tool/n/say"]);
}

pub(crate) async fn open_registry(keep: &Any) -> PersistentNodeRegistry {
    let egress = EgressClient::new(EgressOptions::default()).unwrap();
    let registry = PersistentNodeRegistry::open_shared(
        Arc::clone(keep),
        egress,
        Arc::new(FakeClock::default()),
    )
    .await;
    assert_eq!(registry.staleness(), None);
    registry
}

pub(crate) fn node_access(node: &str) -> NodeAccess {
    NodeAccess::Node(node.to_owned())
}

pub(crate) fn tool_names(registry: &PersistentNodeRegistry, node: &str) -> Vec<String> {
    registry.list_tools(node).into_iter().map(|tool| tool.name).collect()
}

pub(crate) async fn a_registry_is_there_again_in_its_order(keep: Any) {
    let registry = open_registry(&keep).await;
    for (node, name) in [("n2", "z"), ("n1", "m"), ("n2", "a")] {
        registry.register_tool(&node_access(node), tool(node, name)).await.unwrap();
    }
    let first = registry.register_tool(&node_access("n2"), tool("n2", "z")).await.unwrap();
    let louder = NodeTool { description: "Louder.".into(), ..tool("n2", "z") };
    assert_eq!(registry.register_tool(&node_access("n2"), louder.clone()).await.unwrap(), first);
    registry.remove_tool(&node_access("n1"), "n1", "m").await.unwrap();
    for registry in [registry, open_registry(&keep).await] {
        assert_eq!(tool_names(&registry, "n2"), ["z", "a"]);
        assert_eq!(registry.find_tool("n2", "z"), Some(louder.clone()));
        let nodes: Vec<_> =
            registry.list_nodes().into_iter().map(|node| (node.node_id, node.tool_count)).collect();
        assert_eq!(nodes, [("n2".to_owned(), 2), ("n1".to_owned(), 0)]);
    }
}

pub(crate) async fn owners_of_names_are_kept_and_freed(keep: Any) {
    let registry = open_registry(&keep).await;
    registry.register_tool(&node_access("n1"), tool("n1", "say")).await.unwrap();
    registry.remove_tool(&node_access("n1"), "n1", "say").await.unwrap();
    let other = NodeTool { description: "Says something else.".into(), ..tool("n2", "say") };
    let taken = NodeError::NameTaken { name: "say".to_owned(), owner: "n1".to_owned() };
    let again = open_registry(&keep).await;
    assert_eq!(again.register_tool(&node_access("n2"), other.clone()).await, Err(taken.clone()));
    // A person frees it at one server, and the other one, which remembers an owner, looks.
    registry.remove_tool(&NodeAccess::All, "n1", "say").await.unwrap();
    again.register_tool(&node_access("n2"), other).await.unwrap();
    let late = registry.register_tool(&node_access("n1"), tool("n1", "say")).await;
    assert!(matches!(&late, Err(NodeError::NameTaken { owner, .. }) if owner == "n2"), "{late:?}");
}

pub(crate) async fn two_servers_never_give_one_name_to_two_nodes(keep: Any) {
    let (one, other) = (open_registry(&keep).await, open_registry(&keep).await);
    let mine = |node: &str| NodeTool { description: node.to_owned(), ..tool(node, "say") };
    let (first, second) = (node_access("n1"), node_access("n2"));
    let (won, lost) = tokio::join!(
        one.register_tool(&first, mine("n1")),
        other.register_tool(&second, mine("n2"))
    );
    assert!(won.is_ok() != lost.is_ok(), "{won:?} {lost:?}");
    for result in [won, lost] {
        assert!(matches!(result, Ok(_) | Err(NodeError::NameTaken { .. })), "{result:?}");
    }
    assert_eq!(
        open_registry(&keep).await.list_nodes().iter().map(|node| node.tool_count).sum::<usize>(),
        1
    );
}

#[tokio::test]
async fn a_registry_that_can_be_kept_nowhere_knows_nothing_and_says_why() {
    let why = StoreError::Unavailable("the URL cannot be used".to_owned());
    let egress = EgressClient::new(EgressOptions::default()).unwrap();
    let clock = Arc::new(FakeClock::default());
    let registry =
        PersistentNodeRegistry::open_shared(Arc::new(UnavailableRegistryStore(why)), egress, clock)
            .await;
    assert_eq!(registry.staleness().unwrap().reason, "the URL cannot be used");
    let refused = registry.register_tool(&node_access("n1"), tool("n1", "say")).await;
    assert_eq!(refused, Err(NodeError::Unavailable("the URL cannot be used".to_owned())));
    assert!(registry.list_nodes().is_empty());
}

/// Counts concurrent reads of a key, and delays them.
#[derive(Debug)]
struct CountingStore {
    inner: nodes::LocalRegistryStore,
    now: std::sync::Mutex<std::collections::HashMap<String, usize>>,
    most: std::sync::atomic::AtomicUsize,
    reads: std::sync::atomic::AtomicUsize,
}

impl nodes::RegistryStore for CountingStore {
    fn load_all(&self) -> tool::BoxFuture<'_, Result<Vec<tool::VersionedValue>, tool::StoreError>> {
        self.inner.load_all()
    }
    fn get_record<'a>(
        &'a self,
        key: &'a str,
    ) -> tool::BoxFuture<'a, Result<Option<tool::VersionedValue>, tool::StoreError>> {
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
            let read = self.inner.get_record(key).await;
            *self.now.lock().unwrap().get_mut(key).unwrap() -= 1;
            read
        })
    }
    fn put_record<'a>(
        &'a self,
        key: &'a str,
        expect: tool::store::WritePrecondition,
        bytes: Option<bytes::Bytes>,
    ) -> tool::BoxFuture<'a, Result<tool::Version, tool::StoreError>> {
        self.inner.put_record(key, expect, bytes)
    }
    fn subscribe_changes(
        &self,
    ) -> tool::BoxFuture<'_, Result<Option<Box<dyn nodes::ChangeReceiver>>, tool::StoreError>> {
        self.inner.subscribe_changes()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_read_anew_by_one_at_a_time_however_many_want_it() {
    use std::sync::atomic::Ordering::SeqCst;
    let keep = Arc::new(CountingStore {
        inner: nodes::LocalRegistryStore(Arc::new(store::MemoryStore::new())),
        now: std::sync::Mutex::default(),
        most: 0.into(),
        reads: 0.into(),
    });
    let any: Any = Arc::clone(&keep) as _;
    let registry = Arc::new(open_registry(&any).await);
    registry.register_tool(&node_access("n5"), tool("n5", "say")).await.unwrap();
    let mut all = tokio::task::JoinSet::new();
    for id in 0..50 {
        let registry = Arc::clone(&registry);
        all.spawn(async move {
            let node = format!("a{id}");
            let other = NodeTool { description: "Mine.".into(), ..tool(&node, "say") };
            registry.register_tool(&node_access(&node), other).await
        });
    }
    while let Some(taken) = all.join_next().await {
        assert!(matches!(taken.unwrap(), Err(NodeError::NameTaken { .. })));
    }
    assert_eq!(keep.most.load(SeqCst), 1, "one refresh in flight for a key");
    let reads = keep.reads.load(SeqCst);
    assert!((1..25).contains(&reads), "50 asked, {reads} read");
}
