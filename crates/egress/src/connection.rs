//! A connection that was dialled, read by this project's HTTP/1.1 or by hyper's.

mod standard;

use std::task::{Context, Poll};

use bytes::Bytes;
use http::Request;
use http1::{
    BodyFraming, ClientConnection, EncodedRequest, ExchangeError, ProtocolError, ResponseStart,
};

use crate::dial::Stream;
use standard::StandardConnection;

/// Which implementation of HTTP/1.1 requests go out with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HttpStack {
    /// This project's: less work for each request.
    #[default]
    Fast,
    /// hyper alone.
    Standard,
}

impl HttpStack {
    /// As the configuration has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Standard => "standard",
        }
    }
}

/// A request in the form that its connection takes.
pub(super) enum Outgoing {
    Fast(EncodedRequest),
    Standard(Box<Request<Bytes>>),
}

/// See the module's header.
#[derive(Debug)]
pub(super) enum Connection {
    Fast(ClientConnection<Stream>),
    Standard(Box<StandardConnection>),
}

impl Connection {
    pub(super) async fn over(stream: Stream, http: HttpStack) -> Result<Self, hyper::Error> {
        Ok(match http {
            HttpStack::Fast => Self::Fast(ClientConnection::new(stream)),
            HttpStack::Standard => Self::Standard(Box::new(StandardConnection::new(stream).await?)),
        })
    }

    /// Whether the other side has kept quiet and is there, as far as is known.
    pub(super) fn is_quiet(&mut self) -> bool {
        match self {
            Self::Fast(connection) => connection.is_quiet(),
            Self::Standard(connection) => connection.is_free(),
        }
    }

    /// Whether it can take another request.
    pub(super) fn is_free(&mut self) -> bool {
        match self {
            Self::Fast(connection) => connection.is_free(),
            Self::Standard(connection) => connection.is_free(),
        }
    }

    pub(super) async fn send(
        &mut self,
        request: &Outgoing,
    ) -> Result<ResponseStart, ExchangeError> {
        match (self, request) {
            (Self::Fast(connection), Outgoing::Fast(request)) => connection.send(request).await,
            (Self::Standard(connection), Outgoing::Standard(request)) => {
                Box::pin(connection.send(request)).await
            }
            // One way out has one implementation, and so have its pool and its requests.
            _ => {
                let error = ProtocolError::Invalid("it is of another implementation of HTTP");
                Err(ExchangeError { is_unsent: true, error })
            }
        }
    }

    /// The next part of a body, which is over where `framing` says so afterwards.
    pub(super) fn poll_part(
        &mut self,
        framing: &mut BodyFraming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, ProtocolError>>> {
        match self {
            Self::Fast(connection) => connection.poll_part(framing, cx),
            Self::Standard(connection) => connection.poll_part(framing, cx),
        }
    }
}
