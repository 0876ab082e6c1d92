//! How gRPC frames its messages: a byte that says whether it is packed, four for the length.

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
