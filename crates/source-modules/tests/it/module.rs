//! HTTP modules that behave well or badly.

mod events;
mod kept;

use std::sync::Arc;
use std::time::Duration;

use egress::{EgressClient, EgressOptions, TrustStore};
use serde_json::{Value, json};
use source_layers::ToolSelection;
use source_modules::{HttpModuleOptions, HttpModuleSource};
use tool::executor::DispatchState;
use tool::source::SourceErrorKind;
use tool::{
    ErrorCode, ExecuteError, Executor, Outcome, PermissionLevel, Secret, Source as _, SourceError,
    SourceListing, SourceName, Tool,
};

use testkit::executor_run::{
    CancelSwitch, find_offer, outcome_json, run_call, run_cancellable, tool_names,
};
use testkit::http_server::{MockResponse, MockServer};

fn egress() -> EgressClient {
    let roots = TrustStore { uses_system_roots: false, ..TrustStore::default() };
    EgressClient::new(EgressOptions { trust_store: roots, ..EgressOptions::default() }).unwrap()
}

fn options(server: &MockServer) -> HttpModuleOptions {
    HttpModuleOptions::new(SourceName::new("notes").unwrap(), server.url())
}

fn module(options: HttpModuleOptions) -> HttpModuleSource {
    HttpModuleSource::new(options, egress()).unwrap()
}

fn manifest(tools: &Value) -> MockResponse {
    MockResponse::from_json(
        &json!({ "module_name": "notes", "description": "Notes.", "tools": tools }),
    )
}

fn append() -> Value {
    json!({
        "name": "notes.append",
        "description": "Appends a line.",
        "parameters": [{ "name": "text", "type": "string", "description": "The line." }],
        "required_permission": "user",
    })
}

async fn list(tools: &Value) -> SourceListing {
    let server = MockServer::start_server(vec![manifest(tools)]).await;
    module(options(&server)).list_offers().await.unwrap()
}

fn told(listing: &SourceListing) -> Vec<String> {
    let told = |problem: &tool::Problem| {
        let (_, place) = problem.location.split_once("/manifest").unwrap();
        format!("{}| {}", place.trim_start(), problem.message)
    };
    listing.problems.iter().map(told).collect()
}

/// A module of one tool that gives `answer` to its call.
async fn ready(
    answer: MockResponse,
    change: impl FnOnce(&mut HttpModuleOptions),
) -> (MockServer, Arc<Tool>, Arc<dyn Executor>) {
    let server = MockServer::start_server(vec![manifest(&json!([append()])), answer]).await;
    let mut options = options(&server);
    change(&mut options);
    let listing = module(options).list_offers().await.unwrap();
    let (tool, executor) = find_offer(&listing, "notes.append");
    (server, tool, executor)
}

