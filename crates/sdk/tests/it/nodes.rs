//! Tests of a node's answers and of its requests to the registry.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use bytes::Bytes;
use sdk::{AddToolError, Call, Node, NodeOptions, StartError, Tool, ToolSet, call_tool};
use serde_json::{Value, json};
use tool::Secret;

use crate::registry::Registry;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Text {
    /// What is turned round.
    text: String,
    #[serde(default)]
    times: u32,
}

fn reverse() -> Tool {
    Tool::typed("reverse_text", |input: Text| async move {
        let text: String = input.text.chars().rev().collect();
        Ok::<_, String>(json!({ "result": text.repeat(input.times.max(1) as usize) }))
    })
    .description("Reverses a given string input")
    .metadata(json!({ "version": 1, "node_id": "node-001" }))
}

fn tools(all: impl IntoIterator<Item = Tool>) -> ToolSet {
    let mut tools = ToolSet::default();
    for tool in all {
        tools.add_tool(tool).unwrap();
    }
    tools
}

fn quick() -> NodeOptions {
    NodeOptions::default().port(0).beat(Duration::from_millis(50)).grace(Duration::from_secs(5))
}

#[tokio::test]
async fn a_typed_tool_and_one_of_bytes_answer_in_the_cluster_tools_format() {
    let raw = Tool::bytes("raw", |input: Bytes| async move {
        Ok::<_, String>(input.iter().rev().copied().collect())
    });
    let fails = Tool::typed("fails", |_: Value| async move { Err::<(), _>("the disk is full") });
    let node = Node::start(tools([reverse(), raw, fails]), quick()).await.unwrap();
    let port = node.address().port();
    let call = async |name: &str, input: Value| {
        serde_json::to_value(call_tool(name, &input, "127.0.0.1", port).await).unwrap()
    };
    assert_eq!(
        call("reverse_text", json!({ "text": "hello world" })).await,
        json!({
            "success": true,
            "output": { "result": "dlrow olleh" },
            "error": "",
            "metadata": { "version": "1", "node_id": "node-001" },
        })
    );
    assert_eq!(call("raw", json!("ab")).await["output"], json!("ba"));
    let failed = call("fails", json!({})).await;
    assert_eq!((&failed["success"], &failed["error"]), (&json!(false), &json!("the disk is full")));
    let unfit = call("reverse_text", json!({ "text": 5 })).await;
    assert!(unfit["error"].as_str().unwrap().starts_with("invalid input: "), "{unfit}");
    assert_eq!(call("gone", json!({})).await["error"], "Tool 'gone' not found.");
    node.stop().await;
    let away = call("raw", json!({})).await;
    assert_eq!((&away["success"], &away["output"]), (&json!(false), &Value::Null));
    assert!(away["error"].as_str().unwrap().starts_with("RPC failed: "), "{away}");
}

#[test]
fn a_name_is_added_once_with_the_cluster_tools_text() {
    let mut tools = tools([reverse()]);
    let taken = tools.add_tool(reverse()).unwrap_err();
    assert_eq!(taken.to_string(), "Tool 'reverse_text' is already registered.");
    let name = |name: &str| Tool::bytes(name, |input| async move { Ok::<_, String>(input) });
    assert!(matches!(tools.add_tool(name("a b")), Err(AddToolError::InvalidName(_))));
    let odd = name("odd").metadata(json!([]));
    assert_eq!(tools.add_tool(odd), Err(AddToolError::NotAnObject("metadata")));
}

