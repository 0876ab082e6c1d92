//! Where the body of a response ends: by its length, by its chunks, or with its connection (RFC 9112, 6).

use std::{fmt, io};

use bytes::{Buf as _, Bytes, BytesMut};

/// The longest line between chunks, in bytes.
const LINE: usize = 1 << 10;
/// Bytes of trailers.
const TRAILERS: usize = 16 << 10;

/// Why a response cannot be read.
#[derive(Debug)]
pub(super) enum Fault {
    Io(io::Error),
    /// It is not what it should be.
    Not(&'static str),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Not(why) => f.write_str(why),
        }
    }
}

/// What is left of a body.
#[derive(Debug)]
pub(super) enum Framing {
    Length(u64),
    Chunked(Chunks),
    /// All that comes.
    Connection,
    Over,
}

/// Where in its chunks a body is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Chunks {
    /// Before a size.
    Size,
    /// Within one, with so many bytes to come.
    Data(u64),
    /// Behind one.
    Behind,
    /// Behind the last, with so much read of what follows.
    Trailers(usize),
}

/// What was read of a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    Data(Bytes),
    /// More must come first.
    More,
    End,
}

impl Framing {
    pub(super) fn chunked() -> Self {
        Self::Chunked(Chunks::Size)
    }

    /// Of so many bytes.
    pub(super) fn of(length: u64) -> Self {
        if length == 0 { Self::Over } else { Self::Length(length) }
    }

    pub(super) fn ends_with_the_connection(&self) -> bool {
        matches!(self, Self::Connection)
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self, Self::Over)
    }

    /// How many bytes are to come, where that is known.
    pub(super) fn length(&self) -> Option<u64> {
        match self {
            Self::Length(left) => Some(*left),
            Self::Over => Some(0),
            Self::Chunked(_) | Self::Connection => None,
        }
    }

    /// Takes from `heard` what belongs to the body. Where it ends with that, it is known at once.
    pub(super) fn read(&mut self, heard: &mut BytesMut) -> Result<Part, Fault> {
        match self {
            Self::Over => Ok(Part::End),
            Self::Connection if heard.is_empty() => Ok(Part::More),
            Self::Connection => Ok(Part::Data(heard.split().freeze())),
            Self::Length(left) => {
                let Some(data) = take(heard, left) else { return Ok(Part::More) };
                if *left == 0 {
                    *self = Self::Over;
                }
                Ok(Part::Data(data))
            }
            Self::Chunked(chunks) => {
                let part = chunks.read(heard)?;
                // What is there already behind the data tells whether more is to come.
                let ended = match &part {
                    Part::Data(_) => chunks.pass(heard)?,
                    Part::End => true,
                    Part::More => false,
                };
                if ended {
                    *self = Self::Over;
                }
                Ok(part)
            }
        }
    }
}

impl Chunks {
    fn read(&mut self, heard: &mut BytesMut) -> Result<Part, Fault> {
        if self.pass(heard)? {
            return Ok(Part::End);
        }
        match self {
            Self::Data(left) => Ok(take(heard, left).map_or(Part::More, Part::Data)),
            Self::Size | Self::Behind | Self::Trailers(_) => Ok(Part::More),
        }
    }

    /// Reads up to the next data; whether there is none any more.
    fn pass(&mut self, heard: &mut BytesMut) -> Result<bool, Fault> {
        loop {
            *self = match *self {
                Self::Data(0) => Self::Behind,
                Self::Data(_) => return Ok(false),
                Self::Behind => match line(heard)? {
                    None => return Ok(false),
                    Some(line) if line.is_empty() => Self::Size,
                    Some(_) => return Err(Fault::Not("a chunk is longer than it says")),
                },
                Self::Size => match line(heard)? {
                    None => return Ok(false),
                    Some(line) => match size(&line).ok_or(Fault::Not("a chunk has no size"))? {
                        0 => Self::Trailers(0),
                        size => Self::Data(size),
                    },
                },
                Self::Trailers(read) => match line(heard)? {
                    None => return Ok(false),
                    Some(line) if line.is_empty() => return Ok(true),
                    Some(line) if read + line.len() > TRAILERS => {
                        return Err(Fault::Not("what follows it is too large"));
                    }
                    // Of no use here.
                    Some(line) => Self::Trailers(read + line.len()),
                },
            };
        }
    }
}

