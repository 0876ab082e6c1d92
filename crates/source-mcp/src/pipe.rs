//! MCP over a pair of pipes: one message a line.
//!
//! One task writes and one reads. Lines and noise have bounds, and a child that does not read its input
//! is found out.

mod reading;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use ::mcp::write::one_line;
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufWriter};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tool::Json;

use super::audience::{Audience, addressee};
use super::exchange::Event;
use super::http::Beside;
use super::link::{Shared, Unanswered};

use reading::Reading;

/// Messages that may wait for the writer.
const WAITING: usize = 64;
/// What one request may bring besides its answer without being looked at; more progress and more log
/// lines are dropped.
const EVENTS: usize = 17;

/// How long a child may leave its input unread while something waits to be written.
pub(super) const STALL: Duration = Duration::from_mins(1);

/// The reading end of a child, or of anything that behaves like one.
pub type Reader = Box<dyn AsyncRead + Send + Unpin>;
/// The writing end.
pub type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// Why a connection ended, where it was not the server that closed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Broken {
    /// Too much that is no message.
    Noise(String),
    /// The child does not read.
    Stalled,
    /// The stream failed.
    Io(String),
    /// An endpoint forgot our session and opens no other.
    Session(String),
}

/// What both ends of a connection know of its end.
#[derive(Debug, Default)]
pub(super) struct End {
    why: OnceLock<Broken>,
    /// Fires when the connection is over, which [`Self::end`] says.
    pub(super) over: CancellationToken,
    /// What comes for calls beside their own streams, over HTTP.
    pub(super) beside: Beside,
}

impl End {
    /// Why, where that is known.
    pub(super) fn why(&self) -> Option<&Broken> {
        self.why.get()
    }

    pub(super) fn broken(&self, why: Broken) {
        // The first reason is the one that counts.
        drop(self.why.set(why));
        self.end();
    }

    /// The connection is over.
    pub(super) fn end(&self) {
        self.over.cancel();
        self.beside.end();
    }
}

/// One connection over pipes.
#[derive(Debug)]
pub(super) struct Pipe {
    /// Nothing once it is closed: then the writer ends and lets go of the child's input.
    out: Mutex<Option<mpsc::Sender<Bytes>>>,
    waiting: Arc<Waiting>,
}

impl Pipe {
    /// Opens a pipe; its two tasks end with it. `longest` bounds a line, in bytes.
    pub(super) fn open((reader, writer): (Reader, Writer), longest: usize, shared: Shared) -> Self {
        let (out, queue) = mpsc::channel(WAITING);
        let waiting = Arc::new(Waiting {
            end: Arc::clone(&shared.end),
            audience: Arc::clone(&shared.audience),
            open: Mutex::default(),
        });
        let end = Arc::clone(&shared.end);
        drop(shared.tasks.spawn(async move {
            if let Err(why) = write(writer, queue).await {
                end.broken(why);
            }
        }));
        let tasks = shared.tasks.clone();
        let reading =
            Reading::new(reader, longest, (out.downgrade(), Arc::clone(&waiting)), shared);
        drop(tasks.spawn(reading.run()));
        Self { out: Mutex::new(Some(out)), waiting }
    }

    /// Makes room for what a request brings; nothing where the connection is over.
    pub(super) fn enter(&self, id: i64, role: Role) -> Option<mpsc::Receiver<Event>> {
        let (events, received) = mpsc::channel(EVENTS);
        self.waiting.open().insert(id, Waiter { events, role });
        if self.waiting.end.over.is_cancelled() {
            self.leave(id);
            return None;
        }
        Some(received)
    }

    /// Forgets a request.
    pub(super) fn leave(&self, id: i64) {
        drop(self.waiting.take(id));
    }

    /// Sends one message, as soon as there is a place for it.
    pub(super) async fn send(&self, message: Bytes) -> Result<(), Unanswered> {
        let out = self.out.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let sent = out.ok_or(Unanswered::Closed)?.send(one_line(message)).await;
        sent.map_err(|_| Unanswered::Closed)
    }

    /// Closes the child's input, which most servers take for the sign to end.
    pub(super) fn close(&self) {
        drop(self.out.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// Whether a request is somebody's call, which the server may ask something.
#[derive(Debug, Clone)]
pub(super) enum Role {
    /// Our own.
    Own,
    /// A call, or the request for the result of a task of this id.
    Call(Option<Arc<str>>),
}

/// The requests that wait for their answers.
#[derive(Debug)]
struct Waiting {
    end: Arc<End>,
    audience: Arc<Audience>,
    open: Mutex<HashMap<i64, Waiter>>,
}

#[derive(Debug, Clone)]
struct Waiter {
    events: mpsc::Sender<Event>,
    role: Role,
}

impl Waiting {
    fn open(&self) -> MutexGuard<'_, HashMap<i64, Waiter>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, id: i64) -> Option<Waiter> {
        self.open().remove(&id)
    }

    /// The connection is over: whoever waits learns it.
    fn abandon(&self) {
        self.end.end();
        drop(std::mem::take(&mut *self.open()));
    }

    /// The only request that waits, where it is alone.
    fn only(&self) -> Option<i64> {
        let open = self.open();
        open.keys().next().copied().filter(|_| open.len() == 1)
    }

    /// The call in flight that a message with these params belongs to.
    fn addressee(&self, params: Option<&Json>) -> Option<Waiter> {
        let open = self.open();
        let calls = open.iter().filter_map(|(id, waiter)| match &waiter.role {
            Role::Call(task) => Some((*id, task.as_deref())),
            Role::Own => None,
        });
        let call = addressee(calls, params, &self.audience)?;
        open.get(&call).cloned()
    }

    /// All calls in flight.
    fn calls(&self) -> Vec<Waiter> {
        let open = self.open();
        open.values().filter(|waiter| matches!(waiter.role, Role::Call(_))).cloned().collect()
    }

    fn of(&self, id: i64) -> Option<Waiter> {
        self.open().get(&id).cloned()
    }
}

impl Waiter {
    /// One place stays free for the answer.
    fn tell(&self, event: Event) -> Result<(), Event> {
        if self.events.capacity() < 2 {
            return Err(event);
        }
        self.events.try_send(event).map_err(|error| match error {
            mpsc::error::TrySendError::Full(event) | mpsc::error::TrySendError::Closed(event) => {
                event
            }
        })
    }
}

async fn write(writer: Writer, mut queue: mpsc::Receiver<Bytes>) -> Result<(), Broken> {
    let mut writer = BufWriter::new(writer);
    while let Some(line) = queue.recv().await {
        let written = async {
            writer.write_all(&line).await?;
            writer.write_all(b"\n").await?;
            if queue.is_empty() { writer.flush().await } else { Ok(()) }
        };
        match tokio::time::timeout(STALL, written).await {
            Ok(Ok(())) => {}
            // The reading end says how it ended; that a write failed too is no news.
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
            Ok(Err(error)) => return Err(Broken::Io(error.to_string())),
            Err(_) => return Err(Broken::Stalled),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
