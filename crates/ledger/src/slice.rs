//! Slices of buffers with defined results for bounds after the end.

/// The first `length` bytes; all of them if there are fewer.
pub(crate) fn prefix(bytes: &[u8], length: usize) -> &[u8] {
    bytes.get(..length).unwrap_or(bytes)
}

/// The bytes from `from` on; none if the buffer ends before.
pub(crate) fn rest(bytes: &[u8], from: usize) -> &[u8] {
    bytes.get(from..).unwrap_or(&[])
}
