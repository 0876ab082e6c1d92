//! Implements `toolkeep record verify`, which verifies the integrity of the record.

mod proof;
pub(super) mod signed;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use ledger::{Checkpoint, Disk, RealDisk, Report, WriterReport};
use serde::Serialize;

use cli_core::context::Context;
use cli_core::data::DataDir;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::{Ui, clean, table};

use signed::Signed;

/// Maximum size of a file of stored checkpoints, in bytes.
const KEPT: u64 = 16 << 20;

/// Check that the record is what was written: every checksum and number, the chain and the tree
/// against every checkpoint, one intent and one outcome for each call.
///
/// Works on the data directory itself, whether a server runs or not, and changes nothing. What no
/// check can see by itself is seen against a checkpoint that was kept elsewhere: a second place in the
/// configuration (`records: { checkpoints: { also: FILE } }`), or a copy of what `toolkeep record
/// checkpoint` prints. Several are checked against each other, too. Where retention removed files, their
/// tombstones are checked instead. The answer says what was proved and what was not.
///
/// Exits with 1 where something is wrong.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep record verify
  toolkeep record verify --checkpoint /mnt/other/toolkeep.checkpoints
  toolkeep record verify --checkpoint kept.txt --signer toolkeep/0123456789abcdef/main+1c2d3e4f+AQ…
  toolkeep record verify --kept kept.json")]
pub(crate) struct Verify {
    /// A file of signed checkpoints that were kept elsewhere. May be given several times.
    #[arg(long, value_name = "FILE")]
    checkpoint: Vec<PathBuf>,
    /// The key that signed them and the tombstones, or a file that holds it: what `toolkeep record checkpoint --public` prints
    /// [default: that of the data directory]. May be given several times.
    #[arg(long, value_name = "KEY")]
    signer: Vec<String>,
    /// An answer of this command, as JSON, that was kept elsewhere. May be given several times.
    #[arg(long, value_name = "FILE")]
    kept: Vec<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Answer<'a> {
    sound: bool,
    #[serde(flatten)]
    report: &'a Report,
    /// The statements that were proved.
    proved: Vec<String>,
    /// The statements that cannot be proved with the given input.
    not_proved: Vec<String>,
    /// The limits of the check.
    limits: &'static str,
}

impl Verify {
    pub(super) fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let mut kept = Vec::new();
        for file in &self.kept {
            kept.extend(checkpoints(file)?);
        }
        let reading = config::read(&context.setting(None));
        let Some(config) = reading.config else {
            return Err(Failure::of_faults(reading.faults));
        };
        let data = DataDir::at(config.data);
        let signed = Signed::read(&self.checkpoint, &self.signer, &data)?;
        kept.extend(signed.checkpoints.iter().cloned());
        let records = data.records();
        if !records.exists() {
            let message = format!("there is no record at `{}`", records.display());
            return Err(
                Failure::new(Exit::Refused, message).fix("name its data directory: `--data DIR`")
            );
        }
        let report = verified(&records, &kept, &signed)?;
        let sound = report.is_sound();
        let (proved, not_proved) = proof::of(&report, &signed, kept.len());
        let answer = Answer { sound, report: &report, proved, not_proved, limits: Report::LIMITS };
        ui.answer(&answer, || text(&answer))?;
        Ok(if sound { Exit::Done } else { Exit::Failed })
    }
}

/// Verifies the record of a data directory against itself and its own key only. Blocks.
pub(crate) fn verify_data(data: &DataDir) -> Result<Report, Failure> {
    verified(&data.records(), &[], &Signed::read(&[], &[], data)?)
}

fn verified(records: &Path, kept: &[Checkpoint], signed: &Signed) -> Result<Report, Failure> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let signers = |writer: &str| signed.signers(writer);
    let signers = signed.has_signers().then_some(&signers as ledger::Signers<'_>);
    ledger::verify_signed(records, &disk, kept, signers)
        .map_err(|error| Failure::new(Exit::Failed, error.message))
}

/// Reads the checkpoints of a stored report.
fn checkpoints(file: &Path) -> Result<Vec<Checkpoint>, Failure> {
    let told = |what: &str| Failure::new(Exit::Usage, format!("`{}` {what}", file.display()));
    let size =
        std::fs::metadata(file).map_err(|error| told(&format!("cannot be read: {error}")))?;
    if size.len() > KEPT {
        return Err(told(&format!("has more than {KEPT} bytes")));
    }
    let bytes = std::fs::read(file).map_err(|error| told(&format!("cannot be read: {error}")))?;
    let report: Report = serde_json::from_slice(&bytes).map_err(|error| {
        told(&format!("is no answer of this command: {error}"))
            .fix("it is made by `toolkeep record verify -o json`")
    })?;
    let found: Vec<_> = report.writers.into_iter().filter_map(|writer| writer.checkpoint).collect();
    // A file that proves nothing must not look like a proof.
    if found.is_empty() { Err(told("holds no checkpoint")) } else { Ok(found) }
}

fn text(answer: &Answer<'_>) -> String {
    let report = answer.report;
    let rows: Vec<_> = report.writers.iter().map(row).collect();
    let head = [
        "WRITER", "FILES", "RECORDS", "INTENTS", "OUTCOMES", "REFUSED", "OPEN", "UNKNOWN",
        "UNSEALED",
    ];
    let mut parts = vec![table(head, &rows)];
    let gone: Vec<_> = report.writers.iter().filter_map(gone).collect();
    if !gone.is_empty() {
        parts.push(gone.join("\n"));
    }
    let found = report.findings.iter().map(|finding| {
        let (file, offset) = (clean(&finding.segment), finding.offset);
        format!("{file} at byte {offset}: {}", clean(&finding.text))
    });
    let found: Vec<_> = found.collect();
    let total = found.len() as u64 + report.more_findings;
    if !found.is_empty() {
        parts.push(found.join("\n"));
    }
    parts.push(match total {
        0 => whole(report),
        1 => "the record is damaged: 1 finding".to_owned(),
        total => format!("the record is damaged: {total} findings"),
    });
    for (word, list) in [("proved", &answer.proved), ("not proved", &answer.not_proved)] {
        let lines: Vec<_> = list.iter().map(|line| format!("  {}", clean(line))).collect();
        if !lines.is_empty() {
            parts.push(format!("{word}:\n{}", lines.join("\n")));
        }
    }
    parts.join("\n\n")
}

/// Formats the verdict; a record that lost its end in a power failure is not called complete.
fn whole(report: &Report) -> String {
    match report.writers.iter().map(|writer| writer.lost).sum() {
        0_u64 => "the record is whole".to_owned(),
        lost => format!(
            "what is there of the record is whole; {lost} records at its end were not synced yet and were lost with the power"
        ),
    }
}

fn gone(writer: &WriterReport) -> Option<String> {
    let gone = writer.gone.as_ref()?;
    Some(format!(
        "{}: retention removed {} files, {} bytes, the records 1 to {}",
        clean(&writer.writer),
        gone.segments,
        gone.bytes,
        gone.through
    ))
}

fn row(writer: &WriterReport) -> [String; 9] {
    [
        clean(&writer.writer),
        writer.segments.to_string(),
        writer.records.to_string(),
        writer.intents.to_string(),
        writer.outcomes.to_string(),
        writer.refused.to_string(),
        writer.open.to_string(),
        writer.unknown.to_string(),
        writer.unsealed.to_string(),
    ]
}
