//! Segment file of the ledger: its name, its header and its creation.
//!
//! ```text
//!   0  [8]   "tkledger"
//!   8  u16   version: 1 where all bodies are JSON, 2 where some may be MessagePack
//!  10  u16   length of the header, 128
//!  12  u32   number, from 1
//!  16  u64   seq at which the process that made the file began
//!  24  u64   every frame up to this seq was on the disk when the file got its name
//!  32  u64   when, in milliseconds since 1970
//!  40  u8    length of the writer's name
//!  41  [64]  the writer's name, filled with zeros
//! 105  u64   a nonce, by which no two segments have the same checksum; zeros in older ones
//! 113  u8    1 where `WRITER.progress` stands beside it, 0 in older ones
//! 114  [10]  zeros
//! 124  u32   CRC-32 of bytes 0..124
//! ```
//!
//! A segment gets its name only after header, first frames and reserve are durable. A segment
//! without a complete header is therefore damaged.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tool::{FormatSupport, WallTime};

use crate::disk::{Disk, DiskFile, OpenMode, append_all, is_storage_full, read_fully};
use crate::frame::{read_array, write_array};
use crate::ledger_options::LedgerOptions;
use crate::slice::prefix;

/// Bytes before the first frame.
pub(crate) const SEGMENT_HEADER_BYTES: usize = 128;
/// Offset of the checksum, the last field of the header.
const CHECKSUM_OFFSET: usize = 124;
const MAGIC: [u8; 8] = *b"tkledger";
/// Versions of a segment. A ledger with an unknown version is not opened: an older program would
/// treat the newest frames as a torn end.
pub(crate) const FORMAT: FormatSupport = FormatSupport { oldest_readable: 1, written: 2 };
const SEGMENT_SUFFIX: &str = ".seg";
const TOMBSTONE_SUFFIX: &str = ".tomb";
const FILTER_SUFFIX: &str = ".filter";
const PROGRESS: &str = "progress";
const CHECKPOINT: &str = "checkpoint";
const OLD_TAIL: &str = "tail";

/// Directory and file names of one writer.
#[derive(Debug, Clone)]
pub(crate) struct WriterDir {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) writer_name: String,
}

impl WriterDir {
    pub(crate) fn segment_path(&self, number: u32) -> PathBuf {
        self.dir.join(segment_name(&self.writer_name, number))
    }

    /// A file that is no segment yet, or never.
    fn temp_path(&self) -> PathBuf {
        self.dir.join(format!("{}.tmp", self.writer_name))
    }

    /// Returns the path of a segment's tombstone and its temporary path.
    pub(crate) fn tombstone_paths(&self, number: u32) -> (PathBuf, PathBuf) {
        let unnamed = self.dir.join(format!("{}.tomb.tmp", self.writer_name));
        (self.dir.join(tombstone_name(&self.writer_name, number)), unnamed)
    }

    /// Returns the path of a segment's filter and its temporary path.
    pub(crate) fn filter_paths(&self, number: u32) -> (PathBuf, PathBuf) {
        let unnamed = self.dir.join(format!("{}.filter.tmp", self.writer_name));
        (self.dir.join(format!("{}-{number:010}{FILTER_SUFFIX}", self.writer_name)), unnamed)
    }

    /// Returns the path of the progress file and its temporary path.
    pub(crate) fn progress_paths(&self) -> (PathBuf, PathBuf) {
        let at = |ending: &str| self.dir.join(format!("{}.{ending}", self.writer_name));
        (at(PROGRESS), at("progress.tmp"))
    }

    /// Returns the path of the file in which an older version stored the newest records.
    pub(crate) fn legacy_tail_path(&self) -> PathBuf {
        self.dir.join(format!("{}.{OLD_TAIL}", self.writer_name))
    }

    /// Returns the path of the newest signed checkpoint.
    pub(crate) fn checkpoint_path(&self) -> PathBuf {
        self.dir.join(format!("{}.{CHECKPOINT}", self.writer_name))
    }

    pub(crate) fn open_segment(
        &self,
        number: u32,
        mode: OpenMode,
    ) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open_file(&self.segment_path(number), mode)
    }

    /// Reads the header of a segment; `None` if it is invalid.
    pub(crate) fn read_header(&self, number: u32) -> io::Result<Option<SegmentHeader>> {
        let file = self.open_segment(number, OpenMode::Read)?;
        Ok(SegmentHeader::read_header(file.as_ref())?.ok())
    }
}

