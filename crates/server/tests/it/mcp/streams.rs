//! Tests of server notifications: log lines, changed lists, updated resources.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use policy::{
    FilePosition, Policy, PolicyDocument, PolicyLayer, PolicyRule, RuleEffect, TimeWindow,
    TimeWindowSpec, ToolPattern,
};
use serde_json::{Value, json};
use testkit::executor::echo_executor;
use tool::{Clock as _, Json, Offer, PermissionLevel, WallTime};

use crate::support::client::{MessageStream, message, modern_message};
use crate::support::executors::{
    ConcurrencyProbe, FloodingExecutor, MetaExecutor, NotifyingExecutor, SubscriptionExecutor,
};
use crate::support::{Client, FixtureServer, test_server::ServerSetup, tools, within_a_minute};

async fn logging_server() -> (FixtureServer, Client) {
    let line = |level: &str| {
        ("notifications/message", Json::encode(&json!({"level": level, "data": level, "x": 1.0})))
    };
    let notices = vec![
        line("debug"),
        line("info"),
        (
            "notifications/progress",
            Json::encode(&json!({"progressToken": 99, "progress": 1, "x": 2})),
        ),
        line("error"),
        ("notifications/other", Json::empty_object()),
    ];
    let server = FixtureServer::with_offers(vec![tools::tool_offer(
        tools::test_tool("logs"),
        Arc::new(NotifyingExecutor(notices)),
    )])
    .await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
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
    let (_server, key) = logging_server().await;
    let call = message("tools/call", json!({"name": "logs"}));
    let ann = key.open_session(json!({})).await;
    assert_eq!(heard(&ann.legacy_request(&call).await.messages()).0, ["debug", "info", "error"]);
    for (level, lines) in [("info", vec!["info", "error"]), ("emergency", vec![])] {
        let set = ann
            .legacy_request(&message("logging/setLevel", json!({"level": level})))
            .await
            .expect_ok();
        assert_eq!(set["result"], json!({}));
        assert_eq!(heard(&ann.legacy_request(&call).await.messages()).0, lines);
    }
    let bad = ann
        .legacy_request(&message("logging/setLevel", json!({"level": "loud"})))
        .await
        .expect_ok();
    assert_eq!(bad["error"]["code"], -32_602);
    // Another session of the same key has its own level; without a level nothing is sent.
    let other = key.open_session(json!({})).await;
    assert_eq!(heard(&other.legacy_request(&call).await.messages()).0.len(), 3);
    assert_eq!(key.legacy_request(&call).await.header("content-type"), Some("application/json"));
}

#[tokio::test]
async fn a_stateless_request_names_its_own_level() {
    let (_server, ann) = logging_server().await;
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

/// Progress of a source is forwarded with the client's own token, and otherwise unchanged.
#[tokio::test]
async fn the_token_is_the_clients() {
    let (_server, ann) = logging_server().await;
    let params = json!({"name": "logs", "_meta": {"progressToken": "mine"}});
    let messages = ann.legacy_request(&message("tools/call", params)).await.messages();
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[0]["params"], json!({"progressToken": "mine", "progress": 1, "x": 2}));
}

/// A source of 2026-07-28 sends log messages only if each request asks for them.
#[tokio::test]
async fn a_source_is_told_which_log_lines_are_wanted() {
    let server = FixtureServer::with_offers(vec![tools::tool_offer(
        tools::test_tool("meta"),
        Arc::new(MetaExecutor),
    )])
    .await;
    let key = server.agent_client("ann", PermissionLevel::User).await;
    let ann = key.open_session(json!({})).await;
    let call = |meta: Value| message("tools/call", json!({"name": "meta", "_meta": meta}));
    let got = |reply: Value| reply["result"]["structuredContent"].clone();
    let level = "io.modelcontextprotocol/logLevel";
    let told = got(ann.legacy_request(&call(json!({"a/b": 1.5}))).await.expect_ok());
    assert_eq!(told, json!({"a/b": 1.5, level: "debug"}));
    ann.legacy_request(&message("logging/setLevel", json!({"level": "error"}))).await.expect_ok();
    assert_eq!(
        got(ann.legacy_request(&call(Value::Null)).await.expect_ok()),
        json!({level: "error"})
    );
    assert_eq!(
        got(key.legacy_request(&call(json!({"a/b": 1.5}))).await.expect_ok()),
        json!({"a/b": 1.5})
    );
}

pub(super) async fn changed(stream: &mut MessageStream) -> String {
    within_a_minute(stream.next()).await["method"].as_str().unwrap().to_owned()
}

fn visible(name: &str, level: PermissionLevel) -> Offer {
    tools::tool_offer(tools::tool_with(name, |t| t.traits.min_level = level), echo_executor())
}

