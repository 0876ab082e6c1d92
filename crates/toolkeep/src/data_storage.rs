//! Opens the stores in the data directory: the row store, the record, pins, tool packages and
//! artifacts.

use std::sync::Arc;

use intake::PinRegistry;
use ledger::signed_checkpoint::CheckpointSigningKey;
use ledger::{FileLedger, OsDisk};
use packages::PackageStore;
use store::{ArtifactLimits, EncryptedStore, FileArtifactStore, SqliteStore};
use tool::artifact::ArtifactStore;
use tool::ledger::AuditLog;
use tool::tool_packages::ToolPackageStore;
use tool::{Clock, Org, Store};

use super::record_maintenance::{CheckpointFiles, RecordMaintenance};
use super::startup_error;
use cli_core::command_error::CommandError;
use cli_core::server_launcher::LaunchOptions;

/// Opens the store and the key that authenticates its rows; rows written by other programs are
/// rejected. Reading waits for the disk, so it runs on a blocking thread.
pub(crate) async fn open_store(
    options: &LaunchOptions,
) -> Result<(Arc<SqliteStore>, CheckpointSigningKey), CommandError> {
    let held = Arc::clone(&options.data_dir_lock);
    let opened = tokio::task::spawn_blocking(move || {
        // Before the first write.
        for change in cli::data_formats::check_before_start(held.dir())? {
            tracing::warn!(
                target: "data_formats",
                "{change}; older versions of toolkeep cannot read the data directory afterwards"
            );
        }
        let key = held.load_or_create_record_key()?;
        let macs = cli::store::mac_file(held.dir(), &key);
        let store = SqliteStore::open_protected(held.dir().store_file(), &macs);
        Ok((Arc::new(store.map_err(startup_error("the store"))?), key))
    });
    opened.await.map_err(startup_error("the store"))?
}

/// Opens the record and reports what recovery found. Scanning waits for the disk, so it runs on a
/// blocking thread.
pub(crate) async fn open_ledger(
    start: &LaunchOptions,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<FileLedger>, CommandError> {
    let clock = Arc::clone(clock);
    let records_dir = start.data_dir_lock.dir().records_dir();
    let segment_bytes = start.config.segment_bytes;
    let options = ledger::LedgerOptions { segment_bytes, ..ledger::LedgerOptions::default() };
    let opened = tokio::task::spawn_blocking(move || {
        FileLedger::open_directory(&records_dir, Arc::new(OsDisk), clock, options)
    });
    let (ledger, recovery) =
        opened.await.map_err(startup_error("the record"))?.map_err(startup_error("the record"))?;
    for finding in &recovery.findings {
        tracing::error!(
            "the record is damaged: {finding:?}; run `toolkeep record verify` for details"
        );
    }
    if recovery.lost_records > 0 {
        let records = recovery.lost_records;
        tracing::warn!(records, "records that were not yet synced were lost in a power failure");
    }
    if recovery.open_call_count > 0 {
        let calls = recovery.open_call_count;
        tracing::warn!(
            calls,
            "calls were running when the previous process ended; their outcome is unknown"
        );
    }
    Ok(Arc::new(ledger))
}

/// Opens the pins. They are encrypted with the record's key, which is not in the store, so write
/// access to the store alone cannot activate one.
///
/// # Errors
/// If the switches of tools cannot be read: a tool that was turned off would be on.
pub(crate) async fn open_pins(
    audit_log: Arc<dyn AuditLog>,
    store: &Arc<dyn Store>,
    key: &CheckpointSigningKey,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<PinRegistry>, CommandError> {
    let encrypted_store = Arc::new(EncryptedStore::new(Arc::clone(store), &key.to_hex(), "pins"));
    let pins = PinRegistry::new(Org::default(), encrypted_store, audit_log, Arc::clone(clock));
    let loaded = pins.load_switches().await;
    loaded.map_err(startup_error("the list of tools that are turned off"))?;
    Ok(Arc::new(pins))
}

/// Starts record maintenance, which signs checkpoints with the record's key.
pub(crate) fn start_record_maintenance(
    options: &LaunchOptions,
    ledger: &Arc<FileLedger>,
    key: CheckpointSigningKey,
    clock: &Arc<dyn Clock>,
) -> RecordMaintenance {
    let files = CheckpointFiles {
        records_dir: options.data_dir_lock.dir().records_dir(),
        mirror: options.config.checkpoint_mirror.clone(),
    };
    let maintenance = RecordMaintenance::new(Arc::clone(ledger), key, files, Arc::clone(clock));
    maintenance.set_retention(options.config.retention);
    maintenance
}

/// Opens the registry of tool packages, which are unpacked into a folder of their own.
pub(crate) async fn open_tool_packages(
    options: &LaunchOptions,
    store: &Arc<dyn Store>,
) -> Result<Arc<dyn ToolPackageStore>, CommandError> {
    let package_dir = options.data_dir_lock.dir().path().join("catalogue");
    let opened = PackageStore::open(Arc::clone(store), &package_dir).await;
    let opened = opened.map_err(startup_error("the tool packages"))?;
    Ok(Arc::new(opened.with_limits(options.config.tool_packages)))
}

/// Opens the artifact store. If that fails, only results above the size limit fail.
pub(crate) fn open_artifact_store(
    options: &LaunchOptions,
    clock: &Arc<dyn Clock>,
) -> Option<Arc<dyn ArtifactStore>> {
    let dir = options.data_dir_lock.dir().path().join("artefacts");
    let opened =
        FileArtifactStore::open_directory(&dir, ArtifactLimits::default(), Arc::clone(clock));
    let opened = opened.inspect_err(|error| {
        tracing::warn!(%error, dir = %dir.display(), "cannot open the artifact store; large results will fail");
    });
    opened.ok().map(|artefacts| Arc::new(artefacts) as Arc<dyn ArtifactStore>)
}
