//! Requests as the bytes that go out.

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{Method, header};

use crate::MAX_COALESCED_BODY;
use crate::head_writer::write_field;

/// A request as bytes.
#[derive(Debug)]
pub struct EncodedRequest {
    /// The head, and the body where that is small.
    text: Vec<u8>,
    /// The body, where it is not in the text.
    body: Bytes,
    is_head: bool,
}

/// Writes what follows the method up to the fields.
pub fn write_target(text: &mut Vec<u8>, path: &PathAndQuery) {
    text.push(b' ');
    text.extend_from_slice(path.as_str().as_bytes());
    text.extend_from_slice(b" HTTP/1.1\r\n");
}

/// Whether a request has a `Content-Length`: also where it is zero, if the method has bodies (RFC 9110, 8.6).
pub fn sends_length(method: &Method, body: &[u8]) -> bool {
    !body.is_empty() || [Method::POST, Method::PUT, Method::PATCH].contains(method)
}

impl EncodedRequest {
    /// Room for a head of `head` bytes with few further fields, and a body of `body` bytes, in bytes.
    pub fn capacity(head: usize, body: usize) -> usize {
        head + body.min(MAX_COALESCED_BODY) + 256
    }

    /// Ends a request whose `text` is its request line and all its fields but the length.
    pub fn finish(mut text: Vec<u8>, method: &Method, body: Bytes) -> Self {
        if sends_length(method, &body) {
            let mut digits = itoa::Buffer::new();
            let length = digits.format(body.len());
            write_field(&mut text, header::CONTENT_LENGTH.as_str(), length.as_bytes());
        }
        text.extend_from_slice(b"\r\n");
        let is_head = *method == Method::HEAD;
        if body.len() > MAX_COALESCED_BODY {
            return Self { text, body, is_head };
        }
        text.extend_from_slice(&body);
        Self { text, body: Bytes::new(), is_head }
    }

    /// Whether its response has no body.
    pub(crate) fn is_head(&self) -> bool {
        self.is_head
    }

    /// What follows the first `sent` bytes.
    pub(crate) fn after(&self, sent: usize) -> [&[u8]; 2] {
        let of_body = sent.saturating_sub(self.text.len());
        [(&self.text[..], sent), (&self.body[..], of_body)]
            .map(|(bytes, sent)| bytes.get(sent..).unwrap_or_default())
    }
}
