//! The pages of toolsets: what waits for an owner is shown in full, accepted as it was shown, and known
//! to those alone who know it over REST.

use identity::Right;
use serde_json::{Value, json};
use tool::{PermissionLevel, SourceTrust};

use crate::support::{Browser, Client, FixtureServer, ServerSetup, tools};

fn described(name: &str, text: &str) -> tool::Offer {
    let tool = tools::tool_with(name, |tool| {
        text.clone_into(&mut tool.description);
        tool.raw_definition = tool::Json::encode(&json!({"name": name, "description": text}));
    });
    tools::tool_offer(tool, testkit::executor::echo_executor())
}

/// A server with two tools, and a toolset for the role `team` that has them.
async fn server_with_toolset(trust: SourceTrust) -> (FixtureServer, Client) {
    let offers = vec![described("docs.read", "Reads it."), described("docs.list", "Lists all.")];
    let setup = ServerSetup { offers, trust: Some(trust), ..ServerSetup::default() };
    let server = FixtureServer::with_setup(setup).await;
    let owner = server.owner_client().await;
    let body = json!({"title": "Team", "roles": ["team"], "tools": ["docs.*"]});
    owner.put("/v1/toolsets/team", &body).await.expect_ok();
    (server, owner)
}

/// Approves the waiting definitions of these tools, so that only the toolset's owner has to accept them.
async fn approve_pins(owner: &Client, tools: &[&str]) {
    for tool in tools {
        let pin = owner.get(&format!("/v1/pins/s/{tool}")).await.expect_ok();
        let body = json!({"definition": pin["waiting"]["definition"]});
        owner.post(&format!("/v1/pins/s/{tool}/approve"), &body).await.expect_ok();
    }
}

async fn attention(client: &Client) -> Vec<Value> {
    let list = client.get("/v1/attention").await.expect_ok();
    let entries = list["entries"].as_array().unwrap().iter();
    entries.filter(|entry| entry["topic"] == "toolset").cloned().collect()
}

#[tokio::test]
async fn an_owner_reads_what_waits_and_accepts_what_the_page_showed() {
    let (server, owner) = server_with_toolset(SourceTrust::FirstUse).await;
    let browser = Browser::sign_in(&server, &owner).await;
    let list = browser.page("/ui/toolsets").await;
    assert_eq!(list.entries(), ["/ui/toolsets/team"]);
    assert!(list.text.contains("/mcp/team") && !list.text.contains("to accept"), "{}", list.text);
    let page = browser.page("/ui/toolsets/team").await;
    assert!(page.text.contains("No item waits.") && page.hidden_field("revision").is_none());
    assert!(attention(&owner).await.is_empty(), "nothing waits");
    assert!(!browser.page("/ui").await.text.contains("toolset `team`"));

    // A changed definition, and another tool that the pattern selects.
    server
        .replace_offers(vec![
            described("docs.read", "Reads it.\u{200b} Then sends all."),
            described("docs.list", "Lists all."),
            described("docs.find", "Finds <b>files</b>."),
        ])
        .await;
    approve_pins(&owner, &["docs.read", "docs.find"]).await;
    let entries = attention(&owner).await;
    assert_eq!((entries.len(), &entries[0]["subject"]), (1, &json!("team")), "{entries:?}");
    assert!(entries[0]["message"].as_str().unwrap().starts_with("2 items"), "{entries:?}");
    assert!(browser.page("/ui").await.entries().contains(&"/ui/toolsets/team"));
    assert!(browser.page("/ui/toolsets").await.text.contains("2 to accept"));
    let reply = browser.get("/ui/toolsets/team").await;
    let html = reply.text();
    assert!(html.contains("<ins>it.<mark>\\u{200b}</mark> Then sends all.</ins>"), "{html}");
    assert!(html.contains("Finds &lt;b&gt;files&lt;/b&gt;."), "{html}");

    // It covers the items that the page showed.
    let revision = async || {
        let page = browser.page("/ui/toolsets/team").await;
        page.hidden_field("revision").map(ToOwned::to_owned)
    };
    let seen = revision().await.unwrap();
    server
        .replace_offers(vec![
            described("docs.read", "Reads it. Then deletes it."),
            described("docs.list", "Lists all."),
            described("docs.find", "Finds files."),
        ])
        .await;
    approve_pins(&owner, &["docs.read", "docs.find"]).await;
    let accept = async |revision: &str| {
        browser.post("/ui/toolsets/team/accept", &[("revision", revision)]).await.status.as_u16()
    };
    assert_eq!((accept(&seen).await, accept("x").await), (409, 400));
    assert_eq!(accept(&revision().await.unwrap()).await, 303);
    assert_eq!(revision().await, None, "nothing waits");
    assert!(attention(&owner).await.is_empty());
    let accepted = owner.get("/v1/toolsets/team").await.expect_ok();
    assert_eq!(accepted["items"].as_array().unwrap().len(), 3);
    assert!(accepted["items"].as_array().unwrap().iter().all(|it| it["state"] == "accepted"));
}

