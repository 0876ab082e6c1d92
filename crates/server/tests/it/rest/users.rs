//! Tests of users with their levels and personas with their modules.

use serde_json::{Value, json};
use tool::PermissionLevel;

use crate::support::{Client, FixtureServer, ServerSetup, tools};

async fn names(client: &Client) -> Vec<String> {
    let tools = client.get("/v1/tools").await.expect_ok();
    let tools = tools["tools"].as_array().unwrap().clone();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

async fn server() -> FixtureServer {
    FixtureServer::with_setup(ServerSetup {
        offers: tools::standard_offers(),
        ..ServerSetup::default()
    })
    .await
}

#[tokio::test]
async fn a_user_is_made_listed_and_promoted() {
    let server = server().await;
    let owner = server.owner_client().await;
    let made = owner.post("/v1/users", &json!({ "subject": "bob" })).await.expect_ok();
    assert_eq!((&made["subject"], &made["level"]), (&json!("bob"), &json!("guest")));
    let bob = server
        .keyless_client()
        .with_key(made["key"].as_str().unwrap(), made["id"].as_str().unwrap());
    assert!(!names(&bob).await.contains(&"needs.user".to_owned()));
    for (level, sees) in [("admin", true), ("user", false)] {
        let path = "/v1/users/bob/level";
        let promoted = owner.post(path, &json!({ "level": level })).await.expect_ok();
        assert_eq!(
            promoted,
            json!({ "subject": "bob", "level": level, "persona": null, "roles": [], "keys": 1,
                "disabled": null })
        );
        assert_eq!(names(&bob).await.contains(&"needs.admin".to_owned()), sees, "{level}");
    }
    let users = owner.get("/v1/users").await.expect_ok()["users"].clone();
    let rows: Vec<_> = users
        .as_array()
        .unwrap()
        .iter()
        .map(|user| (user["subject"].as_str().unwrap(), user["level"].as_str().unwrap()))
        .collect();
    assert_eq!(rows, [("bob", "user"), ("owner", "owner")]);
    let twice = owner.post("/v1/users", &json!({ "subject": "bob" })).await.error();
    assert_eq!((twice.0, twice.2.as_str()), (409, "the user `bob` already exists"));
}

#[tokio::test]
async fn nobody_is_made_an_owner() {
    let server = server().await;
    let owner = server.owner_client().await;
    server.agent_client("bob", PermissionLevel::User).await;
    let make = owner.post("/v1/users", &json!({ "subject": "eve", "level": "owner" })).await;
    let promote = owner.post("/v1/users/bob/level", &json!({ "level": "owner" })).await;
    for reply in [make, promote] {
        assert_eq!(
            reply.error(),
            (
                403,
                "forbidden".to_owned(),
                "the level `owner` cannot be \
            granted"
                    .into()
            )
        );
    }
    let down = owner.post("/v1/users/owner/level", &json!({ "level": "user" })).await.error();
    assert!(down.2.starts_with("the owner's level cannot be changed"), "{down:?}");
    let gone = owner.post("/v1/users/nobody/level", &json!({ "level": "user" })).await.error();
    assert_eq!((gone.0, gone.2.as_str()), (404, "no user `nobody`"));
    let word = owner.post("/v1/users/bob/level", &json!({ "level": "king" })).await.error();
    assert_eq!(word.0, 400);
}

#[tokio::test]
async fn only_who_may_make_keys_changes_users_and_personas() {
    let server = server().await;
    let admin = server.agent_client("ann", PermissionLevel::Admin).await;
    for (path, body) in [
        ("/v1/users", json!({ "subject": "x" })),
        ("/v1/users/ann/level", json!({ "level": "user" })),
        ("/v1/personas", json!({ "name": "p" })),
        ("/v1/personas/p", json!({})),
    ] {
        let reply = admin.post(path, &body).await.error();
        assert_eq!((reply.0, reply.2.as_str()), (403, "the key lacks the right `keys:write`"));
    }
    for path in ["/v1/users", "/v1/personas"] {
        assert_eq!(admin.get(path).await.error().0, 403);
    }
}

#[tokio::test]
async fn who_is_limited_himself_gives_nobody_more() {
    let server = server().await;
    let limited = server
        .client_with(|key| {
            (key.level, key.is_agent) = (PermissionLevel::Admin, false);
            key.rights = [identity::Right::KeysWrite].into();
            let allowed_modules = Some(["s".to_owned()].into());
            key.persona = Some(identity::Persona { name: "p".to_owned(), allowed_modules });
        })
        .await;
    let persona = limited.post("/v1/personas", &json!({ "name": "wide" })).await.error();
    assert!(persona.2.starts_with("your own persona is limited"), "{persona:?}");
    let user = limited.post("/v1/users", &json!({ "subject": "x" })).await.error();
    assert_eq!(user.0, 403);
    server.agent_client("carl", PermissionLevel::Owner).await;
    let above = limited.post("/v1/users/carl/level", &json!({ "level": "user" })).await.error();
    assert_eq!(above.2, "your own level `admin` is too low");
}

#[tokio::test]
async fn a_persona_decides_on_the_modules_of_its_users_from_then_on() {
    let server = server().await;
    let owner = server.owner_client().await;
    let persona = json!({ "name": "reader", "allowed_modules": [] });
    owner.post("/v1/personas", &persona).await.expect_ok();
    let user = json!({ "subject": "bob", "level": "user", "persona": "reader" });
    let made = owner.post("/v1/users", &user).await.expect_ok();
    let bob = server
        .keyless_client()
        .with_key(made["key"].as_str().unwrap(), made["id"].as_str().unwrap());
    assert_eq!(names(&bob).await, [""; 0], "an empty list allows none");
    let path = "/v1/personas/reader";
    let changed = owner.post(path, &json!({ "allowed_modules": ["s"] })).await.expect_ok();
    let expected = json!({ "name": "reader", "allowed_modules": ["s"], "default": false });
    assert_eq!(changed, expected);
    assert!(names(&bob).await.contains(&"notes.append".to_owned()));
    // At execution as in the list.
    assert_eq!(bob.call_tool("notes.append", json!({})).await.status, 200);
    owner.post(path, &json!({ "allowed_modules": ["other"] })).await.expect_ok();
    assert_eq!(bob.call_tool("notes.append", json!({})).await.error().1, "unknown_tool");
    assert_eq!(owner.get("/v1/users").await.expect_ok()["users"][0]["persona"], "reader");
}

#[tokio::test]
async fn the_default_persona_is_that_of_all_who_have_none_but_the_owner() {
    let server = server().await;
    let (owner, ann) =
        (server.owner_client().await, server.agent_client("ann", PermissionLevel::User).await);
    assert!(!names(&ann).await.is_empty());
    owner.post("/v1/personas", &json!({ "name": "none" })).await.expect_ok();
    owner
        .post("/v1/personas", &json!({ "name": "all", "allowed_modules": ["s"] }))
        .await
        .expect_ok();
    for (name, sees) in [("none", false), ("all", true)] {
        owner.post(&format!("/v1/personas/{name}"), &json!({ "default": true })).await.expect_ok();
        assert_eq!(!names(&ann).await.is_empty(), sees, "{name}");
        assert!(!names(&owner).await.is_empty());
    }
    let personas = owner.get("/v1/personas").await.expect_ok()["personas"].clone();
    let defaults: Vec<_> = personas
        .as_array()
        .unwrap()
        .iter()
        .map(|persona| (persona["name"].clone(), persona["default"].clone()))
        .collect();
    let expected: [(Value, Value); 2] =
        [(json!("all"), json!(true)), (json!("none"), json!(false))];
    assert_eq!(defaults, expected);
}

#[tokio::test]
async fn default_guest_modules_count_for_those_without_a_persona_but_the_owner() {
    let server = server().await;
    let (owner, admin) =
        (server.owner_client().await, server.agent_client("ann", PermissionLevel::Admin).await);
    server.set_guest_sources(Some(&["other"])).await;
    assert_eq!(names(&admin).await, [""; 0]);
    assert!(!names(&owner).await.is_empty());
    server.set_guest_sources(Some(&["s"])).await;
    assert!(!names(&admin).await.is_empty());
    server.set_guest_sources(None).await;
    assert!(!names(&admin).await.is_empty());
}

#[tokio::test]
async fn a_persona_that_cannot_be_is_told() {
    let server = server().await;
    let owner = server.owner_client().await;
    owner.post("/v1/personas", &json!({ "name": "p" })).await.expect_ok();
    for (path, body, status, told) in [
        ("/v1/personas", json!({ "name": "p" }), 409, "the persona `p` already exists"),
        ("/v1/personas", json!({ "name": "a b" }), 400, "the name `a b` contains ' '"),
        ("/v1/personas/q", json!({ "default": true }), 404, "no persona `q`"),
        (
            "/v1/personas/p",
            json!({ "allowed_modules": ["a/b"] }),
            400,
            "the name `a/b` contains '/'",
        ),
        (
            "/v1/personas",
            json!({ "name": "x", "allowed_modules": [""] }),
            400,
            "a module's name is empty",
        ),
        ("/v1/users", json!({ "subject": "x", "persona": "q" }), 404, "no persona `q`"),
    ] {
        let reply = owner.post(path, &body).await.error();
        assert_eq!(reply.0, status, "{reply:?}");
        assert!(reply.2.starts_with(told), "{reply:?}");
    }
}

/// A module without a source is accepted, because sources come and go, and is reported. Positive
/// control: an existing source is not reported.
#[tokio::test]
async fn a_misspelt_module_of_a_persona_is_named() {
    let server = server().await;
    let owner = server.owner_client().await;
    let modules = |modules: &[&str]| json!({ "name": "p", "allowed_modules": modules });
    let made = owner.post("/v1/personas", &modules(&["s", "reserch"])).await.expect_ok();
    assert_eq!(made["unknown_modules"], json!(["reserch"]));
    let change = json!({ "allowed_modules": ["s"] });
    let changed = owner.post("/v1/personas/p", &change).await.expect_ok();
    assert_eq!(changed.get("unknown_modules"), None);
    let change = json!({ "allowed_modules": ["nosuch"] });
    let changed = owner.post("/v1/personas/p", &change).await.expect_ok();
    assert_eq!(changed["unknown_modules"], json!(["nosuch"]));
    let all = owner.get("/v1/personas").await.expect_ok();
    assert_eq!(all["personas"][0]["unknown_modules"], json!(["nosuch"]));
}
