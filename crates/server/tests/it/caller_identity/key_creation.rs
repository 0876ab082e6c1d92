//! Tests of keys that create keys: their limits, the users they act for, and the creation of
//! owners.

use identity::{Right, RoleRecord};
use serde_json::{Value, json};
use tool::{PermissionLevel, WallTime};

use super::delegated_keys::{delegate_key, names};
use crate::support::{Client, FixtureServer, Reply};

/// A person's key of this level, with these rights.
async fn person_client(
    server: &FixtureServer,
    subject: &str,
    level: PermissionLevel,
    rights: &[Right],
) -> Client {
    let client = server.client_with(|key| {
        (key.subject, key.level, key.is_agent) = (subject.to_owned(), level, false);
        key.rights = rights.iter().copied().collect();
    });
    client.await
}

/// The client of a key that a route gave.
fn client(server: &FixtureServer, reply: &Value) -> Client {
    server.keyless_client().with_key(reply["key"].as_str().unwrap(), reply["id"].as_str().unwrap())
}

/// A delegated key that may create keys, and may call one tool that changes nothing, for a minute.
async fn delegate_narrow(server: &FixtureServer, from: &Client) -> Client {
    let body = json!({"rights": ["keys:write"], "person": true, "allow": ["needs.guest"],
        "read_only": true, "expires_in": 60});
    delegate_key(server, from, body).await
}

#[tokio::test]
async fn a_key_created_by_a_delegated_key_is_a_delegation_of_it() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    let maker = delegate_narrow(&server, &owner).await;
    assert_eq!(names(&maker).await, ["needs.guest"]);
    let mut created = Vec::new();
    for (path, body) in [
        ("/v1/keys", json!({"subject": "mallory"})),
        ("/v1/keys", json!({"subject": "owner", "level": "user"})),
        ("/v1/users", json!({"subject": "bob", "level": "user"})),
    ] {
        let key = maker.post(path, &body).await.expect_ok();
        let key = client(&server, &key);
        // Positive control: it holds, and calls what its creator may call.
        key.call_tool("needs.guest", json!({})).await.expect_ok();
        assert_eq!(names(&key).await, ["needs.guest"], "{path} {body}");
        assert_eq!(key.call_tool("notes.append", json!({})).await.error().1, "unknown_tool");
        created.push(key);
    }
    let ring = server.keys.key_ring();
    for key in &created {
        let (record, above) =
            (ring.find_record(&key.key_id).unwrap(), ring.find_record(&maker.key_id).unwrap());
        assert_eq!(record.expires_at, above.expires_at, "never longer than its creator");
        assert_eq!(record.creator.as_deref(), Some("owner"));
        let by: Vec<_> = record.delegations.iter().map(|hand| hand.delegated_by.as_str()).collect();
        assert_eq!(by, [owner.key_id.as_str(), maker.key_id.as_str()]);
    }
    let longer = json!({"subject": "mallory2", "expires_in": 61});
    let told = "your own key expires before the new one would; use a shorter lifetime";
    assert_eq!(maker.post("/v1/keys", &longer).await.error().2, told);
    // It ends with its creator; keys created by the owner do not.
    let free = client(&server, &owner.post("/v1/keys", &json!({"subject": "x"})).await.expect_ok());
    owner.delete(&format!("/v1/keys/{}", maker.key_id)).await.expect_ok();
    for key in &created {
        assert_eq!(key.get("/v1/tools").await.status, 401);
    }
    assert!(names(&free).await.contains(&"notes.append".to_owned()));
}

#[tokio::test]
async fn keys_that_a_delegated_key_creates_count_with_those_it_delegates() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    let maker = delegate_narrow(&server, &owner).await;
    for number in 0..255 {
        let body = json!({"subject": format!("s{number}")});
        maker.post("/v1/keys", &body).await.expect_ok();
    }
    let more = maker.post("/v1/keys", &json!({"subject": "more"})).await.error();
    assert_eq!((more.0, more.1.as_str()), (413, "too_large"));
    assert_eq!(maker.post("/v1/keys/delegate", &json!({})).await.error().0, 413);
    owner.post("/v1/keys", &json!({"subject": "more"})).await.expect_ok();
}

