//! Storage of the record on its disk: files, free space and checkpoint, for those who look after it.

use std::fmt;

use crate::{BoxFuture, Digest, LedgerError, WallTime};

/// The stored record: its files, the disk, and its last checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordStorage {
    /// The files of each writer.
    pub writers: Vec<WriterStorage>,
    /// Free bytes of the disk, if the system tells.
    pub free_bytes: Option<u64>,
    /// Free bytes below which calls with effects are refused soon.
    pub min_free_bytes: u64,
    /// The last checkpoint: all records before it are sealed.
    pub last_checkpoint: Option<StoredCheckpoint>,
    /// Number of damaged places that were found when this process opened the record, or afterwards in old
    /// segments.
    pub damage_count: u64,
    /// Number of calls that ran when the process before ended; their outcome is unknown.
    pub unknown_calls: usize,
}

/// The files of one writer of the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterStorage {
    /// Name of the writer.
    pub writer: String,
    /// Number of segment files.
    pub segments: usize,
    /// Bytes in them.
    pub bytes: u64,
    /// Start time of the oldest segment.
    pub oldest_at: Option<WallTime>,
    /// Number of files that retention removed.
    pub removed_segments: usize,
}

/// A checkpoint of the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCheckpoint {
    /// Number of the last sealed record.
    pub through: u64,
    /// Root of the tree over all sealed records.
    pub root: Digest,
    /// Time of the checkpoint.
    pub created_at: WallTime,
}

/// Result of a verification of the whole record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordVerification {
    /// Number of records that were read.
    pub records: u64,
    /// Number of records after the last checkpoint: a removal of these is not detected.
    pub unsealed_records: u64,
    /// Findings with file and place, at most 1,000.
    pub findings: Vec<String>,
    /// Number of further findings.
    pub more_findings: u64,
}

/// Looks at the files of the record.
pub trait RecordInspector: Send + Sync + fmt::Debug {
    /// Reads names, sizes and headers of the files; verifies nothing.
    ///
    /// # Errors
    /// [`LedgerError`] if the directory cannot be read.
    fn read_storage(&self) -> BoxFuture<'_, Result<RecordStorage, LedgerError>>;

    /// Verifies all records: checksums, numbers, hash chain, tree and checkpoints. Reads every file, which
    /// takes seconds for millions of records, on a thread of its own.
    ///
    /// # Errors
    /// [`LedgerError`] if the directory cannot be read.
    fn verify_record(&self) -> BoxFuture<'_, Result<RecordVerification, LedgerError>>;
}
