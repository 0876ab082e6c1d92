//! How far a writer has come, in a file of its own beside the segments: `WRITER.progress`.
//!
//! Segments alone cannot show that their end is missing: what is not there was perhaps never written. This file
//! names the last record that was written, and the last one that is known to be on the disk.
//!
//! ```text
//!  0  [8]   "tkprogr1"
//!  8  [16]  the boot during which it was written; zeros where the system does not name it
//! 24  u64   number of the last record that was written
//! 32  u64   number of the last record that is known to be on the disk
//! 40  u64   number of the last record that a signed checkpoint beside the segments covers
//! 48  u32   number of the newest segment
//! 52  u32   1 where the writer ended in order, else 0
//! 56  u32   zero
//! 60  u32   CRC-32 of bytes 0..60
//! ```
//!
//! It is replaced in place with each record, before the record is acknowledged. What was written stays while the
//! system runs, so during the same boot every record up to the last written one must be there. After a loss of power
//! any older state of this file may be left. Each of its claims held then, and holds still: the records that were
//! known to be on the disk must be there, the others need not.

use std::io;
use std::sync::Arc;

use crate::disk::{BootId, DiskFile, Open, append_all, read_all};
use crate::frame::{MAX_SEQ, array, put};
use crate::segment::Site;
use crate::slice::prefix;

/// Bytes of the file.
const SIZE: usize = 64;
const SUM: usize = 60;
const MAGIC: [u8; 8] = *b"tkprogr1";
/// While it is read, it may be replaced.
const ATTEMPTS: usize = 10;

/// What the file says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) boot: Option<BootId>,
    pub(crate) written: u64,
    pub(crate) synced: u64,
    pub(crate) signed: u64,
    pub(crate) segment: u32,
    pub(crate) closed: bool,
}

/// What is in the place of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Found {
    #[default]
    Absent,
    Whole(Progress),
    Damaged(String),
}

impl Progress {
    pub(crate) fn encode(self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 8, self.boot.unwrap_or_default());
        put(&mut bytes, 24, self.written.to_le_bytes());
        put(&mut bytes, 32, self.synced.to_le_bytes());
        put(&mut bytes, 40, self.signed.to_le_bytes());
        put(&mut bytes, 48, self.segment.to_le_bytes());
        put(&mut bytes, 52, u32::from(self.closed).to_le_bytes());
        let sum = crc32fast::hash(prefix(&bytes, SUM));
        put(&mut bytes, SUM, sum.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let sum = crc32fast::hash(bytes.get(..SUM)?);
        if array(bytes, 0)? != MAGIC || array(bytes, SUM).map(u32::from_le_bytes) != Some(sum) {
            return None;
        }
        let number = |at| array(bytes, at).map(u64::from_le_bytes).filter(|seq| *seq < MAX_SEQ);
        Some(Self {
            boot: array(bytes, 8).filter(|boot: &BootId| *boot != [0; 16]),
            written: number(24)?,
            synced: number(32)?,
            signed: number(40)?,
            segment: u32::from_le_bytes(array(bytes, 48)?),
            closed: array(bytes, 52).map(u32::from_le_bytes) == Some(1),
        })
    }

    /// Whether every record that was written must be there: the writer ended in order, or the system has not been
    /// started since.
    pub(crate) fn is_complete(&self, boot: Option<BootId>) -> bool {
        self.closed || (self.boot.is_some() && self.boot == boot)
    }

    /// The last record that must be there.
    pub(crate) fn claim(&self, boot: Option<BootId>) -> u64 {
        if self.is_complete(boot) { self.written.max(self.synced) } else { self.synced }
    }

    /// The last record that is known to be on the disk.
    pub(crate) fn durable(&self) -> u64 {
        if self.closed { self.written.max(self.synced) } else { self.synced }
    }
}

