//! The first line and the last bytes of an output stream, for diagnostics.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// What a [`Tail`] keeps by default, in bytes.
pub const TAIL_BYTES: usize = 64 * 1024;

/// Bytes of the first line that are kept when it has gone from the end.
const FIRST_LINE: usize = 4096;

/// Keeps the first line and the last bytes of a stream. Clones share them.
#[derive(Clone)]
pub struct Tail {
    kept: Arc<Mutex<Kept>>,
    most: usize,
}

#[derive(Default)]
struct Kept {
    last: VecDeque<u8>,
    /// Of the first line, once it begins to go from `last`.
    first: Option<Vec<u8>>,
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
        let (whole, bytes) =
            (bytes, bytes.get(bytes.len().saturating_sub(self.most)..).unwrap_or_default());
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let Kept { last, first } = &mut *kept;
        let over = (last.len() + whole.len()).saturating_sub(self.most);
        if over > 0 && first.is_none() {
            // The end alone holds it all up to now.
            let line = last.iter().chain(whole).take_while(|byte| **byte != b'\n');
            *first = Some(line.take(FIRST_LINE).copied().collect());
        }
        last.drain(..over.min(last.len()));
        last.extend(bytes);
    }

    /// What is kept, as text. Still as the child wrote it: escape it before it is shown.
    pub fn text(&self) -> String {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (front, back) = kept.last.as_slices();
        String::from_utf8_lossy(&[front, back].concat()).into_owned()
    }

    /// The first line, where it is no longer in [`Tail::text`] or not wholly.
    pub fn first_line(&self) -> Option<String> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.first.as_ref().map(|line| String::from_utf8_lossy(line).into_owned())
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
        assert!(tail.kept.lock().unwrap().last.capacity() <= 16);
    }

    #[test]
    fn the_first_line_stays_too() {
        let tail = Tail::new(16);
        tail.push(b"first line\n");
        // As long as all of it is there, nothing is told twice.
        assert_eq!((tail.text().as_str(), tail.first_line()), ("first line\n", None));
        for _ in 0..100 {
            tail.push(b"another\n");
        }
        assert_eq!(tail.first_line().as_deref(), Some("first line"));
        assert_eq!(tail.text(), "another\nanother\n");
    }

    #[tokio::test]
    async fn a_stream_is_read_to_its_end_whatever_is_kept() {
        let tail = Tail::new(3);
        let stream = vec![b'x'; 100_000];
        assert_eq!(tail.clone().drain(stream.as_slice()).await, 100_000);
        assert_eq!(tail.text(), "xxx");
    }
}
