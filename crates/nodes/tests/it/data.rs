//! Attack inputs from shared data, where they are there: `authz_cases`, family registry spoofing. No name
//! is taken, no tool is replaced by another's, and nobody is called in the place of a node.

use std::sync::Arc;
use std::time::SystemTime;

use nodes::{Addresses, Authority, Registry};
use proto::tls::NodeKey;
use serde_json::json;
use testkit::clock::FakeClock;
use testkit::context::{caller, context};
use testkit::data::rows;
use tool::executor::Sent;
use tool::node::{Beat, NodeFault, NodeTool, Nodes as _, Speaks, Unresolved};
use tool::{Clock as _, Code, Json, Mono, Wall};

use crate::kept::{names, own, tool};
use crate::kubernetes::{Api, Found};
use crate::support::{Heard, Node, call, has, live, registry, timed};

/// The rows of other parts, each with the test that plays it there.
const ELSEWHERE: [(&str, &str); 9] = [
    (
        "node registers built-in name",
        "toolkeep: a_node_that_takes_a_built_in_tools_name_gets_no_call_of_it",
    ),
    (
        "manifest tools with prefix of another module",
        "upstreams: a_foreign_prefix_is_dropped_and_the_others_stay",
    ),
    (
        "module 307-redirects /execute to another module",
        "upstreams: a_module_that_sends_a_call_to_another_one_is_not_followed",
    ),
    (
        "module answers for another tool_name",
        "upstreams: an_answer_that_names_another_tool_is_the_answer_to_what_was_asked",
    ),
    (
        "plugin manifest names module outside its folder",
        "plugins: a_module_is_a_file_of_the_folder_s12",
    ),
    (
        "plugin hash changed since approval",
        "toolkeep: a_changed_folder_waits_for_a_look_where_plugins_are_not_trusted",
    ),
    ("plugin world-writable", "plugins: a_folder_that_anybody_may_change_is_refused"),
    ("MCP server same name twice", "toolkeep: of_two_sources_with_one_name_the_first_stays"),
    (
        "stdio MCP command changed in config by API (needs owner)",
        "server: no_route_adds_or_changes_a_source",
    ),
];
/// What no registry can see: which code a package's newest version is.
const NOT_HERE: &str = "npx/uvx \"latest\" resolves to other code";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_takes_a_name_replaces_a_tool_or_is_called_in_a_nodes_place() {
    let mut rows = rows("attacks/authz_cases.jsonl");
    rows.retain(|row| row["family"] == "registry-spoofing");
    assert_eq!(rows.len(), 18);
    let mut played = 0;
    for row in &rows {
        let name = row["name"].as_str().unwrap();
        match name {
            "node replays an old registration" => replayed().await,
            "register with endpoint 169.254.169.254" => with_an_endpoint().await,
            "heartbeat forged" => beats_forged().await,
            "plaintext gRPC from node" => plaintext().await,
            "gRPC server name mismatch" => another_name().await,
            "K8s label nodeID set by a workload (label spoof)" => label_spoofed().await,
            "pod IP reuse after node loss" => address_reused().await,
            "first-match resolution among many nodes (seed 004): attacker inserts first" => {
                first_of_many().await;
            }
            other => {
                let known = ELSEWHERE.iter().any(|(name, _)| *name == other) || other == NOT_HERE;
                assert!(known, "a row that this test does not know: {other}");
                continue;
            }
        }
        played += 1;
    }
    println!(
        "authz_cases, registry spoofing: {played} of {} rows played here, 0 taken",
        rows.len()
    );
    assert_eq!(played, 8);
}

async fn three_nodes() -> Registry {
    let registry = registry(None, &[]).await;
    registry.register(&own("n1"), tool("n1", "say")).await.unwrap();
    registry
}

async fn replayed() {
    let registry = three_nodes().await;
    let old = tool("n1", "say");
    let new = NodeTool { description: "Newer.".into(), ..old.clone() };
    registry.register(&own("n1"), new.clone()).await.unwrap();
    // What was heard on the wire, sent again with a key of one's own.
    for by in [own("evil"), Speaks::None] {
        let foreign = registry.register(&by, old.clone()).await;
        assert_eq!(foreign, Err(NodeFault::Foreign("n1".to_owned())));
    }
    assert_eq!(registry.tool("n1", "say"), Some(new));
    // Freed and taken by another, the old one does not come back over it.
    registry.remove(&Speaks::All, "n1", "say").await.unwrap();
    let others = NodeTool { description: "Another's.".into(), ..tool("n2", "say") };
    registry.register(&own("n2"), others.clone()).await.unwrap();
    let back = registry.register(&own("n1"), old.clone()).await;
    assert!(matches!(back, Err(NodeFault::Taken { .. })), "{back:?}");
    assert_eq!(registry.tool("n2", "say"), Some(others));
    // The control: the owner's own is taken.
    registry.remove(&Speaks::All, "n2", "say").await.unwrap();
    registry.register(&own("n1"), old).await.unwrap();
}

