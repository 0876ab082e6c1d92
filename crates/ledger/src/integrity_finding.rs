//! Integrity findings: the damage in a ledger and its location.

use serde::{Deserialize, Serialize};

/// Maximum number of findings that are listed one by one; the others are counted.
const MAX_LISTED: usize = 1_000;

/// Kinds of damage. A crash or a power failure cannot cause any of them: a person, a program or a
/// failing disk changed the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DamageKind {
    /// Bytes that were on the disk are no record any more.
    #[serde(rename = "damaged")]
    CorruptRecord,
    /// Records that were on the disk are not there.
    #[serde(rename = "missing")]
    MissingRecords,
    /// Bytes were inserted where nothing had been written.
    #[serde(rename = "inserted")]
    InsertedBytes,
    /// A record does not follow the one before it.
    #[serde(rename = "order")]
    OutOfOrder,
    /// The header of a segment was changed, or does not match the file name.
    #[serde(rename = "header")]
    InvalidHeader,
    /// A segment is not there.
    #[serde(rename = "segment")]
    MissingSegment,
    /// The records are whole, but not those that a checkpoint sealed.
    #[serde(rename = "chain")]
    ChainMismatch,
    /// An externally stored checkpoint does not match: the end was cut off, an older copy was
    /// restored, or the record was rewritten.
    #[serde(rename = "kept")]
    ExternalCheckpointMismatch,
    /// A call has an intent too many, an outcome too many, or an outcome without an intent.
    #[serde(rename = "call")]
    CallMismatch,
    /// The progress file is missing or was changed.
    #[serde(rename = "progress")]
    InvalidProgress,
    /// The signed checkpoint beside the segments is missing, was changed, or does not match.
    #[serde(rename = "checkpoint")]
    InvalidCheckpoint,
    /// The newest records of an older version, in a file of their own, cannot be read as a whole.
    #[serde(rename = "tail")]
    InvalidTail,
    /// A tombstone is missing, was changed, is not signed, or does not go on from the one before.
    #[serde(rename = "tombstone")]
    InvalidTombstone,
    /// The file cannot be read.
    Unreadable,
}

/// One integrity finding with its location.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntegrityFinding {
    /// Writer of the record.
    pub writer: String,
    /// The file.
    pub segment: String,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Number of the affected record, or of the first missing one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Its kind.
    #[serde(rename = "fault")]
    pub damage: DamageKind,
    /// In words.
    #[serde(rename = "text")]
    pub message: String,
}

/// Discarded bytes, or bytes to be discarded, that do not belong to the ledger. They were never
/// synced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscardedRange {
    /// The file.
    pub segment: String,
    /// Start offset, in bytes.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// Complete records in the range. They were not synced yet and followed records that the disk
    /// lost.
    pub records: u64,
    /// Why.
    #[serde(rename = "why")]
    pub reason: DiscardReason,
}

/// Why something is no part of the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiscardReason {
    /// A write was in progress when the process or the power failed.
    #[serde(rename = "torn")]
    TornWrite,
    /// The records were copied to the next segment.
    #[serde(rename = "carried")]
    Relocated,
}

/// A bounded list of findings.
#[derive(Debug, Default)]
pub(crate) struct BoundedFindings {
    pub(crate) list: Vec<IntegrityFinding>,
    pub(crate) omitted_count: u64,
}

impl BoundedFindings {
    pub(crate) fn total_count(&self) -> u64 {
        self.list.len() as u64 + self.omitted_count
    }

    pub(crate) fn push_finding(&mut self, finding: IntegrityFinding) {
        if self.list.len() < MAX_LISTED {
            self.list.push(finding);
        } else {
            self.omitted_count += 1;
        }
    }
}
