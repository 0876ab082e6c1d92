//! A response as its caller has it.

use std::sync::Arc;

use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Response, StatusCode};
use http1::ResponseHead;

use super::Body;

/// A response: its head, and its body as it comes. The head is shared with others that said the same on
/// one connection.
#[derive(Debug)]
pub struct Received {
    head: Arc<ResponseHead>,
    content_length: Option<u64>,
    body: Body,
}

impl Received {
    pub(super) fn new(head: Arc<ResponseHead>, content_length: Option<u64>, body: Body) -> Self {
        Self { head, content_length, body }
    }

    /// Whatever it is.
    pub fn status(&self) -> StatusCode {
        self.head.status
    }

    /// All of them, but for [the length](Self::content_length).
    pub fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// What `Content-Length` says of the body, where it has that length. Without a body it is a header.
    pub fn content_length(&self) -> Option<u64> {
        self.content_length
    }

    /// Without its head.
    pub fn into_body(self) -> Body {
        self.body
    }

    /// Apart.
    pub fn into_parts(self) -> (Arc<ResponseHead>, Body) {
        (self.head, self.body)
    }
}

/// With a head of its own, for what takes nothing else.
impl From<Received> for Response<Body> {
    fn from(received: Received) -> Self {
        let Received { head, content_length, body } = received;
        let mut response = Self::new(body);
        *response.status_mut() = head.status;
        *response.headers_mut() = head.headers.clone();
        if let Some(length) = content_length {
            response.headers_mut().insert(CONTENT_LENGTH, length.into());
        }
        response
    }
}
