//! Tests of node invitations: each admits one node once, within ten minutes, and cannot be
//! delegated.

use std::time::Duration;

use identity::{KeyDelegation, NewKey, Right};
use serde_json::{Value, json};
use server_core::KeyStore;
use tool::PermissionLevel;
use tool::node_registry::NodeRegistry as _;

use super::{NodeFixture, join_body};
use crate::support::Client;

async fn with_authority() -> NodeFixture {
    let cluster = NodeFixture::new().await;
    let authority = nodes::CertificateAuthority::generate(tool::WallTime(0)).unwrap();
    cluster
        .registry
        .set_authority(nodes::CertificateAuthority::from_stored(&authority).unwrap())
        .unwrap();
    cluster
}

async fn invite(cluster: &NodeFixture, node: &str) -> Client {
    let path = format!("/v1/nodes/{node}/invite");
    let made = cluster.server.owner_client().await.post(&path, &json!({})).await.expect_ok();
    let key = made["key"].as_str().unwrap();
    cluster.server.keyless_client().with_key(key, key.split('_').nth(1).unwrap())
}

async fn join(client: &Client, node: &str) -> (u16, Value) {
    super::status_and_body(&client.post(&format!("/v1/nodes/{node}/join"), &join_body(node)).await)
}

#[tokio::test]
async fn an_invitation_joins_once_and_cannot_be_handed_on() {
    let cluster = with_authority().await;
    let invited = invite(&cluster, "n1").await;
    let body = json!({ "rights": ["nodes:join"] });
    // The invitation itself, and the owner, whose key has the right among others.
    for client in [&invited, &cluster.server.owner_client().await] {
        let (status, code, told) = client.post("/v1/keys/delegate", &body).await.error();
        assert_eq!((status, code.as_str()), (403, "forbidden"), "{told}");
        assert!(told.contains("toolkeep node invite"), "{told}");
    }
    // A key with fewer rights is refused too: the joined node would belong to no one.
    assert_eq!(invited.post("/v1/keys/delegate", &json!({})).await.status, 403);
    // A key that was delegated, as an older version allowed, is refused.
    let old = NewKey {
        level: PermissionLevel::Guest,
        rights: [Right::NodesJoin].into(),
        delegations: vec![KeyDelegation::default()],
        ..NewKey::for_user(KeyStore::generate_key_id().unwrap(), "n1")
    };
    let (old, _) = cluster.server.client_and_principal(old).await;
    assert_eq!(join(&old, "n1").await.0, 403);
    // Attempts that fail by their own fault leave the invitation as it is.
    assert_eq!(join(&invited, "n2").await.0, 403);
    let path = "/v1/nodes/n1/join";
    assert_eq!(invited.post(path, &join_body("n2")).await.status, 400, "the proof is for another");
    // The control: it joins, once.
    let (status, joined) = join(&invited, "n1").await;
    assert_eq!(status, 200, "{joined}");
    assert!(joined["certificate"].as_str().unwrap().contains("BEGIN CERTIFICATE"));
    let node = cluster.server.keyless_client().with_key(joined["key"].as_str().unwrap(), "n1");
    assert_eq!(node.post("/tools", &super::tool_document("n1", "say")).await.status, 201);
    assert_eq!(join(&invited, "n1").await.0, 401);
}

#[tokio::test]
async fn nobody_makes_an_invitation_by_hand() {
    let cluster = with_authority().await;
    let owner = cluster.server.owner_client().await;
    let body = json!({ "subject": "n1", "rights": ["nodes:join"] });
    let (status, _, told) = owner.post("/v1/keys", &body).await.error();
    assert!(status == 403 && told.contains("toolkeep node invite"), "{status} {told}");
    // The control: a node's key to register with may be made by hand.
    let body = json!({ "subject": "n1", "rights": ["nodes:register"] });
    owner.post("/v1/keys", &body).await.expect_ok();
}

#[tokio::test]
async fn of_many_that_join_at_once_with_one_invitation_one_gets_in() {
    let cluster = with_authority().await;
    let invited = invite(&cluster, "n1").await;
    let tries: Vec<_> = (0..8).map(|_| join(&invited, "n1")).collect();
    let ended = futures_util::future::join_all(tries).await;
    let good = ended.iter().filter(|(status, _)| *status == 200).count();
    let refused = ended.iter().filter(|(status, _)| matches!(status, 401 | 403)).count();
    assert_eq!((good, refused), (1, 7), "{ended:?}");
    // Nothing was signed for the others either.
    assert_eq!(cluster.registry.list_certificates("n1").len(), 1);
}

