//! Implements `toolkeep record checkpoint`, which prints the last signed checkpoint.

use clap::Args;
use ledger::signed::{RecordKey, Seals};
use serde_json::json;

use cli_core::context::Context;
use cli_core::data::DataDir;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::Ui;

/// Print the last signed checkpoint of the record, or the key that it is checked with: to be kept on
/// another machine.
///
/// A checkpoint is a signed note in the form of C2SP's tlog-checkpoint: size and root of a tree over all
/// records, as RFC 6962 has it. Against one that was kept elsewhere `toolkeep record verify` sees that an
/// end was cut off or a record written anew.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep record checkpoint > kept.txt
  toolkeep record checkpoint --public > record.vkey")]
pub(crate) struct Checkpoint {
    /// The public half of the key instead.
    #[arg(long)]
    public: bool,
    /// Whose record.
    #[arg(long, value_name = "NAME", default_value = "main")]
    writer: String,
}

impl Checkpoint {
    pub(super) fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let reading = config::read(&context.setting(None));
        let Some(config) = reading.config else {
            return Err(Failure::of_faults(reading.faults));
        };
        let data = DataDir::at(config.data);
        let path = if self.public {
            data.record_key()
        } else {
            Seals::path(&data.records(), &self.writer)
        };
        let text = std::fs::read_to_string(&path).map_err(|error| {
            let message = format!("`{}` cannot be read: {error}", path.display());
            Failure::new(Exit::Refused, message)
                .fix("it is made by the first call that is recorded")
        })?;
        if self.public {
            let key = RecordKey::read(&text).map_err(|error| {
                Failure::new(Exit::Failed, format!("`{}`: {error}", path.display()))
            })?;
            let key = key.of_writer(&self.writer).to_string();
            ui.answer(&json!({ "key": key }), || key.clone())?;
        } else {
            ui.answer(&json!({ "checkpoint": text }), || text.trim_end().to_owned())?;
        }
        Ok(Exit::Done)
    }
}
