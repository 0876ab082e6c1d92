//! What is said beside answers: log lines, changed lists, updated resources.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use testkit::executor::echo;
use tool::{Json, Level, Offer};

use crate::support::client::{Stream, message, modern_message};
use crate::support::executors::{Beside, Crowd, Flooding, Following, Notifying};
use crate::support::{Client, Server, bench::Setup, soon, tools};

async fn logs() -> (Server, Client) {
    let line = |level: &str| {
        ("notifications/message", Json::of(&json!({"level": level, "data": level, "x": 1.0})))
    };
    let notices = vec![
        line("debug"),
        line("info"),
        ("notifications/progress", Json::of(&json!({"progressToken": 99, "progress": 1, "x": 2}))),
        line("error"),
        ("notifications/other", Json::empty()),
    ];
    let server =
        Server::of(vec![tools::offer(tools::tool("logs"), Arc::new(Notifying(notices)))]).await;
    let ann = server.agent("ann", Level::User).await;
    (server, ann)
}

/// The levels of the log lines that came, and the rest of what did.
fn heard(messages: &[Value]) -> (Vec<String>, Vec<Value>) {
    let (lines, rest): (Vec<_>, Vec<_>) =
        messages.iter().cloned().partition(|m| m["method"] == "notifications/message");
    (lines.iter().map(|line| line["params"]["level"].as_str().unwrap().to_owned()).collect(), rest)
}

#[tokio::test]
async fn a_session_hears_log_lines_from_its_level_on() {
    let (_server, key) = logs().await;
    let call = message("tools/call", json!({"name": "logs"}));
    let ann = key.session(json!({})).await;
    assert_eq!(heard(&ann.legacy(&call).await.messages()).0, ["debug", "info", "error"]);
    for (level, lines) in [("info", vec!["info", "error"]), ("emergency", vec![])] {
        let set = ann.legacy(&message("logging/setLevel", json!({"level": level}))).await.good();
        assert_eq!(set["result"], json!({}));
        assert_eq!(heard(&ann.legacy(&call).await.messages()).0, lines);
    }
    let bad = ann.legacy(&message("logging/setLevel", json!({"level": "loud"}))).await.good();
    assert_eq!(bad["error"]["code"], -32_602);
    // Another session of the same key has its own level, and without one nothing is said.
    let other = key.session(json!({})).await;
    assert_eq!(heard(&other.legacy(&call).await.messages()).0.len(), 3);
    assert_eq!(key.legacy(&call).await.header("content-type"), Some("application/json"));
}

#[tokio::test]
async fn a_stateless_request_names_its_own_level() {
    let (_server, ann) = logs().await;
    let ask = |level: Option<&str>| {
        let mut message = modern_message("tools/call", json!({"name": "logs"}));
        if let Some(level) = level {
            message["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!(level);
        }
        let ann = ann.clone();
        async move { ann.modern_message(&message).await }
    };
    assert_eq!(heard(&ask(Some("info")).await.messages()).0, ["info", "error"]);
    for silent in [None, Some("emergency")] {
        assert_eq!(ask(silent).await.header("content-type"), Some("application/json"));
    }
}

/// What a source says of progress is passed on with the client's own token, and as it is otherwise.
#[tokio::test]
async fn the_token_is_the_clients() {
    let (_server, ann) = logs().await;
    let params = json!({"name": "logs", "_meta": {"progressToken": "mine"}});
    let messages = ann.legacy(&message("tools/call", params)).await.messages();
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[0]["params"], json!({"progressToken": "mine", "progress": 1, "x": 2}));
}

/// A source of 2026-07-28 tells no log lines unless it is asked to, with each request.
#[tokio::test]
async fn a_source_is_told_which_log_lines_are_wanted() {
    let server = Server::of(vec![tools::offer(tools::tool("meta"), Arc::new(Beside))]).await;
    let key = server.agent("ann", Level::User).await;
    let ann = key.session(json!({})).await;
    let call = |meta: Value| message("tools/call", json!({"name": "meta", "_meta": meta}));
    let got = |reply: Value| reply["result"]["structuredContent"].clone();
    let level = "io.modelcontextprotocol/logLevel";
    let told = got(ann.legacy(&call(json!({"a/b": 1.5}))).await.good());
    assert_eq!(told, json!({"a/b": 1.5, level: "debug"}));
    ann.legacy(&message("logging/setLevel", json!({"level": "error"}))).await.good();
    assert_eq!(got(ann.legacy(&call(Value::Null)).await.good()), json!({level: "error"}));
    assert_eq!(got(key.legacy(&call(json!({"a/b": 1.5}))).await.good()), json!({"a/b": 1.5}));
}

async fn changed(stream: &mut Stream) -> String {
    soon(stream.next()).await["method"].as_str().unwrap().to_owned()
}

fn visible(name: &str, level: Level) -> Offer {
    tools::offer(tools::with(name, |t| t.traits.level = level), echo())
}

