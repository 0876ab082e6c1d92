//! The short way of a connection: messages of MCP, one after the other, read and answered here.
//!
//! Only requests that can be read in one way are taken: `POST` to an endpoint of MCP, HTTP/1.1, one
//! length, nothing about the connection, and all of it there within a second. With the first other one
//! the connection is left, unread, to the reader of all of HTTP, and never comes back.

mod head;
mod said;

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use super::rewound::Rewound;
use crate::front::{self, Said};
use server_mcp::McpDoors;

pub(crate) use head::Head;
use head::{Known, Read};
use said::Date;

/// The longest message that is read here, in bytes.
const LONGEST: usize = 256 << 10;
/// Room for what is read at once, in bytes, and what is too little of it.
const ROOM: (usize, usize) = (8 << 10, 1 << 10);
/// How long a request may take from its first byte to its last.
const WHOLE: Duration = Duration::from_secs(1);

/// A connection on the short way.
pub(super) struct Lane<S> {
    stream: S,
    /// What came and was not taken.
    heard: BytesMut,
    /// What goes out, kept for its room.
    out: Vec<u8>,
    known: Option<Known>,
    /// Fires where nothing is asked; looked at again only then.
    idle: Pin<Box<Sleep>>,
    longest: Duration,
    /// Whether something was asked since.
    busy: bool,
    date: Date,
}

/// What comes next on a connection.
enum Came {
    Message(Arc<Head>, Bytes),
    /// What is not read here.
    Other,
    End,
}

/// How far what was heard goes.
enum Taken {
    Message(Arc<Head>, Bytes),
    Part,
    Other,
}

/// What ended a wait for more.
enum Heard {
    More,
    End,
    Late,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Lane<S> {
    /// `longest` is how long a connection may be silent; up to twice that is.
    pub(super) fn new(stream: S, longest: Duration) -> Self {
        Self {
            stream,
            heard: BytesMut::new(),
            out: Vec::new(),
            known: None,
            idle: Box::pin(sleep(longest)),
            longest,
            busy: false,
            date: Date::default(),
        }
    }

    /// Answers messages until the connection ends, or gives it back with what is not read here.
    pub(super) async fn run(
        mut self,
        doors: &McpDoors,
        stop: &CancellationToken,
    ) -> Option<Rewound<S>> {
        let mut stopping = pin!(stop.cancelled());
        loop {
            let (head, body) = match self.next(doors, stopping.as_mut()).await {
                Came::Message(head, body) => (head, body),
                Came::Other => return Some(Rewound::new(self.heard.freeze(), self.stream)),
                Came::End => return None,
            };
            let work = Box::pin(front::told(doors, &head, body));
            let said = self.beside(work).await?;
            let last = stop.is_cancelled();
            self.date.is(doors.parts.clock.wall());
            let written = match said {
                Said::Door(reply) => self.say(reply, last).await,
                Said::Other(response) => self.say(response, last).await,
            };
            if let Err(error) = written {
                tracing::debug!(%error, "connection ended");
                return None;
            }
            if last {
                drop(self.stream.shutdown().await);
                return None;
            }
        }
    }

    /// The next message, once all of it is there.
    async fn next(
        &mut self,
        doors: &McpDoors,
        mut stopping: Pin<&mut WaitForCancellationFuture<'_>>,
    ) -> Came {
        let most = doors.parts.max_body.min(LONGEST);
        let mut late = None;
        loop {
            match self.take(most) {
                Taken::Message(head, body) => {
                    self.busy = true;
                    return Came::Message(head, body);
                }
                Taken::Other => return Came::Other,
                Taken::Part => {}
            }
            match poll_fn(|cx| self.hear(cx, stopping.as_mut(), &mut late)).await {
                Heard::More => {}
                Heard::End if self.heard.is_empty() => return Came::End,
                // What broke off, or takes its time, is judged where all of HTTP is.
                Heard::End | Heard::Late => return Came::Other,
            }
        }
    }

    fn take(&mut self, most: usize) -> Taken {
        if self.heard.is_empty() {
            return Taken::Part;
        }
        let known = self.known.as_ref();
        let found = known.and_then(|known| Some((known.fits(&self.heard)?, known.head())));
        let ((start, length), head) = match found {
            Some(found) => found,
            None => match head::read(&self.heard) {
                Read::Plain(known, sizes) => {
                    let head = known.head();
                    self.known = Some(known);
                    (sizes, head)
                }
                Read::Part => return Taken::Part,
                Read::Other => return Taken::Other,
            },
        };
        if length > most {
            return Taken::Other;
        }
        if self.heard.len() < start + length {
            return Taken::Part;
        }
        self.heard.advance(start);
        Taken::Message(head, self.heard.split_to(length).freeze())
    }

    fn hear(
        &mut self,
        cx: &mut Context<'_>,
        stopping: Pin<&mut WaitForCancellationFuture<'_>>,
        late: &mut Option<Pin<Box<Sleep>>>,
    ) -> Poll<Heard> {
        if let Poll::Ready(read) = read(&mut self.stream, &mut self.heard, cx) {
            return Poll::Ready(match read {
                Ok(1..) => Heard::More,
                Ok(0) | Err(_) => Heard::End,
            });
        }
        if !self.heard.is_empty() {
            let late = late.get_or_insert_with(|| Box::pin(sleep(WHOLE)));
            return late.as_mut().poll(cx).map(|()| Heard::Late);
        }
        if stopping.poll(cx).is_ready() {
            return Poll::Ready(Heard::End);
        }
        while self.idle.as_mut().poll(cx).is_ready() {
            if !std::mem::take(&mut self.busy) {
                return Poll::Ready(Heard::End);
            }
            self.idle.as_mut().reset(Instant::now() + self.longest);
        }
        Poll::Pending
    }

    /// Works, while the other side is there; nothing where it goes.
    async fn beside<F: Future>(&mut self, mut work: Pin<Box<F>>) -> Option<F::Output> {
        poll_fn(|cx| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(Some(done));
            }
            if gone(&mut self.stream, &mut self.heard, cx) {
                return Poll::Ready(None);
            }
            Poll::Pending
        })
        .await
    }
}

fn read<S: AsyncRead + Unpin>(
    stream: &mut S,
    heard: &mut BytesMut,
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    if heard.capacity() - heard.len() < ROOM.1 {
        heard.reserve(heard.len().max(ROOM.0));
    }
    pin!(stream.read_buf(heard)).poll(cx)
}

/// Whether the other side is. What it sends ahead is left for later, and no more than that is read.
fn gone<S: AsyncRead + Unpin>(stream: &mut S, heard: &mut BytesMut, cx: &mut Context<'_>) -> bool {
    heard.is_empty() && matches!(read(stream, heard, cx), Poll::Ready(Ok(0) | Err(_)))
}
