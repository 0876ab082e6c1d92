//! Requests made fit to be sent: without what belongs to a connection, with the host that was judged.

use std::fmt;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, Request, Uri};
use http1::{EncodedRequest, is_connection_header, sends_length, write_fields, write_target};

use super::connection::{HttpStack, Outgoing};
use super::error::Shown;
use super::{Class, Origin};

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

impl Prepared {
    pub(super) fn new(class: &Class, origin: Origin, uri: &Uri, mut headers: HeaderMap) -> Self {
        fit(&origin, &mut headers);
        let path = path_of(uri);
        let mut text = Vec::new();
        write_target(&mut text, &path);
        write_fields(&mut text, &headers);
        let (class, url, text) = (class.clone(), Shown::uri(uri), text.into());
        Self { class, origin, url, path, headers, text }
    }

    /// One request of many.
    pub(super) fn encode(
        &self,
        method: &Method,
        more: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
        body: Bytes,
        http: HttpStack,
    ) -> Outgoing {
        let mut more = more.into_iter().filter(|(name, _)| !is_connection_header(name)).peekable();
        if http == HttpStack::Fast && more.peek().is_none() {
            let mut text = request_text(method, self.text.len(), body.len());
            text.extend_from_slice(&self.text);
            return Outgoing::Fast(EncodedRequest::finish(text, method, body));
        }
        let mut headers = self.headers.clone();
        for (name, value) in more {
            headers.insert(name, value);
        }
        match http {
            HttpStack::Fast => fast(method, &self.path, &headers, self.text.len(), body),
            HttpStack::Standard => standard(method.clone(), &self.path, headers, body),
        }
    }
}

/// No more than may be shown: the text holds credentials.
impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared").field("url", &self.url).finish_non_exhaustive()
    }
}

/// A request whose place was judged, in the form in which it goes out.
pub(super) fn encode(origin: &Origin, request: Request<Bytes>, http: HttpStack) -> Outgoing {
    let (mut parts, body) = request.into_parts();
    fit(origin, &mut parts.headers);
    let path = path_of(&parts.uri);
    match http {
        HttpStack::Fast => fast(&parts.method, &path, &parts.headers, 0, body),
        HttpStack::Standard => standard(parts.method, &path, parts.headers, body),
    }
}

/// Begins the text of a request with room for a head of `head` bytes and a body of `body` bytes.
fn request_text(method: &Method, head: usize, body: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(EncodedRequest::capacity(head, body));
    text.extend_from_slice(method.as_str().as_bytes());
    text
}

fn fast(
    method: &Method,
    path: &PathAndQuery,
    headers: &HeaderMap,
    head: usize,
    body: Bytes,
) -> Outgoing {
    let mut text = request_text(method, head, body.len());
    write_target(&mut text, path);
    write_fields(&mut text, headers);
    Outgoing::Fast(EncodedRequest::finish(text, method, body))
}

fn standard(method: Method, path: &PathAndQuery, headers: HeaderMap, body: Bytes) -> Outgoing {
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = Uri::from(path.clone());
    *request.headers_mut() = headers;
    // hyper writes any other length.
    if request.body().is_empty() && sends_length(request.method(), request.body()) {
        request.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    Outgoing::Standard(Box::new(request))
}

fn fit(origin: &Origin, headers: &mut HeaderMap) {
    let ours: Vec<_> = headers.keys().filter(|name| is_connection_header(name)).cloned().collect();
    for name in ours {
        headers.remove(name);
    }
    if let Ok(host) = HeaderValue::from_str(origin.authority()) {
        headers.insert(header::HOST, host);
    }
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
