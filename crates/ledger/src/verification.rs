//! Verification of a ledger, without a server or while a server writes.
//!
//! [`DamageKind`] lists the damage it detects. [`VerificationReport::LIMITS`]
//! states what it cannot detect.

mod checkpoint_file;
mod writer_verifier;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tool::LedgerError;
use tool::ledger::RecordVerification;

use crate::disk::Disk;
use crate::error_messages::io_failure;
use crate::hash_chain::LedgerCheckpoint;
use crate::integrity_finding::{BoundedFindings, DamageKind, DiscardedRange, IntegrityFinding};
use crate::record_scan::{self, RecordScan};
use crate::segment::{WriterDir, parse_writer};
use crate::signed_checkpoint::VerifierKey;
use crate::tombstone_chain::RemovedRecords;
use checkpoint_file::CheckpointFile;
use writer_verifier::{ExternalCheckpoint, WriterVerifier};

/// Report of a ledger verification.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerificationReport {
    /// Each writer's record.
    pub writers: Vec<WriterReport>,
    /// Findings, at most 1,000.
    pub findings: Vec<IntegrityFinding>,
    /// Number of further findings.
    pub more_findings: u64,
}

impl VerificationReport {
    /// Limits of the check, which every report must state.
    ///
    /// Each of them leaves files that a server could have left. An older copy consists of such
    /// files. A writer that rewrites the record or cuts its end off can also adapt the progress
    /// file. A power failure removes unsynced records, so the end may be missing. A killed server
    /// leaves a partial record that nobody saw acknowledged.
    pub const LIMITS: &'static str = "only a checkpoint that was stored elsewhere reveals a \
        restored older copy, a completely rewritten record, and an end that was cut off together \
        with a change of the progress file; after a power failure, unsynced records that are \
        missing cannot be distinguished from removed ones";

    /// Returns whether there is no damage. Torn ends do not count, because a crash leaves them.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty() && self.more_findings == 0
    }
}

impl From<VerificationReport> for RecordVerification {
    fn from(report: VerificationReport) -> Self {
        let sum = |count: fn(&WriterReport) -> u64| report.writers.iter().map(count).sum();
        let findings = report.findings.iter().map(|finding| {
            format!("{} at byte {}: {}", finding.segment, finding.offset, finding.message)
        });
        Self {
            records: sum(|writer| writer.records),
            unsealed_records: sum(|writer| writer.unsealed_records),
            findings: findings.collect(),
            more_findings: report.more_findings,
        }
    }
}

/// One writer's record in numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriterReport {
    /// Its name.
    pub writer: String,
    /// Files.
    pub segments: usize,
    /// Bytes in them that belong to the record.
    pub bytes: u64,
    /// Records.
    pub records: u64,
    /// Number of intents among the records.
    pub intents: u64,
    /// Number of approval steps among the records.
    #[serde(rename = "waits")]
    pub approval_steps: u64,
    /// Number of outcomes among the records.
    pub outcomes: u64,
    /// Number of refusals among the records.
    #[serde(rename = "refused")]
    pub refusals: u64,
    /// Number of checkpoints among the records.
    pub checkpoints: u64,
    /// Number of refusal gaps among the records.
    pub gaps: u64,
    /// Number of segment removals among the records.
    #[serde(default)]
    pub removals: u64,
    /// Number of audit events among the records.
    #[serde(default)]
    pub events: u64,
    /// Intents without an outcome: running, or unknown.
    #[serde(rename = "open")]
    pub open_calls: u64,
    /// Number of open calls whose process has ended; their outcome is unknown.
    #[serde(rename = "unknown")]
    pub unknown_calls: u64,
    /// Number of records after the last checkpoint. Their removal, and changes that keep each
    /// record valid, are not detected.
    #[serde(rename = "unsealed")]
    pub unsealed_records: u64,
    /// Number of records that a power failure removed before they were synced.
    #[serde(default)]
    #[serde(rename = "lost")]
    pub lost_records: u64,
    /// Checkpoints kept elsewhere that fit.
    #[serde(rename = "kept")]
    pub external_checkpoints: u64,
    /// Number of the last record that the newest external checkpoint covers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "kept_through")]
    pub external_through: Option<u64>,
    /// The last checkpoint: keep it elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "checkpoint")]
    pub last_checkpoint: Option<LedgerCheckpoint>,
    /// Ranges that do not belong to the ledger: a torn end, or frames carried over to another
    /// segment.
    #[serde(rename = "cuts")]
    pub discarded: Vec<DiscardedRange>,
    /// Records removed by retention.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "gone")]
    pub removed: Option<RemovedRecords>,
}

