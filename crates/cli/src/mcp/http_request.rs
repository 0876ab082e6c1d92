//! Conversion of MCP messages to HTTP requests to the server.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Method, Request};
use mcp::{ProtocolEra, ProtocolVersion, RpcMessage, headers, meta};
use tool::Json;

/// The result of a handshake: session and protocol version.
#[derive(Debug, Clone, Default)]
pub(super) struct NegotiatedSession {
    /// The session id assigned by the server.
    pub(super) session_id: Option<HeaderValue>,
    /// The protocol version that the handshake negotiated.
    pub(super) version: Option<HeaderValue>,
}

/// The protocol version that a stateless request declares.
pub(super) fn request_version(message: &RpcMessage) -> Option<String> {
    let params = match message {
        RpcMessage::Request(request) => request.params.as_ref(),
        RpcMessage::Notification(notification) => notification.params.as_ref(),
        RpcMessage::Response(_) => None,
    };
    meta::get_meta(params?)?.get(meta::PROTOCOL_VERSION)?.decode().ok()
}

/// Whether a message belongs to the stateless era.
pub(super) fn is_stateless(message: &RpcMessage) -> bool {
    request_version(message).is_some_and(|revision| {
        ProtocolVersion::parse(&revision)
            .is_none_or(|revision| revision.era() == ProtocolEra::Stateless)
    })
}

/// Builds the POST request with the headers of its era; `argument_headers` are argument headers.
pub(super) fn build_post(
    path: &str,
    (text, message): (Bytes, &RpcMessage),
    session: &NegotiatedSession,
    argument_headers: Vec<(String, String)>,
) -> Request<Bytes> {
    let mut request = empty_request(Method::POST, path, text);
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let mut set = |name: &str, value: &str| {
        let pair = (HeaderName::try_from(name), HeaderValue::try_from(value));
        // A value that is invalid in a header is omitted; the server reports it as missing.
        if let (Ok(name), Ok(value)) = pair {
            headers.insert(name, value);
        }
    };
    let Some(revision) = request_version(message) else {
        add_session_headers(&mut request, session);
        return request;
    };
    set(headers::PROTOCOL_VERSION, &revision);
    if let RpcMessage::Request(asked) = message {
        set(headers::METHOD, &asked.method);
        let named = headers::name_header_param(&asked.method)
            .and_then(|member| asked.params.as_ref()?.get(member)?.decode::<String>().ok());
        if let Some(name) = named {
            set(headers::NAME, &headers::encode_value(&name));
        }
        for (name, value) in argument_headers {
            set(&name, &value);
        }
    } else if let RpcMessage::Notification(told) = message {
        set(headers::METHOD, &told.method);
    }
    request
}

/// Builds a request that opens the notification stream or ends the session.
pub(super) fn build_session_request(
    method: Method,
    path: &str,
    session: &NegotiatedSession,
) -> Request<Bytes> {
    let mut request = empty_request(method, path, Bytes::new());
    add_session_headers(&mut request, session);
    request
}

fn add_session_headers(request: &mut Request<Bytes>, agreed: &NegotiatedSession) {
    for (name, value) in
        [(headers::SESSION_ID, &agreed.session_id), (headers::PROTOCOL_VERSION, &agreed.version)]
    {
        if let Some(value) = value {
            request.headers_mut().insert(name, value.clone());
        }
    }
}

fn empty_request(method: Method, path: &str, body: Bytes) -> Request<Bytes> {
    let mut request = Request::new(body);
    *request.method_mut() = method;
    // Built from a valid request path.
    *request.uri_mut() = path.parse().unwrap_or_default();
    let both = HeaderValue::from_static("application/json, text/event-stream");
    request.headers_mut().insert(ACCEPT, both);
    request
}

/// The protocol version in the result of `initialize`.
pub(super) fn negotiated_version(result: &Json) -> Option<HeaderValue> {
    let revision: String = result.get("protocolVersion")?.decode().ok()?;
    HeaderValue::try_from(revision).ok()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use mcp::RpcMessage;
    use tool::JsonLimits;

    use super::{NegotiatedSession, build_post};

    fn headers(text: &'static str, agreed: &NegotiatedSession) -> Vec<(String, String)> {
        let message = RpcMessage::parse(text, JsonLimits::DOCUMENT).unwrap();
        let mirrored = vec![("mcp-param-region".to_owned(), "eu".to_owned())];
        let request = build_post("/mcp", (Bytes::from(text), &message), agreed, mirrored);
        let text = |value: &http::HeaderValue| value.to_str().unwrap().to_owned();
        let mut headers: Vec<_> = request
            .headers()
            .iter()
            .filter(|(name, _)| name.as_str().starts_with("mcp-"))
            .map(|(name, value)| (name.to_string(), text(value)))
            .collect();
        headers.sort();
        headers
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    }

    #[test]
    fn a_request_that_stands_alone_says_in_its_headers_what_it_is() {
        let text = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"é","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        let expected = [
            ("mcp-method", "tools/call"),
            ("mcp-name", "=?base64?w6k=?="),
            ("mcp-param-region", "eu"),
            ("mcp-protocol-version", "2026-07-28"),
        ];
        assert_eq!(headers(text, &NegotiatedSession::default()), pairs(&expected));
    }

    #[test]
    fn a_request_of_a_session_names_it() {
        let text = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"#;
        assert_eq!(headers(text, &NegotiatedSession::default()), []);
        let agreed = NegotiatedSession {
            session_id: Some("s".parse().unwrap()),
            version: Some("2025-11-25".parse().unwrap()),
        };
        let expected = [("mcp-protocol-version", "2025-11-25"), ("mcp-session-id", "s")];
        assert_eq!(headers(text, &agreed), pairs(&expected));
    }
}
