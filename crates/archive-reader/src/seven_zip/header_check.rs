//! Memory check of a packed 7z header: its unpacked size and dictionary.
//!
//! The decoder would allocate whatever the archive declares. 7-Zip packs the header in one stream
//! with one method; any other structure is rejected.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};

use super::dictionary_size;
use crate::extraction_limits::{ArchiveError, MAX_DECODER_KIB, MAX_DIRECTORY_BYTES};

/// Bytes of the signature header.
const SIGNATURE_HEADER_BYTES: usize = 32;
/// Markers of a plain and of a packed header.
const PLAIN: u8 = 0x01;
const PACKED: u8 = 0x17;

/// Checks that a dictionary is within the memory limit.
pub(crate) fn check_dictionary(dictionary: u64) -> Result<(), ArchiveError> {
    if dictionary >> 10 > u64::from(MAX_DECODER_KIB) {
        let most = MAX_DECODER_KIB >> 10;
        return Err(ArchiveError::too_large(format!(
            "the archive needs more than {most} MiB of memory"
        )));
    }
    Ok(())
}

pub(crate) fn check_header(file: &mut File) -> Result<(), ArchiveError> {
    let mut start = [0; SIGNATURE_HEADER_BYTES];
    file.read_exact(&mut start)?;
    let number = |at: usize| {
        let bytes = start.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        u64::from_le_bytes(bytes.unwrap_or_default())
    };
    let (offset, length) = (number(12), number(20));
    if start.get(8..12) == Some(&[0; 4]) || length > MAX_DIRECTORY_BYTES {
        return Err(ArchiveError::invalid("the archive's header is missing or too large"));
    }
    file.seek(SeekFrom::Start((SIGNATURE_HEADER_BYTES as u64).saturating_add(offset)))?;
    let mut header = Vec::new();
    file.take(length).read_to_end(&mut header)?;
    file.seek(SeekFrom::Start(0))?;
    match header.split_first() {
        None | Some((&PLAIN, _)) => Ok(()),
        Some((&PACKED, rest)) => check_packed_header(rest),
        Some(_) => Err(ArchiveError::invalid("the archive has no header")),
    }
}

/// `PackInfo` of one stream, `UnpackInfo` of one folder with one method, and how large it gets.
fn check_packed_header(rest: &[u8]) -> Result<(), ArchiveError> {
    let strange = || ArchiveError::invalid("the archive's header uses an unsupported encoding");
    let mut at = ByteReader(rest);
    let mut read = || -> io::Result<Option<(u64, u64)>> {
        if at.take_byte()? != 0x06 || at.read_varint().and_then(|_| at.read_varint())? != 1 {
            return Ok(None);
        }
        loop {
            match at.take_byte()? {
                0x00 => break,
                0x09 => drop(at.read_varint()?),
                // One checksum, which all have.
                0x0a if at.take_byte()? == 1 => drop(at.take_bytes(4)?),
                _ => return Ok(None),
            }
        }
        if at.take_byte()? != 0x07
            || at.take_byte()? != 0x0b
            || at.read_varint()? != 1
            || at.take_byte()? != 0
        {
            return Ok(None);
        }
        let (coders, flags) = (at.read_varint()?, at.take_byte()?);
        // Neither several streams nor other methods.
        if coders != 1 || flags & 0xd0 != 0 {
            return Ok(None);
        }
        let method = at.take_bytes(usize::from(flags & 0x0f))?;
        let properties = if flags & 0x20 != 0 {
            let length = at.read_varint()?;
            at.take_bytes(usize::try_from(length).unwrap_or(usize::MAX))?
        } else {
            &[]
        };
        let dictionary = dictionary_size(method, properties);
        if at.take_byte()? != 0x0c {
            return Ok(None);
        }
        Ok(Some((dictionary, at.read_varint()?)))
    };
    let (dictionary, length) = read().ok().flatten().ok_or_else(strange)?;
    check_dictionary(dictionary)?;
    if length > MAX_DIRECTORY_BYTES {
        return Err(ArchiveError::too_large("the archive's header is too large"));
    }
    Ok(())
}

struct ByteReader<'a>(&'a [u8]);

impl<'a> ByteReader<'a> {
    fn take_bytes(&mut self, count: usize) -> io::Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(io::ErrorKind::UnexpectedEof)?;
        self.0 = rest;
        Ok(taken)
    }

    fn take_byte(&mut self) -> io::Result<u8> {
        self.take_bytes(1).map(|one| one.first().copied().unwrap_or_default())
    }

    /// Reads a 7z variable-length number: the leading ones of the first byte count the following
    /// bytes.
    fn read_varint(&mut self) -> io::Result<u64> {
        let first = self.take_byte()?;
        let more = first.leading_ones();
        let low = self.take_bytes(more as usize)?;
        let low = low.iter().rev().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
        let mask = 0xff_u32.checked_shr(more + 1).unwrap_or(0);
        let high = u64::from(u32::from(first) & mask);
        Ok(low | high.checked_shl(8 * more).unwrap_or(0))
    }
}
