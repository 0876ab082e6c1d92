use std::sync::Arc;

use egress::{EgressClient, EgressOptions};
use serde_json::json;
use store::MemoryStore;
use testkit::clock::FakeClock;
use tool::node_registry::{HeartbeatState, NodeAccess, NodeError, NodeRegistry as _, NodeTool};
use tool::{Json, Store};

use node_addresses::SharedNames;

use super::PersistentNodeRegistry;

async fn over(store: &Arc<dyn Store>) -> PersistentNodeRegistry {
    let egress = EgressClient::new(EgressOptions::default()).unwrap();
    PersistentNodeRegistry::open_local(Arc::clone(store), egress, Arc::new(FakeClock::default()))
        .await
        .unwrap()
}

async fn fresh() -> PersistentNodeRegistry {
    over(&(Arc::new(MemoryStore::new()) as Arc<dyn Store>)).await
}

fn tool(node: &str, name: &str) -> NodeTool {
    NodeTool {
        name: name.to_owned(),
        node_id: node.to_owned(),
        input_spec: Json::encode(&json!({ "text": "string" })),
        metadata: Json::encode(&json!({ "version": "1", "node_id": node })),
        description: "Says it.".to_owned(),
    }
}

fn own(node: &str) -> NodeAccess {
    NodeAccess::Node(node.to_owned())
}

#[tokio::test]
async fn a_second_registration_of_the_same_pair_is_in_the_place_of_the_first() {
    let registry = fresh().await;
    let first = registry.register_tool(&own("n1"), tool("n1", "say")).await.unwrap();
    let mut changed = tool("n1", "say");
    changed.description = "Says it louder.".to_owned();
    let second = registry.register_tool(&own("n1"), changed.clone()).await.unwrap();
    assert_eq!(first, second);
    assert_eq!(first.len(), 24);
    assert_eq!(registry.list_tools("n1"), [changed]);
}

#[tokio::test]
async fn a_key_speaks_for_its_own_node_and_no_other() {
    let registry = fresh().await;
    registry.register_tool(&own("n1"), tool("n1", "say")).await.unwrap();
    for by in [own("n2"), NodeAccess::None] {
        let foreign = Err(NodeError::NotAuthorized("n1".to_owned()));
        assert_eq!(registry.register_tool(&by, tool("n1", "say")).await, foreign.clone());
        assert_eq!(registry.remove_tool(&by, "n1", "say").await.map(|()| String::new()), foreign);
        assert_eq!(
            registry.record_heartbeat(&by, "n1", HeartbeatState::Draining),
            Err(NodeError::NotAuthorized("n1".to_owned()))
        );
    }
    assert_eq!(registry.list_tools("n1").len(), 1);
    // The control: its own key, and a person's, may.
    registry.record_heartbeat(&own("n1"), "n1", HeartbeatState::Serving).unwrap();
    registry.remove_tool(&NodeAccess::All, "n1", "say").await.unwrap();
}

/// A node that ends deregisters. A node that registers has restarted, and gets calls at once.
#[tokio::test]
async fn a_node_that_registers_is_not_ending_any_more() {
    let registry = fresh().await;
    let by = own("n1");
    registry.register_tool(&by, tool("n1", "say")).await.unwrap();
    registry.record_heartbeat(&by, "n1", HeartbeatState::Draining).unwrap();
    assert_eq!(
        registry.context.heartbeat_state("n1"),
        Some(HeartbeatState::Draining),
        "the control"
    );
    // It registers its previous tools.
    registry.register_tool(&by, tool("n1", "say")).await.unwrap();
    assert_eq!(registry.context.heartbeat_state("n1"), Some(HeartbeatState::Serving));
    // A refused registration does not affect the node.
    registry.record_heartbeat(&by, "n1", HeartbeatState::Draining).unwrap();
    registry.register_tool(&own("n2"), tool("n1", "say")).await.unwrap_err();
    assert_eq!(registry.context.heartbeat_state("n1"), Some(HeartbeatState::Draining));
}

