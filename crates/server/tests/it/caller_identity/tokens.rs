//! Tests of issued tokens: their users and rights, and when the issuer's keys are fetched.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use tool::PermissionLevel;

use crate::support::Reply;
use crate::support::token_issuer::{
    NOW, Signer, client_with_token, issuer_trust, server_with_issuer, valid_claims,
};

fn claims_with(name: &str, value: Value) -> Value {
    let mut all = valid_claims();
    all[name] = value;
    all
}

fn assert_unauthenticated(reply: &Reply) {
    let told = "the credential is invalid: unknown, expired or revoked".to_owned();
    assert_eq!(reply.error(), (401, "unauthenticated".to_owned(), told));
}

#[tokio::test]
async fn a_token_calls_as_its_user_with_what_is_granted() {
    let signer = Signer::new("k1");
    let (server, _) = server_with_issuer(&signer).await;
    let ann = client_with_token(&server, &signer.token(&valid_claims()));
    ann.call_tool("needs.guest", json!({})).await.expect_ok();
    assert_eq!(ann.call_tool("needs.admin", json!({})).await.error().1, "unknown_tool");
    let admin =
        client_with_token(&server, &signer.token(&claims_with("scope", json!("tools admin"))));
    admin.call_tool("needs.admin", json!({})).await.expect_ok();
    let callers: Vec<_> =
        server.recorded_intents().into_iter().map(|intent| intent.caller).collect();
    assert!(callers.iter().all(|caller| caller.subject == "corp:ann" && caller.is_agent));
    assert_eq!(
        [callers[0].level, callers[1].level],
        [PermissionLevel::Guest, PermissionLevel::Admin]
    );
    assert_eq!(callers[0].key_id, callers[1].key_id);
    // It has no administrative rights, whatever its level.
    assert_eq!(admin.get("/v1/keys").await.error().1, "forbidden");
    let hand = admin.post("/v1/keys/delegate", &json!({})).await.error();
    assert_eq!((hand.0, hand.2.as_str()), (403, "only a Toolkeep API key can be delegated"));
}

#[tokio::test]
async fn tokens_work_through_both_eras_of_mcp() {
    let signer = Signer::new("k1");
    let (server, _) = server_with_issuer(&signer).await;
    let ann = client_with_token(&server, &signer.token(&valid_claims()));
    let message = crate::support::client::message(
        "tools/call",
        json!({"name": "needs.guest", "arguments": {}}),
    );
    assert_ne!(ann.legacy_request(&message).await.json()["result"]["isError"], true);
    let modern =
        ann.modern_request("tools/call", json!({"name": "needs.guest", "arguments": {}})).await;
    assert!(modern.json()["result"]["content"].is_array());
    let bad = client_with_token(&server, &Signer::new("k1").token(&valid_claims()));
    assert_unauthenticated(&bad.legacy_request(&message).await);
}

#[tokio::test]
async fn a_new_key_of_an_issuer_is_found_and_it_is_asked_once_a_minute() {
    let (old, new) = (Signer::new("k1"), Signer::new("k2"));
    let (server, published) = server_with_issuer(&old).await;
    let ann = client_with_token(&server, &old.token(&valid_claims()));
    let later = client_with_token(&server, &new.token(&valid_claims()));
    ann.get("/v1/tools").await.expect_ok();
    ann.get("/v1/tools").await.expect_ok();
    assert_eq!(published.fetch_count(), 1);
    // An unknown key triggers one fetch, and none for the next minute.
    server.clock.advance(Duration::from_secs(61));
    for _ in 0..20 {
        assert_unauthenticated(&later.get("/v1/tools").await);
    }
    assert_eq!(published.fetch_count(), 2);
    published.keys.lock().unwrap().push(new.jwk());
    assert_unauthenticated(&later.get("/v1/tools").await);
    server.clock.advance(Duration::from_secs(61));
    later.get("/v1/tools").await.expect_ok();
    ann.get("/v1/tools").await.expect_ok();
    assert_eq!(published.fetch_count(), 3);
}

