//! Tokens of issuers: whose they are, what they may do, and when an issuer is asked for its keys.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use tool::Level;

use crate::support::Reply;
use crate::support::issuer::{NOW, Signer, bearing, believing, claims, trusted};

fn with(name: &str, value: Value) -> Value {
    let mut all = claims();
    all[name] = value;
    all
}

fn refused(reply: &Reply) {
    let told = "the credential is not valid here: unknown, expired or revoked".to_owned();
    assert_eq!(reply.error(), (401, "unauthenticated".to_owned(), told));
}

#[tokio::test]
async fn a_token_calls_as_its_user_with_what_is_granted() {
    let signer = Signer::new("k1");
    let (server, _) = believing(&signer).await;
    let ann = bearing(&server, &signer.token(&claims()));
    ann.call("needs.guest", json!({})).await.good();
    assert_eq!(ann.call("needs.admin", json!({})).await.error().1, "unknown_tool");
    let admin = bearing(&server, &signer.token(&with("scope", json!("tools admin"))));
    admin.call("needs.admin", json!({})).await.good();
    let callers: Vec<_> = server.intents().into_iter().map(|intent| intent.caller).collect();
    assert!(callers.iter().all(|caller| caller.subject == "corp:ann" && caller.agent));
    assert_eq!([callers[0].level, callers[1].level], [Level::Guest, Level::Admin]);
    assert_eq!(callers[0].key, callers[1].key);
    // It manages nothing, whatever its level.
    assert_eq!(admin.get("/v1/keys").await.error().1, "forbidden");
    let hand = admin.post("/v1/keys/delegate", &json!({})).await.error();
    assert_eq!((hand.0, hand.2.as_str()), (403, "only a key of this program can be handed on"));
}

#[tokio::test]
async fn tokens_work_through_both_eras_of_mcp() {
    let signer = Signer::new("k1");
    let (server, _) = believing(&signer).await;
    let ann = bearing(&server, &signer.token(&claims()));
    let message = crate::support::client::message(
        "tools/call",
        json!({"name": "needs.guest", "arguments": {}}),
    );
    assert_ne!(ann.legacy(&message).await.json()["result"]["isError"], true);
    let modern = ann.modern("tools/call", json!({"name": "needs.guest", "arguments": {}})).await;
    assert!(modern.json()["result"]["content"].is_array());
    let bad = bearing(&server, &Signer::new("k1").token(&claims()));
    refused(&bad.legacy(&message).await);
}

#[tokio::test]
async fn a_new_key_of_an_issuer_is_found_and_it_is_asked_once_a_minute() {
    let (old, new) = (Signer::new("k1"), Signer::new("k2"));
    let (server, published) = believing(&old).await;
    let ann = bearing(&server, &old.token(&claims()));
    let later = bearing(&server, &new.token(&claims()));
    ann.get("/v1/tools").await.good();
    ann.get("/v1/tools").await.good();
    assert_eq!(published.asked(), 1);
    // A key that is nobody's is looked for, and then for a minute no more.
    server.clock.advance(Duration::from_secs(61));
    for _ in 0..20 {
        refused(&later.get("/v1/tools").await);
    }
    assert_eq!(published.asked(), 2);
    published.keys.lock().unwrap().push(new.jwk());
    refused(&later.get("/v1/tools").await);
    server.clock.advance(Duration::from_secs(61));
    later.get("/v1/tools").await.good();
    ann.get("/v1/tools").await.good();
    assert_eq!(published.asked(), 3);
}

#[tokio::test]
async fn a_key_that_its_issuer_took_back_holds_an_hour_at_most() {
    let (old, new) = (Signer::new("k1"), Signer::new("k2"));
    let (server, published) = believing(&old).await;
    bearing(&server, &old.token(&claims())).get("/v1/tools").await.good();
    *published.keys.lock().unwrap() = vec![new.jwk()];
    server.clock.advance(Duration::from_secs(3_601));
    let late = |mut claims: Value| {
        (claims["iat"], claims["exp"]) = (json!(NOW + 3_600), json!(NOW + 4_000));
        claims
    };
    refused(&bearing(&server, &old.token(&late(claims()))).get("/v1/tools").await);
    bearing(&server, &new.token(&late(claims()))).get("/v1/tools").await.good();
}

#[tokio::test]
async fn where_the_keys_cannot_be_had_nobody_is_let_in() {
    let signer = Signer::new("k1");
    let (server, published) = believing(&signer).await;
    published.down.store(true, Ordering::SeqCst);
    let ann = bearing(&server, &signer.token(&claims()));
    for _ in 0..3 {
        let error = ann.get("/v1/tools").await.error();
        assert_eq!((error.0, error.1.as_str()), (502, "upstream_lost"));
    }
    assert_eq!(published.asked(), 1);
    published.down.store(false, Ordering::SeqCst);
    server.clock.advance(Duration::from_secs(6));
    ann.get("/v1/tools").await.good();
    // Keys of this program hold without any issuer.
    published.down.store(true, Ordering::SeqCst);
    server.owner().await.get("/v1/tools").await.good();
}

#[tokio::test]
async fn a_disabled_user_and_a_revoked_role_count_for_tokens() {
    let signer = Signer::new("k1");
    let (server, _) = believing(&signer).await;
    let owner = server.owner().await;
    let admin = bearing(&server, &signer.token(&with("scope", json!("admin"))));
    admin.call("needs.admin", json!({})).await.good();
    let role = json!({"rights": ["records:read"]});
    owner.put("/v1/roles/ops", &role).await.good();
    admin.get("/v1/records").await.good();
    owner.delete("/v1/roles/ops").await.good();
    assert_eq!(admin.call("needs.admin", json!({})).await.error().1, "unknown_tool");
    let ann = bearing(&server, &signer.token(&claims()));
    ann.get("/v1/tools").await.good();
    let new = json!({"subject": "corp:ann", "level": "user"});
    owner.post("/v1/users", &new).await.good();
    owner.delete("/v1/users/corp:ann").await.good();
    refused(&ann.get("/v1/tools").await);
    owner.post("/v1/users/corp:ann/enable", &json!({})).await.good();
    ann.get("/v1/tools").await.good();
}

#[tokio::test]
async fn keys_of_an_issuer_that_stays_outlive_a_new_configuration() {
    let signer = Signer::new("k1");
    let (server, published) = believing(&signer).await;
    let token = signer.token(&claims());
    bearing(&server, &token).get("/v1/tools").await.good();
    let asked = published.asked();
    // Believed anew, the same and in the same place; and its keys cannot be had just now.
    server.issuers.set(Some(trusted(&published)));
    published.down.store(true, Ordering::SeqCst);
    bearing(&server, &token).get("/v1/tools").await.good();
    assert_eq!(published.asked(), asked);
    // Positive control: once it was not believed in between, they have to be asked for.
    server.issuers.set(None);
    server.issuers.set(Some(trusted(&published)));
    assert_ne!(bearing(&server, &token).get("/v1/tools").await.status, 200);
    assert!(published.asked() > asked);
}
