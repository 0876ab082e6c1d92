//! Implements `toolkeep record checkpoint`, which prints the last signed checkpoint.

use clap::Args;
use ledger::signed_checkpoint::{CheckpointPublisher, CheckpointSigningKey};
use serde_json::json;

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::Printer;

/// Print the last signed checkpoint of the record, or its public key, to store on another machine.
///
/// A checkpoint is a signed note in C2SP's tlog-checkpoint format with the size and the RFC 6962
/// root of a tree over all records. `toolkeep record verify` compares the record with stored
/// checkpoints and detects removed or rewritten records.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep record checkpoint > kept.txt
  toolkeep record checkpoint --public > record.vkey")]
pub(crate) struct RecordCheckpointArgs {
    /// Print the public key instead.
    #[arg(long)]
    public: bool,
    /// Writer of the record.
    #[arg(long, value_name = "NAME", default_value = "main")]
    writer: String,
}

impl RecordCheckpointArgs {
    pub(super) fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let data = context.load_data_dir()?;
        let path = if self.public {
            data.record_key_file()
        } else {
            CheckpointPublisher::checkpoint_path(&data.records_dir(), &self.writer)
        };
        let text = std::fs::read_to_string(&path).map_err(|error| {
            let message = format!("cannot read `{}`: {error}", path.display());
            CommandError::new(ExitStatus::Refused, message)
                .with_help("the first recorded call creates it")
        })?;
        if self.public {
            let key = CheckpointSigningKey::from_hex(&text).map_err(|error| {
                CommandError::new(ExitStatus::Failed, format!("`{}`: {error}", path.display()))
            })?;
            let key = key.verifier_key_of(&self.writer).to_string();
            ui.print_result(&json!({ "key": key }), || key.clone())?;
        } else {
            ui.print_result(&json!({ "checkpoint": text }), || text.trim_end().to_owned())?;
        }
        Ok(ExitStatus::Success)
    }
}
