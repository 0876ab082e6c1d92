//! The page of nodes: state, draining and revocation, with the rights that REST asks for.

use serde_json::json;
use tool::PermissionLevel;
use tool::node_registry::{HeartbeatState, NodeAccess};

use crate::node_tools::registry_with_node;
use crate::support::{Browser, FixtureServer, ServerSetup};

#[tokio::test]
async fn a_node_is_drained_resumed_and_revoked() {
    let registry = registry_with_node().await;
    let setup = ServerSetup { node_registry: Some(registry.clone()), ..ServerSetup::default() };
    let server = FixtureServer::with_setup(setup).await;
    let owner = server.owner_client().await;
    registry.record_heartbeat(&NodeAccess::All, "n1", HeartbeatState::Serving).unwrap();
    let browser = Browser::sign_in(&server, &owner).await;
    let state = async || owner.get("/v1/nodes/n1").await.expect_ok();
    assert!(browser.page("/ui/nodes").await.text.contains("serving"));
    assert_eq!(browser.post("/ui/nodes/n1/drain", &[]).await.status, 303);
    assert_eq!(state().await["drained"], true);
    assert!(!registry.accepts_calls("n1"));
    let page = browser.page("/ui/nodes").await;
    assert!(page.text.contains("drained") && page.text.contains("Resume"), "{}", page.text);
    assert_eq!(browser.post("/ui/nodes/n1/resume", &[]).await.status, 303);
    assert!(state().await.get("drained").is_none());
    assert!(registry.accepts_calls("n1"));
    owner.post("/v1/nodes/n1/drain", &json!({})).await.expect_ok();
    owner.post("/v1/nodes/n1/resume", &json!({})).await.expect_ok();
    assert_eq!(browser.post("/ui/nodes/none/drain", &[]).await.status, 404);
    let admin = server.agent_client("ada", PermissionLevel::Admin).await;
    let other = Browser::sign_in(&server, &admin).await;
    for action in ["drain", "resume", "revoke"] {
        let path = format!("/ui/nodes/n1/{action}");
        assert_eq!(other.post(&path, &[]).await.status, 403, "{action}");
        let path = format!("/v1/nodes/n1/{action}");
        assert_eq!(admin.post(&path, &json!({})).await.status, 403, "{action}");
    }
    assert!(registry.accepts_calls("n1"));
    let foreign = other.page("/ui/nodes").await;
    assert!(!foreign.text.contains("n1"), "{}", foreign.text);
}

#[tokio::test]
async fn a_server_without_a_registry_says_so() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    let browser = Browser::sign_in(&server, &owner).await;
    for (page, rest) in [("/ui/nodes", "/v1/nodes"), ("/ui/plugins", "/v1/plugins")] {
        assert_eq!(browser.get(page).await.status, owner.get(rest).await.status, "{page}");
    }
}
