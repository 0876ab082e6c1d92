//! Tests of prompts, resources, completion and log levels as methods of a source.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use source_mcp::{EraSelection, McpOptions, McpSource, TraitOverrides};
use tokio::time::timeout;
use tool::{CatalogItem, ErrorCode, SideEffects, Source as _};

use super::peer::{Peer, Talk};
use super::runs::{Runner, Setup, Watch, body, done, json as checked, runner};

const SOON: Duration = Duration::from_secs(10);
const UPDATED: &str = "notifications/resources/updated";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// Server that answers every method with its params, byte for byte. `able` are its capabilities.
fn mirror(able: Value) -> Peer {
    Peer::new(move |mut talk| {
        let able = able.clone();
        async move {
            while let Some(request) = talk.hear().await {
                match request["method"].as_str() {
                    Some("initialize") => {
                        let version = &request["params"]["protocolVersion"];
                        talk.answer(
                            &request,
                            json!({"protocolVersion": version, "capabilities": able, "x-new": 1}),
                        )
                        .await;
                    }
                    Some("server/discover") => {
                        talk.answer(
                            &request,
                            json!({"supportedVersions": ["2026-07-28"], "capabilities": able}),
                        )
                        .await;
                    }
                    Some(list) if list.ends_with("/list") => {
                        talk.answer(&request, json!({"tools": [], "prompts": [], "resources": [], "resourceTemplates": []})).await;
                    }
                    Some("resources/read") => {
                        let error = json!({"code": -32002, "message": "no such\nresource", "data": {"uri": 1.50}});
                        talk.say(json!({"jsonrpc": "2.0", "id": request["id"], "error": error}))
                            .await;
                    }
                    Some(_) if request.get("id").is_some() => {
                        let (id, params) = (&request["id"], &request["params"]);
                        talk.write(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"n\": 1.0e2,\"params\":{params}}}}}\n")).await;
                    }
                    _ => {}
                }
            }
            String::new()
        }
    })
}

async fn methods(source: &McpSource) -> Vec<String> {
    let offers = source.list_offers().await.unwrap().offers;
    let method = |item: &CatalogItem| match item {
        CatalogItem::Method(tool) => Some(tool.name.to_string()),
        CatalogItem::Tool(_)
        | CatalogItem::Prompt(_)
        | CatalogItem::Resource(_)
        | CatalogItem::Skill(_)
        | CatalogItem::Event(_) => None,
    };
    offers.iter().filter_map(|offer| method(&offer.item)).collect()
}

fn speaking(dialect: EraSelection) -> McpOptions {
    let marks = TraitOverrides {
        min_level: Some(tool::PermissionLevel::Admin),
        ..TraitOverrides::default()
    };
    McpOptions { era_selection: dialect, overrides: marks, ..McpOptions::default() }
}

