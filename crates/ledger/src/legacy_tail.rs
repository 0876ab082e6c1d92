//! Legacy tail file `WRITER.tail`, in which an older version stored the newest records until they
//! were in their segment. The next start validates it and moves its records to the segment. Current
//! versions never write it.
//!
//! ```text
//!  0  [8]  "tk-tail1"
//!  8  u32  checksum of the header of the segment that it goes on from
//! 12  u32  zero
//! 16  u64  where in that segment the first frame belongs
//! 24  u64  seq of the first frame
//! 32  u32  CRC-32 of bytes 0..32
//! 64       frames; behind them older ones
//! ```
//!
//! A frame counts if it has the next number and its checksum is valid; the checksum is XORed with
//! that of the segment's header. Frames after the newest one are older and have lower numbers. A
//! higher number after an unreadable frame is therefore damage.

use std::io;

use tool::WallTime;

use crate::disk::{DiskFile, OpenMode, append_all, read_fully};
use crate::frame::{MAX_SEQ, decode_frame, frame_length, read_array};
use crate::quarantine::quarantine_path;
use crate::segment::{SEGMENT_HEADER_BYTES, WriterDir};
use crate::slice::rest;

/// Bytes of the file.
pub(crate) const TAIL_BYTES: usize = 512 << 10;
/// Offset of the first frame.
pub(crate) const FRAMES_OFFSET: usize = 64;
const MAGIC: [u8; 8] = *b"tk-tail1";
/// Offset of the header's checksum in a segment.
const HEADER_CHECKSUM_OFFSET: u64 = 124;
/// The first bytes of a frame hold the checksum.
const MASKED_BYTES: usize = 8;
/// Bytes of frames that are summed up at most in the search for later ones.
const MAX_SEARCH_BYTES: usize = 64 << 20;

/// Content of the file for its segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LegacyTail {
    /// The number of the segment.
    pub(crate) number: u32,
    /// Offset in the segment at which the frames belong.
    pub(crate) offset: u64,
    /// The frames in order. The segment may contain some of them too.
    pub(crate) frames: Vec<u8>,
}

/// Result of reading the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LegacyTailScan {
    /// Whether the file exists.
    pub(crate) exists: bool,
    pub(crate) tail: Option<LegacyTail>,
    /// Why it cannot be read as a whole.
    pub(crate) damage_reason: Option<String>,
    /// Records that go on from a segment that is not there, up to this number.
    pub(crate) without_segment: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct LegacyTailHeader {
    segment: u32,
    from: u64,
    first_seq: u64,
}

impl LegacyTailHeader {
    fn decode_header(bytes: &[u8]) -> Option<Self> {
        let sum = crc32fast::hash(bytes.get(..32)?);
        let whole =
            read_array(bytes, 0)? == MAGIC && u32::from_le_bytes(read_array(bytes, 32)?) == sum;
        let head = Self {
            segment: u32::from_le_bytes(read_array(bytes, 8)?),
            from: u64::from_le_bytes(read_array(bytes, 16)?),
            first_seq: u64::from_le_bytes(read_array(bytes, 24)?),
        };
        let fits = head.from >= SEGMENT_HEADER_BYTES as u64
            && head.from < MAX_SEQ
            && head.first_seq < MAX_SEQ;
        (whole && fits).then_some(head)
    }
}

/// Reads the tail file of the segments `numbers`.
pub(crate) fn read_tail(writer_dir: &WriterDir, numbers: &[u32]) -> io::Result<LegacyTailScan> {
    let file = match writer_dir.disk.open_file(&writer_dir.legacy_tail_path(), OpenMode::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(LegacyTailScan::default());
        }
        opened => opened?,
    };
    let mut bytes = vec![0; TAIL_BYTES + 1];
    let have = read_fully(file.as_ref(), 0, &mut bytes)?;
    bytes.truncate(have);
    let mut reading = LegacyTailScan { exists: true, ..LegacyTailScan::default() };
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(reading);
    }
    if have != TAIL_BYTES {
        reading.damage_reason = Some(format!("it does not have the expected {TAIL_BYTES} bytes"));
    }
    let Some(head) = LegacyTailHeader::decode_header(&bytes) else {
        reading.damage_reason = Some("its head cannot be read".to_owned());
        return Ok(reading);
    };
    let body = rest(&bytes, FRAMES_OFFSET);
    let (held, next) = frames_in_order(body, head);
    if let Some(later) = find_later_frame(rest(body, held.len()), (head.segment, next)) {
        let text = format!("its record {next} is unreadable, but record {later} follows");
        reading.damage_reason = Some(text);
    }
    if held.is_empty() {
        return Ok(reading);
    }
    match find_segment(writer_dir, numbers, head.segment)? {
        Some(number) => reading.tail = Some(LegacyTail { number, offset: head.from, frames: held }),
        None => reading.without_segment = Some(next - 1),
    }
    Ok(reading)
}

