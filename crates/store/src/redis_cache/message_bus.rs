//! The message bus between servers, on a bounded Redis stream that is read from the last position,
//! so that a short break loses no message.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use ::redis::FromRedisValue;
use ::redis::streams::{StreamRangeReply, StreamReadReply};
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tool::store::{BusSubscription, MAX_MESSAGE_BYTES, MessageBus};
use tool::{BoxFuture, StoreError};

use super::{RESPONSE_TIMEOUT, RedisCache, RedisConnection, limit_dial_time, to_store_error};

/// Approximate number of messages that Redis retains per channel.
const STREAM_MAX_LENGTH: usize = 4_096;
/// Maximum number of messages per response.
const MAX_BATCH: usize = 64;
/// Time for which Redis blocks until the next message.
const BLOCK_TIMEOUT: Duration = Duration::from_secs(1);
/// Field of a stream entry that holds the message.
const MESSAGE_FIELD: &str = "w";
/// Maximum size of a response in bytes: a full batch of the largest messages with overhead.
const MAX_RESPONSE_BYTES: usize = 2 * MAX_BATCH * MAX_MESSAGE_BYTES;

impl RedisCache {
    async fn publish_on(&self, channel: &str, message: &Bytes) -> Result<(), StoreError> {
        if message.len() > MAX_MESSAGE_BYTES {
            return Err(StoreError::Unavailable(format!(
                "a value is larger than {MAX_MESSAGE_BYTES} bytes"
            )));
        }
        let mut command = ::redis::cmd("XADD");
        command.arg(channel).arg("MAXLEN").arg("~").arg(STREAM_MAX_LENGTH).arg("*");
        command.arg(MESSAGE_FIELD).arg(message.as_ref());
        self.query::<String>(&command).await?.map(drop).map_err(|error| to_store_error(&error))
    }

    /// Subscribes on a separate connection, because it blocks.
    async fn subscribe_on(&self, channel: &str) -> Result<RedisSubscription, StoreError> {
        let left = Arc::new(AtomicUsize::new(MAX_RESPONSE_BYTES));
        let dial = async {
            let stream = self.open_stream().await?;
            let stream = ByteLimitedStream { inner: stream, byte_budget: Arc::clone(&left) };
            self.start_connection(stream, BLOCK_TIMEOUT + RESPONSE_TIMEOUT).await
        };
        let open = limit_dial_time(dial)
            .await
            .map_err(|error| StoreError::Unavailable(format!("Redis: {error}")))?;
        let mut heard = RedisSubscription {
            connection: open,
            byte_budget: left,
            channel: channel.to_owned(),
            last_id: "0-0".to_owned(),
        };
        let mut newest = ::redis::cmd("XREVRANGE");
        newest.arg(channel).arg("+").arg("-").arg("COUNT").arg(1);
        let newest: StreamRangeReply = heard.query(&newest).await?;
        if let Some(entry) = newest.ids.into_iter().next() {
            heard.last_id = entry.id;
        }
        Ok(heard)
    }
}

struct RedisSubscription {
    connection: RedisConnection,
    /// Remaining bytes of the current response.
    byte_budget: Arc<AtomicUsize>,
    channel: String,
    /// Id of the last message that was read.
    last_id: String,
}

impl RedisSubscription {
    async fn query<T: FromRedisValue>(&mut self, command: &::redis::Cmd) -> Result<T, StoreError> {
        self.byte_budget.store(MAX_RESPONSE_BYTES, Ordering::SeqCst);
        command
            .query_async(&mut self.connection.connection)
            .await
            .map_err(|error| to_store_error(&error))
    }

    async fn next_batch(&mut self) -> Result<Vec<Bytes>, StoreError> {
        let mut command = ::redis::cmd("XREAD");
        command.arg("COUNT").arg(MAX_BATCH).arg("BLOCK").arg(BLOCK_TIMEOUT.as_millis().to_string());
        command.arg("STREAMS").arg(&self.channel).arg(&self.last_id);
        let answer: Option<StreamReadReply> = self.query(&command).await?;
        let mut words = Vec::new();
        for entry in answer.into_iter().flat_map(|answer| answer.keys).flat_map(|key| key.ids) {
            words.extend(entry.get::<Vec<u8>>(MESSAGE_FIELD).map(Bytes::from));
            self.last_id = entry.id;
        }
        words.retain(|word| word.len() <= MAX_MESSAGE_BYTES);
        Ok(words)
    }
}

impl BusSubscription for RedisSubscription {
    fn next_messages(&mut self) -> BoxFuture<'_, Result<Vec<Bytes>, StoreError>> {
        Box::pin(self.next_batch())
    }
}

impl MessageBus for RedisCache {
    fn publish_message<'a>(
        &'a self,
        channel: &'a str,
        message: Bytes,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move { self.publish_on(channel, &message).await })
    }

    fn subscribe_channel<'a>(
        &'a self,
        channel: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn BusSubscription>, StoreError>> {
        Box::pin(async move {
            Ok(Box::new(self.subscribe_on(channel).await?) as Box<dyn BusSubscription>)
        })
    }
}

/// A connection that limits the bytes of a response: other programs may write to the stream.
struct ByteLimitedStream<S> {
    inner: S,
    byte_budget: Arc<AtomicUsize>,
}

impl<S: AsyncRead + Unpin> AsyncRead for ByteLimitedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buffer);
        let came = buffer.filled().len().saturating_sub(before);
        let left = |left: usize| left.checked_sub(came);
        if self.byte_budget.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left).is_err() {
            return Poll::Ready(Err(io::Error::other("its response is too large")));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ByteLimitedStream<S> {
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