#[tokio::test]
async fn a_delegated_key_makes_no_organisation() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    let body = json!({"rights": ["orgs:write"], "person": true});
    let delegated = delegate_key(&server, &owner, body).await;
    let error = delegated.post("/v1/orgs", &json!({"name": "acme"})).await.error();
    let told =
        "a delegated key cannot create an organisation; use the key that it was delegated from";
    assert_eq!(error, (403, "forbidden".to_owned(), told.to_owned()));
    assert_eq!(owner.get("/v1/orgs").await.expect_ok()["orgs"], json!([]));
    // Positive control.
    owner.post("/v1/orgs", &json!({"name": "acme"})).await.expect_ok();
}

#[tokio::test]
async fn a_key_for_another_existing_subject_needs_act_as_or_an_owner() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    let helpdesk =
        person_client(&server, "helpdesk", PermissionLevel::Admin, &[Right::KeysWrite]).await;
    let actor =
        person_client(&server, "core", PermissionLevel::Admin, &[Right::KeysWrite, Right::ActAs])
            .await;
    // Subjects known from a user, a key, a revoked key, a token issuer, and an unknown one.
    owner.post("/v1/users", &json!({"subject": "ann", "level": "user"})).await.expect_ok();
    server.agent_client("bot", PermissionLevel::Guest).await;
    let gone = server.agent_client("carl", PermissionLevel::Guest).await;
    server.revoke_key(&gone).await;
    for subject in ["ann", "bot", "carl", "corp:eve", "anonymous"] {
        let body = json!({"subject": subject, "level": "guest"});
        let told = format!(
            "the subject `{subject}` already exists; a key for it needs the right `act_as` or an \
             owner's key"
        );
        let error = helpdesk.post("/v1/keys", &body).await.error();
        assert_eq!(error, (403, "forbidden".to_owned(), told));
        for may in [&actor, &owner] {
            let key = client(&server, &may.post("/v1/keys", &body).await.expect_ok());
            key.call_tool("needs.guest", json!({})).await.expect_ok();
        }
    }
    let subjects: Vec<_> =
        server.recorded_intents().into_iter().map(|intent| intent.caller.subject).collect();
    assert_eq!(subjects.len(), 10);
    // A new subject and its own need nothing more.
    for subject in ["new", "helpdesk"] {
        helpdesk.post("/v1/keys", &json!({"subject": subject})).await.expect_ok();
    }
}

#[tokio::test]
async fn a_delegated_key_creates_keys_for_another_only_to_act_for_it() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    owner.post("/v1/users", &json!({"subject": "ann", "level": "guest"})).await.expect_ok();
    server.agent_client("bot", PermissionLevel::Guest).await;
    let maker = delegate_narrow(&server, &owner).await;
    // Neither an owner's level nor the key's own subject help.
    assert_eq!(maker.post("/v1/keys", &json!({"subject": "ann"})).await.error().0, 403);
    let rights = json!({"rights": ["keys:write", "act_as"], "person": true});
    let actor = delegate_key(&server, &owner, rights).await;
    let as_ann = actor.post("/v1/keys", &json!({"subject": "ann"})).await.expect_ok();
    let as_ann = client(&server, &as_ann);
    as_ann.call_tool("needs.guest", json!({})).await.expect_ok();
    assert_eq!(as_ann.call_tool("needs.user", json!({})).await.error().1, "unknown_tool");
    let caller = server.recorded_intents()[0].caller.clone();
    assert_eq!((caller.subject.as_str(), caller.actors[0].subject.as_str()), ("ann", "owner"));
    let no_user = actor.post("/v1/keys", &json!({"subject": "bot"})).await.error();
    assert_eq!(no_user.2, "no user `bot` to act for");
}

