//! One file of the ledger: its name, its header, and how it comes to be.
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
//! A segment gets its name when header, first frames and reserve are on the disk, never before: a
//! segment without a whole header was damaged.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tool::Wall;

use crate::disk::{Disk, DiskFile, Open, append_all, is_full, read_all};
use crate::frame::{array, put};
use crate::options::Options;
use crate::slice::prefix;

/// Bytes before the first frame.
pub(crate) const HEADER: usize = 128;
/// Bytes that are copied at a time.
const PIECE: usize = 256 << 10;
/// Where in them their checksum is, the last of them.
const SUM: usize = 124;
const MAGIC: [u8; 8] = *b"tkledger";
/// The version that is written. Where one cannot be read, the ledger is not opened: an older program
/// would take the newest frames for a torn end.
const FORMAT: u16 = 2;
const SUFFIX: &str = ".seg";
const TOMB: &str = ".tomb";
const FILTER: &str = ".filter";
const PROGRESS: &str = "progress";
const CHECKPOINT: &str = "checkpoint";
const OLD_TAIL: &str = "tail";

/// Where one writer writes.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) writer: String,
}

impl Site {
    pub(crate) fn path(&self, number: u32) -> PathBuf {
        self.dir.join(name(&self.writer, number))
    }

    /// A file that is no segment yet, or never.
    fn unnamed(&self) -> PathBuf {
        self.dir.join(format!("{}.tmp", self.writer))
    }

    /// Where the tombstone of a segment stands, and where it is written before it has its name.
    pub(crate) fn tomb(&self, number: u32) -> (PathBuf, PathBuf) {
        let unnamed = self.dir.join(format!("{}.tomb.tmp", self.writer));
        (self.dir.join(tomb_name(&self.writer, number)), unnamed)
    }

    /// Where the filter of a segment stands, and where it is written before it has its name.
    pub(crate) fn filter(&self, number: u32) -> (PathBuf, PathBuf) {
        let unnamed = self.dir.join(format!("{}.filter.tmp", self.writer));
        (self.dir.join(format!("{}-{number:010}{FILTER}", self.writer)), unnamed)
    }

    /// Where it stands how far the writer has come, and where that is written before it has its name.
    pub(crate) fn progress(&self) -> (PathBuf, PathBuf) {
        let at = |ending: &str| self.dir.join(format!("{}.{ending}", self.writer));
        (at(PROGRESS), at("progress.tmp"))
    }

    /// Where an older version left the newest records.
    pub(crate) fn old_tail(&self) -> PathBuf {
        self.dir.join(format!("{}.{OLD_TAIL}", self.writer))
    }

    /// Where the newest signed checkpoint stands.
    pub(crate) fn checkpoint(&self) -> PathBuf {
        self.dir.join(format!("{}.{CHECKPOINT}", self.writer))
    }

    pub(crate) fn open(&self, number: u32, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(&self.path(number), how)
    }
}

/// The writer in the name of any file that says something of a record; `None` where it is none.
pub(crate) fn writer_of(file: &str) -> Option<&str> {
    let beside = || {
        let (writer, ending) = file.rsplit_once('.')?;
        [PROGRESS, CHECKPOINT, OLD_TAIL].contains(&ending).then_some(writer)
    };
    let of = parse_name(file).or_else(|| parse_tomb(file)).map(|(writer, _)| writer);
    of.or_else(beside)
}

/// The name of a segment's file.
pub(crate) fn name(writer: &str, number: u32) -> String {
    format!("{writer}-{number:010}{SUFFIX}")
}

/// The name of a tombstone's file.
pub(crate) fn tomb_name(writer: &str, number: u32) -> String {
    format!("{writer}-{number:010}{TOMB}")
}

/// The writer and the number in a segment's name; `None` where it is none.
pub(crate) fn parse_name(file: &str) -> Option<(&str, u32)> {
    parse(file, SUFFIX)
}

/// The same of a tombstone's name.
pub(crate) fn parse_tomb(file: &str) -> Option<(&str, u32)> {
    parse(file, TOMB)
}

/// The same of a filter's name.
pub(crate) fn parse_filter(file: &str) -> Option<(&str, u32)> {
    parse(file, FILTER)
}

fn parse<'n>(file: &'n str, suffix: &str) -> Option<(&'n str, u32)> {
    let (writer, number) = file.strip_suffix(suffix)?.rsplit_once('-')?;
    let number = number.parse().ok()?;
    // Two names for one number would be two files for one segment.
    let same = format!("{writer}-{number:010}{suffix}") == file;
    same.then_some((writer, number))
}

/// What a segment says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) writer: String,
    pub(crate) number: u32,
    pub(crate) session: u64,
    pub(crate) synced: u64,
    pub(crate) at: Wall,
    pub(crate) nonce: u64,
    /// Whether a file beside it says how far the writer has come.
    pub(crate) has_progress: bool,
}

