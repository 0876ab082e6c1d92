//! Open connections, and those that wait for the next request.
//!
//! A connection is driven by whoever uses it, not by a task of its own: dropped with its request, it
//! is closed at once, and the other side sees that. It is kept under the class, origin and runtime it
//! was made for, and found under no other.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tool::Map;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1};
use hyper_util::rt::TokioIo;
use tokio::time::Instant;

use super::Class;
use super::dial::Stream;
use super::target::Origin;

/// Largest head of a response, and buffer of a connection, in bytes. The number of fields is
/// bounded by hyper, to 100.
const MOST_HEAD: usize = 64 * 1024;

/// One HTTP/1.1 connection.
pub(super) struct Conn {
    sender: http1::SendRequest<Full<Bytes>>,
    /// `None` once it has ended.
    driver: Option<Box<http1::Connection<TokioIo<Stream>, Full<Bytes>>>>,
}

impl Conn {
    pub(super) async fn over(stream: Stream) -> hyper::Result<Self> {
        let (sender, driver) = http1::Builder::new()
            .max_buf_size(MOST_HEAD)
            .max_header_size(MOST_HEAD)
            .handshake(TokioIo::new(stream))
            .await?;
        Ok(Self { sender, driver: Some(Box::new(driver)) })
    }

    /// Moves bytes, both ways.
    pub(super) fn poll_drive(&mut self, cx: &mut Context<'_>) {
        if let Some(driver) = &mut self.driver
            && Pin::new(&mut **driver).poll(cx).is_ready()
        {
            // Why it ended is told to the request or the body, not here.
            self.driver = None;
        }
    }

    /// Sends a request; resolves with the head of its response.
    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Full<Bytes>>>> {
        let mut answer = pin!(self.sender.try_send_request(request));
        poll_fn(|cx| {
            if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
                return Poll::Ready(answer);
            }
            self.poll_drive(cx);
            answer.as_mut().poll(cx)
        })
        .await
    }

    /// Whether it can take another request: after a look at what the other side did meanwhile. Nobody
    /// waits here: who left its waker would be woken by its own next request.
    pub(super) fn is_free(&mut self) -> bool {
        self.poll_drive(&mut Context::from_waker(Waker::noop()));
        self.driver.is_some() && self.sender.is_ready()
    }
}

impl fmt::Debug for Conn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conn").field("open", &self.driver.is_some()).finish_non_exhaustive()
    }
}

/// What a connection was made for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    class: u8,
    origin: Origin,
    /// Used by another one, its socket would wake this one for every byte.
    runtime: tokio::runtime::Id,
}

impl Key {
    pub(super) fn of(class: &Class, origin: &Origin) -> Self {
        let class = match class {
            Class::Operator { .. } => 0,
            Class::Caller => 1,
            Class::Upstream => 2,
        };
        Self { class, origin: origin.clone(), runtime: tokio::runtime::Handle::current().id() }
    }
}

/// How many connections wait, and how long.
#[derive(Debug, Clone, Copy)]
pub struct Keep {
    /// Most in all.
    pub most: usize,
    /// Most to one origin from one runtime.
    pub per_origin: usize,
    /// Longest wait. Common servers close after 5 s (uvicorn, node), so the default is less.
    pub idle: Duration,
}

impl Default for Keep {
    fn default() -> Self {
        Self { most: 256, per_origin: 64, idle: Duration::from_secs(4) }
    }
}

/// The connections that wait.
#[derive(Debug)]
pub(super) struct Pool {
    keep: Keep,
    waiting: Mutex<Map<Key, VecDeque<(Instant, Conn)>>>,
}

impl Pool {
    pub(super) fn new(keep: Keep) -> Self {
        Self { keep, waiting: Mutex::default() }
    }

    /// One that can take a request, the last used first.
    pub(super) fn take(&self, key: &Key) -> Option<Conn> {
        while let Some(mut conn) = self.pop(key) {
            if conn.is_free() {
                return Some(conn);
            }
        }
        None
    }

    fn pop(&self, key: &Key) -> Option<Conn> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = waiting.get_mut(key)?;
        let last = queue.pop_back();
        if queue.is_empty() {
            waiting.remove(key);
        }
        // Older ones wait longer still; `sweep` takes them.
        last.filter(|(since, _)| since.elapsed() < self.keep.idle).map(|(_, conn)| conn)
    }

    /// Keeps one that is free. Where there is no room, the one that waits longest goes.
    pub(super) fn put(&self, key: Key, conn: Conn) {
        let mut gone = self.expired();
        {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let queue = waiting.entry(key).or_default();
            queue.push_back((Instant::now(), conn));
            if queue.len() > self.keep.per_origin {
                gone.extend(queue.pop_front());
            }
            if waiting.values().map(VecDeque::len).sum::<usize>() > self.keep.most {
                gone.extend(longest(&mut waiting));
            }
        }
        // Closed outside the lock.
        drop(gone);
    }

    /// Closes what has waited too long.
    pub(super) fn sweep(&self) {
        drop(self.expired());
    }

    /// Bounds of one wait; for a loop that sweeps.
    pub(super) fn idle(&self) -> Duration {
        self.keep.idle
    }

    fn expired(&self) -> Vec<(Instant, Conn)> {
        let mut gone = Vec::new();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|_, queue| {
            while queue.front().is_some_and(|(since, _)| since.elapsed() >= self.keep.idle) {
                gone.extend(queue.pop_front());
            }
            !queue.is_empty()
        });
        gone
    }
}

fn longest(waiting: &mut Map<Key, VecDeque<(Instant, Conn)>>) -> Option<(Instant, Conn)> {
    let oldest = waiting.iter().filter_map(|(key, queue)| Some((queue.front()?.0, key)));
    let key = oldest.min_by_key(|(since, _)| *since)?.1.clone();
    let queue = waiting.get_mut(&key)?;
    let gone = queue.pop_front();
    if queue.is_empty() {
        waiting.remove(&key);
    }
    gone
}
