//! Damage to the end of a segment, as by a crash or by hand. A segment has a header of 128 bytes,
//! then frames that start with their length and have their number at byte 12.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::support::seeded_random::Random;

const HEADER: usize = 128;
const SEQ: std::ops::Range<usize> = 12..20;

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

/// Cuts so many bytes off.
pub(crate) fn truncate_segment(records: &Path, bytes: u64) {
    let path = last_segment(records);
    let end = written_end(&fs::read(&path).unwrap());
    fs::File::options().write(true).open(path).unwrap().set_len(end - bytes).unwrap();
}

/// Changes one bit in the middle.
pub(crate) fn corrupt_segment(records: &Path) {
    let path = last_segment(records);
    let mut bytes = fs::read(&path).unwrap();
    let middle = written_end(&bytes) / 2;
    bytes[usize::try_from(middle).unwrap()] ^= 1;
    fs::write(&path, bytes).unwrap();
}

/// Appends the beginning of one more frame, as an interrupted write does. Returns whether there was
/// a frame to copy.
pub(crate) fn torn_write(records: &Path, random: &mut Random) -> bool {
    let last = |path: PathBuf| frames(&fs::read(path).unwrap()).last().map(<[u8]>::to_vec);
    let Some(mut next) = segments(records).into_iter().rev().find_map(last) else { return false };
    let seq = u64::from_le_bytes(next[SEQ].try_into().unwrap());
    next[SEQ].copy_from_slice(&(seq + 1).to_le_bytes());
    next.truncate(1 + random.index(next.len() - 1));
    let path = last_segment(records);
    let end = written_end(&fs::read(&path).unwrap());
    fs::File::options().write(true).open(path).unwrap().write_all_at(&next, end).unwrap();
    true
}

/// Where the frames end.
fn written_end(bytes: &[u8]) -> u64 {
    (HEADER + frames(bytes).map(<[u8]>::len).sum::<usize>()) as u64
}

fn frames(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = &bytes[HEADER..];
    std::iter::from_fn(move || {
        let length = u32::from_le_bytes(rest.get(..4)?.try_into().unwrap());
        let length = usize::try_from(length).ok().filter(|length| *length > 0)?;
        let (frame, behind) = rest.split_at_checked(length)?;
        rest = behind;
        Some(frame)
    })
}
