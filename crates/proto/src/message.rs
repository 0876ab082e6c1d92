//! How gRPC frames its messages: a byte that says whether it is packed, four for the length.

use bytes::{Buf as _, Bytes, BytesMut};
use tonic::Status;

use crate::MAX_MESSAGE;

/// Bytes before a message.
pub(crate) const HEAD: usize = 5;

/// The length of the message whose head these bytes begin with.
///
/// # Errors
/// Where it is packed, which nobody offered, or too long.
pub(crate) fn length(bytes: &[u8]) -> Result<usize, Status> {
    let Some(([packed, rest @ ..], _)) = bytes.split_first_chunk::<HEAD>() else {
        return Err(Status::internal("the message has no head"));
    };
    if *packed != 0 {
        return Err(Status::unimplemented("the message is packed, which is not taken here"));
    }
    let length = usize::try_from(u32::from_be_bytes(*rest)).unwrap_or(usize::MAX);
    if length > MAX_MESSAGE {
        let told = format!("the message has {length} bytes, {MAX_MESSAGE} are allowed");
        return Err(Status::out_of_range(told));
    }
    Ok(length)
}

/// The pieces in which one message comes. What comes in one piece is not copied.
#[derive(Default)]
pub(crate) struct Pieces {
    first: Bytes,
    more: BytesMut,
}

impl Pieces {
    /// Adds one; whether there is more than one message now.
    ///
    /// # Errors
    /// As [`length`].
    pub(crate) fn add(&mut self, data: Bytes) -> Result<bool, Status> {
        if self.first.is_empty() && self.more.is_empty() {
            self.first = data;
        } else {
            self.more.extend_from_slice(&std::mem::take(&mut self.first));
            self.more.extend_from_slice(&data);
        }
        let whole = if self.more.is_empty() { &self.first[..] } else { &self.more[..] };
        Ok(whole.len() >= HEAD && length(whole)? + HEAD < whole.len())
    }

    /// The message without its head; nothing where it is not whole.
    ///
    /// # Errors
    /// As [`length`].
    pub(crate) fn whole(self) -> Result<Option<Bytes>, Status> {
        let mut whole = if self.more.is_empty() { self.first } else { self.more.freeze() };
        if whole.len() < HEAD || length(&whole)? + HEAD != whole.len() {
            return Ok(None);
        }
        whole.advance(HEAD);
        Ok(Some(whole))
    }
}