#[tokio::test]
pub(crate) async fn a_listener_hears_of_changes_of_its_own_list_only() {
    let server = FixtureServer::with_offers(vec![visible("a", PermissionLevel::Guest)]).await;
    let (ann, owner) =
        (server.agent_client("ann", PermissionLevel::User).await, server.owner_client().await);
    let mut anns = ann.open_session(json!({})).await.open_session_stream().await;
    let mut owners = owner.open_session(json!({})).await.open_session_stream().await;
    let listen = json!({"notifications": {"toolsListChanged": true}});
    let mut stateless = ann.modern_stream("subscriptions/listen", listen).await;
    assert_eq!(changed(&mut stateless).await, "notifications/subscriptions/acknowledged");
    // Only the owner sees what comes now.
    server
        .replace_offers(vec![
            visible("a", PermissionLevel::Guest),
            visible("b", PermissionLevel::Owner),
        ])
        .await;
    assert_eq!(changed(&mut owners).await, "notifications/tools/list_changed");
    // Nothing changes for anyone.
    server
        .replace_offers(vec![
            visible("a", PermissionLevel::Guest),
            visible("b", PermissionLevel::Owner),
        ])
        .await;
    let with = |definition: PermissionLevel| {
        vec![visible("a", PermissionLevel::Guest), visible("c", definition)]
    };
    server.replace_offers(with(PermissionLevel::Guest)).await;
    for stream in [&mut anns, &mut owners, &mut stateless] {
        assert_eq!(changed(stream).await, "notifications/tools/list_changed");
    }
    // Had they heard more than that, it would come before this.
    server.replace_offers(vec![]).await;
    for stream in [&mut anns, &mut owners, &mut stateless] {
        assert_eq!(changed(stream).await, "notifications/tools/list_changed");
    }
    server.source.set_answer(testkit::source::MockListing::Hang);
    drop(server);
}

/// Readers lose what `deny` names, and from `since` on all the rest.
fn rules(deny: &str, since: Option<WallTime>) -> Policy {
    let patterns = |deny: &str| vec![ToolPattern::new(deny).unwrap()];
    let since = since.map(|since| since.to_string());
    let rule = |since: &str| PolicyRule {
        name: "closing time".to_owned(),
        effect: RuleEffect::Deny,
        tools: None,
        condition: None,
        time_window: Some(
            TimeWindow::parse_window(TimeWindowSpec {
                since: Some(since),
                ..TimeWindowSpec::default()
            })
            .unwrap(),
        ),
        examples: Vec::new(),
        position: FilePosition::default(),
    };
    let rules = since.as_deref().map(rule).into_iter().collect();
    let reader = PolicyLayer { deny: patterns(deny), rules, ..PolicyLayer::default() };
    let roles = [("reader".to_owned(), reader)].into();
    Policy::new(PolicyDocument { roles, ..PolicyDocument::default() }).unwrap()
}

#[tokio::test]
async fn a_listener_hears_of_a_policy_that_changes_its_list_and_of_the_policys_times() {
    let server = FixtureServer::with_offers(vec![
        visible("a", PermissionLevel::Guest),
        visible("b", PermissionLevel::Guest),
    ])
    .await;
    let reader = server.client_with(|key| key.roles = vec!["reader".to_owned()]).await;
    let owner = server.owner_client().await;
    let mut readers = reader.open_session(json!({})).await.open_session_stream().await;
    let mut owners = owner.open_session(json!({})).await.open_session_stream().await;
    server.intake.set_policy(&rules("b", None));
    assert_eq!(changed(&mut readers).await, "notifications/tools/list_changed");
    // Another policy that takes the same; then one that takes more, but not before its time.
    let since = WallTime(server.clock.wall_now().0 + 60_000);
    server.intake.set_policy(&rules("b*", None));
    server.intake.set_policy(&rules("b", Some(since)));
    server.intake.set_policy(&rules("c", Some(since)));
    assert_eq!(changed(&mut readers).await, "notifications/tools/list_changed", "b is back");
    // The last second of the minute passes by itself, as the watcher counts it.
    server.clock.advance(Duration::from_millis(59_990));
    server.intake.set_policy(&rules("d", Some(since)));
    server.clock.advance(Duration::from_millis(10));
    assert_eq!(changed(&mut readers).await, "notifications/tools/list_changed", "nothing is left");
    let list = reader.legacy_request(&message("tools/list", json!({}))).await.expect_ok();
    assert_eq!(list["result"]["tools"], json!([]));
    // For the owner nothing changed.
    server.state.close();
    assert_eq!((owners.next().await, readers.next().await), (Value::Null, Value::Null));
}

