//! Implements `toolkeep record proof`, which creates and checks consistency proofs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use ledger::{ConsistencyProof as Path6962, Disk, LedgerCheckpoint, OsDisk};
use serde_json::json;

use super::verify::signed_checkpoints::SignedCheckpoints;
use super::{file_error, read_text_file};
use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::Printer;

/// Maximum size of a proof, in bytes; a proof has at most about 5,000.
const MAX_PROOF_BYTES: u64 = 64 << 10;

/// Prove that a later checkpoint extends an earlier one, or check such a proof.
///
/// The proof is a consistency proof of RFC 6962: about 30 hashes, whatever the size of the record.
/// With both checkpoints it is verified without the record (`--check`). It can still be created
/// after retention removed earlier records, because their tombstones contain the hashes.
///
/// Works on the data directory, with or without a running server, and changes nothing. Exits with 1
/// if the checkpoints are inconsistent.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep record proof --old january.txt --new june.txt > proof.json
  toolkeep record proof --old january.txt --new june.txt --signer record.vkey --check proof.json")]
pub(crate) struct RecordProofArgs {
    /// File with the earlier signed checkpoint. If it contains several, the first is used.
    #[arg(long, value_name = "FILE")]
    old: PathBuf,
    /// File with the later signed checkpoint. If it contains several, the last is used.
    #[arg(long, value_name = "FILE")]
    new: PathBuf,
    /// Public key of the signer, or a file that contains it [default: that of the data directory].
    /// Can be repeated.
    #[arg(long, value_name = "KEY")]
    signer: Vec<String>,
    /// Check this proof instead of creating one. With `--signer`, no data directory is needed.
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
}

impl RecordProofArgs {
    pub(super) fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let data = context.load_data_dir()?;
        let read = |file: &PathBuf| -> Result<Vec<LedgerCheckpoint>, CommandError> {
            Ok(SignedCheckpoints::from_files(std::slice::from_ref(file), &self.signer, &data)?
                .checkpoints)
        };
        let earlier = read(&self.old)?.into_iter().min_by_key(|checkpoint| checkpoint.frame_count);
        let later = read(&self.new)?.into_iter().max_by_key(|checkpoint| checkpoint.frame_count);
        let (Some(earlier), Some(later)) = (earlier, later) else {
            return Err(CommandError::new(ExitStatus::UsageError, "a checkpoint is missing"));
        };
        if let Some(file) = &self.check {
            let proof = read_proof(file)?;
            let failed = |error| {
                CommandError::new(ExitStatus::Failed, format!("`{}`: {error}", file.display()))
            };
            proof.verify_proof(&earlier, &later).map_err(failed)?;
            let (from, to) = (proof.earlier_count, proof.later_count);
            let text = format!(
                "proved: the record of {to} records extends that of {from}; none of the first \
                 {from} was changed or removed"
            );
            ui.print_result(&json!({ "proved": true, "from": from, "to": to }), || text)?;
            return Ok(ExitStatus::Success);
        }
        let disk: Arc<dyn Disk> = Arc::new(OsDisk);
        let proof = ledger::build_consistency_proof(&data.records_dir(), &disk, &earlier, &later)
            .map_err(|error| CommandError::new(ExitStatus::Failed, error.message))?;
        // The same text in both formats, because it is stored and checked.
        let text = serde_json::to_string_pretty(&proof).unwrap_or_default();
        ui.print_result(&proof, || text)?;
        Ok(ExitStatus::Success)
    }
}

fn read_proof(file: &Path) -> Result<Path6962, CommandError> {
    let text = read_text_file(file, MAX_PROOF_BYTES)?;
    serde_json::from_str(&text).map_err(|error| {
        file_error(file, &format!("is not a proof: {error}"))
            .with_help("create one with this command, without `--check`")
    })
}
