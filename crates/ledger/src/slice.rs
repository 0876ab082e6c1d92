//! Slices of buffers with defined results for bounds after the end.

/// Returns the first `length` bytes, or all of them if there are fewer.
pub(crate) fn prefix(bytes: &[u8], length: usize) -> &[u8] {
    bytes.get(..length).unwrap_or(bytes)
}

/// Returns the bytes from `start` on, or none if the buffer ends before.
pub(crate) fn rest(bytes: &[u8], start: usize) -> &[u8] {
    bytes.get(start..).unwrap_or(&[])
}
