//! Tests of methods of extensions: an operator allows them for a source, and a caller may use them as it
//! may use the source.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tool::{Offer, PermissionLevel, SourceTrust};

use super::all_sources::{answering, asked, method_for};
use crate::support::client::message;
use crate::support::{Client, FixtureServer, ServerSetup, tools};

/// A source with the method `charts/render`, which an operator allowed, and its params.
fn offers(source: &'static str, level: PermissionLevel) -> (Vec<Offer>, Arc<Mutex<Vec<Value>>>) {
    let params = Arc::<Mutex<Vec<Value>>>::default();
    let seen = Arc::clone(&params);
    let render = answering(move |params| {
        seen.lock().unwrap().push(params);
        json!({"chart": source, "hidden": "a\u{202e}b", "_meta": {"a/b": 1}})
    });
    let mut method = method_for("mcp.charts.render", render, level);
    if let tool::CatalogItem::Method(tool) = &mut method.item {
        Arc::make_mut(tool).traits.effects = tool::SideEffects::Unknown;
    }
    (vec![method], params)
}

async fn server(offers: Vec<Offer>) -> FixtureServer {
    FixtureServer::with_setup(ServerSetup {
        offers,
        kind: Some("mcp"),
        trust: Some(SourceTrust::FirstUse),
        ..ServerSetup::default()
    })
    .await
}

async fn render(client: &Client) -> Value {
    asked(client, "charts/render", json!({"x": 1.0})).await
}

#[tokio::test]
async fn an_allowed_method_is_a_recorded_call_at_both_endpoints_in_both_eras() {
    let (offers, params) = offers("s", PermissionLevel::Guest);
    let server = server(offers).await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    for client in [&ann, &ann.with_endpoint("/mcp/s")] {
        let answer = render(client).await;
        let expected = json!({"chart": "s", "hidden": r"a\u{202e}b", "_meta": {"a/b": 1}});
        assert_eq!(answer["result"], expected, "{answer}");
    }
    assert_eq!(*params.lock().unwrap(), vec![json!({"x": 1.0}); 4], "without what is of one hop");
    let intents = server.recorded_intents();
    assert_eq!((intents.len(), server.recorded_ends().len()), (4, 4));
    let intent = &intents[0];
    assert_eq!(intent.tool_key.name.as_str(), "mcp.charts.render");
    assert!(intent.may_change_state && intent.has_unknown_effects, "nobody knows what it does");
}

#[tokio::test]
async fn hidden_not_allowed_and_unknown_methods_are_the_same() {
    let tool = tools::tool_offer(tools::test_tool("s.t"), testkit::executor::echo_executor());
    let server = server(vec![tool]).await;
    let (secret, params) = offers("docs", PermissionLevel::Owner);
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    server.add_mcp_source("docs", secret).await;
    for endpoint in ["/mcp", "/mcp/s"] {
        let client = ann.with_endpoint(endpoint);
        let ask = async |method: &str| {
            let old = client.legacy_request(&message(method, json!({}))).await;
            let new = client.modern_request(method, json!({})).await;
            assert_eq!(new.json()["error"]["code"], -32_601, "{method} {}", new.text());
            [old.text().to_owned(), new.text().to_owned()]
        };
        let unknown = ask("charts/unknown").await;
        let hidden = ask("charts/render").await;
        assert_eq!(hidden.map(|it| it.replace("render", "unknown")), unknown, "{endpoint}");
    }
    // Names of methods that MCP has itself lead nowhere else, and none with odd characters does.
    for method in ["charts", "charts/../render", "mcp.charts.render", "charts.render", "events/x"] {
        let answer = ann.modern_request(method, json!({})).await.json();
        assert_eq!(answer["error"]["code"], -32_601, "{method} {answer}");
    }
    assert_eq!(params.lock().unwrap().len(), 0);
    let owner = server.owner_client().await;
    assert_eq!(render(&owner).await["result"]["chart"], "docs", "the control");
}

#[tokio::test]
async fn a_method_of_several_sources_names_those_that_the_caller_sees() {
    let (first, _) = offers("s", PermissionLevel::Guest);
    let server = server(first).await;
    for (name, level) in [("docs", PermissionLevel::Guest), ("secret", PermissionLevel::Owner)] {
        server.add_mcp_source(name, offers(name, level).0).await;
    }
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let unclear = render(&ann).await;
    assert_eq!(unclear["error"]["code"], -32_602, "{unclear}");
    let text = unclear["error"]["message"].as_str().unwrap();
    assert!(text.contains("`/mcp/s` or `/mcp/docs`") && !text.contains("secret"), "{text}");
    let chosen = render(&ann.with_endpoint("/mcp/docs")).await;
    assert_eq!(chosen["result"]["chart"], "docs");
    let owner = server.owner_client().await;
    let all = render(&owner).await;
    assert!(all["error"]["message"].as_str().unwrap().contains("secret"), "the control: {all}");
}
