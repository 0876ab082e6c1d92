//! MCP over a pair of pipes: one message a line.
//!
//! rmcp's own transport for this keeps nothing of what a server prints beside its messages and lets
//! its answers to a server's questions pile up. Here lines and noise have bounds, questions of the
//! server are answered in place, and the writer is one task, so that a child that does not read its
//! input is found out.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::inflight::{Inbound, Inflight};
use super::lines::{Line, Lines};
use super::noise::{Noise, Verdict};
use super::outbound;

/// Messages that may wait for the writer.
const WAITING: usize = 64;

/// How long a child may leave its input unread while something waits to be written.
pub(super) const STALL: Duration = Duration::from_mins(1);

/// The reading end of a child, or of anything that behaves like one.
pub type Reader = Box<dyn AsyncRead + Send + Unpin>;
/// The writing end.
pub type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// Why a pipe ended, where it was not the server that closed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Broken {
    /// Too much that is no message.
    Noise(String),
    /// The child does not read.
    Stalled,
    /// The stream failed.
    Io(String),
}

/// What both ends of a connection know of its end.
#[derive(Debug, Default)]
pub(super) struct End {
    why: OnceLock<Broken>,
    /// Fires when the connection is over.
    pub(super) over: CancellationToken,
}

impl End {
    /// Why, where that is known.
    pub(super) fn why(&self) -> Option<&Broken> {
        self.why.get()
    }

    fn broken(&self, why: Broken) {
        // The first reason is the one that counts.
        drop(self.why.set(why));
        self.over.cancel();
    }
}

/// rmcp's transport over one connection.
pub(super) struct Pipe {
    lines: Lines<Reader>,
    out: Option<mpsc::Sender<Bytes>>,
    /// An answer to a question of the server that waits for a place in the queue.
    reply: Option<Bytes>,
    inflight: Arc<Inflight>,
    noise: Arc<Noise>,
    end: Arc<End>,
}

/// What a [`Pipe`] shares with its connection.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    pub(super) inflight: Arc<Inflight>,
    pub(super) noise: Arc<Noise>,
    pub(super) end: Arc<End>,
}

impl Pipe {
    /// Opens a pipe; its writer runs in `tasks`. `longest` bounds a line, in bytes.
    pub(super) fn open(
        (reader, writer): (Reader, Writer),
        longest: usize,
        shared: Shared,
        tasks: &TaskTracker,
    ) -> Self {
        let (out, queue) = mpsc::channel(WAITING);
        let end = Arc::clone(&shared.end);
        drop(tasks.spawn(async move {
            if let Err(why) = write(writer, queue).await {
                end.broken(why);
            }
        }));
        Self {
            lines: Lines::new(reader, longest),
            out: Some(out),
            reply: None,
            inflight: shared.inflight,
            noise: shared.noise,
            end: shared.end,
        }
    }

    async fn next(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            self.flush_reply().await?;
            match self.lines.next().await {
                Ok(Line::Whole(line)) if line.is_empty() => {}
                Ok(Line::Whole(line)) => match self.inflight.read(&line) {
                    Inbound::Pass(message) => {
                        self.noise.quiet();
                        return Some(*message);
                    }
                    Inbound::Quiet => self.noise.quiet(),
                    Inbound::Asked { id, method } => {
                        self.noise.quiet();
                        self.reply = Some(reply(&id, &method));
                    }
                    Inbound::Unreadable(reason) => self.heard(self.noise.line(&line, &reason))?,
                },
                Ok(Line::TooLong(bytes)) => {
                    self.heard(self.noise.too_long(bytes))?;
                    let why = format!("with a message of {bytes} bytes, which is too long");
                    if let Some(told) = self.inflight.refuse_only(&why) {
                        return Some(told);
                    }
                }
                Ok(Line::End) => return None,
                Err(error) => {
                    self.end.broken(Broken::Io(error.to_string()));
                    return None;
                }
            }
        }
    }

    /// The answer stays in `self` until it has its place, so that a dropped future loses nothing.
    async fn flush_reply(&mut self) -> Option<()> {
        if self.reply.is_none() {
            return Some(());
        }
        let place = self.out.as_ref()?.reserve().await.ok()?;
        if let Some(reply) = self.reply.take() {
            place.send(reply);
        }
        Some(())
    }

    fn heard(&self, verdict: Verdict) -> Option<()> {
        match verdict {
            Verdict::Bear => Some(()),
            Verdict::Enough(why) => {
                self.end.broken(Broken::Noise(why));
                None
            }
        }
    }
}

impl Transport<RoleClient> for Pipe {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.inflight.sent(&message);
        let line = outbound::line(&message);
        let out = self.out.clone();
        async move {
            let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
            out.ok_or_else(closed)?.send(line?).await.map_err(|_| closed())
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        let message = self.next().await;
        if message.is_none() {
            self.inflight.abandon();
            self.end.over.cancel();
        }
        message
    }

    async fn close(&mut self) -> io::Result<()> {
        // The writer ends with its queue and lets go of the child's input.
        self.out = None;
        Ok(())
    }
}

async fn write(mut writer: Writer, mut queue: mpsc::Receiver<Bytes>) -> Result<(), Broken> {
    while let Some(line) = queue.recv().await {
        let written = async {
            writer.write_all(&line).await?;
            writer.flush().await
        };
        match tokio::time::timeout(STALL, written).await {
            Ok(Ok(())) => {}
            // The reading end says how it ended; that a write failed too is no news.
            Ok(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            Ok(Err(error)) => return Err(Broken::Io(error.to_string())),
            Err(_) => return Err(Broken::Stalled),
        }
    }
    Ok(())
}

/// We declare no capability, so `ping` is the only question that has an answer.
fn reply(id: &RawValue, method: &str) -> Bytes {
    let id = id.get();
    let text = if method == "ping" {
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n")
    } else {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":-32601,\"message\":\"this client does not answer such requests\"}}}}\n"
        )
    };
    Bytes::from(text)
}

#[cfg(test)]
mod tests;
