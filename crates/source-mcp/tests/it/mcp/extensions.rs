//! Tests of extensions of MCP that are relayed between clients and a server, by its allow list.

use mcp::extensions::AllowedExtensions;
use serde_json::{Value, json};
use source_mcp::{EraSelection, McpOptions};
use tool::{CatalogItem, Source as _};

use super::peer::Peer;
use super::runs::{Setup, declares, runner};

const UI: &str = "io.modelcontextprotocol/ui";
const CHARTS: &str = "com.example/charts";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// A server of one era that declares two extensions.
fn extended(era: EraSelection) -> Peer {
    Peer::new(move |mut talk| async move {
        let able =
            json!({"tools": {}, "completions": {}, "extensions": {UI: {"a": 1}, CHARTS: {"b": 2}}});
        while let Some(request) = talk.hear().await {
            let result = match request["method"].as_str() {
                Some("initialize") if era == EraSelection::Handshake => {
                    json!({"protocolVersion": "2025-11-25", "capabilities": able})
                }
                Some("server/discover") if era == EraSelection::Stateless => {
                    json!({"supportedVersions": ["2026-07-28"], "capabilities": able})
                }
                Some("tools/list") => json!({"tools": []}),
                _ => json!({}),
            };
            if request.get("id").is_some() {
                talk.answer(&request, result).await;
            }
        }
        String::new()
    })
}

fn options(era: EraSelection, allowed: &[&str]) -> McpOptions {
    let extensions = AllowedExtensions::from_names(allowed.iter().map(|&it| it.to_owned()));
    McpOptions { era_selection: era, extensions, ..McpOptions::default() }
}

/// The extensions that the server was told of with the first request of a method.
fn told(peer: &Peer, method: &str) -> Value {
    let heard = peer.heard();
    let request = heard.iter().find(|it| it["method"] == method).unwrap();
    let handshake = &request["params"]["capabilities"];
    let stateless = &request["params"]["_meta"][CAPABILITIES];
    let capabilities = if handshake.is_null() { stateless } else { handshake };
    capabilities["extensions"].clone()
}

#[tokio::test]
async fn a_server_and_its_clients_hear_of_allowed_extensions_alone() {
    let pages = json!({"mimeTypes": ["text/html;profile=mcp-app"]});
    for (allowed, declared, relayed) in [
        (&[UI][..], json!({UI: pages}), json!({UI: {"a": 1}})),
        (&[UI, CHARTS], json!({UI: pages, CHARTS: {}}), json!({UI: {"a": 1}, CHARTS: {"b": 2}})),
        (&[], json!(null), json!(null)),
    ] {
        for (era, negotiation) in
            [(EraSelection::Handshake, "initialize"), (EraSelection::Stateless, "server/discover")]
        {
            let peer = extended(era);
            let source = peer.source("s", options(era, allowed));
            let listing = source.list_offers().await.unwrap();
            assert_eq!(told(&peer, negotiation), declared, "{allowed:?} {era:?}");
            if era == EraSelection::Stateless {
                assert_eq!(told(&peer, "tools/list"), declared, "{allowed:?}");
            }
            let about = listing.initialize_result.unwrap().to_value();
            assert_eq!(about["capabilities"]["extensions"], relayed, "{allowed:?} {era:?}");
            assert!(about["capabilities"].get("tools").is_some(), "the rest is as received");
            source.shut_down().await;
        }
    }
}

/// A call to a server of 2026-07-28 tells what its own client declared.
#[tokio::test]
async fn a_call_declares_what_its_client_declared_and_the_source_allows() {
    let client = declares(
        r#"{"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["x"]}, "com.example/other": {}}}"#,
    );
    for (client, expected) in
        [(Some(&client), json!({UI: {"mimeTypes": ["x"]}})), (None, json!(null))]
    {
        let peer = extended(EraSelection::Stateless);
        let source = peer.source("s", options(EraSelection::Stateless, &[UI, CHARTS]));
        let complete = runner(&source, "mcp.completion.complete").await;
        complete.step("{}", Setup { client, ..Setup::default() }).await.unwrap();
        assert_eq!(told(&peer, "completion/complete"), expected);
        source.shut_down().await;
    }
}

/// A method is offered if the operator lists it and the server declares its extension.
#[tokio::test]
async fn a_method_of_an_extension_is_relayed_by_the_word_of_the_operator() {
    let of = |name: &str, method: &str| (name.to_owned(), vec![method.to_owned()]);
    for era in [EraSelection::Handshake, EraSelection::Stateless] {
        let allowed = [of(CHARTS, "charts/render"), of("com.example/none", "none/x")];
        let extensions = AllowedExtensions::from_methods(allowed);
        let peer = extended(era);
        let own = McpOptions { era_selection: era, extensions, ..McpOptions::default() };
        let source = peer.source("s", own);
        let listing = source.list_offers().await.unwrap();
        let methods: Vec<_> = listing
            .offers
            .iter()
            .filter_map(|offer| match &offer.item {
                CatalogItem::Method(method) => {
                    Some((method.name.as_str(), method.traits.effects.may_change_state()))
                }
                _ => None,
            })
            .collect();
        let expected = [("mcp.completion.complete", false), ("mcp.charts.render", true)];
        assert_eq!(methods, expected, "{era:?}");
        let render = runner(&source, "mcp.charts.render").await;
        render.call(r#"{"x":1.0}"#).await.unwrap();
        let sent = peer.heard().into_iter().find(|it| it["method"] == "charts/render").unwrap();
        assert_eq!(sent["params"]["x"], 1.0);
        source.shut_down().await;
    }
}
