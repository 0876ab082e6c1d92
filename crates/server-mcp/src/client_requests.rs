//! Requests to a client of an MCP version with a handshake, while its call runs.

use std::sync::Arc;

use mcp::{encode, sse};
use tool::executor::{ClientCapabilities, ClientRequestError, ClientRequester};
use tool::{BoxFuture, Json};

use super::client_capabilities;
use super::event_sink::EventSink;
use super::session_runtime::SessionRuntime;

/// Maximum characters of a client's error message that are passed on.
const MAX_ERROR_CHARS: usize = 512;

/// Sends the requests of one call to its client, over the streams of the session.
#[derive(Debug)]
pub(crate) struct SessionRequester {
    pub(crate) runtime: Arc<SessionRuntime>,
    pub(crate) event_sink: Arc<EventSink>,
    pub(crate) capabilities: ClientCapabilities,
}

impl SessionRequester {
    async fn send_request(&self, method: &str, params: Json) -> Result<Json, ClientRequestError> {
        if !client_capabilities::supports_request(&self.capabilities, method, &params) {
            return Err(ClientRequestError::Unavailable);
        }
        // The request is withdrawn once nobody waits for its response.
        let (question, answer) =
            self.runtime.register_client_request().ok_or(ClientRequestError::Unavailable)?;
        let event = sse::encode_event(&encode::encode_request(&question.id(), method, &params));
        if !self.event_sink.send_required(event.clone()) && !self.runtime.send_required(event) {
            return Err(ClientRequestError::Unavailable);
        }
        let answered = answer.await.map_err(|_| ClientRequestError::Unavailable)?;
        drop(question);
        answered.map_err(|error| ClientRequestError::Refused {
            code: error.code,
            message: error.message.chars().take(MAX_ERROR_CHARS).collect(),
        })
    }
}

impl ClientRequester for SessionRequester {
    fn send_request<'a>(
        &'a self,
        method: &'a str,
        params: Json,
    ) -> BoxFuture<'a, Result<Json, ClientRequestError>> {
        Box::pin(self.send_request(method, params))
    }
}
