//! Implements `toolkeep record verify`, which verifies the integrity of the record.

mod proof_summary;
pub(super) mod signed_checkpoints;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use ledger::{Disk, LedgerCheckpoint, OsDisk, VerificationReport, WriterReport};
use serde::Serialize;

use super::{file_error, read_text_file};
use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::data_dir::DataDir;
use cli_core::printer::{Printer, format_table, sanitize_text};

use proof_summary::VerifySummary;
use signed_checkpoints::SignedCheckpoints;

/// Maximum size of a file of stored checkpoints, in bytes.
const MAX_CHECKPOINT_FILE_BYTES: u64 = 16 << 20;

/// Verify the integrity of the record: checksums, sequence numbers, hash chain, tree, checkpoints,
/// and one outcome for each call.
///
/// Works on the data directory, with or without a running server, and changes nothing. Some changes
/// are detected only by a checkpoint stored elsewhere: a second location in the configuration
/// (`records: { checkpoints: { also: FILE } }`) or the output of `toolkeep record checkpoint`.
/// Several checkpoints are also compared with each other. Where retention removed files, their
/// tombstones are verified. The report lists the facts that are proved and those that are not.
///
/// Exits with 1 if verification fails.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep record verify
  toolkeep record verify --checkpoint /mnt/other/toolkeep.checkpoints
  toolkeep record verify --checkpoint kept.txt --signer toolkeep/0123456789abcdef/main+1c2d3e4f+AQ…
  toolkeep record verify --kept kept.json")]
pub(crate) struct RecordVerifyArgs {
    /// File with signed checkpoints that were stored elsewhere. Can be repeated.
    #[arg(long, value_name = "FILE")]
    checkpoint: Vec<PathBuf>,
    /// Public key of the checkpoints and tombstones, as `toolkeep record checkpoint --public`
    /// prints it, or a file that contains it [default: that of the data directory]. Can be
    /// repeated.
    #[arg(long, value_name = "KEY")]
    signer: Vec<String>,
    /// JSON report of this command that was stored elsewhere. Can be repeated.
    #[arg(long, value_name = "FILE")]
    kept: Vec<PathBuf>,
}

#[derive(Debug, Serialize)]
struct VerifyReport<'a> {
    #[serde(rename = "sound")]
    is_sound: bool,
    #[serde(flatten)]
    report: &'a VerificationReport,
    #[serde(flatten)]
    summary: VerifySummary,
    /// The limits of the check.
    limits: &'static str,
}

impl RecordVerifyArgs {
    pub(super) fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let mut kept = Vec::new();
        for file in &self.kept {
            kept.extend(read_kept_checkpoints(file)?);
        }
        let data = context.load_data_dir()?;
        let signed = SignedCheckpoints::from_files(&self.checkpoint, &self.signer, &data)?;
        kept.extend(signed.checkpoints.iter().cloned());
        let records = data.records_dir();
        if !records.exists() {
            let message = format!("no record in `{}`", records.display());
            return Err(CommandError::new(ExitStatus::Refused, message).with_help(
                "pass its data directory with `--data \
                                                          DIR`",
            ));
        }
        let report = verify_records(&records, &kept, &signed)?;
        let sound = report.is_sound();
        let summary = proof_summary::summarize_report(&report, &signed, kept.len());
        let answer = VerifyReport {
            is_sound: sound,
            report: &report,
            summary,
            limits: VerificationReport::LIMITS,
        };
        ui.print_result(&answer, || format_report(&answer))?;
        Ok(if sound { ExitStatus::Success } else { ExitStatus::Failed })
    }
}

/// Verifies the record of a data directory against itself and its own key only. Blocks.
pub(crate) fn verify_data(data_dir: &DataDir) -> Result<VerificationReport, CommandError> {
    verify_records(
        &data_dir.records_dir(),
        &[],
        &SignedCheckpoints::from_files(&[], &[], data_dir)?,
    )
}

