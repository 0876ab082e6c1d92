//! Body framing of responses: content length, chunked, or until the connection closes (RFC 9112,
//! 6).

use bytes::{Buf as _, Bytes, BytesMut};
use http::header::{HeaderName, HeaderValue};

use crate::error::ProtocolError;

/// Maximum length of a line between chunks, in bytes.
const MAX_LINE_BYTES: usize = 1 << 10;
/// Maximum size of all chunk extensions of a body, in bytes. The limit of hyper is one less.
const MAX_EXTENSION_BYTES: usize = (16 << 10) - 2;
/// Maximum size of trailers, in bytes. The limit of hyper is not lower.
const MAX_TRAILER_BYTES: usize = (16 << 10) - 8;
/// Maximum number of trailer fields. The limit of hyper is not lower.
const MAX_TRAILER_FIELDS: usize = 64;

/// How the rest of a body is delimited.
#[derive(Debug)]
pub enum BodyFraming {
    /// The given number of bytes.
    Length(u64),
    /// Chunked transfer coding.
    Chunked(ChunkDecoder),
    /// All data until the connection is closed.
    UntilClose,
    /// Nothing remains of the body.
    Complete,
}

/// The state of decoding a chunked body.
#[derive(Debug, Clone, Copy, Default)]
pub struct ChunkDecoder {
    state: ChunkState,
    /// The size of the extensions so far, in bytes.
    extension_bytes: usize,
}

#[derive(Debug, Clone, Copy, Default)]
enum ChunkState {
    /// Before the size of a chunk.
    #[default]
    Size,
    /// Within a chunk, with the number of remaining bytes.
    Data(u64),
    /// After the data of a chunk.
    DataEnd,
    /// After the last chunk, with the size in bytes and the number of trailers so far.
    Trailers(usize, usize),
}

/// The result of one decoding step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BodyPart {
    Data(Bytes),
    /// More input is needed.
    Incomplete,
    End,
}

impl BodyFraming {
    /// Returns the framing of a chunked body.
    pub(crate) fn new_chunked() -> Self {
        Self::Chunked(ChunkDecoder::default())
    }

    /// Returns the framing of a body with this length.
    pub(crate) fn from_length(length: u64) -> Self {
        if length == 0 { Self::Complete } else { Self::Length(length) }
    }

    /// Whether the body ends when the connection closes.
    pub fn is_close_delimited(&self) -> bool {
        matches!(self, Self::UntilClose)
    }

    /// Whether the body has ended.
    pub fn is_complete(&self) -> bool {
        matches!(self, Self::Complete)
    }

    /// Returns the number of remaining bytes, if it is known.
    pub fn remaining_length(&self) -> Option<u64> {
        match self {
            Self::Length(left) => Some(*left),
            Self::Complete => Some(0),
            Self::Chunked(_) | Self::UntilClose => None,
        }
    }

    /// Takes the next part of the body from `buffer`. Detects the end of the body as early as
    /// possible.
    pub(crate) fn decode_part(&mut self, buffer: &mut BytesMut) -> Result<BodyPart, ProtocolError> {
        match self {
            Self::Complete => Ok(BodyPart::End),
            Self::UntilClose if buffer.is_empty() => Ok(BodyPart::Incomplete),
            Self::UntilClose => Ok(BodyPart::Data(buffer.split().freeze())),
            Self::Length(left) => {
                let Some(data) = take_available(buffer, left) else {
                    return Ok(BodyPart::Incomplete);
                };
                if *left == 0 {
                    *self = Self::Complete;
                }
                Ok(BodyPart::Data(data))
            }
            Self::Chunked(chunks) => {
                let part = chunks.decode_part(buffer)?;
                // The bytes after the data may already end the body.
                let has_ended = match &part {
                    BodyPart::Data(_) => chunks.advance_to_data(buffer)?,
                    BodyPart::End => true,
                    BodyPart::Incomplete => false,
                };
                if has_ended {
                    *self = Self::Complete;
                }
                Ok(part)
            }
        }
    }
}

