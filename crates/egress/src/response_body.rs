//! The streaming body of a response, bounded in size and in idle time.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::{Frame, SizeHint};
use http1::{BodyFraming, ProtocolError};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep};
use tool::executor::DispatchState;

use super::connection_pool::{ConnectionPool, PoolKey};
use super::error::{EgressError, RedactedUrl, RequestPhase};
use super::http_connection::HttpConnection;

/// Maximum number of bytes that are allocated because a server announces them.
const MAX_ALLOCATED_AHEAD: usize = 16 << 20;

/// The streaming body of a response. Reading it to the end returns its connection to the pool.
/// Dropping it earlier closes the connection, which tells the server to stop.
pub struct EgressBody(Box<BodyReader>);

/// The state of a body that is being read. Boxed, because a body is moved often before it is read.
struct BodyReader {
    framing: BodyFraming,
    guard: Option<ConnectionGuard>,
    url: RedactedUrl,
    idle_timeout: Duration,
    max_bytes: usize,
    remaining_bytes: usize,
    idle_timer: Option<Pin<Box<Sleep>>>,
    /// Whether the idle timer runs: only while the reader waits for data.
    is_timer_armed: bool,
}

/// The connection of a body, returned to the pool when the body ends.
pub(super) struct ConnectionGuard {
    pub(super) connection: HttpConnection,
    pub(super) key: PoolKey,
    pub(super) pool: Arc<ConnectionPool>,
    /// The permit of the open request.
    pub(super) _permit: OwnedSemaphorePermit,
}

impl EgressBody {
    pub(super) fn new(
        framing: BodyFraming,
        guard: ConnectionGuard,
        url: RedactedUrl,
        idle_timeout: Duration,
        max_bytes: usize,
    ) -> Self {
        let (open, idle_timer, remaining_bytes) = (Some(guard), None, max_bytes);
        let mut reader = BodyReader {
            framing,
            guard: open,
            url,
            idle_timeout,
            max_bytes,
            remaining_bytes,
            idle_timer,
            is_timer_armed: false,
        };
        // An empty body releases the connection at once.
        reader.release_if_complete();
        Self(Box::new(reader))
    }

    /// Returns the next chunk, or `None` at the end of the body.
    ///
    /// # Errors
    /// [`EgressError::TooLarge`], [`EgressError::TimedOut`] if no data arrived within the idle
    /// timeout, and [`EgressError::Protocol`] if the server closed the connection early.
    pub async fn next_chunk(&mut self) -> Result<Option<Bytes>, EgressError> {
        poll_fn(|cx| self.0.poll_chunk(cx)).await.transpose()
    }

    /// Whether the body is known to have ended.
    pub fn is_complete(&self) -> bool {
        self.0.framing.is_complete()
    }

    /// Reads the whole body.
    ///
    /// # Errors
    /// As of [`next_chunk`](Self::next_chunk).
    pub async fn collect_bytes(mut self) -> Result<Bytes, EgressError> {
        let Some(first) = self.next_chunk().await? else { return Ok(Bytes::new()) };
        let Some(second) = self.next_chunk().await? else { return Ok(first) };
        // Allocated once: growing would copy a large body repeatedly.
        let mut all = BytesMut::with_capacity(first.len() + second.len() + self.0.expected_bytes());
        all.extend_from_slice(&first);
        all.extend_from_slice(&second);
        while let Some(more) = self.next_chunk().await? {
            all.extend_from_slice(&more);
        }
        Ok(all.freeze())
    }
}

impl BodyReader {
    /// Returns how many bytes the server still announces, as far as they are allowed and worth
    /// allocating at once.
    fn expected_bytes(&self) -> usize {
        let BodyFraming::Length(rest) = self.framing else { return 0 };
        let rest = usize::try_from(rest).unwrap_or(usize::MAX);
        rest.min(self.remaining_bytes).min(MAX_ALLOCATED_AHEAD)
    }

    fn release_if_complete(&mut self) {
        if self.framing.is_complete() {
            self.release_connection();
        }
    }

    fn release_connection(&mut self) {
        if let Some(mut guard) = self.guard.take()
            && guard.connection.is_idle()
        {
            guard.pool.put_connection(guard.key, guard.connection);
        }
    }

    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, ProtocolError>>> {
        match &mut self.guard {
            Some(guard) => guard.connection.poll_part(&mut self.framing, cx),
            None => Poll::Ready(None),
        }
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, EgressError>>> {
        let Poll::Ready(part) = self.poll_part(cx) else {
            let timeout_error = ready!(self.poll_idle_timeout(cx));
            return self.fail_reading(timeout_error);
        };
        self.is_timer_armed = false;
        match part {
            None => {
                self.release_if_complete();
                Poll::Ready(None)
            }
            Some(Ok(data)) => match self.charge_bytes(data.len()) {
                Ok(()) => {
                    self.release_if_complete();
                    Poll::Ready(Some(Ok(data)))
                }
                Err(size_error) => self.fail_reading(size_error),
            },
            Some(Err(error)) => {
                let reason = format!("the response ended early: {error}");
                let url = self.url.clone();
                self.fail_reading(EgressError::Protocol {
                    url,
                    reason,
                    dispatch: DispatchState::MaybeSent,
                })
            }
        }
    }

    fn poll_idle_timeout(&mut self, cx: &mut Context<'_>) -> Poll<EgressError> {
        if self.idle_timeout == Duration::MAX {
            return Poll::Pending;
        }
        let timer =
            self.idle_timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.idle_timeout)));
        if !self.is_timer_armed {
            self.is_timer_armed = true;
            timer.as_mut().reset(Instant::now() + self.idle_timeout);
        }
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(EgressError::TimedOut {
            url: self.url.clone(),
            phase: RequestPhase::ResponseBody,
            timeout: self.idle_timeout,
            dispatch: DispatchState::MaybeSent,
        })
    }

    /// Closes the connection and returns the error. The body yields no more data.
    fn fail_reading(&mut self, error: EgressError) -> Poll<Option<Result<Bytes, EgressError>>> {
        self.guard = None;
        Poll::Ready(Some(Err(error)))
    }

    fn charge_bytes(&mut self, length: usize) -> Result<(), EgressError> {
        self.remaining_bytes = self.remaining_bytes.checked_sub(length).ok_or_else(|| {
            EgressError::TooLarge { url: self.url.clone(), limit: self.max_bytes }
        })?;
        Ok(())
    }
}

impl http_body::Body for EgressBody {
    type Data = Bytes;
    type Error = EgressError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, EgressError>>> {
        self.get_mut().0.poll_chunk(cx).map_ok(Frame::data)
    }

    fn is_end_stream(&self) -> bool {
        self.is_complete()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.framing.remaining_length().map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl fmt::Debug for EgressBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EgressBody")
            .field("url", &self.0.url)
            .field("remaining_bytes", &self.0.remaining_bytes)
            .finish_non_exhaustive()
    }
}