/// Returns the numbers of `writer`'s files among `names`, in order; `parse_name` selects the kind of
/// file.
pub(crate) fn file_numbers(
    names: &[String],
    writer: &str,
    parse_name: fn(&str) -> Option<(&str, u32)>,
) -> Vec<u32> {
    let parsed = names.iter().filter_map(|name| parse_name(name));
    let mut numbers: Vec<_> = parsed.filter(|(of, _)| *of == writer).map(|(_, n)| n).collect();
    numbers.sort_unstable();
    numbers
}

/// Parses the writer from the name of a ledger file; `None` for other files.
pub(crate) fn parse_writer(file: &str) -> Option<&str> {
    let beside = || {
        let (writer, ending) = file.rsplit_once('.')?;
        [PROGRESS, CHECKPOINT, OLD_TAIL].contains(&ending).then_some(writer)
    };
    let of =
        parse_segment_name(file).or_else(|| parse_tombstone_name(file)).map(|(writer, _)| writer);
    of.or_else(beside)
}

/// Returns the file name of a segment.
pub(crate) fn segment_name(writer: &str, number: u32) -> String {
    format!("{writer}-{number:010}{SEGMENT_SUFFIX}")
}

/// Returns the file name of a tombstone.
pub(crate) fn tombstone_name(writer: &str, number: u32) -> String {
    format!("{writer}-{number:010}{TOMBSTONE_SUFFIX}")
}

/// Parses the writer and the number from a segment's name; `None` for other files.
pub(crate) fn parse_segment_name(file: &str) -> Option<(&str, u32)> {
    parse_file_name(file, SEGMENT_SUFFIX)
}

/// Returns whether a file is the one in which an older version stored a writer's newest records.
pub(crate) fn is_legacy_tail(file: &str) -> bool {
    file.rsplit_once('.').is_some_and(|(_, ending)| ending == OLD_TAIL)
}

/// Parses the file name of a tombstone.
pub(crate) fn parse_tombstone_name(file: &str) -> Option<(&str, u32)> {
    parse_file_name(file, TOMBSTONE_SUFFIX)
}

/// Parses the file name of a filter.
pub(crate) fn parse_filter_name(file: &str) -> Option<(&str, u32)> {
    parse_file_name(file, FILTER_SUFFIX)
}

fn parse_file_name<'n>(file: &'n str, suffix: &str) -> Option<(&'n str, u32)> {
    let (writer, number) = file.strip_suffix(suffix)?.rsplit_once('-')?;
    let number = number.parse().ok()?;
    // Two names for one number would be two files for one segment.
    let same = format!("{writer}-{number:010}{suffix}") == file;
    same.then_some((writer, number))
}

/// Header of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) writer: String,
    pub(crate) number: u32,
    pub(crate) session_seq: u64,
    pub(crate) synced_seq: u64,
    pub(crate) created_at: WallTime,
    pub(crate) nonce: u64,
    /// Whether a progress file exists beside the segment.
    pub(crate) has_progress: bool,
}

/// Reason why a header is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SegmentHeaderError {
    Truncated,
    WrongMagic,
    UnknownVersion(u16),
    ChecksumMismatch,
}

impl fmt::Display for SegmentHeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("the file ends inside its header"),
            Self::WrongMagic => f.write_str("the file has no segment header"),
            Self::UnknownVersion(version) => write!(
                f,
                "the segment has the format version {version}, but this program supports versions \
                 up to {}: use a newer program",
                FORMAT.written
            ),
            Self::ChecksumMismatch => {
                f.write_str("the checksum of the segment's header does not match")
            }
        }
    }
}

impl SegmentHeader {
    pub(crate) fn encode_header(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        let writer = prefix(self.writer.as_bytes(), LedgerOptions::MAX_WRITER_BYTES);
        let [length, ..] = writer.len().to_le_bytes();
        write_array(&mut bytes, 0, MAGIC);
        let [low, high, ..] = FORMAT.written.to_le_bytes();
        write_array(&mut bytes, 8, [low, high]);
        write_array(&mut bytes, 10, [128, 0]);
        write_array(&mut bytes, 12, self.number.to_le_bytes());
        write_array(&mut bytes, 16, self.session_seq.to_le_bytes());
        write_array(&mut bytes, 24, self.synced_seq.to_le_bytes());
        write_array(&mut bytes, 32, self.created_at.0.to_le_bytes());
        write_array(&mut bytes, 40, [length]);
        if let Some(place) = bytes.get_mut(41..41 + writer.len()) {
            place.copy_from_slice(writer);
        }
        write_array(&mut bytes, 105, self.nonce.to_le_bytes());
        write_array(&mut bytes, 113, [u8::from(self.has_progress)]);
        let sum = crc32fast::hash(prefix(&bytes, CHECKSUM_OFFSET));
        write_array(&mut bytes, CHECKSUM_OFFSET, sum.to_le_bytes());
        bytes
    }

