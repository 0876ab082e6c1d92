//! Definitions that try to be more than they were, by every list that a caller or a person reads.

use std::collections::BTreeMap;

use proto::node::ListRequest;
use serde_json::{Value, json};
use testkit::data::rows;
use testkit::source::Answer;
use tool::{Json, Level, Listing, Offer, Tool, ToolName, Trust};

use crate::grpc;
use crate::support::{Client, Server, Setup, tools};

/// Tools of one listing.
const BATCH: usize = 60;

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap_or_default()
}

/// A tool as an MCP server would have written it.
fn defined(name: &str, definition: &Value) -> Offer {
    let mut definition = definition.clone();
    definition["name"] = json!(name);
    let schema = definition.get("inputSchema").cloned().unwrap_or(json!({"type": "object"}));
    let mut tool: Tool = testkit::tool(name, text(&definition, "description"), &schema);
    tool.title = definition["title"].as_str().map(str::to_owned);
    tool.received = Json::of(&definition);
    tools::offer(tool, testkit::executor::echo())
}

fn benign() -> Value {
    json!({"description": "Adds two numbers and returns the sum.",
        "inputSchema": {"type": "object", "properties": {"a": {"type": "number"}}}})
}

/// Where the row's text stands, put into a definition that is good but for that; `None` where the place
/// is in no tool's definition.
fn placed(row: &Value) -> Option<Value> {
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

/// What no reader sees, or what moves what he sees.
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

async fn server(trust: Trust, offers: Vec<Offer>) -> Server {
    Server::with(Setup { offers, trust: Some(trust), ..Setup::default() }).await
}

/// Everything that lists definitions, as it is read.
async fn all_lists(server: &Server, client: &Client) -> Vec<(String, Value)> {
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
            client.get(&format!("/v1/tools{query}")).await.good(),
        ));
    }
    let first = lists[1].1["tools"][0]["name"].as_str().unwrap();
    let one = format!("/v1/tools/{first}");
    for path in [one.as_str(), "/tools", "/api/modules", "/v1/sources", "/v1/pins"] {
        lists.push((path.to_owned(), client.get(path).await.good()));
    }
    let modern = client.modern("tools/list", json!({})).await;
    lists.push(("mcp 2026-07-28".to_owned(), modern.messages().remove(0)));
    let session = client.session(json!({})).await;
    let legacy = session.legacy(&crate::support::client::message("tools/list", json!({}))).await;
    lists.push(("mcp 2025-11-25".to_owned(), legacy.messages().remove(0)));
    for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
        let own = client.at("/mcp/s").modern(method, json!({})).await;
        lists.push((format!("/mcp/s {method}"), own.messages().remove(0)));
    }
    lists
}

/// What gRPC's `List` gives, with its JSON read.
async fn grpc_list(server: &Server, client: &Client) -> Value {
    let (line, stop, _tasks) = grpc::listening(server).await;
    let request = grpc::with_key(ListRequest {}, &client.bearer());
    let listed = line.node().list(request).await.unwrap().into_inner();
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
    client.get("/v1/tools").await.good()["tools"].as_array().unwrap().len()
}

