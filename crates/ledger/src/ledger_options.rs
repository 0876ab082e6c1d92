//! Options of the ledger.

use std::time::Duration;

use tool::LedgerError;
use tool::clock::duration_millis;

/// Write options of the ledger. [`LedgerOptions::default`] are those of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerOptions {
    /// Names this writer's files, `[A-Za-z0-9_.-]`, 1 to 64 characters. Several servers on one
    /// directory have one name each: one chain per writer. Default `main`.
    pub writer: String,
    /// A segment that has grown past so many bytes is closed. Default 64 MiB; 1 KiB to 1 GiB.
    pub segment_bytes: u64,
    /// Reserved disk space in bytes, used for records that need no sync when the disk is full.
    /// Default 4 MiB, about 8,000 calls; 4 KiB to 1 GiB.
    pub reserve_bytes: u64,
    /// A checkpoint is written after so many records. Default 1,000; 1 to 1,000,000.
    pub checkpoint_records: u64,
    /// Maximum delay until written records are synced and sealed by a checkpoint, and retry
    /// interval of a full or failing disk. Default 1 s; 1 ms to 4 s.
    pub checkpoint_interval: Duration,
    /// Time limit of a call for the disk; it is refused afterwards. Default 5 s; 1 ms to 10 min.
    pub sync_timeout: Duration,
    /// Maximum size of unsynced records in bytes; further intents are refused. Default 32 MiB; 64
    /// KiB to 1 GiB.
    pub max_unsynced_bytes: usize,
    /// Maximum number of refusals recorded one by one per second; the others are counted. Default
    /// 100.
    pub max_refusals_per_second: u32,
    /// Number of the newest records that are indexed in memory. Default 100,000; 1 to 100,000,000,
    /// at about 64 bytes each.
    pub max_index_entries: usize,
}

impl Default for LedgerOptions {
    fn default() -> Self {
        Self {
            writer: "main".to_owned(),
            segment_bytes: 64 << 20,
            reserve_bytes: 4 << 20,
            checkpoint_records: 1_000,
            checkpoint_interval: Duration::from_secs(1),
            sync_timeout: Duration::from_secs(5),
            max_unsynced_bytes: 32 << 20,
            max_refusals_per_second: 100,
            max_index_entries: 100_000,
        }
    }
}

impl LedgerOptions {
    /// Longest name of a writer, in bytes.
    pub(crate) const MAX_WRITER_BYTES: usize = 64;

    pub(crate) fn validate(&self) -> Result<(), LedgerError> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
        let name = &self.writer;
        if name.is_empty() || name.len() > Self::MAX_WRITER_BYTES || !name.bytes().all(fits) {
            return Err(LedgerError::new(format!(
                "invalid writer name `{}`: use 1 to {} letters, digits, `_`, `.` and `-`",
                name.escape_debug(),
                Self::MAX_WRITER_BYTES
            )));
        }
        let bounds = [
            ("segment_bytes", self.segment_bytes, 1 << 10, 1 << 30),
            ("reserve_bytes", self.reserve_bytes, 4 << 10, 1 << 30),
            ("checkpoint_records", self.checkpoint_records, 1, 1_000_000),
            ("unsynced_bytes", self.max_unsynced_bytes as u64, 64 << 10, 1 << 30),
            ("index_entries", self.max_index_entries as u64, 1, 100_000_000),
            ("idle", duration_millis(self.checkpoint_interval), 1, 4_000),
            ("sync_wait", duration_millis(self.sync_timeout), 1, 600_000),
        ];
        for (name, value, least, most) in bounds {
            if !(least..=most).contains(&value) {
                return Err(LedgerError::new(format!(
                    "the record's option `{name}` is {value}; it must be from {least} to {most}"
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::LedgerOptions;

    type Set = fn(&mut LedgerOptions, u64);

    const BOUNDS: [(&str, Set, u64, u64); 7] = [
        ("segment_bytes", |it, value| it.segment_bytes = value, 1 << 10, 1 << 30),
        ("reserve_bytes", |it, value| it.reserve_bytes = value, 4 << 10, 1 << 30),
        ("checkpoint_records", |it, value| it.checkpoint_records = value, 1, 1_000_000),
        ("unsynced_bytes", |it, value| it.max_unsynced_bytes = size(value), 64 << 10, 1 << 30),
        ("index_entries", |it, value| it.max_index_entries = size(value), 1, 100_000_000),
        ("idle", |it, value| it.checkpoint_interval = Duration::from_millis(value), 1, 4_000),
        ("sync_wait", |it, value| it.sync_timeout = Duration::from_millis(value), 1, 600_000),
    ];

    fn size(value: u64) -> usize {
        usize::try_from(value).unwrap()
    }

    #[test]
    fn each_option_has_both_its_bounds() {
        for (name, set, least, most) in BOUNDS {
            for (value, fits) in
                [(least - 1, false), (least, true), (most, true), (most + 1, false)]
            {
                let mut options = LedgerOptions::default();
                set(&mut options, value);
                let told = format!(
                    "the record's option `{name}` is {value}; it must be from {least} to \
                        {most}"
                );
                let refused = options.validate().err().map(|error| error.message);
                assert_eq!(refused, (!fits).then_some(told));
            }
        }
    }
}
