//! Tests of `/mcp` as an OAuth protected resource (RFC 9728, RFC 6750).

use serde_json::json;

use crate::support::client::message;
use crate::support::token_issuer::{
    ISSUER, RESOURCE, Signer, client_with_token, server_with_issuer, valid_claims,
};
use crate::support::{Client, FixtureServer};

const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

#[tokio::test]
async fn a_client_without_a_token_is_told_where_to_get_one() {
    let (server, _) = server_with_issuer(&Signer::new("k1")).await;
    let anyone = server.keyless_client();
    let list = message("tools/list", json!({}));
    let challenge = |fault: &str, tail: &str| {
        format!(
            "Bearer realm=\"toolkeep\"{fault}, \
             resource_metadata=\"https://tools.example{WELL_KNOWN}/mcp{tail}\", scope=\"admin tools\""
        )
    };
    let told = |client: Client| {
        let list = list.clone();
        async move {
            let reply = client.legacy_request(&list).await;
            assert_eq!(reply.status, 401);
            reply.header("www-authenticate").unwrap().to_owned()
        }
    };
    assert_eq!(told(anyone.clone()).await, challenge("", ""));
    assert_eq!(told(anyone.with_endpoint("/mcp/s")).await, challenge("", "/s"));
    let invalid = challenge(", error=\"invalid_token\"", "");
    assert_eq!(told(client_with_token(&server, "a.b.c")).await, invalid);
    assert_eq!(told(client_with_token(&server, "tk_x")).await, invalid);
    for path in ["", "/mcp"] {
        let metadata = anyone.get(&format!("{WELL_KNOWN}{path}")).await.expect_ok();
        assert_eq!(
            metadata,
            json!({"resource": RESOURCE, "resource_name": "Toolkeep", "authorization_servers": [ISSUER],
                "scopes_supported": ["admin", "tools"], "bearer_methods_supported": ["header"]})
        );
    }
    // The same for an existing source and for an unknown one.
    for source in ["s", "nothing"] {
        let metadata = anyone.get(&format!("{WELL_KNOWN}/mcp/{source}")).await.expect_ok();
        assert_eq!(metadata["resource"], format!("{RESOURCE}/{source}"));
    }
    assert_eq!(anyone.get(&format!("{WELL_KNOWN}/mcp/a%22b")).await.status, 404);
}

#[tokio::test]
async fn without_issuers_there_is_no_such_resource() {
    let server = FixtureServer::new().await;
    for path in ["", "/mcp", "/mcp/s"] {
        assert_eq!(
            server.keyless_client().get(&format!("{WELL_KNOWN}{path}")).await.error().1,
            "not_found"
        );
    }
    let reply = server.keyless_client().legacy_request(&message("tools/list", json!({}))).await;
    assert_eq!(reply.header("www-authenticate"), Some("Bearer realm=\"toolkeep\""));
    let signer = Signer::new("k1");
    assert_eq!(
        client_with_token(&server, &signer.token(&valid_claims())).get("/v1/tools").await.status,
        401
    );
}

#[tokio::test]
async fn a_token_without_a_grant_is_told_which_scopes_there_are() {
    let signer = Signer::new("k1");
    let (server, _) = server_with_issuer(&signer).await;
    let mut claims = valid_claims();
    claims["scope"] = json!("profile");
    let reply = client_with_token(&server, &signer.token(&claims))
        .legacy_request(&message("tools/list", json!({})))
        .await;
    assert_eq!(reply.status, 403);
    let challenge = reply.header("www-authenticate").unwrap();
    assert!(challenge.contains("error=\"insufficient_scope\""), "{challenge}");
    assert!(challenge.contains("scope=\"admin tools\""), "{challenge}");
}

#[tokio::test]
async fn a_token_for_one_source_opens_its_endpoint_alone() {
    let signer = Signer::new("k1");
    let (server, _) = server_with_issuer(&signer).await;
    let mut own = valid_claims();
    own["aud"] = json!(format!("{RESOURCE}/s"));
    let list = message("tools/list", json!({}));
    let one = client_with_token(&server, &signer.token(&own));
    assert_eq!(one.with_endpoint("/mcp/s").legacy_request(&list).await.status, 200);
    for at in ["/mcp", "/mcp/t"] {
        assert_eq!(one.with_endpoint(at).legacy_request(&list).await.status, 401, "{at}");
    }
    assert_eq!(one.get("/v1/tools").await.status, 401);
    let all = client_with_token(&server, &signer.token(&valid_claims()));
    assert_eq!(all.with_endpoint("/mcp/s").legacy_request(&list).await.status, 200);
}