/// Each row as the second definition of a tool that was agreed to.
#[tokio::test]
async fn a_poisoned_change_is_never_callable() {
    let rows = rows("attacks/poisoned_descriptions.jsonl");
    let mut families: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let (mut placed_rows, mut left_out) = (Vec::new(), BTreeMap::<String, usize>::new());
    for row in &rows {
        match placed(row) {
            Some(definition) => placed_rows.push((text(row, "family").to_owned(), definition)),
            None => *left_out.entry(text(row, "family").to_owned()).or_default() += 1,
        }
    }
    for batch in placed_rows.chunks(BATCH) {
        let good: Vec<_> =
            (0..batch.len()).map(|n| defined(&format!("s.t{n}"), &benign())).collect();
        let changed = || -> Vec<_> {
            batch.iter().enumerate().map(|(n, (_, d))| defined(&format!("s.t{n}"), d)).collect()
        };
        // The control: under full trust, as without pins, every one of them is there.
        for (trust, expected) in
            [(Trust::Full, batch.len()), (Trust::FirstUse, 0), (Trust::Review, 0)]
        {
            let server = server(trust, good.clone()).await;
            let owner = server.owner().await;
            let before = if trust == Trust::Review { 0 } else { batch.len() };
            assert_eq!(callable(&owner).await, before);
            server.source.set(Answer::Listing(Listing { offers: changed(), ..Listing::default() }));
            owner.post("/v1/sources/refresh", &json!({})).await.good();
            assert_eq!(callable(&owner).await, expected, "{trust:?}");
            for (n, (family, _)) in batch.iter().enumerate() {
                let status = owner.call(&format!("s.t{n}"), json!({})).await.status;
                let counts = families.entry(family.clone()).or_default();
                if trust == Trust::Full {
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

/// Under every trust, at every door: what is hidden is written out. And under `first_use` it waits.
#[tokio::test]
async fn what_is_hidden_in_a_definition_is_seen_in_every_list() {
    let rows = rows("attacks/poisoned_descriptions.jsonl");
    let naughty = testkit::data::rows("attacks/naughty_strings.jsonl");
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
        definitions.extend(placed(row).map(|definition| (definition, hides)));
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
            batch.iter().enumerate().map(|(n, (d, _))| defined(&format!("s.t{n}"), d)).collect()
        };
        let shown = server(Trust::Full, offers()).await;
        let owner = shown.owner().await;
        for (door, list) in all_lists(&shown, &owner).await {
            assert!(!of_json(&list, &is_hidden), "{door}: {list}");
            lists += 1;
        }
        let careful = server(Trust::FirstUse, offers()).await;
        let owner = careful.owner().await;
        for (n, (_, hides)) in batch.iter().enumerate() {
            let pin = owner.get(&format!("/v1/pins/s/s.t{n}")).await.good();
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
    let rows = rows("attacks/poisoned_descriptions.jsonl");
    let taken = ["run_shell", "file_read", "read_file", "code_executor.run_shell", "server1.tool"];
    let (mut refused, mut apart) = (0, 0);
    for row in rows.iter().filter(|row| row["family"] == "own-name") {
        let name = text(row, "tool_name");
        // As an MCP server's tool it stands under its source's name; bare, only where it is a name.
        let under = ToolName::new(format!("evil.{name}"));
        let bare = ToolName::new(name);
        let first = catalog::Shelf::starting("owner".parse().unwrap(), "test", Trust::Full).listed(
            &tool::Org::default(),
            Listing { offers: taken.map(|n| defined(n, &benign())).into(), ..Listing::default() },
        );
        let offers: Vec<_> = [under.as_ref().ok(), bare.as_ref().ok()]
            .into_iter()
            .flatten()
            .map(|name| defined(name.as_str(), &json!({"description": "evil"})))
            .collect();
        let second = catalog::Shelf::starting("evil".parse().unwrap(), "test", Trust::Full)
            .listed(&tool::Org::default(), Listing { offers, ..Listing::default() });
        let catalog = catalog::Catalog::merge(1, vec![first.into(), second.into()]);
        for name in taken {
            let (_, entry) = catalog.find(name).unwrap();
            assert_eq!((entry.key.source.as_str(), entry.key.name.as_str()), ("owner", name));
        }
        let of_evil: Vec<_> =
            catalog.tools().skip(taken.len()).map(|e| e.key.name.as_str()).collect();
        let looks_taken = |name: &str| {
            taken.iter().any(|t| tool::confusables::look(t) == tool::confusables::look(name))
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
    let rows = rows("attacks/poisoned_descriptions.jsonl");
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
        let server = server(Trust::FirstUse, vec![defined("s.a", &base)]).await;
        let agent = server.agent("ann", Level::Owner).await;
        assert_eq!(agent.call("s.a", json!({})).await.status, 200, "the control");
        for definition in [&next, &base, &next] {
            let offers = vec![defined("s.a", definition)];
            server.source.set(Answer::Listing(Listing { offers, ..Listing::default() }));
            server.intake.refresh(None).await.unwrap();
            assert_eq!(agent.call("s.a", json!({})).await.error().1, "unknown_tool", "{row}");
        }
        held += 1;
    }
    println!("{held} held; not a change of a definition: {elsewhere:?}");
    assert!(held >= 10, "{held}");
    // Order and space are no change.
    let server =
        server(Trust::FirstUse, vec![defined("s.a", &json!({"description": "A", "x": 1}))]).await;
    server.relist(vec![defined("s.a", &json!({"x": 1, "description": "A"}))]).await;
    assert_eq!(server.agent("ann", Level::User).await.call("s.a", json!({})).await.status, 200);
}