impl ChunkDecoder {
    fn decode_part(&mut self, buffer: &mut BytesMut) -> Result<BodyPart, ProtocolError> {
        if self.advance_to_data(buffer)? {
            return Ok(BodyPart::End);
        }
        match &mut self.state {
            ChunkState::Data(left) => {
                Ok(take_available(buffer, left).map_or(BodyPart::Incomplete, BodyPart::Data))
            }
            ChunkState::Size | ChunkState::DataEnd | ChunkState::Trailers(..) => {
                Ok(BodyPart::Incomplete)
            }
        }
    }

    /// Advances to the next chunk data. Returns whether the body has ended.
    fn advance_to_data(&mut self, buffer: &mut BytesMut) -> Result<bool, ProtocolError> {
        loop {
            self.state = match self.state {
                ChunkState::Data(0) => ChunkState::DataEnd,
                ChunkState::Data(_) => return Ok(false),
                ChunkState::DataEnd => match take_line(buffer)? {
                    None => return Ok(false),
                    Some(line) if line.is_empty() => ChunkState::Size,
                    Some(_) => {
                        return Err(ProtocolError::Invalid("a chunk is longer than its size"));
                    }
                },
                ChunkState::Size => match take_line(buffer)? {
                    None => return Ok(false),
                    Some(line) => match self.parse_chunk_size(&line)? {
                        0 => ChunkState::Trailers(0, 0),
                        size => ChunkState::Data(size),
                    },
                },
                ChunkState::Trailers(size, count) => match take_line(buffer)? {
                    None => return Ok(false),
                    Some(line) if line.is_empty() => return Ok(true),
                    Some(line) => {
                        let (size, count) = (size + line.len() + 2, count + 1);
                        if size > MAX_TRAILER_BYTES || count > MAX_TRAILER_FIELDS {
                            return Err(ProtocolError::Invalid("its trailers are too large"));
                        }
                        if !is_valid_trailer(&line) {
                            return Err(ProtocolError::Invalid("its trailers are invalid"));
                        }
                        // Trailers are of no use here.
                        ChunkState::Trailers(size, count)
                    }
                },
            };
        }
    }

    /// Parses the size of a chunk. Extensions are limited in size and ignored.
    fn parse_chunk_size(&mut self, line: &[u8]) -> Result<u64, ProtocolError> {
        let count = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let (digits, rest) = line.split_at_checked(count).unwrap_or_default();
        let extension = rest.trim_ascii_start();
        let is_spaced = rest.iter().take(rest.len() - extension.len()).all(|b| b" \t".contains(b));
        let has_extension = extension.first() == Some(&b';');
        let is_plain = is_spaced && (has_extension || extension.is_empty());
        // A reader that takes a bare CR for a line end sees another chunk.
        if !is_plain || extension.contains(&b'\r') {
            return Err(ProtocolError::Invalid("a chunk has no size"));
        }
        self.extension_bytes += extension.len();
        if self.extension_bytes > MAX_EXTENSION_BYTES {
            return Err(ProtocolError::Invalid("its chunk extensions are too long"));
        }
        parse_hexadecimal(digits).ok_or(ProtocolError::Invalid("a chunk has no size"))
    }
}

fn take_available(buffer: &mut BytesMut, left: &mut u64) -> Option<Bytes> {
    let most = usize::try_from(*left).unwrap_or(usize::MAX).min(buffer.len());
    *left -= most as u64;
    (most > 0).then(|| buffer.split_to(most).freeze())
}

/// Takes a line without its line end, or `None` if it is incomplete.
fn take_line(buffer: &mut BytesMut) -> Result<Option<BytesMut>, ProtocolError> {
    let Some(end) = buffer.iter().take(MAX_LINE_BYTES).position(|byte| *byte == b'\n') else {
        return if buffer.len() < MAX_LINE_BYTES {
            Ok(None)
        } else {
            Err(ProtocolError::Invalid("a line is too long"))
        };
    };
    let mut line = buffer.split_to(end);
    buffer.advance(1);
    if line.last() != Some(&b'\r') {
        return Err(ProtocolError::Invalid("a line ends without a line feed"));
    }
    line.truncate(end - 1);
    Ok(Some(line))
}