#[tokio::test]
async fn who_created_a_key_is_on_its_record_at_every_route() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    let helpdesk = person_client(
        &server,
        "helpdesk",
        PermissionLevel::Admin,
        &[Right::KeysWrite, Right::OrgsWrite],
    )
    .await;
    let mut ids = Vec::new();
    for (path, body) in [
        ("/v1/keys", json!({"subject": "a"})),
        ("/v1/keys/delegate", json!({})),
        ("/v1/users", json!({"subject": "b"})),
        ("/v1/orgs", json!({"name": "acme"})),
    ] {
        ids.push(helpdesk.post(path, &body).await.expect_ok()["id"].as_str().unwrap().to_owned());
    }
    let ring = server.keys.key_ring();
    for id in &ids {
        assert_eq!(ring.find_record(id).unwrap().creator.as_deref(), Some("helpdesk"), "{id}");
        assert_eq!(ring.principal_of_key(id).unwrap().creator(), Some("helpdesk"));
    }
    // The first keys have no creator.
    assert_eq!(ring.find_record(&owner.key_id).unwrap().creator, None);
}

/// All routes that can give a level.
#[tokio::test]
async fn the_level_owner_comes_of_an_owners_key_alone() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    let admin = person_client(&server, "admin", PermissionLevel::Admin, Right::ALL).await;
    owner.post("/v1/users", &json!({"subject": "ann", "level": "user"})).await.expect_ok();
    let delegated = json!({"rights": ["keys:write", "orgs:write"], "person": true});
    let delegated = delegate_key(&server, &owner, delegated).await;
    let lowered = "/v1/keys?permission=admin";
    let role = json!({"level": "owner"});
    admin.put("/v1/roles/top", &role).await.expect_ok();
    for (who, path, body) in [
        (&admin, "/v1/keys", json!({"subject": "x", "level": "owner"})),
        (&admin, "/v1/keys", json!({"subject": "admin", "level": "owner", "roles": ["top"]})),
        (&admin, "/v1/keys/delegate", json!({"level": "owner"})),
        (&admin, "/v1/users", json!({"subject": "x", "level": "owner"})),
        (&admin, "/v1/users/ann/level", json!({"level": "owner"})),
        (&admin, "/v1/users/admin/level", json!({"level": "owner"})),
        // Not even an owner makes one of a user, or by a key that is not its own.
        (&owner, "/v1/users", json!({"subject": "x", "level": "owner"})),
        (&owner, "/v1/users/ann/level", json!({"level": "owner"})),
        (&delegated, "/v1/keys", json!({"subject": "x", "level": "owner"})),
        (&delegated, "/v1/users", json!({"subject": "x", "level": "owner"})),
        (&delegated, "/v1/orgs", json!({"name": "beta"})),
    ] {
        let reply: Reply = who.post(path, &body).await;
        assert_eq!(reply.error().0, 403, "{path} {body}");
    }
    let lowered = admin.post(lowered, &json!({"subject": "y", "level": "owner"})).await;
    assert_ne!(lowered.status, 200);
    // The first key of an organisation has the level of its creator.
    let acme = admin.post("/v1/orgs", &json!({"name": "acme"})).await.expect_ok();
    let first = client(&server, &acme);
    let level = |id: &str| server.keys.key_ring().principal_of_key(id).unwrap().level();
    assert_eq!(level(&first.key_id), PermissionLevel::Admin);
    let up = first.post("/v1/keys", &json!({"subject": "x", "level": "owner"})).await.error();
    assert_eq!(up.0, 403);
    // The cap of a role never raises a level.
    let capped = json!({"subject": "z", "level": "admin", "roles": ["top"]});
    let capped = client(&server, &owner.post("/v1/keys", &capped).await.expect_ok());
    assert_eq!(level(&capped.key_id), PermissionLevel::Admin);
    let owners = |server: &FixtureServer| {
        let ring = server.keys.key_ring();
        let owners =
            ring.sorted_records().into_iter().filter(|key| key.level == PermissionLevel::Owner);
        owners.map(|key| key.subject.clone()).collect::<Vec<_>>()
    };
    assert_eq!(owners(&server), ["owner", "owner"], "the owner's key and the one it delegated");
    // Positive control: an owner's own key does, for keys and for organisations.
    owner.post("/v1/keys", &json!({"subject": "second", "level": "owner"})).await.expect_ok();
    owner.post("/v1/orgs", &json!({"name": "beta"})).await.expect_ok();
    let mut all = owners(&server);
    all.sort();
    assert_eq!(all, ["owner", "owner", "owner", "second"]);
}

