use std::sync::Arc;

use bytes::Bytes;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotification, CancelledNotificationParam,
    ClientJsonRpcMessage, GetMeta as _, ListToolsRequest, NumberOrString, ProgressToken, RequestId,
    ServerJsonRpcMessage, ServerResult,
};
use tokio::sync::Semaphore;
use tool::Args;

use super::{Answer, Ends, Inbound, Inflight, Lane};

/// Sends a call of this id; its progress token is the same number.
fn call(inflight: &Inflight, id: i64) -> Ends {
    let slot = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
    let (lane, ends) = Lane::call(Args::check("{}").unwrap().raw().clone(), slot);
    let mut request = CallToolRequest::new(CallToolRequestParams::new("a"));
    request.extensions.insert(lane);
    let mut request = rmcp::model::ClientRequest::CallToolRequest(request);
    request.get_meta_mut().set_progress_token(ProgressToken(NumberOrString::Number(id)));
    inflight.sent(&ClientJsonRpcMessage::request(request, RequestId::Number(id)));
    ends
}

fn read(inflight: &Inflight, text: &str) -> Inbound {
    inflight.read(&Bytes::from(text.to_owned()))
}

fn result(ends: &mut Ends) -> String {
    match ends.answer.try_recv().unwrap() {
        Answer::Result(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
        Answer::Refused(refusal) => format!("{} {}", refusal.code, refusal.message),
    }
}

fn told(inbound: Inbound) -> ServerJsonRpcMessage {
    let Inbound::Pass(message) = inbound else { panic!("{inbound:?}") };
    *message
}

#[test]
fn an_answer_comes_out_as_it_was_and_rmcp_learns_only_that_it_came() {
    let inflight = Inflight::default();
    let mut ends = call(&inflight, 7);
    let text = r#"{"result": {"a" : 1.0e2} ,"id":7,"jsonrpc":"2.0"}"#;
    let message = told(read(&inflight, text));
    assert!(
        matches!(message, ServerJsonRpcMessage::Response(r) if matches!(r.result, ServerResult::EmptyResult(_)))
    );
    assert_eq!(result(&mut ends), r#"{"a" : 1.0e2}"#);
    // A second answer to the same request is nobody's.
    assert!(ends.answer.try_recv().is_err());
    drop(read(&inflight, text));
}

#[test]
fn a_number_that_comes_back_as_a_text_is_understood() {
    let inflight = Inflight::default();
    let mut ends = call(&inflight, 7);
    assert!(
        matches!(told(read(&inflight, "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":\"7\",\"result\":[]}")), ServerJsonRpcMessage::Response(r) if r.id == RequestId::Number(7))
    );
    assert_eq!(result(&mut ends), "[]");
}

#[test]
fn refusals_of_any_shape_end_their_request() {
    for (error, expected) in [
        (r#"{"code":-32602,"message":"no","data":{"x":1}}"#, "-32602 no"),
        (r#"{"message":"no code"}"#, "0 no code"),
        (r#""just words""#, "0 \"just words\""),
        (r#"{"code":"seven"}"#, "0 {\"code\":\"seven\"}"),
    ] {
        let inflight = Inflight::default();
        let mut ends = call(&inflight, 7);
        let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{error}}}");
        assert!(matches!(told(read(&inflight, &text)), ServerJsonRpcMessage::Error(_)));
        assert_eq!(result(&mut ends), expected);
    }
}

#[test]
fn what_is_no_message_is_unreadable_and_what_is_of_no_interest_is_quiet() {
    let inflight = Inflight::default();
    for text in [
        "",
        "hello",
        "{}",
        "[]",
        r#"[{"jsonrpc":"2.0","method":"a"}]"#,
        r#"{"jsonrpc":"1.0","method":"a"}"#,
        r#"{"method":"a"}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"id":2,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{}} trailing"#,
        r#"{"level":"info","method":5}"#,
        "\"\\ud800\"",
    ] {
        assert!(matches!(read(&inflight, text), Inbound::Unreadable(_)), "{text}");
    }
    for method in ["notifications/message", "textDocument/didOpen", "notifications/progress"] {
        let text =
            format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{{\"a\":1}}}}");
        assert!(matches!(read(&inflight, &text), Inbound::Quiet), "{method}");
    }
    let asked = read(&inflight, r#"{"jsonrpc":"2.0","id":"q","method":"ping"}"#);
    assert!(
        matches!(asked, Inbound::Asked { method, id } if method == "ping" && id.get() == "\"q\"")
    );
}

#[test]
fn progress_finds_its_call_and_too_much_is_dropped() {
    let inflight = Inflight::default();
    let (mut first, mut second) = (call(&inflight, 1), call(&inflight, 2));
    let tell = |token: i64, progress: f64| {
        let text = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":{token},\"progress\":{progress}}}}}"
        );
        assert!(matches!(read(&inflight, &text), Inbound::Quiet));
    };
    tell(2, 0.5);
    tell(9, 0.5);
    (0..100).for_each(|n| tell(1, f64::from(n)));
    let told: Vec<_> = std::iter::from_fn(|| first.progress.try_recv().ok()).collect();
    assert_eq!(told.len(), super::PROGRESS_WAITING);
    assert!(second.progress.try_recv().unwrap().progress > 0.4);
    assert!(second.progress.try_recv().is_err());
}

#[test]
fn what_left_is_forgotten() {
    let inflight = Inflight::default();
    let mut ends = call(&inflight, 7);
    let params = CancelledNotificationParam::new(Some(RequestId::Number(7)), None);
    inflight.sent(&ClientJsonRpcMessage::notification(CancelledNotification::new(params).into()));
    assert!(ends.answer.try_recv().is_err());
    let open = inflight.open.lock().unwrap();
    assert!(open.by_id.is_empty() && open.by_token.is_empty());
}

#[test]
fn a_message_that_was_lost_ends_the_only_call_and_no_call_of_several() {
    let inflight = Inflight::default();
    let (mut one, mut two) = (call(&inflight, 1), call(&inflight, 2));
    assert!(inflight.refuse_only("too long").is_none());
    inflight.leave(&RequestId::Number(2));
    assert!(two.answer.try_recv().is_err());
    assert!(inflight.refuse_only("too long").is_some());
    assert_eq!(result(&mut one), "0 too long");
    assert!(inflight.refuse_only("too long").is_none());
}

#[test]
fn a_shared_list_reaches_rmcp_where_it_can_read_it_and_us_in_any_case() {
    for (list, typed) in [(r#"{"tools":[]}"#, true), (r#"{"tools":"odd"}"#, false)] {
        let inflight = Inflight::default();
        let (lane, mut ends) = Lane::list(true);
        let mut request = ListToolsRequest::default();
        request.extensions.insert(lane);
        inflight.sent(&ClientJsonRpcMessage::request(request.into(), RequestId::Number(1)));
        let message =
            told(read(&inflight, &format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{list}}}")));
        let seen = matches!(message, ServerJsonRpcMessage::Response(r) if matches!(r.result, ServerResult::ListToolsResult(_)));
        assert_eq!(seen, typed);
        assert_eq!(result(&mut ends), list);
    }
}

proptest::proptest! {
    /// Nothing a server writes makes it fail, and no answer reaches a call it does not name.
    #[test]
    fn any_text(text in "[\\[\\]{}\",:0-9a-z_./ \\\\]{0,60}", id in 0..3_i64) {
        let inflight = Inflight::default();
        let mut ends = call(&inflight, 1);
        drop(read(&inflight, &text));
        proptest::prop_assert!(ends.answer.try_recv().is_err());
        drop(read(&inflight, &format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}")));
        proptest::prop_assert_eq!(ends.answer.try_recv().is_ok(), id == 1);
    }
}