/// Reads the file.
pub(crate) fn read(site: &Site) -> io::Result<Found> {
    let file = match site.disk.open(&site.progress().0, Open::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Absent),
        opened => opened?,
    };
    let mut length = 0;
    for _ in 0..ATTEMPTS {
        let mut bytes = [0; SIZE + 1];
        length = read_all(file.as_ref(), 0, &mut bytes)?;
        let whole = bytes.get(..length).filter(|bytes| bytes.len() == SIZE);
        if let Some(progress) = whole.and_then(Progress::decode) {
            return Ok(Found::Whole(progress));
        }
        std::thread::yield_now();
    }
    Ok(Found::Damaged(match length {
        SIZE => "its checksum does not hold".to_owned(),
        _ => format!("it does not have the {SIZE} bytes that it is written with"),
    }))
}

/// The file as it is written.
#[derive(Debug)]
pub(crate) struct ProgressFile {
    file: Arc<dyn DiskFile>,
    now: Progress,
    /// Whether it was replaced and not synced since.
    unsynced: bool,
    /// Whether the last replacement failed.
    failed: bool,
}

impl ProgressFile {
    /// Makes the file, and waits until it is on the disk. One that had its name is replaced.
    pub(crate) fn create(site: &Site, progress: Progress) -> io::Result<Self> {
        let (path, unnamed) = site.progress();
        let file = site.disk.open(&unnamed, Open::New)?;
        append_all(file.as_ref(), &progress.encode())
            .and_then(|()| file.sync())
            .inspect_err(|_| drop(file.truncate(0)))?;
        site.disk.rename(&unnamed, &path)?;
        site.disk.sync_dir(&site.dir)?;
        let file = site.disk.open(&path, Open::Update)?;
        Ok(Self { file, now: progress, unsynced: false, failed: false })
    }

    /// What it says.
    pub(crate) fn now(&self) -> Progress {
        self.now
    }

    /// Replaces what it says. Where that fails it says less than it could, which is true as well, and the next
    /// replacement says all.
    pub(crate) fn replace(&mut self, progress: Progress) {
        if progress == self.now && !self.failed {
            return;
        }
        self.now = progress;
        self.unsynced = true;
        let replaced = self.file.write_at(0, &progress.encode());
        if let Err(error) = &replaced
            && !self.failed
        {
            tracing::warn!(%error, "how far the record has come cannot be written beside it");
        }
        self.failed = replaced.is_err();
    }

    /// The file, if it is to be synced. Syncing it is the caller's to do.
    pub(crate) fn take_unsynced(&mut self) -> Option<Arc<dyn DiskFile>> {
        std::mem::take(&mut self.unsynced).then(|| Arc::clone(&self.file))
    }
}

#[cfg(test)]
mod tests {
    use super::Progress;

    #[test]
    fn it_reads_back_and_every_changed_bit_is_seen() {
        let progress = Progress {
            boot: Some([7; 16]),
            written: 9,
            synced: 8,
            signed: 5,
            segment: 3,
            closed: true,
        };
        for progress in [progress, Progress::default(), Progress { closed: false, ..progress }] {
            let good = progress.encode();
            assert_eq!(Progress::decode(&good), Some(progress));
            assert_eq!(Progress::decode(&good[..63]), None);
            for bit in 0..good.len() * 8 {
                let mut bad = good;
                bad[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Progress::decode(&bad), None, "bit {bit}");
            }
        }
    }

    #[test]
    fn what_must_be_there_is_all_during_one_boot_and_what_was_synced_after_it() {
        let progress =
            Progress { boot: Some([7; 16]), written: 9, synced: 8, ..Progress::default() };
        assert_eq!((progress.claim(Some([7; 16])), progress.claim(Some([1; 16]))), (9, 8));
        assert_eq!((progress.claim(None), progress.durable()), (8, 8));
        let unnamed = Progress { boot: None, ..progress };
        assert_eq!(unnamed.claim(None), 8);
        let closed = Progress { closed: true, ..progress };
        assert_eq!((closed.claim(Some([1; 16])), closed.durable()), (9, 9));
    }
}
