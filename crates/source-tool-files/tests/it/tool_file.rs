//! Tool files on a real disk.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use egress::{EgressClient, EgressOptions};
use serde_json::json;
use source_tool_files::{HttpToolDependencies, ImplementationRegistry, ToolFileSource};
use tempfile::TempDir;
use testkit::clock::FakeClock;
use tool::source::SourceErrorKind;
use tool::{Clock, Json, Source as _, SourceName};
use tool_manifest::BuiltinTool;

use testkit::executor_run::{find_offer, outcome_json, run_call, tool_names};

fn computing() -> Arc<[BuiltinTool]> {
    let clock: Arc<dyn Clock> = Arc::new(FakeClock::default());
    builtins::pure_tools(&clock).into()
}

fn file(folder: &TempDir, name: &str, text: &str) -> (PathBuf, ToolFileSource) {
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    let source = source(&path);
    (path, source)
}

fn source(path: &Path) -> ToolFileSource {
    let egress = EgressClient::new(EgressOptions::default()).unwrap();
    let web = HttpToolDependencies { egress, resolve_secret: Arc::new(|_| None) };
    let handlers = ImplementationRegistry {
        computing_builtins: computing(),
        internal_handlers: Arc::new(HashMap::new()),
        http: web,
        code_host: None,
        installed_builtins: Arc::default(),
        own_categories: Arc::default(),
    };
    ToolFileSource::new(SourceName::new("file").unwrap(), path, handlers)
}

const TOOLS: &str = r#"
version: 1
tools:
  - name: get_weather
    description: Weather of a city.
    type: function
    handler: weather
    parameters:
      type: object
      properties:
        city: {type: string}
      required: [city]
    implementation:
      type: mock
      mock_response: {temp: 21, sky: [clear, 0.5]}
  - name: broken
    description: Nobody can run this.
    parameters: {type: object}
    implementation: {type: http, url: "http://x"}
  - name: math
    description: Computes.
    type: builtin
    handler: math_eval
    parameters: {type: object, properties: {expression: {type: string}}, required: [expression]}
  - name: get_weather
    description: Another one.
    type: mock
    mock_response: 1
    parameters: {type: object}
"#;

#[tokio::test]
async fn good_tools_are_offered_in_order_and_bad_ones_are_told_with_their_line() {
    let folder = tempfile::tempdir().unwrap();
    let (path, source) = file(&folder, "tools.yaml", TOOLS);
    let listing = source.list_offers().await.unwrap();
    assert_eq!(tool_names(&listing), ["get_weather", "math"]);
    let told: Vec<_> = listing
        .problems
        .iter()
        .map(|problem| format!("{} | {}", problem.location, problem.message))
        .collect();
    let at = path.display();
    assert_eq!(
        told,
        [
            format!("{at}:16 tool `broken` | HTTP tools not yet supported (coming in v2)"),
            format!("{at}:25 tool `get_weather` | Tool get_weather already registered"),
        ]
    );
}