async fn capped_client(server: &FixtureServer) -> Client {
    let role = RoleRecord {
        name: "capped".to_owned(),
        description: String::new(),
        max_level: Some(PermissionLevel::Guest),
        rights: [].into(),
        revoked_at: None,
    };
    server.keys.upsert_role(&role).await.unwrap();
    let capped = server.client_with(|key| {
        (key.subject, key.level, key.is_agent) = ("ann".to_owned(), PermissionLevel::Admin, false);
        key.rights = [Right::KeysWrite].into();
        key.roles = vec!["capped".to_owned()];
    });
    capped.await
}

#[tokio::test]
async fn who_has_a_role_does_not_change_it() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    let ann = capped_client(&server).await;
    let wanted = json!({"subject": "x", "level": "admin"});
    assert_eq!(ann.post("/v1/keys", &wanted).await.error().0, 403, "the cap holds");
    let below =
        delegate_key(&server, &ann, json!({"rights": ["keys:write"], "person": true})).await;
    for who in [&ann, &below] {
        for body in [json!({}), json!({"level": "admin"}), json!({"level": "guest"})] {
            let error = who.put("/v1/roles/capped", &body).await.error();
            let told = "your own key has the role `capped`, so only an owner can change it";
            assert_eq!(error, (403, "forbidden".to_owned(), told.to_owned()));
        }
    }
    // Nor by a key without the role, that is of her level.
    let other =
        json!({"subject": "other", "level": "guest", "agent": false, "rights": ["keys:write"]});
    let other = client(&server, &ann.post("/v1/keys", &other).await.expect_ok());
    for (body, cap) in [(json!({}), "owner"), (json!({"level": "user"}), "user")] {
        let told = format!(
            "your own level is `guest`, so you cannot raise the role's maximum level to \
                `{cap}`"
        );
        assert_eq!(other.put("/v1/roles/capped", &body).await.error().2, told);
    }
    other.put("/v1/roles/fresh", &json!({})).await.expect_ok();
    assert_eq!(ann.post("/v1/keys", &wanted).await.error().0, 403);
    // Positive control: the owner lifts it.
    owner.put("/v1/roles/capped", &json!({"level": "admin"})).await.expect_ok();
    ann.post("/v1/keys", &wanted).await.expect_ok();
}

#[tokio::test]
async fn a_revoked_role_takes_rights_and_only_an_owner_gives_them_back() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    let ann = capped_client(&server).await;
    let below =
        delegate_key(&server, &ann, json!({"rights": ["keys:write"], "person": true})).await;
    let other = person_client(&server, "other", PermissionLevel::Admin, &[Right::KeysWrite]).await;
    for who in [&ann, &below] {
        who.get("/v1/keys").await.expect_ok();
    }
    owner.delete("/v1/roles/capped").await.expect_ok();
    for who in [&ann, &below] {
        assert_eq!(who.get("/v1/keys").await.error().1, "forbidden");
        assert_eq!(who.put("/v1/roles/capped", &json!({})).await.error().1, "forbidden");
        assert_eq!(names(who).await, [""; 0]);
    }
    let told = "the role `capped` was revoked, so only an owner can set it again";
    let again = other.put("/v1/roles/capped", &json!({"level": "guest"})).await.error();
    assert_eq!(again, (403, "forbidden".to_owned(), told.to_owned()));
    owner.put("/v1/roles/capped", &json!({"level": "guest"})).await.expect_ok();
    ann.get("/v1/keys").await.expect_ok();
}

