//! One-time links: they sign in once, for a while, with the key that made them and as long as it is valid.

use std::time::Duration;

use serde_json::json;
use tool::PermissionLevel;

use crate::support::browser::{send_key, stored_cookies};
use crate::support::token_issuer::client_with_token;
use crate::support::{Browser, Client, FixtureServer, Reply};

async fn make_link(client: &Client) -> String {
    let reply = client.post("/v1/sign-in-links", &json!({})).await.expect_ok();
    assert_eq!(reply["expires_in"], 120);
    let path = reply["path"].as_str().unwrap();
    path.strip_prefix("/ui/sign-in#link=").unwrap().to_owned()
}

async fn sign_in(server: &FixtureServer, token: &str) -> Reply {
    let origin = format!("http://{}", server.address);
    send_key(&server.keyless_client(), &origin, token, "").await
}

#[tokio::test]
async fn a_link_signs_in_once_with_the_key_that_made_it() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    let token = make_link(&owner).await;
    let reply = sign_in(&server, &token).await;
    assert_eq!((reply.status.as_u16(), stored_cookies(&reply).len()), (303, 1));
    let again = sign_in(&server, &token).await;
    assert_eq!(
        (again.status.as_u16(), stored_cookies(&again).len()),
        (401, 1),
        "its form's cookie"
    );
    assert!(again.text().contains("used, expired or revoked"), "{}", again.text());
    let control = make_link(&owner).await;
    assert_eq!(sign_in(&server, &control).await.status, 303);
}

#[tokio::test]
async fn a_link_ends_with_time_and_with_its_key() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    let (late, in_time) = (make_link(&owner).await, make_link(&owner).await);
    server.clock.advance(Duration::from_secs(119));
    assert_eq!(sign_in(&server, &in_time).await.status, 303);
    server.clock.advance(Duration::from_secs(1));
    assert_eq!(sign_in(&server, &late).await.status, 401);
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let (before, after) = (make_link(&ann).await, make_link(&ann).await);
    assert_eq!(sign_in(&server, &before).await.status, 303, "the control");
    server.revoke_key(&ann).await;
    assert_eq!(sign_in(&server, &after).await.status, 401);
}

#[tokio::test]
async fn a_link_opens_the_console_and_no_interface() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    let token = make_link(&owner).await;
    let client = client_with_token(&server, &token);
    assert_eq!(client.get("/v1/tools").await.status, 401);
    assert_eq!(client.post("/v1/sign-in-links", &json!({})).await.status, 401);
    assert_eq!(sign_in(&server, &token).await.status, 303, "the control");
    let browser = Browser::sign_in(&server, &owner).await;
    let reply = browser.post_from("/v1/sign-in-links", &[], &[("origin", &browser.origin)]).await;
    assert_eq!(reply.status, 401, "a session makes no link");
}
