//! Progress of a writer, in the file `WRITER.progress` beside the segments.
//!
//! Segments alone cannot show that their end is missing. This file stores the numbers of the last
//! written record and of the last record that is known to be durable.
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
//! It is overwritten in place with each record, before the record is acknowledged. Within one boot,
//! completed writes are not lost, so every record up to the last written one must exist. After a
//! power failure, any older state of this file may remain. Its claims were true then and still are:
//! the durable records must exist, the others need not.

use std::io;
use std::sync::Arc;

use crate::disk::{BootId, DiskFile, OpenMode, append_all, read_fully};
use crate::frame::{MAX_SEQ, read_array, write_array};
use crate::segment::WriterDir;
use crate::slice::prefix;

/// Bytes of the file.
const FILE_BYTES: usize = 64;
const CHECKSUM_OFFSET: usize = 60;
const MAGIC: [u8; 8] = *b"tkprogr1";
/// Reads are repeated, because the file may be overwritten at the same time.
const MAX_READ_ATTEMPTS: usize = 10;

/// Content of the progress file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WriterProgress {
    pub(crate) boot_id: Option<BootId>,
    pub(crate) written_seq: u64,
    pub(crate) synced_seq: u64,
    pub(crate) signed_seq: u64,
    pub(crate) segment_number: u32,
    pub(crate) is_closed: bool,
}

/// Result of reading the progress file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum FoundProgress {
    #[default]
    Absent,
    Valid(WriterProgress),
    Damaged(String),
}

impl WriterProgress {
    pub(crate) fn encode(self) -> [u8; FILE_BYTES] {
        let mut bytes = [0; FILE_BYTES];
        write_array(&mut bytes, 0, MAGIC);
        write_array(&mut bytes, 8, self.boot_id.unwrap_or_default());
        write_array(&mut bytes, 24, self.written_seq.to_le_bytes());
        write_array(&mut bytes, 32, self.synced_seq.to_le_bytes());
        write_array(&mut bytes, 40, self.signed_seq.to_le_bytes());
        write_array(&mut bytes, 48, self.segment_number.to_le_bytes());
        write_array(&mut bytes, 52, u32::from(self.is_closed).to_le_bytes());
        let sum = crc32fast::hash(prefix(&bytes, CHECKSUM_OFFSET));
        write_array(&mut bytes, CHECKSUM_OFFSET, sum.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let sum = crc32fast::hash(bytes.get(..CHECKSUM_OFFSET)?);
        if read_array(bytes, 0)? != MAGIC
            || read_array(bytes, CHECKSUM_OFFSET).map(u32::from_le_bytes) != Some(sum)
        {
            return None;
        }
        let number =
            |at| read_array(bytes, at).map(u64::from_le_bytes).filter(|seq| *seq < MAX_SEQ);
        Some(Self {
            boot_id: read_array(bytes, 8).filter(|boot: &BootId| *boot != [0; 16]),
            written_seq: number(24)?,
            synced_seq: number(32)?,
            signed_seq: number(40)?,
            segment_number: u32::from_le_bytes(read_array(bytes, 48)?),
            is_closed: read_array(bytes, 52).map(u32::from_le_bytes) == Some(1),
        })
    }

    /// Returns whether no written record can be missing: the writer closed in order, or the system
    /// has not restarted since.
    pub(crate) fn is_complete(&self, boot_id: Option<BootId>) -> bool {
        self.is_closed || (self.boot_id.is_some() && self.boot_id == boot_id)
    }

    /// Returns the number of the last record that must exist.
    pub(crate) fn required_seq(&self, boot_id: Option<BootId>) -> u64 {
        if self.is_complete(boot_id) {
            self.written_seq.max(self.synced_seq)
        } else {
            self.synced_seq
        }
    }

    /// Returns the number of the last record that is known to be durable.
    pub(crate) fn durable_seq(&self) -> u64 {
        if self.is_closed { self.written_seq.max(self.synced_seq) } else { self.synced_seq }
    }
}

/// Reads the progress file of a writer.
pub(crate) fn read_progress(writer_dir: &WriterDir) -> io::Result<FoundProgress> {
    let file = match writer_dir.disk.open_file(&writer_dir.progress_paths().0, OpenMode::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(FoundProgress::Absent),
        opened => opened?,
    };
    let mut length = 0;
    for _ in 0..MAX_READ_ATTEMPTS {
        let mut bytes = [0; FILE_BYTES + 1];
        length = read_fully(file.as_ref(), 0, &mut bytes)?;
        let whole = bytes.get(..length).filter(|bytes| bytes.len() == FILE_BYTES);
        if let Some(progress) = whole.and_then(WriterProgress::decode) {
            return Ok(FoundProgress::Valid(progress));
        }
        std::thread::yield_now();
    }
    Ok(FoundProgress::Damaged(match length {
        FILE_BYTES => "its checksum does not match".to_owned(),
        _ => format!("it does not have the expected {FILE_BYTES} bytes"),
    }))
}

/// The open progress file.
#[derive(Debug)]
pub(crate) struct ProgressFile {
    file: Arc<dyn DiskFile>,
    progress: WriterProgress,
    /// Whether it was overwritten since the last sync.
    is_unsynced: bool,
    /// Whether the last replacement failed.
    has_failed: bool,
}

impl ProgressFile {
    /// Creates the file and waits until it is durable. An existing file is replaced.
    pub(crate) fn create_file(
        writer_dir: &WriterDir,
        progress: WriterProgress,
    ) -> io::Result<Self> {
        let (path, unnamed) = writer_dir.progress_paths();
        let file = writer_dir.disk.open_file(&unnamed, OpenMode::Truncate)?;
        append_all(file.as_ref(), &progress.encode())
            .and_then(|()| file.sync_data())
            .inspect_err(|_| drop(file.truncate_to(0)))?;
        writer_dir.disk.rename_file(&unnamed, &path)?;
        writer_dir.disk.sync_dir(&writer_dir.dir)?;
        let file = writer_dir.disk.open_file(&path, OpenMode::Update)?;
        Ok(Self { file, progress, is_unsynced: false, has_failed: false })
    }

