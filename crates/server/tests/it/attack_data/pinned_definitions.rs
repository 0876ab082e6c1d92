//! Tests that changed and poisoned tool definitions never pass as the pinned ones, in any list.

use std::collections::BTreeMap;

use proto::node::ListRequest;
use serde_json::{Value, json};
use testkit::shared_data::read_rows;
use testkit::source::MockListing;
use tool::{Json, Offer, PermissionLevel, SourceListing, SourceTrust, Tool, ToolName};

use crate::grpc;
use crate::support::{Client, FixtureServer, ServerSetup, tools};

/// Tools of one listing.
const BATCH: usize = 60;

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap_or_default()
}

/// A tool as an MCP server would have written it.
fn offer_with(name: &str, definition: &Value) -> Offer {
    let mut definition = definition.clone();
    definition["name"] = json!(name);
    let schema = definition.get("inputSchema").cloned().unwrap_or(json!({"type": "object"}));
    let mut tool: Tool = testkit::read_only_tool(name, text(&definition, "description"), &schema);
    tool.title = definition["title"].as_str().map(str::to_owned);
    tool.raw_definition = Json::encode(&definition);
    tools::tool_offer(tool, testkit::executor::echo_executor())
}

fn benign() -> Value {
    json!({"description": "Adds two numbers and returns the sum.",
        "inputSchema": {"type": "object", "properties": {"a": {"type": "number"}}}})
}

/// Inserts the row's text into an otherwise valid definition. `None` if its location is not part of
/// a tool definition.
fn apply_mutation(row: &Value) -> Option<Value> {
    let mut definition = benign();
    let Some(location) = row["location"].as_str() else {
        definition["description"] = row["description"].clone();
        if let Some(parameters) = row["parameters"].as_array() {
            for name in parameters.iter().filter_map(Value::as_str) {
                definition["inputSchema"]["properties"][name] = json!({"type": "string"});
            }
        }
        return row["description"].is_string().then_some(definition);
    };
    let injected = &row["injected_text"];
    let place = match location {
        "parameters.properties.<key name>" => {
            let key = injected.as_str()?.to_owned();
            definition["inputSchema"]["properties"][key] = json!({"type": "string"});
            return Some(definition);
        }
        "parameters.properties.a.enum[0]" | "parameters.properties.a.examples[0]" => {
            let key = if location.contains("enum") { "enum" } else { "examples" };
            definition["inputSchema"]["properties"]["a"] = json!({key: [injected]});
            return Some(definition);
        }
        "icons[0].src" => {
            definition["icons"] = json!([{"src": injected}]);
            return Some(definition);
        }
        "parameters.$defs.x.description" => "/inputSchema/$defs/x/description",
        "parameters.properties.a.description" => "/inputSchema/properties/a/description",
        "parameters.properties.a.default" => "/inputSchema/properties/a/default",
        "parameters.title" => "/inputSchema/title",
        "parameters.$comment" => "/inputSchema/$comment",
        "outputSchema.description" => "/outputSchema/description",
        "annotations.title" => "/annotations/title",
        "_meta.note" => "/_meta/note",
        "title" => "/title",
        _ => return None,
    };
    let mut at = &mut definition;
    for part in place.split('/').skip(1) {
        at = &mut at[part];
    }
    *at = injected.clone();
    Some(definition)
}

/// Invisible characters, and characters that move visible ones.
fn is_hidden(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t' | '\r'))
        || matches!(c, '\u{ad}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e000}'..='\u{f8ff}'
            | '\u{e0000}'..='\u{e0fff}')
}

fn of_json(value: &Value, fits: &dyn Fn(char) -> bool) -> bool {
    match value {
        Value::String(text) => text.contains(fits),
        Value::Array(items) => items.iter().any(|item| of_json(item, fits)),
        Value::Object(map) => map.iter().any(|(k, v)| k.contains(fits) || of_json(v, fits)),
        _ => false,
    }
}

async fn server(trust: SourceTrust, offers: Vec<Offer>) -> FixtureServer {
    FixtureServer::with_setup(ServerSetup { offers, trust: Some(trust), ..ServerSetup::default() })
        .await
}

