//! Lists with deferred tools, the searches of a model and their results, as the providers document
//! them.

use std::path::Path;

use formats::tool_search::{
    FoundTool, SearchToolText, SearchableTool, ToolSearchResult, join_searchable_tools,
    parse_requests, render_answers,
};
use formats::{
    ModelAnswer, ModelRequest, ProviderFormat, ToolCallResult, ToolSearcher, parse_calls,
    render_calls, render_tool,
};
use serde_json::{Value, json};
use tool::{Json, Outcome, Tool, ToolName};

/// Tools as name, source and whether they are deferred; the sources are not together.
const TOOLS: [(&str, &str, bool); 4] = [
    ("crm_list_orders", "crm", true),
    ("mail_send", "mail.eu", true),
    ("crm_get_profile", "crm", false),
    ("mail_read", "mail.eu", true),
];

fn rendered(format: ProviderFormat, name: &str) -> Json {
    let schema =
        json!({"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]});
    let description = format!("Does {name}.");
    let tool = Tool::new(ToolName::new(name).unwrap(), &description, Json::encode(&schema));
    render_tool(format, &tool, name).json.unwrap()
}

fn list(format: ProviderFormat, searcher: ToolSearcher, tools: &[(&str, &str, bool)]) -> Value {
    let all: Vec<_> = tools.iter().map(|(name, ..)| rendered(format, name)).collect();
    let tools = tools.iter().zip(&all);
    let tools: Vec<_> = tools
        .map(|((_, source, is_deferred), json)| SearchableTool {
            json,
            source,
            is_deferred: *is_deferred,
        })
        .collect();
    let parameters =
        Json::encode(&json!({"type": "object", "properties": {"queries": {"type": "array"}}}));
    let text = SearchToolText { description: "Searches.", parameters: &parameters };
    join_searchable_tools((format, searcher), &tools, &text).to_value()
}

fn search_result(format: ProviderFormat, found: &[&str]) -> ToolSearchResult {
    let found = found.iter().map(|name| FoundTool {
        json: rendered(format, name),
        name: (*name).to_owned(),
        source: TOOLS.iter().find(|tool| tool.0 == *name).unwrap().1.to_owned(),
    });
    ToolSearchResult { id: Some("call_1".to_owned()), found: Ok(found.collect()) }
}

#[expect(clippy::disallowed_methods, reason = "whether to write the documents anew")]
fn assert_golden(name: &str, value: &Value) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden").join(name);
    let written = serde_json::to_string_pretty(value).unwrap() + "\n";
    if std::env::var("TOOLKEEP_BLESS").is_ok_and(|bless| bless == "1") {
        std::fs::write(&file, &written).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(kept == written, "{} is stale; `cargo xtask generate` writes it", file.display());
}

const SEARCHES: [(ProviderFormat, ToolSearcher, &str); 6] = [
    (ProviderFormat::OpenaiResponses, ToolSearcher::Provider, "openai_responses.provider"),
    (ProviderFormat::OpenaiResponses, ToolSearcher::Toolkeep, "openai_responses.toolkeep"),
    (
        ProviderFormat::OpenaiResponsesStrict,
        ToolSearcher::Provider,
        "openai_responses_strict.provider",
    ),
    (ProviderFormat::Anthropic, ToolSearcher::Provider, "anthropic.provider"),
    (ProviderFormat::Anthropic, ToolSearcher::ProviderRegex, "anthropic.provider_regex"),
    (ProviderFormat::Anthropic, ToolSearcher::Toolkeep, "anthropic.toolkeep"),
];

#[test]
fn golden_lists_with_search_of_every_provider() {
    for (format, searcher, name) in SEARCHES {
        assert_golden(&format!("search_list.{name}.json"), &list(format, searcher, &TOOLS));
    }
}

#[test]
fn golden_results_of_searches() {
    for format in [ProviderFormat::OpenaiResponses, ProviderFormat::Anthropic] {
        let found = search_result(format, &["mail_send", "crm_list_orders", "mail_read"]);
        let outcome = Outcome::from_value(Json::encode(&json!({"sent": true})));
        let call =
            ToolCallResult { id: Some("call_2".to_owned()), name: "mail_send".to_owned(), outcome };
        let refused = ToolSearchResult {
            id: Some("call_3".to_owned()),
            found: Err("`queries` is missing".to_owned()),
        };
        let empty = ToolSearchResult { id: Some("call_4".to_owned()), found: Ok(Vec::new()) };
        let answers = [
            ModelAnswer::Search(found),
            ModelAnswer::Call(call),
            ModelAnswer::Search(refused),
            ModelAnswer::Search(empty),
        ];
        let messages = render_answers(format, &answers).to_value();
        assert_golden(&format!("search_result.{format}.json"), &messages);
        assert_eq!(render_answers(format, &[]).as_str(), "[]");
    }
}

/// The provider refuses a request of which every tool is deferred, and one that defers a search
/// tool.
#[test]
fn a_list_has_a_tool_that_is_not_deferred() {
    let all_deferred = TOOLS.map(|(name, source, _)| (name, source, true));
    for (format, searcher, name) in SEARCHES {
        let listed = list(format, searcher, &all_deferred);
        let loaded = listed
            .as_array()
            .unwrap()
            .iter()
            .filter(|tool| tool["type"] != "namespace" && tool.get("defer_loading").is_none());
        assert_eq!(loaded.count(), 1, "{name}: the search tool alone");
    }
}

#[test]
fn only_searches_that_the_caller_has_to_answer_are_requests() {
    let message = json!([
        {"type": "tool_search_call", "id": "tsc_1", "call_id": null, "execution": "server",
         "status": "completed", "arguments": {"paths": ["crm"]}},
        {"type": "tool_search_output", "id": "tso_1", "call_id": null, "execution": "server",
         "status": "completed", "tools": []},
        {"type": "tool_search_call", "id": "tsc_2", "call_id": "call_1", "execution": "client",
         "status": "completed", "arguments": {"queries": ["list orders"]}},
        {"type": "function_call", "call_id": "call_2", "name": "search_tools", "arguments": "{}"},
    ]);
    let requests =
        parse_requests(ProviderFormat::OpenaiResponses, &Json::encode(&message)).unwrap();
    let [ModelRequest::Search(search), ModelRequest::Call(call)] = &requests[..] else {
        panic!("{requests:?}")
    };
    assert_eq!(search.id.as_deref(), Some("call_1"));
    assert_eq!(search.arguments_text, r#"{"queries":["list orders"]}"#);
    assert_eq!(call.name, "search_tools", "a function of this name is no search");
    let calls = parse_calls(ProviderFormat::OpenaiResponses, &Json::encode(&message)).unwrap();
    assert_eq!(calls, std::slice::from_ref(call));

    let message = json!({"role": "assistant", "content": [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "tool_search_tool_bm25", "input": {"query": "x"}},
        {"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_1", "content":
            {"type": "tool_search_tool_search_result", "tool_references": []}},
        {"type": "tool_use", "id": "call_2", "name": "crm_list_orders", "input": {}},
        {"type": "tool_use", "id": "call_1", "name": "search_tools", "input": {"queries": ["mail"]}},
    ]});
    let requests = parse_requests(ProviderFormat::Anthropic, &Json::encode(&message)).unwrap();
    let kinds: Vec<_> = requests
        .iter()
        .map(|request| match request {
            ModelRequest::Call(call) => (false, call.id.as_deref().unwrap()),
            ModelRequest::Search(search) => (true, search.id.as_deref().unwrap()),
        })
        .collect();
    assert_eq!(kinds, [(false, "call_2"), (true, "call_1")]);
    // Other providers have no searches.
    let message = json!({"tool_calls": [{"id": "a", "function": {"name": "search_tools", "arguments": "{}"}}]});
    let requests = parse_requests(ProviderFormat::OpenaiChat, &Json::encode(&message)).unwrap();
    assert!(matches!(requests[..], [ModelRequest::Call(_)]));
}

/// OpenAI refuses a conversation whose calls lost their namespaces.
#[test]
fn a_call_keeps_its_namespace() {
    let item = json!([{"type": "function_call", "call_id": "c", "name": "crm_list_orders",
        "arguments": "{}", "namespace": "crm"}]);
    let calls = parse_calls(ProviderFormat::OpenaiResponses, &Json::encode(&item)).unwrap();
    assert_eq!(render_calls(ProviderFormat::OpenaiResponses, &calls).to_value(), item);
    let elsewhere = render_calls(ProviderFormat::Anthropic, &calls);
    assert!(!elsewhere.as_str().contains("namespace"), "{}", elsewhere.as_str());
}

#[test]
fn a_provider_without_the_search_is_named_with_what_to_use() {
    let check = |searcher: &str, format: ProviderFormat| {
        let searcher: Result<ToolSearcher, _> = searcher.parse();
        searcher.and_then(|it| it.check_format(format)).map_err(|error| error.to_string())
    };
    for searcher in ["provider", "toolkeep"] {
        assert_eq!(check(searcher, ProviderFormat::OpenaiResponses), Ok(()));
    }
    let cases = [
        (
            "toolkept",
            ProviderFormat::Anthropic,
            "unknown search `toolkept`; use provider, provider_regex or toolkeep",
        ),
        (
            "provider",
            ProviderFormat::Gemini,
            "gemini has no tool search; use openai_responses, openai_responses_strict or anthropic",
        ),
        (
            "provider_regex",
            ProviderFormat::OpenaiResponses,
            "openai_responses has no search by regular expressions; use `provider`",
        ),
    ];
    for (searcher, format, expected) in cases {
        assert_eq!(check(searcher, format).unwrap_err(), expected);
    }
}