    /// Returns the current progress.
    pub(crate) fn current_progress(&self) -> WriterProgress {
        self.progress
    }

    /// Overwrites the progress. A failed write leaves an older state, which is still true; the next
    /// write corrects it.
    pub(crate) fn write_progress(&mut self, progress: WriterProgress) {
        if progress == self.progress && !self.has_failed {
            return;
        }
        self.progress = progress;
        self.is_unsynced = true;
        let replaced = self.file.write_at(0, &progress.encode());
        if let Err(error) = &replaced
            && !self.has_failed
        {
            tracing::warn!(%error, "cannot write the progress file of the record");
        }
        self.has_failed = replaced.is_err();
    }

    /// Returns the file if it must be synced. The caller syncs it.
    pub(crate) fn take_unsynced(&mut self) -> Option<Arc<dyn DiskFile>> {
        std::mem::take(&mut self.is_unsynced).then(|| Arc::clone(&self.file))
    }
}

#[cfg(test)]
mod tests {
    use super::WriterProgress;

    #[test]
    fn it_reads_back_and_every_changed_bit_is_seen() {
        let progress = WriterProgress {
            boot_id: Some([7; 16]),
            written_seq: 9,
            synced_seq: 8,
            signed_seq: 5,
            segment_number: 3,
            is_closed: true,
        };
        for progress in
            [progress, WriterProgress::default(), WriterProgress { is_closed: false, ..progress }]
        {
            let good = progress.encode();
            assert_eq!(WriterProgress::decode(&good), Some(progress));
            assert_eq!(WriterProgress::decode(&good[..63]), None);
            for bit in 0..good.len() * 8 {
                let mut bad = good;
                bad[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(WriterProgress::decode(&bad), None, "bit {bit}");
            }
        }
    }

    #[test]
    fn what_must_be_there_is_all_during_one_boot_and_what_was_synced_after_it() {
        let progress = WriterProgress {
            boot_id: Some([7; 16]),
            written_seq: 9,
            synced_seq: 8,
            ..WriterProgress::default()
        };
        assert_eq!(
            (progress.required_seq(Some([7; 16])), progress.required_seq(Some([1; 16]))),
            (9, 8)
        );
        assert_eq!((progress.required_seq(None), progress.durable_seq()), (8, 8));
        let unnamed = WriterProgress { boot_id: None, ..progress };
        assert_eq!(unnamed.required_seq(None), 8);
        let closed = WriterProgress { is_closed: true, ..progress };
        assert_eq!((closed.required_seq(Some([1; 16])), closed.durable_seq()), (9, 9));
    }
}
