//! Reads into a buffer that grows with the received data.

use std::io;
use std::pin::pin;
use std::task::{Context, Poll};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Buffer space reserved for one read, in bytes.
const READ_RESERVE: usize = 8 << 10;
/// Minimum free space for a read, in bytes.
const MIN_SPARE_CAPACITY: usize = 1 << 10;

/// Reads once to the end of `buffer`; `max_reserve` limits the space reserved for one
/// read, in bytes.
pub(crate) fn poll_fill_buffer<S: AsyncRead + Unpin>(
    stream: &mut S,
    buffer: &mut BytesMut,
    max_reserve: usize,
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    if buffer.capacity() - buffer.len() < MIN_SPARE_CAPACITY {
        buffer.reserve(buffer.len().clamp(READ_RESERVE, max_reserve));
    }
    pin!(stream.read_buf(buffer)).poll(cx)
}
