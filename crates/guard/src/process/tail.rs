//! The last of a stream, for a person who asks why a child failed.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// What a [`Tail`] keeps by default, in bytes.
pub const TAIL_BYTES: usize = 64 * 1024;

/// Keeps the last bytes of a stream. Clones share them.
#[derive(Clone)]
pub struct Tail {
    kept: Arc<Mutex<VecDeque<u8>>>,
    most: usize,
}

impl Default for Tail {
    fn default() -> Self {
        Self::new(TAIL_BYTES)
    }
}

impl Tail {
    /// Keeps at most `most` bytes.
    pub fn new(most: usize) -> Self {
        Self { kept: Arc::default(), most }
    }

    /// Reads `stream` to its end, so that the writer never waits; answers how many bytes came.
    /// Stops at a read error, too. Spawn it where shutdown waits for it.
    pub async fn drain(self, mut stream: impl AsyncRead + Unpin) -> u64 {
        let mut buffer = vec![0; 8192];
        let mut seen = 0;
        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
            seen += count as u64;
            self.push(buffer.get(..count).unwrap_or_default());
        }
        seen
    }

    /// Adds bytes, and forgets the oldest where there are too many.
    pub fn push(&self, bytes: &[u8]) {
        let bytes = bytes.get(bytes.len().saturating_sub(self.most)..).unwrap_or_default();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let over = (kept.len() + bytes.len()).saturating_sub(self.most);
        kept.drain(..over);
        kept.extend(bytes);
    }

    /// What is kept, as text. Still as the child wrote it: escape it before it is shown.
    pub fn text(&self) -> String {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (front, back) = kept.as_slices();
        String::from_utf8_lossy(&[front, back].concat()).into_owned()
    }
}

impl fmt::Debug for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tail").field("most", &self.most).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::Tail;

    #[test]
    fn the_last_bytes_stay() {
        let tail = Tail::new(4);
        for part in ["ab", "", "cd", "e", "fghij", "k"] {
            tail.push(part.as_bytes());
        }
        assert_eq!(tail.text(), "hijk");
        assert!(tail.kept.lock().unwrap().capacity() <= 16);
    }

    #[tokio::test]
    async fn a_stream_is_read_to_its_end_whatever_is_kept() {
        let tail = Tail::new(3);
        let stream = vec![b'x'; 100_000];
        assert_eq!(tail.clone().drain(stream.as_slice()).await, 100_000);
        assert_eq!(tail.text(), "xxx");
    }
}
