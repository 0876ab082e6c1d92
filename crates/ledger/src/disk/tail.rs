//! The end of a file that is written: shared memory where its room is set aside, `write` elsewhere.
//!
//! What is put into a page that the file shares with this process is the system's at once, as after a
//! `write`: it stays when the process is killed, and a sync brings it to the disk. It takes about a third of
//! the time, since nobody is called.
//!
//! A store into such a page cannot fail with an error, it ends the process. So it is done only where
//! nothing is left to fail: in blocks that `fallocate` has given to the file already, on file systems that
//! write them in place. The file is made longer by one window at a time; what is behind its last byte is
//! zeros then, until it is cut.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use rustix::fs::fstatfs;
use vm_memory::{Bytes as _, FileOffset, MmapRegion, VolatileMemory as _};

/// Bytes that are shared at a time.
const WINDOW: u64 = 256 << 10;
/// Where a sync finds so many bytes, the window is given back before it. The system takes the right to write
/// from the pages that it syncs one by one, and stops the other processors for each; to take all at once
/// stops them once.
const MANY: u64 = 64 << 10;
/// A window begins at a multiple of this: of every size that pages have.
const PAGE: u64 = 64 << 10;
/// What makes a frame one, its length and checksum, is put behind all the rest of it.
const LAST: usize = 8;
/// File systems that give blocks at `fallocate` and write them where they are: ext2 to ext4, XFS, tmpfs.
const IN_PLACE: [u64; 3] = [0xef53, 0x5846_5342, 0x0102_1994];

/// Whether memory may be shared with files of this one's system.
pub(super) fn is_in_place(file: &File) -> bool {
    let in_place = |kind| u64::try_from(kind).is_ok_and(|kind| IN_PLACE.contains(&kind));
    fstatfs(file).is_ok_and(|system| in_place(system.f_type))
}

/// Where a file ends, and how it goes on.
#[derive(Debug)]
pub(super) struct Tail {
    /// Behind what was written.
    end: u64,
    /// Room is set aside up to here.
    room: u64,
    /// Whether memory may be shared with this file.
    shares: bool,
    window: Option<Window>,
    /// How often it was cut: what was set aside before is given back then.
    cuts: u64,
    /// Where it ended at the last sync.
    synced: u64,
}

/// A part of the file that is shared memory, until it is dropped.
#[derive(Debug)]
pub(super) struct Window {
    from: u64,
    to: u64,
    memory: MmapRegion<()>,
}

impl Tail {
    /// Of an empty file.
    pub(super) fn new(file: &File) -> Self {
        Self { end: 0, room: 0, shares: is_in_place(file), window: None, cuts: 0, synced: 0 }
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    pub(super) fn cuts(&self) -> u64 {
        self.cuts
    }

    /// Room was set aside; that counts only if the file was not cut since `cuts`.
    pub(super) fn reserved(&mut self, (from, to): (u64, u64), cuts: u64) {
        if cuts == self.cuts && from <= self.end.max(self.room) {
            self.room = self.room.max(to);
        }
    }

    pub(super) fn append(&mut self, file: &Arc<File>, bytes: &[u8]) -> io::Result<usize> {
        let to = self.end + bytes.len() as u64;
        if self.put(file, to, bytes) {
            self.end = to;
            return Ok(bytes.len());
        }
        let taken = file.write_at(bytes, self.end)?;
        self.end += taken as u64;
        Ok(taken)
    }

    /// Before a sync: gives the window back where much was put into it. What comes next opens another.
    pub(super) fn rest(&mut self) -> Option<Window> {
        let much = self.end.saturating_sub(self.synced) >= MANY;
        self.synced = self.end;
        self.window.take_if(|_| much)
    }

    pub(super) fn cut(&mut self, file: &File, size: u64) -> io::Result<()> {
        // Memory without a file behind it would end the process at the next store.
        self.window = None;
        self.cuts += 1;
        self.room = 0;
        file.set_len(size)?;
        self.end = size;
        self.synced = self.synced.min(size);
        Ok(())
    }

    /// Puts `bytes` where the file ends, if memory is shared there or can be.
    fn put(&mut self, file: &Arc<File>, to: u64, bytes: &[u8]) -> bool {
        if !self.shares || to > self.room {
            return false;
        }
        if self.window.as_ref().is_none_or(|window| to > window.to) && !self.slide(file, to) {
            return false;
        }
        let end = self.end;
        self.window.as_ref().is_some_and(|window| window.put(end, bytes))
    }

    /// Shares the next window of the file, up to `to` at least.
    fn slide(&mut self, file: &Arc<File>, to: u64) -> bool {
        self.window = None;
        let from = self.end / PAGE * PAGE;
        let end = (from + WINDOW).max(to.next_multiple_of(PAGE)).min(self.room / PAGE * PAGE);
        if to > end {
            return false;
        }
        match Window::open(file, (from, end)) {
            Ok(window) => self.window = Some(window),
            Err(error) => {
                tracing::debug!(%error, "the record is written without shared memory");
                self.shares = false;
            }
        }
        self.window.is_some()
    }
}

impl Window {
    fn open(file: &Arc<File>, (from, to): (u64, u64)) -> io::Result<Self> {
        if file.metadata()?.len() < to {
            file.set_len(to)?;
        }
        let size = usize::try_from(to - from).map_err(io::Error::other)?;
        let place = FileOffset::from_arc(Arc::clone(file), from);
        let memory = MmapRegion::from_file(place, size).map_err(io::Error::other)?;
        Ok(Self { from, to, memory })
    }

    /// `false` where it does not fit, which `to` has ruled out.
    fn put(&self, at: u64, bytes: &[u8]) -> bool {
        let Ok(at) = usize::try_from(at - self.from) else { return false };
        let memory = self.memory.as_volatile_slice();
        let (first, rest) = bytes.split_at(bytes.len().min(LAST));
        // Who reads beside, and who finds what a killed process left, sees no half frame as one.
        memory.write_slice(rest, at + first.len()).is_ok() && memory.write_slice(first, at).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::Tail;

    #[test]
    fn room_that_was_given_back_meanwhile_does_not_count() {
        let file = tempfile::tempfile().unwrap();
        let mut tail = Tail::new(&file);
        let before = tail.cuts();
        tail.reserved((0, 100), before);
        assert_eq!(tail.room, 100);
        tail.reserved((200, 300), before);
        assert_eq!(tail.room, 100, "there is a hole before it");
        let before = tail.cuts();
        tail.cut(&file, 0).unwrap();
        tail.reserved((0, 100), before);
        assert_eq!(tail.room, 0, "it was cut between the question and the answer");
    }
}