#[tokio::test]
async fn mocks_and_built_ins_run() {
    let folder = tempfile::tempdir().unwrap();
    let (_, source) = file(&folder, "tools.yaml", TOOLS);
    let listing = source.list_offers().await.unwrap();
    let (tool, executor) = find_offer(&listing, "get_weather");
    let outcome = run_call(&tool, executor.as_ref(), r#"{"city":"Bern"}"#).await.unwrap();
    assert_eq!(outcome_json(&outcome), json!({ "temp": 21, "sky": ["clear", 0.5] }));
    let (tool, executor) = find_offer(&listing, "math");
    let outcome = run_call(&tool, executor.as_ref(), r#"{"expression":"6*7"}"#).await.unwrap();
    assert_eq!(outcome_json(&outcome), json!({ "expression": "6*7", "result": 42 }));
}

#[tokio::test]
async fn a_json_file_gives_the_same_tools_and_keeps_their_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let entry = r#"{ "name":"n", "description":"d", "type":"mock", "parameters":{"type":"object"} , "mock_response": 1.0e2 }"#;
    let (_, source) = file(&folder, "tools.JSON", &format!("{{\"tools\":[\n{entry}\n]}}"));
    let listing = source.list_offers().await.unwrap();
    assert!(listing.problems.is_empty(), "{:?}", listing.problems);
    let (tool, executor) = find_offer(&listing, "n");
    assert_eq!(tool.raw_definition.as_str(), entry);
    assert_eq!(tool.input_schema.as_str(), r#"{"type":"object"}"#);
    let outcome = run_call(&tool, executor.as_ref(), "{}").await.unwrap();
    let tool::OutcomeBody::Value(answer) = outcome.body else { panic!("an MCP result") };
    assert_eq!(answer.as_str(), "1.0e2");
}

/// The tool-file registry's own examples, as its document and its program write them: both load
/// whole, and a fault of one tool drops that tool alone and names its line.
#[tokio::test]
async fn both_json_forms_of_the_tool_file_registry_load_and_an_incomplete_tool_is_dropped_alone() {
    let nested = |name: &str, rest: &str| {
        format!(
            r#"{{"name":"{name}","description":"d","parameters":{{"type":"object"}},{rest},"implementation":{{"type":"mock","mock_response":1}}}}"#
        )
    };
    let flat = r#"{"name":"flat","description":"d","type":"builtin","builtin_handler":"math_eval","parameters":{"type":"object"}}"#;
    let whole = nested("whole", r#""type":"function","handler":"w""#);
    let lines = [
        r#"{"tools":{"enabled":true,"default_timeout_ms":30000,"registry":["#.to_owned(),
        format!("{whole},"),
        format!("{flat},"),
        format!("{},", nested("no_type", r#""handler":"w""#)),
        format!("{},", nested("procedure", r#""type":"procedure","handler":"w""#)),
        nested("no_handler", r#""type":"function""#),
        "]}}".to_owned(),
    ];
    let folder = tempfile::tempdir().unwrap();
    let (path, source) = file(&folder, "tools.json", &lines.join("\n"));
    let listing = source.list_offers().await.unwrap();
    assert_eq!(tool_names(&listing), ["whole", "flat"]);
    let told: Vec<_> = listing.problems.iter().map(|problem| &*problem.location).collect();
    let place = |line, name: &str| format!("{}:{line} tool `{name}`", path.display());
    assert_eq!(told, [place(4, "no_type"), place(5, "procedure"), place(6, "no_handler")]);
    assert!(listing.problems.iter().all(|problem| problem.help.is_some()));
}

#[tokio::test]
async fn a_change_is_told_and_listed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, source) = file(&folder, "tools.yaml", TOOLS);
    let before = source.list_offers().await.unwrap();
    let waiting = source.wait_for_change(before.revision);
    fs::write(&path, "tools: []\n").unwrap();
    let revision = tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap();
    let after = source.list_offers().await.unwrap();
    assert!(after.revision >= revision && revision > before.revision);
    assert!(after.offers.is_empty());
    source.shut_down().await;
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_an_error_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let fault = async |source: ToolFileSource| source.list_offers().await.unwrap_err();
    let missing = fault(source(&folder.path().join("none.yaml"))).await;
    assert_eq!(missing.kind, SourceErrorKind::Unreachable);
    assert!(missing.problem.location.ends_with("none.yaml") && missing.problem.help.is_some());
    let folder_itself = fault(source(folder.path())).await;
    assert_eq!(folder_itself.problem.message, "the tool file is not a regular file");
    let (_, broken) = file(&folder, "broken.yaml", "tools:\n  - {name: a\n  - b\n");
    let broken = fault(broken).await;
    assert_eq!(broken.kind, SourceErrorKind::MalformedReply);
    assert!(broken.problem.message.contains('^'), "{}", broken.problem.message);
    let (path, huge) = file(&folder, "huge.yaml", "");
    fs::File::create(path).unwrap().set_len(source_tool_files::MAX_FILE_BYTES + 1).unwrap();
    assert!(fault(huge).await.problem.message.contains("is larger than 8388608 bytes"));
}

/// One broken tool among many, and many broken tools: neither takes the file down.
#[tokio::test]
async fn problems_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let bad: Vec<_> = (0..300).map(|n| json!({ "name": format!("t{n}") })).collect();
    let (_, source) = file(&folder, "tools.json", Json::encode(&bad).as_str());
    let listing = source.list_offers().await.unwrap();
    assert_eq!(listing.problems.len(), source_tool_files::MAX_PROBLEMS + 1);
    assert_eq!(listing.problems.last().unwrap().message, "100 more problems");
}

/// A file of many tools of which one changes: the others keep their definitions and executors, and
/// nothing keeps the text of the file.
#[tokio::test]
async fn tools_that_did_not_change_are_those_of_the_reading_before() {
    for extension in ["json", "yaml"] {
        let folder = TempDir::new().unwrap();
        let text = |changed: &str, version: u8| {
            let tool = |name: &str, response: &str| {
                json!({"name": name, "description": format!("Says {response}."), "type": "mock",
                    "mock_response": {"said": response},
                    "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}})
            };
            let tools = [tool("one", "same"), tool("two", changed), tool("three", "same")];
            json!({ "version": version, "tools": tools }).to_string()
        };
        let (path, source) = file(&folder, &format!("tools.{extension}"), &text("old", 1));
        let mut offers = Vec::new();
        for (changed, version) in [("old", 1), ("new", 1), ("new", 2), ("old", 2)] {
            fs::write(&path, text(changed, version)).unwrap();
            let listing = source.list_offers().await.unwrap();
            assert_eq!(listing.problems, []);
            assert_eq!(tool_names(&listing), ["one", "two", "three"]);
            let (tool, executor) = find_offer(&listing, "two");
            let answer = run_call(&tool, executor.as_ref(), "{}").await.unwrap();
            assert_eq!(outcome_json(&answer)["said"], changed);
            offers.push(listing.offers);
        }
        let is_same = |reading: usize, at: usize| {
            let (one, other) = (&offers[reading - 1][at], &offers[reading][at]);
            let tool = |offer: &tool::Offer| match &offer.item {
                tool::CatalogItem::Tool(tool) => Arc::as_ptr(tool),
                _ => panic!("a tool"),
            };
            let executors = (Arc::as_ptr(&one.executor), Arc::as_ptr(&other.executor));
            (tool(one) == tool(other), std::ptr::addr_eq(executors.0, executors.1))
        };
        assert_eq!(
            [0, 1, 2].map(|at| is_same(1, at)),
            [(true, true), (false, false), (true, true)]
        );
        assert_eq!([0, 1, 2].map(|at| is_same(2, at)), [(false, false); 3], "other settings");
        assert_eq!(
            [0, 1, 2].map(|at| is_same(3, at)),
            [(true, true), (false, false), (true, true)]
        );
    }
}