    /// Decodes the version of a segment, which this program need not support.
    pub(crate) fn decode_version(bytes: &[u8]) -> Result<u16, SegmentHeaderError> {
        let bytes = bytes.get(..SEGMENT_HEADER_BYTES).ok_or(SegmentHeaderError::Truncated)?;
        if read_array(bytes, 0) != Some(MAGIC) {
            return Err(SegmentHeaderError::WrongMagic);
        }
        let sum = crc32fast::hash(prefix(bytes, CHECKSUM_OFFSET));
        if read_array(bytes, CHECKSUM_OFFSET).map(u32::from_le_bytes) != Some(sum) {
            return Err(SegmentHeaderError::ChecksumMismatch);
        }
        Ok(read_array(bytes, 8).map_or(0, u16::from_le_bytes))
    }

    pub(crate) fn decode_header(bytes: &[u8]) -> Result<Self, SegmentHeaderError> {
        let version = Self::decode_version(bytes)?;
        if !FORMAT.can_read(version.into()) {
            return Err(SegmentHeaderError::UnknownVersion(version));
        }
        let u64_at = |at| read_array(bytes, at).map_or(0, u64::from_le_bytes);
        let length = usize::from(bytes.get(40).copied().ok_or(SegmentHeaderError::Truncated)?);
        let writer = bytes
            .get(41..41 + length.min(LedgerOptions::MAX_WRITER_BYTES))
            .ok_or(SegmentHeaderError::Truncated)?;
        Ok(Self {
            writer: String::from_utf8_lossy(writer).into_owned(),
            number: read_array(bytes, 12).map_or(0, u32::from_le_bytes),
            session_seq: u64_at(16),
            synced_seq: u64_at(24),
            created_at: WallTime(u64_at(32)),
            nonce: u64_at(105),
            has_progress: bytes.get(113) == Some(&1),
        })
    }

    pub(crate) fn read_header(file: &dyn DiskFile) -> io::Result<Result<Self, SegmentHeaderError>> {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        let have = read_fully(file, 0, &mut bytes)?;
        Ok(Self::decode_header(prefix(&bytes, have)))
    }
}

/// Disk space to allocate after the written data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReserveRequest {
    pub(crate) bytes: u64,
    /// Whether the segment is of no use without it.
    pub(crate) is_required: bool,
}

/// Truncates a file to `size` if it is longer, and releases the space allocated after it.
pub(crate) fn truncate_file(file: &dyn DiskFile, size: u64) -> io::Result<()> {
    file.truncate_to(file.file_size()?.min(size))
}

/// A newly created segment.
#[derive(Debug)]
pub(crate) struct CreatedSegment {
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) size: u64,
    /// End of the allocated space; `None` if the file system cannot allocate.
    pub(crate) reserved_end: Option<u64>,
    /// Reason why less space than requested was allocated.
    pub(crate) space_error: Option<io::Error>,
}

/// Creates the segment that `header` describes with `frames`, and waits until it is durable. An
/// existing file is replaced on success and unchanged on failure.
pub(crate) fn create_segment(
    writer_dir: &WriterDir,
    header: &SegmentHeader,
    frames: &[u8],
    reserve: ReserveRequest,
) -> io::Result<CreatedSegment> {
    let unnamed = writer_dir.temp_path();
    let file = writer_dir.disk.open_file(&unnamed, OpenMode::Truncate)?;
    let made = write_initial_content(file.as_ref(), header, frames, reserve)
        .and_then(|made| {
            file.sync_data()?;
            writer_dir.disk.rename_file(&unnamed, &writer_dir.segment_path(header.number))?;
            Ok(made)
        })
        .inspect_err(|_| {
            // Release the space that a full disk still granted; only the first error is reported.
            file.truncate_to(0).ok();
        });
    let (size, reserved_to, full) = made?;
    writer_dir.disk.sync_dir(&writer_dir.dir)?;
    Ok(CreatedSegment { file, size, reserved_end: reserved_to, space_error: full })
}

