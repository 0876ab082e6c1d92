//! Tests of server requests to the client, in each pair of eras.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use source_mcp::McpOptions;
use tokio::time::{sleep, timeout};
use tool::executor::DispatchState;
use tool::{Caller, ErrorCode, Source as _};

use super::peer::{Peer, Talk, definition, text};
use super::runs::{
    Client, Setup, declares, done, json as checked, questions, resume, runner, said,
};

const SOON: Duration = Duration::from_secs(10);
const ELICIT: &str = r#"{"elicitation":{"form":{}}}"#;

/// Handshake-era server whose tool sends a request to the client and returns the answer.
fn asking() -> Peer {
    Peer::new(|mut talk| async move {
        talk.handshake(json!({"tools": {}})).await;
        while let Some(request) = talk.hear().await {
            match request["method"].as_str() {
                Some("tools/list") => {
                    let tools = json!({"tools": [definition("tool"), definition("other")]});
                    talk.answer(&request, tools).await;
                }
                Some("tools/call") => {
                    let id = format!("q{}", request["id"]);
                    let params = json!({"message": "sure?", "call": request["id"]});
                    let method = "elicitation/create";
                    talk.say(
                        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}),
                    )
                    .await;
                }
                None => {
                    let id = request["id"].as_str().unwrap().trim_start_matches('q');
                    let call = json!({"id": id.parse::<i64>().unwrap()});
                    let heard = request.get("result").unwrap_or(&request["error"]);
                    talk.answer(&call, text(&heard.to_string())).await;
                }
                Some(_) => {}
            }
        }
        String::new()
    })
}

/// Server of 2026-07-28 with `behave` for its calls.
fn stateless(behave: fn(&Value) -> Value) -> Peer {
    Peer::new(move |talk| serve(talk, behave))
}

async fn serve(mut talk: Talk, behave: fn(&Value) -> Value) -> String {
    while let Some(request) = talk.hear().await {
        match request["method"].as_str() {
            Some("server/discover") => {
                let result = json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
                    "capabilities": {"tools": {}, "prompts": {}}, "ttlMs": 0, "cacheScope": "private"});
                talk.answer(&request, result).await;
            }
            Some("tools/list") => {
                let list = json!({"resultType": "complete", "tools": [definition("tool")], "ttlMs": 0, "cacheScope": "private"});
                talk.answer(&request, list).await;
            }
            Some("prompts/list") => talk.answer(&request, json!({"prompts": []})).await,
            Some("tools/call" | "prompts/get") => {
                talk.answer(&request, behave(&request["params"])).await;
            }
            Some(_) if request.get("id").is_some() => {
                talk.refuse(&request, -32601, "Method not found").await;
            }
            _ => {}
        }
    }
    String::new()
}

/// Requires input twice, then returns the answers.
fn twice(params: &Value) -> Value {
    let ask = |key: &str, state: &str| {
        json!({"resultType": "input_required", "requestState": state, "inputRequests": {
            key: {"method": "elicitation/create", "params": {"message": key, "mode": "form"}}}})
    };
    match params["requestState"].as_str() {
        None => ask("one", "é1"),
        Some("é1") => ask("two", "2"),
        Some(_) => text(&params["inputResponses"].to_string()),
    }
}

#[tokio::test]
async fn older_client_and_older_server() {
    let source = asking().source("s", McpOptions::default());
    let tool = runner(&source, "s.tool").await;
    for (refuses, heard) in [
        (false, json!({"action": "accept", "content": {"n": 100.0}})),
        (true, json!({"code": -1, "message": "the user said no"})),
    ] {
        let client = Client { refuses, ..Client::default() };
        let setup = Setup { ask: Some(&client), ..Setup::default() };
        let step = timeout(SOON, tool.step("{}", setup)).await.unwrap().unwrap();
        assert_eq!(serde_json::from_str::<Value>(&said(&done(step))).unwrap(), heard);
        let asked = client.asked.lock().unwrap().clone();
        assert_eq!((asked.len(), &*asked[0].0), (1, "elicitation/create"));
        assert_eq!(asked[0].1["message"], "sure?");
    }
    source.shut_down().await;
}