/// Verifies all records in `dir`: checksums, numbers, chain and tree against every checkpoint, one
/// intent and one outcome for each call, and the externally stored checkpoints `kept`. Read-only.
///
/// # Errors
/// The directory cannot be read. Unreadable files are findings.
pub fn verify_record(
    dir: &Path,
    disk: &Arc<dyn Disk>,
    external_checkpoints: &[LedgerCheckpoint],
) -> Result<VerificationReport, LedgerError> {
    verify_signed_record(dir, disk, external_checkpoints, None)
}

/// Returns the keys that may have signed a writer's tombstones.
pub type VerifierKeyLookup<'a> = &'a dyn Fn(&str) -> Vec<VerifierKey>;

/// Verifies a ledger like [`verify_record`], and reports tombstones without a signature of
/// `signers`.
///
/// # Errors
/// As [`verify_record`].
pub fn verify_signed_record(
    dir: &Path,
    disk: &Arc<dyn Disk>,
    external_checkpoints: &[LedgerCheckpoint],
    signers: Option<VerifierKeyLookup<'_>>,
) -> Result<VerificationReport, LedgerError> {
    let site = |writer: &str| WriterDir {
        disk: Arc::clone(disk),
        dir: dir.to_owned(),
        writer_name: writer.to_owned(),
    };
    let mut report = VerificationReport::default();
    // A running server may relocate records to another segment between two reads of the directory,
    // so a finding is verified again.
    for _ in 0..3 {
        let names = list_names(disk.as_ref(), dir)?;
        let mut writers =
            names.iter().filter_map(|name| parse_writer(name)).collect::<BTreeSet<_>>();
        writers.extend(external_checkpoints.iter().map(|checkpoint| checkpoint.writer.as_str()));
        report = VerificationReport::default();
        for writer in writers {
            let keys = signers.map(|signers| signers(writer));
            verify_writer(&site(writer), (external_checkpoints, keys.as_deref()), &mut report)?;
        }
        if report.is_sound() || list_names(disk.as_ref(), dir)? == names {
            break;
        }
    }
    Ok(report)
}

fn list_names(disk: &dyn Disk, dir: &Path) -> Result<BTreeSet<String>, LedgerError> {
    let names = disk
        .list_names(dir)
        .map_err(|error| io_failure("the record cannot be read", dir, &error))?;
    Ok(names.into_iter().collect())
}

fn verify_writer(
    site: &WriterDir,
    (kept, keys): (&[LedgerCheckpoint], Option<&[VerifierKey]>),
    report: &mut VerificationReport,
) -> Result<(), LedgerError> {
    // The server writes the progress last, so it is read first.
    let found = record_scan::read_progress(site)?;
    let signed = CheckpointFile::read_and_verify(site, &found, keys);
    let survey = RecordScan::scan_with_progress(site, found)?;
    let kept = kept.iter().filter(|checkpoint| checkpoint.writer == site.writer_name);
    let kept = kept.map(|checkpoint| ExternalCheckpoint {
        checkpoint: checkpoint.clone(),
        is_beside_segments: false,
    });
    let outside: Vec<_> = kept.chain(signed.checkpoint).collect();
    let mut check = WriterVerifier::new(site, &survey, &outside);
    signed.finding.into_iter().for_each(|finding| check.findings.push_finding(finding));
    check.verify_tombstones(site, keys)?;
    let read =
        survey.replay_frames(site, &mut |part, at, frame| check.visit_frame(part, at, frame));
    check.finish_writer();
    let WriterVerifier { report: mut numbers, findings: found, calls, .. } = check;
    numbers.open_calls = calls.open_calls.len() as u64;
    let session = survey.segments.last().map_or(0, |part| part.session_seq);
    numbers.unknown_calls = calls.open_calls.values().filter(|seq| **seq < session).count() as u64;
    numbers.segments = survey.segments.len();
    numbers.bytes = survey.segments.iter().map(|part| part.end_offset).sum();
    numbers.last_checkpoint = survey.last_checkpoint().map(|mark| mark.checkpoint.clone());
    numbers.discarded = survey.discarded;
    numbers.lost_records = survey.lost_records;
    report.writers.push(numbers);
    let mut all = BoundedFindings {
        list: std::mem::take(&mut report.findings),
        omitted_count: report.more_findings,
    };
    all.omitted_count += survey.findings.omitted_count + found.omitted_count;
    for finding in survey.findings.list.into_iter().chain(found.list) {
        all.push_finding(finding);
    }
    if let Err(error) = read {
        all.push_finding(IntegrityFinding {
            writer: site.writer_name.clone(),
            segment: String::new(),
            offset: 0,
            seq: None,
            damage: DamageKind::Unreadable,
            message: error.message,
        });
    }
    (report.findings, report.more_findings) = (all.list, all.omitted_count);
    Ok(())
}
