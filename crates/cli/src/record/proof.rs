//! Implements `toolkeep record proof`, which creates and checks consistency proofs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use ledger::{Checkpoint, Disk, Proof as Path6962, RealDisk};
use serde_json::json;

use super::verify::signed::Signed;
use cli_core::context::Context;
use cli_core::data::DataDir;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::Ui;

/// Maximum size of a proof, in bytes; a proof has at most about 5,000.
const LARGEST: u64 = 64 << 10;

/// Prove that a later checkpoint goes on from an earlier one, or check such a proof.
///
/// The proof is the consistency proof of RFC 6962: some 30 hashes, whatever the size of the record. Who has
/// it and both checkpoints checks it without the record (`--check`). It can also be made where the
/// earlier records were removed by retention: their tombstones keep what it needs.
///
/// Works on the data directory itself, whether a server runs or not, and changes nothing. Exits with 1
/// where the checkpoints do not fit together.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep record proof --old january.txt --new june.txt > proof.json
  toolkeep record proof --old january.txt --new june.txt --signer record.vkey --check proof.json")]
pub(crate) struct Proof {
    /// A file with the earlier signed checkpoint; of several in it, the first.
    #[arg(long, value_name = "FILE")]
    old: PathBuf,
    /// A file with the later one; of several in it, the last.
    #[arg(long, value_name = "FILE")]
    new: PathBuf,
    /// The key that signed them, or a file that holds it [default: that of the data directory]. May be given
    /// several times.
    #[arg(long, value_name = "KEY")]
    signer: Vec<String>,
    /// Check this proof instead of making one. Needs no data directory where `--signer` is given.
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
}

impl Proof {
    pub(super) fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let reading = config::read(&context.setting(None));
        let Some(config) = reading.config else {
            return Err(Failure::of_faults(reading.faults));
        };
        let data = DataDir::at(config.data);
        let read = |file: &PathBuf| -> Result<Vec<Checkpoint>, Failure> {
            Ok(Signed::read(std::slice::from_ref(file), &self.signer, &data)?.checkpoints)
        };
        let earlier = read(&self.old)?.into_iter().min_by_key(|checkpoint| checkpoint.count);
        let later = read(&self.new)?.into_iter().max_by_key(|checkpoint| checkpoint.count);
        let (Some(earlier), Some(later)) = (earlier, later) else {
            return Err(Failure::new(Exit::Usage, "a checkpoint is missing"));
        };
        if let Some(file) = &self.check {
            let proof = of_file(file)?;
            let failed =
                |error| Failure::new(Exit::Failed, format!("`{}`: {error}", file.display()));
            proof.check(&earlier, &later).map_err(failed)?;
            let (from, to) = (proof.from, proof.to);
            let text = format!(
                "proved: the record of {to} records goes on from that of {from}; nothing in those was changed or taken away"
            );
            ui.answer(&json!({ "proved": true, "from": from, "to": to }), || text)?;
            return Ok(Exit::Done);
        }
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let proof = ledger::prove(&data.records(), &disk, &earlier, &later)
            .map_err(|error| Failure::new(Exit::Failed, error.message))?;
        // The same text in both formats, because it is stored and checked.
        let text = serde_json::to_string_pretty(&proof).unwrap_or_default();
        ui.answer(&proof, || text)?;
        Ok(Exit::Done)
    }
}

fn of_file(file: &Path) -> Result<Path6962, Failure> {
    let told = |what: String| Failure::new(Exit::Usage, format!("`{}` {what}", file.display()));
    let size = std::fs::metadata(file).map_err(|error| told(format!("cannot be read: {error}")))?;
    if size.len() > LARGEST {
        return Err(told(format!("has more than {LARGEST} bytes")));
    }
    let text = std::fs::read(file).map_err(|error| told(format!("cannot be read: {error}")))?;
    serde_json::from_slice(&text).map_err(|error| {
        told(format!("is no proof: {error}")).fix("it is made by this command without `--check`")
    })
}
