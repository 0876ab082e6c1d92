//! First line and last bytes of an output stream, for diagnostics.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Default capacity of an [`OutputTail`], in bytes.
pub const DEFAULT_TAIL_BYTES: usize = 64 * 1024;

/// Maximum stored bytes of the first line once it has left the tail.
const MAX_FIRST_LINE_BYTES: usize = 4096;

/// Buffer of the first line and the last bytes of a stream. Clones share it.
#[derive(Clone)]
pub struct OutputTail {
    buffer: Arc<Mutex<TailBuffer>>,
    capacity: usize,
}

#[derive(Default)]
struct TailBuffer {
    last: VecDeque<u8>,
    /// First line, once it begins to leave `last`.
    first: Option<Vec<u8>>,
}

impl Default for OutputTail {
    fn default() -> Self {
        Self::new(DEFAULT_TAIL_BYTES)
    }
}

impl OutputTail {
    /// Creates a buffer of at most `capacity` bytes.
    pub fn new(capacity: usize) -> Self {
        Self { buffer: Arc::default(), capacity }
    }

    /// Reads `stream` to its end, so that the writer never blocks, and returns the bytes read. Also
    /// stops at a read error. Spawn it so that shutdown waits for it.
    pub async fn drain_stream(self, mut stream: impl AsyncRead + Unpin) -> u64 {
        let mut buffer = vec![0; 8192];
        let mut seen = 0;
        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
            seen += count as u64;
            self.push_bytes(buffer.get(..count).unwrap_or_default());
        }
        seen
    }

    /// Appends bytes and drops the oldest above the capacity.
    pub fn push_bytes(&self, bytes: &[u8]) {
        let (whole, bytes) =
            (bytes, bytes.get(bytes.len().saturating_sub(self.capacity)..).unwrap_or_default());
        let mut kept = self.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        let TailBuffer { last, first } = &mut *kept;
        let over = (last.len() + whole.len()).saturating_sub(self.capacity);
        if over > 0 && first.is_none() {
            // Up to now `last` holds the whole output.
            let line = last.iter().chain(whole).take_while(|byte| **byte != b'\n');
            *first = Some(line.take(MAX_FIRST_LINE_BYTES).copied().collect());
        }
        last.drain(..over.min(last.len()));
        last.extend(bytes);
    }

    /// Returns the stored tail as text, as the child wrote it: escape it before showing it.
    pub fn to_lossy_string(&self) -> String {
        let kept = self.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        let (front, back) = kept.last.as_slices();
        String::from_utf8_lossy(&[front, back].concat()).into_owned()
    }

    /// Returns the first line if [`OutputTail::to_lossy_string`] no longer contains all of it.
    pub fn first_line(&self) -> Option<String> {
        let kept = self.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        kept.first.as_ref().map(|line| String::from_utf8_lossy(line).into_owned())
    }
}

impl fmt::Debug for OutputTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tail").field("most", &self.capacity).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::OutputTail;

    #[test]
    fn the_last_bytes_stay() {
        let tail = OutputTail::new(4);
        for part in ["ab", "", "cd", "e", "fghij", "k"] {
            tail.push_bytes(part.as_bytes());
        }
        assert_eq!(tail.to_lossy_string(), "hijk");
        assert!(tail.buffer.lock().unwrap().last.capacity() <= 16);
    }

    #[test]
    fn the_first_line_stays_too() {
        let tail = OutputTail::new(16);
        tail.push_bytes(b"first line\n");
        // As long as the tail holds everything, the first line is not repeated.
        assert_eq!((tail.to_lossy_string().as_str(), tail.first_line()), ("first line\n", None));
        for _ in 0..100 {
            tail.push_bytes(b"another\n");
        }
        assert_eq!(tail.first_line().as_deref(), Some("first line"));
        assert_eq!(tail.to_lossy_string(), "another\nanother\n");
    }

    #[tokio::test]
    async fn a_stream_is_read_to_its_end_whatever_is_kept() {
        let tail = OutputTail::new(3);
        let stream = vec![b'x'; 100_000];
        assert_eq!(tail.clone().drain_stream(stream.as_slice()).await, 100_000);
        assert_eq!(tail.to_lossy_string(), "xxx");
    }
}