async fn with_an_endpoint() {
    let registry = three_nodes().await;
    for key in ["endpoint", "host", "address", "ip"] {
        let metadata = json!({ key: "169.254.169.254:50051", "node_id": "n1" });
        let said = NodeTool { metadata: Json::of(&metadata), ..tool("n1", "say") };
        registry.register(&own("n1"), said).await.unwrap();
        let unknown = Err(Unresolved::Unknown("n1".to_owned()));
        assert_eq!(
            registry.endpoint("n1"),
            unknown,
            "what a node says of itself counts for nothing"
        );
    }
    // Nor is it called where Kubernetes repeats what the node says.
    let api = Api::start().await;
    api.put("k1", Some("n1"), Some("169.254.169.254"));
    let found = Found::by(&api, false, &["n1"], None).await;
    found.at("n1", "169.254.169.254:50051").await;
    let caller = caller();
    let refused = call(&found.registry, "echo", "{}", &context(&caller)).await.unwrap_err();
    assert_eq!((refused.code, refused.sent), (Code::UpstreamLost, Sent::No), "{refused}");
}

async fn beats_forged() {
    let registry = three_nodes().await;
    registry.beat(&own("n1"), "n1", Beat::Serving).unwrap();
    for by in [own("evil"), Speaks::None] {
        let forged = registry.beat(&by, "n1", Beat::Draining);
        assert_eq!(forged, Err(NodeFault::Foreign("n1".to_owned())));
    }
    assert_eq!(registry.nodes()[0].beat.map(|(beat, _)| beat), Some(Beat::Serving));
    registry.beat(&own("n1"), "n1", Beat::Draining).unwrap();
    assert_eq!(registry.nodes()[0].beat.map(|(beat, _)| beat), Some(Beat::Draining));
}

async fn plaintext() {
    let mut node = Node::start().await;
    let registry = registry(None, &["echo"]).await;
    let url =
        |url: String| Addresses { nodes: [("n1".to_owned(), url)].into(), ..Addresses::default() };
    let caller = caller();
    // Beyond this machine it is no accident, and where TLS is asked for nothing else will do.
    registry.set_addresses(url("http://10.42.0.12:50051".to_owned()));
    let refused = call(&registry, "echo", "{}", &context(&caller)).await.unwrap_err();
    assert!(refused.message.contains("plaintext") && refused.sent == Sent::No, "{refused}");
    registry.set_addresses(url(format!("https://{}", node.address)));
    authority(&registry);
    let refused = call(&registry, "echo", "{}", &context(&caller)).await.unwrap_err();
    assert_eq!((refused.code, refused.sent), (Code::UpstreamLost, Sent::No), "{refused}");
    assert!(node.heard.try_recv().is_err(), "it got no call");
    live(&registry, &[("n1", node.address)]);
    call(&registry, "echo", "{}", &context(&caller)).await.unwrap();
    assert!(matches!(node.next().await, Heard::Call { .. }));
}

/// Stands still, but for certificates, which are judged by the machine's own time.
#[derive(Debug)]
struct Today;

impl tool::Clock for Today {
    #[expect(clippy::disallowed_methods, reason = "certificates are judged by it")]
    fn wall(&self) -> Wall {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        Wall(u64::try_from(now.as_millis()).unwrap())
    }
    fn mono(&self) -> Mono {
        FakeClock::default().mono()
    }
}

fn authority(registry: &Registry) -> Authority {
    let kept = Authority::make(Today.wall()).unwrap();
    registry.set_authority(Authority::open(&kept).unwrap()).unwrap();
    Authority::open(&kept).unwrap()
}

/// A node that shows the certificate of `id`, of this authority.
async fn showing(id: &str, authority: &Authority, at: &str) -> Node {
    let key = NodeKey::new().unwrap();
    let (public, proof) = (key.public().to_vec(), key.prove(id).unwrap());
    let now = Today.wall();
    let signed = authority.certify(id, (&public, &proof), now).unwrap();
    let identity =
        proto::tls::Identity::of_pem(&signed.certificate, &key.pem().unwrap(), &signed.authority);
    Node::showing(at, identity.unwrap().server().unwrap()).await
}

