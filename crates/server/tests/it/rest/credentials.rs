//! Who asks.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::json;
use tool::{Level, Wall};

use crate::support::{Reply, Server, Setup, tools};

/// What answers without a key: health, the version, and where a client gets a token.
/// The page of an approval tells how to decide, and nothing of the call.
const PUBLIC: [&str; 6] =
    ["/healthz", "/readyz", "/version", "/openapi.json", "/health", "/approvals/{id}"];

fn unauthenticated(reply: &Reply) -> String {
    let (status, code, told) = reply.error();
    assert_eq!((status, code.as_str()), (401, "unauthenticated"));
    assert_eq!(reply.header("www-authenticate"), Some("Bearer realm=\"toolkeep\""));
    told
}

#[tokio::test]
async fn without_a_key_there_is_nothing() {
    let server = Server::new().await;
    let anyone = server.anyone();
    // Every route, as the server itself describes them.
    let described = server.owner().await.get("/openapi.json").await.good();
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
    unauthenticated(&anyone.call("notes.append", json!({})).await);
    unauthenticated(&anyone.legacy(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await);
    assert_eq!(server.ledger.frames(), []);
}

#[tokio::test]
async fn a_key_that_does_not_hold_has_one_face() {
    let server = Server::new().await;
    let good = server.agent("ann", Level::User).await;
    let end = Some(Wall(1_000_000_000_000 + 5_000));
    let (revoked, expired) =
        (server.agent("rev", Level::User).await, server.client(|k| k.expires = end).await);
    for client in [&good, &revoked, &expired] {
        client.get("/v1/tools").await.good();
    }
    server.revoke(&revoked).await;
    server.clock.advance(Duration::from_secs(5));
    let secret = good.bearer().replace("Bearer ", "");
    let mut wrong = secret.clone();
    let last = if wrong.ends_with('A') { 'B' } else { 'A' };
    wrong.pop();
    wrong.push(last);
    let bearer = |token: &str| server.anyone().with("authorization", &format!("Bearer {token}"));
    let unknown = secret.replace(&good.key_id, "000000000000");
    let bad = [revoked, expired, bearer(&wrong), bearer(&unknown), bearer("x")];
    for client in bad {
        let told = unauthenticated(&client.get("/v1/tools").await);
        assert_eq!(told, "the credential is not valid here: unknown, expired or revoked");
        unauthenticated(
            &client.legacy(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await,
        );
    }
    // Positive control: the same client, with its key.
    bearer(&secret).get("/v1/tools").await.good();
    assert_eq!(server.ledger.frames(), []);
}

#[tokio::test]
async fn a_header_that_cannot_be_read_is_told_so() {
    let server = Server::new().await;
    let ann = server.agent("ann", Level::User).await;
    let secret = ann.bearer().replace("Bearer ", "");
    let anyone = server.anyone();
    for client in [
        anyone.with("authorization", &format!("Basic {secret}")),
        anyone.with("authorization", &secret),
        anyone.with("authorization", &format!("Bearer {secret}")).with("authorization", "Bearer x"),
    ] {
        let told = unauthenticated(&client.get("/v1/tools").await);
        assert_eq!(told, "the Authorization header cannot be read");
    }
    anyone.with("authorization", &format!("bearer   {secret} ")).get("/v1/tools").await.good();
}

#[tokio::test]
async fn an_open_door_lets_nobody_in_with_a_bad_key() {
    let setup = Setup { offers: tools::standard(), open: Some(Level::Guest), ..Setup::default() };
    let server = Server::with(setup).await;
    let tools = server.anyone().get("/v1/tools").await.good()["tools"].clone();
    assert_eq!(tools[0]["name"], "needs.guest");
    assert_eq!(tools[1]["name"], "notes.append");
    server.anyone().call("notes.append", json!({})).await.good();
    assert_eq!(server.intents()[0].caller.subject, "anonymous");
    let bad = server.anyone().with("authorization", "Bearer x");
    unauthenticated(&bad.get("/v1/tools").await);
    assert_eq!(server.anyone().get("/v1/records").await.error().1, "forbidden");
}

#[tokio::test]
async fn an_agent_lacks_the_rights_of_a_person() {
    let server = Server::new().await;
    let agent = server.agent("ann", Level::Owner).await;
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
    let owner = server.owner().await;
    for path in ["/v1/tools", "/v1/keys", "/v1/records", "/v1/sources", "/metrics"] {
        assert_eq!(owner.get(path).await.status, 200, "{path}");
    }
}
