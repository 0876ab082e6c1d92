//! What is wrong with a record, and where.

use serde::{Deserialize, Serialize};

/// So many findings are listed one by one; the rest is counted.
const MAX: usize = 1_000;

/// Kinds of damage. None of them can come from a crash or a loss of power: a hand, a program or a
/// failing disk changed what was on record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Bytes that were on the disk are no record any more.
    Damaged,
    /// Records that were on the disk are not there.
    Missing,
    /// Something stands where nothing was written.
    Inserted,
    /// A record does not follow the one before it.
    Order,
    /// A segment does not begin as it was made, or is another one than its name says.
    Header,
    /// A segment is not there.
    Segment,
    /// The records are whole, but not those that a checkpoint sealed.
    Chain,
    /// A checkpoint that was kept elsewhere does not fit: the end was cut off, an old copy was put
    /// back, or all was written anew.
    Kept,
    /// A call has an intent too many, an outcome too many, or an outcome without an intent.
    Call,
    /// The file that says how far the record goes is missing or was changed.
    Progress,
    /// The signed checkpoint beside the segments is missing, was changed, or does not fit.
    Checkpoint,
    /// The newest records of an older version, in a file of their own, cannot be read as a whole.
    Tail,
    /// A tombstone is missing, was changed, is not signed, or does not go on from the one before.
    Tombstone,
    /// The file cannot be read.
    Unreadable,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Whose record.
    pub writer: String,
    /// The file.
    pub segment: String,
    /// Where in the file, in bytes.
    pub offset: u64,
    /// The number of the record that is meant, or of the first one that is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Its kind.
    pub fault: Fault,
    /// In words.
    pub text: String,
}

/// What was cut off, or is to be, because it is no part of the record: nothing that was synced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// The file.
    pub segment: String,
    /// From where, in bytes.
    pub offset: u64,
    /// How much.
    pub bytes: u64,
    /// Whole records in it: they were not synced yet, and stood behind others that the disk lost.
    pub records: u64,
    /// Why.
    pub why: CutWhy,
}

/// Why something is no part of the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CutWhy {
    /// A write was under way when the process or the power went.
    Torn,
    /// The same records stand in the next segment, to which they were carried over.
    Carried,
}

/// A bounded list of findings.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) list: Vec<Finding>,
    pub(crate) more: u64,
}

impl Findings {
    pub(crate) fn total(&self) -> u64 {
        self.list.len() as u64 + self.more
    }

    pub(crate) fn push(&mut self, finding: Finding) {
        if self.list.len() < MAX {
            self.list.push(finding);
        } else {
            self.more += 1;
        }
    }
}
