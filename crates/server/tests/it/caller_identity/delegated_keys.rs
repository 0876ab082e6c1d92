//! Tests of delegated keys and of acting on behalf of another caller.

use serde_json::{Value, json};
use tool::{PermissionLevel, WallTime};

use crate::support::{Client, FixtureServer};

pub(super) async fn delegate_key(server: &FixtureServer, from: &Client, body: Value) -> Client {
    let made = from.post("/v1/keys/delegate", &body).await.expect_ok();
    server.keyless_client().with_key(made["key"].as_str().unwrap(), made["id"].as_str().unwrap())
}

pub(super) async fn names(client: &Client) -> Vec<String> {
    let tools = client.get("/v1/tools").await.expect_ok();
    let tools = tools["tools"].as_array().unwrap().clone();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn an_agent_hands_on_what_it_has_and_no_more() {
    let server = FixtureServer::new().await;
    let agent = server.agent_client("ann", PermissionLevel::User).await;
    let lower = delegate_key(&server, &agent, json!({"level": "guest"})).await;
    assert!(names(&agent).await.contains(&"needs.user".to_owned()));
    assert!(!names(&lower).await.contains(&"needs.user".to_owned()));
    lower.call_tool("needs.guest", json!({})).await.expect_ok();
    let caller = server.recorded_intents()[0].caller.clone();
    assert_eq!((caller.subject.as_str(), caller.key_id.as_str()), ("ann", lower.key_id.as_str()));
    for (body, told) in [
        (
            json!({"level": "admin"}),
            "your own level is `user`, so the key cannot have the level \
            `admin`",
        ),
        (
            json!({"rights": ["records:read"]}),
            "your own key lacks the right `records:read`, so it cannot grant it",
        ),
        (
            json!({"person": true}),
            "an agent cannot create a key for a person; mark the key as `agent`",
        ),
        (
            json!({"act_as": "bob"}),
            "your key lacks the right `act_as`, so it cannot act on behalf of `bob`",
        ),
    ] {
        let error = agent.post("/v1/keys/delegate", &body).await.error();
        assert_eq!(error, (403, "forbidden".to_owned(), told.to_owned()));
    }
    let back = lower.post("/v1/keys/delegate", &json!({"level": "user"})).await.error();
    assert_eq!(back.0, 403, "{back:?}");
    assert_eq!(agent.post("/v1/keys/delegate", &json!({"org": "x"})).await.status, 400);
    assert_eq!(server.keyless_client().post("/v1/keys/delegate", &json!({})).await.status, 401);
}

#[tokio::test]
async fn who_handed_a_key_on_may_take_it_back_and_no_other() {
    let server = FixtureServer::new().await;
    let (agent, other) = (
        server.agent_client("ann", PermissionLevel::User).await,
        server.agent_client("bob", PermissionLevel::User).await,
    );
    let child = delegate_key(&server, &agent, json!({})).await;
    let grandchild = delegate_key(&server, &child, json!({})).await;
    let path = format!("/v1/keys/{}", child.key_id);
    for stranger in [&other, &grandchild, &child] {
        assert_eq!(stranger.delete(&path).await.error().1, "forbidden");
    }
    agent.delete(&path).await.expect_ok();
    for gone in [&child, &grandchild] {
        assert_eq!(gone.get("/v1/tools").await.status, 401);
    }
    agent.get("/v1/tools").await.expect_ok();
    // Who lists keys sees that it does not hold, and why.
    let keys = server.owner_client().await.get("/v1/keys").await.expect_ok();
    let row = keys["keys"]
        .as_array()
        .unwrap()
        .iter()
        .find(|key| key["id"] == grandchild.key_id.as_str())
        .unwrap()
        .clone();
    assert_eq!(
        (&row["over"], &row["came_of"]),
        (&json!("revoked"), &json!([agent.key_id, child.key_id]))
    );
}

#[tokio::test]
async fn a_key_ends_with_the_one_it_came_of() {
    let server = FixtureServer::new().await;
    let end = Some(WallTime(1_000_000_000_000 + 60_000));
    let agent = server.client_with(|key| key.expires_at = end).await;
    let made = agent.post("/v1/keys/delegate", &json!({})).await.expect_ok();
    assert_eq!(made["expires"], "2001-09-09T01:47:40.000Z");
    let longer = agent.post("/v1/keys/delegate", &json!({"expires_in": 61})).await.error();
    assert_eq!(longer.2, "your own key expires before the new one would; use a shorter lifetime");
    agent.post("/v1/keys/delegate", &json!({"expires_in": 60})).await.expect_ok();
}

#[tokio::test]
async fn only_so_many_keys_come_of_one_and_those_that_ended_make_room() {
    let server = FixtureServer::new().await;
    let agent = server.agent_client("ann", PermissionLevel::User).await;
    for _ in 0..256 {
        agent.post("/v1/keys/delegate", &json!({"expires_in": 60})).await.expect_ok();
    }
    let error = agent.post("/v1/keys/delegate", &json!({})).await.error();
    assert_eq!((error.0, error.1.as_str()), (413, "too_large"));
    server.clock.advance(std::time::Duration::from_mins(1));
    let child = delegate_key(&server, &agent, json!({})).await;
    child.get("/v1/tools").await.expect_ok();
    // Each key that is handed on takes some of the records of those that ended with it.
    for _ in 0..16 {
        delegate_key(&server, &agent, json!({})).await;
    }
    let keys = server.owner_client().await.get("/v1/keys").await.expect_ok();
    assert_eq!(keys["keys"].as_array().unwrap().len(), 2 + 17);
}

#[tokio::test]
async fn on_behalf_of_another_the_record_names_both() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    owner.post("/v1/users", &json!({"subject": "ann", "level": "guest"})).await.expect_ok();
    let bot = server
        .client_with(|key| {
            (key.subject, key.level) = ("core".to_owned(), PermissionLevel::Admin);
            key.rights = [identity::Right::ActAs].into();
        })
        .await;
    let missing = bot.post("/v1/keys/delegate", &json!({"act_as": "nobody"})).await.error();
    assert_eq!((missing.0, missing.2.as_str()), (404, "no user `nobody`"));
    let as_ann = delegate_key(&server, &bot, json!({"act_as": "ann"})).await;
    as_ann.call_tool("needs.guest", json!({})).await.expect_ok();
    assert_eq!(as_ann.call_tool("needs.user", json!({})).await.error().1, "unknown_tool");
    let caller = server.recorded_intents()[0].caller.clone();
    assert_eq!((caller.subject.as_str(), caller.level), ("ann", PermissionLevel::Guest));
    assert_eq!(
        (caller.actors[0].subject.as_str(), caller.actors[0].key_id.as_str()),
        ("core", bot.key_id.as_str())
    );
    assert_eq!(server.recorded_refusals()[0].caller.actors.len(), 1);
    // It acts for her only, and not with her rights alone.
    assert_eq!(as_ann.post("/v1/keys/delegate", &json!({"act_as": "core"})).await.status, 403);
    owner.post("/v1/users/ann/level", &json!({"level": "admin"})).await.expect_ok();
    as_ann.call_tool("needs.admin", json!({})).await.expect_ok();
    assert_eq!(as_ann.call_tool("needs.owner", json!({})).await.error().1, "unknown_tool");
    owner.delete("/v1/users/ann").await.expect_ok();
    assert_eq!(as_ann.get("/v1/tools").await.status, 401);
}