#[tokio::test]
async fn older_client_and_stateless_server() {
    let peer = stateless(twice);
    let source = peer.source("s", McpOptions::default());
    let tool = runner(&source, "s.tool").await;
    let (client, can) = (Client::default(), declares(ELICIT));
    let setup = Setup { ask: Some(&client), client: Some(&can), ..Setup::default() };
    let step = timeout(SOON, tool.step(r#"{"a": 1.50}"#, setup)).await.unwrap().unwrap();
    assert_eq!(said(&done(step)), r#"{"two":{"action":"accept","content":{"n":100.0}}}"#);
    let asked = client.asked.lock().unwrap().clone();
    assert_eq!(asked.iter().map(|(_, p)| p["message"].clone()).collect::<Vec<_>>(), ["one", "two"]);
    let call = peer.hears(|m| m["method"] == "tools/call").await;
    let meta = &call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(meta, &json!({"elicitation": {"form": {}}}));

    // A person who refuses to be asked has cancelled, in MCP's terms.
    let client = Client { refuses: true, ..Client::default() };
    let setup = Setup { ask: Some(&client), client: Some(&can), ..Setup::default() };
    let step = timeout(SOON, tool.step("{}", setup)).await.unwrap().unwrap();
    assert_eq!(said(&done(step)), r#"{"two":{"action":"cancel"}}"#);
    source.shut_down().await;
}

#[tokio::test]
async fn stateless_client_and_stateless_server() {
    let source = stateless(twice).source("s", McpOptions::default());
    let can = declares(ELICIT);
    for name in ["s.tool", "mcp.prompts.get"] {
        let tool = runner(&source, name).await;
        let setup = Setup { client: Some(&can), ..Setup::default() };
        let first = timeout(SOON, tool.step("{}", setup)).await.unwrap().unwrap();
        assert_eq!(
            questions(&first),
            r#"{"one":{"method":"elicitation/create","params":{"message":"one","mode":"form"}}}"#
        );
        let resumed = resume(first, r#"{"one":{"action":"accept"}}"#);
        let again = Setup { resume: Some(&resumed), ..setup };
        let second = timeout(SOON, tool.step("{}", again)).await.unwrap().unwrap();
        let resumed = resume(second, r#"{"two" : { "action":"decline"}}"#);
        let again = Setup { resume: Some(&resumed), ..setup };
        let third = timeout(SOON, tool.step("{}", again)).await.unwrap().unwrap();
        assert_eq!(said(&done(third)), r#"{"two":{"action":"decline"}}"#, "{name}");
    }
    source.shut_down().await;
}

#[tokio::test]
async fn stateless_client_and_older_server() {
    let source = asking().source("s", McpOptions::default());
    let tool = runner(&source, "s.tool").await;
    let can = declares(ELICIT);
    let setup = Setup { client: Some(&can), ..Setup::default() };
    let first = timeout(SOON, tool.step("{}", setup)).await.unwrap().unwrap();
    let asked: Value = serde_json::from_str(&questions(&first)).unwrap();
    assert_eq!(asked["q1"]["method"], "elicitation/create");
    assert_eq!(asked["q1"]["params"]["message"], "sure?");

    // A missing answer is requested again.
    let resumed = resume(first, r#"{"other":{"action":"accept"}}"#);
    let without = Setup { resume: Some(&resumed), ..setup };
    let again = timeout(SOON, tool.step("{}", without)).await.unwrap().unwrap();
    assert_eq!(serde_json::from_str::<Value>(&questions(&again)).unwrap(), asked);

    let resumed = resume(again, r#"{"q1":{"action":"accept"},"other":{}}"#);
    // No other caller may resume it, and no other tool.
    let eve = Caller { subject: "eve".to_owned(), ..testkit::context::test_caller() };
    let other = Setup { resume: Some(&resumed), caller: Some(&eve), ..setup };
    let error = tool.step("{}", other).await.unwrap_err();
    assert_eq!(
        (error.code, error.dispatch),
        (ErrorCode::InvalidRequest, DispatchState::NotSent),
        "{error}"
    );
    let mine = Setup { resume: Some(&resumed), ..setup };
    let error = runner(&source, "s.other").await.step("{}", mine).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidRequest, "{error}");
    // Control: its owner may, once.
    let step = timeout(SOON, tool.step("{}", mine)).await.unwrap().unwrap();
    assert_eq!(said(&done(step)), r#"{"action":"accept"}"#);
    let error = tool.step("{}", mine).await.unwrap_err();
    assert!(error.message.contains("no longer exists"), "{error}");
    source.shut_down().await;
}

#[tokio::test]
async fn a_client_that_declared_nothing_is_not_asked() {
    let source = asking().source("s", McpOptions::default());
    let tool = runner(&source, "s.tool").await;
    let step = timeout(SOON, tool.step("{}", Setup::default())).await.unwrap().unwrap();
    assert!(said(&done(step)).contains("did not declare support for"));
    source.shut_down().await;

    let source = stateless(twice).source("s", McpOptions::default());
    let tool = runner(&source, "s.tool").await;
    let error = timeout(SOON, tool.step("{}", Setup::default())).await.unwrap().unwrap_err();
    assert_eq!(error.code, ErrorCode::UpstreamFailed);
    assert!(error.message.contains("did not declare support for"), "{error}");
    source.shut_down().await;
}

#[tokio::test]
async fn a_stateless_client_learns_what_it_did_not_declare() {
    let meta = checked(r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#);
    let setup = Setup { meta: Some(&meta), ..Setup::default() };
    for peer in [asking(), stateless(twice)] {
        let source = peer.source("s", McpOptions::default());
        let tool = runner(&source, "s.tool").await;
        let error = timeout(SOON, tool.step("{}", setup)).await.unwrap().unwrap_err();
        let rpc = error.rpc_error.unwrap();
        let needed = r#"{"requiredCapabilities":{"elicitation":{}}}"#;
        assert_eq!((rpc.code, rpc.data.unwrap().as_str()), (-32_021, needed));
        source.shut_down().await;
    }
}

#[tokio::test]
async fn answers_to_what_was_not_asked_are_for_the_server_to_judge() {
    let source = stateless(|params| text(&params["inputResponses"].to_string()));
    let source = source.source("s", McpOptions::default());
    let tool = runner(&source, "s.tool").await;
    let answers = checked(r#"{"one":{"action":"accept"}}"#);
    let setup = Setup { unasked: Some(&answers), ..Setup::default() };
    let step = timeout(SOON, tool.step("{}", setup)).await.unwrap().unwrap();
    assert_eq!(said(&done(step)), answers.as_str());
    // Control: without metadata none is sent.
    let step = timeout(SOON, tool.step("{}", Setup::default())).await.unwrap().unwrap();
    assert_eq!(said(&done(step)), "null");
    source.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_nobody_goes_on_with_is_cancelled_after_ten_minutes() {
    let peer = asking();
    let source = peer.source("s", McpOptions::default());
    let tool = runner(&source, "s.tool").await;
    let can = declares(ELICIT);
    let setup = Setup { client: Some(&can), ..Setup::default() };
    let first = tool.step("{}", setup).await.unwrap();
    sleep(Duration::from_secs(590)).await;
    assert!(!peer.heard().iter().any(|m| m["method"] == "notifications/cancelled"));
    sleep(Duration::from_secs(20)).await;
    let call = peer.hears(|m| m["method"] == "tools/call").await;
    let told = peer.hears(|m| m["method"] == "notifications/cancelled").await;
    assert_eq!(told["params"]["requestId"], call["id"]);
    let resumed = resume(first, "{}");
    let late = Setup { resume: Some(&resumed), ..setup };
    assert_eq!(tool.step("{}", late).await.unwrap_err().code, ErrorCode::InvalidRequest);
    source.shut_down().await;
}

/// HTTP server that sends a request on the stream of each call and never ends it.
fn asks_on_each_stream() -> super::site::Site {
    use super::site::{Site, endless};
    Site::script(|asked| async move {
        match asked.method() {
            "tools/call" => {
                let question = json!({"jsonrpc": "2.0", "id": asked.message["id"], "method": "elicitation/create", "params": {}});
                endless(format!("data: {question}\n\n"))
            }
            _ => asked.usual(),
        }
    })
}

/// Caller whose key `key` was delegated by the key `root`.
fn delegated(key: String, root: usize) -> Caller {
    Caller {
        key_id: key,
        root_key_id: Some(format!("root-{root}")),
        ..testkit::context::test_caller()
    }
}

/// Over HTTP each call has its own stream, so many can be pending: eight per delegation chain.
#[tokio::test]
async fn no_more_than_sixty_four_calls_wait() {
    let site = asks_on_each_stream();
    let source = site.source(McpOptions::default());
    let tool = runner(&source, "web.tool").await;
    let can = declares(ELICIT);
    let setup = Setup { client: Some(&can), ..Setup::default() };
    let callers: Vec<_> = (0..64).map(|n| delegated(format!("key-{n}"), n % 8)).collect();
    let waits = join_all(
        callers.iter().map(|caller| tool.step("{}", Setup { caller: Some(caller), ..setup })),
    );
    let waits = timeout(SOON, waits).await.unwrap();
    assert!(waits.iter().all(Result::is_ok), "{waits:?}");
    let error = timeout(SOON, tool.step("{}", setup)).await.unwrap().unwrap_err();
    assert_eq!(
        (error.code, error.dispatch),
        (ErrorCode::Busy, DispatchState::MaybeSent),
        "{error}"
    );
    source.shut_down().await;
}

/// Delegated keys give a caller no additional places, and take none from others.
#[tokio::test]
async fn one_key_and_those_it_delegated_displace_their_own_oldest_question() {
    let site = asks_on_each_stream();
    let source = site.source(McpOptions::default());
    let tool = runner(&source, "web.tool").await;
    let can = declares(ELICIT);
    let setup = Setup { client: Some(&can), ..Setup::default() };
    let other = delegated("other".to_owned(), 1);
    let others = Setup { caller: Some(&other), ..setup };
    let theirs = timeout(SOON, tool.step("{}", others)).await.unwrap().unwrap();
    let mut own = Vec::new();
    for n in 0..70 {
        let caller = delegated(format!("key-{n}"), 0);
        let setup = Setup { caller: Some(&caller), ..setup };
        let step = timeout(SOON, tool.step("{}", setup)).await.unwrap().unwrap();
        own.push((resume(step, "{}"), caller));
    }
    // Resuming without an answer repeats the request, which shows that a call is still pending.
    let mut waiting = Vec::new();
    for (at, (resumed, caller)) in own.iter().enumerate() {
        let again = Setup { resume: Some(resumed), caller: Some(caller), ..setup };
        if timeout(SOON, tool.step("{}", again)).await.unwrap().is_ok() {
            waiting.push(at);
        }
    }
    assert_eq!(waiting, (62..70).collect::<Vec<_>>());
    // Control: the other key's request is still pending, and there is room for one more.
    let resumed = resume(theirs, "{}");
    let again = Setup { resume: Some(&resumed), ..others };
    timeout(SOON, tool.step("{}", again)).await.unwrap().unwrap();
    timeout(SOON, tool.step("{}", setup)).await.unwrap().unwrap();
    source.shut_down().await;
}

/// Over pipes too: an unanswered request blocks its own caller only.
#[tokio::test]
async fn a_question_that_nobody_answers_silences_no_other_caller() {
    let source = asking().source("s", McpOptions::default());
    let tool = runner(&source, "s.tool").await;
    let can = declares(ELICIT);
    let ann = delegated("ann".to_owned(), 0);
    let waits = Setup { client: Some(&can), caller: Some(&ann), ..Setup::default() };
    let first = timeout(SOON, tool.step("{}", waits)).await.unwrap().unwrap();
    for n in 0..3 {
        let bob = delegated("bob".to_owned(), 1);
        let client = Client::default();
        let setup = Setup { ask: Some(&client), caller: Some(&bob), ..Setup::default() };
        let step = timeout(SOON, tool.step("{}", setup)).await.unwrap().unwrap();
        assert!(said(&done(step)).contains("accept"), "{n}");
        assert_eq!(client.asked.lock().unwrap().len(), 1);
    }
    // Control: the pending request is still there.
    let resumed = resume(first, r#"{"q1":{"action":"decline"}}"#);
    let again = Setup { resume: Some(&resumed), ..waits };
    let step = timeout(SOON, tool.step("{}", again)).await.unwrap().unwrap();
    assert_eq!(said(&done(step)), r#"{"action":"decline"}"#);
    source.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_only_wants_to_be_asked_again_is_and_not_for_ever() {
    let peer = stateless(|params| match params["requestState"].as_str() {
        None => json!({"resultType": "input_required", "requestState": "x"}),
        Some("xxx") if params["arguments"]["ends"] == true => text("there"),
        Some(state) => json!({"resultType": "input_required", "requestState": format!("{state}x")}),
    });
    let source = peer.source("s", McpOptions::default());
    let tool = runner(&source, "s.tool").await;
    assert_eq!(said(&tool.call(r#"{"ends":true}"#).await.unwrap()), "there");
    let error = tool.call("{}").await.unwrap_err();
    assert!(error.message.contains("8 times in a row"), "{error}");
    source.shut_down().await;
}

#[tokio::test]
async fn a_task_that_nobody_asked_for_is_a_clear_failure() {
    let peer = stateless(|_| json!({"resultType": "task", "taskId": "t"}));
    let source = peer.source("s", McpOptions::default());
    let error = runner(&source, "s.tool").await.call("{}").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::UpstreamFailed);
    assert!(error.message.contains("a task, which was not requested"), "{error}");
    source.shut_down().await;
}

/// The server cancels its request: the client is no longer asked, and the call continues.
#[tokio::test]
async fn a_question_that_is_withdrawn_holds_nobody_up() {
    let peer = Peer::new(|mut talk| async move {
        talk.handshake(json!({"tools": {}})).await;
        while let Some(request) = talk.hear().await {
            match request["method"].as_str() {
                Some("tools/list") => {
                    talk.answer(&request, json!({"tools": [definition("tool")]})).await;
                }
                Some("tools/call") => {
                    talk.say(json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {}}))
                        .await;
                    let params = json!({"requestId": "q"});
                    talk.say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))
                        .await;
                    talk.say(json!({"jsonrpc": "2.0", "id": "r", "method": "roots/list"})).await;
                }
                None if request["id"] == "r" => {
                    let call = peer_call(&request);
                    talk.answer(&call, text("went on")).await;
                }
                _ => {}
            }
        }
        String::new()
    });
    let source = peer.source("s", McpOptions::default());
    let tool = runner(&source, "s.tool").await;
    let setup = Setup { ask: Some(&Slow), ..Setup::default() };
    let step = timeout(SOON, tool.step("{}", setup)).await.unwrap().unwrap();
    assert_eq!(said(&done(step)), "went on");
    assert!(!peer.heard().iter().any(|m| m["id"] == "q"));
    source.shut_down().await;
}

/// The first call is the third request of a session: after the handshake and one list.
fn peer_call(_: &Value) -> Value {
    json!({"id": 3})
}

/// Client that never answers elicitation.
struct Slow;

impl tool::executor::ClientRequester for Slow {
    fn send_request<'a>(
        &'a self,
        method: &'a str,
        _: tool::Json,
    ) -> tool::BoxFuture<'a, Result<tool::Json, tool::executor::ClientRequestError>> {
        Box::pin(async move {
            if method == "elicitation/create" {
                std::future::pending::<()>().await;
            }
            Ok(super::runs::json(r#"{"roots":[]}"#))
        })
    }
}

/// Log lines on shared pipes are attributed only if there is one call.
#[tokio::test]
async fn log_lines_reach_the_only_call_and_none_of_two() {
    use super::runs::Watch;
    let peer = Peer::new(|mut talk| async move {
        talk.handshake(json!({"tools": {}})).await;
        let mut calls = Vec::new();
        while let Some(request) = talk.hear().await {
            match request["method"].as_str() {
                Some("tools/list") => {
                    talk.answer(&request, json!({"tools": [definition("tool")]})).await;
                }
                Some("tools/call") => {
                    let params = json!({"level": "info", "data": calls.len()});
                    let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params});
                    calls.push(request);
                    talk.say(log).await;
                }
                _ => {}
            }
            if calls.len() == 2 {
                for call in calls.drain(..) {
                    talk.answer(&call, text("done")).await;
                }
            }
        }
        String::new()
    });
    let source = peer.source("s", McpOptions::default());
    let tool = runner(&source, "s.tool").await;
    let (first, second) = (Watch::default(), Watch::default());
    let later = async {
        first.heard("notifications/message", 1).await;
        tool.watched("{}", &second).await.unwrap();
    };
    let (ended, ()) =
        timeout(SOON, async { tokio::join!(tool.watched("{}", &first), later) }).await.unwrap();
    ended.unwrap();
    assert_eq!(first.notices.lock().unwrap().len(), 1);
    assert!(second.notices.lock().unwrap().is_empty());
    source.shut_down().await;
}
