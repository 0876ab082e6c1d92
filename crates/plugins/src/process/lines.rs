//! Lines of a process, each of a bounded length.

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Longest line, in bytes: the largest answer, and what stands around it.
const MOST: usize = (16 << 20) + 4096;
/// Room that is made at once.
const ROOM: usize = 16 << 10;

/// Reads lines.
#[derive(Debug)]
pub(super) struct Lines<R> {
    from: R,
    buffer: BytesMut,
    /// Bytes of the buffer that hold no line end.
    seen: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, buffer: BytesMut::new(), seen: 0 }
    }

    /// The next line without its end; `None` where there is none. May be dropped and called again.
    ///
    /// # Errors
    /// Where it is too long, in words.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            let fresh = self.buffer.get(self.seen..).unwrap_or_default();
            if let Some(at) = fresh.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(self.seen + at + 1).freeze();
                self.seen = 0;
                return Ok(Some(line.slice(..line.len() - 1)));
            }
            self.seen = self.buffer.len();
            if self.seen > MOST {
                return Err(format!("it wrote a line of more than {MOST} bytes"));
            }
            self.buffer.reserve(ROOM);
            match self.from.read_buf(&mut self.buffer).await {
                Ok(0) | Err(_) => return Ok(None),
                Ok(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_come_whole_and_what_has_no_end_is_none() {
        let mut lines = Lines::new(&b"a\n\nlonger \xff line\nrest"[..]);
        let mut seen = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            seen.push(line);
        }
        assert_eq!(seen, [&b"a"[..], b"", b"longer \xff line"]);
    }

    #[tokio::test]
    async fn a_flood_without_a_line_end_is_given_up_in_bounded_memory() {
        let mut lines = Lines::new(tokio::io::repeat(b'x'));
        let error = lines.next().await.unwrap_err();
        assert!(error.starts_with("it wrote a line of more than"), "{error}");
        assert!(lines.buffer.capacity() < 3 * MOST);
    }
}
