//! The cache of the last head. Most heads of one connection are the same bytes, but for the length of the
//! body: such a head is compared, and not parsed again.

use std::fmt;

use crate::decimal::parse_decimal;

/// A parsed head and what its owner derived from it, as `T`. A later head whose bytes differ only in the
/// value of `Content-Length` is equal to it.
pub struct CachedHead<T> {
    /// Up to the digits of the length; all of it where the head has none.
    before: Box<[u8]>,
    /// What follows the digits.
    after: Option<Box<[u8]>>,
    value: T,
}

/// A head that is equal to the cached one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadMatch {
    /// Bytes of the head.
    pub size: usize,
    /// What its `Content-Length` is; nothing where the cached head has none.
    pub content_length: Option<u64>,
}

impl<T> CachedHead<T> {
    /// Caches `head`. `length` is the value of its `Content-Length`, as a part of the same memory.
    pub(crate) fn new(head: &[u8], length: Option<&[u8]>, value: T) -> Option<Self> {
        let Some(length) = length else {
            return Some(Self { before: head.into(), after: None, value });
        };
        let at = length.as_ptr().addr().checked_sub(head.as_ptr().addr())?;
        let (before, after) = (head.get(..at)?, head.get(at + length.len()..)?);
        Some(Self { before: before.into(), after: Some(after.into()), value })
    }

    /// What was derived from the head.
    pub fn value(&self) -> &T {
        &self.value
    }

    /// Whether `buffer` begins with a head that is equal to this one.
    pub fn match_prefix(&self, buffer: &[u8]) -> Option<HeadMatch> {
        let rest = buffer.strip_prefix(&*self.before)?;
        let Some(after) = &self.after else {
            return Some(HeadMatch { size: self.before.len(), content_length: None });
        };
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = rest.split_at_checked(count)?;
        let length = parse_decimal(digits).filter(|_| rest.starts_with(after))?;
        let size = self.before.len() + count + after.len();
        Some(HeadMatch { size, content_length: Some(length) })
    }
}

/// No more than may be shown: heads hold credentials.
impl<T> fmt::Debug for CachedHead<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedHead").field("bytes", &self.before.len()).finish_non_exhaustive()
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
