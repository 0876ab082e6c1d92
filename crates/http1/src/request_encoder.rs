//! Encodes requests into bytes.

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{Method, header};

use crate::MAX_COALESCED_BODY;
use crate::head_writer::write_field;

/// A request that is encoded as bytes.
#[derive(Debug)]
pub struct EncodedRequest {
    /// The head, followed by the body if it is small.
    head_bytes: Vec<u8>,
    /// The body, if it does not follow the head.
    body: Bytes,
    is_head_request: bool,
}

/// Writes the request target and the HTTP version.
pub fn write_request_target(head_bytes: &mut Vec<u8>, path: &PathAndQuery) {
    head_bytes.push(b' ');
    head_bytes.extend_from_slice(path.as_str().as_bytes());
    head_bytes.extend_from_slice(b" HTTP/1.1\r\n");
}

/// Whether a request has a `Content-Length`: a method with bodies also sends a length of zero (RFC 9110,
/// 8.6).
pub fn sends_content_length(method: &Method, body: &[u8]) -> bool {
    !body.is_empty() || [Method::POST, Method::PUT, Method::PATCH].contains(method)
}

impl EncodedRequest {
    /// Estimates the buffer size for a head of `head` bytes and a body of `body` bytes.
    pub fn estimate_capacity(head: usize, body: usize) -> usize {
        head + body.min(MAX_COALESCED_BODY) + 256
    }

    /// Completes a request from its request line and all fields except the length.
    pub fn from_head(mut head_bytes: Vec<u8>, method: &Method, body: Bytes) -> Self {
        if sends_content_length(method, &body) {
            let mut digits = itoa::Buffer::new();
            let length = digits.format(body.len());
            write_field(&mut head_bytes, header::CONTENT_LENGTH.as_str(), length.as_bytes());
        }
        head_bytes.extend_from_slice(b"\r\n");
        let is_head_request = *method == Method::HEAD;
        if body.len() > MAX_COALESCED_BODY {
            return Self { head_bytes, body, is_head_request };
        }
        head_bytes.extend_from_slice(&body);
        Self { head_bytes, body: Bytes::new(), is_head_request }
    }

    /// Whether this is a `HEAD` request, whose response has no body.
    pub(crate) fn is_head_request(&self) -> bool {
        self.is_head_request
    }

    /// Returns the bytes after the first `sent` bytes.
    pub(crate) fn remaining_slices(&self, sent: usize) -> [&[u8]; 2] {
        let sent_of_body = sent.saturating_sub(self.head_bytes.len());
        [(&self.head_bytes[..], sent), (&self.body[..], sent_of_body)]
            .map(|(bytes, sent)| bytes.get(sent..).unwrap_or_default())
    }
}
