//! Encoding of messages: envelopes around bytes that were already validated.

use bytes::Bytes;
use tool::Json;

use crate::{Id, RpcError};

/// Encodes a JSON-RPC request.
pub fn request(id: &Id, method: &str, params: &Json) -> Bytes {
    let mut text = Vec::with_capacity(64 + method.len() + params.bytes().len());
    push_text(&mut text, r#"{"jsonrpc":"2.0","id":"#);
    id.push(&mut text);
    push_text(&mut text, r#","method":"#);
    text.extend_from_slice(Json::of(method).bytes());
    push_text(&mut text, r#","params":"#);
    text.extend_from_slice(params.bytes());
    push_text(&mut text, "}");
    text.into()
}

/// Encodes a JSON-RPC notification.
pub fn notification(method: &str, params: &Json) -> Bytes {
    let method = Json::of(method);
    let (method, params) = (method.as_str(), params.as_str());
    format!(r#"{{"jsonrpc":"2.0","method":{method},"params":{params}}}"#).into()
}

/// Returns the bytes before a result; [`AFTER_RESULT`] follows the result. For results that are too
/// large to copy or that are extended while they are written.
pub fn before_result(id: &Id) -> Vec<u8> {
    let mut text = Vec::with_capacity(80);
    push_text(&mut text, r#"{"jsonrpc":"2.0","id":"#);
    id.push(&mut text);
    push_text(&mut text, r#","result":"#);
    text
}

/// The bytes after a result.
pub const AFTER_RESULT: &str = "}";

/// Encodes a response with a result.
pub fn result(id: &Id, result: &Json) -> Bytes {
    let mut text = Vec::with_capacity(48 + result.bytes().len());
    push_text(&mut text, r#"{"jsonrpc":"2.0","id":"#);
    id.push(&mut text);
    push_text(&mut text, r#","result":"#);
    text.extend_from_slice(result.bytes());
    push_text(&mut text, AFTER_RESULT);
    text.into()
}

/// Encodes an error response, without an id if the id of the request could not be read.
pub fn error(id: Option<&Id>, error: &RpcError) -> Bytes {
    let mut text = Vec::with_capacity(96 + error.message.len());
    push_text(&mut text, r#"{"jsonrpc":"2.0","id":"#);
    match id {
        Some(id) => id.push(&mut text),
        None => push_text(&mut text, "null"),
    }
    push_text(&mut text, r#","error":{"code":"#);
    push_text(&mut text, itoa::Buffer::new().format(error.code));
    push_text(&mut text, r#","message":"#);
    text.extend_from_slice(Json::of(&error.message).bytes());
    if let Some(data) = &error.data {
        push_text(&mut text, r#","data":"#);
        text.extend_from_slice(data.bytes());
    }
    push_text(&mut text, "}}");
    text.into()
}

fn push_text(text: &mut Vec<u8>, words: &str) {
    text.extend_from_slice(words.as_bytes());
}

/// Replaces line breaks with spaces, as the stdio transport requires. In JSON a bare line break can
/// only occur between tokens.
pub fn one_line(text: Bytes) -> Bytes {
    if !text.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return text;
    }
    let blank = |byte: &u8| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte };
    text.iter().map(blank).collect::<Vec<_>>().into()
}

#[cfg(test)]
mod tests {
    use tool::{Json, Limits};

    use crate::{Id, Message, RpcError};

    fn json(text: &str) -> Json {
        Json::check(text.to_owned(), Limits::DOCUMENT).unwrap()
    }

    #[test]
    fn what_is_written_reads_back() {
        let odd = json(r#"{"n": 1.0e2, "big":12345678901234567890123}"#);
        let read = |text| Message::read(text, Limits::DOCUMENT).unwrap();
        let Message::Request(request) = read(super::request(&Id::number(7), "a/b\"", &odd)) else {
            panic!("a request")
        };
        assert_eq!((request.method.as_str(), request.id), ("a/b\"", Id::number(7)));
        assert_eq!(request.params.unwrap().as_str(), odd.as_str());
        let Message::Notification(notice) = read(super::notification("n", &odd)) else {
            panic!("a notification")
        };
        assert_eq!(notice.params.unwrap().as_str(), odd.as_str());
        let Message::Response(answer) = read(super::result(&Id::number(1), &odd)) else {
            panic!("an answer")
        };
        assert_eq!(answer.result.unwrap().as_str(), odd.as_str());
        let error = RpcError { code: -1, message: "\u{1}\"".to_owned(), data: Some(odd) };
        for id in [None, Some(Id::number(3))] {
            let Message::Response(answer) = read(super::error(id.as_ref(), &error)) else {
                panic!("an answer")
            };
            assert_eq!((answer.id, answer.result.unwrap_err()), (id, error.clone()));
        }
    }

    #[test]
    fn the_parts_of_an_answer_are_the_whole() {
        let id = Id::number(5);
        let parts = [&super::before_result(&id)[..], b"{}", super::AFTER_RESULT.as_bytes()];
        assert_eq!(parts.concat(), super::result(&id, &Json::empty()));
    }

    #[test]
    fn a_line_end_between_tokens_is_a_blank() {
        let text = super::one_line("{\n \"a\" :\r\n \"x\\ny\" }".into());
        assert_eq!(text, "{  \"a\" :   \"x\\ny\" }");
    }
}
