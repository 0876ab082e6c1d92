//! Request templates and encoding: connection headers are removed, and `Host` is the validated
//! host.

use std::fmt;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, Request, Uri};
use http1::{
    EncodedRequest, is_connection_header, sends_content_length, write_fields, write_request_target,
};

use super::error::RedactedUrl;
use super::http_connection::{HttpStack, StackRequest};
use super::{Origin, UrlTrust};

/// A validated, pre-encoded request that is sent many times with different bodies.
#[derive(Clone)]
pub struct RequestTemplate {
    pub(super) trust: UrlTrust,
    pub(super) origin: Origin,
    pub(super) url: RedactedUrl,
    path: PathAndQuery,
    headers: HeaderMap,
    /// The encoded bytes that follow the method, equal in each request.
    encoded_tail: Box<[u8]>,
}

impl RequestTemplate {
    pub(super) fn new(trust: &UrlTrust, origin: Origin, uri: &Uri, mut headers: HeaderMap) -> Self {
        sanitize_headers(&origin, &mut headers);
        let path = request_path(uri);
        let mut encoded_tail = Vec::new();
        write_request_target(&mut encoded_tail, &path);
        write_fields(&mut encoded_tail, &headers);
        let (class, url, text) = (trust.clone(), RedactedUrl::from_uri(uri), encoded_tail.into());
        Self { trust: class, origin, url, path, headers, encoded_tail: text }
    }

    /// Encodes one request from this template.
    pub(super) fn encode_request(
        &self,
        method: &Method,
        extra_headers: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
        body: Bytes,
        http_stack: HttpStack,
    ) -> StackRequest {
        let mut extra_headers =
            extra_headers.into_iter().filter(|(name, _)| !is_connection_header(name)).peekable();
        if http_stack == HttpStack::Fast && extra_headers.peek().is_none() {
            let mut head_bytes = start_head(method, self.encoded_tail.len(), body.len());
            head_bytes.extend_from_slice(&self.encoded_tail);
            return StackRequest::Fast(EncodedRequest::from_head(head_bytes, method, body));
        }
        let mut headers = self.headers.clone();
        for (name, value) in extra_headers {
            headers.insert(name, value);
        }
        match http_stack {
            HttpStack::Fast => {
                build_fast_request(method, &self.path, &headers, self.encoded_tail.len(), body)
            }
            HttpStack::Standard => {
                build_standard_request(method.clone(), &self.path, headers, body)
            }
        }
    }
}

/// Omits the headers, because they hold credentials.
impl fmt::Debug for RequestTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestTemplate").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Encodes a request whose URL was validated.
pub(super) fn encode_request(
    origin: &Origin,
    request: Request<Bytes>,
    http_stack: HttpStack,
) -> StackRequest {
    let (mut parts, body) = request.into_parts();
    sanitize_headers(origin, &mut parts.headers);
    let path = request_path(&parts.uri);
    match http_stack {
        HttpStack::Fast => build_fast_request(&parts.method, &path, &parts.headers, 0, body),
        HttpStack::Standard => build_standard_request(parts.method, &path, parts.headers, body),
    }
}

/// Writes the method into a buffer for a head of `head` bytes and a body of `body` bytes.
fn start_head(method: &Method, head: usize, body: usize) -> Vec<u8> {
    let mut head_bytes = Vec::with_capacity(EncodedRequest::estimate_capacity(head, body));
    head_bytes.extend_from_slice(method.as_str().as_bytes());
    head_bytes
}

fn build_fast_request(
    method: &Method,
    path: &PathAndQuery,
    headers: &HeaderMap,
    head: usize,
    body: Bytes,
) -> StackRequest {
    let mut head_bytes = start_head(method, head, body.len());
    write_request_target(&mut head_bytes, path);
    write_fields(&mut head_bytes, headers);
    StackRequest::Fast(EncodedRequest::from_head(head_bytes, method, body))
}

fn build_standard_request(
    method: Method,
    path: &PathAndQuery,
    headers: HeaderMap,
    body: Bytes,
) -> StackRequest {
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = Uri::from(path.clone());
    *request.headers_mut() = headers;
    // hyper writes any other length.
    if request.body().is_empty() && sends_content_length(request.method(), request.body()) {
        request.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    StackRequest::Standard(Box::new(request))
}

fn sanitize_headers(origin: &Origin, headers: &mut HeaderMap) {
    let removed: Vec<_> =
        headers.keys().filter(|name| is_connection_header(name)).cloned().collect();
    for name in removed {
        headers.remove(name);
    }
    if let Ok(host) = HeaderValue::from_str(origin.authority()) {
        headers.insert(header::HOST, host);
    }
}

/// Returns path and query of a URI. A bare query gets a leading slash.
fn request_path(uri: &Uri) -> PathAndQuery {
    let root = PathAndQuery::from_static("/");
    match uri.path_and_query() {
        Some(path) if path.as_str().starts_with('/') => path.clone(),
        Some(path) => path.to_string().parse().unwrap_or(root),
        None => root,
    }
}