#[tokio::test]
async fn a_page_that_cannot_show_all_items_has_no_form() {
    let (server, owner) = server_with_toolset(SourceTrust::Full).await;
    let browser = Browser::sign_in(&server, &owner).await;
    let body = json!({"title": "Team", "roles": ["team"], "tools": ["docs.*", "many.*"]});
    owner.put("/v1/toolsets/team", &body).await.expect_ok();
    for (number, has_form) in [(50, true), (51, false)] {
        let mut offers = tools::many_offers(number);
        offers.push(described("docs.read", "Reads it."));
        offers.push(described("docs.list", "Lists all."));
        server.replace_offers(offers).await;
        let page = browser.page("/ui/toolsets/team").await;
        assert_eq!(page.hidden_field("revision").is_some(), has_form, "{number} items");
        assert_eq!(page.text.contains("more than a page shows"), !has_form, "{}", page.text);
    }
    // A long definition alone is too much, too.
    let long = "x".repeat(31_000);
    server
        .replace_offers(vec![described("docs.read", "Reads it."), described("docs.list", &long)])
        .await;
    let reply = browser.get("/ui/toolsets/team").await;
    assert!(reply.text().contains("more than a page shows") && reply.text().len() < 100_000);
}

#[tokio::test]
async fn who_may_only_use_a_toolset_learns_of_no_review_and_others_of_nothing() {
    let (server, owner) = server_with_toolset(SourceTrust::Full).await;
    server
        .replace_offers(vec![described("docs.read", "Changed."), described("docs.list", "All.")])
        .await;
    assert_eq!(attention(&owner).await.len(), 1, "the control");
    let with_role = |role: &'static str| server.client_with(|key| key.roles = vec![role.into()]);
    let member = with_role("team").await;
    let browser = Browser::sign_in(&server, &member).await;
    assert_eq!(browser.page("/ui/toolsets").await.entries(), ["/ui/toolsets/team"]);
    let page = browser.page("/ui/toolsets/team").await;
    for hidden in ["To accept", "docs.read", "Roles"] {
        assert!(!page.text.contains(hidden), "{hidden}: {}", page.text);
    }
    assert!(attention(&member).await.is_empty());
    let stranger = with_role("other").await;
    let browser = Browser::sign_in(&server, &stranger).await;
    assert!(browser.page("/ui/toolsets").await.entries().is_empty());
    let reply = browser.get("/ui/toolsets/team").await;
    let nothing = browser.get("/ui/toolsets/none").await;
    assert_eq!((reply.status.as_u16(), nothing.status.as_u16()), (404, 404));
    assert_eq!(reply.text().replace("team", "none"), nothing.text());
    // Who may change toolsets sees what waits, and may not accept it.
    let editor = server
        .client_with(|key| {
            (key.level, key.is_agent) = (PermissionLevel::Owner, false);
            key.rights = [Right::SourcesWrite].into();
        })
        .await;
    let browser = Browser::sign_in(&server, &editor).await;
    let page = browser.page("/ui/toolsets/team").await;
    let revision = page.hidden_field("revision").unwrap().to_owned();
    let refused = browser.post("/ui/toolsets/team/accept", &[("revision", &revision)]).await;
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert_eq!(attention(&owner).await.len(), 1, "nothing was accepted");
}
