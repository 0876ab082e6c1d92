//! Tests of roles, users and organisations.

use identity::{NewKey, Right};
use serde_json::json;
use server_core::KeyStore;
use tool::{Clock as _, PermissionLevel};

use super::delegated_keys::names;
use crate::support::FixtureServer;

#[tokio::test]
async fn a_role_is_made_given_changed_and_revoked() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    let made = owner
        .put(
            "/v1/roles/ops",
            &json!({"description": "d", "level": "user", "rights": ["records:read"]}),
        )
        .await
        .expect_ok();
    assert_eq!(
        made,
        json!({"name": "ops", "description": "d", "level": "user",
        "rights": ["records:read"], "keys": 0, "revoked": null})
    );
    let new = json!({"subject": "ann", "level": "admin", "roles": ["ops"]});
    let key = owner.post("/v1/keys", &new).await.expect_ok();
    let ann =
        server.keyless_client().with_key(key["key"].as_str().unwrap(), key["id"].as_str().unwrap());
    ann.get("/v1/records").await.expect_ok();
    assert!(!names(&ann).await.contains(&"needs.admin".to_owned()));
    owner.put("/v1/roles/ops", &json!({})).await.expect_ok();
    assert_eq!(ann.get("/v1/records").await.error().1, "forbidden");
    assert!(names(&ann).await.contains(&"needs.admin".to_owned()));
    let revoked = owner.delete("/v1/roles/ops").await.expect_ok();
    assert_eq!(revoked["keys"], 1);
    assert_eq!(names(&ann).await, [""; 0]);
    assert_eq!(owner.get("/v1/roles").await.expect_ok()["roles"][0]["name"], "ops");
    owner.put("/v1/roles/ops", &json!({})).await.expect_ok();
    assert!(!names(&ann).await.is_empty());
    assert_eq!(owner.delete("/v1/roles/nothing").await.status, 404);
    assert_eq!(owner.put("/v1/roles/a%2Fb", &json!({})).await.status, 400);
}

#[tokio::test]
async fn nobody_gives_by_a_role_what_he_has_not() {
    let server = FixtureServer::new().await;
    let person = server
        .client_with(|key| {
            (key.subject, key.is_agent) = ("ann".to_owned(), false);
            key.rights = [identity::Right::KeysWrite].into();
        })
        .await;
    let told = "your own key lacks the right `approve`, so it cannot grant it to a role";
    let error = person.put("/v1/roles/boss", &json!({"rights": ["approve"]})).await.error();
    assert_eq!(error, (403, "forbidden".to_owned(), told.to_owned()));
    let owner = server.owner_client().await;
    owner.put("/v1/roles/boss", &json!({"rights": ["approve"]})).await.expect_ok();
    // Neither may such a role be changed or given on.
    assert_eq!(person.put("/v1/roles/boss", &json!({})).await.status, 403);
    let new = json!({"subject": "x", "roles": ["boss"], "agent": false});
    assert_eq!(person.post("/v1/keys", &new).await.status, 403);
    let agent = server.agent_client("eve", PermissionLevel::Owner).await;
    assert_eq!(
        agent.put("/v1/roles/r", &json!({})).await.error().2,
        "the key lacks the right `keys:write`"
    );
}

#[tokio::test]
async fn a_disabled_user_has_no_key_that_holds() {
    let server = FixtureServer::new().await;
    let (owner, ann) =
        (server.owner_client().await, server.agent_client("ann", PermissionLevel::User).await);
    let disabled = owner.delete("/v1/users/ann").await.expect_ok();
    assert!(disabled["disabled"].is_string());
    assert_eq!(ann.get("/v1/tools").await.status, 401);
    owner.post("/v1/users/ann/enable", &json!({})).await.expect_ok();
    ann.get("/v1/tools").await.expect_ok();
    assert_eq!(owner.delete("/v1/users/nobody").await.status, 404);
    assert_eq!(owner.delete("/v1/users/owner").await.error().0, 409);
    assert_eq!(ann.delete("/v1/users/owner").await.status, 403);
}

