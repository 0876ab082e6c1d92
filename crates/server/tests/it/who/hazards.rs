//! Hazards of the systems that Toolkeep takes the place of: in each, who asked was decided in the wrong place.

use policy::{Off, Policy, Rules};
use serde_json::json;
use tool::Level;

use super::handed::names;
use crate::support::Server;
use crate::support::client::message;

/// S1: there the list was filtered, and the call was not.
#[tokio::test]
async fn s1_what_is_not_listed_cannot_be_called_at_any_door() {
    let server = Server::new().await;
    let (guest, admin) =
        (server.agent("eve", Level::Guest).await, server.agent("ann", Level::Admin).await);
    assert!(!names(&guest).await.contains(&"needs.admin".to_owned()));
    let params = json!({"name": "needs.admin", "arguments": {}});
    let legacy = message("tools/call", params.clone());
    let spec0 = json!({"tool_name": "needs.admin", "arguments": {}});
    for ran in [
        guest.call("needs.admin", json!({})).await.text().to_owned(),
        guest.legacy(&legacy).await.text().to_owned(),
        guest.modern("tools/call", params.clone()).await.text().to_owned(),
        guest.post("/execute", &spec0).await.text().to_owned(),
    ] {
        assert!(ran.contains("nknown tool") || ran.contains("Unknown module"), "{ran}");
    }
    assert_eq!(server.intents(), []);
    // Positive control.
    admin.call("needs.admin", json!({})).await.good();
    admin.legacy(&legacy).await;
    assert_eq!(server.intents().len(), 2);
}

/// S3: there a level that was not understood opened the tool to guests.
#[tokio::test]
async fn s3_a_level_that_is_not_understood_gives_nothing() {
    let server = Server::new().await;
    let owner = server.owner().await;
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

/// S4: there the user came in the call, and whoever was named was believed.
#[tokio::test]
async fn s4_a_user_in_the_call_is_nobody() {
    let server = Server::new().await;
    let owner = server.owner().await;
    owner.post("/v1/users", &json!({"subject": "ann"})).await.good();
    let bot = server
        .client(|key| {
            (key.subject, key.rights) = ("core".to_owned(), [identity::Right::ActAs].into());
        })
        .await;
    let call = json!({"tool_name": "needs.guest", "arguments": {}, "user_id": "ann"});
    bot.post("/execute", &call).await;
    let caller = server.intents()[0].caller.clone();
    assert_eq!((caller.subject.as_str(), caller.actors.len()), ("core", 0));
    // Positive control: the key that is made for it.
    let as_ann = super::handed::handed(&server, &bot, json!({"act_as": "ann"})).await;
    as_ann.post("/execute", &call).await;
    let caller = server.intents()[1].caller.clone();
    assert_eq!((caller.subject.as_str(), caller.actors[0].subject.as_str()), ("ann", "core"));
}

/// S10: there what guards was switched off as shipped, and what is destructive ran at once where a flag was.
#[tokio::test]
async fn s10_no_flag_that_is_off_lets_anything_run_that_would_not() {
    let server = Server::new().await;
    let owner = server.owner().await;
    let code = async |tool: &str| {
        let reply = owner.call(tool, json!({})).await;
        if reply.status == 200 { "ran".to_owned() } else { reply.error().1 }
    };
    // As shipped, with nothing said, what is destructive or dangerous does not run by itself.
    for tool in ["destructive", "dangerous"] {
        assert_ne!(code(tool).await, "ran", "{tool}");
    }
    let mut closed = 0;
    for flag in Off::NAMES {
        let mut off = Off::default();
        off.switch_off(flag).unwrap();
        server.intake.rule(&Policy::new(Rules { off, ..Rules::default() }).unwrap());
        for tool in ["destructive", "dangerous"] {
            assert_ne!(code(tool).await, "ran", "{tool} without {flag}");
        }
        closed += usize::from(code("notes.append").await != "ran");
    }
    assert_eq!(closed, 1, "`tools` takes all");
    assert!(server.intents().iter().all(|intent| intent.tool.name.as_str() == "notes.append"));
    // Positive control: it is the trait that stands in the way, not the tool or the key.
    server.intake.rule(&Policy::default());
    assert_eq!(code("notes.append").await, "ran");
    assert_eq!(code("notes.none").await, "unknown_tool");
}