/// Why a header is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadHeader {
    Short,
    Magic,
    Version(u16),
    Sum,
}

impl fmt::Display for BadHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => f.write_str("the file ends inside its header"),
            Self::Magic => f.write_str("the file does not begin as a segment does"),
            Self::Version(version) => write!(
                f,
                "the segment has format version {version}, this program knows those up to {FORMAT}: use a newer one"
            ),
            Self::Sum => f.write_str("the checksum of the segment's header does not hold"),
        }
    }
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        let writer = prefix(self.writer.as_bytes(), Options::MAX_WRITER);
        let [length, ..] = writer.len().to_le_bytes();
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 8, FORMAT.to_le_bytes());
        put(&mut bytes, 10, [128, 0]);
        put(&mut bytes, 12, self.number.to_le_bytes());
        put(&mut bytes, 16, self.session.to_le_bytes());
        put(&mut bytes, 24, self.synced.to_le_bytes());
        put(&mut bytes, 32, self.at.0.to_le_bytes());
        put(&mut bytes, 40, [length]);
        if let Some(place) = bytes.get_mut(41..41 + writer.len()) {
            place.copy_from_slice(writer);
        }
        put(&mut bytes, 105, self.nonce.to_le_bytes());
        put(&mut bytes, 113, [u8::from(self.has_progress)]);
        let sum = crc32fast::hash(prefix(&bytes, SUM));
        put(&mut bytes, SUM, sum.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, BadHeader> {
        let bytes = bytes.get(..HEADER).ok_or(BadHeader::Short)?;
        let u64_at = |at| array(bytes, at).map_or(0, u64::from_le_bytes);
        if array(bytes, 0) != Some(MAGIC) {
            return Err(BadHeader::Magic);
        }
        let sum = crc32fast::hash(prefix(bytes, SUM));
        if array(bytes, SUM).map(u32::from_le_bytes) != Some(sum) {
            return Err(BadHeader::Sum);
        }
        match array(bytes, 8).map_or(0, u16::from_le_bytes) {
            1..=FORMAT => {}
            version => return Err(BadHeader::Version(version)),
        }
        let length = usize::from(bytes.get(40).copied().ok_or(BadHeader::Short)?);
        let writer = bytes.get(41..41 + length.min(Options::MAX_WRITER)).ok_or(BadHeader::Short)?;
        Ok(Self {
            writer: String::from_utf8_lossy(writer).into_owned(),
            number: array(bytes, 12).map_or(0, u32::from_le_bytes),
            session: u64_at(16),
            synced: u64_at(24),
            at: Wall(u64_at(32)),
            nonce: u64_at(105),
            has_progress: bytes.get(113) == Some(&1),
        })
    }

    pub(crate) fn read(file: &dyn DiskFile) -> io::Result<Result<Self, BadHeader>> {
        let mut bytes = [0; HEADER];
        let have = read_all(file, 0, &mut bytes)?;
        Ok(Self::decode(prefix(&bytes, have)))
    }
}

/// Room to set aside behind what is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pub(crate) bytes: u64,
    /// Whether the segment is of no use without it.
    pub(crate) needed: bool,
}

/// Cuts a file to `size` where it is longer, and gives back what is set aside behind it.
pub(crate) fn cut(file: &dyn DiskFile, size: u64) -> io::Result<()> {
    file.truncate(file.size()?.min(size))
}

/// A segment that was made.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) size: u64,
    /// Room is set aside up to here; `None` where the file system cannot.
    pub(crate) reserved_to: Option<u64>,
    /// Why there is less room than wanted.
    pub(crate) full: Option<io::Error>,
}

/// Makes the segment that `header` describes, beginning with `frames`, and waits until it is on the
/// disk. A file that had its name is gone then; whatever fails, it is untouched.
pub(crate) fn create(site: &Site, header: &Header, frames: &[u8], room: Room) -> io::Result<Made> {
    let unnamed = site.unnamed();
    let file = site.disk.open(&unnamed, Open::New)?;
    let made = fill(file.as_ref(), header, frames, room)
        .and_then(|made| {
            file.sync()?;
            site.disk.rename(&unnamed, &site.path(header.number))?;
            Ok(made)
        })
        .inspect_err(|_| {
            // What a full disk let through must not stay taken; the first error is the one to tell.
            file.truncate(0).ok();
        });
    let (size, reserved_to, full) = made?;
    site.disk.sync_dir(&site.dir)?;
    Ok(Made { file, size, reserved_to, full })
}

type Filled = (u64, Option<u64>, Option<io::Error>);