#[tokio::test]
async fn a_listener_hears_of_changes_of_its_own_list_only() {
    let server = Server::of(vec![visible("a", Level::Guest)]).await;
    let (ann, owner) = (server.agent("ann", Level::User).await, server.owner().await);
    let mut anns = ann.session(json!({})).await.listen().await;
    let mut owners = owner.session(json!({})).await.listen().await;
    let listen = json!({"notifications": {"toolsListChanged": true}});
    let mut stateless = ann.modern_stream("subscriptions/listen", listen).await;
    assert_eq!(changed(&mut stateless).await, "notifications/subscriptions/acknowledged");
    // Only the owner sees what comes now.
    server.relist(vec![visible("a", Level::Guest), visible("b", Level::Owner)]).await;
    assert_eq!(changed(&mut owners).await, "notifications/tools/list_changed");
    // Nothing changes for anyone.
    server.relist(vec![visible("a", Level::Guest), visible("b", Level::Owner)]).await;
    let with = |definition: Level| vec![visible("a", Level::Guest), visible("c", definition)];
    server.relist(with(Level::Guest)).await;
    for stream in [&mut anns, &mut owners, &mut stateless] {
        assert_eq!(changed(stream).await, "notifications/tools/list_changed");
    }
    // Had they heard more than that, it would come before this.
    server.relist(vec![]).await;
    for stream in [&mut anns, &mut owners, &mut stateless] {
        assert_eq!(changed(stream).await, "notifications/tools/list_changed");
    }
    server.source.set(testkit::source::Answer::Hang);
    drop(server);
}

#[tokio::test]
async fn the_first_word_of_a_stream_is_what_is_heard_on_it() {
    let prompts = |name: &str| {
        vec![
            visible("a", Level::Guest),
            tools::prompt(&json!({"name": name})),
            tools::method("mcp.prompts.get", echo()),
        ]
    };
    let server = Server::of(prompts("p")).await;
    let ann = server.agent("ann", Level::User).await;
    let wanted = json!({"notifications": {"toolsListChanged": false, "promptsListChanged": true,
        "resourcesListChanged": true, "resourceSubscriptions": ["test://a"], "other": true}});
    for (endpoint, agreed) in [("/mcp", json!({})), ("/mcp/s", json!({"promptsListChanged": true}))]
    {
        let mut stream =
            ann.at(endpoint).modern_stream("subscriptions/listen", wanted.clone()).await;
        let meta = json!({"io.modelcontextprotocol/subscriptionId": 1});
        let expected = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
            "params": {"notifications": agreed, "_meta": meta}});
        assert_eq!(stream.next().await, expected);
        if endpoint == "/mcp/s" {
            server.relist(prompts("q")).await;
            let expected = json!({"jsonrpc": "2.0", "method": "notifications/prompts/list_changed",
                "params": {"_meta": meta}});
            assert_eq!(stream.next().await, expected);
        }
    }
    let bad = ann.modern("subscriptions/listen", json!({})).await.good();
    assert_eq!(bad["error"]["code"], -32_602);
    let old = ann.legacy(&message("subscriptions/listen", wanted)).await.good();
    assert_eq!(old["error"]["code"], -32_601);
}

#[tokio::test]
async fn streams_end_with_their_server_and_say_so() {
    let server = Server::new().await;
    let ann = server.agent("ann", Level::User).await;
    let mut old = ann.session(json!({})).await.listen().await;
    let listen = json!({"notifications": {"toolsListChanged": true}});
    let mut new = ann.modern_stream("subscriptions/listen", listen).await;
    assert_eq!(changed(&mut new).await, "notifications/subscriptions/acknowledged");
    server.doors.close();
    let meta = json!({"io.modelcontextprotocol/subscriptionId": 1});
    assert_eq!(new.next().await["result"], json!({"resultType": "complete", "_meta": meta}));
    assert_eq!((old.next().await, new.next().await), (Value::Null, Value::Null));
}

async fn followed() -> (Server, Arc<Following>, Client) {
    let following = Arc::new(Following::default());
    let offers = vec![
        tools::method("mcp.resources.read", echo()),
        tools::method("mcp.resources.subscribe", Arc::clone(&following) as _),
    ];
    let server = Server::with(Setup { offers, kind: Some("mcp"), ..Setup::default() }).await;
    let ann = server.agent("ann", Level::User).await.at("/mcp/s");
    (server, following, ann)
}