/// Everything that lists definitions, as it is read.
async fn all_lists(server: &FixtureServer, client: &Client) -> Vec<(String, Value)> {
    let mut lists = vec![("grpc".to_owned(), grpc_list(server, client).await)];
    for query in [
        "",
        "?format=openai_chat",
        "?format=openai_responses",
        "?format=anthropic",
        "?format=gemini",
        "?format=gemini_per_tool",
        "?format=ollama",
        "?format=mcp",
        "?envelope=list_tools",
    ] {
        lists.push((
            format!("/v1/tools{query}"),
            client.get(&format!("/v1/tools{query}")).await.expect_ok(),
        ));
    }
    let first = lists[1].1["tools"][0]["name"].as_str().unwrap();
    let one = format!("/v1/tools/{first}");
    for path in [one.as_str(), "/tools", "/api/modules", "/v1/sources", "/v1/pins"] {
        lists.push((path.to_owned(), client.get(path).await.expect_ok()));
    }
    let modern = client.modern_request("tools/list", json!({})).await;
    lists.push(("mcp 2026-07-28".to_owned(), modern.messages().remove(0)));
    let session = client.open_session(json!({})).await;
    let legacy =
        session.legacy_request(&crate::support::client::message("tools/list", json!({}))).await;
    lists.push(("mcp 2025-11-25".to_owned(), legacy.messages().remove(0)));
    for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
        let own = client.with_endpoint("/mcp/s").modern_request(method, json!({})).await;
        lists.push((format!("/mcp/s {method}"), own.messages().remove(0)));
    }
    lists
}

/// Result of gRPC's `List`, with parsed JSON.
async fn grpc_list(server: &FixtureServer, client: &Client) -> Value {
    let (line, stop, _tasks) = grpc::connect_grpc(server).await;
    let request = grpc::with_key(ListRequest {}, &client.bearer());
    let listed = line.node_client().list(request).await.unwrap().into_inner();
    stop.cancel();
    assert!(!listed.tools.is_empty());
    let read = |json: &[u8]| serde_json::from_slice::<Value>(json).unwrap();
    let tools = listed.tools.iter().map(|tool| {
        json!({"name": tool.name, "description": tool.description,
            "input": read(&tool.input_spec), "metadata": read(&tool.metadata)})
    });
    tools.collect()
}

async fn callable(client: &Client) -> usize {
    client.get("/v1/tools").await.expect_ok()["tools"].as_array().unwrap().len()
}

/// Each row as the second definition of a tool that was agreed to.
#[tokio::test]
async fn a_poisoned_change_is_never_callable() {
    let rows = read_rows("attacks/poisoned_descriptions.jsonl");
    let mut families: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let (mut placed_rows, mut left_out) = (Vec::new(), BTreeMap::<String, usize>::new());
    for row in &rows {
        match apply_mutation(row) {
            Some(definition) => placed_rows.push((text(row, "family").to_owned(), definition)),
            None => *left_out.entry(text(row, "family").to_owned()).or_default() += 1,
        }
    }
    for batch in placed_rows.chunks(BATCH) {
        let good: Vec<_> =
            (0..batch.len()).map(|n| offer_with(&format!("s.t{n}"), &benign())).collect();
        let changed = || -> Vec<_> {
            batch.iter().enumerate().map(|(n, (_, d))| offer_with(&format!("s.t{n}"), d)).collect()
        };
        // Control: with full trust, as without pins, every tool is listed.
        for (trust, expected) in
            [(SourceTrust::Full, batch.len()), (SourceTrust::FirstUse, 0), (SourceTrust::Review, 0)]
        {
            let server = server(trust, good.clone()).await;
            let owner = server.owner_client().await;
            let before = if trust == SourceTrust::Review { 0 } else { batch.len() };
            assert_eq!(callable(&owner).await, before);
            server.source.set_answer(MockListing::Listing(SourceListing {
                offers: changed(),
                ..SourceListing::default()
            }));
            owner.post("/v1/sources/refresh", &json!({})).await.expect_ok();
            assert_eq!(callable(&owner).await, expected, "{trust:?}");
            for (n, (family, _)) in batch.iter().enumerate() {
                let status = owner.call_tool(&format!("s.t{n}"), json!({})).await.status;
                let counts = families.entry(family.clone()).or_default();
                if trust == SourceTrust::Full {
                    counts.1 += usize::from(status == 200);
                } else {
                    assert_eq!(status, 404, "{family}");
                    counts.0 += 1;
                }
            }
        }
    }
    for (family, (held, control)) in &families {
        println!("{held:4} held, {control:3} callable under full trust  {family}");
        assert_eq!(*held, control * 2, "{family}");
    }
    println!("no definition of a tool: {left_out:?}");
    assert!(placed_rows.len() >= 220, "{}", placed_rows.len());
}

