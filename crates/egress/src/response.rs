//! The response of a request: its head and its streaming body.

use std::sync::Arc;

use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Response, StatusCode};
use http1::ResponseHead;

use super::EgressBody;

/// A response: its head and its streaming body. Responses of one connection with equal heads share
/// the head.
#[derive(Debug)]
pub struct EgressResponse {
    head: Arc<ResponseHead>,
    content_length: Option<u64>,
    body: EgressBody,
}

impl EgressResponse {
    pub(super) fn new(
        head: Arc<ResponseHead>,
        content_length: Option<u64>,
        body: EgressBody,
    ) -> Self {
        Self { head, content_length, body }
    }

    /// Returns the status code, which may be an error.
    pub fn status(&self) -> StatusCode {
        self.head.status
    }

    /// Returns all headers except [the length](Self::content_length).
    pub fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// Returns the value of `Content-Length` if it frames the body. Without a body it is a header.
    pub fn content_length(&self) -> Option<u64> {
        self.content_length
    }

    /// Returns the body and drops the head.
    pub fn into_body(self) -> EgressBody {
        self.body
    }

    /// Splits the response into head and body.
    pub fn into_parts(self) -> (Arc<ResponseHead>, EgressBody) {
        (self.head, self.body)
    }
}

/// Copies the shared head into an `http::RpcResponse`.
impl From<EgressResponse> for Response<EgressBody> {
    fn from(received: EgressResponse) -> Self {
        let EgressResponse { head, content_length, body } = received;
        let mut response = Self::new(body);
        *response.status_mut() = head.status;
        *response.headers_mut() = head.headers.clone();
        if let Some(length) = content_length {
            response.headers_mut().insert(CONTENT_LENGTH, length.into());
        }
        response
    }
}