/// An operator drains a node, whatever the node says of itself.
#[tokio::test]
async fn a_drained_node_gets_no_calls_until_it_is_resumed() {
    let registry = fresh().await;
    let by = own("n1");
    registry.register_tool(&by, tool("n1", "say")).await.unwrap();
    assert!(registry.accepts_calls("n1"), "the control");
    assert_eq!(
        registry.set_drained(&by, "n1", true),
        Err(NodeError::NotAuthorized("n1".to_owned())),
        "not the node itself"
    );
    assert_eq!(registry.set_drained(&NodeAccess::All, "n2", true), Err(NodeError::NotFound));
    registry.set_drained(&NodeAccess::All, "n1", true).unwrap();
    registry.record_heartbeat(&by, "n1", HeartbeatState::Serving).unwrap();
    registry.register_tool(&by, tool("n1", "say")).await.unwrap();
    assert!(!registry.accepts_calls("n1"));
    let status = registry.list_nodes().remove(0);
    assert!(status.is_drained);
    registry.set_drained(&NodeAccess::All, "n1", false).unwrap();
    assert!(registry.accepts_calls("n1"));
}

/// A tool that its node shares.
fn shared(node: &str, name: &str) -> NodeTool {
    let metadata = Json::encode(&json!({ "version": "1", "node_id": node, "shared": true }));
    NodeTool { metadata, ..tool(node, name) }
}

async fn offered(registry: &PersistentNodeRegistry, node: usize) -> (Vec<String>, usize) {
    use tool::Source as _;
    let listing = registry.node_sources()[node].list_offers().await.unwrap();
    let names = listing.offers.iter().map(|offer| match &offer.item {
        tool::CatalogItem::Tool(tool) => tool.name.to_string(),
        _ => String::new(),
    });
    (names.collect(), listing.problems.len())
}

#[tokio::test]
async fn a_name_is_its_first_nodes_and_others_may_have_the_same_definition_alone() {
    let registry = fresh().await;
    registry.register_tool(&own("n1"), shared("n1", "say")).await.unwrap();
    // The same tool on another node: only its place differs.
    registry.register_tool(&own("n2"), shared("n2", "say")).await.unwrap();
    let mut other = shared("n3", "say");
    other.description = "Says something else.".to_owned();
    let taken = NodeError::NameTaken { name: "say".to_owned(), owner: "n1".to_owned() };
    assert_eq!(registry.register_tool(&own("n3"), other.clone()).await, Err(taken.clone()));
    // A second node does not change it under the first one's name either.
    other.node_id = "n2".to_owned();
    other.metadata = shared("n2", "say").metadata;
    assert_eq!(registry.register_tool(&own("n2"), other).await, Err(taken));
    assert_eq!(registry.list_tools("n2"), [shared("n2", "say")]);
    // The owner changes it: until the others have the new one, the calls are its own.
    assert_eq!(offered(&registry, 1).await, (vec!["say".to_owned()], 0));
    let louder = NodeTool { description: "Louder.".to_owned(), ..shared("n1", "say") };
    registry.register_tool(&own("n1"), louder.clone()).await.unwrap();
    assert_eq!(offered(&registry, 1).await, (vec![], 1));
    let louder =
        NodeTool { node_id: "n2".to_owned(), metadata: shared("n2", "say").metadata, ..louder };
    registry.register_tool(&own("n2"), louder).await.unwrap();
    assert_eq!(offered(&registry, 1).await, (vec!["say".to_owned()], 0));
}

