//! Tests of records over REST: `/v1/records`.

use std::time::Duration;

use serde_json::{Value, json};
use tool::{PermissionLevel, WallTime};

use crate::support::{Client, FixtureServer};

#[tokio::test]
async fn records_come_newest_first_in_pages() {
    let server = FixtureServer::new().await;
    let (ann, owner) =
        (server.agent_client("ann", PermissionLevel::User).await, server.owner_client().await);
    for _ in 0..3 {
        ann.call_tool("notes.append", json!({})).await.expect_ok();
    }
    let mut seqs = Vec::new();
    let mut path = "/v1/records?limit=4".to_owned();
    loop {
        let page = owner.get(&path).await.expect_ok();
        let records = page["records"].as_array().unwrap();
        seqs.push(records.iter().map(|record| record["seq"].as_u64().unwrap()).collect::<Vec<_>>());
        let Some(next) = page["next_cursor"].as_str() else { break };
        path = format!("/v1/records?limit=4&cursor={next}");
    }
    assert_eq!(seqs, [vec![5, 4, 3, 2], vec![1, 0]]);
    let whole = owner.get("/v1/records").await.expect_ok();
    let kinds: Vec<&Value> =
        whole["records"].as_array().unwrap().iter().map(|record| &record["kind"]).collect();
    assert_eq!(kinds, ["outcome", "intent", "outcome", "intent", "outcome", "intent"]);
}

#[tokio::test]
async fn bad_questions_are_told_what_is_wrong() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    for (query, told) in [
        ("limit=0", "`limit` must be from 1 to 1000"),
        ("limit=1001", "`limit` must be from 1 to 1000"),
        ("cursor=x", "the query: `cursor` is not a whole number"),
        (
            "who=ann",
            "the query: unknown parameter `who`; use one of limit, cursor, tool, call, caller, parent, kind, status, since, until",
        ),
        ("call=x", "`call` must be the ID of a call, not `x`"),
        ("kind=gap", "unknown `kind`: `gap`; use one of intent, wait, outcome, refused, event"),
        (
            "status=running",
            "unknown `status`: `running`; use one of succeeded, failed, cancelled, abandoned, unknown, refused, waiting",
        ),
        ("since=yesterday", "invalid time in `since`: `yesterday`"),
        ("until=99999999999999999999d", "invalid time in `until`: `99999999999999999999d`"),
    ] {
        let (status, code, message) = owner.get(&format!("/v1/records?{query}")).await.error();
        assert_eq!((status, code.as_str()), (400, "invalid_request"), "{query}");
        assert!(message.starts_with(told), "{message}");
    }
}

/// A page of the record, as kinds and tools or callers that are there.
async fn listed(client: &Client, query: &str) -> Vec<String> {
    let page = client.get(&format!("/v1/records?{query}")).await.expect_ok();
    let word = |record: &Value| {
        let (kind, body) = (record["kind"].as_str().unwrap(), &record["body"]);
        let who = body["caller"]["subject"].as_str().or(body["status"].as_str());
        format!("{kind} {}", who.unwrap_or_default())
    };
    page["records"].as_array().unwrap().iter().map(word).collect()
}

#[tokio::test]
async fn records_are_listed_by_call_caller_kind_status_and_time() {
    let server = FixtureServer::new().await;
    let (ann, bob) = (
        server.agent_client("ann", PermissionLevel::User).await,
        server.agent_client("bob", PermissionLevel::User).await,
    );
    let owner = server.owner_client().await;
    server.clock.advance(Duration::from_hours(48));
    ann.call_tool("notes.append", json!({})).await.expect_ok();
    server.clock.advance(Duration::from_hours(1));
    ann.call_tool("says_error", json!({})).await.expect_ok();
    server.clock.advance(Duration::from_hours(1));
    let id = bob.call_tool("notes.append", json!({})).await.expect_ok()["call_id"]
        .as_str()
        .unwrap()
        .to_owned();
    bob.call_tool("nothing", json!({})).await;
    let now =
        owner.get("/v1/records?limit=1").await.expect_ok()["records"][0]["body"]["at"].clone();
    let now = now.as_str().unwrap().parse::<WallTime>().unwrap();
    let hour_ago = WallTime(now.0 - 3_600_000);
    for (query, expected) in [
        ("call=CALL", vec!["outcome succeeded", "intent bob"]),
        ("caller=bob", vec!["refused bob", "outcome succeeded", "intent bob"]),
        ("caller=nobody", vec![]),
        ("kind=refused", vec!["refused bob"]),
        ("kind=intent&caller=ann", vec!["intent ann", "intent ann"]),
        ("status=failed", vec!["outcome failed"]),
        ("status=refused", vec!["refused bob"]),
        ("since=30m", vec!["refused bob", "outcome succeeded", "intent bob"]),
        ("since=HOUR&until=30m", vec!["outcome failed", "intent ann"]),
        ("since=HOUR&until=HOUR", vec![]),
        ("until=HOUR&kind=intent", vec!["intent ann"]),
    ] {
        let query = query.replace("CALL", &id).replace("HOUR", &hour_ago.to_string());
        assert_eq!(listed(&owner, &query).await, expected, "{query}");
    }
    // Control: without a filter all of them are listed.
    assert_eq!(listed(&owner, "").await.len(), 7);
    // Times have the same form in every view of the record.
    let of_call = owner.get(&format!("/v1/calls/{id}")).await.expect_ok();
    assert_eq!(of_call["started"], of_call["records"][0]["body"]["at"]);
}
