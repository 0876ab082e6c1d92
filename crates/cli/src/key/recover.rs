//! Implements `toolkeep key recover`, which restores valid owner and agent keys.

use std::sync::Arc;

use clap::Args;
use ledger::{FileLedger, LedgerOptions, OsDisk};
use serde_json::json;
use server_core::KeyStore;
use store::SqliteStore;
use tool::ledger::AuditLog as _;
use tool::{Clock, Store};

use crate::initial_keys::{recover_keys, revocation_event};
use crate::store::mac_file;
use cli_core::background_server::acquire_data_dir;
use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::data_dir::{DataDir, DataDirLock, FirstKey, KeyChanges};
use cli_core::printer::Printer;
use host::clock::SystemClock;

/// Recover owner.key and agent.key if they are lost, revoked or unknown.
///
/// Works on the data directory, for its owner. Stop the server first; a background server of
/// `toolkeep mcp` is stopped by this command. A missing key is created again. A file with an
/// invalid key is renamed to `owner.key.invalid`.
///
/// All other owner keys of a first start are revoked with their delegated keys, and each revocation
/// is recorded. Keys of `toolkeep key create` are not changed.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep key recover --data ./data")]
pub(crate) struct KeyRecoverArgs {}

impl KeyRecoverArgs {
    pub(super) async fn run(
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let config = context.load_config()?;
        let data = DataDir::new(config.data_dir);
        if !data.store_file().exists() {
            let message = format!("no installation in `{}`", data.path().display());
            return Err(CommandError::new(ExitStatus::Refused, message).with_help(
                "pass its data directory with `--data DIR`; the first start of a server \
                      creates both keys",
            ));
        }
        let (held, _starting) = acquire_data_dir(&data).await?;
        let changes = recover_data_dir(&held, config.segment_bytes).await?;
        let answer = json!({
            "made": changes.made.iter().map(|key| data.key_file(*key)).collect::<Vec<_>>(),
            "set_aside": changes.set_aside,
            "revoked": changes.revoked,
        });
        ui.print_result(&answer, || format_changes(&data, &changes))?;
        Ok(ExitStatus::Success)
    }
}

async fn recover_data_dir(
    held: &DataDirLock,
    segment_bytes: u64,
) -> Result<KeyChanges, CommandError> {
    let failed = |what: &str, error: String| {
        CommandError::new(ExitStatus::Failed, format!("{what}: {error}"))
    };
    let record_key = held.load_or_create_record_key()?;
    let macs = mac_file(held.dir(), &record_key);
    let store = SqliteStore::open_protected(held.dir().store_file(), &macs);
    let store = store.map_err(|error| failed("the store", error.to_string()))?;
    let store: Arc<dyn Store> = Arc::new(store);
    let (keys, _) =
        KeyStore::load(store, None).await.map_err(|error| failed("the keys", error.to_string()))?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let options = LedgerOptions { segment_bytes, ..LedgerOptions::default() };
    let ledger = FileLedger::open_directory(
        &held.dir().records_dir(),
        Arc::new(OsDisk),
        Arc::clone(&clock),
        options,
    );
    let (ledger, _) = ledger.map_err(|error| failed("the record", error.to_string()))?;
    let changes = recover_keys(held, &keys, clock.wall_now()).await;
    for id in changes.iter().flat_map(|changes| &changes.revoked) {
        let noted = ledger.record_event(&revocation_event(clock.wall_now(), id));
        noted.map_err(|error| failed("the record", error.to_string()))?;
    }
    ledger.close_ledger();
    changes
}

fn format_changes(data: &DataDir, changes: &KeyChanges) -> String {
    let KeyChanges { made, revoked, set_aside } = changes;
    let aside = set_aside.iter().map(|path| format!("renamed    {}", path.display()));
    let made = made.iter().map(|key| {
        let whose = if *key == FirstKey::Owner { "owner" } else { "agent" };
        format!("created    {} ({whose})", data.key_file(*key).display())
    });
    let revoked = revoked.iter().map(|id| format!("revoked    the owner key {id}"));
    let lines: Vec<_> = aside.chain(made).chain(revoked).collect();
    if lines.is_empty() {
        return "both key files contain valid keys; nothing was changed".to_owned();
    }
    lines.join("\n")
}
