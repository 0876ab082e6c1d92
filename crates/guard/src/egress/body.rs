//! The body of a response, as it comes: bounded in size and in the time between two parts.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep};
use tool::executor::Sent;

use super::error::{EgressError, Phase, Shown};
use super::pool::{Conn, Key, Pool};

/// The body of a response. Read to its end, its connection is used again; dropped before, the
/// connection is closed, which the other side sees at once.
pub struct Body {
    incoming: Incoming,
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
    pub(super) conn: Conn,
    pub(super) key: Key,
    pub(super) pool: Arc<Pool>,
    /// A place among the open requests.
    pub(super) _place: OwnedSemaphorePermit,
}

impl Body {
    pub(super) fn new(
        incoming: Incoming,
        open: Open,
        url: Shown,
        idle: Duration,
        limit: usize,
    ) -> Self {
        Self {
            incoming,
            open: Some(open),
            url,
            idle,
            limit,
            left: limit,
            timer: None,
            waiting: false,
        }
    }

    /// The next part; `None` at the end.
    ///
    /// # Errors
    /// [`EgressError::TooLarge`], [`EgressError::TimedOut`] where nothing came for the idle time, and
    /// [`EgressError::Protocol`] where the other side broke off.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, EgressError> {
        loop {
            let Some(frame) = poll_fn(|cx| Pin::new(&mut *self).poll_frame(cx)).await else {
                return Ok(None);
            };
            // Trailers are of no use here.
            if let Ok(data) = frame?.into_data() {
                return Ok(Some(data));
            }
        }
    }

    /// Whether it is known that nothing more comes.
    pub fn is_over(&self) -> bool {
        self.incoming.is_end_stream()
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

    /// Where nothing is to come, the connection is free at once.
    pub(super) fn settle(&mut self) {
        if self.incoming.is_end_stream() {
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

    fn poll_incoming(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(cx) {
            return Poll::Ready(frame);
        }
        if let Some(open) = &mut self.open {
            open.conn.poll_drive(cx);
        }
        Pin::new(&mut self.incoming).poll_frame(cx)
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
    fn fail(&mut self, error: EgressError) -> Poll<Option<Result<Frame<Bytes>, EgressError>>> {
        self.open = None;
        Poll::Ready(Some(Err(error)))
    }

    fn count(&mut self, data: Option<&Bytes>) -> Result<(), EgressError> {
        let length = data.map_or(0, Bytes::len);
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
        let this = self.get_mut();
        let Poll::Ready(frame) = this.poll_incoming(cx) else {
            let late = ready!(this.poll_idle(cx));
            return this.fail(late);
        };
        this.waiting = false;
        match frame {
            None => {
                this.give_back();
                Poll::Ready(None)
            }
            Some(Ok(frame)) => match this.count(frame.data_ref()) {
                Ok(()) => {
                    this.settle();
                    Poll::Ready(Some(Ok(frame)))
                }
                Err(large) => this.fail(large),
            },
            Some(Err(error)) => {
                let what = format!("the response broke off: {}", super::told(&error));
                let url = this.url.clone();
                this.fail(EgressError::Protocol { url, what, sent: Sent::Maybe })
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body")
            .field("url", &self.url)
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}