async fn running(following: &Following, count: usize) {
    soon(async {
        while following.running.load(Ordering::SeqCst) != count {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_session_follows_a_resource() {
    let (server, following, ann) = followed().await;
    let ann = ann.session(json!({})).await;
    let mut stream = ann.listen().await;
    let uri = json!({"uri": "test://a"});
    for _ in 0..2 {
        let reply = ann.legacy(&message("resources/subscribe", uri.clone())).await.good();
        assert_eq!(reply["result"], json!({}), "twice is once");
    }
    running(&following, 1).await;
    following.update.notify_one();
    let expected =
        json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": uri});
    assert_eq!(stream.next().await, expected);
    let reply = ann.legacy(&message("resources/unsubscribe", uri.clone())).await.good();
    assert_eq!(reply["result"], json!({}));
    running(&following, 0).await;
    let none = json!({"uri": "test://none"});
    let reply = ann.legacy(&message("resources/subscribe", none)).await.good();
    assert_eq!(reply["error"]["message"], "upstream_failed: no such resource");
    assert_eq!(server.intents()[0].tool.name.as_str(), "mcp.resources.subscribe");
    // A subscription ends with its session.
    ann.legacy(&message("resources/subscribe", uri)).await.good();
    running(&following, 1).await;
    assert_eq!(ann.delete("/mcp/s").await.status, 204);
    running(&following, 0).await;
}

#[tokio::test]
async fn a_stateless_client_follows_resources_on_its_stream() {
    let (_server, following, ann) = followed().await;
    let wanted = json!({"notifications": {
        "resourceSubscriptions": ["test://a", "test://none", "test://a"]}});
    let mut stream = ann.modern_stream("subscriptions/listen", wanted).await;
    let told = stream.next().await;
    let agreed = json!({"resourceSubscriptions": ["test://a"]});
    assert_eq!(told["params"]["notifications"], agreed, "only what could be followed");
    running(&following, 1).await;
    following.update.notify_one();
    let meta = json!({"io.modelcontextprotocol/subscriptionId": 1});
    let expected = json!({"uri": "test://a", "_meta": meta});
    assert_eq!(stream.next().await["params"], expected);
    drop(stream);
    running(&following, 0).await;
}

#[tokio::test]
async fn a_revoked_keys_stream_ends_with_the_next_change() {
    let server = Server::of(vec![visible("a", Level::Guest)]).await;
    let ann = server.agent("ann", Level::User).await;
    let mut stream = ann.session(json!({})).await.listen().await;
    server.revoke(&ann).await;
    server.relist(vec![]).await;
    assert_eq!(stream.next().await, Value::Null);
}

/// It loses notices, and holds neither its call nor the server's memory.
#[tokio::test]
async fn a_client_that_does_not_read_gets_its_answer() {
    let flooding = Flooding { lines: 5_000, long: 10_000 };
    let server = Server::of(vec![tools::offer(tools::tool("floods"), Arc::new(flooding))]).await;
    let ann = server.agent("ann", Level::User).await.session(json!({})).await;
    let mut stream = ann.stream(&message("tools/call", json!({"name": "floods"}))).await;
    soon(async {
        while server.ends().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let (mut lines, mut last) = (0, Value::Null);
    loop {
        match stream.next().await {
            Value::Null => break,
            next => (lines, last) = (lines + 1, next),
        }
    }
    assert_eq!(last["result"]["content"][0]["text"], "done");
    assert!((2..4_000).contains(&lines), "{lines}");
}

/// A source has one level for all who share it: the one that leaves nobody without what it wants. Whoever
/// spoke last would silence, or flood, the others.
#[tokio::test]
async fn a_source_is_set_to_the_lowest_level_that_any_session_wants() {
    let levels = Arc::new(Crowd::default());
    let executor = Arc::clone(&levels) as Arc<dyn tool::Executor>;
    let about = Json::of(&json!({"protocolVersion": "2025-11-25", "capabilities": {"logging": {}},
        "serverInfo": {"name": "upstream", "version": "7"}}));
    let offers = vec![tools::method("mcp.logging.setLevel", executor)];
    let setup = Setup { offers, kind: Some("mcp"), about: Some(about), ..Setup::default() };
    let server = Server::with(setup).await;
    let (ann, bob) =
        (server.agent("ann", Level::User).await, server.agent("bob", Level::User).await);
    let [ann, bob] =
        [ann.at("/mcp/s").session(json!({})).await, bob.at("/mcp/s").session(json!({})).await];
    let set = async |client: &Client, level: &str| {
        let message = message("logging/setLevel", json!({"level": level}));
        assert_eq!(
            client.legacy(&message).await.good()["result"],
            json!({"level": at_source(&levels)})
        );
        at_source(&levels)
    };
    assert_eq!(set(&ann, "info").await, "info");
    assert_eq!(set(&bob, "error").await, "info");
    assert_eq!(set(&bob, "debug").await, "debug");
    assert_eq!(set(&ann, "emergency").await, "debug");
    assert_eq!(set(&bob, "alert").await, "alert", "nobody wants more any more");
}

fn at_source(levels: &Crowd) -> String {
    let seen = levels.seen.lock().unwrap();
    let last: Value = serde_json::from_str(seen.last().unwrap()).unwrap();
    last["level"].as_str().unwrap().to_owned()
}
