//! Attack inputs from shared data, if available: `authz_cases`, family registry spoofing. No name
//! is taken over, no tool is replaced by another node's, and no node is called in place of another.

use std::sync::Arc;
use std::time::SystemTime;

use nodes::{CertificateAuthority, NodeAddresses, PersistentNodeRegistry};
use proto::tls::NodeKey;
use serde_json::json;
use testkit::clock::FakeClock;
use testkit::context::{quiet_context, test_caller};
use testkit::shared_data::read_rows;
use tool::executor::DispatchState;
use tool::node_registry::{
    HeartbeatState, KeyProof, NodeAccess, NodeError, NodeRegistry as _, NodeTool, ResolveError,
};
use tool::{Clock as _, ErrorCode, Json, MonotonicTime, WallTime};

use crate::kept::{node_access, tool, tool_names};
use crate::kubernetes::{FakeApiServer, LocatorFixture};
use crate::support::{Node, NodeEvent, call, register_tools, registry, set_node_addresses, timed};

/// The rows of other parts, each with the test that plays it there.
const TESTED_ELSEWHERE: [(&str, &str); 9] = [
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
/// Facts that no registry can know, such as the code of a package's newest version.
const NOT_APPLICABLE: &str = "npx/uvx \"latest\" resolves to other code";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_takes_a_name_replaces_a_tool_or_is_called_in_a_nodes_place() {
    let mut rows = read_rows("attacks/authz_cases.jsonl");
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
                let known = TESTED_ELSEWHERE.iter().any(|(name, _)| *name == other)
                    || other == NOT_APPLICABLE;
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

async fn three_nodes() -> PersistentNodeRegistry {
    let registry = registry(None, &[]).await;
    registry.register_tool(&node_access("n1"), tool("n1", "say")).await.unwrap();
    registry
}

async fn replayed() {
    let registry = three_nodes().await;
    let old = tool("n1", "say");
    let new = NodeTool { description: "Newer.".into(), ..old.clone() };
    registry.register_tool(&node_access("n1"), new.clone()).await.unwrap();
    // Replays captured messages with the attacker's own key.
    for by in [node_access("evil"), NodeAccess::None] {
        let foreign = registry.register_tool(&by, old.clone()).await;
        assert_eq!(foreign, Err(NodeError::NotAuthorized("n1".to_owned())));
    }
    assert_eq!(registry.find_tool("n1", "say"), Some(new));
    // Freed and taken by another, the old one does not come back over it.
    registry.remove_tool(&NodeAccess::All, "n1", "say").await.unwrap();
    let others = NodeTool { description: "Another's.".into(), ..tool("n2", "say") };
    registry.register_tool(&node_access("n2"), others.clone()).await.unwrap();
    let back = registry.register_tool(&node_access("n1"), old.clone()).await;
    assert!(matches!(back, Err(NodeError::NameTaken { .. })), "{back:?}");
    assert_eq!(registry.find_tool("n2", "say"), Some(others));
    // Control: the owner's own registration is accepted.
    registry.remove_tool(&NodeAccess::All, "n2", "say").await.unwrap();
    registry.register_tool(&node_access("n1"), old).await.unwrap();
}

async fn with_an_endpoint() {
    let registry = three_nodes().await;
    for key in ["endpoint", "host", "address", "ip"] {
        let metadata = json!({ key: "169.254.169.254:50051", "node_id": "n1" });
        let said = NodeTool { metadata: Json::encode(&metadata), ..tool("n1", "say") };
        registry.register_tool(&node_access("n1"), said).await.unwrap();
        let unknown = Err(ResolveError::NoAddress("n1".to_owned()));
        assert_eq!(
            registry.resolve_endpoint("n1"),
            unknown,
            "what a node says of itself counts for nothing"
        );
    }
    // It is not called either if Kubernetes repeats the node's claim.
    let api = FakeApiServer::start().await;
    api.put_node("k1", Some("n1"), Some("169.254.169.254"));
    let found = LocatorFixture::by(&api, false, &["n1"], None).await;
    found.at("n1", "169.254.169.254:50051").await;
    let caller = test_caller();
    let refused = call(&found.registry, "echo", "{}", &quiet_context(&caller)).await.unwrap_err();
    assert_eq!(
        (refused.code, refused.dispatch),
        (ErrorCode::UpstreamLost, DispatchState::NotSent),
        "{refused}"
    );
}

async fn beats_forged() {
    let registry = three_nodes().await;
    registry.record_heartbeat(&node_access("n1"), "n1", HeartbeatState::Serving).unwrap();
    for by in [node_access("evil"), NodeAccess::None] {
        let forged = registry.record_heartbeat(&by, "n1", HeartbeatState::Draining);
        assert_eq!(forged, Err(NodeError::NotAuthorized("n1".to_owned())));
    }
    assert_eq!(
        registry.list_nodes()[0].last_heartbeat.map(|beat| beat.state),
        Some(HeartbeatState::Serving)
    );
    registry.record_heartbeat(&node_access("n1"), "n1", HeartbeatState::Draining).unwrap();
    assert_eq!(
        registry.list_nodes()[0].last_heartbeat.map(|beat| beat.state),
        Some(HeartbeatState::Draining)
    );
}

async fn plaintext() {
    let mut node = Node::start().await;
    let registry = registry(None, &["echo"]).await;
    let url = |url: String| NodeAddresses {
        urls: [("n1".to_owned(), url)].into(),
        ..NodeAddresses::default()
    };
    let caller = test_caller();
    // Beyond this machine, plaintext is not allowed; with TLS configured, nothing else is.
    registry.set_addresses(url("http://10.42.0.12:50051".to_owned()));
    let refused = call(&registry, "echo", "{}", &quiet_context(&caller)).await.unwrap_err();
    assert!(
        refused.message.contains("plaintext") && refused.dispatch == DispatchState::NotSent,
        "{refused}"
    );
    registry.set_addresses(url(format!("https://{}", node.address)));
    authority(&registry);
    let refused = call(&registry, "echo", "{}", &quiet_context(&caller)).await.unwrap_err();
    assert_eq!(
        (refused.code, refused.dispatch),
        (ErrorCode::UpstreamLost, DispatchState::NotSent),
        "{refused}"
    );
    assert!(node.events.try_recv().is_err(), "it got no call");
    set_node_addresses(&registry, &[("n1", node.address)]);
    call(&registry, "echo", "{}", &quiet_context(&caller)).await.unwrap();
    assert!(matches!(node.next().await, NodeEvent::Call { .. }));
}

/// Stands still, but for certificates, which are judged by the machine's own time.
#[derive(Debug)]
struct CurrentClock;

impl tool::Clock for CurrentClock {
    #[expect(clippy::disallowed_methods, reason = "certificates are judged by it")]
    fn wall_now(&self) -> WallTime {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        WallTime(u64::try_from(now.as_millis()).unwrap())
    }
    fn monotonic_now(&self) -> MonotonicTime {
        FakeClock::default().monotonic_now()
    }
}

fn authority(registry: &PersistentNodeRegistry) -> CertificateAuthority {
    let kept = CertificateAuthority::generate(CurrentClock.wall_now()).unwrap();
    registry.set_authority(CertificateAuthority::from_stored(&kept).unwrap()).unwrap();
    CertificateAuthority::from_stored(&kept).unwrap()
}

/// A node that shows the certificate of `id`, of this authority.
async fn start_node_with_certificate(id: &str, authority: &CertificateAuthority, at: &str) -> Node {
    let key = NodeKey::generate().unwrap();
    let signature = key.sign_proof(id).unwrap();
    let proof = KeyProof { public_key: key.public_key(), signature: &signature };
    let now = CurrentClock.wall_now();
    let signed = authority.issue_node_certificate(id, proof, now).unwrap();
    let identity = proto::tls::TlsIdentity::from_pem(
        &signed.certificate_pem,
        &key.private_key_pem().unwrap(),
        &signed.ca_certificate_pem,
    );
    Node::start_with_tls(at, identity.unwrap().server_config().unwrap()).await
}

fn set_https_address(registry: &PersistentNodeRegistry, id: &str, at: std::net::SocketAddr) {
    let nodes = [(id.to_owned(), format!("https://{at}"))].into();
    registry.set_addresses(NodeAddresses { urls: nodes, ..NodeAddresses::default() });
}

async fn another_name() {
    let registry = timed(Arc::new(CurrentClock), None, &["echo"]).await;
    let authority = authority(&registry);
    let caller = test_caller();
    let mut evil = start_node_with_certificate("evil", &authority, "127.0.0.1:0").await;
    set_https_address(&registry, "n1", evil.address);
    let refused = call(&registry, "echo", "{}", &quiet_context(&caller)).await.unwrap_err();
    assert_eq!(
        (refused.code, refused.dispatch),
        (ErrorCode::UpstreamLost, DispatchState::NotSent),
        "{refused}"
    );
    assert!(evil.events.try_recv().is_err());
    let mut right = start_node_with_certificate("n1", &authority, "127.0.0.1:0").await;
    set_https_address(&registry, "n1", right.address);
    call(&registry, "echo", "{}", &quiet_context(&caller)).await.unwrap();
    assert!(matches!(right.next().await, NodeEvent::Call { .. }));
}

async fn label_spoofed() {
    let api = FakeApiServer::start().await;
    let mut right = Node::start_at("127.0.0.21:0").await;
    let port = right.address.port();
    let mut evil = Node::start_at(&format!("127.0.0.22:{port}")).await;
    api.put_node("k1", Some("n1"), Some("127.0.0.21"));
    let found = LocatorFixture::calling(&api, port, &["n1"]).await;
    found.at("n1", &format!("127.0.0.21:{port}")).await;
    let caller = test_caller();
    api.put_node("zz", Some("n1"), Some("127.0.0.22"));
    found.until("n1", |now| now.as_ref().is_err_and(|e| e.to_string().contains("several"))).await;
    let refused = call(&found.registry, "echo", "{}", &quiet_context(&caller)).await.unwrap_err();
    assert_eq!(
        (refused.code, refused.dispatch),
        (ErrorCode::UpstreamLost, DispatchState::NotSent),
        "{refused}"
    );
    api.put_node("zz", Some("n9"), Some("127.0.0.22"));
    found.at("n1", &format!("127.0.0.21:{port}")).await;
    call(&found.registry, "echo", "{}", &quiet_context(&caller)).await.unwrap();
    assert!(matches!(right.next().await, NodeEvent::Call { .. }));
    assert!(evil.events.try_recv().is_err());
}

/// One call reaches this node.
async fn assert_reached(registry: &PersistentNodeRegistry, node: &mut Node) {
    let caller = test_caller();
    call(registry, "echo", "{}", &quiet_context(&caller)).await.unwrap();
    assert!(matches!(node.next().await, NodeEvent::Call { .. }));
}

async fn address_reused() {
    let registry = timed(Arc::new(CurrentClock), None, &["echo"]).await;
    let authority = authority(&registry);
    let caller = test_caller();
    let mut first = start_node_with_certificate("n1", &authority, "127.0.0.1:0").await;
    let address = first.address;
    set_https_address(&registry, "n1", address);
    assert_reached(&registry, &mut first).await;
    // The node is lost, and another one gets its address.
    first.kill();
    let mut next = start_node_with_certificate("n2", &authority, &address.to_string()).await;
    for _ in 0..3 {
        let refused = call(&registry, "echo", "{}", &quiet_context(&caller)).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::UpstreamLost, "{refused}");
    }
    assert!(next.events.try_recv().is_err(), "a call of n1's reached n2");
    next.kill();
    // The control: the same node, back at its place.
    let mut back = start_node_with_certificate("n1", &authority, &address.to_string()).await;
    assert_reached(&registry, &mut back).await;
}

async fn first_of_many() {
    // The attacker comes first to a name that it does not have yet, under many nodes; the owner keeps its.
    let registry = registry(None, &[]).await;
    registry.register_tool(&node_access("n5"), tool("n5", "say")).await.unwrap();
    for id in 0..20 {
        let evil = format!("a{id}");
        let other = NodeTool { description: "Mine.".into(), ..tool(&evil, "say") };
        let taken = registry.register_tool(&node_access(&evil), other).await;
        assert!(
            matches!(&taken, Err(NodeError::NameTaken { owner, .. }) if owner == "n5"),
            "{taken:?}"
        );
        assert_eq!(tool_names(&registry, &evil), [""; 0]);
    }
    let asked = registry.list_nodes().into_iter().find(|node| node.tool_count > 0).unwrap();
    assert_eq!(asked.node_id, "n5");
    register_tools(&registry, "n6", &["other"]).await;
    assert_eq!(tool_names(&registry, "n6"), ["other"]);
}
