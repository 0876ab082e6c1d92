//! Implements `toolkeep key recover`, which restores valid owner and agent keys.

use std::sync::Arc;

use clap::Args;
use ledger::{FileLedger, Options, RealDisk};
use serde_json::json;
use server_core::Keys;
use store::SqliteStore;
use tool::ledger::Events as _;
use tool::{Clock, Store};

use crate::first_keys::{recover_keys, revocation};
use crate::store::mac_file;
use cli_core::background::hold;
use cli_core::context::Context;
use cli_core::data::{DataDir, FirstKey, Held, KeyChanges};
use cli_core::failure::{Exit, Failure};
use cli_core::ui::Ui;
use host::clock::SystemClock;

/// Make owner.key and agent.key valid again, where they are lost or their keys are revoked or unknown.
///
/// Works on the data directory itself, for whoever owns it: stop the server first. A background server of `toolkeep
/// mcp` is stopped by this command. A missing key is made anew; a file whose key is not valid is put aside as
/// `owner.key.invalid`. Every other owner key that was made on a first
/// start is revoked, with all keys that were handed on from it, and each revocation is on record. Keys of `toolkeep
/// key create` stay as they are.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep key recover --data ./data")]
pub(crate) struct Recover {}

impl Recover {
    pub(super) async fn run(context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let reading = config::read(&context.setting(None));
        let Some(config) = reading.config else {
            return Err(Failure::of_faults(reading.faults));
        };
        let data = DataDir::at(config.data);
        if !data.store().exists() {
            let message = format!("there is no installation in `{}`", data.path().display());
            return Err(Failure::new(Exit::Refused, message)
                .fix("name its data directory: `--data DIR`; the first start makes both keys"));
        }
        let (held, _starting) = hold(&data).await?;
        let changes = recover(&held, config.record_file).await?;
        let answer = json!({
            "made": changes.made.iter().map(|key| data.key_file(*key)).collect::<Vec<_>>(),
            "set_aside": changes.set_aside,
            "revoked": changes.revoked,
        });
        ui.answer(&answer, || text(&data, &changes))?;
        Ok(Exit::Done)
    }
}

async fn recover(held: &Held, segment_bytes: u64) -> Result<KeyChanges, Failure> {
    let failed = |what: &str, error: String| Failure::new(Exit::Failed, format!("{what}: {error}"));
    let record_key = held.record_key()?;
    let macs = mac_file(held.data(), &record_key);
    let store = SqliteStore::open_protected(held.data().store(), &macs);
    let store = store.map_err(|error| failed("the store", error.to_string()))?;
    let store: Arc<dyn Store> = Arc::new(store);
    let (keys, _) =
        Keys::read(store, None).await.map_err(|error| failed("the keys", error.to_string()))?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let options = Options { segment_bytes, ..Options::default() };
    let ledger =
        FileLedger::open(&held.data().records(), Arc::new(RealDisk), Arc::clone(&clock), options);
    let (ledger, _) = ledger.map_err(|error| failed("the record", error.to_string()))?;
    let changes = recover_keys(held, &keys, clock.wall()).await;
    for id in changes.iter().flat_map(|changes| &changes.revoked) {
        let noted = ledger.note(&revocation(clock.wall(), id));
        noted.map_err(|error| failed("the record", error.to_string()))?;
    }
    ledger.close();
    changes
}

fn text(data: &DataDir, changes: &KeyChanges) -> String {
    let KeyChanges { made, revoked, set_aside } = changes;
    let aside = set_aside.iter().map(|path| format!("put aside  {}", path.display()));
    let made = made.iter().map(|key| {
        let whose = if *key == FirstKey::Owner { "owner" } else { "agent" };
        format!("made       {} ({whose})", data.key_file(*key).display())
    });
    let revoked = revoked.iter().map(|id| format!("revoked    the owner key {id}"));
    let lines: Vec<_> = aside.chain(made).chain(revoked).collect();
    if lines.is_empty() {
        return "both key files hold valid keys; nothing was changed".to_owned();
    }
    lines.join("\n")
}