#[tokio::test]
async fn a_role_or_persona_of_keys_above_is_not_changed_from_below() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    owner.put("/v1/roles/r", &json!({})).await.expect_ok();
    owner.post("/v1/personas", &json!({"name": "p", "allowed_modules": ["s"]})).await.expect_ok();
    let boss = server
        .client_with(|key| {
            (key.subject, key.level, key.is_agent) =
                ("boss".to_owned(), PermissionLevel::Owner, false);
            key.roles = vec!["r".to_owned()];
            key.persona = Some(identity::Persona { name: "p".to_owned(), allowed_modules: None });
        })
        .await;
    let admin = person_client(&server, "admin", PermissionLevel::Admin, &[Right::KeysWrite]).await;
    for reply in [
        admin.put("/v1/roles/r", &json!({"level": "guest"})).await,
        admin.delete("/v1/roles/r").await,
        admin.post("/v1/personas/p", &json!({"allowed_modules": []})).await,
    ] {
        let error = reply.error();
        assert_eq!(error.1, "forbidden");
        assert!(error.2.starts_with("a key above your own level has the "), "{error:?}");
    }
    assert!(names(&boss).await.contains(&"needs.owner".to_owned()));
    // Positive control.
    owner.post("/v1/personas/p", &json!({"allowed_modules": []})).await.expect_ok();
    assert_eq!(names(&boss).await, [""; 0]);
}

#[tokio::test]
async fn nobody_but_an_owner_sets_the_tools_of_its_own_organisation() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    let admin = person_client(&server, "admin", PermissionLevel::Admin, &[Right::OrgsWrite]).await;
    let (path, list) = ("/v1/orgs/default/tools", json!({"tools": ["needs.guest"]}));
    owner.put(path, &list).await.expect_ok();
    let error = admin.put(path, &json!({"tools": ["*"]})).await.error();
    assert_eq!(error.1, "forbidden");
    owner.post("/v1/orgs", &json!({"name": "acme"})).await.expect_ok();
    admin.put("/v1/orgs/acme/tools", &json!({"tools": ["*"]})).await.expect_ok();
}

#[tokio::test]
async fn another_level_for_a_user_leaves_keys_low_that_were_created_low() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    let ann = json!({"subject": "ann", "level": "user", "person": true});
    let main = owner.post("/v1/users", &ann).await.expect_ok()["id"].as_str().unwrap().to_owned();
    let low = json!({"subject": "ann", "level": "guest", "label": "bot"});
    let bot = owner.post("/v1/keys", &low).await.expect_ok()["id"].as_str().unwrap().to_owned();
    let own = server.client_with(|key| key.subject = "dora".to_owned()).await;
    let child = delegate_key(&server, &own, json!({"level": "guest"})).await;
    let level = |id: &str| server.keys.key_ring().find_record(id).unwrap().level;
    let promote = async |who: &str, to: &str| {
        let path = format!("/v1/users/{who}/level");
        owner.post(&path, &json!({"level": to})).await.expect_ok()
    };
    assert_eq!(promote("ann", "admin").await["level"], "admin");
    assert_eq!((level(&main), level(&bot)), (PermissionLevel::Admin, PermissionLevel::Guest));
    // Also where the user was as low as the key in between.
    promote("ann", "guest").await;
    assert_eq!((level(&main), level(&bot)), (PermissionLevel::Guest, PermissionLevel::Guest));
    promote("ann", "user").await;
    assert_eq!((level(&main), level(&bot)), (PermissionLevel::User, PermissionLevel::Guest));
    promote("dora", "admin").await;
    assert_eq!(
        (level(&own.key_id), level(&child.key_id)),
        (PermissionLevel::Admin, PermissionLevel::Guest)
    );
}