/// Whether a line is a name, a colon and a value, as hyper requires of trailers.
fn is_valid_trailer(line: &[u8]) -> bool {
    let Some(colon) = line.iter().position(|byte| *byte == b':') else { return false };
    let (name, value) = line.split_at_checked(colon).unwrap_or_default();
    let value = value.get(1..).unwrap_or_default();
    HeaderName::from_bytes(name).is_ok() && HeaderValue::from_bytes(value).is_ok()
}

fn parse_hexadecimal(digits: &[u8]) -> Option<u64> {
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

    use super::{BodyFraming, BodyPart};

    /// All of a body, of which so many bytes come at a time; and what is left behind it.
    fn all(
        mut framing: BodyFraming,
        text: &[u8],
        at_once: usize,
    ) -> Result<(Vec<u8>, Vec<u8>), String> {
        let (mut buffer, mut body, mut parts) = (BytesMut::new(), Vec::new(), text.chunks(at_once));
        while !framing.is_complete() {
            match framing.decode_part(&mut buffer).map_err(|fault| fault.to_string())? {
                BodyPart::Data(data) => body.extend_from_slice(&data),
                BodyPart::Incomplete => {
                    buffer.extend_from_slice(parts.next().ok_or("it broke off")?);
                }
                BodyPart::End => {}
            }
        }
        parts.for_each(|part| buffer.extend_from_slice(part));
        Ok((body, buffer.to_vec()))
    }

    #[test]
    fn a_body_is_the_same_in_whatever_pieces_it_comes() {
        let chunked = b"3\r\nabc\r\n0a;x=y\r\n0123456789\r\n0\r\nA: b\r\n\r\nrest";
        for at_once in 1..chunked.len() {
            let read = all(BodyFraming::new_chunked(), chunked, at_once).unwrap();
            assert_eq!(read, (b"abc0123456789".to_vec(), b"rest".to_vec()), "{at_once}");
            let read = all(BodyFraming::Length(5), chunked, at_once).unwrap();
            assert_eq!(read, (b"3\r\nab".to_vec(), chunked[5..].to_vec()), "{at_once}");
        }
    }

    #[test]
    fn the_end_is_known_with_the_last_data() {
        let mut buffer = BytesMut::from(&b"3\r\nabc\r\n0\r\n\r\n"[..]);
        let mut framing = BodyFraming::new_chunked();
        assert_eq!(framing.decode_part(&mut buffer).unwrap(), BodyPart::Data("abc".into()));
        assert!(framing.is_complete() && buffer.is_empty());
    }

    #[test]
    fn chunks_that_could_be_read_in_two_ways_are_refused() {
        let long = [b"3;".as_slice(), &[b'x'; 2_000], b"\r\nabc\r\n0\r\n\r\n"].concat();
        let extensions = [
            [b"1;".as_slice(), &[b'x'; 900], b"\r\na\r\n"].concat().repeat(20),
            b"0\r\n\r\n".to_vec(),
        ]
        .concat();
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
            b"3\r\r\nabc\r\n0\r\n\r\n",
            b"3;a\rb\r\nabc\r\n0\r\n\r\n",
            b"3\x0c\r\nabc\r\n0\r\n\r\n",
            b"3\r\nabc\r\n0\r\nno field\r\n\r\n",
            b"3\r\nabc\r\n0\r\nA : b\r\n\r\n",
            b"3\r\nabc\r\n0\r\n A: b\r\n\r\n",
            &long,
            &trailers,
            &extensions,
        ] {
            assert!(
                all(BodyFraming::new_chunked(), text, 7).is_err(),
                "{:?}",
                String::from_utf8_lossy(text)
            );
        }
        // Positive control: the same without its fault.
        for text in [&b"3\r\nabc\r\n0\r\n\r\n"[..], b"3 \t;a=b\r\nabc\r\n0;c\r\nA: b\r\nC:\r\n\r\n"]
        {
            assert!(all(BodyFraming::new_chunked(), text, 7).is_ok());
        }
    }
}
