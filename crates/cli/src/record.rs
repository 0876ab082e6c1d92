//! Implements `toolkeep record`: commands that read and verify the record.

mod checkpoint;
mod export;
mod list;
mod proof;
mod show;
mod tail;
mod verify;

pub(crate) use list::record_row;
pub(crate) use verify::verify_data;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use clap::Subcommand;

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::Printer;

/// List, follow, export and verify the tamper-evident record of all calls.
#[derive(Debug, Subcommand)]
pub(crate) enum RecordCommand {
    List(list::RecordListArgs),
    Show(show::RecordShowArgs),
    Tail(tail::RecordTailArgs),
    Verify(verify::RecordVerifyArgs),
    Checkpoint(checkpoint::RecordCheckpointArgs),
    Export(export::RecordExportArgs),
    Proof(proof::RecordProofArgs),
}

impl RecordCommand {
    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        match self {
            Self::List(command) => command.run(context, ui).await,
            Self::Show(command) => command.run(context, ui).await,
            Self::Tail(command) => command.run(context, ui).await,
            Self::Verify(command) => command.run(context, ui),
            Self::Checkpoint(command) => command.run(context, ui),
            Self::Export(command) => command.run(context, ui),
            Self::Proof(command) => command.run(context, ui),
        }
    }
}

/// Reads at most `limit` bytes of text from a file or pipe that the user named, as a shell's
/// process substitution gives one.
fn read_text_file(file: &Path, limit: u64) -> Result<String, CommandError> {
    let unreadable = |error: io::Error| file_error(file, &format!("cannot be read: {error}"));
    let mut text = String::new();
    let mut bounded = File::open(file).map_err(unreadable)?.take(limit.saturating_add(1));
    bounded.read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > limit {
        return Err(file_error(file, &format!("is larger than {limit} bytes")));
    }
    Ok(text)
}

/// The error of a file that the user named.
fn file_error(file: &Path, what: &str) -> CommandError {
    CommandError::new(ExitStatus::UsageError, format!("`{}` {what}", file.display()))
}
