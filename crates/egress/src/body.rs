//! The body of a response, as it comes: bounded in size and in the time between two parts.

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
use tool::executor::Sent;

use super::connection::Connection;
use super::error::{EgressError, Phase, Shown};
use super::pool::{Key, Pool};

/// The body of a response. Read to its end, its connection is used again; dropped before, the
/// connection is closed, which the other side sees at once.
pub struct Body(Box<Reading>);

/// Boxed: a body is handed on many times until it is read.
struct Reading {
    framing: BodyFraming,
    open: Option<Open>,
    url: Shown,
    idle: Duration,
    limit: usize,
    left: usize,
    timer: Option<Pin<Box<Sleep>>>,
    /// Whether the timer runs: only while somebody waits for more.
    waiting: bool,
}

/// What is given back at the end.
pub(super) struct Open {
    pub(super) conn: Connection,
    pub(super) key: Key,
    pub(super) pool: Arc<Pool>,
    /// A place among the open requests.
    pub(super) _place: OwnedSemaphorePermit,
}

impl Body {
    pub(super) fn new(
        framing: BodyFraming,
        open: Open,
        url: Shown,
        idle: Duration,
        limit: usize,
    ) -> Self {
        let (open, timer, left) = (Some(open), None, limit);
        let mut reading = Reading { framing, open, url, idle, limit, left, timer, waiting: false };
        // Where nothing is to come, the connection is free at once.
        reading.settle();
        Self(Box::new(reading))
    }

    /// The next part; `None` at the end.
    ///
    /// # Errors
    /// [`EgressError::TooLarge`], [`EgressError::TimedOut`] where nothing came for the idle time, and
    /// [`EgressError::Protocol`] where the other side broke off.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, EgressError> {
        poll_fn(|cx| self.0.poll_chunk(cx)).await.transpose()
    }

    /// Whether it is known that nothing more comes.
    pub fn is_over(&self) -> bool {
        self.0.framing.is_complete()
    }

    /// All of it.
    ///
    /// # Errors
    /// As of [`chunk`](Self::chunk).
    pub async fn bytes(mut self) -> Result<Bytes, EgressError> {
        let Some(first) = self.chunk().await? else { return Ok(Bytes::new()) };
        let Some(second) = self.chunk().await? else { return Ok(first) };
        let mut all = BytesMut::from(first);
        all.extend_from_slice(&second);
        while let Some(more) = self.chunk().await? {
            all.extend_from_slice(&more);
        }
        Ok(all.freeze())
    }
}

impl Reading {
    fn settle(&mut self) {
        if self.framing.is_complete() {
            self.give_back();
        }
    }

    fn give_back(&mut self) {
        if let Some(mut open) = self.open.take()
            && open.conn.is_free()
        {
            open.pool.put(open.key, open.conn);
        }
    }

    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, ProtocolError>>> {
        match &mut self.open {
            Some(open) => open.conn.poll_part(&mut self.framing, cx),
            None => Poll::Ready(None),
        }
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, EgressError>>> {
        let Poll::Ready(part) = self.poll_part(cx) else {
            let late = ready!(self.poll_idle(cx));
            return self.fail(late);
        };
        self.waiting = false;
        match part {
            None => {
                self.settle();
                Poll::Ready(None)
            }
            Some(Ok(data)) => match self.count(data.len()) {
                Ok(()) => {
                    self.settle();
                    Poll::Ready(Some(Ok(data)))
                }
                Err(large) => self.fail(large),
            },
            Some(Err(error)) => {
                let what = format!("the response broke off: {error}");
                let url = self.url.clone();
                self.fail(EgressError::Protocol { url, what, sent: Sent::Maybe })
            }
        }
    }

    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<EgressError> {
        if self.idle == Duration::MAX {
            return Poll::Pending;
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.idle)));
        if !self.waiting {
            self.waiting = true;
            timer.as_mut().reset(Instant::now() + self.idle);
        }
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(EgressError::TimedOut {
            url: self.url.clone(),
            phase: Phase::Body,
            after: self.idle,
            sent: Sent::Maybe,
        })
    }

    /// Ends it: what failed once brings nothing more.
    fn fail(&mut self, error: EgressError) -> Poll<Option<Result<Bytes, EgressError>>> {
        self.open = None;
        Poll::Ready(Some(Err(error)))
    }

    fn count(&mut self, length: usize) -> Result<(), EgressError> {
        self.left = self
            .left
            .checked_sub(length)
            .ok_or_else(|| EgressError::TooLarge { url: self.url.clone(), limit: self.limit })?;
        Ok(())
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = EgressError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, EgressError>>> {
        self.get_mut().0.poll_chunk(cx).map_ok(Frame::data)
    }

    fn is_end_stream(&self) -> bool {
        self.is_over()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.framing.length().map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body")
            .field("url", &self.0.url)
            .field("left", &self.0.left)
            .finish_non_exhaustive()
    }
}
