//! Tests of skills (SEP-2640): their entries are listed and pinned, and their files verified.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use source_mcp::{EraSelection, McpOptions};
use tool::{CatalogItem, ErrorCode, Source as _};

use super::peer::Peer;
use super::runs::{body, runner};

const TEXT: &str = "---\nname: refunds\ndescription: d\n---\n";

fn file(uri: &str, bytes: &[u8]) -> Value {
    let digest = tool::Digest(Sha256::digest(bytes).into()).to_string();
    json!({"uri": uri, "digest": digest, "size": bytes.len()})
}

/// A server with one good skill, whose picture it sends otherwise than listed, and broken ones.
fn server(era: EraSelection) -> Peer {
    let own = "skill://refunds/SKILL.md";
    let picture = "skill://refunds/a.png";
    let front = json!({"name": "refunds", "description": "d", "license": "MIT"});
    let good = json!({"uri": own, "frontmatter": front, "x": 1.0,
        "resources": [file(own, TEXT.as_bytes()), file(picture, &[1, 2, 3])]});
    let outside = json!({"uri": own, "frontmatter": front,
        "resources": [file(own, b""), file("skill://other/x", b"")]});
    let skills = json!([outside, good, {"uri": "skill://x/SKILL.md"}]);
    let able = json!({"resources": {}, "extensions": {"io.modelcontextprotocol/skills": {"directoryRead": true}}});
    Peer::new(move |mut talk| {
        let (skills, able) = (skills.clone(), able.clone());
        async move {
            while let Some(request) = talk.hear().await {
                let uri = request["params"]["uri"].as_str().unwrap_or_default();
                let result = match request["method"].as_str() {
                    Some("initialize") if era == EraSelection::Handshake => {
                        json!({"protocolVersion": "2025-11-25", "capabilities": able})
                    }
                    Some("server/discover") if era == EraSelection::Stateless => {
                        json!({"supportedVersions": ["2026-07-28"], "capabilities": able})
                    }
                    Some("skills/list") => json!({"skills": skills}),
                    Some("resources/read") if uri.ends_with("SKILL.md") => {
                        json!({"contents": [{"uri": uri, "text": TEXT}]})
                    }
                    Some("resources/read") if uri.ends_with("a.png") => {
                        json!({"contents": [{"uri": uri, "blob": "AQIE"}]})
                    }
                    Some("resources/read") => json!({"contents": [{"uri": uri, "text": "free"}]}),
                    _ => json!({"tools": [], "resources": [], "resourceTemplates": []}),
                };
                if request.get("id").is_some() {
                    talk.answer(&request, result).await;
                }
            }
            String::new()
        }
    })
}

#[tokio::test]
async fn skills_are_listed_as_received_and_broken_ones_are_problems() {
    for era in [EraSelection::Handshake, EraSelection::Stateless] {
        let peer = server(era);
        let source = peer.source("s", McpOptions { era_selection: era, ..McpOptions::default() });
        let listing = source.list_offers().await.unwrap();
        let skills: Vec<_> = listing
            .offers
            .iter()
            .filter_map(|offer| match &offer.item {
                CatalogItem::Skill(skill) => Some(skill),
                _ => None,
            })
            .collect();
        let [skill] = skills.as_slice() else { panic!("{skills:?}") };
        assert_eq!(skill.files.as_ref().unwrap().len(), 2);
        assert_eq!(skill.raw_definition.to_value()["x"], 1.0);
        let problems: Vec<_> = listing.problems.iter().map(|it| it.message.as_str()).collect();
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].contains("not in its directory"), "{problems:?}");
        source.shut_down().await;
    }
}

#[tokio::test]
async fn a_file_that_differs_from_its_entry_is_not_passed_on() {
    let peer = server(EraSelection::Handshake);
    let source = peer.source("s", McpOptions::default());
    let read = runner(&source, "mcp.resources.read").await;
    let good = read.call(r#"{"uri": "skill://refunds/SKILL.md"}"#).await.unwrap();
    assert!(body(&good).contains("refunds"));
    let other = read.call(r#"{"uri": "test://free"}"#).await.unwrap();
    assert!(body(&other).contains("free"), "no file of a skill");
    let error = read.call(r#"{"uri": "skill://refunds/a.png"}"#).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::UpstreamFailed);
    assert!(error.message.contains("differs from the listed entry"), "{}", error.message);
    source.shut_down().await;
}

#[tokio::test]
async fn a_source_that_may_not_relay_skills_has_none() {
    let peer = server(EraSelection::Handshake);
    let extensions = mcp::extensions::AllowedExtensions::from_names([]);
    let source = peer.source("s", McpOptions { extensions, ..McpOptions::default() });
    let listing = source.list_offers().await.unwrap();
    assert!(!listing.offers.iter().any(|it| matches!(it.item, CatalogItem::Skill(_))));
    let names: Vec<_> = listing
        .offers
        .iter()
        .filter_map(|offer| match &offer.item {
            CatalogItem::Method(method) => Some(method.name.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(names, ["mcp.resources.read"]);
    assert!(!peer.heard().iter().any(|it| it["method"] == "skills/list"));
    source.shut_down().await;
}
