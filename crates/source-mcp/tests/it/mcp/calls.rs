use std::time::Duration;

use serde_json::{Value, json};
use source_mcp::{McpOptions, ServerLimits};
use tokio::time::timeout;
use tool::executor::DispatchState;
use tool::{ErrorCode, Source as _};

use super::peer::{Peer, Talk, definition, text};
use super::runs::{Watch, body, runner, said};

const SOON: Duration = Duration::from_secs(10);

/// Server that lists `tool` and runs the script at the first call.
fn calling<F>(then: impl Fn(Talk, Value) -> F + Clone + Send + Sync + 'static) -> Peer
where
    F: Future<Output = String> + Send + 'static,
{
    Peer::new(move |mut talk| {
        let then = then.clone();
        async move {
            talk.handshake(json!({"tools": {}})).await;
            let Some(request) = talk.hear_of("tools/list").await else { return String::new() };
            talk.answer(&request, json!({"tools": [definition("tool")]})).await;
            match talk.hear_of("tools/call").await {
                Some(request) => then(talk, request).await,
                None => String::new(),
            }
        }
    })
}

#[tokio::test]
async fn arguments_and_result_pass_untouched() {
    const RESULT: &str = r#"{"content":[{"type":"hologram","beams": 1.0e2}],"_meta":{"n":123456789012345678901234567890},"isError":true}"#;
    let peer = calling(|mut talk, request| async move {
        talk.write(&format!(
            "{{\"id\":{},\"result\":{RESULT},\"jsonrpc\":\"2.0\"}}\n",
            request["id"]
        ))
        .await;
        talk.hear().await;
        String::new()
    });
    let source = peer.source("s", McpOptions::default());
    let tool = runner(&source, "s.tool").await;
    let outcome = tool.call("{\"n\" : 1.50,\n\"z\":[1,2]}").await.unwrap();
    assert_eq!(body(&outcome), RESULT);
    assert!(outcome.is_error);
    let sent = peer.hears(|m| m["method"] == "tools/call").await;
    assert_eq!(sent["params"]["name"], "tool");
    assert_eq!(sent["params"]["arguments"], json!({"n": 1.5, "z": [1, 2]}));
    // Byte for byte, except for the line end, which would end the message.
    let line = peer.lines().into_iter().find(|line| line.contains("tools/call")).unwrap();
    assert!(line.ends_with(r#""arguments":{"n" : 1.50, "z":[1,2]}}}"#), "{line}");
    source.shut_down().await;
}

#[tokio::test]
async fn a_refusal_is_told_in_the_servers_words_bounded_and_escaped() {
    let peer = calling(|mut talk, request| async move {
        let message = format!("\u{1b}[2Jno such thing{}", "!".repeat(10_000));
        talk.refuse(&request, -32602, &message).await;
        talk.hear().await;
        String::new()
    });
    let source = peer.source("s", McpOptions::default());
    let error = runner(&source, "s.tool").await.call("{}").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::UpstreamFailed);
    assert!(error.message.starts_with("the source `s` answered: \\u{1b}[2Jno such thing!!!"));
    assert!(error.message.ends_with("…  (error -32602)".replace("  ", " ").as_str()), "{error}");
    assert!(error.message.len() < 700);
    let rpc = error.rpc_error.unwrap();
    assert_eq!(rpc.code, -32602);
    assert!(rpc.message.starts_with("\u{1b}[2Jno such thing!!!") && rpc.message.len() < 5000);
    source.shut_down().await;
}

#[tokio::test]
async fn progress_is_passed_on_before_the_answer() {
    let peer = calling(|mut talk, request| async move {
        let token = &request["params"]["_meta"]["progressToken"];
        for done in [0, 50, 100] {
            let params = json!({"progressToken": token, "progress": done, "total": 100, "message": "a\nb",
                    "eta": {"seconds": [1, null]}});
            talk.say(
                json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}),
            )
            .await;
        }
        let long = json!({"progressToken": token, "progress": 101, "message": "x".repeat(9_000)});
        talk.say(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": long}))
            .await;
        let strange = json!({"progressToken": "other", "progress": 7});
        talk.say(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": strange}))
            .await;
        talk.answer(&request, text("done")).await;
        talk.hear().await;
        String::new()
    });
    let source = peer.source("s", McpOptions::default());
    let watch = Watch::default();
    let tool = runner(&source, "s.tool").await;
    assert_eq!(said(&tool.watched("{}", &watch).await.unwrap()), "done");
    let heard: Vec<_> = watch.progress.lock().unwrap().clone();
    let step = |done| (done, Some(100.0), Some("a\nb".to_owned()));
    let long = (101.0, None, Some("x".repeat(500) + "…"));
    assert_eq!(heard, [step(0.0), step(50.0), step(100.0), long]);
    for (_, notice) in &*watch.notices.lock().unwrap() {
        assert_eq!(notice["eta"], json!({"seconds": [1, null]}), "nothing of it is lost");
    }
    source.shut_down().await;
}

#[tokio::test]
async fn cancelling_ends_the_call_at_once_and_reaches_the_server() {
    let peer = calling(|mut talk, _| async move {
        while talk.hear().await.is_some() {}
        String::new()
    });
    let source = peer.source("s", McpOptions::default());
    let tool = runner(&source, "s.tool").await;
    let watch = Watch::default();
    let (result, sent) = tokio::join!(tool.watched("{}", &watch), async {
        let sent = peer.hears(|m| m["method"] == "tools/call").await;
        watch.cancel.cancel();
        sent
    });
    assert_eq!(result.unwrap_err().code, ErrorCode::Cancelled);
    let told = peer.hears(|m| m["method"] == "notifications/cancelled");
    let told = timeout(SOON, told).await.unwrap();
    assert_eq!(told["params"]["requestId"], sent["id"]);
    source.shut_down().await;
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_at_the_server_too() {
    let peer = calling(|mut talk, _| async move {
        while talk.hear().await.is_some() {}
        String::new()
    });
    let source = peer.source("s", McpOptions::default());
    let tool = runner(&source, "s.tool").await;
    tokio::select! {
        _ = tool.call("{}") => panic!("nobody answers"),
        _ = peer.hears(|m| m["method"] == "tools/call") => {}
    }
    let told = peer.hears(|m| m["method"] == "notifications/cancelled");
    timeout(SOON, told).await.unwrap();
    source.shut_down().await;
}

#[tokio::test]
async fn a_call_in_flight_when_the_server_ends_is_lost_at_once() {
    let peer = calling(|_, _| async { "exit status 3".to_owned() });
    let source = peer.source("s", McpOptions::default());
    let tool = runner(&source, "s.tool").await;
    let error = timeout(SOON, tool.call("{}")).await.unwrap().unwrap_err();
    assert_eq!((error.code, error.dispatch), (ErrorCode::UpstreamLost, DispatchState::MaybeSent));
    assert_eq!(error.message, "the source `s` closed the connection during the call");
    source.shut_down().await;
}

#[tokio::test]
async fn an_answer_written_with_the_last_breath_counts() {
    let peer = calling(|mut talk, request| async move {
        talk.answer(&request, text("bye")).await;
        "exit status 0".to_owned()
    });
    let source = peer.source("s", McpOptions::default());
    let tool = runner(&source, "s.tool").await;
    assert_eq!(said(&tool.call("{}").await.unwrap()), "bye");
    source.shut_down().await;
}

#[tokio::test]
async fn many_calls_share_one_connection_and_answers_may_come_in_any_order() {
    let peer = calling(|mut talk, first| async move {
        let mut requests = vec![first];
        while requests.len() < 100 {
            let Some(request) = talk.hear_of("tools/call").await else { return String::new() };
            requests.push(request);
        }
        for request in requests.iter().rev() {
            let n = request["params"]["arguments"]["n"].to_string();
            talk.answer(request, text(&n)).await;
        }
        talk.hear().await;
        String::new()
    });
    let source = peer.source("s", McpOptions::default());
    let tool = runner(&source, "s.tool").await;
    let calls = (0..100).map(|n| {
        let tool = tool.clone();
        async move { said(&tool.call(&format!("{{\"n\":{n}}}")).await.unwrap()) == n.to_string() }
    });
    let right = futures_util::future::join_all(calls).await;
    assert!(right.iter().all(|right| *right));
    assert_eq!(peer.starts(), 1);
    source.shut_down().await;
}

#[tokio::test]
async fn calls_past_the_bound_are_refused_and_not_queued() {
    let peer = calling(|mut talk, _| async move {
        while talk.hear().await.is_some() {}
        String::new()
    });
    let bounds = ServerLimits { max_in_flight_calls: 1, ..ServerLimits::default() };
    let source = peer.source("s", McpOptions { limits: bounds, ..McpOptions::default() });
    let tool = runner(&source, "s.tool").await;
    let watch = Watch::default();
    let (held, refused) = tokio::join!(tool.watched("{}", &watch), async {
        peer.hears(|m| m["method"] == "tools/call").await;
        let refused = tool.call("{}").await;
        watch.cancel.cancel();
        refused
    });
    let refused = refused.unwrap_err();
    assert_eq!((refused.code, refused.dispatch), (ErrorCode::Busy, DispatchState::NotSent));
    assert_eq!(held.unwrap_err().code, ErrorCode::Cancelled);
    source.shut_down().await;
}

#[tokio::test]
async fn a_result_past_the_bound_fails_its_call_and_the_connection_stays() {
    let peer = Peer::new(|mut talk| async move {
        talk.handshake(json!({"tools": {}})).await;
        while let Some(request) = talk.hear().await {
            match request["method"].as_str() {
                Some("tools/list") => {
                    talk.answer(&request, json!({"tools": [definition("tool")]})).await;
                }
                Some("tools/call") => {
                    let size = request["params"]["arguments"]["n"].as_u64().unwrap();
                    talk.answer(&request, text(&"x".repeat(usize::try_from(size).unwrap()))).await;
                }
                _ => {}
            }
        }
        String::new()
    });
    let bounds = ServerLimits { max_message_bytes: 10_000, ..ServerLimits::default() };
    let source = peer.source("s", McpOptions { limits: bounds, ..McpOptions::default() });
    let tool = runner(&source, "s.tool").await;
    let error = timeout(SOON, tool.call(r#"{"n":20000}"#)).await.unwrap().unwrap_err();
    let text = &error.message;
    assert!(text.contains("the limit of 10000; raise `max_message` of the source"), "{text}");
    assert_eq!(said(&tool.call(r#"{"n":9}"#).await.unwrap()), "xxxxxxxxx");
    assert_eq!(peer.starts(), 1);
    source.shut_down().await;
}

#[tokio::test]
async fn questions_of_the_server_are_answered_and_do_not_pile_up() {
    let peer = calling(|mut talk, request| async move {
        for n in 0..500 {
            talk.say(json!({"jsonrpc": "2.0", "id": format!("q{n}"), "method": "ping"})).await;
            let pong = loop {
                let message = talk.hear().await.unwrap();
                if message["id"] == format!("q{n}") {
                    break message;
                }
            };
            assert_eq!(pong["result"], json!({}));
        }
        talk.say(
            json!({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {}}),
        )
        .await;
        let refused = talk.hear().await.unwrap();
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(1), &json!(-32601)));
        talk.say(json!({"jsonrpc": "2.0", "id": 2, "method": "tasks/get", "params": {}})).await;
        let refused = talk.hear().await.unwrap();
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(2), &json!(-32601)));
        talk.answer(&request, text("asked enough")).await;
        talk.hear().await;
        String::new()
    });
    let source = peer.source("s", McpOptions::default());
    let tool = runner(&source, "s.tool").await;
    assert_eq!(said(&tool.call("{}").await.unwrap()), "asked enough");
    source.shut_down().await;
}

#[tokio::test]
async fn results_of_newer_kinds_are_refused_in_words() {
    let peer = calling(|mut talk, request| async move {
        talk.answer(&request, json!({"resultType": "input_required", "inputRequests": {}})).await;
        talk.hear().await;
        String::new()
    });
    let source = peer.source("s", McpOptions::default());
    let error = runner(&source, "s.tool").await.call("{}").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::UpstreamFailed);
    assert!(error.message.contains("input requests"), "{error}");
    source.shut_down().await;
}
