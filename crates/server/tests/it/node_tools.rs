//! Tests of the node-tool routes: bodies, texts and statuses, and no more rights than the key has.

mod node_join;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::sync::Arc;

use egress::{EgressClient, EgressOptions};
use identity::Right;
use intake::ConfiguredSource;
use nodes::{NodeAddresses, PersistentNodeRegistry};
use proto::server::{FunctionResult, IncomingCall, ServiceFuture, ToolService, serve_tcp};
use proto::{MetadataMap, Status};
use serde_json::{Value, json};
use store::MemoryStore;
use testkit::clock::FakeClock;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool::node_registry::NodeRegistry;
use tool::{PermissionLevel, Source, SourceTrust};

use crate::support::{Client, FixtureServer, ServerSetup, within_a_minute};

/// A node's tools over gRPC.
struct StubNode;

impl ToolService for StubNode {
    fn caller_id(&self, _: MetadataMap) -> ServiceFuture<Result<String, Status>> {
        Box::pin(async { Ok(String::new()) })
    }
    fn list_tools(&self, _: MetadataMap) -> ServiceFuture<Result<Vec<proto::node::Tool>, Status>> {
        Box::pin(async { Ok(Vec::new()) })
    }
    fn call_tool(&self, asked: IncomingCall) -> ServiceFuture<Result<FunctionResult, Status>> {
        Box::pin(async move {
            let input: Value = serde_json::from_slice(&asked.input).unwrap();
            Ok(match asked.tool_name.as_str() {
                "reverse_text" => {
                    let text: String = input["text"].as_str().unwrap().chars().rev().collect();
                    let output = json!({ "result": text }).to_string().into();
                    FunctionResult { success: true, output, ..FunctionResult::default() }
                }
                "text" => FunctionResult {
                    success: true,
                    output: "no json".into(),
                    ..FunctionResult::default()
                },
                _ => FunctionResult {
                    error: "it broke\nTraceback (most recent call last):\n  x".into(),
                    ..FunctionResult::default()
                },
            })
        })
    }
    fn node_id(&self) -> String {
        String::new()
    }
    fn is_draining(&self) -> bool {
        false
    }
}

struct NodeFixture {
    server: FixtureServer,
    registry: Arc<PersistentNodeRegistry>,
    address: std::net::SocketAddr,
    stop: CancellationToken,
}

impl Drop for NodeFixture {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl NodeFixture {
    async fn new() -> Self {
        let egress = EgressClient::new(EgressOptions::default()).unwrap();
        let (store, clock) = (Arc::new(MemoryStore::new()), Arc::new(FakeClock::default()));
        let registry =
            Arc::new(PersistentNodeRegistry::open_local(store, egress, clock).await.unwrap());
        let nodes = Some(Arc::clone(&registry) as Arc<dyn NodeRegistry>);
        let server = FixtureServer::with_setup(ServerSetup {
            node_registry: nodes,
            ..ServerSetup::default()
        })
        .await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        drop(TaskTracker::new().spawn(serve_tcp(Arc::new(StubNode), listener, None, stop.clone())));
        Self { server, registry, address, stop }
    }

    /// Where these nodes are.
    fn set_addresses(&self, nodes: &[&str]) {
        let url = |node: &&str| ((*node).to_owned(), format!("http://{}", self.address));
        let nodes = nodes.iter().map(url).collect();
        self.registry.set_addresses(NodeAddresses { urls: nodes, ..NodeAddresses::default() });
    }

    /// A key of a node.
    async fn node_client(&self, id: &str) -> Client {
        let client = self.server.client_with(|key| {
            key.subject = id.to_owned();
            key.rights = [Right::NodesRegister].into();
        });
        client.await
    }

