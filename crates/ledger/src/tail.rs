//! The newest records, on their way to their segment: in memory that a small file shares, `WRITER.tail`.
//!
//! A record has to be the system's before its call goes on, so that it stays when the process is killed. A
//! `write` for each would do that, and so does a store into memory that a file shares, which takes a quarter
//! of the time: nobody is called. The segment itself cannot be that memory cheaply, since a file that grows
//! gives a page that is new every few calls. So it is one small file, written over again and again, and
//! the sync thread writes many records at once to the segment, where they would have gone.
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
//! It is read by all who read a segment, until the next start or an orderly end: what stands here and not
//! yet there follows it. Nothing has to be cleared for that. A frame counts if it has the number that comes
//! next, and if it was put here for the same segment: its checksum is joined (xor) with that of the
//! segment's header. So what a loss of power leaves of several writings is told apart too.

use std::io;
use std::sync::Arc;

use crate::disk::{DiskFile, Open, Shared, append_all, read_all};
use crate::frame::{self, MAX_BODY, MAX_SEQ, array, decode, put};
use crate::segment::{HEADER, Site, header_sum};

/// Bytes of the file: twice what is usually written before the sync thread takes it.
const SIZE: usize = 512 << 10;
/// Where the frames begin.
const BODY: usize = 64;
const HEAD: usize = 36;
const MAGIC: [u8; 8] = *b"tk-tail1";
/// What makes a frame one, its length and checksum, is put behind all the rest of it.
const LAST: usize = 8;
/// Bytes that are read at a time.
const PIECE: usize = 128 << 10;
/// The longest frame.
const FRAME: usize = frame::HEAD + MAX_BODY;
/// While it is read, it may be begun anew.
const LOOKS: usize = 10;

/// What the frames in the tail follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// The checksum of the segment's header, by which it is known from any other file.
    pub(crate) segment: u32,
    /// Where in it the first frame belongs.
    pub(crate) from: u64,
    /// The number of the first frame.
    pub(crate) first: u64,
}

impl Head {
    fn encode(self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 8, self.segment.to_le_bytes());
        put(&mut bytes, 16, self.from.to_le_bytes());
        put(&mut bytes, 24, self.first.to_le_bytes());
        let sum = crc32fast::hash(bytes.get(..32).unwrap_or_default());
        put(&mut bytes, 32, sum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let sum = crc32fast::hash(bytes.get(..32)?);
        let whole = array(bytes, 0)? == MAGIC && u32::from_le_bytes(array(bytes, 32)?) == sum;
        let head = Self {
            segment: u32::from_le_bytes(array(bytes, 8)?),
            from: u64::from_le_bytes(array(bytes, 16)?),
            first: u64::from_le_bytes(array(bytes, 24)?),
        };
        let fits = head.from >= HEADER as u64 && head.first < MAX_SEQ;
        (whole && fits).then_some(head)
    }
}

/// The tail as it is written.
#[derive(Debug)]
pub(crate) struct Tail {
    memory: Box<dyn Shared>,
    /// Where the next frame goes.
    place: usize,
    /// The segment, and where in it the next frame belongs.
    next: Option<(u32, u64)>,
}

impl Tail {
    /// A new one for `site`'s writer, if memory can be shared there. What an old one held is in segments.
    pub(crate) fn new(site: &Site) -> Option<Self> {
        site.disk.remove(&site.tail()).ok();
        match site.disk.share(&site.tail(), SIZE) {
            Ok(memory) => memory.map(|memory| Self { memory, place: BODY, next: None }),
            Err(error) => {
                tracing::debug!(%error, "the record is written without shared memory");
                None
            }
        }
    }

    /// Begins it anew: all that it held is in the segment.
    pub(crate) fn begin(&mut self, head: Head) {
        let put = self.memory.put(0, &head.encode());
        self.place = BODY;
        self.next = put.then_some((head.segment, head.from));
    }

    /// Puts a frame behind the others, or behind `head` where it does not follow them. `false` where it
    /// does not fit.
    pub(crate) fn put(&mut self, head: Head, frame: &[u8]) -> bool {
        if self.next != Some((head.segment, head.from)) {
            self.begin(head);
        }
        let to = self.place + frame.len();
        if to > SIZE || self.next.is_none() {
            return false;
        }
        let Some((first, rest)) = frame.split_first_chunk::<LAST>() else { return false };
        let first = joined(*first, head.segment);
        // Who reads beside, and who finds what a killed process left, sees no half frame as one.
        let put = self.memory.put(self.place + LAST, rest) && self.memory.put(self.place, &first);
        if put {
            self.place = to;
            self.next = Some((head.segment, head.from + frame.len() as u64));
        }
        put
    }
}

/// Joins the checksum of a frame with that of its segment, or parts it from that.
fn join(frame: &mut [u8], segment: u32) {
    if let Some(first) = frame.first_chunk_mut::<LAST>() {
        *first = joined(*first, segment);
    }
}

/// The same of a frame's first bytes.
fn joined(first: [u8; LAST], segment: u32) -> [u8; LAST] {
    (u64::from_le_bytes(first) ^ (u64::from(segment) << 32)).to_le_bytes()
}