#[tokio::test]
async fn a_name_that_is_refused_again_and_again_is_logged_once() {
    let registry = fresh().await;
    registry.register_tool(&own("n1"), tool("n1", "say")).await.unwrap();
    let mut other = tool("n2", "say");
    other.description = "Says something else.".to_owned();
    let refused = registry.register_tool(&own("n2"), other.clone()).await.unwrap_err();
    // It was logged when it was registered, and is not logged again.
    for _ in 0..5 {
        assert!(!registry.context.log_refusal(&other, &refused));
    }
    // Positive controls: another reason, another name, and the same after it was let in meanwhile.
    let unshared = NodeError::NotShared { name: "say".to_owned(), owner: "n1".to_owned() };
    assert!(registry.context.log_refusal(&other, &unshared));
    assert!(registry.context.log_refusal(&tool("n2", "shout"), &refused));
    registry.remove_tool(&NodeAccess::All, "n1", "say").await.unwrap();
    registry.register_tool(&own("n2"), other.clone()).await.unwrap();
    assert!(registry.context.log_refusal(&other, &unshared));
}

#[tokio::test]
async fn a_tool_is_shared_where_its_owner_or_the_operator_says_so_and_nowhere_else() {
    let registry = fresh().await;
    registry.register_tool(&own("n1"), tool("n1", "say")).await.unwrap();
    let unshared = NodeError::NotShared { name: "say".to_owned(), owner: "n1".to_owned() };
    let by = own("n2");
    let copy = || registry.register_tool(&by, tool("n2", "say"));
    assert_eq!(copy().await, Err(unshared.clone()));
    assert!(registry.list_tools("n2").is_empty());
    // A claim of the copy is not the owner's: the definition differs.
    let claimed = registry.register_tool(&own("n2"), shared("n2", "say")).await;
    assert!(matches!(claimed, Err(NodeError::NameTaken { .. })), "{claimed:?}");
    // The controls: the operator's word, for as long as it holds, and the owner's.
    let patterns = |all: &[&str]| SharedNames(all.iter().map(|one| (*one).to_owned()).collect());
    registry.set_sharing(patterns(&["other", "s*"]));
    copy().await.unwrap();
    assert_eq!(offered(&registry, 1).await, (vec!["say".to_owned()], 0));
    registry.set_sharing(patterns(&["other"]));
    assert_eq!(offered(&registry, 1).await, (vec![], 1), "it was registered before");
    assert_eq!(copy().await, Err(unshared));
    assert_eq!(offered(&registry, 0).await, (vec!["say".to_owned()], 0), "the owner's stays");
    registry.register_tool(&own("n1"), shared("n1", "hear")).await.unwrap();
    registry.register_tool(&own("n2"), shared("n2", "hear")).await.unwrap();
    assert_eq!(offered(&registry, 1).await, (vec!["hear".to_owned()], 1));
    assert!(SharedNames::check_pattern("a*b").is_err() && SharedNames::check_pattern("").is_err());
    assert!(
        ["*", "fleet.*", "say"].iter().all(|pattern| SharedNames::check_pattern(pattern).is_ok())
    );
}

