//! The newest records of an older version, which had them in a file of its own until they were in their segment:
//! `WRITER.tail`. It is read, checked and brought to the segment at the next start. No new one is written.
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
//! A frame counts if it has the number that comes next, and if its checksum, which is joined (xor) with that of the
//! segment's header, holds. Frames behind the newest one are older and have lower numbers, so a higher number behind a
//! frame that cannot be read is damage.

use std::io;

use tool::Wall;

use crate::disk::{DiskFile, Open, append_all, read_all};
use crate::frame::{MAX_SEQ, array, decode, length};
use crate::segment::{HEADER, Site, aside};
use crate::slice::rest;

/// Bytes of the file.
pub(crate) const SIZE: usize = 512 << 10;
/// Where the frames begin.
pub(crate) const BODY: usize = 64;
const MAGIC: [u8; 8] = *b"tk-tail1";
/// Where in a segment the checksum of its header is.
const SUM: u64 = 124;
/// The checksum stands in the first bytes of a frame.
const FIRST: usize = 8;
/// Bytes of frames that are summed up at most in the search for later ones.
const SEARCH: usize = 64 << 20;

/// What it holds for its segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OldTail {
    /// The number of the segment.
    pub(crate) number: u32,
    /// Where in it the frames belong.
    pub(crate) from: u64,
    /// The frames, one behind the other. A part of them may be in the segment as well.
    pub(crate) frames: Vec<u8>,
}

/// What was found in the place of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Whether the file is there.
    pub(crate) is_there: bool,
    pub(crate) tail: Option<OldTail>,
    /// Why it cannot be read as a whole.
    pub(crate) damage: Option<String>,
    /// Records that go on from a segment that is not there, up to this number.
    pub(crate) without_segment: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Head {
    segment: u32,
    from: u64,
    first: u64,
}

impl Head {
    fn decode(bytes: &[u8]) -> Option<Self> {
        let sum = crc32fast::hash(bytes.get(..32)?);
        let whole = array(bytes, 0)? == MAGIC && u32::from_le_bytes(array(bytes, 32)?) == sum;
        let head = Self {
            segment: u32::from_le_bytes(array(bytes, 8)?),
            from: u64::from_le_bytes(array(bytes, 16)?),
            first: u64::from_le_bytes(array(bytes, 24)?),
        };
        let fits = head.from >= HEADER as u64 && head.from < MAX_SEQ && head.first < MAX_SEQ;
        (whole && fits).then_some(head)
    }
}

/// Reads the file, beside the segments `numbers`.
pub(crate) fn read(site: &Site, numbers: &[u32]) -> io::Result<Reading> {
    let file = match site.disk.open(&site.old_tail(), Open::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Reading::default()),
        opened => opened?,
    };
    let mut bytes = vec![0; SIZE + 1];
    let have = read_all(file.as_ref(), 0, &mut bytes)?;
    bytes.truncate(have);
    let mut reading = Reading { is_there: true, ..Reading::default() };
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(reading);
    }
    if have != SIZE {
        reading.damage = Some(format!("it does not have the {SIZE} bytes that it was made with"));
    }
    let Some(head) = Head::decode(&bytes) else {
        reading.damage = Some("its head cannot be read".to_owned());
        return Ok(reading);
    };
    let body = rest(&bytes, BODY);
    let (held, next) = in_order(body, head);
    if let Some(later) = later(rest(body, held.len()), (head.segment, next)) {
        let text = format!("its record {next} cannot be read, and record {later} stands behind it");
        reading.damage = Some(text);
    }
    if held.is_empty() {
        return Ok(reading);
    }
    match segment_of(site, numbers, head.segment)? {
        Some(number) => reading.tail = Some(OldTail { number, from: head.from, frames: held }),
        None => reading.without_segment = Some(next - 1),
    }
    Ok(reading)
}