/// Parts the checksum of a frame from that of its segment.
fn unmask_checksum(frame: &mut [u8], segment: u32) {
    if let Some(first) = frame.first_chunk_mut::<MASKED_BYTES>() {
        *first = (u64::from_le_bytes(*first) ^ (u64::from(segment) << 32)).to_le_bytes();
    }
}

/// The frame that `bytes` begin with, parted from its segment.
fn frame_at(bytes: &[u8], segment: u32) -> Option<Vec<u8>> {
    let mut frame = bytes.get(..frame_length(bytes).ok()?)?.to_vec();
    unmask_checksum(&mut frame, segment);
    decode_frame(&frame).is_ok().then_some(frame)
}

/// Returns the frames from `head` on, and the next number.
fn frames_in_order(body: &[u8], head: LegacyTailHeader) -> (Vec<u8>, u64) {
    let (mut held, mut next) = (Vec::new(), head.first_seq);
    while let Some(frame) = frame_at(rest(body, held.len()), head.segment)
        && decode_frame(&frame).is_ok_and(|frame| frame.seq == next)
    {
        held.extend_from_slice(&frame);
        next += 1;
    }
    (held, next)
}

/// The number of a frame in `rest` that is higher than `next`.
fn find_later_frame(rest: &[u8], (segment, next): (u32, u64)) -> Option<u64> {
    let mut search = MAX_SEARCH_BYTES;
    for at in 0..rest.len() {
        let ahead = rest.get(at..)?;
        let Ok(length) = frame_length(ahead) else { continue };
        search = search.checked_sub(length)?;
        let frame = frame_at(ahead, segment);
        let seq = frame.and_then(|frame| decode_frame(&frame).ok().map(|frame| frame.seq));
        if let Some(seq) = seq.filter(|seq| *seq > next) {
            return Some(seq);
        }
    }
    None
}

/// Finds the segment whose header has this checksum.
fn find_segment(site: &WriterDir, numbers: &[u32], sum: u32) -> io::Result<Option<u32>> {
    for number in numbers.iter().rev() {
        let file = site.open_segment(*number, OpenMode::Read)?;
        let mut bytes = [0; 4];
        let read = read_fully(file.as_ref(), HEADER_CHECKSUM_OFFSET, &mut bytes)?;
        if read == bytes.len() && u32::from_le_bytes(bytes) == sum {
            return Ok(Some(*number));
        }
    }
    Ok(None)
}

/// Moves the frames of the tail to their segment and removes the file. A damaged file is set aside
/// under another name.
pub(crate) fn migrate_tail(
    writer_dir: &WriterDir,
    scan: &LegacyTailScan,
    now: WallTime,
) -> io::Result<()> {
    if let Some(tail) = &scan.tail {
        let file = writer_dir.open_segment(tail.number, OpenMode::Append)?;
        complete_segment(file.as_ref(), tail)?;
        file.sync_data()?;
    }
    let path = writer_dir.legacy_tail_path();
    if scan.damage_reason.is_some() || scan.without_segment.is_some() {
        let copy = quarantine_path(&path, now, "damaged");
        writer_dir.disk.rename_file(&path, &copy)?;
        tracing::error!(
            path = %copy.display(),
            "the damaged tail of an older version was moved aside"
        );
    } else {
        writer_dir.disk.remove_file(&path)?;
    }
    writer_dir.disk.sync_dir(&writer_dir.dir)
}

/// Writes the frames to the segment that it lacks or has only in part.
fn complete_segment(file: &dyn DiskFile, tail: &LegacyTail) -> io::Result<()> {
    // If a power failure truncated the segment, the tail does not continue it.
    let Some(own) = file.file_size()?.checked_sub(tail.offset) else { return Ok(()) };
    let mut has = vec![0; usize::try_from(own).map_err(io::Error::other)?.min(tail.frames.len())];
    let have = read_fully(file, tail.offset, &mut has)?;
    has.truncate(have);
    let same = has.iter().zip(&tail.frames).take_while(|(has, wanted)| has == wanted).count();
    if same < has.len() {
        file.truncate_to(tail.offset + same as u64)?;
    }
    append_all(file, rest(&tail.frames, same))
}

impl LegacyTail {
    /// Returns the end of the segment with these frames, if it continues a segment of `size` bytes.
    pub(crate) fn combined_end(&self, size: u64) -> Option<u64> {
        (size >= self.offset).then(|| size.max(self.offset + self.frames.len() as u64))
    }
}

#[cfg(test)]
mod tests;
