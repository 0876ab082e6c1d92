//! Implements `toolkeep record export`, which prints all records as JSON lines.

use std::sync::Arc;

use clap::Args;
use ledger::{Disk, OsDisk};
use serde::Serialize;
use tool::ledger::LedgerRecord;

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::Printer;

/// Export the whole record as JSON lines, oldest first: `writer`, `seq`, `kind`, `call`, `body`.
///
/// Works on the data directory, with or without a running server, and changes nothing.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep record export > record.jsonl")]
pub(crate) struct RecordExportArgs {
    /// Export only records from this number on.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    from: u64,
}

#[derive(Serialize)]
struct RecordLine<'a> {
    writer: &'a str,
    #[serde(flatten)]
    record: &'a LedgerRecord,
}

impl RecordExportArgs {
    pub(super) fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let records = context.load_data_dir()?.records_dir();
        let disk: Arc<dyn Disk> = Arc::new(OsDisk);
        let mut written = Ok(());
        let all = ledger::export_records(&records, &disk, &mut |writer, record| {
            if record.sequence < self.from {
                return true;
            }
            let record = record.with_formatted_times();
            let line = RecordLine { writer, record: &record };
            let value = serde_json::to_value(&line).unwrap_or_default();
            match ui.print_item(&value, || value.to_string()) {
                Ok(goes) => goes.is_continue(),
                Err(failure) => {
                    written = Err(failure);
                    false
                }
            }
        });
        all.map_err(|error| CommandError::new(ExitStatus::Failed, error.message))?;
        written?;
        Ok(ExitStatus::Success)
    }
}
