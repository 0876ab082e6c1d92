//! The body of a request, bounded in time and memory. Waits only for callers that were admitted.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Sleep;
use tonic::Status;
use tonic::metadata::MetadataMap;

use super::hyper_connection::ConnectionState;
use super::message_budget::{BudgetReservation, MESSAGE_TIMEOUT, MessageBudget, timeout_status};
use crate::framing::{FRAME_HEADER_BYTES, parse_frame_length};
use crate::server::ServiceFuture;

/// Any error of a request body.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

pub(super) struct RequestBody {
    body: Incoming,
    state: Arc<ConnectionState>,
    reservation: BudgetReservation<ConnectionBudget>,
    /// `None` for a stream of messages, which needs no credential.
    message: Option<UnaryMessage>,
}

/// The message of a unary call.
struct UnaryMessage {
    /// The frame header, which has the length.
    head: Vec<u8>,
    received_bytes: usize,
    /// The headers of the call.
    headers: HeaderMap,
    /// Set if the message did not arrive together with its headers.
    pending_wait: Option<MessageWait>,
}

/// The state of waiting for a message.
struct MessageWait {
    /// The admission check of the sender, until it completes.
    admission: Option<ServiceFuture<Result<(), Status>>>,
    /// The deadline of the message.
    deadline: Pin<Box<Sleep>>,
}

/// The message budget of a connection.
struct ConnectionBudget(Arc<ConnectionState>);

impl std::ops::Deref for ConnectionBudget {
    type Target = MessageBudget;

    fn deref(&self) -> &MessageBudget {
        &self.0.message_budget
    }
}

impl RequestBody {
    /// Creates the body of a unary call, with its headers, or of any other request, without.
    pub(super) fn new(
        body: Incoming,
        state: Arc<ConnectionState>,
        headers: Option<HeaderMap>,
    ) -> Self {
        let reservation = BudgetReservation::new(ConnectionBudget(Arc::clone(&state)));
        let message = headers.map(|headers| UnaryMessage {
            head: Vec::with_capacity(FRAME_HEADER_BYTES),
            received_bytes: 0,
            headers,
            pending_wait: None,
        });
        Self { body, state, reservation, message }
    }
}

impl UnaryMessage {
    /// Counts bytes that arrived.
    fn observe_data(&mut self, data: &[u8]) -> Result<(), Status> {
        let missing = FRAME_HEADER_BYTES.saturating_sub(self.head.len()).min(data.len());
        self.head.extend(data.iter().take(missing));
        self.received_bytes = self.received_bytes.saturating_add(data.len());
        if self.head.len() == FRAME_HEADER_BYTES
            && self.received_bytes
                > parse_frame_length(&self.head)?.saturating_add(FRAME_HEADER_BYTES)
        {
            return Err(Status::invalid_argument("there is more than one message"));
        }
        Ok(())
    }

    /// Ready when the wait ends without a message: the sender was not admitted, or the message
    /// timed out.
    fn poll_rejection(&mut self, state: &ConnectionState, cx: &mut Context<'_>) -> Poll<Status> {
        let MessageWait { admission, deadline } = self.pending_wait.get_or_insert_with(|| {
            let headers = MetadataMap::from_headers(std::mem::take(&mut self.headers));
            let admission =
                state.handlers.tool_service.check_admission(headers, state.extension.clone());
            let until = Box::pin(tokio::time::sleep(MESSAGE_TIMEOUT));
            MessageWait { admission: Some(admission), deadline: until }
        });
        if let Some(pending) = admission {
            match pending.as_mut().poll(cx) {
                Poll::Ready(Err(status)) => return Poll::Ready(status),
                Poll::Ready(Ok(())) => *admission = None,
                Poll::Pending => {}
            }
        }
        deadline.as_mut().poll(cx).map(|()| timeout_status())
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let me = &mut *self;
        let frame = match (Pin::new(&mut me.body).poll_frame(cx), &mut me.message) {
            (Poll::Pending, Some(message)) => {
                let refused = ready!(message.poll_rejection(&me.state, cx));
                return Poll::Ready(Some(Err(refused.into())));
            }
            (frame, _) => ready!(frame),
        };
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            me.reservation.reserve_bytes(data.len())?;
            if let Some(message) = &mut me.message {
                message.observe_data(data)?;
            }
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
