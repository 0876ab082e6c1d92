//! Tests of authentication over REST.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::json;
use tool::{PermissionLevel, WallTime};

use crate::support::{FixtureServer, Reply, ServerSetup, tools};

/// Routes without a key: health, the version, the server card, and the OAuth metadata. The approval page explains
/// how to decide, but shows nothing of the call.
const PUBLIC: [&str; 7] = [
    "/healthz",
    "/readyz",
    "/version",
    "/openapi.json",
    "/health",
    "/mcp/server-card",
    "/approvals/{id}",
];

fn unauthenticated(reply: &Reply) -> String {
    let (status, code, told) = reply.error();
    assert_eq!((status, code.as_str()), (401, "unauthenticated"));
    assert_eq!(reply.header("www-authenticate"), Some("Bearer realm=\"toolkeep\""));
    told
}

#[tokio::test]
async fn without_a_key_there_is_nothing() {
    let server = FixtureServer::new().await;
    let anyone = server.keyless_client();
    // Every route, as the server itself describes them.
    let described = server.owner_client().await.get("/openapi.json").await.expect_ok();
    let mut asked = 0;
    for (path, methods) in described["paths"].as_object().unwrap() {
        if PUBLIC.contains(&path.as_str()) || path.starts_with("/.well-known/") {
            continue;
        }
        let path = path.replace(['{', '}'], "");
        for method in methods.as_object().unwrap().keys() {
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let reply = anyone.send(method.clone(), &path, Bytes::from_static(b"{}")).await;
            assert_eq!(reply.status, 401, "{method} {path}: {}", reply.text());
            asked += 1;
        }
    }
    assert!(asked > 50, "{asked}");
    let told = unauthenticated(&anyone.get("/v1/tools").await);
    assert_eq!(told, "no credential; send `Authorization: Bearer KEY`");
    unauthenticated(&anyone.call_tool("notes.append", json!({})).await);
    unauthenticated(
        &anyone.legacy_request(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await,
    );
    assert_eq!(server.ledger.all_records(), []);
}

#[tokio::test]
async fn a_key_that_does_not_hold_has_one_face() {
    let server = FixtureServer::new().await;
    let good = server.agent_client("ann", PermissionLevel::User).await;
    let end = Some(WallTime(1_000_000_000_000 + 5_000));
    let (revoked, expired) = (
        server.agent_client("rev", PermissionLevel::User).await,
        server.client_with(|k| k.expires_at = end).await,
    );
    for client in [&good, &revoked, &expired] {
        client.get("/v1/tools").await.expect_ok();
    }
    server.revoke_key(&revoked).await;
    server.clock.advance(Duration::from_secs(5));
    let secret = good.bearer().replace("Bearer ", "");
    let mut wrong = secret.clone();
    let last = if wrong.ends_with('A') { 'B' } else { 'A' };
    wrong.pop();
    wrong.push(last);
    let bearer = |token: &str| {
        server.keyless_client().with_header("authorization", &format!("Bearer {token}"))
    };
    let unknown = secret.replace(&good.key_id, "000000000000");
    let bad = [revoked, expired, bearer(&wrong), bearer(&unknown), bearer("x")];
    for client in bad {
        let told = unauthenticated(&client.get("/v1/tools").await);
        assert_eq!(told, "the credential is invalid: unknown, expired or revoked");
        unauthenticated(
            &client.legacy_request(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await,
        );
    }
    // Positive control: the same client, with its key.
    bearer(&secret).get("/v1/tools").await.expect_ok();
    assert_eq!(server.ledger.all_records(), []);
}

#[tokio::test]
async fn a_header_that_cannot_be_read_is_told_so() {
    let server = FixtureServer::new().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let secret = ann.bearer().replace("Bearer ", "");
    let anyone = server.keyless_client();
    for client in [
        anyone.with_header("authorization", &format!("Basic {secret}")),
        anyone.with_header("authorization", &secret),
        anyone
            .with_header("authorization", &format!("Bearer {secret}"))
            .with_header("authorization", "Bearer x"),
    ] {
        let told = unauthenticated(&client.get("/v1/tools").await);
        assert_eq!(told, "the Authorization header cannot be read");
    }
    anyone
        .with_header("authorization", &format!("bearer   {secret} "))
        .get("/v1/tools")
        .await
        .expect_ok();
}

#[tokio::test]
async fn an_open_door_lets_nobody_in_with_a_bad_key() {
    let setup = ServerSetup {
        offers: tools::standard_offers(),
        anonymous_level: Some(PermissionLevel::Guest),
        ..ServerSetup::default()
    };
    let server = FixtureServer::with_setup(setup).await;
    let tools = server.keyless_client().get("/v1/tools").await.expect_ok()["tools"].clone();
    assert_eq!(tools[0]["name"], "needs.guest");
    assert_eq!(tools[1]["name"], "notes.append");
    server.keyless_client().call_tool("notes.append", json!({})).await.expect_ok();
    assert_eq!(server.recorded_intents()[0].caller.subject, "anonymous");
    let bad = server.keyless_client().with_header("authorization", "Bearer x");
    unauthenticated(&bad.get("/v1/tools").await);
    assert_eq!(server.keyless_client().get("/v1/records").await.error().1, "forbidden");
}

#[tokio::test]
async fn an_agent_lacks_the_rights_of_a_person() {
    let server = FixtureServer::new().await;
    let agent = server.agent_client("ann", PermissionLevel::Owner).await;
    let forbidden = |reply: Reply, right: &str| {
        let told = format!("the key lacks the right `{right}`");
        let remedy = reply.json()["error"]["fix"].as_str().unwrap_or_default().to_owned();
        assert!(
            remedy.contains("owner.key") && remedy.contains(&format!("--right {right}")),
            "{remedy}"
        );
        assert_eq!(reply.error(), (403, "forbidden".to_owned(), told));
    };
    forbidden(agent.get("/v1/keys").await, "keys:write");
    forbidden(agent.post("/v1/keys", &json!({"subject": "x"})).await, "keys:write");
    forbidden(agent.delete(&format!("/v1/keys/{}", agent.key_id)).await, "keys:write");
    forbidden(agent.get("/v1/records").await, "records:read");
    forbidden(agent.post("/v1/sources/refresh", &json!({})).await, "sources:refresh");
    forbidden(agent.post("/refresh-tools", &json!({})).await, "sources:refresh");
    // Positive control.
    let owner = server.owner_client().await;
    for path in ["/v1/tools", "/v1/keys", "/v1/records", "/v1/sources", "/metrics"] {
        assert_eq!(owner.get(path).await.status, 200, "{path}");
    }
}
