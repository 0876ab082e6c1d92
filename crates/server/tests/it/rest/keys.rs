//! Tests of keys over REST: `/v1/keys`.

use serde_json::{Value, json};
use tool::PermissionLevel;

use crate::support::{Client, FixtureServer};

async fn made(maker: &Client, server: &FixtureServer, body: Value) -> Client {
    let reply = maker.post("/v1/keys", &body).await.expect_ok();
    let word = |field: &str| reply[field].as_str().unwrap().to_owned();
    server.keyless_client().with_key(&word("key"), &word("id"))
}

#[tokio::test]
async fn a_key_is_made_used_listed_and_revoked() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    let body = json!({"subject": "bob", "level": "admin", "label": "for tests",
        "rights": ["records:read"], "modules": ["s"], "expires_in": 60});
    let bob = made(&owner, &server, body).await;
    bob.call_tool("needs.admin", json!({})).await.expect_ok();
    assert_eq!(server.recorded_intents()[0].caller.subject, "bob");
    let keys = owner.get("/v1/keys").await.expect_ok();
    let listed = keys["keys"].as_array().unwrap();
    let record = listed.iter().find(|key| key["id"] == bob.key_id.as_str()).unwrap();
    let expected = json!({"id": bob.key_id, "subject": "bob", "level": "admin",
        "label": "for tests", "agent": true, "rights": ["records:read"], "roles": [],
        "modules": ["s"], "persona_modules": ["s"], "came_of": [], "over": null, "created": "2001-09-09T01:46:40.000Z",
        "expires": "2001-09-09T01:47:40.000Z", "revoked": null});
    assert_eq!(*record, expected);
    assert!(!keys.to_string().contains("tk_") && !keys.to_string().contains("sha256"));
    let revoked = owner.delete(&format!("/v1/keys/{}", bob.key_id)).await.expect_ok();
    assert_eq!(revoked["revoked"], "2001-09-09T01:46:40.000Z");
    assert_eq!(bob.get("/v1/tools").await.status, 401);
}

#[tokio::test]
async fn without_more_said_a_key_is_an_agents_and_a_users() {
    let server = FixtureServer::new().await;
    let bob = made(&server.owner_client().await, &server, json!({"subject": "bob"})).await;
    bob.call_tool("needs.user", json!({})).await.expect_ok();
    assert_eq!(bob.call_tool("needs.admin", json!({})).await.error().1, "unknown_tool");
    assert!(server.recorded_intents()[0].caller.is_agent);
}

#[tokio::test]
async fn a_persona_without_modules_sees_nothing() {
    let server = FixtureServer::new().await;
    let body = json!({"subject": "bob", "persona_modules": []});
    let bob = made(&server.owner_client().await, &server, body).await;
    assert_eq!(bob.get("/v1/tools").await.expect_ok()["tools"], json!([]));
    assert_eq!(bob.get("/v1/sources").await.expect_ok()["sources"], json!([]));
    assert_eq!(bob.call_tool("notes.append", json!({})).await.error().1, "unknown_tool");
}

#[tokio::test]
async fn nobody_gives_more_than_he_has() {
    let server = FixtureServer::new().await;
    let admin = server
        .client_with(|key| {
            (key.level, key.is_agent) = (PermissionLevel::Admin, false);
            key.rights = [identity::Right::KeysWrite].into();
        })
        .await;
    for (body, status, told) in [
        (
            json!({"subject": "x", "level": "owner"}),
            403,
            "your own level is `admin`, so the key cannot have the level `owner`",
        ),
        (
            json!({"subject": "x", "rights": ["approve"], "agent": false}),
            403,
            "your own key lacks the right `approve`, so it cannot grant it",
        ),
        (json!({"subject": ""}), 400, "the subject must have 1 to 256 bytes"),
        (json!({"subject": "x", "expires_in": 0}), 400, "the expiry time is in the past"),
        (
            json!({"subject": "x", "rights": ["keys:write"]}),
            400,
            "an agent's key cannot have the right `keys:write`; create a key for a person",
        ),
    ] {
        let reply = admin.post("/v1/keys", &body).await;
        assert_eq!((reply.error().0, reply.error().2.as_str()), (status, told), "{body}");
    }
    for body in
        [json!({}), json!({"subject": "x", "level": "gest"}), json!({"subject": "x", "org": "y"})]
    {
        let (status, code, told) = admin.post("/v1/keys", &body).await.error();
        assert_eq!((status, code.as_str()), (400, "invalid_request"), "{body}");
        assert!(told.starts_with("the body: "), "{told}");
    }
    let (status, _, told) = admin.delete("/v1/keys/none").await.error();
    assert_eq!((status, told.as_str()), (404, "no key `none`"));
}