/// How long the frame is that `ahead` begins with, if it is that with the number `seq`.
fn length_of(ahead: &[u8], seq: u64) -> Option<usize> {
    decode(ahead).ok().filter(|frame| frame.seq == seq).map(|frame| frame.whole.len())
}

/// The frames behind `head`, parted from it. Read piece by piece, as far as they go.
fn frames(tail: &dyn DiskFile, head: Head) -> io::Result<Vec<u8>> {
    let (mut held, mut place, mut seq) = (Vec::new(), 0, head.first);
    loop {
        let from = BODY + held.len();
        let piece = bytes(tail, (from, SIZE.min(from + PIECE)))?;
        held.extend_from_slice(&piece);
        while let Some(ahead) = held.get_mut(place..) {
            join(ahead, head.segment);
            let Some(length) = length_of(ahead, seq) else {
                // It may go on in the next piece.
                join(ahead, head.segment);
                break;
            };
            place += length;
            seq += 1;
        }
        if piece.is_empty() || held.len() - place > FRAME {
            held.truncate(place);
            return Ok(held);
        }
    }
}

/// The segment `file`, followed by what only the tail has of it.
///
/// # Errors
/// The system's, with the tail's name: what is in it was promised to be on record.
pub(crate) fn followed(site: &Site, file: Arc<dyn DiskFile>) -> io::Result<Arc<dyn DiskFile>> {
    let path = site.tail();
    let told =
        |error: io::Error| io::Error::new(error.kind(), format!("`{}`: {error}", path.display()));
    let tail = match site.disk.open(&path, Open::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(file),
        tail => tail.map_err(told)?,
    };
    for _ in 0..LOOKS {
        let before = bytes(tail.as_ref(), (0, BODY + HEAD)).map_err(told)?;
        let Some(head) = Head::decode(&before) else { return Ok(file) };
        // Most segments are others, and most of the time all of it is in the segment.
        let next = before.get(BODY..).and_then(|frame| array(frame, 12)).map(u64::from_le_bytes);
        if next != Some(head.first) || header_sum(file.as_ref())? != Some(head.segment) {
            return Ok(file);
        }
        let held = frames(tail.as_ref(), head).map_err(told)?;
        let after = bytes(tail.as_ref(), (0, HEAD)).map_err(told)?;
        if Head::decode(&after) == Some(head) {
            return Followed::of(file, head, held);
        }
    }
    Ok(file)
}

/// Writes to the segment what only the tail has of it, or has whole.
pub(crate) fn complete(site: &Site, number: u32, file: &dyn DiskFile) -> io::Result<()> {
    let place = |bytes: u64| usize::try_from(bytes).map_err(io::Error::other);
    let whole = site.open(number, Open::Read)?;
    let (own, to) = (place(file.size()?)?, place(whole.size()?)?);
    // No more of it is held.
    let from = own.saturating_sub(SIZE);
    let (has, wanted) = (bytes(file, (from, own))?, bytes(whole.as_ref(), (from, to))?);
    let same = has.iter().zip(&wanted).take_while(|(has, wanted)| has == wanted).count();
    if same < has.len() {
        file.truncate((from + same) as u64)?;
    }
    append_all(file, wanted.get(same..).unwrap_or_default())
}

/// What a file holds from one place to another, as far as it goes.
fn bytes(file: &dyn DiskFile, (from, to): (usize, usize)) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; to.saturating_sub(from)];
    let have = read_all(file, from as u64, &mut bytes)?;
    bytes.truncate(have);
    Ok(bytes)
}

/// A segment, and what follows it or stands in its place.
#[derive(Debug)]
struct Followed {
    file: Arc<dyn DiskFile>,
    /// Where the segment ends, with what follows it.
    end: u64,
    /// Where what is held begins, which is whole. A loss of power may have left less of it in the segment.
    from: u64,
    held: Vec<u8>,
}

impl Followed {
    /// The segment alone, where the tail has nothing of it.
    fn of(file: Arc<dyn DiskFile>, head: Head, held: Vec<u8>) -> io::Result<Arc<dyn DiskFile>> {
        let (from, own) = (head.from, file.size()?);
        // Before that, a loss of power took something from the segment.
        if held.is_empty() || own < from {
            return Ok(file);
        }
        let end = own.max(from.saturating_add(held.len() as u64));
        Ok(Arc::new(Self { file, end, from, held }))
    }
}

impl DiskFile for Followed {
    fn append(&self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let Some(at) = offset.checked_sub(self.from) else {
            let most = usize::try_from(self.from - offset).unwrap_or(usize::MAX).min(into.len());
            return self.file.read_at(offset, into.get_mut(..most).unwrap_or_default());
        };
        let held = usize::try_from(at).ok().and_then(|at| self.held.get(at..)).unwrap_or_default();
        if held.is_empty() {
            return self.file.read_at(offset, into);
        }
        for (into, byte) in into.iter_mut().zip(held) {
            *into = *byte;
        }
        Ok(held.len().min(into.len()))
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.end)
    }

    fn truncate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn reserve(&self, _: u64, _: u64) -> io::Result<bool> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
}

#[cfg(test)]
mod tests;
