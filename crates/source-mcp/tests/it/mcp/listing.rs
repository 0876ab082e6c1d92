use serde_json::{Value, json};
use source_layers::ToolSelection;
use source_mcp::{McpOptions, ServerLimits, TraitOverrides};
use tool::source::SourceErrorKind;
use tool::{CatalogItem, SafetyLevel, SideEffects, Source as _, SourceListing};

use super::peer::{Peer, definition, names};

fn tools(listing: &SourceListing) -> Vec<&tool::Tool> {
    let tool = |offer: &'_ tool::Offer| matches!(offer.item, CatalogItem::Tool(_));
    assert!(listing.offers.iter().all(tool), "{listing:?}");
    let tools = listing.offers.iter();
    tools
        .filter_map(|o| if let CatalogItem::Tool(tool) = &o.item { Some(&**tool) } else { None })
        .collect()
}

/// Server that answers each list method with a fixed text, byte for byte.
fn fixed(capabilities: Value, answers: &[(&'static str, &'static str)]) -> Peer {
    let answers: Vec<_> = answers.to_vec();
    Peer::new(move |mut talk| {
        let (capabilities, answers) = (capabilities.clone(), answers.clone());
        async move {
            talk.handshake(capabilities).await;
            while let Some(request) = talk.hear().await {
                let found = answers.iter().find(|(method, _)| request["method"] == *method);
                if let Some((_, result)) = found {
                    let id = &request["id"];
                    talk.write(&format!(
                        "{{\"result\":{result},\"jsonrpc\":\"2.0\",\"id\":{id}}}\n"
                    ))
                    .await;
                } else if request.get("id").is_some() {
                    talk.refuse(&request, -32601, "no such method").await;
                }
            }
            String::new()
        }
    })
}