/// Parts the checksum of a frame from that of its segment.
fn part(frame: &mut [u8], segment: u32) {
    if let Some(first) = frame.first_chunk_mut::<FIRST>() {
        *first = (u64::from_le_bytes(*first) ^ (u64::from(segment) << 32)).to_le_bytes();
    }
}

/// The frame that `bytes` begin with, parted from its segment.
fn frame_at(bytes: &[u8], segment: u32) -> Option<Vec<u8>> {
    let mut frame = bytes.get(..length(bytes).ok()?)?.to_vec();
    part(&mut frame, segment);
    decode(&frame).is_ok().then_some(frame)
}

/// The frames from `head` on, and the number that comes next.
fn in_order(body: &[u8], head: Head) -> (Vec<u8>, u64) {
    let (mut held, mut next) = (Vec::new(), head.first);
    while let Some(frame) = frame_at(rest(body, held.len()), head.segment)
        && decode(&frame).is_ok_and(|frame| frame.seq == next)
    {
        held.extend_from_slice(&frame);
        next += 1;
    }
    (held, next)
}

/// The number of a frame in `rest` that is higher than `next`.
fn later(rest: &[u8], (segment, next): (u32, u64)) -> Option<u64> {
    let mut search = SEARCH;
    for at in 0..rest.len() {
        let ahead = rest.get(at..)?;
        let Ok(length) = length(ahead) else { continue };
        search = search.checked_sub(length)?;
        let frame = frame_at(ahead, segment);
        let seq = frame.and_then(|frame| decode(&frame).ok().map(|frame| frame.seq));
        if let Some(seq) = seq.filter(|seq| *seq > next) {
            return Some(seq);
        }
    }
    None
}

/// Which of the segments has this checksum in its header.
fn segment_of(site: &Site, numbers: &[u32], sum: u32) -> io::Result<Option<u32>> {
    for number in numbers.iter().rev() {
        let file = site.open(*number, Open::Read)?;
        let mut bytes = [0; 4];
        let read = read_all(file.as_ref(), SUM, &mut bytes)?;
        if read == bytes.len() && u32::from_le_bytes(bytes) == sum {
            return Ok(Some(*number));
        }
    }
    Ok(None)
}

/// Brings its frames to their segment and takes it away, or puts it aside where it is damaged.
pub(crate) fn migrate(site: &Site, reading: &Reading, now: Wall) -> io::Result<()> {
    if let Some(tail) = &reading.tail {
        let file = site.open(tail.number, Open::Append)?;
        complete(file.as_ref(), tail)?;
        file.sync()?;
    }
    let path = site.old_tail();
    if reading.damage.is_some() || reading.without_segment.is_some() {
        let copy = aside(&path, now, "damaged");
        site.disk.rename(&path, &copy)?;
        tracing::error!(path = %copy.display(), "the damaged tail of an older version is put aside");
    } else {
        site.disk.remove(&path)?;
    }
    site.disk.sync_dir(&site.dir)
}

/// Writes to the segment what only the tail has of it, or has whole.
fn complete(file: &dyn DiskFile, tail: &OldTail) -> io::Result<()> {
    // A loss of power took something from the segment: the tail does not follow it.
    let Some(own) = file.size()?.checked_sub(tail.from) else { return Ok(()) };
    let mut has = vec![0; usize::try_from(own).map_err(io::Error::other)?.min(tail.frames.len())];
    let have = read_all(file, tail.from, &mut has)?;
    has.truncate(have);
    let same = has.iter().zip(&tail.frames).take_while(|(has, wanted)| has == wanted).count();
    if same < has.len() {
        file.truncate(tail.from + same as u64)?;
    }
    append_all(file, rest(&tail.frames, same))
}

impl OldTail {
    /// Where the segment ends with it, if it follows a segment of so many bytes.
    pub(crate) fn end(&self, size: u64) -> Option<u64> {
        (size >= self.from).then(|| size.max(self.from + self.frames.len() as u64))
    }
}

#[cfg(test)]
mod tests;
