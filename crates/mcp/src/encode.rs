//! Encoding of messages: envelopes around bytes that were already validated.

use bytes::Bytes;
use tool::Json;

use crate::{RequestId, RpcError};

/// Encodes a JSON-RPC request.
pub fn encode_request(id: &RequestId, method: &str, params: &Json) -> Bytes {
    let mut text = Vec::with_capacity(64 + method.len() + params.bytes().len());
    push_str(&mut text, r#"{"jsonrpc":"2.0","id":"#);
    id.write_json(&mut text);
    push_str(&mut text, r#","method":"#);
    text.extend_from_slice(Json::encode(method).bytes());
    push_str(&mut text, r#","params":"#);
    text.extend_from_slice(params.bytes());
    push_str(&mut text, "}");
    text.into()
}

/// Encodes a JSON-RPC notification.
pub fn encode_notification(method: &str, params: &Json) -> Bytes {
    let method = Json::encode(method);
    let (method, params) = (method.as_str(), params.as_str());
    format!(r#"{{"jsonrpc":"2.0","method":{method},"params":{params}}}"#).into()
}

/// Returns the bytes before a result; [`RESULT_SUFFIX`] follows the result. For results that are
/// too large to copy or that are extended while they are written.
pub fn result_prefix(id: &RequestId) -> Vec<u8> {
    write_result_prefix(id, 80)
}

fn write_result_prefix(id: &RequestId, capacity: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(capacity);
    push_str(&mut text, r#"{"jsonrpc":"2.0","id":"#);
    id.write_json(&mut text);
    push_str(&mut text, r#","result":"#);
    text
}

/// The bytes after a result.
pub const RESULT_SUFFIX: &str = "}";

/// Encodes a response with a result.
pub fn encode_result(id: &RequestId, result: &Json) -> Bytes {
    let mut text = write_result_prefix(id, 48 + result.bytes().len());
    text.extend_from_slice(result.bytes());
    push_str(&mut text, RESULT_SUFFIX);
    text.into()
}

/// Encodes an error response, without an id if the id of the request could not be read.
pub fn encode_error(id: Option<&RequestId>, error: &RpcError) -> Bytes {
    let mut text = Vec::with_capacity(96 + error.message.len());
    push_str(&mut text, r#"{"jsonrpc":"2.0","id":"#);
    match id {
        Some(id) => id.write_json(&mut text),
        None => push_str(&mut text, "null"),
    }
    push_str(&mut text, r#","error":{"code":"#);
    push_str(&mut text, itoa::Buffer::new().format(error.code));
    push_str(&mut text, r#","message":"#);
    text.extend_from_slice(Json::encode(&error.message).bytes());
    if let Some(data) = &error.data {
        push_str(&mut text, r#","data":"#);
        text.extend_from_slice(data.bytes());
    }
    push_str(&mut text, "}}");
    text.into()
}

fn push_str(text: &mut Vec<u8>, part: &str) {
    text.extend_from_slice(part.as_bytes());
}

/// Replaces line breaks with spaces, as the stdio transport requires. In JSON a bare line break can
/// only occur between tokens.
pub fn to_single_line(text: Bytes) -> Bytes {
    if !text.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return text;
    }
    let blank = |byte: &u8| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte };
    text.iter().map(blank).collect::<Vec<_>>().into()
}

#[cfg(test)]
mod tests {
    use tool::{Json, JsonLimits};

    use crate::{RequestId, RpcError, RpcMessage};

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned(), JsonLimits::DOCUMENT).unwrap()
    }

    #[test]
    fn what_is_written_reads_back() {
        let odd = json(r#"{"n": 1.0e2, "big":12345678901234567890123}"#);
        let read = |text| RpcMessage::parse(text, JsonLimits::DOCUMENT).unwrap();
        let RpcMessage::Request(request) =
            read(super::encode_request(&RequestId::from_number(7), "a/b\"", &odd))
        else {
            panic!("a request")
        };
        assert_eq!((request.method.as_str(), request.id), ("a/b\"", RequestId::from_number(7)));
        assert_eq!(request.params.unwrap().as_str(), odd.as_str());
        let RpcMessage::Notification(notice) = read(super::encode_notification("n", &odd)) else {
            panic!("a notification")
        };
        assert_eq!(notice.params.unwrap().as_str(), odd.as_str());
        let RpcMessage::Response(answer) =
            read(super::encode_result(&RequestId::from_number(1), &odd))
        else {
            panic!("an answer")
        };
        assert_eq!(answer.result.unwrap().as_str(), odd.as_str());
        let error = RpcError { code: -1, message: "\u{1}\"".to_owned(), data: Some(odd) };
        for id in [None, Some(RequestId::from_number(3))] {
            let RpcMessage::Response(answer) = read(super::encode_error(id.as_ref(), &error))
            else {
                panic!("an answer")
            };
            assert_eq!((answer.id, answer.result.unwrap_err()), (id, error.clone()));
        }
    }

    #[test]
    fn the_parts_of_an_answer_are_the_whole() {
        let id = RequestId::from_number(5);
        let parts = [&super::result_prefix(&id)[..], b"{}", super::RESULT_SUFFIX.as_bytes()];
        assert_eq!(parts.concat(), super::encode_result(&id, &Json::empty_object()));
    }

    #[test]
    fn a_line_end_between_tokens_is_a_blank() {
        let text = super::to_single_line("{\n \"a\" :\r\n \"x\\ny\" }".into());
        assert_eq!(text, "{  \"a\" :   \"x\\ny\" }");
    }
}
