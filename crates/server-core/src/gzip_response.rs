//! Precompressed response bodies for clients that accept gzip: compressed once, and sent between
//! other bytes without compressing them again.
//!
//! A deflate stream consists of blocks, which end where the writer chooses. The cached part is
//! compressed up to such an end; the bytes before and after it are added as stored blocks, and the
//! checksum is combined from those of the parts (RFC 1951 and 1952).

use bytes::Bytes;
use crc32fast::Hasher;
use flate2::{Compress, Compression, FlushCompress, Status};
use http::HeaderMap;
use http::header::ACCEPT_ENCODING;

/// Smaller lists are not compressed.
pub(crate) const MIN_COMPRESS_BYTES: usize = 8 << 10;
/// The header of a gzip stream: deflate, no name, no time, an unknown system.
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
/// Maximum size of a stored block.
const MAX_STORED_BLOCK: usize = u16::MAX as usize;

/// Whether the client accepts gzip.
pub fn accepts_gzip(headers: &HeaderMap) -> bool {
    let texts = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).any(is_gzip_allowed)
}

/// Whether one content coding is gzip with a nonzero weight.
fn is_gzip_allowed(coding: &str) -> bool {
    let mut parts = coding.split(';').map(str::trim);
    let named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
    let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
    named && weight.is_none_or(|weight| weight.parse().is_ok_and(|weight: f32| weight > 0.0))
}

/// The compressed middle part of a response.
#[derive(Debug)]
pub struct PrecompressedBody {
    /// Deflate blocks up to a byte boundary, none of them the last.
    blocks: Bytes,
    /// The checksum of the uncompressed bytes.
    checksum: Hasher,
    len: u32,
}

impl PrecompressedBody {
    /// Compresses `pieces` as one. `None` on failure: they are then sent uncompressed.
    pub(crate) fn compress(pieces: &[Bytes]) -> Option<Self> {
        let (mut sum, mut len) = (Hasher::new(), 0u32);
        let mut packer = Compress::new(Compression::default(), false);
        let mut blocks = Vec::new();
        for (at, piece) in pieces.iter().enumerate() {
            sum.update(piece);
            len = len.checked_add(u32::try_from(piece.len()).ok()?)?;
            let last = at + 1 == pieces.len();
            compress_piece(&mut packer, piece, last, &mut blocks)?;
        }
        Some(Self { blocks: blocks.into(), checksum: sum, len })
    }

    /// The complete gzip stream: `head`, the compressed part, `tail`.
    pub fn wrap_pieces(&self, head: &[u8], tail: &[u8]) -> [Bytes; 3] {
        let mut sum = Hasher::new();
        sum.update(head);
        sum.combine(&self.checksum);
        sum.update(tail);
        // The format stores the length modulo 2^32.
        let around = u32::try_from(head.len() + tail.len()).unwrap_or_default();
        let mut before = GZIP_HEADER.to_vec();
        for block in head.chunks(MAX_STORED_BLOCK) {
            write_stored_block(block, false, &mut before);
        }
        let mut behind = Vec::new();
        let mut blocks = tail.chunks(MAX_STORED_BLOCK).peekable();
        while let Some(block) = blocks.next() {
            write_stored_block(block, blocks.peek().is_none(), &mut behind);
        }
        if tail.is_empty() {
            write_stored_block(&[], true, &mut behind);
        }
        behind.extend(sum.finalize().to_le_bytes());
        behind.extend(self.len.wrapping_add(around).to_le_bytes());
        [before.into(), self.blocks.clone(), behind.into()]
    }
}

/// Compresses all of `piece`; with `flush`, up to a byte boundary.
fn compress_piece(
    packer: &mut Compress,
    piece: &[u8],
    flush: bool,
    out: &mut Vec<u8>,
) -> Option<()> {
    let flush = if flush { FlushCompress::Sync } else { FlushCompress::None };
    let begun = packer.total_in();
    loop {
        out.reserve((piece.len() / 8).max(4 << 10));
        let done = usize::try_from(packer.total_in() - begun).ok()?;
        let status = packer.compress_vec(piece.get(done..)?, out, flush).ok()?;
        let done = usize::try_from(packer.total_in() - begun).ok()?;
        // Unused capacity means that there is no more output.
        if done == piece.len() && out.len() < out.capacity() {
            return matches!(status, Status::Ok | Status::BufError).then_some(());
        }
    }
}

/// Writes a stored block of at most [`MAX_STORED_BLOCK`] bytes.
fn write_stored_block(bytes: &[u8], last: bool, out: &mut Vec<u8>) {
    let len = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    out.push(u8::from(last));
    out.extend(len.to_le_bytes());
    out.extend((!len).to_le_bytes());
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use bytes::Bytes;
    use http::header::ACCEPT_ENCODING;
    use http::{HeaderMap, HeaderValue};

    use super::{PrecompressedBody, accepts_gzip};

    /// Decompresses as a client does: one member, and nothing after it.
    fn read(parts: &[Bytes]) -> Vec<u8> {
        let whole = parts.concat();
        let mut reader = flate2::bufread::GzDecoder::new(whole.as_slice());
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        assert!(reader.into_inner().is_empty(), "bytes behind the end");
        read
    }

    #[test]
    fn what_is_packed_once_goes_with_any_words_around_it() {
        let list = Bytes::from(br#"{"name":"tool","description":"the same again"},"#.repeat(9_000));
        let second = Bytes::from_static(b"and more");
        let packed = PrecompressedBody::compress(&[list.clone(), second.clone()]).unwrap();
        assert!(packed.blocks.len() * 20 < list.len());
        for (head, tail) in
            [("", ""), ("{\"id\":1,", "}"), (&"x".repeat(70_000), &"y".repeat(70_000))]
        {
            let parts = packed.wrap_pieces(head.as_bytes(), tail.as_bytes());
            let whole = [head.as_bytes(), &list, &second, tail.as_bytes()].concat();
            assert!(read(&parts) == whole, "with {} and {} bytes around", head.len(), tail.len());
        }
    }

    #[test]
    fn bytes_that_nothing_makes_smaller_come_out_whole_too() {
        let mut state = 1u32;
        let noise = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let noise: Bytes = (0..300_000).map(noise).collect::<Vec<_>>().into();
        let packed = PrecompressedBody::compress(std::slice::from_ref(&noise)).unwrap();
        assert!(read(&packed.wrap_pieces(b"<", b">")) == [b"<", &noise[..], b">"].concat());
        assert_eq!(read(&PrecompressedBody::compress(&[]).unwrap().wrap_pieces(b"a", b"b")), b"ab");
    }

    #[test]
    fn a_client_says_whether_it_takes_it() {
        let asked = |value| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(value));
            accepts_gzip(&headers)
        };
        for value in ["gzip", "br, GZIP", "deflate;q=1, gzip;q=0.5", "gzip; q=1"] {
            assert!(asked(value), "{value}");
        }
        for value in ["", "br", "identity", "gzip;q=0", "gzip;q=0.0, br", "*;q=0", "gzipped"] {
            assert!(!asked(value), "{value}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
