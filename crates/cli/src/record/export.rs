//! Implements `toolkeep record export`, which prints all records as JSON lines.

use std::sync::Arc;

use clap::Args;
use ledger::{Disk, RealDisk};
use serde::Serialize;
use tool::ledger::Record;

use cli_core::context::Context;
use cli_core::data::DataDir;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::Ui;

/// Print the whole record as JSON lines, oldest first: `writer`, `seq`, `kind`, `call`, `body`.
///
/// Works on the data directory itself, whether a server runs or not, and changes nothing.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep record export > record.jsonl")]
pub(crate) struct Export {
    /// Only records from this number on.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    from: u64,
}

#[derive(Serialize)]
struct Line<'a> {
    writer: &'a str,
    #[serde(flatten)]
    record: &'a Record,
}

impl Export {
    pub(super) fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let reading = config::read(&context.setting(None));
        let Some(config) = reading.config else {
            return Err(Failure::of_faults(reading.faults));
        };
        let records = DataDir::at(config.data).records();
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let mut written = Ok(());
        let all = ledger::export(&records, &disk, &mut |writer, record| {
            if record.seq < self.from {
                return true;
            }
            let record = record.with_times();
            let line = Line { writer, record: &record };
            let value = serde_json::to_value(&line).unwrap_or_default();
            match ui.stream(&value, || value.to_string()) {
                Ok(goes) => goes.is_continue(),
                Err(failure) => {
                    written = Err(failure);
                    false
                }
            }
        });
        all.map_err(|error| Failure::new(Exit::Failed, error.message))?;
        written?;
        Ok(Exit::Done)
    }
}