type FilledSegment = (u64, Option<u64>, Option<io::Error>);

fn write_initial_content(
    file: &dyn DiskFile,
    header: &SegmentHeader,
    frames: &[u8],
    room: ReserveRequest,
) -> io::Result<FilledSegment> {
    append_all(file, &header.encode_header())?;
    append_all(file, frames)?;
    let size = (SEGMENT_HEADER_BYTES + frames.len()) as u64;
    match reserve_space(file, size, room.bytes) {
        Ok(to) => Ok((size, to, None)),
        Err(error) if is_storage_full(&error) && !room.is_required => {
            let to = reserve_partial(file, size, room.bytes);
            Ok((size, Some(to), Some(error)))
        }
        Err(error) => Err(error),
    }
}

/// Allocates `bytes` after `size`, or twice as much if available, so that fewer turns allocate.
/// Returns the end of the allocated space; `None` if the file system cannot allocate.
pub(crate) fn reserve_space(file: &dyn DiskFile, size: u64, bytes: u64) -> io::Result<Option<u64>> {
    let reserve = |to| file.allocate_range(size, to).map(|can| can.then_some(to));
    match reserve(size + 2 * bytes) {
        Err(error) if is_storage_full(&error) => reserve(size + bytes),
        other => other,
    }
}

/// Allocates the space that a full disk still has, for some more calls.
fn reserve_partial(file: &dyn DiskFile, size: u64, bytes: u64) -> u64 {
    let mut parts = (1..8).map(|half| size + (bytes >> half));
    parts.find(|to| matches!(file.allocate_range(size, *to), Ok(true))).unwrap_or(size)
}

/// Estimates how many of `bytes` are free on the disk apart from all reserves; 0 if few or unknown.
/// Allocates nothing.
pub(crate) fn estimate_free(writer_dir: &WriterDir, bytes: u64) -> u64 {
    let Ok(file) = writer_dir.disk.open_file(&writer_dir.temp_path(), OpenMode::Truncate) else {
        return 0;
    };
    let parts = (1..8).rev().map(|part| bytes / 8 * part).chain([bytes / 32, bytes / 128]);
    let mut parts = parts.filter(|part| *part > 0);
    let free = parts.find(|part| matches!(file.allocate_range(0, *part), Ok(true)));
    file.truncate_to(0).ok();
    free.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{SegmentHeader, SegmentHeaderError, WallTime, parse_segment_name, segment_name};

    #[test]
    fn names_read_back_and_nothing_else_is_one() {
        assert_eq!(parse_segment_name(&segment_name("a-b", 7)), Some(("a-b", 7)));
        assert_eq!(parse_segment_name(&segment_name("main", u32::MAX)), Some(("main", u32::MAX)));
        for other in ["main-7.seg", "main-0000000007.tmp", "main.lock", "main-+000000007.seg", "x"]
        {
            assert_eq!(parse_segment_name(other), None, "{other}");
        }
    }

    #[test]
    fn headers_read_back_and_every_changed_bit_is_seen() {
        let header = SegmentHeader {
            writer: "w".repeat(64),
            number: 3,
            session_seq: 1 << 40,
            synced_seq: 17,
            created_at: WallTime(1_700_000_000_000),
            nonce: 1 << 63,
            has_progress: true,
        };
        let good = header.encode_header();
        assert_eq!(SegmentHeader::decode_header(&good), Ok(header.clone()));
        assert_eq!(SegmentHeader::decode_header(&good[..127]), Err(SegmentHeaderError::Truncated));
        for bit in 0..good.len() * 8 {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(SegmentHeader::decode_header(&bad).is_err(), "bit {bit}");
        }
        for (version, read) in [(0, false), (1, true), (2, true), (3, false)] {
            let mut other = good;
            other[8] = version;
            let sum = crc32fast::hash(&other[..124]).to_le_bytes();
            other[124..].copy_from_slice(&sum);
            let wrong = Err(SegmentHeaderError::UnknownVersion(u16::from(version)));
            let expected = if read { Ok(header.clone()) } else { wrong };
            assert_eq!(SegmentHeader::decode_header(&other), expected, "{version}");
        }
    }
}