async fn call(answer: MockResponse) -> Result<Outcome, ExecuteError> {
    let (_server, tool, executor) = ready(answer, |_| {}).await;
    run_call(&tool, executor.as_ref(), r#"{"text":"hi"}"#).await
}

#[tokio::test]
async fn a_manifest_becomes_tools() {
    let listing = list(&json!([append()])).await;
    assert_eq!((tool_names(&listing), told(&listing)), (vec!["notes.append".to_owned()], vec![]));
    let (tool, _) = find_offer(&listing, "notes.append");
    assert_eq!(tool.input_schema.to_value()["required"], json!(["text"]));
    assert_eq!(tool.raw_definition.to_value(), append());
    let traits = &tool.traits;
    assert!(
        traits.min_level == PermissionLevel::User
            && traits.effects.may_change_state()
            && !traits.is_idempotent
    );
}

#[tokio::test]
async fn the_operators_word_makes_traits() {
    let (_server, tool, _) = ready(MockResponse::Hang, |options| {
        (options.read_only, options.is_slow) = (ToolSelection::All, true);
    })
    .await;
    assert!(!tool.traits.effects.may_change_state() && tool.traits.is_idempotent);
    // The module's own limit ends the call first.
    assert!(tool.traits.timeout.unwrap() > Duration::from_mins(2));
}

#[tokio::test]
async fn the_token_goes_with_both_requests_and_is_never_shown() {
    let result =
        json!({ "tool_name": "notes.append", "success": true, "result": 1, "error": null });
    let (server, tool, executor) = ready(MockResponse::from_json(&result), |options| {
        options.bearer_token = Some(Secret::new("hunter2"));
    })
    .await;
    assert!(!format!("{executor:?}").contains("hunter2"));
    run_call(&tool, executor.as_ref(), "{}").await.unwrap();
    let seen = server.received_requests();
    assert_eq!(seen.len(), 2);
    for request in &seen {
        assert!(request.headers.contains(&"authorization: bearer hunter2".to_owned()));
    }
    assert_eq!(seen[0].request_line, "get /manifest http/1.1");
    assert_eq!(seen[1].request_line, "post /execute http/1.1");
}

#[tokio::test]
async fn a_call_carries_the_bytes_of_its_arguments_and_the_callers_name() {
    let result = json!({ "tool_name": "notes.append", "success": true, "result": { "line": 3 } });
    let (server, tool, executor) = ready(MockResponse::from_json(&result), |_| {}).await;
    let outcome =
        run_call(&tool, executor.as_ref(), r#"{ "text": "hi", "n": 12345678901234567890123 }"#)
            .await;
    assert_eq!(outcome_json(&outcome.unwrap()), json!({ "line": 3 }));
    let seen = server.received_requests();
    assert_eq!(
        seen[1].body,
        r#"{"tool_name":"notes.append","arguments":{ "text": "hi", "n": 12345678901234567890123 },"user_id":"alice"}"#
    );
    assert!(!seen[1].headers.iter().any(|header| header.starts_with("authorization")));
}

/// Some modules take `user_id` from the arguments first. Positive control: sent as they came, the
/// model would act as Bob.
#[tokio::test]
async fn nobody_can_call_as_somebody_else() {
    let result = json!({ "tool_name": "notes.append", "success": true });
    for arguments in [
        r#"{"user_id":"bob","text":"hi"}"#,
        r#"{"user\u005fid":"bob","text":"hi"}"#,
        r#"{"user_id":{"$ne":null},"text":"hi"}"#,
    ] {
        let (server, tool, executor) = ready(MockResponse::from_json(&result), |_| {}).await;
        run_call(&tool, executor.as_ref(), arguments).await.unwrap();
        let body: Value = serde_json::from_str(&server.received_requests()[1].body).unwrap();
        assert_eq!(body["arguments"], json!({ "user_id": "alice", "text": "hi" }));
        assert_eq!(body["user_id"], "alice");
        let naive: Value = serde_json::from_str(arguments).unwrap();
        assert_ne!(naive["user_id"], "alice");
    }
}

/// Decoders of Go, .NET and Java match names without regard to case, and there the last one counts.
/// Positive control: sent as they came, the model would act as Bob at such a module.
#[tokio::test]
async fn nobody_can_call_as_somebody_else_by_another_spelling() {
    let result = json!({ "tool_name": "notes.append", "success": true });
    let user = |arguments: &Value| {
        let fold = |name: &str| name.to_uppercase().to_lowercase();
        let mut found = arguments.as_object().unwrap().iter();
        found.rfind(|(name, _)| fold(name) == "user_id").map(|(_, value)| value.clone())
    };
    for arguments in [
        r#"{"user_id":"alice","USER_ID":"bob","text":"hi"}"#,
        r#"{"text":"hi","user_id":"alice","user_ıd":"bob"}"#,
        r#"{"User_Id":"bob","text":"hi"}"#,
        r#"{"text":"hi","u\u017fer_id":"bob"}"#,
        r#"{"text":"hi","uſer_Id":{"$ne":null},"USER_ID":"bob","user_id":"bob"}"#,
    ] {
        let (server, tool, executor) = ready(MockResponse::from_json(&result), |_| {}).await;
        run_call(&tool, executor.as_ref(), arguments).await.unwrap();
        let body: Value = serde_json::from_str(&server.received_requests()[1].body).unwrap();
        assert_eq!(user(&body["arguments"]).unwrap(), "alice", "{arguments}");
        assert_eq!(body["arguments"]["text"], "hi");
        let naive: Value = serde_json::from_str(arguments).unwrap();
        assert_eq!(user(&naive).unwrap(), "bob");
    }
}

#[tokio::test]
async fn a_foreign_prefix_is_dropped_and_the_others_stay() {
    let named = |name: &str| {
        let mut tool = append();
        tool["name"] = json!(name);
        tool
    };
    let listing = list(&json!([
        named("code_executor.run_shell"),
        named("notes"),
        named("notes."),
        named("notesx.append"),
        named("append"),
        named("notes.sub.append"),
        named("notes.a b"),
        append(),
        append(),
    ]))
    .await;
    assert_eq!(tool_names(&listing), ["notes.sub.append", "notes.append"]);
    let outside = |name: &str| {
        format!(
            "{name}| the tool's name does not begin with `notes.`, so the tool is \
            omitted"
        )
    };
    assert_eq!(
        told(&listing),
        [
            outside("code_executor.run_shell"),
            outside("notes"),
            "notes.| the tool has no name after `notes.`".to_owned(),
            outside("notesx.append"),
            outside("append"),
            "notes.a b| the name `notes.a b` contains ' '; allowed are letters, digits, `_`, `.` \
             and `-`"
                .to_owned(),
            "notes.append| the manifest lists this tool twice; the first one is used".to_owned(),
        ]
    );
}

/// The configured name counts, not what the module calls itself.
#[tokio::test]
async fn a_module_cannot_take_another_name() {
    let tool = json!({ "name": "files.read", "description": "", "parameters": [] });
    let body = json!({ "module_name": "files", "description": "", "tools": [tool, append()] });
    let server = MockServer::start_server(vec![MockResponse::from_json(&body)]).await;
    let listing = module(options(&server)).list_offers().await.unwrap();
    assert_eq!(tool_names(&listing), ["notes.append"]);
    assert_eq!(
        told(&listing),
        [
            "| the manifest's `module_name` is `files`; expected `notes`",
            "files.read| the tool's name does not begin with `notes.`, so the tool is omitted",
        ]
    );
}

/// Positive control: read as the default, `gest` would open the tool to guests.
#[tokio::test]
async fn an_unknown_permission_drops_the_tool() {
    let with = |permission: Value| {
        let mut tool = append();
        tool["required_permission"] = permission;
        json!([tool])
    };
    let listing = list(&with(json!("gest"))).await;
    assert!(listing.offers.is_empty());
    assert_eq!(
        told(&listing),
        ["notes.append| unknown permission level `gest`; use one of guest, user, admin, owner; \
             the tool is omitted"]
    );
    assert!(list(&with(Value::Null)).await.offers.is_empty());
    let mut unsaid = append();
    unsaid.as_object_mut().unwrap().remove("required_permission");
    let (tool, _) = find_offer(&list(&json!([unsaid])).await, "notes.append");
    assert_eq!(tool.traits.min_level, PermissionLevel::Guest);
}

#[tokio::test]
async fn broken_tools_of_a_manifest_are_told() {
    let listing = list(&json!([
        5,
        { "name": "notes.a" },
        { "name": "notes.b", "description": "" },
        { "name": "notes.c", "description": "", "parameters": [{ "name": "x" }] },
        append(),
    ]))
    .await;
    assert_eq!(tool_names(&listing), ["notes.append"]);
    assert_eq!(
        told(&listing),
        [
            "| a tool has no string `name`",
            "notes.a| the tool has no string `description`",
            "notes.b| the tool has no `parameters`",
            "notes.c| `parameters[0].type` is missing; expected a string",
        ]
    );
}

#[tokio::test]
async fn a_manifest_is_bounded() {
    let tool =
        |n: usize| json!({ "name": format!("notes.t{n}"), "description": "", "parameters": [] });
    let listing = list(&(0..1_001).map(tool).collect()).await;
    assert_eq!(listing.offers.len(), 1_000);
    assert_eq!(told(&listing), ["| 1001 tools; only the first 1000 are read"]);
    let foreign = |n: usize| json!({ "name": format!("x.t{n}") });
    assert_eq!(list(&(0..1_000).map(foreign).collect()).await.problems.len(), 100);
    let mut huge = append();
    huge["description"] = json!("x".repeat(300_000));
    assert!(told(&list(&json!([huge])).await)[0].contains("the definition is too large"));
}

async fn fault(answer: MockResponse) -> SourceError {
    let server = MockServer::start_server(vec![answer]).await;
    module(options(&server)).list_offers().await.unwrap_err()
}

#[tokio::test]
async fn a_manifest_that_cannot_be_had_is_an_error() {
    let error =
        fault(MockResponse::Body(401, r#"{"detail":"Missing service auth token"}"#.into())).await;
    assert_eq!(error.kind, SourceErrorKind::ErrorReply);
    assert_eq!(
        error.problem.message,
        r#"Module returned status 401: {"detail":"Missing service auth token"}"#
    );
    for (body, message) in [
        ("<html>", "cannot parse the manifest: expected value at line 1 column 1"),
        ("[]", "cannot parse the manifest: expected object, found array"),
        (r#"{"module_name":"notes"}"#, "the manifest has no list `tools`"),
        (
            r#"{"tools":[],"tools":[]}"#,
            "cannot parse the manifest: key `tools` occurs twice at line 1 column 19",
        ),
    ] {
        let error = fault(MockResponse::Body(200, body.into())).await;
        assert_eq!(error.kind, SourceErrorKind::MalformedReply);
        assert_eq!(error.problem.message, message);
    }
    assert_eq!(fault(MockResponse::Disconnect).await.kind, SourceErrorKind::MalformedReply);
    let endless = fault(MockResponse::Endless).await;
    assert_eq!(endless.problem.message, "the response is larger than 10485760 bytes");
    let gone = MockServer::start_server(vec![MockResponse::Hang]).await.url();
    let options = HttpModuleOptions::new(SourceName::new("notes").unwrap(), gone);
    let error = module(options).list_offers().await.unwrap_err();
    assert_eq!(error.kind, SourceErrorKind::Unreachable, "{error}");
}

#[tokio::test]
async fn revisions_tell_manifests_apart() {
    let other = json!([append(), { "name": "notes.x", "description": "", "parameters": [] }]);
    let answers =
        vec![manifest(&json!([append()])), manifest(&json!([append()])), manifest(&other)];
    let server = MockServer::start_server(answers).await;
    let module = module(options(&server));
    let mut revisions = Vec::new();
    for _ in 0..3 {
        revisions.push(module.list_offers().await.unwrap().revision);
    }
    assert!(revisions[0] == revisions[1] && revisions[1] < revisions[2], "{revisions:?}");
    module.shut_down().await;
}

#[tokio::test]
async fn a_tools_own_failure_is_an_answer() {
    let failed = |error: Value| {
        MockResponse::from_json(
            &json!({ "tool_name": "notes.append", "success": false, "error": error }),
        )
    };
    let outcome = call(failed(json!("Module not ready"))).await.unwrap();
    assert!(outcome.is_error);
    assert_eq!(outcome_json(&outcome), "Module not ready");
    let outcome = call(failed(Value::Null)).await.unwrap();
    assert_eq!(outcome_json(&outcome), "the module reported a failure without an error message");
    let success = json!({ "tool_name": "notes.append", "success": true });
    assert_eq!(outcome_json(&call(MockResponse::from_json(&success)).await.unwrap()), Value::Null);
}

#[tokio::test]
async fn another_status_has_the_module_api_text() {
    let error = call(MockResponse::Body(500, "Internal Server Error".into())).await.unwrap_err();
    assert_eq!(error.message, "Module returned status 500: Internal Server Error");
    assert_eq!((error.code, error.dispatch), (ErrorCode::UpstreamFailed, DispatchState::MaybeSent));
    let error = call(MockResponse::Body(502, "é".repeat(5_000))).await.unwrap_err();
    assert!(error.message.len() < 2_100 && error.message.ends_with('…'), "{}", error.message.len());
    // A redirect is an answer, not a way.
    let error = call(MockResponse::Body(302, String::new())).await.unwrap_err();
    assert_eq!(error.message, "Module returned status 302: ");
}

#[tokio::test]
async fn a_module_that_sends_a_call_to_another_one_is_not_followed() {
    let other = MockServer::start_server(vec![MockResponse::from_json(
        &json!({ "success": true, "result": "other" }),
    )])
    .await;
    let to = format!("{}/execute", other.url());
    for status in [301, 302, 307, 308] {
        let error = call(MockResponse::Redirect(status, to.clone())).await.unwrap_err();
        assert!(error.message.starts_with("Module returned status 30"), "{}", error.message);
        assert_eq!(other.received_requests().len(), 0, "the other module got the call");
    }
    // The control: asked itself, the other one answers, and is seen to.
    let own = module(options(&other)).list_offers().await;
    drop(own);
    assert_eq!(other.received_requests().len(), 1);
}

/// What a call is of is what was asked for: the answer has no say in it.
#[tokio::test]
async fn an_answer_that_names_another_tool_is_the_answer_to_what_was_asked() {
    let answer = json!({
        "tool_name": "files.wipe", "success": true, "result": "done", "error": null,
    });
    let (_server, tool, executor) = ready(MockResponse::from_json(&answer), |_| {}).await;
    let outcome = run_call(&tool, executor.as_ref(), r#"{"text":"hi"}"#).await.unwrap();
    assert_eq!(outcome_json(&outcome), json!("done"), "nothing of the name is in it");
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_is_an_error() {
    for (body, message) in [
        ("no JSON", "Tool execution error: cannot parse the module's response: "),
        (
            "[]",
            "Tool execution error: cannot parse the module's response: expected object, found \
             array",
        ),
        ("{}", "Tool execution error: the module's response has no `success`"),
        (
            r#"{"success":"perhaps"}"#,
            "Tool execution error: `success` in the module's response is string; expected true or \
             false",
        ),
    ] {
        let error = call(MockResponse::Body(200, body.into())).await.unwrap_err();
        assert!(error.message.starts_with(message), "{error}");
        assert_eq!(
            (error.code, error.dispatch),
            (ErrorCode::UpstreamFailed, DispatchState::MaybeSent)
        );
    }
    let error = call(MockResponse::Endless).await.unwrap_err();
    assert_eq!(error.message, "Tool execution error: the response is larger than 10485760 bytes");
    assert_eq!(error.code, ErrorCode::TooLarge);
}

#[tokio::test]
async fn a_module_that_dies_during_a_call_is_told_from_one_that_is_away() {
    for answer in [MockResponse::Disconnect, MockResponse::Truncate] {
        let error = call(answer).await.unwrap_err();
        assert!(error.message.starts_with("Tool execution error: "), "{error}");
        assert!(!error.message.contains("127.0.0.1"), "{error}");
        assert_eq!(error.dispatch, DispatchState::MaybeSent);
    }
    let (server, tool, executor) = ready(MockResponse::Hang, |_| {}).await;
    drop(server);
    // The kept connection is gone too, once its end has been seen.
    let error = loop {
        let error = run_call(&tool, executor.as_ref(), "{}").await.unwrap_err();
        if error.dispatch == DispatchState::NotSent {
            break error;
        }
    };
    assert_eq!(error.message, "Tool execution error: Connection refused");
    assert_eq!(error.code, ErrorCode::UpstreamLost);
}

#[tokio::test]
async fn a_module_that_hangs_is_given_up() {
    let limit = Duration::from_millis(200);
    let (_server, tool, executor) =
        ready(MockResponse::Hang, |options| options.timeout = Some(limit)).await;
    let error = run_call(&tool, executor.as_ref(), "{}").await.unwrap_err();
    assert_eq!(error.message, "Tool execution timed out (0s).");
    assert_eq!((error.code, error.dispatch), (ErrorCode::Timeout, DispatchState::MaybeSent));
}

#[tokio::test]
async fn a_call_that_is_given_up_ends_at_once() {
    let (server, tool, executor) = ready(MockResponse::Hang, |_| {}).await;
    let cancel = CancelSwitch::default();
    let arrives = async {
        while server.received_requests().len() < 2 {
            tokio::task::yield_now().await;
        }
        cancel.cancel_call();
    };
    let (outcome, ()) =
        tokio::join!(run_cancellable(&tool, executor.as_ref(), "{}", &cancel), arrives);
    assert_eq!(outcome.unwrap_err().code, ErrorCode::Cancelled);
}

#[test]
fn limits_are_those_of_the_module_api() {
    let mut options =
        HttpModuleOptions::new(SourceName::new("notes").unwrap(), "http://notes:8000");
    assert_eq!(options.call_timeout(), Duration::from_secs(30));
    options.is_slow = true;
    assert_eq!(options.call_timeout(), Duration::from_mins(2));
    options.timeout = Some(Duration::from_secs(7));
    assert_eq!(options.call_timeout(), Duration::from_secs(7));
}

#[test]
fn a_url_that_cannot_be_used_is_told_at_once() {
    let told = |url: &str| {
        let options = HttpModuleOptions::new(SourceName::new("notes").unwrap(), url);
        HttpModuleSource::new(options, egress()).unwrap_err().to_string()
    };
    assert!(told("ftp://notes").contains("ftp"), "{}", told("ftp://notes"));
    assert!(told("http://user:pw@notes").contains("blocked"));
    assert!(told("http://notes/?x=1").contains("has a query or fragment"));
    assert!(!told("http://user:pw@notes").contains("pw"));
}

#[tokio::test]
async fn how_a_module_is_stands_behind_its_health_route_without_a_token() {
    let probe = async |answer: MockResponse| {
        let server = MockServer::start_server(vec![answer]).await;
        let mut options = options(&server);
        options.bearer_token = Some(Secret::new("hunter2"));
        let probe = module(options).probe_health().await.unwrap();
        assert_eq!(probe.url, server.url());
        let seen = server.received_requests();
        assert_eq!(seen[0].request_line, "get /health http/1.1");
        assert!(!seen[0].headers.iter().any(|header| header.contains("hunter2")));
        probe.health.to_string()
    };
    assert_eq!(probe(MockResponse::Body(200, r#"{"status":"ok"}"#.into())).await, "healthy");
    assert_eq!(probe(MockResponse::Body(503, String::new())).await, "unhealthy (503)");
    assert_eq!(probe(MockResponse::Disconnect).await, "unreachable");
}