#[tokio::test]
async fn certificates_are_listed_replaced_and_revoked_with_the_nodes_keys() {
    let cluster = with_authority().await;
    let owner = cluster.server.owner_client().await;
    let (_, joined) = join(&invite(&cluster, "n1").await, "n1").await;
    let key = joined["key"].as_str().unwrap();
    let node = cluster.server.keyless_client().with_key(key, key.split('_').nth(1).unwrap());
    assert_eq!(node.post("/tools", &super::tool_document("n1", "say")).await.status, 201);
    // With its own key it gets another one, which takes the place of the first.
    assert_eq!(join(&node, "n1").await.0, 200);
    for client in [&owner, &node] {
        let shown = client.get("/v1/nodes/n1").await.expect_ok();
        let states = [&shown["certificates"][0]["state"], &shown["certificates"][1]["state"]];
        assert_eq!(states, [&json!("current"), &json!("replaced")]);
        let listed = client.get("/v1/nodes").await.expect_ok();
        assert_eq!(listed["nodes"][0]["certificates"], shown["certificates"]);
        assert_eq!(shown["certificates"][0]["serial"].as_str().unwrap().len(), 32);
    }
    let ann = cluster.server.agent_client("ann", PermissionLevel::User).await;
    assert_eq!(ann.get("/v1/nodes/n1").await.status, 404, "who may not see it");
    assert_eq!(owner.get("/v1/nodes/n9").await.status, 404);
    // Neither the node nor anyone else revokes it but a person with the right.
    for client in [&node, &ann] {
        assert_eq!(client.post("/v1/nodes/n1/revoke", &json!({})).await.status, 403);
    }
    assert_eq!(owner.post("/v1/nodes/n9/revoke", &json!({})).await.status, 404);
    assert_eq!(node.get("/tools/n1").await.status, 200, "the control: it holds until then");
    let invited = invite(&cluster, "n1").await;
    let other = cluster.node_client("n2").await;
    let revoked = owner.post("/v1/nodes/n1/revoke", &json!({})).await.expect_ok();
    assert_eq!(revoked["keys"].as_array().unwrap().len(), 2, "{revoked}");
    assert_eq!(node.get("/tools/n1").await.status, 401);
    assert_eq!(join(&invited, "n1").await.0, 401, "an invitation is a key of the node too");
    let shown = owner.get("/v1/nodes/n1").await.expect_ok();
    assert_eq!(shown["certificates"][0]["state"], "revoked");
    assert_eq!(other.get("/tools/n2").await.status, 200);
    // Invited again it joins again.
    assert_eq!(join(&invite(&cluster, "n1").await, "n1").await.0, 200);
    let shown = owner.get("/v1/nodes/n1").await.expect_ok();
    assert_eq!(shown["certificates"][0]["state"], "current");
}

#[tokio::test]
async fn a_certificate_is_revoked_with_the_key_that_it_was_issued_with() {
    let cluster = with_authority().await;
    cluster.registry.set_key_status(std::sync::Arc::clone(&cluster.server.keys) as _);
    let (_, joined) = join(&invite(&cluster, "n1").await, "n1").await;
    let id = joined["key"].as_str().unwrap().split('_').nth(1).unwrap();
    let owner = cluster.server.owner_client().await;
    let state =
        async || owner.get("/v1/nodes/n1").await.expect_ok()["certificates"][0]["state"].clone();
    assert_eq!(state().await, "current");
    owner.delete(&format!("/v1/keys/{id}")).await.expect_ok();
    assert_eq!(state().await, "revoked");
}

#[tokio::test]
async fn an_invitation_ends_after_ten_minutes() {
    let cluster = with_authority().await;
    let (one, other) = (invite(&cluster, "n1").await, invite(&cluster, "n2").await);
    cluster.server.clock.advance(Duration::from_millis(10 * 60 * 1_000 - 1));
    assert_eq!(join(&one, "n1").await.0, 200, "a moment before");
    cluster.server.clock.advance(Duration::from_millis(1));
    assert_eq!(join(&other, "n2").await.0, 401);
}
