//! An MCP message as the HTTP request that carries it to the server.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Method, Request};
use mcp::{Era, Message, Revision, header, meta};
use tool::Json;

/// The result of a handshake: session and protocol version.
#[derive(Debug, Clone, Default)]
pub(super) struct Agreed {
    /// The session id assigned by the server.
    pub(super) session: Option<HeaderValue>,
    /// The protocol version that the handshake negotiated.
    pub(super) revision: Option<HeaderValue>,
}

/// The protocol version that a stateless request declares.
pub(super) fn revision(message: &Message) -> Option<String> {
    let params = match message {
        Message::Request(request) => request.params.as_ref(),
        Message::Notification(notification) => notification.params.as_ref(),
        Message::Response(_) => None,
    };
    meta::of(params?)?.get(meta::PROTOCOL_VERSION)?.read().ok()
}

/// Whether a message belongs to the stateless era.
pub(super) fn stateless(message: &Message) -> bool {
    revision(message).is_some_and(|revision| {
        Revision::read(&revision).is_none_or(|revision| revision.era() == Era::Stateless)
    })
}

/// Builds the POST request with the headers of its era; `mirrored` are argument headers.
pub(super) fn post(
    path: &str,
    (text, message): (Bytes, &Message),
    agreed: &Agreed,
    mirrored: Vec<(String, String)>,
) -> Request<Bytes> {
    let mut request = blank(Method::POST, path, text);
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let mut set = |name: &str, value: &str| {
        let pair = (HeaderName::try_from(name), HeaderValue::try_from(value));
        // A value that is invalid in a header is omitted; the server reports it as missing.
        if let (Ok(name), Ok(value)) = pair {
            headers.insert(name, value);
        }
    };
    let Some(revision) = revision(message) else {
        agree(&mut request, agreed);
        return request;
    };
    set(header::VERSION, &revision);
    if let Message::Request(asked) = message {
        set(header::METHOD, &asked.method);
        let named = header::name_member(&asked.method)
            .and_then(|member| asked.params.as_ref()?.get(member)?.read::<String>().ok());
        if let Some(name) = named {
            set(header::NAME, &header::encode(&name));
        }
        for (name, value) in mirrored {
            set(&name, &value);
        }
    } else if let Message::Notification(told) = message {
        set(header::METHOD, &told.method);
    }
    request
}

/// Builds a request that opens the notification stream or ends the session.
pub(super) fn of_session(method: Method, path: &str, agreed: &Agreed) -> Request<Bytes> {
    let mut request = blank(method, path, Bytes::new());
    agree(&mut request, agreed);
    request
}

fn agree(request: &mut Request<Bytes>, agreed: &Agreed) {
    for (name, value) in [(header::SESSION, &agreed.session), (header::VERSION, &agreed.revision)] {
        if let Some(value) = value {
            request.headers_mut().insert(name, value.clone());
        }
    }
}

fn blank(method: Method, path: &str, body: Bytes) -> Request<Bytes> {
    let mut request = Request::new(body);
    *request.method_mut() = method;
    // Built from a valid request path.
    *request.uri_mut() = path.parse().unwrap_or_default();
    let both = HeaderValue::from_static("application/json, text/event-stream");
    request.headers_mut().insert(ACCEPT, both);
    request
}

/// The protocol version in the result of `initialize`.
pub(super) fn agreed_revision(result: &Json) -> Option<HeaderValue> {
    let revision: String = result.get("protocolVersion")?.read().ok()?;
    HeaderValue::try_from(revision).ok()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use mcp::Message;
    use tool::Limits;

    use super::{Agreed, post};

    fn headers(text: &'static str, agreed: &Agreed) -> Vec<(String, String)> {
        let message = Message::read(text, Limits::DOCUMENT).unwrap();
        let mirrored = vec![("mcp-param-region".to_owned(), "eu".to_owned())];
        let request = post("/mcp", (Bytes::from(text), &message), agreed, mirrored);
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
        assert_eq!(headers(text, &Agreed::default()), pairs(&expected));
    }

    #[test]
    fn a_request_of_a_session_names_it() {
        let text = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"#;
        assert_eq!(headers(text, &Agreed::default()), []);
        let agreed = Agreed {
            session: Some("s".parse().unwrap()),
            revision: Some("2025-11-25".parse().unwrap()),
        };
        let expected = [("mcp-protocol-version", "2025-11-25"), ("mcp-session-id", "s")];
        assert_eq!(headers(text, &agreed), pairs(&expected));
    }
}