fn take(heard: &mut BytesMut, left: &mut u64) -> Option<Bytes> {
    let most = usize::try_from(*left).unwrap_or(usize::MAX).min(heard.len());
    *left -= most as u64;
    (most > 0).then(|| heard.split_to(most).freeze())
}

/// A line without its end; nothing where that has not come.
fn line(heard: &mut BytesMut) -> Result<Option<BytesMut>, Fault> {
    let Some(end) = heard.iter().take(LINE).position(|byte| *byte == b'\n') else {
        return if heard.len() < LINE { Ok(None) } else { Err(Fault::Not("a line is too long")) };
    };
    let mut line = heard.split_to(end);
    heard.advance(1);
    if line.last() != Some(&b'\r') {
        return Err(Fault::Not("a line ends in half an end"));
    }
    line.truncate(end - 1);
    Ok(Some(line))
}

/// The size of a chunk; what else stands there is nobody's.
fn size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| *byte == b';').next()?.trim_ascii_end();
    if digits.is_empty() || digits.len() > 15 {
        return None;
    }
    digits.iter().try_fold(0, |sum, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(sum * 16 + u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::{Framing, Part};

    /// All of a body, of which so many bytes come at a time; and what is left behind it.
    fn all(
        mut framing: Framing,
        text: &[u8],
        at_once: usize,
    ) -> Result<(Vec<u8>, Vec<u8>), String> {
        let (mut heard, mut body, mut parts) = (BytesMut::new(), Vec::new(), text.chunks(at_once));
        while !framing.is_over() {
            match framing.read(&mut heard).map_err(|fault| fault.to_string())? {
                Part::Data(data) => body.extend_from_slice(&data),
                Part::More => heard.extend_from_slice(parts.next().ok_or("it broke off")?),
                Part::End => {}
            }
        }
        parts.for_each(|part| heard.extend_from_slice(part));
        Ok((body, heard.to_vec()))
    }

    #[test]
    fn a_body_is_the_same_in_whatever_pieces_it_comes() {
        let chunked = b"3\r\nabc\r\n0a;x=y\r\n0123456789\r\n0\r\nA: b\r\n\r\nrest";
        for at_once in 1..chunked.len() {
            let read = all(Framing::chunked(), chunked, at_once).unwrap();
            assert_eq!(read, (b"abc0123456789".to_vec(), b"rest".to_vec()), "{at_once}");
            let read = all(Framing::Length(5), chunked, at_once).unwrap();
            assert_eq!(read, (b"3\r\nab".to_vec(), chunked[5..].to_vec()), "{at_once}");
        }
    }

    #[test]
    fn the_end_is_known_with_the_last_data() {
        let mut heard = BytesMut::from(&b"3\r\nabc\r\n0\r\n\r\n"[..]);
        let mut framing = Framing::chunked();
        assert_eq!(framing.read(&mut heard).unwrap(), Part::Data("abc".into()));
        assert!(framing.is_over() && heard.is_empty());
    }

    #[test]
    fn chunks_that_could_be_read_in_two_ways_are_refused() {
        let long = [b"3;".as_slice(), &[b'x'; 2_000], b"\r\nabc\r\n0\r\n\r\n"].concat();
        let trailers = [b"0\r\n".as_slice(), &b"A: b\r\n".repeat(5_000), b"\r\n"].concat();
        for text in [
            &b"zz\r\n"[..],
            b"\r\nabc",
            b"-3\r\nabc\r\n",
            b"+3\r\nabc\r\n",
            b"0x3\r\nabc\r\n",
            b" 3\r\nabc\r\n",
            b"3\nabc\r\n0\r\n\r\n",
            b"3\r\nabcd\r\n0\r\n\r\n",
            b"3\r\nabc\n0\r\n\r\n",
            b"ffffffffffffffff\r\n",
            b"3 3\r\nabc\r\n",
            b"3\r\nab",
            &long,
            &trailers,
        ] {
            assert!(
                all(Framing::chunked(), text, 7).is_err(),
                "{:?}",
                String::from_utf8_lossy(text)
            );
        }
        // Positive control: the same without its fault.
        assert!(all(Framing::chunked(), b"3\r\nabc\r\n0\r\n\r\n", 7).is_ok());
    }
}
