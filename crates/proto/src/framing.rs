//! Length-prefixed message framing of gRPC: a compression flag byte, four length bytes, the
//! message.

use bytes::{Buf as _, Bytes, BytesMut};
use tonic::Status;

use crate::MAX_MESSAGE_BYTES;

/// Size of the header of a frame, in bytes.
pub(crate) const FRAME_HEADER_BYTES: usize = 5;

/// Parses a frame header and returns the length of its message.
///
/// # Errors
/// Fails if the message is compressed, which was not negotiated, or too long.
pub(crate) fn parse_frame_length(bytes: &[u8]) -> Result<usize, Status> {
    let Some(([compression_flag, rest @ ..], _)) = bytes.split_first_chunk::<FRAME_HEADER_BYTES>()
    else {
        return Err(Status::internal("the message has no header"));
    };
    if *compression_flag != 0 {
        return Err(Status::unimplemented("the message is compressed, which is not supported"));
    }
    let length = usize::try_from(u32::from_be_bytes(*rest)).unwrap_or(usize::MAX);
    if length > MAX_MESSAGE_BYTES {
        let reason = format!("the message has {length} bytes; the maximum is {MAX_MESSAGE_BYTES}");
        return Err(Status::out_of_range(reason));
    }
    Ok(length)
}

/// Collects the chunks of one message. A single chunk is not copied.
#[derive(Default)]
pub(crate) struct MessageBuffer {
    first: Bytes,
    rest: BytesMut,
}

impl MessageBuffer {
    /// Adds a chunk. Returns whether the data exceeds one message.
    ///
    /// # Errors
    /// As [`parse_frame_length`].
    pub(crate) fn push_chunk(&mut self, data: Bytes) -> Result<bool, Status> {
        if self.first.is_empty() && self.rest.is_empty() {
            self.first = data;
        } else {
            self.rest.extend_from_slice(&std::mem::take(&mut self.first));
            self.rest.extend_from_slice(&data);
        }
        let received = if self.rest.is_empty() { &self.first[..] } else { &self.rest[..] };
        Ok(received.len() >= FRAME_HEADER_BYTES
            && parse_frame_length(received)? + FRAME_HEADER_BYTES < received.len())
    }

    /// Returns the message without its frame header, or `None` if it is incomplete.
    ///
    /// # Errors
    /// As [`parse_frame_length`].
    pub(crate) fn into_message(self) -> Result<Option<Bytes>, Status> {
        let mut frame = if self.rest.is_empty() { self.first } else { self.rest.freeze() };
        if frame.len() < FRAME_HEADER_BYTES
            || parse_frame_length(&frame)? + FRAME_HEADER_BYTES != frame.len()
        {
            return Ok(None);
        }
        frame.advance(FRAME_HEADER_BYTES);
        Ok(Some(frame))
    }
}