fn fill(file: &dyn DiskFile, header: &Header, frames: &[u8], room: Room) -> io::Result<Filled> {
    append_all(file, &header.encode())?;
    append_all(file, frames)?;
    let size = (HEADER + frames.len()) as u64;
    match reserve(file, size, room.bytes) {
        Ok(to) => Ok((size, to, None)),
        Err(error) if is_full(&error) && !room.needed => {
            let to = reserve_some(file, size, room.bytes);
            Ok((size, Some(to), Some(error)))
        }
        Err(error) => Err(error),
    }
}

/// Sets `bytes` aside behind `size`, and twice as much where there is so much, so that not every
/// turn has to ask. Returns up to where; `None` where the file system cannot.
pub(crate) fn reserve(file: &dyn DiskFile, size: u64, bytes: u64) -> io::Result<Option<u64>> {
    let reserve = |to| file.reserve(size, to).map(|can| can.then_some(to));
    match reserve(size + 2 * bytes) {
        Err(error) if is_full(&error) => reserve(size + bytes),
        other => other,
    }
}

/// Sets aside what a full disk still has: some calls more.
fn reserve_some(file: &dyn DiskFile, size: u64, bytes: u64) -> u64 {
    let mut parts = (1..8).map(|half| size + (bytes >> half));
    parts.find(|to| matches!(file.reserve(size, *to), Ok(true))).unwrap_or(size)
}

/// How much of `bytes` the disk has free beside all that is set aside: 0 where it is a trifle or
/// cannot be told. Nothing stays taken.
pub(crate) fn free(site: &Site, bytes: u64) -> u64 {
    let Ok(file) = site.disk.open(&site.unnamed(), Open::New) else { return 0 };
    let parts = (1..8).rev().map(|part| bytes / 8 * part).chain([bytes / 32, bytes / 128]);
    let mut parts = parts.filter(|part| *part > 0);
    let free = parts.find(|part| matches!(file.reserve(0, *part), Ok(true)));
    file.truncate(0).ok();
    free.unwrap_or(0)
}

/// Puts a segment that is no part of the record aside, under a name that says so.
pub(crate) fn set_aside(site: &Site, number: u32, now: Wall) -> io::Result<()> {
    let path = site.path(number);
    site.disk.rename(&path, &aside(&path, now, "void"))?;
    site.disk.sync_dir(&site.dir)
}

/// Copies the bytes of a segment from `from` on into a file beside it, and waits until that is on the disk.
pub(crate) fn copy_aside(site: &Site, number: u32, from: u64, now: Wall) -> io::Result<PathBuf> {
    let path = aside(&site.path(number), now, "damaged");
    let (file, copy) = (site.open(number, Open::Read)?, site.disk.open(&path, Open::New)?);
    let (mut at, mut piece) = (from, vec![0; PIECE]);
    loop {
        let read = read_all(file.as_ref(), at, &mut piece)?;
        if read == 0 {
            break;
        }
        append_all(copy.as_ref(), prefix(&piece, read))?;
        at += read as u64;
    }
    copy.sync()?;
    site.disk.sync_dir(&site.dir)?;
    Ok(path)
}

/// The name under which something stays that is no part of the record any more.
pub(crate) fn aside(path: &Path, now: Wall, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.{ending}", now.0));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::{BadHeader, Header, Wall, name, parse_name};

    #[test]
    fn names_read_back_and_nothing_else_is_one() {
        assert_eq!(parse_name(&name("a-b", 7)), Some(("a-b", 7)));
        assert_eq!(parse_name(&name("main", u32::MAX)), Some(("main", u32::MAX)));
        for other in ["main-7.seg", "main-0000000007.tmp", "main.lock", "main-+000000007.seg", "x"]
        {
            assert_eq!(parse_name(other), None, "{other}");
        }
    }

    #[test]
    fn headers_read_back_and_every_changed_bit_is_seen() {
        let header = Header {
            writer: "w".repeat(64),
            number: 3,
            session: 1 << 40,
            synced: 17,
            at: Wall(1_700_000_000_000),
            nonce: 1 << 63,
            has_progress: true,
        };
        let good = header.encode();
        assert_eq!(Header::decode(&good), Ok(header.clone()));
        assert_eq!(Header::decode(&good[..127]), Err(BadHeader::Short));
        for bit in 0..good.len() * 8 {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&bad).is_err(), "bit {bit}");
        }
        for (version, read) in [(0, false), (1, true), (2, true), (3, false)] {
            let mut other = good;
            other[8] = version;
            let sum = crc32fast::hash(&other[..124]).to_le_bytes();
            other[124..].copy_from_slice(&sum);
            let wrong = Err(BadHeader::Version(u16::from(version)));
            let expected = if read { Ok(header.clone()) } else { wrong };
            assert_eq!(Header::decode(&other), expected, "{version}");
        }
    }
}