#[tokio::test]
async fn a_name_that_begins_with_a_nodes_id_is_that_nodes_whoever_came_first() {
    let registry = fresh().await;
    registry.set_sharing(SharedNames(["*".to_owned()].into()));
    // The node is still unknown, so a name with its ID as prefix is an ordinary name.
    registry.register_tool(&own("n2"), tool("n2", "n1.say")).await.unwrap();
    assert_eq!(offered(&registry, 0).await, (vec!["n1.say".to_owned()], 0));
    let source = &registry.node_sources()[0];
    let before = tool::Source::list_offers(source.as_ref()).await.unwrap().revision;
    let mine = NodeTool { description: "Mine.".to_owned(), ..tool("n1", "n1.say") };
    registry.register_tool(&own("n1"), mine.clone()).await.unwrap();
    // The other source is listed again without it.
    assert_ne!(tool::Source::wait_for_change(source.as_ref(), before).await, before);
    assert_eq!(offered(&registry, 0).await, (vec![], 1));
    assert_eq!(offered(&registry, 1).await, (vec!["n1.say".to_owned()], 0));
    // Nor does the same definition, or the operator's key on the other node's behalf, change that.
    let copy = NodeTool { node_id: "n2".to_owned(), metadata: tool("n2", "").metadata, ..mine };
    let reserved = NodeError::Reserved { name: "n1.say".to_owned(), owner: "n1".to_owned() };
    for by in [own("n2"), NodeAccess::All] {
        assert_eq!(registry.register_tool(&by, copy.clone()).await, Err(reserved.clone()));
    }
    // The longer ID with a dot takes precedence.
    registry.register_tool(&own("n1.a"), tool("n1.a", "n1.a.say")).await.unwrap();
    assert!(registry.register_tool(&own("n1"), tool("n1", "n1.a.other")).await.is_err());
    // The controls: its own prefix, and a word that is no node's.
    registry.register_tool(&own("n2"), tool("n2", "n2.say")).await.unwrap();
    registry.register_tool(&own("n2"), tool("n2", "n1x.say")).await.unwrap();
}

#[tokio::test]
async fn what_changes_nothing_is_said_of_the_node_that_owns_the_name() {
    use tool::{CatalogItem, Source as _};
    let registry = fresh().await;
    for (node, name) in [("n1", "say"), ("n2", "hear"), ("n2", "look")] {
        registry.register_tool(&own(node), tool(node, name)).await.unwrap();
    }
    let reads = async |words: &[&str]| {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        registry.set_read_only(option_types::ToolSelection::Named(words));
        let mut found = Vec::new();
        for source in registry.node_sources() {
            for offer in source.list_offers().await.unwrap().offers {
                let CatalogItem::Tool(tool) = offer.item else { panic!("no tool") };
                if !tool.traits.effects.may_change_state() {
                    found.push(tool.name.to_string());
                }
            }
        }
        found
    };
    assert_eq!(reads(&[]).await, [""; 0]);
    assert_eq!(reads(&["say", "look"]).await, ["say", "look"]);
    assert_eq!(reads(&["n1/hear", "n2/say", "n1/look"]).await, [""; 0], "of the owner alone");
    assert_eq!(reads(&["n2/hear", "n1/*"]).await, ["say", "hear"]);
}

#[tokio::test]
async fn nobody_takes_a_name_while_its_node_restarts_and_a_person_frees_it() {
    let registry = fresh().await;
    registry.register_tool(&own("n1"), tool("n1", "say")).await.unwrap();
    registry.remove_tool(&own("n1"), "n1", "say").await.unwrap();
    let mut other = tool("n2", "say");
    other.description = "Says something else.".to_owned();
    let taken = registry.register_tool(&own("n2"), other.clone()).await;
    assert!(matches!(taken, Err(NodeError::NameTaken { .. })), "{taken:?}");
    assert_eq!(registry.remove_tool(&own("n1"), "n1", "say").await, Err(NodeError::NotFound));
    registry.remove_tool(&NodeAccess::All, "n1", "say").await.unwrap();
    registry.register_tool(&own("n2"), other).await.unwrap();
}

#[tokio::test]
async fn what_is_kept_is_there_again_in_its_order() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let registry = over(&store).await;
    for (node, name) in [("n2", "z"), ("n1", "m"), ("n2", "a")] {
        registry.register_tool(&own(node), tool(node, name)).await.unwrap();
    }
    registry.remove_tool(&own("n1"), "n1", "m").await.unwrap();
    let again = over(&store).await;
    let names = |node| again.list_tools(node).into_iter().map(|tool| tool.name).collect::<Vec<_>>();
    assert_eq!(names("n2"), ["z", "a"]);
    assert_eq!(names("n1"), [""; 0]);
    let nodes: Vec<_> =
        again.list_nodes().into_iter().map(|node| (node.node_id, node.tool_count)).collect();
    assert_eq!(nodes, [("n2".to_owned(), 2), ("n1".to_owned(), 0)]);
    let other = NodeTool { description: "x".into(), ..tool("n3", "m") };
    let taken = again.register_tool(&own("n3"), other).await;
    assert!(matches!(taken, Err(NodeError::NameTaken { .. })), "owners are kept too");
}

