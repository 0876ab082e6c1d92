//! Implements `toolkeep store`: commands for rows changed outside of Toolkeep.

use clap::{Args, Subcommand};
use ledger::signed_checkpoint::CheckpointSigningKey;
use serde_json::json;
use store::{MacFile, RejectedRow, SqliteStore};
use tool::Store as _;
use tool::store::WritePrecondition;

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus, pluralize};
use cli_core::data_dir::DataDir;
use cli_core::printer::{Printer, format_table};

/// List, accept and remove rows of the store that were changed outside of Toolkeep.
///
/// Such rows are ignored: an added key grants no access, and a tool whose pins were removed cannot
/// be called.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    List(StoreListArgs),
    Accept(StoreAcceptArgs),
    Remove(StoreRemoveArgs),
}

/// List the rejected rows. Exits with 1 if there are any.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep store list")]
pub(crate) struct StoreListArgs {}

/// Accept rejected rows in their current state, including removed ones. Stop the server first.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep store accept key/ab12
  toolkeep store accept --all")]
pub(crate) struct StoreAcceptArgs {
    #[command(flatten)]
    rows: StoreRowArgs,
}

/// Remove rejected rows. Keys are deleted; pins are created again when the source is next listed.
/// Stop the server first.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep store remove pins/default/team/3
  toolkeep store remove --all")]
pub(crate) struct StoreRemoveArgs {
    #[command(flatten)]
    rows: StoreRowArgs,
}

#[derive(Debug, Args)]
struct StoreRowArgs {
    /// Row to change, as `toolkeep store list` prints it. Can be repeated.
    #[arg(value_name = "ROW", required_unless_present = "all")]
    row: Vec<String>,
    /// Change all rows that `toolkeep store list` prints.
    #[arg(long, conflicts_with = "row")]
    all: bool,
}

impl StoreCommand {
    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let data = context.load_data_dir()?;
        match self {
            Self::List(StoreListArgs {}) => list_rejected(&data, ui),
            Self::Accept(StoreAcceptArgs { rows }) => {
                resolve_rows(&data, ui, (rows, "accepted")).await
            }
            Self::Remove(StoreRemoveArgs { rows }) => {
                resolve_rows(&data, ui, (rows, "removed")).await
            }
        }
    }
}

/// Returns the file with the MACs of a data directory's store.
pub fn mac_file(data_dir: &DataDir, key: &CheckpointSigningKey) -> MacFile {
    MacFile { path: data_dir.row_macs(), secret: key.to_hex() }
}

/// Returns the rejected rows of a data directory. Works beside a running server.
pub fn rejected_rows(data_dir: &DataDir) -> Result<Vec<RejectedRow>, CommandError> {
    let (Some(key), true) = (data_dir.read_record_key()?, data_dir.store_file().exists()) else {
        return Ok(Vec::new());
    };
    let check = || {
        SqliteStore::check_rows(data_dir.store_file(), &mac_file(data_dir, &key))
            .map_err(|error| store_error(&error))
    };
    let mut rows = check()?;
    if !rows.is_empty() {
        // A server may write between the reads of the two files.
        let again = check()?;
        rows.retain(|row| again.contains(row));
    }
    Ok(rows)
}

fn store_error(error: &tool::StoreError) -> CommandError {
    CommandError::new(ExitStatus::Failed, error.to_string())
}

fn list_rejected(data: &DataDir, ui: &mut Printer) -> Result<ExitStatus, CommandError> {
    let rows = rejected_rows(data)?;
    let plain = |row: &RejectedRow| [row.key.clone(), row.rejection.to_string()];
    let all: Vec<_> = rows.iter().map(plain).collect();
    let row_to_json = |[row, change]: &[String; 2]| json!({ "row": row, "change": change });
    let answer = json!({ "rejected": all.iter().map(row_to_json).collect::<Vec<_>>() });
    ui.print_result(&answer, || match all.as_slice() {
        [] => "no row is rejected".to_owned(),
        all => format_table(["ROW", "CHANGE"], all),
    })?;
    Ok(if rows.is_empty() { ExitStatus::Success } else { ExitStatus::Failed })
}

async fn resolve_rows(
    data: &DataDir,
    ui: &mut Printer,
    (StoreRowArgs { row, all }, what): (StoreRowArgs, &str),
) -> Result<ExitStatus, CommandError> {
    let Some(held) = data.try_lock()? else {
        return Err(CommandError::new(ExitStatus::Failed, "a server uses the data directory")
            .with_help("stop the server and run the command again"));
    };
    let key = held.load_or_create_record_key()?;
    let opened = SqliteStore::open_protected(data.store_file(), &mac_file(data, &key));
    let store = opened.map_err(|error| store_error(&error))?;
    let found: Vec<_> = store.rejected_rows().borrow().iter().map(|row| row.key.clone()).collect();
    if let Some(other) = row.iter().find(|row| !found.contains(row)) {
        let message = format!("`{}` is not a rejected row", other.escape_debug());
        return Err(CommandError::new(ExitStatus::Refused, message).with_help(
            "run `toolkeep store list` to see the \
                                                             rejected rows",
        ));
    }
    let rows = if all { found } else { row };
    for row in &rows {
        let done = if what == "accepted" {
            store.accept_row(row).await.map(drop)
        } else {
            remove_row(&store, row).await
        };
        done.map_err(|error| store_error(&error))?;
    }
    ui.print_result(&json!({ what: rows }), || {
        format!("{} {} {what}", rows.len(), pluralize(rows.len(), "row"))
    })?;
    Ok(ExitStatus::Success)
}

async fn remove_row(store: &SqliteStore, row: &str) -> Result<(), tool::StoreError> {
    match store.get_value(row).await? {
        Some(there) => {
            store.put_value(row, WritePrecondition::Version(there.version), None).await.map(drop)
        }
        None => Ok(()),
    }
}