/// All names of a list, two at a time, and how many pages they took.
async fn paged(owner: &Client, path: &str, (list, name): (&str, &str)) -> (Vec<Value>, usize) {
    let (mut all, mut pages, mut after) = (Vec::new(), 0, String::new());
    loop {
        let page = owner.get(&format!("{path}?limit=2{after}")).await.expect_ok();
        let entries = page[list].as_array().unwrap();
        assert!(entries.len() <= 2, "{page}");
        all.extend(entries.iter().map(|entry| entry[name].clone()));
        pages += 1;
        let Some(next) = page["next"].as_str() else { return (all, pages) };
        after = format!("&after={next}");
    }
}

#[tokio::test]
async fn lists_of_keys_and_users_come_in_pages() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    for subject in ["ann", "bob", "cid", "dot", "eve"] {
        owner.post("/v1/keys", &json!({ "subject": subject })).await.expect_ok();
    }
    for (path, list, name) in [("/v1/keys", "keys", "id"), ("/v1/users", "users", "subject")] {
        let whole = owner.get(path).await.expect_ok();
        assert_eq!(whole["next"], Value::Null);
        let whole: Vec<_> =
            whole[list].as_array().unwrap().iter().map(|entry| entry[name].clone()).collect();
        let (all, pages) = paged(&owner, path, (list, name)).await;
        assert_eq!(all, whole, "{path}");
        assert_eq!(pages, whole.len().div_ceil(2), "{path}");
        for wrong in ["?limit=0", "?limit=1001", "?limit=x", "?page=2"] {
            assert_eq!(owner.get(&format!("{path}{wrong}")).await.status, 400, "{path}{wrong}");
        }
    }
}

/// The names of the command line, and those of older versions.
#[tokio::test]
async fn a_key_is_made_by_the_names_of_flags_and_by_older_ones() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    for (body, agent) in [
        (json!({"subject": "new", "modules": ["s"], "person": true}), false),
        (json!({"subject": "old", "persona_modules": ["s"], "agent": false}), false),
        (json!({"subject": "both", "modules": ["s"], "person": false, "agent": true}), true),
    ] {
        let made = owner.post("/v1/keys", &body).await.expect_ok();
        let keys = owner.get("/v1/keys").await.expect_ok();
        let record = keys["keys"].as_array().unwrap().iter().find(|key| key["id"] == made["id"]);
        let record = record.unwrap();
        assert_eq!(
            (&record["modules"], &record["agent"]),
            (&json!(["s"]), &json!(agent)),
            "{body}"
        );
    }
    for (path, body) in [
        ("/v1/keys", json!({"subject": "x", "person": true, "agent": true})),
        ("/v1/keys", json!({"subject": "x", "modules": ["s"], "persona_modules": []})),
        ("/v1/keys/delegate", json!({"modules": ["s"], "persona_modules": ["s"]})),
    ] {
        let (status, code, _) = owner.post(path, &body).await.error();
        assert_eq!((status, code.as_str()), (400, "invalid_request"), "{body}");
    }
    for body in [json!({"modules": ["s"]}), json!({"persona_modules": ["s"]})] {
        owner.post("/v1/keys/delegate", &body).await.expect_ok();
    }
}

/// The last owner key could be revoked without confirmation, and no other could be created.
#[tokio::test]
async fn the_last_owner_key_is_revoked_only_where_that_is_asked_for() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    let path = format!("/v1/keys/{}", owner.key_id);
    let (status, code, told) = owner.delete(&path).await.error();
    assert_eq!((status, code.as_str()), (409, "conflict"), "{told}");
    assert!(told.contains("last valid owner key"), "{told}");
    // The control: of two owner keys one is revoked at once, and then the other is the last.
    let other = server.owner_client().await;
    other.delete(&path).await.expect_ok();
    assert_eq!(owner.get("/v1/keys").await.status, 401);
    let path = format!("/v1/keys/{}", other.key_id);
    assert_eq!(other.delete(&path).await.status, 409);
    other.delete(&format!("{path}?last_owner=true")).await.expect_ok();
    assert_eq!(other.get("/v1/keys").await.status, 401);
}