fn verify_records(
    records: &Path,
    kept: &[LedgerCheckpoint],
    signed: &SignedCheckpoints,
) -> Result<VerificationReport, CommandError> {
    let disk: Arc<dyn Disk> = Arc::new(OsDisk);
    let signers = |writer: &str| signed.writer_keys(writer);
    let signers = signed.has_keys().then_some(&signers as ledger::VerifierKeyLookup<'_>);
    ledger::verify_signed_record(records, &disk, kept, signers)
        .map_err(|error| CommandError::new(ExitStatus::Failed, error.message))
}

/// Reads the checkpoints of a stored report.
fn read_kept_checkpoints(file: &Path) -> Result<Vec<LedgerCheckpoint>, CommandError> {
    let text = read_text_file(file, MAX_CHECKPOINT_FILE_BYTES)?;
    let report: VerificationReport = serde_json::from_str(&text).map_err(|error| {
        file_error(file, &format!("is not a report of this command: {error}"))
            .with_help("create one with `toolkeep record verify -o json`")
    })?;
    let found: Vec<_> =
        report.writers.into_iter().filter_map(|writer| writer.last_checkpoint).collect();
    // A file that proves nothing must not look like a proof.
    if found.is_empty() { Err(file_error(file, "contains no checkpoint")) } else { Ok(found) }
}

fn format_report(answer: &VerifyReport<'_>) -> String {
    let report = answer.report;
    let rows: Vec<_> = report.writers.iter().map(writer_row).collect();
    let head = [
        "WRITER", "FILES", "RECORDS", "INTENTS", "OUTCOMES", "REFUSED", "OPEN", "UNKNOWN",
        "UNSEALED",
    ];
    let mut parts = vec![format_table(head, &rows)];
    let gone: Vec<_> = report.writers.iter().filter_map(format_removed).collect();
    if !gone.is_empty() {
        parts.push(gone.join("\n"));
    }
    let found = report.findings.iter().map(|finding| {
        let (file, offset) = (sanitize_text(&finding.segment), finding.offset);
        format!("{file} at byte {offset}: {}", sanitize_text(&finding.message))
    });
    let found: Vec<_> = found.collect();
    let total = found.len() as u64 + report.more_findings;
    if !found.is_empty() {
        parts.push(found.join("\n"));
    }
    parts.push(match total {
        0 => format_intact(report),
        1 => "the record is damaged: 1 finding".to_owned(),
        total => format!("the record is damaged: {total} findings"),
    });
    for (word, list) in
        [("proved", &answer.summary.proved), ("not proved", &answer.summary.not_proved)]
    {
        let lines: Vec<_> = list.iter().map(|line| format!("  {}", sanitize_text(line))).collect();
        if !lines.is_empty() {
            parts.push(format!("{word}:\n{}", lines.join("\n")));
        }
    }
    parts.join("\n\n")
}

/// Formats the verdict; a record that lost its end in a power failure is not called complete.
fn format_intact(report: &VerificationReport) -> String {
    match report.writers.iter().map(|writer| writer.lost_records).sum() {
        0_u64 => "the record is intact".to_owned(),
        lost => format!(
            "the remaining record is intact; {lost} records at its end were not yet synced to disk \
             and were lost in a power failure"
        ),
    }
}

fn format_removed(writer: &WriterReport) -> Option<String> {
    let gone = writer.removed.as_ref()?;
    Some(format!(
        "{}: retention removed {} files, {} bytes, the records 1 to {}",
        sanitize_text(&writer.writer),
        gone.segments,
        gone.bytes,
        gone.last_seq
    ))
}

fn writer_row(writer: &WriterReport) -> [String; 9] {
    [
        sanitize_text(&writer.writer),
        writer.segments.to_string(),
        writer.records.to_string(),
        writer.intents.to_string(),
        writer.outcomes.to_string(),
        writer.refusals.to_string(),
        writer.open_calls.to_string(),
        writer.unknown_calls.to_string(),
        writer.unsealed_records.to_string(),
    ]
}