#[tokio::test]
async fn tools_are_registered_kept_alive_and_taken_back() {
    let registry = Registry::start().await;
    registry.refused.lock().unwrap().push("plain".to_owned());
    let plain = Tool::bytes("plain", |input| async move { Ok::<_, String>(input) });
    let options = quick().node_id("node-001").registry(&registry.url, Some(Secret::new("k-1")));
    let node = Node::start(tools([reverse(), plain]), options).await.unwrap();
    assert_eq!(node.rejected_tools()[0].name, "plain");
    let sent = registry.bodies("POST", "/tools");
    assert_eq!(sent[0]["name"], "reverse_text");
    assert_eq!(sent[0]["node_id"], "node-001");
    assert_eq!(sent[0]["description"], "Reverses a given string input");
    assert_eq!(sent[0]["input_spec"]["properties"]["text"]["type"], "string");
    assert_eq!(sent[0]["input_spec"]["required"], json!(["text"]));
    assert!(registry.all().iter().all(|(.., key)| key == "Bearer k-1"));
    // A rejected tool is retried, and a forgotten one is registered again.
    let posts = |all: &[crate::registry::Asked]| all.iter().filter(|one| one.1 == "/tools").count();
    registry.refused.lock().unwrap().clear();
    registry.until(|all| posts(all) >= 4).await;
    *registry.known.lock().unwrap() = false;
    let before = posts(&registry.all());
    registry.until(|all| posts(all) >= before + 2).await;
    node.stop().await;
    let beats = registry.bodies("POST", "/v1/nodes/node-001/heartbeat");
    assert_eq!(beats.last().unwrap(), &json!({ "state": "draining" }));
    let taken: Vec<_> =
        registry.all().into_iter().filter(|one| one.0 == "DELETE").map(|one| one.1).collect();
    assert_eq!(taken, ["/tools/node-001/reverse_text", "/tools/node-001/plain"]);
}

#[tokio::test]
async fn calls_that_run_are_waited_for_at_the_end() {
    let (begun, mut seen) = tokio::sync::mpsc::channel(1);
    let slow = Tool::with_call("slow", move |_: Value, _: Call| {
        let begun = begun.clone();
        async move {
            begun.send(()).await.unwrap();
            tokio::time::sleep(Duration::from_millis(300)).await;
            Ok::<_, String>("done")
        }
    });
    let node = Node::start(tools([slow]), quick()).await.unwrap();
    let port = node.address().port();
    let input = json!({});
    let called = call_tool("slow", &input, "127.0.0.1", port);
    let stopped = async {
        seen.recv().await.unwrap();
        node.stop().await;
    };
    let (called, ()) = tokio::join!(called, stopped);
    assert_eq!(called.output, json!("done"));
}

#[tokio::test]
async fn plaintext_beyond_this_machine_is_no_accident() {
    let everywhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let refused = Node::start(ToolSet::default(), quick().host(everywhere, false)).await;
    assert!(matches!(refused, Err(StartError::PlaintextNotAllowed(_))));
    Node::start(ToolSet::default(), quick().host(everywhere, true)).await.unwrap().stop().await;
}

#[tokio::test]
async fn a_key_is_not_sent_in_plaintext_beyond_this_machine() {
    let registry = Registry::start().await;
    // This machine's own address, in a notation that does not look like loopback.
    let url = registry.url.replace("127.0.0.1", "[::ffff:127.0.0.1]");
    let with = |url: &str, key: Option<&str>| {
        quick().node_id("node-001").registry(url, key.map(Secret::new))
    };
    for url in [url.as_str(), "http://192.0.2.1:8080", "http://tools.example"] {
        let refused = Node::start(tools([reverse()]), with(url, Some("k-1"))).await;
        let told = refused.unwrap_err();
        assert!(matches!(told, StartError::PlaintextKey(_)), "{told}");
        assert!(told.to_string().contains("insecure_registry"), "{told}");
    }
    assert!(registry.all().is_empty(), "nobody was dialled");
    // Controls: the same address if it is allowed, and a node without a key.
    let meant = with(&url, Some("k-1")).insecure_registry(true);
    Node::start(tools([reverse()]), meant).await.unwrap().stop().await;
    assert!(!registry.all().is_empty() && registry.all().iter().all(|one| one.3 == "Bearer k-1"));
    Node::start(tools([reverse()]), with(&url, None)).await.unwrap().stop().await;
    assert!(registry.bodies("POST", "/tools").len() == 2);
}
