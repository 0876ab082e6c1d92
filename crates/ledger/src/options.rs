//! What the operator may choose of the ledger.

use std::time::Duration;

use tool::LedgerError;

/// How the ledger writes. [`Options::default`] is what a server uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Names this writer's files, `[A-Za-z0-9_.-]`, 1 to 64 characters. Several servers on one
    /// directory have one name each: one chain per writer. Default `main`.
    pub writer: String,
    /// A segment that has grown past so many bytes is closed. Default 64 MiB.
    pub segment_bytes: u64,
    /// So many bytes are kept set aside on the disk: records that need no sync are still taken from
    /// them when the disk is full. Default 4 MiB, about 5,000 calls.
    pub reserve_bytes: u64,
    /// A checkpoint is written after so many records. Default 1,000.
    pub checkpoint_records: u64,
    /// What is written is synced and sealed by a checkpoint after this long at the latest, and a
    /// full or failing disk is tried again this often. Default 1 s.
    pub idle: Duration,
    /// How long a call waits for the disk before it is refused. Default 5 s.
    pub sync_wait: Duration,
    /// So many bytes of records may wait for the disk; intents past that are refused. Default
    /// 32 MiB.
    pub unsynced_bytes: usize,
    /// So many refusals are written down one by one in a second; the rest is counted. Default 100.
    pub refusals_per_second: u32,
    /// So many of the newest records are found without reading segments. Default 100,000.
    pub index_entries: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            writer: "main".to_owned(),
            segment_bytes: 64 << 20,
            reserve_bytes: 4 << 20,
            checkpoint_records: 1_000,
            idle: Duration::from_secs(1),
            sync_wait: Duration::from_secs(5),
            unsynced_bytes: 32 << 20,
            refusals_per_second: 100,
            index_entries: 100_000,
        }
    }
}

impl Options {
    /// Longest name of a writer, in bytes.
    pub(crate) const MAX_WRITER: usize = 64;

    pub(crate) fn check(&self) -> Result<(), LedgerError> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
        let name = &self.writer;
        if name.is_empty() || name.len() > Self::MAX_WRITER || !name.bytes().all(fits) {
            return Err(LedgerError::new(format!(
                "the writer's name `{}` does not fit: 1 to {} letters, digits, `_`, `.` and `-`",
                name.escape_debug(),
                Self::MAX_WRITER
            )));
        }
        Ok(())
    }
}