    /// Until the catalog has as many tools of nodes.
    async fn wait_for_node_tools(&self, tools: usize) {
        for source in self.registry.node_sources() {
            let source = source as Arc<dyn Source>;
            let (kind, trust) = ("node", SourceTrust::Full);
            self.server.intake.add_source(Some(ConfiguredSource {
                source,
                kind,
                trust,
                durability: None,
                defer_mode: tool::DeferMode::Auto,
                poll_interval: None,
                fingerprint: 1,
            }));
        }
        let mut numbers = self.server.intake.subscribe_versions();
        let has = || {
            let catalog = self.server.intake.catalog();
            catalog.list_tools().filter(|e| e.tool_key.source.as_str().starts_with("node.")).count()
        };
        within_a_minute(numbers.wait_for(|_| has() == tools)).await.unwrap();
    }
}

/// A registry that knows the node `n1`, with one tool.
pub(crate) async fn registry_with_node() -> Arc<dyn NodeRegistry> {
    let egress = EgressClient::new(EgressOptions::default()).unwrap();
    let (store, clock) = (Arc::new(MemoryStore::new()), Arc::new(FakeClock::default()));
    let registry = PersistentNodeRegistry::open_local(store, egress, clock).await.unwrap();
    let tool: tool::node_registry::NodeTool =
        serde_json::from_value(tool_document("n1", "kept")).unwrap();
    registry.register_tool(&tool::node_registry::NodeAccess::All, tool).await.unwrap();
    let kept = nodes::CertificateAuthority::generate(tool::WallTime(0)).unwrap();
    registry.set_authority(nodes::CertificateAuthority::from_stored(&kept).unwrap()).unwrap();
    Arc::new(registry)
}

/// Join request of a node.
pub(crate) fn join_body(node: &str) -> Value {
    let key = proto::tls::NodeKey::generate().unwrap();
    let (public, proof) = (STANDARD.encode(key.public_key()), key.sign_proof(node).unwrap());
    json!({"public_key": public, "proof": STANDARD.encode(proof)})
}

fn tool_document(node: &str, name: &str) -> Value {
    json!({
        "name": name,
        "node_id": node,
        "input_spec": { "text": "string" },
        "metadata": { "version": 1, "node_id": node },
        "description": "Reverses a given string input",
    })
}

fn status_and_body(reply: &crate::support::Reply) -> (u16, Value) {
    (reply.status.as_u16(), reply.json())
}

#[tokio::test]
async fn a_tool_is_created_shown_changed_and_deleted_with_the_cluster_tools_texts() {
    let cluster = NodeFixture::new().await;
    let node = cluster.node_client("n1").await;
    let (status, body) =
        status_and_body(&node.post("/tools", &tool_document("n1", "reverse_text")).await);
    assert_eq!((status, &body["message"]), (201, &json!("Tool created")));
    let id = body["id"].clone();
    assert_eq!(id.as_str().unwrap().len(), 24);
    // A second one of the same pair is in its place.
    let again = node.post("/tools", &tool_document("n1", "reverse_text")).await;
    assert_eq!(status_and_body(&again), (201, json!({ "message": "Tool created", "id": id })));
    let one = "/tools/n1/reverse_text";
    assert_eq!(status_and_body(&node.get(one).await), (200, tool_document("n1", "reverse_text")));
    assert_eq!(
        node.get("/tools/n1").await.expect_ok(),
        json!([tool_document("n1", "reverse_text")])
    );
    assert_eq!(node.get("/tools/n9").await.expect_ok(), json!([]));
    let missing = (404, json!({ "error": "Tool not found" }));
    assert_eq!(status_and_body(&node.get("/tools/n1/gone").await), missing);

    let put = async |path: &str, body: Value| status_and_body(&node.put(path, &body).await);
    let changed = json!({ "description": "Turns it round." });
    assert_eq!(put(one, changed.clone()).await, (200, json!({ "message": "Tool updated" })));
    assert_eq!(node.get(one).await.expect_ok()["description"], "Turns it round.");
    let unchanged = (200, json!({ "message": "No changes made" }));
    assert_eq!(put(one, changed.clone()).await, unchanged);
    assert_eq!(put("/tools/n1/gone", changed).await, unchanged);
    let nothing = (400, json!({ "error": "No fields provided to update" }));
    assert_eq!(put(one, json!({})).await, nothing);
    assert_eq!(put(one, json!({ "other": 1 })).await, nothing);

    let deleted = node.delete(one).await;
    assert_eq!(status_and_body(&deleted), (200, json!({ "message": "Tool deleted" })));
    assert_eq!(status_and_body(&node.delete(one).await), missing);
}

#[tokio::test]
async fn missing_fields_have_the_cluster_tools_text_and_may_be_empty() {
    let cluster = NodeFixture::new().await;
    let node = cluster.node_client("n1").await;
    for field in ["name", "node_id", "description"] {
        let mut body = tool_document("n1", "reverse_text");
        body.as_object_mut().unwrap().remove(field);
        let told = (400, json!({ "error": "Missing required fields" }));
        assert_eq!(status_and_body(&node.post("/tools", &body).await), told, "{field}");
    }
    let bare = json!({ "name": "bare", "node_id": "n1", "description": "" });
    assert_eq!(node.post("/tools", &bare).await.status, 201);
    let kept = node.get("/tools/n1/bare").await.expect_ok();
    assert_eq!(
        kept,
        json!({ "name": "bare", "node_id": "n1", "input_spec": {}, "metadata": {}, "description": "" })
    );
    let bad = json!({ "name": "a b", "node_id": "n1", "description": "" });
    let (status, told) = status_and_body(&node.post("/tools", &bad).await);
    assert_eq!(status, 400);
    assert!(told["error"].as_str().unwrap().starts_with("`name`: "), "{told}");
}

#[tokio::test]
async fn both_orders_of_the_path_are_taken_where_they_say_the_same() {
    let cluster = NodeFixture::new().await;
    let (owner, node) = (cluster.server.owner_client().await, cluster.node_client("n1").await);
    assert_eq!(node.post("/tools", &tool_document("n1", "say")).await.status, 201);
    assert_eq!(node.get("/tools/say/n1").await.expect_ok()["name"], "say");
    // A node that is called as a tool is, with a tool that is called as the node is.
    assert_eq!(owner.post("/tools", &tool_document("say", "n1")).await.status, 201);
    let (status, told) = status_and_body(&owner.delete("/tools/say/n1").await);
    assert_eq!(status, 409, "{told}");
    // The node itself sees only its own tool, and removes it as the cluster tools' package does.
    assert_eq!(
        node.delete("/tools/say/n1").await.expect_ok(),
        json!({ "message": "Tool deleted" })
    );
    assert_eq!(owner.get("/tools/say/n1").await.expect_ok()["node_id"], "say");
}

#[tokio::test]
async fn nobody_registers_changes_or_removes_for_another_node() {
    let cluster = NodeFixture::new().await;
    let (one, other) = (cluster.node_client("n1").await, cluster.node_client("n2").await);
    let agent = cluster.server.agent_client("n1", PermissionLevel::Owner).await;
    assert_eq!(one.post("/tools", &tool_document("n1", "say")).await.status, 201);
    for client in [&other, &agent] {
        let told = json!({ "error": "this key cannot act for the node `n1`" });
        let forbidden = (403, told);
        let body = json!({ "description": "x" });
        assert_eq!(
            status_and_body(&client.post("/tools", &tool_document("n1", "say")).await),
            forbidden
        );
        assert_eq!(status_and_body(&client.put("/tools/n1/say", &body).await), forbidden);
        assert_eq!(status_and_body(&client.delete("/tools/n1/say").await), forbidden);
        let beat = client.post("/v1/nodes/n1/heartbeat", &json!({ "state": "draining" })).await;
        assert_eq!(beat.status, 403);
    }
    // Its own name with another definition is the first node's as well.
    let mut foreign = tool_document("n2", "say");
    foreign["description"] = "x".into();
    let (status, told) = status_and_body(&other.post("/tools", &foreign).await);
    assert_eq!(status, 409);
    assert!(told["error"].as_str().unwrap().contains("belongs to the node `n1`"), "{told}");
    let anyone = cluster.server.keyless_client().post("/tools", &tool_document("n1", "say")).await;
    assert_eq!(anyone.status, 401);
    // Rights of the control: its own tools, and all tools for a person with the right.
    assert_eq!(one.get("/tools/n1").await.expect_ok(), json!([tool_document("n1", "say")]));
    let owner = cluster.server.owner_client().await;
    assert_eq!(owner.delete("/tools/n1/say").await.status, 200);
}

#[tokio::test]
async fn a_call_is_answered_in_the_cluster_tools_format() {
    let cluster = NodeFixture::new().await;
    let node = cluster.node_client("n1").await;
    for name in ["reverse_text", "text", "fails"] {
        assert_eq!(node.post("/tools", &tool_document("n1", name)).await.status, 201);
    }
    cluster.set_addresses(&["n1"]);
    cluster.wait_for_node_tools(3).await;
    let ann = cluster.server.agent_client("ann", PermissionLevel::User).await;
    let execute =
        async |body: Value| status_and_body(&ann.post("/cluster-tools/execute", &body).await);
    let call = json!({ "tool_name": "reverse_text", "input": { "text": "hello world" } });
    let expected = json!({
        "success": true,
        "output": { "result": "dlrow olleh" },
        "error": "",
        "metadata": { "version": "1", "node_id": "n1" },
    });
    assert_eq!(execute(call.clone()).await, (200, expected.clone()));
    let mut pinned = call.clone();
    pinned["node_id"] = "n1".into();
    assert_eq!(execute(pinned.clone()).await, (200, expected));
    pinned["node_id"] = "n2".into();
    let told = json!({
        "success": false, "output": null, "metadata": {},
        "error": "Tool 'reverse_text' not found on node 'n2'",
    });
    assert_eq!(execute(pinned).await, (404, told));
    // Any JSON is an input; the tool itself validates it.
    for input in [json!("str"), json!([1, 2])] {
        let (status, said) = execute(json!({ "tool_name": "text", "input": input })).await;
        assert_eq!((status, &said["output"]), (200, &json!("no json")), "{said}");
    }
    // Text stays text; a tool's own failure is no failure of the call, and has no trace.
    let (status, said) = execute(json!({ "tool_name": "text", "input": {} })).await;
    assert_eq!((status, &said["output"]), (200, &json!("no json")));
    let failed = json!({ "success": false, "output": null, "error": "it broke", "metadata": {} });
    assert_eq!(execute(json!({ "tool_name": "fails", "input": {} })).await, (200, failed));
    // The same tool at the other interfaces.
    let listed = ann.get("/v1/tools?format=mcp").await.expect_ok().to_string();
    assert!(listed.contains("reverse_text"), "{listed}");
}

#[tokio::test]
async fn errors_of_a_call_have_the_cluster_tools_texts_and_statuses() {
    let cluster = NodeFixture::new().await;
    let ann = cluster.server.agent_client("ann", PermissionLevel::User).await;
    let execute =
        async |body: Value| status_and_body(&ann.post("/cluster-tools/execute", &body).await);
    let told =
        |error: &str| json!({ "success": false, "output": null, "error": error, "metadata": {} });
    let call = json!({ "tool_name": "reverse_text", "input": {} });
    let unknown = (404, told("Tool 'reverse_text' not found on any node"));
    assert_eq!(execute(call.clone()).await, unknown);
    // It left its record, and so did nothing else.
    assert_eq!(cluster.server.recorded_refusals().len(), 1);
    // Tools without a node are not listed, whatever else exists.
    assert_eq!(execute(json!({ "tool_name": "s.echo", "input": {} })).await.0, 404);
    for body in [json!({ "input": {} }), json!({ "tool_name": "x" })] {
        let missing = json!({ "error": "Missing required fields: tool_name, input" });
        assert_eq!(execute(body).await, (400, missing));
    }
    let empty = status_and_body(&ann.post("/cluster-tools/execute", &Value::Null).await);
    assert_eq!(empty, (400, json!({ "error": "Missing request body" })));
    // Known, but without an address.
    let node = cluster.node_client("n1").await;
    node.post("/tools", &tool_document("n1", "reverse_text")).await;
    cluster.wait_for_node_tools(1).await;
    let lost = (404, told("`nodes.addresses` does not list the node `n1`"));
    assert_eq!(execute(call.clone()).await, lost);
    // Its address cannot be used.
    let nodes = [("n1".to_owned(), "http://10.42.0.12:50051".to_owned())].into();
    cluster.registry.set_addresses(NodeAddresses { urls: nodes, ..NodeAddresses::default() });
    let (status, said) = execute(call.clone()).await;
    assert_eq!(status, 500, "{said}");
    assert!(said["error"].as_str().unwrap().contains("write `https://10.42.0.12:50051`"), "{said}");
    // Positive control: a node that is known and away is another matter.
    let nodes = [("n1".to_owned(), "http://127.0.0.1:9".to_owned())].into();
    cluster.registry.set_addresses(NodeAddresses { urls: nodes, ..NodeAddresses::default() });
    let away = (502, told("the node `n1` cannot be reached"));
    assert_eq!(execute(call.clone()).await, away);
    // A guest may not call it, and so it is not there for him.
    let guest = cluster.server.agent_client("guest", PermissionLevel::Guest).await;
    assert_eq!(status_and_body(&guest.post("/cluster-tools/execute", &call).await), unknown);
    assert_eq!(guest.get("/tools/n1").await.expect_ok(), json!([]));
    assert_eq!(guest.get("/tools/n1/reverse_text").await.status, 404);
    assert_eq!(ann.get("/tools/n1/reverse_text").await.status, 200);
}

#[tokio::test]
async fn where_a_node_is_is_told_to_who_has_the_right_and_sees_the_tool() {
    let cluster = NodeFixture::new().await;
    let node = cluster.node_client("n1").await;
    node.post("/tools", &tool_document("n1", "reverse_text")).await;
    cluster.wait_for_node_tools(1).await;
    let may = cluster.server.client_with(|key| key.rights = [Right::NodesResolve].into()).await;
    let resolve = async |client: &Client, body: Value| {
        status_and_body(&client.post("/cluster-tools/resolve", &body).await)
    };
    let call = json!({ "tool_name": "reverse_text" });
    let error = |text: &str| json!({ "success": false, "error": text });
    let nowhere = (404, error("Unable to resolve endpoint for tool"));
    assert_eq!(resolve(&may, call.clone()).await, nowhere);
    let nodes = [("n1".to_owned(), "http://10.42.0.12:50051".to_owned())].into();
    cluster.registry.set_addresses(NodeAddresses { urls: nodes, ..NodeAddresses::default() });
    let (status, told) = resolve(&may, call.clone()).await;
    assert_eq!(status, 500, "misconfigured: {told}");
    cluster.set_addresses(&["n1"]);
    let endpoint = json!({ "success": true, "endpoint": cluster.address.to_string() });
    assert_eq!(resolve(&may, call.clone()).await, (200, endpoint));
    let unknown = (404, error("Tool 'gone' not found in database"));
    assert_eq!(resolve(&may, json!({ "tool_name": "gone" })).await, unknown);
    let missing = (400, json!({ "error": "Missing required field: tool_name" }));
    assert_eq!(resolve(&may, json!({})).await, missing);
    // Without the right nobody sees it, not even the node itself.
    for client in [&cluster.server.agent_client("ann", PermissionLevel::Owner).await, &node] {
        let (status, told) = resolve(client, call.clone()).await;
        assert_eq!((status, &told["success"]), (403, &json!(false)));
    }
    // With it, but without the tool in the view, it is not there.
    let guest = cluster.server.client_with(|key| {
        (key.level, key.rights) = (PermissionLevel::Guest, [Right::NodesResolve].into());
    });
    let hidden = (404, error("Tool 'reverse_text' not found in database"));
    assert_eq!(resolve(&guest.await, call).await, hidden);
}

#[tokio::test]
async fn hidden_characters_of_a_registered_tool_are_written_out_in_every_list() {
    let cluster = NodeFixture::new().await;
    let node = cluster.node_client("n1").await;
    let hiding = "Reverses\u{202e} a string\u{e0041}";
    let mut tool = tool_document("n1", "reverse_text");
    (tool["description"], tool["metadata"]["note"]) = (hiding.into(), hiding.into());
    tool["input_spec"] = json!({"type": "object", "properties": {"text": {"description": hiding}}});
    assert_eq!(node.post("/tools", &tool).await.status, 201);
    cluster.set_addresses(&["n1"]);
    cluster.wait_for_node_tools(1).await;
    let owner = cluster.server.owner_client().await;
    let ann = cluster.server.agent_client("ann", PermissionLevel::User).await;
    for client in [&owner, &ann, &node] {
        for path in ["/tools/n1", "/tools/n1/reverse_text"] {
            let shown = client.get(path).await.expect_ok().to_string();
            assert!(!shown.contains(['\u{202e}', '\u{e0041}']), "{path}: {shown}");
            assert_eq!(shown.matches(r"\\u{202e}").count(), 3, "{path}: {shown}");
        }
    }
    // The control: the registry has it as it came.
    let stored =
        tool::node_registry::NodeRegistry::find_tool(&*cluster.registry, "n1", "reverse_text")
            .unwrap();
    assert_eq!(stored.description, hiding);
}

#[tokio::test]
async fn a_node_tells_that_it_lives_and_that_it_goes() {
    let cluster = NodeFixture::new().await;
    let node = cluster.node_client("n1").await;
    let beat = "/v1/nodes/n1/heartbeat";
    let serving = json!({ "state": "serving" });
    let (status, code, told) = node.post(beat, &serving).await.error();
    assert_eq!((status, code.as_str(), told.as_str()), (404, "not_found", "Node not found"));
    node.post("/tools", &tool_document("n1", "say")).await;
    let said = json!({ "node_id": "n1", "state": "serving" });
    assert_eq!(node.post(beat, &serving).await.expect_ok(), said);
    node.post(beat, &json!({ "state": "draining" })).await.expect_ok();
    let owner = cluster.server.owner_client().await;
    let listed = owner.get("/v1/nodes").await.expect_ok();
    let n1 = &listed["nodes"][0];
    assert_eq!(
        (&n1["node_id"], &n1["tools"], &n1["state"]),
        (&json!("n1"), &json!(1), &json!("draining"))
    );
    assert_eq!(n1["problem"], "`nodes.addresses` does not list the node `n1`");
    assert_eq!(node.get("/v1/nodes").await.expect_ok()["nodes"][0]["endpoint"], Value::Null);
    let ann = cluster.server.agent_client("ann", PermissionLevel::User).await;
    assert_eq!(ann.get("/v1/nodes").await.expect_ok(), json!({ "nodes": [] }));
}

#[tokio::test]
async fn a_tool_on_two_nodes_is_seen_once_and_run_where_the_caller_says() {
    let cluster = NodeFixture::new().await;
    for id in ["n1", "n2"] {
        let node = cluster.node_client(id).await;
        let mut tool = tool_document(id, "reverse_text");
        tool["metadata"]["shared"] = true.into();
        assert_eq!(node.post("/tools", &tool).await.status, 201);
    }
    cluster.set_addresses(&["n1", "n2"]);
    cluster.wait_for_node_tools(1).await;
    let ann = cluster.server.agent_client("ann", PermissionLevel::User).await;
    let on = async |node: &str| {
        let call =
            json!({ "tool_name": "reverse_text", "node_id": node, "input": { "text": "ab" } });
        // The second node's source may still be on its way.
        let mut answer = status_and_body(&ann.post("/cluster-tools/execute", &call).await);
        for _ in 0..200 {
            if answer.0 == 200 || node == "n3" {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            answer = status_and_body(&ann.post("/cluster-tools/execute", &call).await);
        }
        answer
    };
    for node in ["n1", "n2"] {
        let (status, body) = on(node).await;
        assert_eq!((status, &body["metadata"]["node_id"]), (200, &json!(node)), "{body}");
        assert_eq!(body["output"], json!({ "result": "ba" }));
    }
    // While the first is away, the other answers, and is the one that is named and resolved.
    let away = |url: &str| {
        let other = format!("http://{}", cluster.address);
        let nodes = [("n1".to_owned(), url.to_owned()), ("n2".to_owned(), other)].into();
        cluster.registry.set_addresses(NodeAddresses { urls: nodes, ..NodeAddresses::default() });
    };
    let may = cluster.server.client_with(|key| key.rights = [Right::NodesResolve].into()).await;
    let resolved = async || {
        let body = json!({ "tool_name": "reverse_text" });
        may.post("/cluster-tools/resolve", &body).await.expect_ok()["endpoint"].clone()
    };
    away("http://127.0.0.1:9");
    assert_eq!(resolved().await, "127.0.0.1:9", "nobody knows yet");
    let call = json!({ "tool_name": "reverse_text", "input": { "text": "ab" } });
    let (status, body) = status_and_body(&ann.post("/cluster-tools/execute", &call).await);
    assert_eq!((status, &body["metadata"]["node_id"]), (200, &json!("n2")), "{body}");
    assert_eq!(resolved().await, cluster.address.to_string());
    assert_eq!(on("n3").await.0, 404);
    let source = tool::SourceName::new("node.n2").unwrap();
    let catalog = cluster.server.intake.catalog();
    assert_eq!(catalog.source_problems(&source).count(), 0, "it is no name that is taken");
    // The view has the nodes that may run a tool, and how many tools of others a node runs.
    let shown = ann.get("/v1/tools/reverse_text").await.expect_ok();
    assert_eq!((&shown["source"], &shown["nodes"]), (&json!("node.n1"), &json!(["n1", "n2"])));
    let sources = cluster.server.owner_client().await.get("/v1/sources").await.expect_ok();
    let of = |name: &str| {
        let all = sources["sources"].as_array().unwrap();
        let one = all.iter().find(|source| source["name"] == name).unwrap();
        (one["tools"].clone(), one["shared"].clone())
    };
    assert_eq!(of("node.n1"), (json!(1), Value::Null));
    assert_eq!(of("node.n2"), (json!(0), json!(1)));
}

/// A node needs only its own key to register, and its registration gets no calls of another node.
#[tokio::test]
async fn a_node_that_repeats_another_ones_definitions_gets_none_of_its_calls() {
    let cluster = NodeFixture::new().await;
    let (one, other) = (cluster.node_client("n1").await, cluster.node_client("n2").await);
    for name in ["n1.calculator", "say"] {
        assert_eq!(one.post("/tools", &tool_document("n1", name)).await.status, 201);
        let (status, told) =
            status_and_body(&other.post("/tools", &tool_document("n2", name)).await);
        assert_eq!(status, 409, "{told}");
        assert!(told["error"].as_str().unwrap().contains("node `n1`"), "{told}");
    }
    assert_eq!(other.get("/tools/n2").await.expect_ok(), json!([]));
    cluster.set_addresses(&["n1", "n2"]);
    cluster.wait_for_node_tools(2).await;
    let ann = cluster.server.agent_client("ann", PermissionLevel::User).await;
    let shown = ann.get("/v1/tools/n1.calculator").await.expect_ok();
    assert_eq!(shown["nodes"], json!(["n1"]));
    // The control: a name of its own is its own.
    assert_eq!(other.post("/tools", &tool_document("n2", "n2.calculator")).await.status, 201);
}

#[tokio::test]
async fn a_delegated_key_invites_no_node_and_an_invitation_names_who_made_it() {
    let cluster = NodeFixture::new().await;
    let owner = cluster.server.owner_client().await;
    let body = json!({"rights": ["nodes:write"], "person": true});
    let made = owner.post("/v1/keys/delegate", &body).await.expect_ok();
    let word = |field: &str| made[field].as_str().unwrap().to_owned();
    let delegated = cluster.server.keyless_client().with_key(&word("key"), &word("id"));
    let path = "/v1/nodes/n1/invite";
    let told = "a delegated key cannot invite a node; use the key that it was delegated from";
    let refused = delegated.post(path, &json!({})).await.error();
    assert_eq!(refused, (403, "forbidden".to_owned(), told.to_owned()));
    // Positive control: the key that it was delegated from may.
    owner.post(path, &json!({})).await.expect_ok();
    let ring = cluster.server.keys.key_ring();
    let invitations = ring.sorted_records().into_iter().filter(|record| record.subject == "n1");
    let creators: Vec<_> = invitations.map(|record| record.creator.clone()).collect();
    assert_eq!(creators, [Some("owner".to_owned())]);
}
