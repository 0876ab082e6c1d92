//! Reading into a buffer that grows with what a connection sends.

use std::io;
use std::pin::pin;
use std::task::{Context, Poll};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Room for what is read at once, in bytes.
const READ_RESERVE: usize = 8 << 10;
/// Less room than this is too little for a read, in bytes.
const MIN_SPARE_CAPACITY: usize = 1 << 10;

/// Reads once to the end of `buffer`; `most` bounds the room that is made for one read, in bytes.
pub(crate) fn poll_fill<S: AsyncRead + Unpin>(
    stream: &mut S,
    buffer: &mut BytesMut,
    most: usize,
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    if buffer.capacity() - buffer.len() < MIN_SPARE_CAPACITY {
        buffer.reserve(buffer.len().clamp(READ_RESERVE, most));
    }
    pin!(stream.read_buf(buffer)).poll(cx)
}