#[tokio::test]
async fn an_organisation_has_keys_of_its_own_and_ends_as_one() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    let made = owner.post("/v1/orgs", &json!({"name": "acme"})).await.expect_ok();
    let acme = server
        .keyless_client()
        .with_key(made["key"].as_str().unwrap(), made["id"].as_str().unwrap());
    assert_eq!(owner.post("/v1/orgs", &json!({"name": "acme"})).await.status, 409);
    assert_eq!(owner.post("/v1/orgs", &json!({"name": "default"})).await.status, 409);
    // Nothing of the installation's is its.
    assert_eq!(names(&acme).await, [""; 0]);
    let keys = acme.get("/v1/keys").await.expect_ok();
    assert_eq!(keys["keys"].as_array().unwrap().len(), 1);
    for path in ["/v1/orgs", "/v1/roles", "/v1/personas", "/v1/orgs/acme/tools"] {
        assert_eq!(acme.get(path).await.error().1, "forbidden", "{path}");
    }
    assert_eq!(acme.put("/v1/orgs/acme/tools", &json!({"tools": ["*"]})).await.status, 403);
    assert_eq!(acme.post("/v1/sources/refresh", &json!({})).await.status, 403);
    assert_eq!(acme.delete(&format!("/v1/keys/{}", owner.key_id)).await.status, 404);
    let agent = acme.post("/v1/keys", &json!({"subject": "bot"})).await.expect_ok();
    let agent = server
        .keyless_client()
        .with_key(agent["key"].as_str().unwrap(), agent["id"].as_str().unwrap());
    agent.get("/v1/tools").await.expect_ok();
    owner.delete("/v1/orgs/acme").await.expect_ok();
    for gone in [&acme, &agent] {
        assert_eq!(gone.get("/v1/tools").await.status, 401);
    }
    owner.post("/v1/orgs/acme/enable", &json!({})).await.expect_ok();
    acme.get("/v1/tools").await.expect_ok();
    assert_eq!(owner.delete("/v1/orgs/default").await.status, 409);
}

#[tokio::test]
async fn the_tools_of_an_organisation_are_kept() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    owner.post("/v1/orgs", &json!({"name": "acme"})).await.expect_ok();
    let path = "/v1/orgs/acme/tools";
    assert_eq!(owner.get(path).await.expect_ok(), json!({"org": "acme", "tools": null}));
    let list = json!({"tools": ["web.*", "notes.append"]});
    owner.put(path, &list).await.expect_ok();
    assert_eq!(owner.get(path).await.expect_ok()["tools"], list["tools"]);
    let ring = server.keys.key_ring();
    let acme = "acme".parse().unwrap();
    assert_eq!(ring.directory().org_tools(&acme).unwrap().patterns(), ["web.*", "notes.append"]);
    assert_eq!(owner.get("/v1/orgs").await.expect_ok()["orgs"][0]["tools"], 2);
    assert_eq!(owner.put("/v1/orgs/nobody/tools", &list).await.status, 404);
    assert_eq!(owner.put(path, &json!({"tools": ["a\nb"]})).await.status, 400);
}

#[tokio::test]
async fn an_owners_key_of_an_older_program_gets_the_rights_that_came_since() {
    let server = FixtureServer::new().await;
    let now = server.clock.wall_now();
    let older = |level: PermissionLevel, agent: bool, rights: &[Right]| {
        let rights = rights.iter().copied().collect();
        NewKey {
            level,
            is_agent: agent,
            rights,
            ..NewKey::for_owner(KeyStore::generate_key_id().unwrap())
        }
    };
    let rights = [Right::Approve, Right::KeysWrite];
    let mut changed = Vec::new();
    for key in [
        older(PermissionLevel::Owner, false, &rights),
        older(PermissionLevel::Admin, false, &rights),
        older(PermissionLevel::Owner, true, &[]),
    ] {
        let (secret, record) = server.keys.create_key(key, now).await.unwrap();
        changed.push(server.keys.grant_new_owner_rights(secret.expose(), now).await.unwrap());
        let ring = server.keys.key_ring();
        let has_all = Right::ALL
            .iter()
            .all(|right| ring.principal_of_key(record.id.as_str()).unwrap().has_right(*right));
        assert_eq!(has_all, changed == [true]);
        assert!(
            !server.keys.grant_new_owner_rights(secret.expose(), now).await.unwrap(),
            "once is enough"
        );
    }
    // Keys of an administrator and of an agent stay unchanged, as do keys whose secret nobody has.
    assert_eq!(changed, [true, false, false]);
    assert!(!server.keys.grant_new_owner_rights("tk_nobody", now).await.unwrap());
}