#[tokio::test]
async fn what_cannot_be_a_tool_is_refused_with_its_place() {
    let registry = fresh().await;
    let unfit = async |tool: NodeTool| match registry.register_tool(&NodeAccess::All, tool).await {
        Err(NodeError::InvalidDocument(what)) => what,
        other => panic!("{other:?}"),
    };
    let base = tool("n1", "say");
    let (name, node_id) = ("a b".to_owned(), "n/1".to_owned());
    assert!(unfit(NodeTool { name, ..base.clone() }).await.starts_with("`name`: "));
    assert!(unfit(NodeTool { node_id, ..base.clone() }).await.starts_with("`node_id`: "));
    let input_spec = Json::encode(&json!(["text"]));
    let told = unfit(NodeTool { input_spec, ..base.clone() }).await;
    assert_eq!(told, "`input_spec`: it must be an object, not array");
    let metadata = Json::encode(&json!({ "node_id": "n2" }));
    let told = unfit(NodeTool { metadata, ..base.clone() }).await;
    assert_eq!(told, "`metadata`: its `node_id` differs from the tool's");
    let description = "x".repeat(300 << 10);
    assert!(unfit(NodeTool { description, ..base }).await.starts_with("the definition: "));
    assert!(registry.list_nodes().is_empty(), "nothing is left of what was refused");
}

#[tokio::test]
async fn two_servers_on_one_store_never_give_one_name_to_two_nodes() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (one, other) = (over(&store).await, over(&store).await);
    one.register_tool(&own("n1"), tool("n1", "say")).await.unwrap();
    // The other server has not received it.
    let mine = NodeTool { description: "Mine.".into(), ..tool("n2", "say") };
    let taken = other.register_tool(&own("n2"), mine).await;
    assert!(matches!(taken, Err(NodeError::NameTaken { .. })), "{taken:?}");
    let louder = NodeTool { description: "Louder.".into(), ..tool("n1", "say") };
    other.register_tool(&own("n1"), louder.clone()).await.unwrap();
    let loudest = NodeTool { description: "Loudest.".into(), ..tool("n1", "say") };
    one.register_tool(&own("n1"), loudest.clone()).await.unwrap();
    assert_eq!(over(&store).await.list_tools("n1"), [loudest]);
}

#[tokio::test]
async fn a_source_tells_when_its_node_changed() {
    use tool::{CatalogItem, Source as _};
    let registry = fresh().await;
    registry.register_tool(&own("n1"), tool("n1", "say")).await.unwrap();
    registry.register_tool(&own("n2"), tool("n2", "hear")).await.unwrap();
    let sources = registry.node_sources();
    let names: Vec<_> = sources.iter().map(|source| source.name().as_str()).collect();
    assert_eq!(names, ["node.n1", "node.n2"]);
    let listing = sources[0].list_offers().await.unwrap();
    let CatalogItem::Tool(said) = &listing.offers[0].item else { panic!("no tool") };
    assert_eq!(said.name.as_str(), "say");
    assert_eq!(said.input_schema.to_value()["properties"]["text"], json!({ "type": "string" }));
    assert!(said.raw_definition.get("metadata").unwrap().get("node_id").is_none());
    let changed = sources[0].wait_for_change(listing.revision);
    registry.remove_tool(&own("n1"), "n1", "say").await.unwrap();
    assert_ne!(changed.await, listing.revision);
    assert!(sources[0].list_offers().await.unwrap().offers.is_empty());
    assert!(Arc::ptr_eq(&registry.node_sources()[1], &sources[1]), "a node keeps its source");
}
