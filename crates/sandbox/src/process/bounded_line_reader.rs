//! Reads lines of bounded length from an untrusted stream.
//!
//! A longer line is not stored, but its length is reported, which the codecs of tokio-util do not
//! count.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Bytes per read.
const CHUNK: usize = 16 * 1024;

/// Result of one read step.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// Line without its end and without surrounding whitespace.
    Whole(Bytes),
    /// Text at the end of the stream without a line end, trimmed.
    Rest(Bytes),
    /// Overlong line of this many bytes, not stored; at least this many with
    /// [`OverlongLine::Stop`].
    TooLong(usize),
    /// End of the stream.
    End,
}

/// Handling of a line above the length limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverlongLine {
    /// Reads it to its end and continues with the next line.
    PassOver,
    /// Reports it at once. The rest of the stream is then unusable.
    Stop,
}

/// Lines of a stream, each of a bounded length.
#[derive(Debug)]
pub struct Lines<R> {
    stream: R,
    most: usize,
    overlong: OverlongLine,
    held: BytesMut,
    /// Bytes of `held` that are known to contain no line end.
    searched: usize,
    /// Bytes of the line that is being skipped.
    skipped: Option<usize>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Creates a reader of lines with at most `max_bytes` bytes each.
    pub fn new(stream: R, max_bytes: usize, overlong: OverlongLine) -> Self {
        Self {
            stream,
            most: max_bytes,
            overlong,
            held: BytesMut::new(),
            searched: 0,
            skipped: None,
        }
    }

    /// Returns the next line. Cancel-safe.
    ///
    /// # Errors
    /// Returns the error of the stream.
    pub async fn next(&mut self) -> io::Result<Line> {
        loop {
            if let Some(line) = self.held_line() {
                return Ok(line);
            }
            self.held.reserve(CHUNK);
            if self.stream.read_buf(&mut self.held).await? == 0 {
                return Ok(self.rest());
            }
        }
    }

    fn held_line(&mut self) -> Option<Line> {
        let end = self.held.iter().skip(self.searched).position(|byte| *byte == b'\n');
        let Some(end) = end.map(|end| end + self.searched) else {
            self.searched = self.held.len();
            if self.searched > self.most || self.skipped.is_some() {
                self.skipped = Some(self.skipped.unwrap_or_default() + self.searched);
                self.held.clear();
                self.searched = 0;
                if self.overlong == OverlongLine::Stop {
                    return self.skipped.map(Line::TooLong);
                }
            }
            return None;
        };
        self.searched = 0;
        let line = self.held.split_to(end + 1);
        if let Some(skipped) = self.skipped.take() {
            return Some(Line::TooLong(skipped + end));
        }
        if end > self.most {
            return Some(Line::TooLong(end));
        }
        Some(Line::Whole(trimmed(&line.freeze())))
    }

    fn rest(&mut self) -> Line {
        let rest = self.held.split().freeze();
        self.searched = 0;
        match self.skipped.take() {
            Some(skipped) => Line::TooLong(skipped + rest.len()),
            None if rest.is_empty() => Line::End,
            None => Line::Rest(trimmed(&rest)),
        }
    }
}

fn trimmed(line: &Bytes) -> Bytes {
    line.slice_ref(line.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::{Line, Lines, OverlongLine};

    async fn lines(text: &[u8], most: usize) -> Vec<Line> {
        let mut lines = Lines::new(text, most, OverlongLine::PassOver);
        let mut read = Vec::new();
        loop {
            match lines.next().await.unwrap() {
                Line::End => return read,
                line => read.push(line),
            }
        }
    }

    fn whole(text: &'static str) -> Line {
        Line::Whole(text.into())
    }

    fn rest(text: &'static str) -> Line {
        Line::Rest(text.into())
    }

    #[tokio::test]
    async fn lines_come_whole_and_the_last_needs_no_end() {
        assert_eq!(
            lines(b"a\r\n\nbc\n d", 9).await,
            [whole("a"), whole(""), whole("bc"), rest("d")]
        );
    }

    #[tokio::test]
    async fn a_line_past_the_bound_is_passed_over_and_the_next_is_read() {
        assert_eq!(lines(b"12345\n1234\nx", 4).await, [Line::TooLong(5), whole("1234"), rest("x")]);
        assert_eq!(lines(b"12345", 4).await, [Line::TooLong(5)]);
        let long = [vec![b'x'; 100_000], b"\nnext\n".to_vec()].concat();
        assert_eq!(lines(&long, 20_000).await, [Line::TooLong(100_000), whole("next")]);
    }

    /// An endless line uses no more memory than the limit and one chunk.
    #[tokio::test]
    async fn a_flood_is_not_kept() {
        let mut lines = Lines::new(tokio::io::repeat(b'x'), 50_000, OverlongLine::PassOver);
        let flood = tokio::time::timeout(std::time::Duration::from_millis(50), lines.next());
        assert!(flood.await.is_err());
        assert!(lines.held.capacity() <= 2 * (50_000 + super::CHUNK), "{}", lines.held.capacity());
        assert!(lines.skipped.unwrap() > 50_000);
    }

    #[tokio::test]
    async fn a_flood_is_told_at_once_where_its_end_is_not_waited_for() {
        let mut lines = Lines::new(tokio::io::repeat(b'x'), 1 << 20, OverlongLine::Stop);
        let Line::TooLong(bytes) = lines.next().await.unwrap() else { panic!("not too long") };
        assert!(bytes > 1 << 20);
        assert!(lines.held.capacity() < 3 << 20, "{}", lines.held.capacity());
    }
}
