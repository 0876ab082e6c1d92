//! Implements `toolkeep store`: commands for rows changed outside of Toolkeep.

use clap::{Args, Subcommand};
use ledger::signed::RecordKey;
use serde_json::json;
use store::{MacFile, RejectedRow, SqliteStore};
use tool::Store as _;
use tool::store::Expect;

use cli_core::context::Context;
use cli_core::data::DataDir;
use cli_core::failure::{Exit, Failure, plural};
use cli_core::ui::{Ui, table};

/// List, accept and remove rows of the store that were changed outside of Toolkeep.
///
/// Such rows do not count: a key that was added gives nobody in, and a tool whose pins were removed cannot be called.
#[derive(Debug, Subcommand)]
pub(crate) enum Store {
    List(List),
    Accept(Accept),
    Remove(Remove),
}

/// List the rows that do not count. Exits with 1 where there are any.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep store list")]
pub(crate) struct List {}

/// Accept rows as they stand, or that they are not there. Stop the server first.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep store accept key/ab12
  toolkeep store accept --all")]
pub(crate) struct Accept {
    #[command(flatten)]
    rows: Rows,
}

/// Remove rows: the key is gone, and the pins of a source are made anew at its next listing. Stop the server first.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep store remove pins/default/team/3
  toolkeep store remove --all")]
pub(crate) struct Remove {
    #[command(flatten)]
    rows: Rows,
}

#[derive(Debug, Args)]
struct Rows {
    /// Rows, as `store list` names them.
    #[arg(value_name = "ROW", required_unless_present = "all")]
    row: Vec<String>,
    /// All that `store list` names.
    #[arg(long, conflicts_with = "row")]
    all: bool,
}

impl Store {
    pub(crate) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let reading = config::read(&context.setting(None));
        let Some(config) = reading.config else {
            return Err(Failure::of_faults(reading.faults));
        };
        let data = DataDir::at(config.data);
        match self {
            Self::List(List {}) => list(&data, ui),
            Self::Accept(Accept { rows }) => change(&data, ui, (rows, "accepted")).await,
            Self::Remove(Remove { rows }) => change(&data, ui, (rows, "removed")).await,
        }
    }
}

/// Returns the file with the MACs of a data directory's store.
pub fn mac_file(data: &DataDir, key: &RecordKey) -> MacFile {
    MacFile { path: data.macs(), secret: key.text() }
}

/// Returns the rejected rows of a data directory. Works beside a running server.
pub fn rejected(data: &DataDir) -> Result<Vec<RejectedRow>, Failure> {
    let (Some(key), true) = (data.record_key_there()?, data.store().exists()) else {
        return Ok(Vec::new());
    };
    let check = || {
        SqliteStore::check_rows(data.store(), &mac_file(data, &key)).map_err(|error| failed(&error))
    };
    let mut rows = check()?;
    if !rows.is_empty() {
        // A server may write between the reads of the two files.
        let again = check()?;
        rows.retain(|row| again.contains(row));
    }
    Ok(rows)
}

fn failed(error: &tool::StoreError) -> Failure {
    Failure::new(Exit::Failed, error.to_string())
}

fn list(data: &DataDir, ui: &mut Ui) -> Result<Exit, Failure> {
    let rows = rejected(data)?;
    let plain = |row: &RejectedRow| [row.key.clone(), row.rejection.to_string()];
    let all: Vec<_> = rows.iter().map(plain).collect();
    let told = |[row, change]: &[String; 2]| json!({ "row": row, "change": change });
    let answer = json!({ "rejected": all.iter().map(told).collect::<Vec<_>>() });
    ui.answer(&answer, || match all.as_slice() {
        [] => "all rows of the store count".to_owned(),
        all => table(["ROW", "CHANGE"], all),
    })?;
    Ok(if rows.is_empty() { Exit::Done } else { Exit::Failed })
}

async fn change(
    data: &DataDir,
    ui: &mut Ui,
    (Rows { row, all }, what): (Rows, &str),
) -> Result<Exit, Failure> {
    let Some(held) = data.hold()? else {
        return Err(Failure::new(Exit::Failed, "a server holds the data directory")
            .fix("stop it, and do this again"));
    };
    let key = held.record_key()?;
    let opened = SqliteStore::open_protected(data.store(), &mac_file(data, &key));
    let store = opened.map_err(|error| failed(&error))?;
    let found: Vec<_> = store.rejected().borrow().iter().map(|row| row.key.clone()).collect();
    if let Some(other) = row.iter().find(|row| !found.contains(row)) {
        let message =
            format!("the row `{}` is not among those that do not count", other.escape_debug());
        return Err(Failure::new(Exit::Refused, message).fix("`toolkeep store list` names them"));
    }
    let rows = if all { found } else { row };
    for row in &rows {
        let done = if what == "accepted" {
            store.accept(row).await.map(drop)
        } else {
            remove(&store, row).await
        };
        done.map_err(|error| failed(&error))?;
    }
    ui.answer(&json!({ what: rows }), || {
        format!("{} {} {what}", rows.len(), plural(rows.len(), "row"))
    })?;
    Ok(Exit::Done)
}

async fn remove(store: &SqliteStore, row: &str) -> Result<(), tool::StoreError> {
    match store.get(row).await? {
        Some(there) => store.put(row, Expect::Version(there.version), None).await.map(drop),
        None => Ok(()),
    }
}
