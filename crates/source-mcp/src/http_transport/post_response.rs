//! Response to an HTTP POST request: one message, or an event stream that ends with one.

use std::sync::Arc;

use ::mcp::RpcMessage;
use egress::{EgressBody, EgressResponse};
use http::{HeaderValue, StatusCode};
use tool::JsonLimits;

use super::response_body::ContentKind;
use super::response_stream::ResponseStream;
use super::session::SESSION_ID_HEADER;
use super::{StreamableHttpTransport, response_body};
use crate::connection::{DeliveryError, McpConnection};
use crate::delivery_errors::HttpRequestError;
use crate::in_flight_request::{InvalidResult, RequestEvent};
use tool::display_text::escape_and_truncate;

/// Response to one POST request.
#[derive(Debug)]
pub(crate) struct PostResponse {
    /// Id of the session that the response opens.
    pub(crate) session_id: Option<HeaderValue>,
    body: PostBody,
}

#[derive(Debug)]
enum PostBody {
    Single(Option<RequestEvent>),
    Stream(Box<ResponseStream>),
}

impl PostResponse {
    /// Reads the head of a response, and its whole body if it is a single message.
    pub(super) async fn from_response(
        endpoint: &StreamableHttpTransport,
        response: EgressResponse,
        id: i64,
        is_negotiation: bool,
    ) -> Result<Self, HttpRequestError> {
        let session = response.headers().get(SESSION_ID_HEADER).cloned();
        let status = response.status();
        let kind = match response_body::content_kind(&response) {
            _ if !status.is_success() => {
                // Boxed: keeps the future of accepted responses small.
                let error =
                    Box::pin(response_body::read_rpc_refusal(response, is_negotiation)).await?;
                PostBody::Single(Some(RequestEvent::Response(Err(error))))
            }
            ContentKind::EventStream => PostBody::Stream(Box::new(ResponseStream::new(
                response.into_body(),
                endpoint.max_message_bytes,
            ))),
            ContentKind::Json => PostBody::Single(Some(
                read_single_message(response.into_body(), endpoint.max_message_bytes, id).await?,
            )),
            ContentKind::Other
                if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) =>
            {
                response_body::drain_body(response.into_body()).await;
                return Err(missing_response_error());
            }
            ContentKind::Other => return Err(response_body::unexpected_content_error(&response)),
        };
        Ok(Self { session_id: session, body: kind })
    }

    /// Whether the response says that the session is unknown. Servers should answer 404, but many
    /// answer 400 with such a message.
    pub(super) fn is_session_lost(&self) -> bool {
        let PostBody::Single(Some(RequestEvent::Response(Err(error)))) = &self.body else {
            return false;
        };
        let said = error.message.to_ascii_lowercase();
        ["session", "not initialized"].iter().any(|word| said.contains(word))
    }

    /// Returns the next event of the response.
    pub(crate) async fn next_event(
        &mut self,
        connection: &Arc<McpConnection>,
        id: i64,
    ) -> Result<RequestEvent, DeliveryError> {
        match &mut self.body {
            PostBody::Single(answer) => answer.take().ok_or(DeliveryError::ConnectionLost),
            // Boxed: keeps the future of responses without a stream small.
            PostBody::Stream(stream) => Box::pin(stream.next_event(connection, id)).await,
        }
    }
}

async fn read_single_message(
    body: EgressBody,
    max_bytes: usize,
    id: i64,
) -> Result<RequestEvent, HttpRequestError> {
    let body = response_body::read_bounded(body, max_bytes).await?;
    let limits = JsonLimits { max_bytes, ..JsonLimits::DOCUMENT };
    match RpcMessage::parse(body.clone(), limits) {
        Ok(RpcMessage::Response(answer)) => {
            let of = answer.id.as_ref().map(::mcp::RequestId::as_number);
            if of.is_some_and(|of| of != Some(id)) {
                return Err(HttpRequestError::malformed(
                    "returned a response to another \
                    request"
                        .to_owned(),
                ));
            }
            Ok(RequestEvent::Response(answer.result))
        }
        Ok(RpcMessage::Request(_) | RpcMessage::Notification(_)) => Err(missing_response_error()),
        Err(fault) => {
            if let Some((of, spoiled)) =
                InvalidResult::from_response(&body, &fault).filter(|(of, _)| *of == id)
            {
                tracing::debug!(of, "a response does not pass validation");
                return Ok(RequestEvent::InvalidResponse(spoiled));
            }
            let why = escape_and_truncate(&fault.to_string(), 200);
            Err(HttpRequestError::malformed(format!("returned an invalid MCP message: {why}")))
        }
    }
}

fn missing_response_error() -> HttpRequestError {
    HttpRequestError::malformed("returned no response to a request".to_owned())
}