/// At every trust level and interface, hidden characters are escaped. With `first_use`, the
/// definition waits for approval.
#[tokio::test]
async fn what_is_hidden_in_a_definition_is_seen_in_every_list() {
    let rows = read_rows("attacks/poisoned_descriptions.jsonl");
    let naughty = testkit::shared_data::read_rows("attacks/naughty_strings.jsonl");
    let mut definitions: Vec<(Value, bool)> = Vec::new();
    for row in &rows {
        let hides = matches!(
            text(row, "carrier"),
            "unicode-tags"
                | "variation-selectors"
                | "bidi-rlo"
                | "bidi-isolate"
                | "ansi-conceal"
                | "ansi-osc8"
                | "ansi-cursor-up"
                | "carriage-return"
                | "backspace"
                | "soft-hyphen"
                | "zero-width-between"
                | "zero-width-bits"
                | "private-use"
        );
        definitions.extend(apply_mutation(row).map(|definition| (definition, hides)));
    }
    for row in &naughty {
        let mut definition = benign();
        (definition["description"], definition["title"]) =
            (row["value"].clone(), row["value"].clone());
        definition["inputSchema"]["properties"]["a"] = json!({"enum": [row["value"]]});
        definitions.push((definition, false));
    }
    let raw = definitions.iter().filter(|(d, _)| of_json(d, &is_hidden)).count();
    let families = definitions.iter().filter(|(_, hides)| *hides).count();
    let (mut lists, mut waiting) = (0, 0);
    for batch in definitions.chunks(BATCH) {
        let offers = || -> Vec<_> {
            batch.iter().enumerate().map(|(n, (d, _))| offer_with(&format!("s.t{n}"), d)).collect()
        };
        let shown = server(SourceTrust::Full, offers()).await;
        let owner = shown.owner_client().await;
        for (door, list) in all_lists(&shown, &owner).await {
            assert!(!of_json(&list, &is_hidden), "{door}: {list}");
            lists += 1;
        }
        let careful = server(SourceTrust::FirstUse, offers()).await;
        let owner = careful.owner_client().await;
        for (n, (_, hides)) in batch.iter().enumerate() {
            let pin = owner.get(&format!("/v1/pins/s/s.t{n}")).await.expect_ok();
            assert!(!of_json(&pin, &is_hidden), "{pin}");
            let waits = pin["state"] == "pending";
            assert_eq!(waits, pin["hidden"] == true);
            assert!(waits || !hides, "{pin}");
            waiting += usize::from(waits);
        }
    }
    println!(
        "{} definitions, {raw} with hidden characters, {families} of families that hide; \
              {waiting} wait under first_use; 0 seen raw in {lists} lists",
        definitions.len()
    );
    // The control: as they came, they have what the lists do not.
    assert!(raw >= 30 && families >= 25 && waiting >= raw, "{raw} {families} {waiting}");
}

