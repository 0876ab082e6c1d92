//! The pages of plugins: their list, and their settings as a form.

use std::sync::Arc;

use tool::PermissionLevel;

use crate::plugins::StubPlugins;
use crate::support::{Browser, FixtureServer, ServerSetup, tools};

#[tokio::test]
async fn settings_are_shown_and_changed_as_over_rest() {
    let setup = ServerSetup {
        offers: tools::standard_offers(),
        plugins: Some(Arc::new(StubPlugins::default())),
        ..ServerSetup::default()
    };
    let server = FixtureServer::with_setup(setup).await;
    let owner = server.owner_client().await;
    let browser = Browser::sign_in(&server, &owner).await;
    let list = browser.page("/ui/plugins").await;
    assert_eq!(list.entries(), ["/ui/plugins/notes"]);
    assert!(list.text.contains("changed since its last reload"), "{}", list.text);
    assert!(list.text.contains("is odd"), "a problem with its place: {}", list.text);
    assert_eq!(browser.post("/ui/plugins/notes/reload", &[]).await.status, 303);
    assert_eq!(browser.post("/ui/plugins/none/reload", &[]).await.status, 404);
    let page = browser.page("/ui/plugins/notes").await;
    let names = page.values_of("name");
    assert!(names.contains(&"enabled") && names.contains(&"tool-append"), "{names:?}");
    let fields = [("enabled", "on"), ("tool-append", "on"), ("/greeting", "Hi \u{e9}")];
    assert_eq!(browser.post("/ui/plugins/notes", &fields).await.status, 303);
    let settings = owner.get("/v1/plugins/notes/settings").await.expect_ok();
    let settings = &settings["settings"];
    assert_eq!(settings["custom_config"]["greeting"], "Hi \u{e9}", "{settings}");
    assert_eq!(settings["tool_overrides"]["append"]["enabled"], true, "{settings}");
    // An agent reads no settings, over neither interface.
    let agent = server.agent_client("bot", PermissionLevel::Admin).await;
    let other = Browser::sign_in(&server, &agent).await;
    assert_eq!(other.get("/ui/plugins/notes").await.status, 403);
    assert_eq!(other.post("/ui/plugins/notes", &fields).await.status, 403);
    assert_eq!(browser.get("/ui/plugins/none").await.status, 404);
}