#[tokio::test]
async fn the_first_word_of_a_stream_is_what_is_heard_on_it() {
    let prompts = |name: &str| {
        vec![
            visible("a", PermissionLevel::Guest),
            tools::prompt_offer(&json!({"name": name})),
            tools::method_offer("mcp.prompts.get", echo_executor()),
        ]
    };
    let server = FixtureServer::with_offers(prompts("p")).await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let wanted = json!({"notifications": {"toolsListChanged": false, "promptsListChanged": true,
        "resourcesListChanged": true, "resourceSubscriptions": ["test://a"], "other": true}});
    let both = json!({"promptsListChanged": true, "resourcesListChanged": true});
    for (endpoint, agreed) in [("/mcp", both), ("/mcp/s", json!({"promptsListChanged": true}))] {
        let mut stream =
            ann.with_endpoint(endpoint).modern_stream("subscriptions/listen", wanted.clone()).await;
        let meta = json!({"io.modelcontextprotocol/subscriptionId": 1});
        let expected = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
            "params": {"notifications": agreed, "_meta": meta}});
        assert_eq!(stream.next().await, expected);
        if endpoint == "/mcp/s" {
            server.replace_offers(prompts("q")).await;
            let expected = json!({"jsonrpc": "2.0", "method": "notifications/prompts/list_changed",
                "params": {"_meta": meta}});
            assert_eq!(stream.next().await, expected);
        }
    }
    let bad = ann.modern_request("subscriptions/listen", json!({})).await.expect_ok();
    assert_eq!(bad["error"]["code"], -32_602);
    let old = ann.legacy_request(&message("subscriptions/listen", wanted)).await.expect_ok();
    assert_eq!(old["error"]["code"], -32_601);
}

#[tokio::test]
async fn streams_end_with_their_server_and_say_so() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let mut old = ann.open_session(json!({})).await.open_session_stream().await;
    let listen = json!({"notifications": {"toolsListChanged": true}});
    let mut new = ann.modern_stream("subscriptions/listen", listen).await;
    assert_eq!(changed(&mut new).await, "notifications/subscriptions/acknowledged");
    server.state.close();
    let meta = json!({"io.modelcontextprotocol/subscriptionId": 1});
    assert_eq!(new.next().await["result"], json!({"resultType": "complete", "_meta": meta}));
    assert_eq!((old.next().await, new.next().await), (Value::Null, Value::Null));
}

async fn subscribed_server() -> (FixtureServer, Arc<SubscriptionExecutor>, Client) {
    let following = Arc::new(SubscriptionExecutor::default());
    let offers = vec![
        tools::method_offer("mcp.resources.read", echo_executor()),
        tools::method_offer("mcp.resources.subscribe", Arc::clone(&following) as _),
    ];
    let server = FixtureServer::with_setup(ServerSetup {
        offers,
        kind: Some("mcp"),
        ..ServerSetup::default()
    })
    .await;
    let ann = server.agent_client("ann", PermissionLevel::User).await.with_endpoint("/mcp/s");
    (server, following, ann)
}

