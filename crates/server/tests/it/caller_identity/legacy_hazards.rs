//! Tests of identity flaws in the systems that Toolkeep replaces.

use policy::{DisabledFeatures, Policy, PolicyDocument};
use serde_json::json;
use tool::PermissionLevel;

use super::delegated_keys::names;
use crate::support::FixtureServer;
use crate::support::client::message;

/// S1: there the list was filtered, and the call was not.
#[tokio::test]
async fn s1_what_is_not_listed_cannot_be_called_at_any_door() {
    let server = FixtureServer::new().await;
    let (guest, admin) = (
        server.agent_client("eve", PermissionLevel::Guest).await,
        server.agent_client("ann", PermissionLevel::Admin).await,
    );
    assert!(!names(&guest).await.contains(&"needs.admin".to_owned()));
    let params = json!({"name": "needs.admin", "arguments": {}});
    let legacy = message("tools/call", params.clone());
    let execute_body = json!({"tool_name": "needs.admin", "arguments": {}});
    for ran in [
        guest.call_tool("needs.admin", json!({})).await.text().to_owned(),
        guest.legacy_request(&legacy).await.text().to_owned(),
        guest.modern_request("tools/call", params.clone()).await.text().to_owned(),
        guest.post("/execute", &execute_body).await.text().to_owned(),
    ] {
        assert!(ran.contains("nknown tool") || ran.contains("Unknown module"), "{ran}");
    }
    assert_eq!(server.recorded_intents(), []);
    // Positive control.
    admin.call_tool("needs.admin", json!({})).await.expect_ok();
    admin.legacy_request(&legacy).await;
    assert_eq!(server.recorded_intents().len(), 2);
}

/// S3: there a level that was not understood opened the tool to guests.
#[tokio::test]
async fn s3_a_level_that_is_not_understood_gives_nothing() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    for word in ["root", "Admin", "", "4"] {
        let made = owner.post("/v1/keys", &json!({"subject": "x", "level": word})).await;
        assert_eq!(made.status, 400, "{word}");
        assert_eq!(owner.put("/v1/roles/r", &json!({"level": word})).await.status, 400, "{word}");
        let call = json!({"tool_name": "needs.user", "arguments": {}, "user_permission": word});
        let lowered = owner.post("/execute", &call).await;
        assert!(lowered.text().contains("\"success\":false"), "{word}: {}", lowered.text());
    }
    let call = json!({"tool_name": "needs.user", "arguments": {}, "user_permission": "user"});
    assert!(owner.post("/execute", &call).await.text().contains("\"success\":true"));
}

/// S4: in the original, the call named its user, and any name was trusted.
#[tokio::test]
async fn s4_a_user_in_the_call_is_nobody() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    owner.post("/v1/users", &json!({"subject": "ann"})).await.expect_ok();
    let bot = server
        .client_with(|key| {
            (key.subject, key.rights) = ("core".to_owned(), [identity::Right::ActAs].into());
        })
        .await;
    let call = json!({"tool_name": "needs.guest", "arguments": {}, "user_id": "ann"});
    bot.post("/execute", &call).await;
    let caller = server.recorded_intents()[0].caller.clone();
    assert_eq!((caller.subject.as_str(), caller.actors.len()), ("core", 0));
    // Positive control: a key created for that user.
    let as_ann = super::delegated_keys::delegate_key(&server, &bot, json!({"act_as": "ann"})).await;
    as_ann.post("/execute", &call).await;
    let caller = server.recorded_intents()[1].caller.clone();
    assert_eq!((caller.subject.as_str(), caller.actors[0].subject.as_str()), ("ann", "core"));
}

/// S10: there what guards was switched off as shipped, and what is destructive ran at once where a flag was.
#[tokio::test]
async fn s10_no_flag_that_is_off_lets_anything_run_that_would_not() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    let code = async |tool: &str| {
        let reply = owner.call_tool(tool, json!({})).await;
        if reply.status == 200 { "ran".to_owned() } else { reply.error().1 }
    };
    // With the default configuration, destructive and dangerous calls need an approval.
    for tool in ["destructive", "dangerous"] {
        assert_ne!(code(tool).await, "ran", "{tool}");
    }
    let mut closed = 0;
    for flag in DisabledFeatures::NAMES {
        let mut off = DisabledFeatures::default();
        off.disable_feature(flag).unwrap();
        server.intake.set_policy(
            &Policy::new(PolicyDocument { disabled_features: off, ..PolicyDocument::default() })
                .unwrap(),
        );
        for tool in ["destructive", "dangerous"] {
            assert_ne!(code(tool).await, "ran", "{tool} without {flag}");
        }
        closed += usize::from(code("notes.append").await != "ran");
    }
    assert_eq!(closed, 1, "`tools` takes all");
    assert!(
        server
            .recorded_intents()
            .iter()
            .all(|intent| intent.tool_key.name.as_str() == "notes.append")
    );
    // Positive control: the trait causes it, not the tool or the key.
    server.intake.set_policy(&Policy::default());
    assert_eq!(code("notes.append").await, "ran");
    assert_eq!(code("notes.none").await, "unknown_tool");
}