fn over_tls(registry: &Registry, id: &str, at: std::net::SocketAddr) {
    let nodes = [(id.to_owned(), format!("https://{at}"))].into();
    registry.set_addresses(Addresses { nodes, ..Addresses::default() });
}

async fn another_name() {
    let registry = timed(Arc::new(Today), None, &["echo"]).await;
    let authority = authority(&registry);
    let caller = caller();
    let mut evil = showing("evil", &authority, "127.0.0.1:0").await;
    over_tls(&registry, "n1", evil.address);
    let refused = call(&registry, "echo", "{}", &context(&caller)).await.unwrap_err();
    assert_eq!((refused.code, refused.sent), (Code::UpstreamLost, Sent::No), "{refused}");
    assert!(evil.heard.try_recv().is_err());
    let mut right = showing("n1", &authority, "127.0.0.1:0").await;
    over_tls(&registry, "n1", right.address);
    call(&registry, "echo", "{}", &context(&caller)).await.unwrap();
    assert!(matches!(right.next().await, Heard::Call { .. }));
}

async fn label_spoofed() {
    let api = Api::start().await;
    let mut right = Node::at("127.0.0.21:0").await;
    let port = right.address.port();
    let mut evil = Node::at(&format!("127.0.0.22:{port}")).await;
    api.put("k1", Some("n1"), Some("127.0.0.21"));
    let found = Found::calling(&api, port, &["n1"]).await;
    found.at("n1", &format!("127.0.0.21:{port}")).await;
    let caller = caller();
    api.put("zz", Some("n1"), Some("127.0.0.22"));
    found.until("n1", |now| now.as_ref().is_err_and(|e| e.to_string().contains("several"))).await;
    let refused = call(&found.registry, "echo", "{}", &context(&caller)).await.unwrap_err();
    assert_eq!((refused.code, refused.sent), (Code::UpstreamLost, Sent::No), "{refused}");
    api.put("zz", Some("n9"), Some("127.0.0.22"));
    found.at("n1", &format!("127.0.0.21:{port}")).await;
    call(&found.registry, "echo", "{}", &context(&caller)).await.unwrap();
    assert!(matches!(right.next().await, Heard::Call { .. }));
    assert!(evil.heard.try_recv().is_err());
}

/// One call reaches this node.
async fn reached(registry: &Registry, node: &mut Node) {
    let caller = caller();
    call(registry, "echo", "{}", &context(&caller)).await.unwrap();
    assert!(matches!(node.next().await, Heard::Call { .. }));
}

async fn address_reused() {
    let registry = timed(Arc::new(Today), None, &["echo"]).await;
    let authority = authority(&registry);
    let caller = caller();
    let mut first = showing("n1", &authority, "127.0.0.1:0").await;
    let address = first.address;
    over_tls(&registry, "n1", address);
    reached(&registry, &mut first).await;
    // The node is lost, and another one gets its address.
    first.kill();
    let mut next = showing("n2", &authority, &address.to_string()).await;
    for _ in 0..3 {
        let refused = call(&registry, "echo", "{}", &context(&caller)).await.unwrap_err();
        assert_eq!(refused.code, Code::UpstreamLost, "{refused}");
    }
    assert!(next.heard.try_recv().is_err(), "a call of n1's reached n2");
    next.kill();
    // The control: the same node, back at its place.
    let mut back = showing("n1", &authority, &address.to_string()).await;
    reached(&registry, &mut back).await;
}

async fn first_of_many() {
    // The attacker comes first to a name that it does not have yet, under many nodes; the owner keeps its.
    let registry = registry(None, &[]).await;
    registry.register(&own("n5"), tool("n5", "say")).await.unwrap();
    for id in 0..20 {
        let evil = format!("a{id}");
        let other = NodeTool { description: "Mine.".into(), ..tool(&evil, "say") };
        let taken = registry.register(&own(&evil), other).await;
        assert!(
            matches!(&taken, Err(NodeFault::Taken { owner, .. }) if owner == "n5"),
            "{taken:?}"
        );
        assert_eq!(names(&registry, &evil), [""; 0]);
    }
    let asked = registry.nodes().into_iter().find(|node| node.tools > 0).unwrap();
    assert_eq!(asked.node_id, "n5");
    has(&registry, "n6", &["other"]).await;
    assert_eq!(names(&registry, "n6"), ["other"]);
}