async fn running(following: &SubscriptionExecutor, count: usize) {
    within_a_minute(async {
        while following.running.load(Ordering::SeqCst) != count {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_session_follows_a_resource() {
    let (server, following, ann) = subscribed_server().await;
    let ann = ann.open_session(json!({})).await;
    let mut stream = ann.open_session_stream().await;
    let uri = json!({"uri": "test://a"});
    for _ in 0..2 {
        let reply =
            ann.legacy_request(&message("resources/subscribe", uri.clone())).await.expect_ok();
        assert_eq!(reply["result"], json!({}), "twice is once");
    }
    running(&following, 1).await;
    following.update.notify_one();
    let expected =
        json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": uri});
    assert_eq!(stream.next().await, expected);
    let reply =
        ann.legacy_request(&message("resources/unsubscribe", uri.clone())).await.expect_ok();
    assert_eq!(reply["result"], json!({}));
    running(&following, 0).await;
    let none = json!({"uri": "test://none"});
    let reply = ann.legacy_request(&message("resources/subscribe", none)).await.expect_ok();
    assert_eq!(reply["error"]["message"], "upstream_failed: no such resource");
    assert_eq!(server.recorded_intents()[0].tool_key.name.as_str(), "mcp.resources.subscribe");
    // A subscription ends with its session.
    ann.legacy_request(&message("resources/subscribe", uri)).await.expect_ok();
    running(&following, 1).await;
    assert_eq!(ann.delete("/mcp/s").await.status, 204);
    running(&following, 0).await;
}

#[tokio::test]
async fn a_stateless_client_follows_resources_on_its_stream() {
    let (_server, following, ann) = subscribed_server().await;
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
async fn a_subscriber_hears_of_a_resource_while_it_may() {
    let (server, following, _) = subscribed_server().await;
    let reader = server.client_with(|key| key.roles = vec!["reader".to_owned()]).await;
    let wanted = json!({"notifications": {"resourceSubscriptions": ["test://a"]}});
    let mut stream =
        reader.with_endpoint("/mcp/s").modern_stream("subscriptions/listen", wanted).await;
    stream.next().await;
    running(&following, 1).await;
    // The first and the third update are the control.
    for (number, denied) in [(1, "c"), (2, "mcp.resources.subscribe"), (3, "c")] {
        server.intake.set_policy(&rules(denied, None));
        following.update.notify_one();
        within_a_minute(async {
            while following.updates.load(Ordering::SeqCst) != number {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
    for _ in 0..2 {
        assert_eq!(stream.next().await["params"]["uri"], "test://a");
    }
    server.state.close();
    assert_eq!(stream.next().await["method"], Value::Null, "the end of the stream");
}

#[tokio::test]
async fn a_revoked_keys_stream_ends_with_the_next_change() {
    let server = FixtureServer::with_offers(vec![visible("a", PermissionLevel::Guest)]).await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let mut stream = ann.open_session(json!({})).await.open_session_stream().await;
    server.revoke_key(&ann).await;
    server.replace_offers(vec![]).await;
    assert_eq!(stream.next().await, Value::Null);
}

/// The control is the first notification, which a listener with the rights of its beginning misses.
#[tokio::test]
async fn a_listener_has_the_rights_that_its_key_has_now() {
    let offers = |names: &[&str]| {
        let level = |name: &str| {
            let is_of_users = name.starts_with("user");
            if is_of_users { PermissionLevel::User } else { PermissionLevel::Guest }
        };
        names.iter().map(|name| visible(name, level(name))).collect::<Vec<_>>()
    };
    let server = FixtureServer::with_offers(offers(&["a", "user_a"])).await;
    let owner = server.owner_client().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let mut stream = ann.open_session(json!({})).await.open_session_stream().await;
    owner.post("/v1/users/ann/level", &json!({ "level": "guest" })).await.expect_ok();
    assert_eq!(changed(&mut stream).await, "notifications/tools/list_changed", "`user_a` is gone");
    // Of what it no longer lists it hears nothing.
    server.replace_offers(offers(&["a", "user_a", "user_b"])).await;
    server.replace_offers(offers(&["a", "b", "user_a", "user_b"])).await;
    assert_eq!(changed(&mut stream).await, "notifications/tools/list_changed", "`b` is new");
    server.state.close();
    assert_eq!(stream.next().await, Value::Null);
}

/// It loses notices, and holds neither its call nor the server's memory.
#[tokio::test]
async fn a_client_that_does_not_read_gets_its_answer() {
    let flooding = FloodingExecutor { lines: 5_000, long: 10_000 };
    let server = FixtureServer::with_offers(vec![tools::tool_offer(
        tools::test_tool("floods"),
        Arc::new(flooding),
    )])
    .await;
    let ann = server.agent_client("ann", PermissionLevel::User).await.open_session(json!({})).await;
    let mut stream = ann.legacy_stream(&message("tools/call", json!({"name": "floods"}))).await;
    within_a_minute(async {
        while server.recorded_ends().is_empty() {
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

/// A source has one level for all clients: the lowest requested one. The last request alone would
/// silence or flood the others.
#[tokio::test]
async fn a_source_is_set_to_the_lowest_level_that_any_session_wants() {
    let levels = Arc::new(ConcurrencyProbe::default());
    let executor = Arc::clone(&levels) as Arc<dyn tool::Executor>;
    let about =
        Json::encode(&json!({"protocolVersion": "2025-11-25", "capabilities": {"logging": {}},
        "serverInfo": {"name": "upstream", "version": "7"}}));
    let offers = vec![tools::method_offer("mcp.logging.setLevel", executor)];
    let setup = ServerSetup {
        offers,
        kind: Some("mcp"),
        source_about: Some(about),
        ..ServerSetup::default()
    };
    let server = FixtureServer::with_setup(setup).await;
    let (ann, bob) = (
        server.agent_client("ann", PermissionLevel::User).await,
        server.agent_client("bob", PermissionLevel::User).await,
    );
    let [ann, bob] = [
        ann.with_endpoint("/mcp/s").open_session(json!({})).await,
        bob.with_endpoint("/mcp/s").open_session(json!({})).await,
    ];
    let set = async |client: &Client, level: &str| {
        let message = message("logging/setLevel", json!({"level": level}));
        assert_eq!(
            client.legacy_request(&message).await.expect_ok()["result"],
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

fn at_source(levels: &ConcurrencyProbe) -> String {
    let seen = levels.seen_arguments.lock().unwrap();
    let last: Value = serde_json::from_str(seen.last().unwrap()).unwrap();
    last["level"].as_str().unwrap().to_owned()
}