#[tokio::test]
async fn definitions_are_kept_byte_for_byte_and_named_after_their_source() {
    const A: &str = r#"{"name":"read_file", "x-new": 1.0e2,"inputSchema":{"type":"object","properties":{"z":{},"a":{"type":"string"}}} ,"outputSchema":{"type":"object"},"title":"Read","description":"Reads.","_meta":{"big":123456789012345678901234567890}}"#;
    let peer = fixed(
        json!({"tools": {}}),
        &[(
            "tools/list",
            r#"{"tools":[{"name":"read_file", "x-new": 1.0e2,"inputSchema":{"type":"object","properties":{"z":{},"a":{"type":"string"}}} ,"outputSchema":{"type":"object"},"title":"Read","description":"Reads.","_meta":{"big":123456789012345678901234567890}}],"unknown":true}"#,
        )],
    );
    let source = peer.source("files", McpOptions::default());
    let listing = source.list_offers().await.unwrap();
    let [tool] = tools(&listing)[..] else { panic!("{listing:?}") };
    assert_eq!(tool.name.as_str(), "files.read_file");
    assert_eq!(tool.raw_definition.as_str(), A);
    assert_eq!(
        tool.input_schema.as_str(),
        r#"{"type":"object","properties":{"z":{},"a":{"type":"string"}}}"#
    );
    assert_eq!(tool.output_schema.as_ref().unwrap().as_str(), r#"{"type":"object"}"#);
    assert_eq!((tool.title.as_deref(), tool.description.as_str()), (Some("Read"), "Reads."));
    assert_eq!(listing.problems, []);
    source.shut_down().await;
}

/// Positive control: rmcp's own types lose the unknown field of the same definition and rewrite its
/// numbers.
#[tokio::test]
async fn the_typed_way_would_have_lost_fields() {
    let text = r#"{"name":"a","x-new":1.0e2,"inputSchema":{"type":"object"}}"#;
    let typed: rmcp::model::Tool = serde_json::from_str(text).unwrap();
    assert!(!serde_json::to_string(&typed).unwrap().contains("x-new"));
}

#[tokio::test]
async fn one_bad_definition_takes_no_other_down() {
    let peer = fixed(
        json!({"tools": {}}),
        &[(
            "tools/list",
            concat!(
                r#"{"tools":[{"name":"good","inputSchema":{"type":"object"}},7,"#,
                r#"{"name":"sp ace","inputSchema":{}},{"name":"none"},{"name":"list","inputSchema":[]},"#,
                r#"{"name":"text","inputSchema":{"type":"string"}},{"name":"twice","name":"x","inputSchema":{}},"#,
                r#"{"name":"good","inputSchema":{}},{"name":"odd_out","inputSchema":{},"outputSchema":[]},"#,
                r#"{"name":"deep","inputSchema":{"a":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}},"#,
                r#"{"name":"last","inputSchema":{}}]}"#
            ),
        )],
    );
    let source = peer.source("s", McpOptions::default());
    let listing = source.list_offers().await.unwrap();
    let offered: Vec<_> = tools(&listing).iter().map(|tool| tool.name.to_string()).collect();
    assert_eq!(offered, ["s.good", "s.odd_out", "s.last"]);
    let problems: Vec<_> =
        listing.problems.iter().map(|p| format!("{}: {}", p.location, p.message)).collect();
    for (place, part) in [
        ("tool 2", "expected object, found number"),
        ("tool `sp ace`", "contains ' '"),
        ("tool `none`", "no `inputSchema`"),
        ("tool `list`", "expected object, found array"),
        ("tool `text`", "of type `\"string\"`, not `object`"),
        ("tool 7", "key `name` occurs twice"),
        ("tools/list `good`", "defined twice"),
        ("tool `odd_out`", "without its `outputSchema`"),
        ("tool `deep`", "nested deeper than 64 levels"),
    ] {
        let found = problems.iter().any(|text| text.starts_with(place) && text.contains(part));
        assert!(found, "{place} {part}: {problems:#?}");
    }
    assert_eq!(problems.len(), 9, "{problems:#?}");
    source.shut_down().await;
}

#[tokio::test]
async fn prompts_resources_and_templates_are_listed_where_they_are_declared() {
    let peer = fixed(
        json!({"tools": {}, "prompts": {}, "resources": {}}),
        &[
            ("tools/list", r#"{"tools":[]}"#),
            ("prompts/list", r#"{"prompts":[{"name":"greet","x":1}]}"#),
            (
                "resources/list",
                r#"{"resources":[{"uri":"file:///a b","name":"a"},{"name":"no uri"}]}"#,
            ),
            (
                "resources/templates/list",
                r#"{"resourceTemplates":[{"uriTemplate":"file:///{x}","name":"t"}]}"#,
            ),
        ],
    );
    let source = peer.source("s", McpOptions::default());
    let all = ["s.greet", "file:///a b", "file:///{x}", "mcp.prompts.get", "mcp.resources.read"];
    assert_eq!(names(&source).await, all);
    let listing = source.list_offers().await.unwrap();
    assert_eq!(listing.problems[0].location, "resource `no uri`");
    let templates: Vec<_> = listing
        .offers
        .iter()
        .filter_map(
            |o| if let CatalogItem::Resource(r) = &o.item { Some(r.is_template) } else { None },
        )
        .collect();
    assert_eq!(templates, [false, true]);
    source.shut_down().await;
}

#[tokio::test]
async fn a_list_that_fails_is_a_problem_only_where_it_is_not_the_tools() {
    let peer = fixed(json!({"tools": {}, "prompts": {}}), &[("tools/list", r#"{"tools":[]}"#)]);
    let source = peer.source("s", McpOptions::default());
    let problem = &source.list_offers().await.unwrap().problems[0];
    assert_eq!(problem.location, "prompts/list of `s`");
    assert!(problem.message.contains("no such method (error -32601)"), "{problem:?}");
    source.shut_down().await;

    let peer = fixed(json!({"tools": {}}), &[]);
    let source = peer.source("s", McpOptions::default());
    let error = source.list_offers().await.unwrap_err();
    assert_eq!(error.kind, SourceErrorKind::ErrorReply);
    assert_eq!(
        error.to_string(),
        "`peer`: returned an error for `tools/list`: no such method (error -32601)"
    );
    source.shut_down().await;

    let peer = fixed(json!({}), &[]);
    let source = peer.source("s", McpOptions::default());
    assert_eq!(names(&source).await, [""; 0]);
    source.shut_down().await;
}

/// Serves pages of two tools; the cursor is the number of the next tool.
fn paged(total: usize, cursor: fn(usize) -> Option<String>) -> Peer {
    Peer::new(move |mut talk| async move {
        talk.handshake(json!({"tools": {}})).await;
        while let Some(request) = talk.hear_of("tools/list").await {
            let from: usize =
                request["params"]["cursor"].as_str().map_or(0, |text| text.parse().unwrap());
            let page: Vec<_> =
                (from..total.min(from + 2)).map(|n| definition(&format!("t{n}"))).collect();
            let next = if from + 2 < total { cursor(from + 2) } else { None };
            talk.answer(&request, json!({"tools": page, "nextCursor": next})).await;
        }
        String::new()
    })
}

#[tokio::test]
async fn all_pages_are_followed() {
    let source = paged(5, |next| Some(next.to_string())).source("s", McpOptions::default());
    assert_eq!(names(&source).await, ["s.t0", "s.t1", "s.t2", "s.t3", "s.t4"]);
    source.shut_down().await;
}

#[tokio::test]
async fn a_cursor_that_leads_in_a_circle_ends_the_list() {
    let source = paged(100, |_| Some("2".to_owned())).source("s", McpOptions::default());
    let listing = source.list_offers().await.unwrap();
    assert!(
        listing.problems.iter().any(|p| p.message.contains("same page twice")),
        "{:?}",
        listing.problems
    );
    source.shut_down().await;
}

#[tokio::test]
async fn count_and_bytes_of_a_list_are_bounded() {
    let bounds = |items, definitions| McpOptions {
        limits: ServerLimits {
            max_definitions: items,
            max_definition_bytes: definitions,
            ..ServerLimits::default()
        },
        ..McpOptions::default()
    };
    for options in [bounds(7, 1 << 20), bounds(1000, 7 * definition("t0").to_string().len())] {
        let source = paged(100, |next| Some(next.to_string())).source("s", options);
        let listing = source.list_offers().await.unwrap();
        assert_eq!(listing.offers.len(), 7);
        assert!(listing.problems[0].message.contains("is omitted"), "{:?}", listing.problems);
        source.shut_down().await;
    }
}

#[tokio::test]
async fn annotations_count_only_where_they_are_trusted_or_strict() {
    const LIST: &str = concat!(
        r#"{"tools":[{"name":"read","inputSchema":{},"annotations":{"readOnlyHint":true,"openWorldHint":true}},"#,
        r#"{"name":"write","inputSchema":{},"annotations":{"readOnlyHint":false,"idempotentHint":true}},"#,
        r#"{"name":"plain","inputSchema":{}}]}"#
    );
    let listed = async |marks: TraitOverrides| {
        let peer = fixed(json!({"tools": {}}), &[("tools/list", LIST)]);
        let source = peer.source("s", McpOptions { overrides: marks, ..McpOptions::default() });
        let listing = source.list_offers().await.unwrap();
        source.shut_down().await;
        listing
    };
    let listing = listed(TraitOverrides::default()).await;
    for tool in tools(&listing) {
        let destructive = tool.name.as_str() == "s.write";
        let strict =
            tool::ToolTraits { is_destructive: destructive, ..tool::ToolTraits::default() };
        assert_eq!(tool.traits, strict, "{tool:?}");
    }
    assert!(!listing.trusted_annotations);
    let listing =
        listed(TraitOverrides { trusts_annotations: true, ..TraitOverrides::default() }).await;
    assert!(listing.trusted_annotations);
    let [read, write, plain] = tools(&listing)[..] else { panic!() };
    assert_eq!(read.traits.effects, SideEffects::read_only());
    assert_eq!(read.traits.scopes, [tool::AccessScope::Network]);
    assert!(
        write.traits.is_destructive
            && write.traits.is_idempotent
            && write.traits.effects.may_change_state()
    );
    assert_eq!(plain.traits.effects, SideEffects::Unknown);

    let marks = TraitOverrides {
        read_only: ToolSelection::Named(["plain".to_owned(), "gone".to_owned()].into()),
        idempotent: ToolSelection::All,
        safety: Some(SafetyLevel::Dangerous),
        ..TraitOverrides::default()
    };
    let listing = listed(marks).await;
    let [read, _, plain] = tools(&listing)[..] else { panic!() };
    assert!(!plain.traits.effects.may_change_state() && read.traits.effects.may_change_state());
    assert!(read.traits.is_idempotent && read.traits.safety == SafetyLevel::Dangerous);
    assert!(
        listing.problems[0].message.contains("`read_only` names `gone`"),
        "{:?}",
        listing.problems
    );
}

#[tokio::test]
async fn a_server_without_a_method_for_templates_has_no_fault() {
    for (code, faults) in [(-32601, 0), (-32603, 1)] {
        let peer = Peer::new(move |mut talk| async move {
            talk.handshake(json!({"tools": {}, "resources": {}})).await;
            while let Some(request) = talk.hear().await {
                match request["method"].as_str() {
                    Some("tools/list") => talk.answer(&request, json!({"tools": []})).await,
                    Some("resources/list") => talk.answer(&request, json!({"resources": []})).await,
                    Some("resources/templates/list") => {
                        talk.refuse(&request, code, "Method not found").await;
                    }
                    _ => {}
                }
            }
            String::new()
        });
        let source = peer.source("s", McpOptions::default());
        let problems = source.list_offers().await.unwrap().problems;
        assert_eq!(problems.len(), faults, "{problems:?}");
        source.shut_down().await;
    }
}

/// A tool that the operator or another program's file disables is not listed and cannot be called.
#[tokio::test]
async fn disabled_tools_are_not_offered() {
    const LIST: &str = concat!(
        r#"{"tools":[{"name":"read","inputSchema":{}},{"name":"write","inputSchema":{}},"#,
        r#"{"name":"drop","inputSchema":{}}]}"#
    );
    let named = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    for (marks, offered, told) in [
        (TraitOverrides::default(), &["s.read", "s.write", "s.drop"][..], 0),
        (
            TraitOverrides {
                disabled_tools: named(&["drop", "gone"]),
                ..TraitOverrides::default()
            },
            &["s.read", "s.write"],
            1,
        ),
        (
            TraitOverrides {
                enabled_tools: Some(named(&["read", "drop"])),
                disabled_tools: named(&["drop"]),
                ..TraitOverrides::default()
            },
            &["s.read"],
            0,
        ),
    ] {
        let peer = fixed(json!({"tools": {}}), &[("tools/list", LIST)]);
        let source = peer.source("s", McpOptions { overrides: marks, ..McpOptions::default() });
        let listing = source.list_offers().await.unwrap();
        let names: Vec<_> = tools(&listing).iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(
            (names, listing.problems.len()),
            (offered.to_vec(), told),
            "{:?}",
            listing.problems
        );
        source.shut_down().await;
    }
}