#[tokio::test]
async fn a_source_offers_the_methods_its_server_says_it_has() {
    let all = json!({"prompts": {}, "resources": {"subscribe": true}, "completions": {}, "logging": {}, "tools": {}});
    for (able, dialect, expected) in [
        (json!({"tools": {}}), EraSelection::Handshake, vec![]),
        (json!({"prompts": {}}), EraSelection::Handshake, vec!["mcp.prompts.get"]),
        (json!({"resources": {}}), EraSelection::Handshake, vec!["mcp.resources.read"]),
        (
            all.clone(),
            EraSelection::Handshake,
            vec![
                "mcp.prompts.get",
                "mcp.resources.read",
                "mcp.resources.subscribe",
                "mcp.completion.complete",
                "mcp.logging.setLevel",
            ],
        ),
        // Since 2026-07-28, a server with resources notifies of their changes, and each request
        // carries its log level.
        (
            json!({"resources": {}, "logging": {}}),
            EraSelection::Stateless,
            vec!["mcp.resources.read", "mcp.resources.subscribe"],
        ),
    ] {
        let source = mirror(able).source("s", speaking(dialect));
        assert_eq!(methods(&source).await, expected);
        source.shut_down().await;
    }
    let source = mirror(all).source("s", speaking(EraSelection::Handshake));
    let listing = source.list_offers().await.unwrap();
    assert!(listing.initialize_result.unwrap().as_str().ends_with(r#""x-new":1}"#));
    for offer in listing.offers {
        let CatalogItem::Method(tool) = offer.item else { panic!("{offer:?}") };
        assert_eq!(tool.traits.effects, SideEffects::Declared(vec![]));
        assert_eq!(
            (tool.traits.min_level, tool.input_schema.as_str()),
            (tool::PermissionLevel::Admin, r#"{"type":"object"}"#)
        );
    }
    source.shut_down().await;
}

#[tokio::test]
async fn params_and_results_pass_untouched_and_what_the_client_wrote_beside_goes_on() {
    let able = json!({"prompts": {}, "completions": {}});
    let peer = mirror(able);
    let source = peer.source("s", speaking(EraSelection::Handshake));
    let meta = checked(
        r#"{"traceparent":"00-a","progressToken":9,"io.modelcontextprotocol/clientInfo":{},"k":[1.0]}"#,
    );
    for (name, method) in
        [("mcp.prompts.get", "prompts/get"), ("mcp.completion.complete", "completion/complete")]
    {
        let run = runner(&source, name).await;
        let setup = Setup { meta: Some(&meta), ..Setup::default() };
        let step = run.step(r#"{"name":"p","arguments":{"z":"1","a":"2"},"new":1}"#, setup).await;
        let outcome = done(step.unwrap());
        let sent = peer.hears(|m| m["method"] == method).await;
        let expected = json!({"_meta": {"traceparent": "00-a", "k": [1.0], "progressToken": sent["id"]},
            "name": "p", "arguments": {"z": "1", "a": "2"}, "new": 1});
        assert_eq!(sent["params"], expected);
        assert_eq!(body(&outcome), format!("{{\"n\": 1.0e2,\"params\":{expected}}}"));
        assert!(!outcome.is_error);
    }
    source.shut_down().await;
}

#[tokio::test]
async fn an_error_of_the_server_is_kept_as_it_is() {
    let source = mirror(json!({"resources": {}})).source("s", speaking(EraSelection::Handshake));
    let read = runner(&source, "mcp.resources.read").await;
    let error = read.call(r#"{"uri":"a:b"}"#).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::UpstreamFailed);
    let rpc = error.rpc_error.unwrap();
    assert_eq!((rpc.code, &*rpc.message), (-32002, "no such\nresource"));
    assert_eq!(rpc.data.unwrap().as_str(), r#"{"uri":1.5}"#);
    source.shut_down().await;
}

/// Server with one resource that changes at each completion request.
async fn changing(mut talk: Talk, dialect: EraSelection) -> String {
    let mut streams = Vec::new();
    while let Some(request) = talk.hear().await {
        let id = &request["id"];
        match request["method"].as_str() {
            Some("resources/subscribe") if request["params"]["uri"] == "a:secret" => {
                talk.refuse(&request, -32002, "no such resource").await;
            }
            Some("subscriptions/listen") => {
                streams.push(id.clone());
                let wanted = &request["params"]["notifications"];
                let params = json!({"_meta": {SUBSCRIPTION: id}, "notifications": wanted});
                talk.say(json!({"jsonrpc": "2.0", "method": ACKNOWLEDGED, "params": params})).await;
            }
            Some("completion/complete") => {
                let mut params = json!({"uri": "a:b", "x-new": 1});
                if let Some(id) = streams.last() {
                    params["_meta"] = json!({SUBSCRIPTION: id});
                }
                talk.say(json!({"jsonrpc": "2.0", "method": UPDATED, "params": params})).await;
                talk.answer(&request, json!({})).await;
            }
            Some(method) if request.get("id").is_some() => match plain(method, dialect) {
                Some(result) => talk.answer(&request, result).await,
                None => talk.refuse(&request, -32601, "Method not found").await,
            },
            _ => {}
        }
    }
    String::new()
}

fn plain(method: &str, dialect: EraSelection) -> Option<Value> {
    let able = json!({"resources": {"subscribe": true}, "completions": {}});
    match method {
        "initialize" if dialect == EraSelection::Handshake => {
            Some(json!({"protocolVersion": "2025-06-18", "capabilities": able}))
        }
        "server/discover" if dialect == EraSelection::Stateless => {
            Some(json!({"supportedVersions": ["2026-07-28"], "capabilities": able}))
        }
        "resources/list" | "resources/templates/list" | "tools/list" => {
            Some(json!({"tools": [], "resources": [], "resourceTemplates": []}))
        }
        "resources/subscribe" | "resources/unsubscribe" => Some(json!({})),
        _ => None,
    }
}

async fn listens(
    subscribe: &Runner,
    uri: &str,
    watch: &Watch,
) -> Result<String, tool::ExecuteError> {
    subscribe.watched(&format!("{{\"uri\":\"{uri}\"}}"), watch).await.map(|outcome| body(&outcome))
}

fn count(peer: &Peer, method: &str) -> usize {
    peer.heard().iter().filter(|m| m["method"] == method).count()
}

#[tokio::test]
async fn listeners_of_one_resource_share_one_subscription() {
    for (dialect, begins, ends) in [
        (EraSelection::Handshake, "resources/subscribe", "resources/unsubscribe"),
        (EraSelection::Stateless, "subscriptions/listen", "notifications/cancelled"),
    ] {
        let peer = Peer::new(move |talk| changing(talk, dialect));
        let source = peer.source("s", speaking(dialect));
        let subscribe = runner(&source, "mcp.resources.subscribe").await;
        let change = runner(&source, "mcp.completion.complete").await;
        let (ann, bob) = (Arc::new(Watch::default()), Arc::new(Watch::default()));
        let leaves = async {
            timeout(SOON, ann.heard(ACKNOWLEDGED, 1)).await.unwrap();
            timeout(SOON, bob.heard(ACKNOWLEDGED, 1)).await.unwrap();
            change.call("{}").await.unwrap();
            timeout(SOON, ann.heard(UPDATED, 1)).await.unwrap();
            timeout(SOON, bob.heard(UPDATED, 1)).await.unwrap();
            assert_eq!((count(&peer, begins), count(&peer, ends)), (1, 0));
            ann.cancel.cancel();
            change.call("{}").await.unwrap();
            timeout(SOON, bob.heard(UPDATED, 2)).await.unwrap();
            assert_eq!(count(&peer, ends), 0);
            bob.cancel.cancel();
            timeout(SOON, peer.hears(|m| m["method"] == ends)).await.unwrap();
        };
        let both = (listens(&subscribe, "a:b", &ann), listens(&subscribe, "a:b", &bob));
        let (first, second, ()) = tokio::join!(both.0, both.1, leaves);
        assert_eq!((first.unwrap(), second.unwrap()), ("{}".to_owned(), "{}".to_owned()));
        let told = bob.notices.lock().unwrap().iter().find(|(m, _)| m == UPDATED).cloned().unwrap();
        assert_eq!((&told.1["uri"], &told.1["x-new"]), (&json!("a:b"), &json!(1)));

        // The next subscriber starts a new subscription.
        let eve = Watch::default();
        let again = async {
            timeout(SOON, eve.heard(ACKNOWLEDGED, 1)).await.unwrap();
            eve.cancel.cancel();
        };
        let (third, ()) = tokio::join!(listens(&subscribe, "a:b", &eve), again);
        assert_eq!((third.unwrap(), count(&peer, begins)), ("{}".to_owned(), 2));
        source.shut_down().await;
    }
}

#[tokio::test]
async fn a_subscription_that_is_refused_says_why_and_one_that_is_lost_ends() {
    let peer = Peer::new(|talk| changing(talk, EraSelection::Handshake));
    let source = peer.source("s", speaking(EraSelection::Handshake));
    let subscribe = runner(&source, "mcp.resources.subscribe").await;
    let error = listens(&subscribe, "a:secret", &Watch::default()).await.unwrap_err();
    assert_eq!(error.rpc_error.unwrap().code, -32002);
    let error = subscribe.call(r#"{"uri":7}"#).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidArguments);
    let watch = Watch::default();
    let (lost, ()) = tokio::join!(listens(&subscribe, "a:b", &watch), async {
        timeout(SOON, watch.heard(ACKNOWLEDGED, 1)).await.unwrap();
        source.shut_down().await;
    });
    assert_eq!(lost.unwrap_err().code, ErrorCode::UpstreamLost);
}