#[tokio::test]
async fn keys_of_older_records_that_are_below_their_user_stay_there() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    let (main, bot) = (
        server.agent_client("ann", PermissionLevel::User).await,
        server.agent_client("ann", PermissionLevel::Guest).await,
    );
    let level = |id: &str| server.keys.key_ring().find_record(id).unwrap().level;
    for (to, expected) in [
        ("admin", (PermissionLevel::Admin, PermissionLevel::Guest)),
        ("guest", (PermissionLevel::Guest, PermissionLevel::Guest)),
        ("user", (PermissionLevel::User, PermissionLevel::Guest)),
    ] {
        owner.post("/v1/users/ann/level", &json!({"level": to})).await.expect_ok();
        assert_eq!((level(&main.key_id), level(&bot.key_id)), expected, "{to}");
    }
}

/// Forbidden subjects, at every route that accepts one.
#[tokio::test]
async fn names_that_a_reader_cannot_see_or_tell_apart_are_refused() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    owner.post("/v1/users", &json!({"subject": "ann"})).await.expect_ok();
    let before = server.keys.key_ring().sorted_records().len();
    for odd in ["bob\u{202e}", "b\u{200b}ob", "\u{feff}bob", "bob ", "\u{ff42}ob", "b\u{43e}b"] {
        for (path, body) in [
            ("/v1/keys", json!({"subject": odd})),
            ("/v1/keys", json!({"subject": "x", "roles": [odd]})),
            ("/v1/users", json!({"subject": odd})),
            ("/v1/personas", json!({"name": odd})),
            ("/v1/orgs", json!({"name": odd})),
        ] {
            assert_eq!(owner.post(path, &body).await.status, 400, "{path} {odd:?}");
        }
    }
    for hidden in ["a\u{202e}b", "a\u{200b}b", "a\nb"] {
        for (path, body) in [
            ("/v1/keys", json!({"subject": "x", "label": hidden})),
            ("/v1/keys/delegate", json!({"label": hidden})),
            ("/v1/orgs", json!({"name": "acme", "description": hidden})),
        ] {
            assert_eq!(owner.post(path, &body).await.status, 400, "{path} {hidden:?}");
        }
        let role = owner.put("/v1/roles/r", &json!({"description": hidden})).await;
        assert_eq!(role.status, 400, "{hidden:?}");
    }
    // All Latin letters, and one with a mark that looks like `ann`.
    let alike = owner.post("/v1/users", &json!({"subject": "\u{e1}nn"})).await.error();
    assert_eq!((alike.0, alike.2.as_str()), (403, "`ánn` looks like the subject `ann`"));
    assert_eq!(server.keys.key_ring().sorted_records().len(), before);
    // Positive control.
    for good in ["Zoë", "анна", "世界", "ann2"] {
        owner.post("/v1/keys", &json!({"subject": good, "label": "größe 🙂"})).await.expect_ok();
    }
}

/// A clock that is set back gives no ended key its life back, also after a restart.
#[tokio::test]
async fn a_clock_that_is_set_back_revives_no_key() {
    let server = FixtureServer::new().await;
    let end = Some(WallTime(1_000_000_000_000 + 60_000));
    let ann = server.client_with(|key| key.expires_at = end).await;
    let child = delegate_key(&server, &ann, json!({})).await;
    child.get("/v1/tools").await.expect_ok();
    server.clock.advance(std::time::Duration::from_mins(2));
    assert_eq!(child.get("/v1/tools").await.status, 401);
    server.clock.step_back(std::time::Duration::from_hours(24));
    for gone in [&ann, &child] {
        assert_eq!(gone.get("/v1/tools").await.status, 401);
    }
    // A key created now has the requested lifetime.
    let owner = server.owner_client().await;
    let made = owner.post("/v1/keys", &json!({"subject": "x", "expires_in": 60})).await.expect_ok();
    let made = client(&server, &made);
    made.get("/v1/tools").await.expect_ok();
    server.clock.advance(std::time::Duration::from_mins(3));
    assert_eq!(made.get("/v1/tools").await.status, 401);
}
