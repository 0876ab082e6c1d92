//! A request's body as it arrives: bounded in time and memory, and awaited only for who may call.

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

use super::connection::ConnectionState;
use super::message_budget::{MESSAGE_TIME, MessageBudget, Reservation, too_slow};
use crate::message::{HEAD, length};
use crate::serve::Boxed;

/// Any error of a body.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

pub(super) struct RequestBody {
    body: Incoming,
    state: Arc<ConnectionState>,
    reserved: Reservation<Unfinished>,
    /// Nothing where the body is a stream of messages that may go on, and needs no credential.
    message: Option<OneMessage>,
}

/// The one message of a body.
struct OneMessage {
    /// Its first bytes, which say how long it is.
    head: Vec<u8>,
    received: usize,
    /// Those that came with the call.
    headers: HeaderMap,
    /// Set where it has not come together with its headers.
    waiting: Option<Waiting>,
}

/// What a message is waited for with.
struct Waiting {
    /// Whether its sender may call, until that is known.
    admission: Option<Boxed<Result<(), Status>>>,
    /// Until when it must have come.
    until: Pin<Box<Sleep>>,
}

/// The budget of a connection.
struct Unfinished(Arc<ConnectionState>);

impl std::ops::Deref for Unfinished {
    type Target = MessageBudget;

    fn deref(&self) -> &MessageBudget {
        &self.0.unfinished
    }
}

impl RequestBody {
    /// With the headers of a call of one message; without, for anything else.
    pub(super) fn new(
        body: Incoming,
        state: Arc<ConnectionState>,
        headers: Option<HeaderMap>,
    ) -> Self {
        let reserved = Reservation::new(Unfinished(Arc::clone(&state)));
        let message = headers.map(|headers| OneMessage {
            head: Vec::with_capacity(HEAD),
            received: 0,
            headers,
            waiting: None,
        });
        Self { body, state, reserved, message }
    }
}

impl OneMessage {
    /// Counts bytes that arrived.
    fn add(&mut self, data: &[u8]) -> Result<(), Status> {
        let missing = HEAD.saturating_sub(self.head.len()).min(data.len());
        self.head.extend(data.iter().take(missing));
        self.received = self.received.saturating_add(data.len());
        if self.head.len() == HEAD && self.received > length(&self.head)?.saturating_add(HEAD) {
            return Err(Status::invalid_argument("there is more than one message"));
        }
        Ok(())
    }

    /// Ready where it is waited for no longer: its sender may not call, or took too long.
    fn poll_refused(&mut self, state: &ConnectionState, cx: &mut Context<'_>) -> Poll<Status> {
        let Waiting { admission, until } = self.waiting.get_or_insert_with(|| {
            let headers = MetadataMap::from_headers(std::mem::take(&mut self.headers));
            let admission = state.ways.tools.admit(headers, state.connection.clone());
            let until = Box::pin(tokio::time::sleep(MESSAGE_TIME));
            Waiting { admission: Some(admission), until }
        });
        if let Some(pending) = admission {
            match pending.as_mut().poll(cx) {
                Poll::Ready(Err(status)) => return Poll::Ready(status),
                Poll::Ready(Ok(())) => *admission = None,
                Poll::Pending => {}
            }
        }
        until.as_mut().poll(cx).map(|()| too_slow())
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
                let refused = ready!(message.poll_refused(&me.state, cx));
                return Poll::Ready(Some(Err(refused.into())));
            }
            (frame, _) => ready!(frame),
        };
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            me.reserved.add(data.len())?;
            if let Some(message) = &mut me.message {
                message.add(data)?;
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
