//! Tests of the events of the server: who sees which, by each mode of delivery.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::mcp_fixture::{self, FixtureEra, FixtureOptions};

use super::raw_client::McpClient;
use crate::approvals::{ApprovalHome, decide};
use crate::real_support::expect_ok;
use crate::support::server_process::{Server, start_server};

/// A key of a user without rights.
async fn plain_key(server: &Server, subject: &str) -> String {
    let body = json!({"subject": subject, "rights": [], "agent": false, "level": "user"});
    let made = expect_ok(server.owner().post("/v1/keys", &body).await);
    made["key"].as_str().unwrap().to_owned()
}

fn key_file(server: &Server, name: &str) -> String {
    std::fs::read_to_string(server.data.join(name)).unwrap().trim().to_owned()
}

/// A subscription by polls.
struct Polls {
    client: McpClient,
    name: &'static str,
    arguments: Value,
    cursor: Value,
}

impl Polls {
    /// Begins now.
    async fn begin(client: McpClient, name: &'static str, arguments: Value) -> Self {
        let mut polls = Self { client, name, arguments, cursor: Value::Null };
        assert_eq!(polls.next().await, (Vec::new(), false));
        assert!(polls.cursor.is_string());
        polls
    }

    /// The new events, and whether some were missed.
    async fn next(&mut self) -> (Vec<Value>, bool) {
        let params = json!({"name": self.name, "arguments": self.arguments, "cursor": self.cursor});
        let page = self.client.result("events/poll", params).await;
        self.cursor = page["cursor"].clone();
        assert_eq!(page["hasMore"], false);
        (page["events"].as_array().unwrap().clone(), page["truncated"] == true)
    }

    /// The data of the next event, once there is one.
    async fn wait(&mut self) -> Value {
        for _ in 0..600 {
            let (events, _) = self.next().await;
            if let [event] = events.as_slice() {
                assert_eq!(event["name"], self.name);
                assert!(event["eventId"].is_string() && event["timestamp"].is_string());
                return event["data"].clone();
            }
            assert_eq!(events, Vec::<Value>::new());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("no event `{}`", self.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_reaches_those_who_see_the_approval_and_nobody_else() {
    let bench = ApprovalHome::new("");
    let server = start_server(&bench.home).await;
    let (eve, agent, owner) = (
        plain_key(&server, "eve").await,
        key_file(&server, "agent.key"),
        key_file(&server, "owner.key"),
    );
    let client = |key: &str| McpClient::new(&server, key, "/mcp");
    let none = json!({});
    let mut requested = Vec::new();
    for key in [&owner, &agent, &eve] {
        requested.push(Polls::begin(client(key), "approval.requested", none.clone()).await);
    }
    let mut decided = Polls::begin(client(&owner), "approval.decided", none.clone()).await;
    let mut hers = Polls::begin(client(&eve), "approval.decided", none.clone()).await;
    let mut others =
        Polls::begin(client(&owner), "approval.requested", json!({"tool": "other"})).await;
    let mut same =
        Polls::begin(client(&owner), "approval.requested", json!({"tool": "wipe"})).await;

    let reply = server.agent().call("wipe", &json!({"n": 7})).await;
    assert_eq!(reply.status, 202, "{:?}", reply.body);
    let id = reply.call_id().to_owned();
    for polls in &mut requested[..2] {
        let data = polls.wait().await;
        assert_eq!((&data["approval"], &data["tool"]), (&json!(id), &json!("wipe")), "{data}");
        assert!(!data.to_string().contains("\"n\""), "no arguments: {data}");
    }
    // Whoever does not see the approval gets no event of it, nor one that its arguments exclude.
    assert_eq!(requested[2].next().await, (Vec::new(), false));
    assert_eq!(others.next().await, (Vec::new(), false));
    assert_eq!(same.wait().await["approval"], id);

    decide(&server.owner(), &id, "deny", &json!({})).await;
    let data = decided.wait().await;
    assert_eq!((&data["approval"], &data["state"]), (&json!(id), &json!("denied")), "{data}");
    assert_eq!(hers.next().await, (Vec::new(), false));

    // A cursor is its owner's, and one of an earlier process says that events may be missing.
    let mut taken = Polls {
        cursor: requested[0].cursor.clone(),
        ..Polls::begin(client(&agent), "approval.requested", none.clone()).await
    };
    assert!(taken.next().await.1);
    assert!(!requested[0].next().await.1, "control");
    let mut kept = requested.swap_remove(0);
    drop(requested);
    assert!(server.stop().await.success());
    let server = start_server(&bench.home).await;
    kept.client = McpClient::new(&server, &owner, "/mcp");
    assert_eq!(kept.next().await, (Vec::new(), true));
    assert!(server.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_of_a_hidden_source_and_the_pins_reach_nobody_without_the_right() {
    let fixture =
        mcp_fixture::start_fixture(FixtureOptions { era: FixtureEra::Modern, page_size: 0 })
            .await
            .unwrap();
    let bench = ApprovalHome::new(&format!(
        "  - {{ name: fixture, mcp: {{ url: '{}' }} }}\ndefault_guest_modules: [local]\n",
        fixture.url
    ));
    let server = start_server(&bench.home).await.wait_for_sources().await;
    let (eve, owner) = (plain_key(&server, "eve").await, key_file(&server, "owner.key"));
    let client = |key: &str| McpClient::new(&server, key, "/mcp");
    // What a caller may not see is not listed, and unknown.
    let names = async |key: &str| {
        let listed = client(key).result("events/list", json!({})).await;
        let types = listed["events"].as_array().unwrap().clone();
        types.iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert!(names(&owner).await.contains(&"pin.changed".to_owned()));
    assert!(!names(&eve).await.contains(&"pin.changed".to_owned()));
    let refused = client(&eve).send("events/poll", json!({"name": "pin.changed"})).await;
    let unknown = client(&eve).send("events/poll", json!({"name": "pin.changeable"})).await;
    assert_eq!(refused, unknown.replace("pin.changeable", "pin.changed"));
    let parsed: Value = serde_json::from_str(&refused).unwrap();
    assert_eq!(
        (&parsed["error"]["code"], &parsed["error"]["data"]["kind"]),
        (&json!(-32_023), &json!("event"))
    );
    let bad = json!({"name": "source.down", "arguments": {"sauce": "x"}});
    assert_eq!(client(&eve).ask("events/poll", bad).await["error"]["code"], -32_602);

    let none = json!({});
    let mut down = Polls::begin(client(&owner), "source.down", none.clone()).await;
    let mut up = Polls::begin(client(&owner), "source.up", json!({"source": "fixture"})).await;
    let mut hers = Polls::begin(client(&eve), "source.down", none.clone()).await;
    let mut pins = Polls::begin(client(&owner), "pin.changed", none.clone()).await;
    drop(fixture);
    let refresh = async || server.owner().post("/v1/sources/refresh", &json!({})).await;
    refresh().await;
    assert_eq!(down.wait().await["source"], "fixture");
    assert_eq!(hers.next().await, (Vec::new(), false));
    assert_eq!(up.next().await, (Vec::new(), false));
    // A definition that a person decides about.
    bench.home.write(
        "tools.yaml",
        "version: 2\ntools:\n  - name: wipe\n    description: Another one.\n    safety: dangerous\n    \
         parameters: { type: object }\n    implementation: { type: mock, mock_response: {} }\n",
    );
    let (events, _) = pins.next().await;
    assert!(events.iter().all(|event| event["name"] == "pin.changed"));
    assert!(server.stop().await.success());
}
