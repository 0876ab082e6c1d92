//! What a crash or a hand does to the end of a segment. The format is that of `ledger`'s own pages: a
//! header of 128 bytes, then frames that begin with their length and carry their number at byte 12. What
//! was not brought to the segment yet stands in the tail, behind 64 bytes of head; the checksum of a frame
//! there is joined with that of the segment.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::support::random::Random;

const HEADER: usize = 128;
const SEQ: std::ops::Range<usize> = 12..20;
const TAIL_HEAD: usize = 64;

/// The segments, the one that is written last at the end.
fn segments(records: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(records).unwrap().map(|entry| entry.unwrap().path());
    let segment = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "seg");
    let mut segments: Vec<_> = entries.filter(segment).collect();
    segments.sort();
    segments
}

fn last_segment(records: &Path) -> PathBuf {
    segments(records).pop().unwrap()
}

/// Brings what the tail has to the last segment, as the server would have done next: all of it, and then
/// the tail goes; or a part, as where it was killed meanwhile. Answers how many bytes that were.
fn settle(records: &Path, part: Option<&mut Random>) -> usize {
    let (tail, segment) = (records.join("main.tail"), last_segment(records));
    let Ok(held) = fs::read(&tail) else { return 0 };
    let word = |at: usize| u64::from_le_bytes(held[at..at + 8].try_into().unwrap());
    let sum: [u8; 4] = held[8..12].try_into().unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    let from = usize::try_from(word(16)).unwrap();
    if sum != bytes[HEADER - 4..HEADER] {
        return 0;
    }
    let mut own = Vec::new();
    for (frame, seq) in frames_in(&held[TAIL_HEAD..]).zip(word(24)..) {
        if u64::from_le_bytes(frame[SEQ].try_into().unwrap()) != seq {
            break;
        }
        let start = own.len();
        own.extend_from_slice(frame);
        for (byte, with) in own[start + 4..start + 8].iter_mut().zip(sum) {
            *byte ^= with;
        }
    }
    let there = bytes.len() - from;
    let missing = own.get(there..).unwrap_or_default();
    let many = match part {
        Some(random) => random.index(missing.len() + 1),
        None => missing.len(),
    };
    bytes.extend_from_slice(&missing[..many]);
    fs::write(&segment, bytes).unwrap();
    if many == missing.len() {
        fs::remove_file(tail).unwrap();
    }
    many
}

/// Leaves a part of what the tail has in the segment, as a server that is killed while it writes. Answers
/// whether there was any.
pub(crate) fn half_written(records: &Path, random: &mut Random) -> bool {
    settle(records, Some(random)) > 0
}

/// Cuts so many bytes off.
pub(crate) fn cut_off(records: &Path, bytes: u64) {
    settle(records, None);
    let path = last_segment(records);
    let end = end(&fs::read(&path).unwrap());
    fs::File::options().write(true).open(path).unwrap().set_len(end - bytes).unwrap();
}

/// Changes one bit in the middle.
pub(crate) fn change(records: &Path) {
    let path = last_segment(records);
    let mut bytes = fs::read(&path).unwrap();
    let middle = end(&bytes) / 2;
    bytes[usize::try_from(middle).unwrap()] ^= 1;
    fs::write(&path, bytes).unwrap();
}

/// Adds the beginning of one more frame: what a write leaves that was under way. Answers whether there
/// was any frame to take it from.
pub(crate) fn torn_write(records: &Path, random: &mut Random) -> bool {
    settle(records, None);
    let last = |path: PathBuf| frames(&fs::read(path).unwrap()).last().map(<[u8]>::to_vec);
    let Some(mut next) = segments(records).into_iter().rev().find_map(last) else { return false };
    let seq = u64::from_le_bytes(next[SEQ].try_into().unwrap());
    next[SEQ].copy_from_slice(&(seq + 1).to_le_bytes());
    next.truncate(1 + random.index(next.len() - 1));
    let path = last_segment(records);
    let end = end(&fs::read(&path).unwrap());
    fs::File::options().write(true).open(path).unwrap().write_all_at(&next, end).unwrap();
    true
}

/// Where the frames end.
fn end(bytes: &[u8]) -> u64 {
    (HEADER + frames(bytes).map(<[u8]>::len).sum::<usize>()) as u64
}

fn frames(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    frames_in(&bytes[HEADER..])
}

fn frames_in(mut rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let length = u32::from_le_bytes(rest.get(..4)?.try_into().unwrap());
        let length = usize::try_from(length).ok().filter(|length| *length > 0)?;
        let (frame, behind) = rest.split_at_checked(length)?;
        rest = behind;
        Some(frame)
    })
}
