//! The cache of the last head. Most heads of one connection differ only in `Content-Length`; such a
//! head is compared with the cached one instead of being parsed.

use std::fmt;

use crate::decimal::parse_decimal;

/// A parsed head and what its owner derived from it, as `T`. A later head whose bytes differ only in the
/// value of `Content-Length` is equal to it.
pub struct CachedHead<T> {
    /// The bytes before the digits of the length, or the whole head if it has no length.
    prefix: Box<[u8]>,
    /// The bytes after the digits.
    suffix: Option<Box<[u8]>>,
    value: T,
}

/// A head that is equal to the cached one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadMatch {
    /// The size of the head, in bytes.
    pub size: usize,
    /// The value of its `Content-Length`, or `None` if the cached head has none.
    pub content_length: Option<u64>,
}

impl<T> CachedHead<T> {
    /// Caches `head`. `length` is the value of its `Content-Length`, as a slice of `head`.
    pub(crate) fn new(head: &[u8], length: Option<&[u8]>, value: T) -> Option<Self> {
        let Some(length) = length else {
            return Some(Self { prefix: head.into(), suffix: None, value });
        };
        let length_offset = length.as_ptr().addr().checked_sub(head.as_ptr().addr())?;
        let (before, after) =
            (head.get(..length_offset)?, head.get(length_offset + length.len()..)?);
        Some(Self { prefix: before.into(), suffix: Some(after.into()), value })
    }

    /// Returns the value that was derived from the head.
    pub fn value(&self) -> &T {
        &self.value
    }

    /// Whether `buffer` begins with a head that is equal to this one.
    pub fn match_prefix(&self, buffer: &[u8]) -> Option<HeadMatch> {
        let rest = buffer.strip_prefix(&*self.prefix)?;
        let Some(suffix) = &self.suffix else {
            return Some(HeadMatch { size: self.prefix.len(), content_length: None });
        };
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = rest.split_at_checked(count)?;
        let length = parse_decimal(digits).filter(|_| rest.starts_with(suffix))?;
        let size = self.prefix.len() + count + suffix.len();
        Some(HeadMatch { size, content_length: Some(length) })
    }
}

/// Omits the head, because it holds credentials.
impl<T> fmt::Debug for CachedHead<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedHead").field("bytes", &self.prefix.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::CachedHead;

    #[test]
    fn a_length_of_other_memory_is_no_part_of_the_head() {
        let head = b"A: 12\r\n\r\n";
        let other = head.to_vec();
        // Either it lies before the head, or so far behind it that it is not within.
        assert!(CachedHead::new(head, Some(&other[3..5]), ()).is_none());
        let cached = CachedHead::new(head, Some(&head[3..5]), ()).unwrap();
        let found = cached.match_prefix(b"A: 7\r\n\r\n{}").unwrap();
        assert_eq!((found.size, found.content_length), (8, Some(7)));
    }
}
