//! A response as its caller has it.

use std::sync::Arc;

use http::{HeaderMap, Response, StatusCode};

use super::Body;

/// What the head of a response says.
#[derive(Debug)]
pub struct Said {
    /// Whatever it is.
    pub status: StatusCode,
    /// All of them.
    pub headers: HeaderMap,
}

/// A response: its head, and its body as it comes. The head is shared with others that said the same on
/// one connection.
#[derive(Debug)]
pub struct Received {
    said: Arc<Said>,
    body: Body,
}

impl Received {
    pub(super) fn new(said: Arc<Said>, body: Body) -> Self {
        Self { said, body }
    }

    /// Whatever it is.
    pub fn status(&self) -> StatusCode {
        self.said.status
    }

    /// All of them.
    pub fn headers(&self) -> &HeaderMap {
        &self.said.headers
    }

    /// Without its head.
    pub fn into_body(self) -> Body {
        self.body
    }

    /// Apart.
    pub fn into_parts(self) -> (Arc<Said>, Body) {
        (self.said, self.body)
    }
}

/// With a head of its own, for what takes nothing else.
impl From<Received> for Response<Body> {
    fn from(received: Received) -> Self {
        let Received { said, body } = received;
        let mut response = Self::new(body);
        *response.status_mut() = said.status;
        *response.headers_mut() = said.headers.clone();
        response
    }
}
