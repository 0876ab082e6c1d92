//! Writes our messages as one line each, with the arguments of a call as they were checked.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use rmcp::model::{
    CallToolRequest, ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, RequestId,
    RequestMetaObject,
};
use serde::Serialize;
use tool::Json;

use super::inflight::Lane;

#[derive(Serialize)]
struct Spliced<'a> {
    jsonrpc: &'static str,
    id: &'a RequestId,
    method: &'static str,
    params: Params<'a>,
}

#[derive(Serialize)]
struct Params<'a> {
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<&'a RequestMetaObject>,
    name: &'a str,
    arguments: &'a Json,
}

/// The message as JSON without line ends.
///
/// # Errors
/// Where rmcp's own types cannot be written.
pub(super) fn body(message: &ClientJsonRpcMessage) -> io::Result<Vec<u8>> {
    let mut text = match spliced(message) {
        Some(spliced) => serde_json::to_vec(&spliced)?,
        None => serde_json::to_vec(message)?,
    };
    // In JSON a bare line end can only stand between tokens, where a blank means the same.
    for byte in &mut text {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    Ok(text)
}

/// [`body`] and a line end.
///
/// # Errors
/// As [`body`].
pub(super) fn line(message: &ClientJsonRpcMessage) -> io::Result<Bytes> {
    let mut text = body(message)?;
    text.push(b'\n');
    Ok(Bytes::from(text))
}

fn spliced(message: &ClientJsonRpcMessage) -> Option<Spliced<'_>> {
    let JsonRpcMessage::Request(request) = message else { return None };
    let ClientRequest::CallToolRequest(call) = &request.request else { return None };
    let CallToolRequest { params, extensions, .. } = call;
    let arguments = extensions.get::<Arc<Lane>>()?.args.as_ref()?;
    let meta = extensions.get::<RequestMetaObject>();
    let params = Params { meta, name: &params.name, arguments };
    Some(Spliced { jsonrpc: "2.0", id: &request.id, method: "tools/call", params })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientJsonRpcMessage, RequestId};
    use tokio::sync::Semaphore;
    use tool::Args;

    use super::line;
    use crate::mcp::inflight::Lane;

    fn written(arguments: &'static str) -> String {
        let args = Args::check(arguments).unwrap();
        let slot = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let (lane, _ends) = Lane::call(args.raw().clone(), slot);
        let mut request = CallToolRequest::new(CallToolRequestParams::new("add"));
        request.extensions.insert(lane);
        let message = ClientJsonRpcMessage::request(request.into(), RequestId::Number(7));
        String::from_utf8(line(&message).unwrap().to_vec()).unwrap()
    }

    #[test]
    fn arguments_go_out_as_they_were_checked() {
        assert_eq!(
            written(r#"{"z":1.0e2,"a":123456789012345678901234567890}"#),
            concat!(
                r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add","#,
                r#""arguments":{"z":1.0e2,"a":123456789012345678901234567890}}}"#,
                "\n"
            )
        );
    }

    #[test]
    fn a_line_end_in_the_arguments_does_not_end_the_message() {
        let text = written("{\n \"a\" :\r\n \"x\\ny\" }");
        assert_eq!(text.matches('\n').count(), 1);
        assert!(text.ends_with("\"arguments\":{  \"a\" :   \"x\\ny\" }}}\n"), "{text}");
    }
}