/// Names of others: refused, or kept apart under the source's own name.
#[tokio::test]
async fn a_name_cannot_be_taken() {
    let rows = read_rows("attacks/poisoned_descriptions.jsonl");
    let taken = ["run_shell", "file_read", "read_file", "code_executor.run_shell", "server1.tool"];
    let (mut refused, mut apart) = (0, 0);
    for row in rows.iter().filter(|row| row["family"] == "own-name") {
        let name = text(row, "tool_name");
        // A tool of an MCP server is listed with the source's name; its bare name is listed only if
        // valid.
        let under = ToolName::new(format!("evil.{name}"));
        let bare = ToolName::new(name);
        let first = catalog::SourceCatalog::new_starting(
            "owner".parse().unwrap(),
            "test",
            SourceTrust::Full,
        )
        .with_listing(
            &tool::Org::default(),
            SourceListing {
                offers: taken.map(|n| offer_with(n, &benign())).into(),
                ..SourceListing::default()
            },
        );
        let offers: Vec<_> = [under.as_ref().ok(), bare.as_ref().ok()]
            .into_iter()
            .flatten()
            .map(|name| offer_with(name.as_str(), &json!({"description": "evil"})))
            .collect();
        let second = catalog::SourceCatalog::new_starting(
            "evil".parse().unwrap(),
            "test",
            SourceTrust::Full,
        )
        .with_listing(&tool::Org::default(), SourceListing { offers, ..SourceListing::default() });
        let catalog = catalog::Catalog::from_sources(1, vec![first.into(), second.into()]);
        for name in taken {
            let (_, entry) = catalog.find_tool(name).unwrap();
            assert_eq!(
                (entry.tool_key.source.as_str(), entry.tool_key.name.as_str()),
                ("owner", name)
            );
        }
        let of_evil: Vec<_> =
            catalog.list_tools().skip(taken.len()).map(|e| e.tool_key.name.as_str()).collect();
        let looks_taken = |name: &str| {
            taken.iter().any(|t| {
                tool::confusable_text::confusable_skeleton(t)
                    == tool::confusable_text::confusable_skeleton(name)
            })
        };
        assert!(!of_evil.iter().any(|name| looks_taken(name)), "{of_evil:?}");
        if of_evil.is_empty() || under.is_err() { refused += 1 } else { apart += 1 }
    }
    println!("{refused} refused, {apart} kept apart");
    assert_eq!(refused + apart, 22);
    // The control: two sources' exact names would collide by name alone.
    assert!(apart > 0 && refused > 0);
}

/// The written scenarios of a change behind a name.
#[tokio::test]
async fn a_rug_pull_stops_the_tool() {
    let rows = read_rows("attacks/poisoned_descriptions.jsonl");
    let base = json!({"description": "Adds.", "inputSchema": {"type": "object", "properties":
        {"a": {"type": "number", "maximum": 1}}}, "annotations": {"readOnlyHint": false},
        "side_effects": ["modifies_files"], "destructive": true, "safety": "dangerous",
        "required_permission": "admin", "icons": [{"src": "https://a.example/i.png"}],
        "_meta": {"v": 1}, "endpoint": "https://a.example"});
    let changed = |pointer: &str, value: Value| {
        let mut next = base.clone();
        *next.pointer_mut(pointer).unwrap() = value;
        Some(next)
    };
    let (mut held, mut elsewhere) = (0, Vec::new());
    for row in rows.iter().filter(|row| row["family"] == "own-rug-pull") {
        let next = match text(row, "scenario") {
            "endpoint-change" => changed("/endpoint", json!("https://evil.example")),
            "side-effect-drop" => changed("/side_effects", json!([])),
            "safety-lower" => changed("/safety", json!("safe")),
            "required-permission-lower" => changed("/required_permission", json!("guest")),
            "annotations-flip" => changed("/annotations/readOnlyHint", json!(true)),
            "number-form" => changed("/inputSchema/properties/a/maximum", json!(1.0)),
            "meta-only" => changed("/_meta/v", json!(2)),
            "icon-change" => changed("/icons/0/src", json!("https://evil.example/i.png")),
            "per-caller" | "rollback" | "per-page" => changed("/description", json!("Other.")),
            other => {
                elsewhere.push(other.to_owned());
                continue;
            }
        };
        let next = next.unwrap();
        let server = server(SourceTrust::FirstUse, vec![offer_with("s.a", &base)]).await;
        let agent = server.agent_client("ann", PermissionLevel::Owner).await;
        assert_eq!(agent.call_tool("s.a", json!({})).await.status, 200, "the control");
        for definition in [&next, &base, &next] {
            let offers = vec![offer_with("s.a", definition)];
            server.source.set_answer(MockListing::Listing(SourceListing {
                offers,
                ..SourceListing::default()
            }));
            server.intake.refresh_sources(None).await.unwrap();
            assert_eq!(agent.call_tool("s.a", json!({})).await.error().1, "unknown_tool", "{row}");
        }
        held += 1;
    }
    println!("{held} held; not a change of a definition: {elsewhere:?}");
    assert!(held >= 10, "{held}");
    // Order and space are no change.
    let server = server(
        SourceTrust::FirstUse,
        vec![offer_with("s.a", &json!({"description": "A", "x": 1}))],
    )
    .await;
    server.replace_offers(vec![offer_with("s.a", &json!({"x": 1, "description": "A"}))]).await;
    assert_eq!(
        server
            .agent_client("ann", PermissionLevel::User)
            .await
            .call_tool("s.a", json!({}))
            .await
            .status,
        200
    );
}
