//! An open HTTP/1.1 connection, served by the `http1` crate or by hyper.

mod hyper_connection;

use std::task::{Context, Poll};

use bytes::Bytes;
use http::Request;
use http1::{
    BodyFraming, ClientConnection, EncodedRequest, ExchangeError, ProtocolError, ResponseStart,
};

use crate::connector::TransportStream;
use hyper_connection::HyperConnection;

/// The HTTP/1.1 implementation that sends requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HttpStack {
    /// The `http1` crate, with less work for each request.
    #[default]
    Fast,
    /// The hyper library alone.
    Standard,
}

impl HttpStack {
    /// Returns the word of the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Standard => "standard",
        }
    }
}

/// A request in the form that its HTTP implementation sends.
pub(super) enum StackRequest {
    Fast(EncodedRequest),
    Standard(Box<Request<Bytes>>),
}

/// An HTTP/1.1 connection of either implementation.
#[derive(Debug)]
pub(super) enum HttpConnection {
    Fast(ClientConnection<TransportStream>),
    Standard(Box<HyperConnection>),
}

impl HttpConnection {
    pub(super) async fn from_stream(
        stream: TransportStream,
        http_stack: HttpStack,
    ) -> Result<Self, hyper::Error> {
        Ok(match http_stack {
            HttpStack::Fast => Self::Fast(ClientConnection::new(stream)),
            HttpStack::Standard => Self::Standard(Box::new(HyperConnection::new(stream).await?)),
        })
    }

    /// Whether the connection is idle, open and has no unexpected data.
    pub(super) fn is_reusable(&mut self) -> bool {
        match self {
            Self::Fast(connection) => connection.is_reusable(),
            Self::Standard(connection) => connection.is_idle(),
        }
    }

    /// Whether the connection can take another request, without polling the peer.
    pub(super) fn is_idle(&mut self) -> bool {
        match self {
            Self::Fast(connection) => connection.is_idle(),
            Self::Standard(connection) => connection.is_idle(),
        }
    }

    pub(super) async fn send_request(
        &mut self,
        request: &StackRequest,
    ) -> Result<ResponseStart, ExchangeError> {
        match (self, request) {
            (Self::Fast(connection), StackRequest::Fast(request)) => {
                connection.send_request(request).await
            }
            (Self::Standard(connection), StackRequest::Standard(request)) => {
                Box::pin(connection.send_request(request)).await
            }
            // One client has one implementation, which its pool and its requests share.
            _ => {
                let error = ProtocolError::Invalid("it is of another implementation of HTTP");
                Err(ExchangeError { is_unsent: true, error })
            }
        }
    }

    /// Polls the next part of a body. The body has ended if `framing` is complete afterwards.
    pub(super) fn poll_part(
        &mut self,
        framing: &mut BodyFraming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, ProtocolError>>> {
        match self {
            Self::Fast(connection) => connection.poll_body(framing, cx),
            Self::Standard(connection) => connection.poll_part(framing, cx),
        }
    }
}