#[tokio::test]
async fn a_key_that_its_issuer_took_back_holds_an_hour_at_most() {
    let (old, new) = (Signer::new("k1"), Signer::new("k2"));
    let (server, published) = server_with_issuer(&old).await;
    client_with_token(&server, &old.token(&valid_claims())).get("/v1/tools").await.expect_ok();
    *published.keys.lock().unwrap() = vec![new.jwk()];
    server.clock.advance(Duration::from_secs(3_601));
    let late = |mut claims: Value| {
        (claims["iat"], claims["exp"]) = (json!(NOW + 3_600), json!(NOW + 4_000));
        claims
    };
    assert_unauthenticated(
        &client_with_token(&server, &old.token(&late(valid_claims()))).get("/v1/tools").await,
    );
    client_with_token(&server, &new.token(&late(valid_claims())))
        .get("/v1/tools")
        .await
        .expect_ok();
}

#[tokio::test]
async fn where_the_keys_cannot_be_had_nobody_is_let_in() {
    let signer = Signer::new("k1");
    let (server, published) = server_with_issuer(&signer).await;
    published.is_down.store(true, Ordering::SeqCst);
    let ann = client_with_token(&server, &signer.token(&valid_claims()));
    for _ in 0..3 {
        let error = ann.get("/v1/tools").await.error();
        assert_eq!((error.0, error.1.as_str()), (502, "upstream_lost"));
    }
    assert_eq!(published.fetch_count(), 1);
    published.is_down.store(false, Ordering::SeqCst);
    server.clock.advance(Duration::from_secs(6));
    ann.get("/v1/tools").await.expect_ok();
    // Keys of this program hold without any issuer.
    published.is_down.store(true, Ordering::SeqCst);
    server.owner_client().await.get("/v1/tools").await.expect_ok();
}

#[tokio::test]
async fn a_disabled_user_and_a_revoked_role_count_for_tokens() {
    let signer = Signer::new("k1");
    let (server, _) = server_with_issuer(&signer).await;
    let owner = server.owner_client().await;
    let admin = client_with_token(&server, &signer.token(&claims_with("scope", json!("admin"))));
    admin.call_tool("needs.admin", json!({})).await.expect_ok();
    let role = json!({"rights": ["records:read"]});
    owner.put("/v1/roles/ops", &role).await.expect_ok();
    admin.get("/v1/records").await.expect_ok();
    owner.delete("/v1/roles/ops").await.expect_ok();
    assert_eq!(admin.call_tool("needs.admin", json!({})).await.error().1, "unknown_tool");
    let ann = client_with_token(&server, &signer.token(&valid_claims()));
    ann.get("/v1/tools").await.expect_ok();
    let new = json!({"subject": "corp:ann", "level": "user"});
    owner.post("/v1/users", &new).await.expect_ok();
    owner.delete("/v1/users/corp:ann").await.expect_ok();
    assert_unauthenticated(&ann.get("/v1/tools").await);
    owner.post("/v1/users/corp:ann/enable", &json!({})).await.expect_ok();
    ann.get("/v1/tools").await.expect_ok();
}

#[tokio::test]
async fn keys_of_an_issuer_that_stays_outlive_a_new_configuration() {
    let signer = Signer::new("k1");
    let (server, published) = server_with_issuer(&signer).await;
    let token = signer.token(&valid_claims());
    client_with_token(&server, &token).get("/v1/tools").await.expect_ok();
    let asked = published.fetch_count();
    // Trusted again with the same configuration, while its keys cannot be fetched.
    server.issuers.replace(Some(issuer_trust(&published)));
    published.is_down.store(true, Ordering::SeqCst);
    client_with_token(&server, &token).get("/v1/tools").await.expect_ok();
    assert_eq!(published.fetch_count(), asked);
    // Positive control: after a time without trust the keys must be fetched.
    server.issuers.replace(None);
    server.issuers.replace(Some(issuer_trust(&published)));
    assert_ne!(client_with_token(&server, &token).get("/v1/tools").await.status, 200);
    assert!(published.fetch_count() > asked);
}
