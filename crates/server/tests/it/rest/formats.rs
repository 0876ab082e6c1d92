//! Tests of `/v1/tools` and `/v1/calls` in every provider's format.

use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use formats::ProviderFormat;
use gateway::{ConcurrencyLimits, GatewayOptions};
use serde_json::{Value, json};
use testkit::executor::echo_executor;
use tokio::sync::Barrier;
use tool::{Offer, PermissionLevel};

use crate::support::client::message as asked;
use crate::support::executors::ConcurrencyProbe;
use crate::support::{Client, FixtureServer, ServerSetup, tools, within_a_minute};

/// Names of the tools in a list, in its order.
fn names(format: ProviderFormat, list: &Value) -> Vec<String> {
    let all = list["tools"].as_array().unwrap();
    let declarations = all.iter().flat_map(|tool| match format {
        ProviderFormat::Gemini | ProviderFormat::GeminiPerTool => {
            tool["functionDeclarations"].as_array().unwrap().clone()
        }
        ProviderFormat::OpenaiChat | ProviderFormat::OpenaiChatStrict | ProviderFormat::Ollama => {
            vec![tool["function"].clone()]
        }
        _ => vec![tool.clone()],
    });
    declarations.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// Ordinary tools, one whose schema no provider takes as it is, and one with an argument that is renamed.
fn offers() -> Vec<Offer> {
    let schema = json!({"type": "object", "required": ["filter[x]"], "properties": {
        "filter[x]": {"type": "string"}, "n": {"type": "integer", "minimum": 1}}});
    let mut offers = tools::standard_offers();
    offers.push(tools::tool_offer(
        testkit::read_only_tool("odd.names", "Odd names.", &schema),
        echo_executor(),
    ));
    let deep = (0..10).map(|level| {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        let all: serde_json::Map<_, _> = (0..10).map(|i| (format!("p{i}"), next.clone())).collect();
        (format!("d{level}"), json!({"type": "object", "properties": all}))
    });
    let mut defs: serde_json::Map<_, _> = deep.collect();
    defs.insert("d10".to_owned(), json!({"type": "string"}));
    let bomb =
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": defs});
    offers.push(tools::tool_offer(
        testkit::read_only_tool("bomb", "Too large in place.", &bomb),
        echo_executor(),
    ));
    offers
}

async fn ann() -> (FixtureServer, Client) {
    let server = FixtureServer::with_offers(offers()).await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    (server, ann)
}

#[tokio::test]
async fn every_format_has_its_list_and_the_way_back() {
    let (_server, ann) = ann().await;
    let native = ann.get("/v1/tools").await.expect_ok();
    let native: Vec<_> =
        native["tools"].as_array().unwrap().iter().map(|t| t["name"].clone()).collect();
    for format in ProviderFormat::ALL {
        let list = ann.get(&format!("/v1/tools?format={format}")).await.expect_ok();
        let shown = names(*format, &list);
        let left_out = list["left_out"].as_array().unwrap();
        assert_eq!(shown.len() + left_out.len(), native.len(), "{format}");
        let back: Vec<_> = shown.iter().map(|name| list["names"][name].clone()).collect();
        let kept: Vec<_> = native.iter().filter(|name| back.contains(name)).cloned().collect();
        assert_eq!(back, kept, "{format}: the catalog's order");
        assert_eq!(list["names"].as_object().unwrap().len(), shown.len(), "{format}");
    }
}

/// A schema that a format cannot express affects no other tool and is reported; other formats
/// contain it.
#[tokio::test]
async fn what_a_format_cannot_say_is_left_out_and_told() {
    let (_server, ann) = ann().await;
    for (format, there) in
        [("gemini", false), ("ollama", false), ("anthropic", true), ("mcp", true)]
    {
        let list = ann.get(&format!("/v1/tools?format={format}")).await.expect_ok();
        let names = list["names"].as_object().unwrap();
        assert_eq!(names.contains_key("bomb"), there, "{format}");
        assert!(names.values().any(|name| name == "notes.append"), "{format}");
        let left_out: Vec<_> =
            list["left_out"].as_array().unwrap().iter().map(|it| it["name"].clone()).collect();
        assert_eq!(left_out, if there { vec![] } else { vec![json!("bomb")] });
    }
    let (status, code, told) = ann.get("/v1/tools/bomb?format=gemini").await.error();
    assert_eq!((status, code.as_str()), (400, "invalid_request"));
    assert!(told.starts_with("`bomb` cannot be expressed as gemini: "), "{told}");
}

#[tokio::test]
async fn losses_are_told_where_they_are_asked_for() {
    let (_server, ann) = ann().await;
    let one = ann.get("/v1/tools/odd_names?format=ollama&losses=true").await.expect_ok();
    assert_eq!(one["tool"]["function"]["name"], "odd_names");
    let minimum = json!({"place": "/properties/n", "keyword": "minimum", "change": "told",
        "why": "Ollama's server drops this keyword"});
    assert_eq!(one["losses"], json!([minimum]));
    let list = ann.get("/v1/tools?format=ollama&losses=true").await.expect_ok();
    assert_eq!(list["losses"]["odd.names"], one["losses"]);
    let list = ann.get("/v1/tools?format=ollama").await.expect_ok();
    assert!(list.get("losses").is_none());
    let told = ann.get("/v1/tools/odd_names?format=ollama").await.expect_ok();
    assert_eq!(told["function"]["parameters"]["properties"]["n"]["description"], "minimum: 1");
}

#[tokio::test]
async fn allowed_tools_keep_their_order_and_none_named_is_all() {
    let (_server, ann) = ann().await;
    let all = names(ProviderFormat::Ollama, &ann.get("/v1/tools?format=ollama").await.expect_ok());
    for (allowed, expected) in [
        ("odd.names,notes_append,nobody", vec!["notes_append", "odd_names"]),
        // Requesting a hidden tool does not reveal it.
        ("needs.owner,notes.append", vec!["notes_append"]),
        ("needs.owner", vec![]),
    ] {
        let path = format!("/v1/tools?format=ollama&allowed_tools={allowed}");
        assert_eq!(
            names(ProviderFormat::Ollama, &ann.get(&path).await.expect_ok()),
            expected,
            "{allowed}"
        );
    }
    let empty = ann.get("/v1/tools?format=ollama&allowed_tools=").await.expect_ok();
    assert_eq!(names(ProviderFormat::Ollama, &empty), all);
    let native = ann.get("/v1/tools?allowed_tools=notes.append").await.expect_ok();
    assert_eq!(native["tools"].as_array().unwrap().len(), 1);
    let many = vec!["x"; 1_001].join(",");
    let (status, _, told) = ann.get(&format!("/v1/tools?allowed_tools={many}")).await.error();
    assert_eq!((status, told.as_str()), (400, "`allowed_tools` has more than 1000 names"));
}

#[tokio::test]
async fn a_list_that_is_still_the_same_is_not_sent_again() {
    let (server, ann) = ann().await;
    for path in [
        "/v1/tools?format=gemini",
        "/v1/tools",
        "/v1/tools/notes.append",
        "/v1/tools?format=mcp&limit=2",
    ] {
        let first = ann.get(path).await;
        let tag = first.header("etag").unwrap().to_owned();
        assert_eq!(first.header("cache-control"), Some("private, no-cache"), "{path}");
        assert!(!first.expect_ok().is_null());
        for known in [tag.clone(), format!("\"other\", W/{tag}"), "*".to_owned()] {
            let again = ann.with_header("if-none-match", &known).get(path).await;
            assert_eq!((again.status.as_u16(), again.text()), (304, ""), "{path} {known}");
            assert_eq!(again.header("etag"), Some(tag.as_str()));
        }
        let other = ann.with_header("if-none-match", "\"other\"").get(path).await;
        assert_eq!(other.status, 200, "{path}");
    }
    let tag = ann.get("/v1/tools?format=gemini").await.header("etag").unwrap().to_owned();
    server.replace_offers(tools::many_offers(2)).await;
    let changed =
        ann.with_header("if-none-match", &tag).get("/v1/tools?format=gemini").await.expect_ok();
    assert_eq!(names(ProviderFormat::Gemini, &changed), ["many_t00000", "many_t00001"]);
}

#[tokio::test]
async fn a_client_that_takes_gzip_gets_lists_packed_at_both_doors() {
    let (server, ann) = ann().await;
    server.replace_offers(tools::many_offers(300)).await;
    let packing = ann.with_header("accept-encoding", "gzip, deflate");
    for path in ["/v1/tools?format=gemini", "/v1/tools?format=mcp"] {
        let (plain, packed) = (ann.get(path).await, packing.get(path).await);
        assert_eq!(plain.header("content-encoding"), None, "{path}");
        assert_eq!(packed.header("content-encoding"), Some("gzip"), "{path}");
        assert!(packed.body.len() * 3 < plain.body.len());
        assert_eq!(unpacked(&packed.body), plain.body, "{path}");
        let (tag, other) = (packed.header("etag").unwrap(), plain.header("etag").unwrap());
        assert_ne!(tag, other, "other bytes have another tag");
        let again = packing.with_header("if-none-match", tag).get(path).await;
        assert_eq!((again.status.as_u16(), again.header("content-encoding")), (304, None));
    }
    let list = asked("tools/list", json!({}));
    let (plain, packed) = (ann.legacy_request(&list).await, packing.legacy_request(&list).await);
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    assert_eq!(unpacked(&packed.body), plain.body);
    // A small result stays unchanged.
    let small = packing.get("/v1/tools/many.t00001").await;
    assert_eq!((small.status.as_u16(), small.header("content-encoding")), (200, None));
}

fn unpacked(body: &[u8]) -> Vec<u8> {
    let mut unpacked = Vec::new();
    flate2::bufread::GzDecoder::new(body).read_to_end(&mut unpacked).unwrap();
    unpacked
}

/// Responses of every provider's model with two valid and two invalid calls, and the results that
/// it gets.
fn message(format: ProviderFormat) -> Value {
    let calls = [
        ("c1", "notes_append", json!({"n": 5})),
        ("c2", "says_error", json!({})),
        ("c3", "notes_append", json!({"n": 12})),
        ("c4", "needs_owner", json!({})),
    ];
    let each = |write: fn(&str, &str, &Value) -> Value| -> Value {
        calls.iter().map(|(id, name, args)| write(id, name, args)).collect()
    };
    match format {
        ProviderFormat::OpenaiChat | ProviderFormat::OpenaiChatStrict => {
            json!({"role": "assistant", "content": null, "tool_calls": each(|id, name, args| {
            json!({"id": id, "type": "function", "function": {"name": name, "arguments": args.to_string()}})})})
        }
        ProviderFormat::OpenaiResponses | ProviderFormat::OpenaiResponsesStrict => {
            json!({"id": "r", "output": each(|id, name, args| {
            json!({"type": "function_call", "id": "fc", "call_id": id, "name": name, "arguments": args.to_string()})})})
        }
        ProviderFormat::Anthropic => {
            json!({"role": "assistant", "stop_reason": "tool_use", "content": each(|id, name, args| {
            json!({"type": "tool_use", "id": id, "name": name, "input": args})})})
        }
        ProviderFormat::Gemini | ProviderFormat::GeminiPerTool => {
            json!({"candidates": [{"content": {"role": "model", "parts": each(|_, name, args| {
            json!({"functionCall": {"name": name, "args": args}, "thoughtSignature": "AA=="})})}}]})
        }
        ProviderFormat::Ollama => {
            json!({"message": {"role": "assistant", "tool_calls": each(|_, name, args| {
            json!({"function": {"name": name, "arguments": args}})})}})
        }
        ProviderFormat::Mcp => each(|_, name, args| json!({"name": name, "arguments": args})),
    }
}

#[tokio::test]
async fn every_call_of_a_message_is_answered_in_order() {
    let (server, ann) = ann().await;
    for format in ProviderFormat::ALL {
        let before = (server.recorded_intents().len(), server.recorded_refusals().len());
        let reply =
            ann.post(&format!("/v1/calls?format={format}"), &message(*format)).await.expect_ok();
        let done: Vec<_> = reply["calls"]
            .as_array()
            .unwrap()
            .iter()
            .map(|call| (call["tool"].clone(), call["status"].clone(), call["is_error"].clone()))
            .collect();
        let expected = [
            (json!("notes.append"), json!("succeeded"), json!(false)),
            (json!("says_error"), json!("failed"), json!(true)),
            (json!("notes.append"), json!("refused"), json!(true)),
            // Hidden is unknown, by its alias too.
            (json!("needs_owner"), json!("refused"), json!(true)),
        ];
        assert_eq!(done, expected, "{format}");
        let after = (server.recorded_intents().len(), server.recorded_refusals().len());
        assert_eq!(after, (before.0 + 2, before.1 + 2), "{format}: each call is on record");
        let text = reply["messages"].to_string();
        let mut rest = text.as_str();
        for told in [
            r"5",
            "no such note",
            "12 is greater than the maximum of 10; call it again",
            "unknown tool `needs_owner`",
        ] {
            let found = rest.split_once(told);
            rest = found.unwrap_or_else(|| panic!("{format}: {told}: {text}")).1;
        }
    }
}

#[tokio::test]
async fn an_argument_under_another_name_comes_to_the_tool_under_its_own() {
    let (_server, ann) = ann().await;
    let one = ann.get("/v1/tools/odd.names?format=anthropic&losses=true").await.expect_ok();
    let shown = one["tool"]["input_schema"]["required"][0].as_str().unwrap().to_owned();
    assert_ne!(shown, "filter[x]");
    let call = json!([{"type": "tool_use", "id": "t1", "name": "odd_names", "input": {shown: "open", "n": 2}}]);
    let reply = ann.post("/v1/calls?format=anthropic", &call).await.expect_ok();
    assert_eq!(reply["calls"][0]["status"], "succeeded", "{reply}");
    let content = reply["messages"][0]["content"][0]["content"].as_str().unwrap();
    assert_eq!(content, r#"{"filter[x]":"open","n":2}"#);
}

/// Optional arguments are required and nullable there; null does not reach the tool.
#[tokio::test]
async fn what_a_strict_schema_lets_be_null_is_left_out_again() {
    let (_server, ann) = ann().await;
    let tool = ann.get("/v1/tools/notes.append?format=openai_chat_strict").await.expect_ok();
    assert_eq!(tool["function"]["strict"], true);
    let schema = json!({"type": "object", "additionalProperties": false, "required": ["n"],
        "properties": {"n": {"type": ["integer", "null"], "maximum": 10}}});
    assert_eq!(tool["function"]["parameters"], schema);
    let call = json!([{"id": "a", "type": "function",
        "function": {"name": "notes_append", "arguments": "{\"n\":null}"}}]);
    let strict = ann.post("/v1/calls?format=openai_chat_strict", &call).await.expect_ok();
    assert_eq!(strict["messages"][0]["content"], "{}");
    // Models send it in the place of an optional argument in any format.
    let loose = ann.post("/v1/calls?format=openai_chat", &call).await.expect_ok();
    assert_eq!(loose["messages"][0]["content"], "{}");
    // Positive control: other invalid arguments are reported.
    let wrong = json!([{"id": "a", "type": "function",
        "function": {"name": "notes_append", "arguments": "{\"n\":11}"}}]);
    let wrong = ann.post("/v1/calls?format=openai_chat", &wrong).await.expect_ok();
    assert_eq!(wrong["calls"][0]["code"], "invalid_arguments");
}

#[tokio::test]
async fn arguments_that_are_no_json_are_answered_and_the_others_run() {
    let (server, ann) = ann().await;
    let call = |id: &str, arguments: &str| {
        json!({"id": id, "type": "function",
        "function": {"name": "notes_append", "arguments": arguments}})
    };
    let calls = json!([call("a", "{'n': None}"), call("b", "{\"n\":1}"), call("c", "[1]")]);
    let reply = ann.post("/v1/calls?format=openai", &calls).await.expect_ok();
    let messages = reply["messages"].as_array().unwrap();
    let ids: Vec<_> = messages.iter().map(|message| message["tool_call_id"].clone()).collect();
    assert_eq!(ids, ["a", "b", "c"]);
    let text = |at: usize| messages[at]["content"].as_str().unwrap();
    assert!(
        text(0).starts_with("Error: the arguments: key must be a string at line 1 column 2"),
        "{}",
        text(0)
    );
    assert!(
        text(0).ends_with("call it again with arguments that fit its schema, as one JSON object")
    );
    assert_eq!(text(1), r#"{"n":1}"#);
    assert!(text(2).contains("expected object, found array"), "{}", text(2));
    assert_eq!((server.recorded_intents().len(), server.recorded_refusals().len()), (1, 2));
}

#[tokio::test]
async fn a_message_that_cannot_be_read_runs_nothing() {
    let (server, ann) = ann().await;
    for (format, body, told) in [
        (
            "anthropic",
            json!({"content": [{"type": "tool_use", "id": 7}]}),
            "the body, as anthropic: `content[0].id` is number; expected a string",
        ),
        (
            "ollama",
            json!("hi"),
            "the body, as ollama: `message` is string; expected an object or an array",
        ),
        (
            "gemini",
            json!({"parts": {}}),
            "the body, as gemini: `parts` is object; expected an array",
        ),
        (
            "llama",
            json!({}),
            "unknown format `llama`; use one of openai_chat (also openai), openai_chat_strict, openai_responses, openai_responses_strict, anthropic, gemini, gemini_per_tool, ollama, mcp",
        ),
    ] {
        let reply = ann.post(&format!("/v1/calls?format={format}"), &body).await;
        assert_eq!(reply.error(), (400, "invalid_request".to_owned(), told.to_owned()));
    }
    let none =
        ann.post("/v1/calls?format=openai", &json!({"role": "assistant", "content": "hi"})).await;
    assert_eq!(none.expect_ok(), json!({"messages": [], "calls": []}));
    assert!(server.recorded_intents().is_empty());
}

/// A message that calls these tools, each with its number.
fn asks_for(tools: &[&str]) -> Value {
    let call = |(n, tool): (usize, &&str)| {
        let args = json!({"n": n}).to_string();
        json!({"id": format!("c{n}"), "type": "function", "function": {"name": tool, "arguments": args}})
    };
    tools.iter().enumerate().map(call).collect()
}

fn answers(reply: &Value) -> Vec<String> {
    let messages = reply["messages"].as_array().unwrap();
    messages.iter().map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

/// A tool with an integer, whose calls the crowd sees; what it does is known or not.
fn counted(name: &str, reads: bool, crowd: &Arc<ConcurrencyProbe>) -> Offer {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let mut tool = testkit::read_only_tool(name, "Counts.", &schema);
    if !reads {
        tool.traits.effects = tool::SideEffects::Unknown;
    }
    tools::tool_offer(tool, Arc::clone(crowd) as Arc<dyn tool::Executor>)
}

#[tokio::test]
async fn calls_that_change_nothing_run_beside_each_other_and_others_in_their_turn() {
    let meets = Arc::new(ConcurrencyProbe {
        barrier: Some(Barrier::new(3)),
        ..ConcurrencyProbe::default()
    });
    let writes = Arc::new(ConcurrencyProbe::default());
    let server = FixtureServer::with_offers(vec![
        counted("meets", true, &meets),
        counted("writes", false, &writes),
    ])
    .await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    // None of the three ends before all have started; the two with side effects are between them.
    let message =
        asks_for(&["meets", "meets", "meets", "writes", "writes", "meets", "meets", "meets"]);
    let reply = within_a_minute(ann.post("/v1/calls?format=openai", &message)).await.expect_ok();
    let expected: Vec<_> = (0..8).map(|n| format!("{{\"n\":{n}}}")).collect();
    assert_eq!(answers(&reply), expected, "answers stand in the calls' order");
    assert_eq!(meets.max_running.load(SeqCst), 3);
    assert_eq!(writes.max_running.load(SeqCst), 1);
    assert_eq!(*writes.seen_arguments.lock().unwrap(), expected[3..5]);
    assert_eq!(server.recorded_intents().len(), 8, "each call is on record");
}

#[tokio::test]
async fn no_message_runs_more_than_eight_at_once_and_a_narrow_key_has_them_one_by_one() {
    let crowd = Arc::new(ConcurrencyProbe::default());
    let setup = |per_key| ServerSetup {
        offers: vec![counted("reads", true, &crowd)],
        options: GatewayOptions {
            concurrency: ConcurrencyLimits { per_key, ..ConcurrencyLimits::default() },
            ..GatewayOptions::default()
        },
        ..ServerSetup::default()
    };
    for (per_key, most) in [(1_024, 8), (1, 1)] {
        let server = FixtureServer::with_setup(setup(per_key)).await;
        let ann = server.agent_client("ann", PermissionLevel::User).await;
        crowd.max_running.store(0, SeqCst);
        let reply =
            ann.post("/v1/calls?format=openai", &asks_for(&["reads"; 20])).await.expect_ok();
        let expected: Vec<_> = (0..20).map(|n| format!("{{\"n\":{n}}}")).collect();
        assert_eq!(answers(&reply), expected);
        assert_eq!(crowd.max_running.load(SeqCst), most);
    }
}

/// The alias of a visible tool must not reveal another tool that it depends on.
#[tokio::test]
async fn an_alias_does_not_depend_on_what_its_caller_may_not_see() {
    let offer = |name: &str, level| {
        tools::tool_offer(tools::tool_with(name, |t| t.traits.min_level = level), echo_executor())
    };
    let server = FixtureServer::with_offers(vec![
        offer("a.b", PermissionLevel::User),
        offer("a_b", PermissionLevel::Owner),
    ])
    .await;
    let (ann, owner) =
        (server.agent_client("ann", PermissionLevel::User).await, server.owner_client().await);
    let names = async |client: &Client| {
        client.get("/v1/tools?format=openai").await.expect_ok()["names"].clone()
    };
    assert_eq!(names(&ann).await, json!({"a_b": "a.b"}));
    let one = ann.get("/v1/tools/a.b?format=openai").await.expect_ok();
    assert_eq!(one["function"]["name"], "a_b");
    let called = |reply: Value| reply["calls"][0]["tool"].clone();
    let call = asks_for(&["a_b"]);
    assert_eq!(called(ann.post("/v1/calls?format=openai", &call).await.expect_ok()), "a.b");
    // Positive control: a caller who sees both has two names, and the plain one is the other
    // tool's.
    let both = names(&owner).await;
    assert_eq!((both.as_object().unwrap().len(), &both["a_b"]), (2, &json!("a_b")));
    assert_eq!(called(owner.post("/v1/calls?format=openai", &call).await.expect_ok()), "a_b");
}
