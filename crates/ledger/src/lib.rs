//! The append-only record of every call: segment files, one sync thread, chain and checkpoints.
#![doc = include_str!("promises.md")]

mod audit_log;
mod compact_range;
mod consistency_proof;
mod disk;
mod disk_reserve;
mod error_messages;
mod evicted_records;
mod file_ledger;
mod filter_thread;
mod frame;
mod frame_reader;
mod frame_write;
mod hash_chain;
mod integrity_finding;
mod ledger_inner;
mod ledger_options;
mod ledger_state;
mod legacy_tail;
mod msgpack_json;
mod observed_ledger;
mod proof_builder;
mod quarantine;
mod record_append;
mod record_export;
mod record_formats;
mod record_index;
mod record_reader;
mod record_scan;
mod record_search;
mod record_summary;
mod recovery;
mod refusal_limit;
mod repair_plan;
mod retention;
mod search_fields;
mod segment;
mod segment_calls;
mod segment_filter;
mod segment_scan;
mod segment_summary;
pub mod signed_checkpoint;
mod slice;
mod summary_check;
mod sync_thread;
mod tombstone;
mod tombstone_chain;
mod verification;
mod writer_progress;

pub use consistency_proof::{ConsistencyProof, ProofError};
pub use disk::{BootId, DirLock, Disk, DiskFile, OpenMode, OsDisk};
pub use file_ledger::{FileLedger, MIN_FREE_BYTES};
pub use hash_chain::LedgerCheckpoint;
pub use integrity_finding::{DamageKind, DiscardReason, DiscardedRange, IntegrityFinding};
pub use ledger_options::LedgerOptions;
pub use proof_builder::build_consistency_proof;
pub use record_export::export_records;
pub use record_formats::{FormatCounts, RecordFormats};
pub use record_summary::{WriterSummary, summarize_writers};
pub use recovery::RecoveryReport;
pub use refusal_limit::RefusalGap;
pub use retention::{RetentionPolicy, RetentionReport};
pub use tombstone::RemovalReason;
#[cfg(test)]
mod tests;

pub use observed_ledger::observe_completions;
pub use tombstone_chain::RemovedRecords;
pub use verification::{
    VerificationReport, VerifierKeyLookup, WriterReport, verify_record, verify_signed_record,
};
