//! Requests made fit to be sent: without what belongs to a connection, with the host that was judged.

use std::fmt;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, Request, Uri};

use super::error::Shown;
use super::{Class, Origin};

/// Bodies up to this go out in one piece with their heads, in bytes.
const TOGETHER: usize = 16 << 10;

/// What many requests to one place have in common.
#[derive(Clone)]
pub struct Prepared {
    pub(super) class: Class,
    pub(super) origin: Origin,
    pub(super) url: Shown,
    path: PathAndQuery,
    headers: HeaderMap,
    /// All that follows the method, as far as it is the same each time.
    text: Box<[u8]>,
}

/// A request as bytes.
pub(super) struct Wire {
    text: Vec<u8>,
    /// The body, where it is not in the text.
    body: Bytes,
    head: bool,
}

/// Headers that belong to one connection, and those that only this crate may set (RFC 9110 7.6.1).
const OURS: [header::HeaderName; 9] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::CONNECTION,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::EXPECT,
];

fn is_ours(name: &HeaderName) -> bool {
    OURS.contains(name) || matches!(name.as_str(), "keep-alive" | "proxy-connection")
}

impl Prepared {
    pub(super) fn new(class: &Class, origin: Origin, uri: &Uri, mut headers: HeaderMap) -> Self {
        fit(&origin, &mut headers);
        let path = path_of(uri);
        let mut text = Vec::new();
        place(&mut text, &path);
        fields(&mut text, &headers);
        let (class, url, text) = (class.clone(), Shown::uri(uri), text.into());
        Self { class, origin, url, path, headers, text }
    }

    /// One request of many.
    pub(super) fn wire(
        &self,
        method: &Method,
        more: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
        body: Bytes,
    ) -> Wire {
        let mut more = more.into_iter().filter(|(name, _)| !is_ours(name)).peekable();
        let room = self.text.len() + body.len().min(TOGETHER) + 256;
        let mut text = Vec::with_capacity(room);
        text.extend_from_slice(method.as_str().as_bytes());
        if more.peek().is_none() {
            text.extend_from_slice(&self.text);
        } else {
            let mut headers = self.headers.clone();
            for (name, value) in more {
                headers.insert(name, value);
            }
            place(&mut text, &self.path);
            fields(&mut text, &headers);
        }
        Wire::end(text, method, body)
    }
}

/// No more than may be shown: the text holds credentials.
impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Wire {
    /// Of a request whose place was judged.
    pub(super) fn of(origin: &Origin, request: Request<Bytes>) -> Self {
        let (mut parts, body) = request.into_parts();
        fit(origin, &mut parts.headers);
        let mut text = parts.method.as_str().as_bytes().to_vec();
        place(&mut text, &path_of(&parts.uri));
        fields(&mut text, &parts.headers);
        Self::end(text, &parts.method, body)
    }

    fn end(mut text: Vec<u8>, method: &Method, body: Bytes) -> Self {
        // RFC 9110, 8.6: said also where it is zero, if the method has bodies.
        if !body.is_empty() || [Method::POST, Method::PUT, Method::PATCH].contains(method) {
            let length = body.len().to_string();
            field(&mut text, header::CONTENT_LENGTH.as_str(), length.as_bytes());
        }
        text.extend_from_slice(b"\r\n");
        let head = *method == Method::HEAD;
        if body.len() > TOGETHER {
            return Self { text, body, head };
        }
        text.extend_from_slice(&body);
        Self { text, body: Bytes::new(), head }
    }

    /// Whether its response has no body.
    pub(super) fn is_head(&self) -> bool {
        self.head
    }

    /// What follows the first `sent` bytes.
    pub(super) fn after(&self, sent: usize) -> [&[u8]; 2] {
        let of_body = sent.saturating_sub(self.text.len());
        [(&self.text[..], sent), (&self.body[..], of_body)]
            .map(|(bytes, sent)| bytes.get(sent..).unwrap_or_default())
    }
}

fn fit(origin: &Origin, headers: &mut HeaderMap) {
    let ours: Vec<_> = headers.keys().filter(|name| is_ours(name)).cloned().collect();
    for name in ours {
        headers.remove(name);
    }
    if let Ok(host) = HeaderValue::from_str(origin.authority()) {
        headers.insert(header::HOST, host);
    }
}

fn place(text: &mut Vec<u8>, path: &PathAndQuery) {
    text.push(b' ');
    text.extend_from_slice(path.as_str().as_bytes());
    text.extend_from_slice(b" HTTP/1.1\r\n");
}

fn fields(text: &mut Vec<u8>, headers: &HeaderMap) {
    for (name, value) in headers {
        field(text, name.as_str(), value.as_bytes());
    }
}

fn field(text: &mut Vec<u8>, name: &str, value: &[u8]) {
    text.extend_from_slice(name.as_bytes());
    text.extend_from_slice(b": ");
    text.extend_from_slice(value);
    text.extend_from_slice(b"\r\n");
}

/// What follows the authority. A bare query gets the slash that the text did not need.
fn path_of(uri: &Uri) -> PathAndQuery {
    let root = PathAndQuery::from_static("/");
    match uri.path_and_query() {
        Some(path) if path.as_str().starts_with('/') => path.clone(),
        Some(path) => path.to_string().parse().unwrap_or(root),
        None => root,
    }
}
