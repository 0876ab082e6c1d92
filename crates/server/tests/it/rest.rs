//! Tests of the REST interface: every route with its replies and errors.

mod artifacts;
mod attention;
mod calls;
mod credentials;
mod formats;
mod keys;
mod pins;
mod records;
mod search;
mod search_learning;
mod sentence_search;
mod sources;
mod tool_search;
mod tools;
mod users;

use serde_json::json;

use crate::support::FixtureServer;

#[tokio::test]
async fn whether_it_lives_needs_no_key() {
    let server = FixtureServer::new().await;
    let anyone = server.keyless_client();
    assert_eq!(anyone.get("/healthz").await.expect_ok(), json!({"status": "ok"}));
    assert_eq!(anyone.get("/readyz").await.expect_ok(), json!({"status": "ok"}));
    let version = anyone.get("/version").await.expect_ok();
    assert_eq!(version, json!({"name": "toolkeep", "version": env!("CARGO_PKG_VERSION")}));
    server.ledger.fail_from(Some(tool::Durability::Written));
    let ready = anyone.get("/readyz").await;
    assert_eq!(ready.status, 503);
    assert_eq!(ready.json(), json!({"status": "calls cannot be recorded"}));
    assert_eq!(anyone.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn nothing_is_told_as_such() {
    let server = FixtureServer::new().await;
    let reply = server.owner_client().await.get("/v1/toolz?x=1").await;
    let told = "no route at `/v1/toolz`".to_owned();
    assert_eq!(reply.error(), (404, "not_found".to_owned(), told));
    assert_eq!(reply.json()["error"]["fix"], "see /openapi.json for all routes");
}

#[tokio::test]
async fn another_method_is_told_which_there_are() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    for (path, allow, methods) in [
        ("/v1/tools", "GET,HEAD", "GET"),
        ("/v1/tools/notes.append", "GET,HEAD", "GET"),
        ("/v1/sources/refresh", "POST", "POST"),
        ("/v1/keys", "GET,HEAD,POST", "GET or POST"),
        ("/healthz", "GET,HEAD", "GET"),
    ] {
        let reply = owner.delete(path).await;
        let told = format!("`{path}` accepts {methods}, not `DELETE`");
        assert_eq!(reply.error(), (405, "invalid_request".to_owned(), told));
        assert_eq!(reply.header("allow"), Some(allow), "{path}");
    }
    // Without a key, the allowed methods are not revealed.
    assert_eq!(server.keyless_client().delete("/v1/tools").await.status, 401);
    // Control: the listed methods respond.
    owner.get("/v1/keys").await.expect_ok();
}
