//! The message bus between servers, on a bounded Redis stream that is read from the last position,
//! so that a short break loses no message.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::streams::{StreamRangeReply, StreamReadReply};
use ::redis::{AsyncConnectionConfig, FromRedisValue};
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;
use tool::store::{Bus, Hearing, MOST_WORD};
use tool::{Boxed, StoreError};

use super::{ANSWER, CONNECT, Driver, Open, RedisCache, told};

/// Approximate number of messages that Redis retains per channel.
const KEPT: usize = 4_096;
/// Maximum number of messages per response.
const AT_ONCE: usize = 64;
/// Time for which Redis blocks until the next message.
const WAIT: Duration = Duration::from_secs(1);
/// Field of a stream entry that holds the message.
const WORD: &str = "w";
/// Maximum size of a response in bytes: a full batch of the largest messages with overhead.
const MOST_ANSWER: usize = 2 * AT_ONCE * MOST_WORD;

impl RedisCache {
    async fn told_on(&self, channel: &str, word: &Bytes) -> Result<(), StoreError> {
        if word.len() > MOST_WORD {
            return Err(StoreError::Unavailable(format!("a word has over {MOST_WORD} bytes")));
        }
        let mut command = ::redis::cmd("XADD");
        command.arg(channel).arg("MAXLEN").arg("~").arg(KEPT).arg("*");
        command.arg(WORD).arg(word.as_ref());
        self.ask::<String>(&command).await?.map(drop).map_err(|error| told(&error))
    }

    /// Subscribes on a separate connection, because it blocks.
    async fn heard_on(&self, channel: &str) -> Result<Heard, StoreError> {
        let away =
            |error: &dyn std::fmt::Display| StoreError::Unavailable(format!("Redis: {error}"));
        let left = Arc::new(AtomicUsize::new(MOST_ANSWER));
        let dialled = async {
            let stream = self.egress.stream(&self.origin, CONNECT).await;
            let stream = stream.map_err(|error| error.to_string())?;
            let inner = Metered { inner: stream, left: Arc::clone(&left) };
            let config = AsyncConnectionConfig::new().set_response_timeout(Some(WAIT + ANSWER));
            let made = MultiplexedConnection::new_with_config(&self.login, inner, config).await;
            let (connection, driver) = made.map_err(|error| error.to_string())?;
            let driver = Arc::new(Driver(self.tasks.spawn(driver).abort_handle()));
            Ok::<_, String>(Open { connection, _driver: driver })
        };
        let open =
            timeout(CONNECT, dialled).await.map_err(|_| away(&"no connection within 1 s"))?;
        let open = open.map_err(|error| away(&error))?;
        let mut heard = Heard { open, left, channel: channel.to_owned(), last: "0-0".to_owned() };
        let mut newest = ::redis::cmd("XREVRANGE");
        newest.arg(channel).arg("+").arg("-").arg("COUNT").arg(1);
        let newest: StreamRangeReply = heard.ask(&newest).await?;
        if let Some(entry) = newest.ids.into_iter().next() {
            heard.last = entry.id;
        }
        Ok(heard)
    }
}

struct Heard {
    open: Open,
    /// Remaining bytes of the current response.
    left: Arc<AtomicUsize>,
    channel: String,
    /// Id of the last message that was read.
    last: String,
}

impl Heard {
    async fn ask<T: FromRedisValue>(&mut self, command: &::redis::Cmd) -> Result<T, StoreError> {
        self.left.store(MOST_ANSWER, Ordering::SeqCst);
        command.query_async(&mut self.open.connection).await.map_err(|error| told(&error))
    }

    async fn words(&mut self) -> Result<Vec<Bytes>, StoreError> {
        let mut command = ::redis::cmd("XREAD");
        command.arg("COUNT").arg(AT_ONCE).arg("BLOCK").arg(WAIT.as_millis().to_string());
        command.arg("STREAMS").arg(&self.channel).arg(&self.last);
        let answer: Option<StreamReadReply> = self.ask(&command).await?;
        let mut words = Vec::new();
        for entry in answer.into_iter().flat_map(|answer| answer.keys).flat_map(|key| key.ids) {
            words.extend(entry.get::<Vec<u8>>(WORD).map(Bytes::from));
            self.last = entry.id;
        }
        words.retain(|word| word.len() <= MOST_WORD);
        Ok(words)
    }
}

impl Hearing for Heard {
    fn next(&mut self) -> Boxed<'_, Result<Vec<Bytes>, StoreError>> {
        Box::pin(self.words())
    }
}

impl Bus for RedisCache {
    fn tell<'a>(&'a self, channel: &'a str, word: Bytes) -> Boxed<'a, Result<(), StoreError>> {
        Box::pin(async move { self.told_on(channel, &word).await })
    }

    fn hear<'a>(&'a self, channel: &'a str) -> Boxed<'a, Result<Box<dyn Hearing>, StoreError>> {
        Box::pin(async move { Ok(Box::new(self.heard_on(channel).await?) as Box<dyn Hearing>) })
    }
}

/// A connection that limits the bytes of a response: other programs may write to the stream.
struct Metered<S> {
    inner: S,
    left: Arc<AtomicUsize>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buffer);
        let came = buffer.filled().len().saturating_sub(before);
        let left = |left: usize| left.checked_sub(came);
        if self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left).is_err() {
            return Poll::Ready(Err(io::Error::other("its answer is too large")));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
