//! Reads lines of bounded length from a stream that may never send one.
//!
//! A line past the bound is not kept. Its length is in what is told of it, which the codecs of tokio-util
//! do not count.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Bytes asked of the stream at a time.
const CHUNK: usize = 16 * 1024;

/// One step of reading.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A line without its end, and without blanks around it.
    Whole(Bytes),
    /// The same of what stands at the end of the stream without a line end.
    Rest(Bytes),
    /// A line of this many bytes, which were not kept; of at least so many with [`OverlongLine::Stop`].
    TooLong(usize),
    /// The stream ended.
    End,
}

/// What becomes of a line past the bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverlongLine {
    /// It is read to its end, and the stream goes on behind it.
    PassOver,
    /// It is told at once. What follows on the stream makes no sense then.
    Stop,
}

/// Lines of a stream, each of a bounded length.
#[derive(Debug)]
pub struct Lines<R> {
    stream: R,
    most: usize,
    overlong: OverlongLine,
    held: BytesMut,
    /// How much of `held` is known to have no line end.
    searched: usize,
    /// Bytes of the line that is being passed over.
    skipped: Option<usize>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Reads from `stream` lines of at most `most` bytes.
    pub fn new(stream: R, most: usize, overlong: OverlongLine) -> Self {
        Self { stream, most, overlong, held: BytesMut::new(), searched: 0, skipped: None }
    }

    /// The next line. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The stream's.
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

    /// A flood without a line end holds no more than the bound and one chunk.
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
