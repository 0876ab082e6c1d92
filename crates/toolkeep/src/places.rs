//! What is kept in the data directory: the store, the record, pins, large answers.

use std::path::PathBuf;
use std::sync::Arc;

use intake::Pins;
use ledger::signed::RecordKey;
use ledger::{FileLedger, RealDisk};
use packages::Packages;
use store::{ArtefactBounds, FileArtefacts, Sealed, SqliteStore};
use tool::artefact::Artefacts;
use tool::catalogue::Catalogue;
use tool::{Clock, Org, Store};

use super::checkpoints::Sealing;
use super::fault;
use cli_core::failure::Failure;
use cli_core::wiring::Start;

/// The store, of which those rows count that were written through this program, and the key by which that is known.
/// Reading all of it takes as long as the disk does, so not on a thread that others wait for.
pub(crate) async fn store(start: &Start) -> Result<(Arc<SqliteStore>, RecordKey), Failure> {
    let held = Arc::clone(&start.held);
    let opened = tokio::task::spawn_blocking(move || {
        let key = held.record_key()?;
        let macs = cli::store::mac_file(held.data(), &key);
        let store = SqliteStore::open_protected(held.data().store(), &macs);
        Ok((Arc::new(store.map_err(fault("the store"))?), key))
    });
    opened.await.map_err(fault("the store"))?
}

/// Scanning the record takes as long as the disk does, so not on a thread that others wait for.
pub(crate) async fn ledger(
    (dir, segment_bytes): (PathBuf, u64),
    clock: &Arc<dyn Clock>,
) -> Result<Arc<FileLedger>, Failure> {
    let clock = Arc::clone(clock);
    let options = ledger::Options { segment_bytes, ..ledger::Options::default() };
    let opened = tokio::task::spawn_blocking(move || {
        FileLedger::open(&dir, Arc::new(RealDisk), clock, options)
    });
    let (ledger, recovery) =
        opened.await.map_err(fault("the record"))?.map_err(fault("the record"))?;
    for finding in &recovery.findings {
        tracing::error!("the record is damaged: {finding:?}; `toolkeep record verify` tells all");
    }
    if recovery.lost > 0 {
        let records = recovery.lost;
        tracing::warn!(records, "records that were not synced were lost with the power");
    }
    if recovery.open_total > 0 {
        let calls = recovery.open_total;
        tracing::warn!(calls, "calls had begun and not ended when the process before did: unknown");
    }
    Ok(Arc::new(ledger))
}

/// Pins are sealed with a key that is not in the store: who can write there alone makes none active.
/// Checkpoints are signed with the same.
pub(crate) fn pins(
    start: &Start,
    (ledger, store): (&Arc<FileLedger>, &Arc<dyn Store>),
    key: RecordKey,
    clock: &Arc<dyn Clock>,
) -> ((Org, Arc<Pins>), Sealing) {
    let sealed = Arc::new(Sealed::new(Arc::clone(store), &key.text(), "pins"));
    let events = Arc::clone(ledger) as Arc<dyn tool::ledger::Events>;
    let pins = Arc::new(Pins::new(Org::default(), sealed, events, Arc::clone(clock)));
    let places = (start.held.data().records(), start.config.checkpoints_also.clone());
    let at = (Org::default(), pins);
    let sealing = Sealing::new(Arc::clone(ledger), key, places, Arc::clone(clock));
    sealing.set_keep(start.config.keep);
    (at, sealing)
}

/// The catalogue of tools, whose packages come out into a folder of its own.
pub(crate) async fn catalogue(
    start: &Start,
    store: &Arc<dyn Store>,
) -> Result<Arc<dyn Catalogue>, Failure> {
    let home = start.held.data().path().join("catalogue");
    let opened = Packages::open(Arc::clone(store), &home).await;
    let opened = opened.map_err(fault("the catalogue of tools"))?;
    Ok(Arc::new(opened.with_limits(start.config.tool_packages)))
}

/// Without a place for them, answers that are too large fail, and all else goes on.
pub(crate) fn artefacts(start: &Start, clock: &Arc<dyn Clock>) -> Option<Arc<dyn Artefacts>> {
    let dir = start.held.data().path().join("artefacts");
    let opened = FileArtefacts::open(&dir, ArtefactBounds::default(), Arc::clone(clock));
    let opened = opened.inspect_err(|error| {
        tracing::warn!(%error, dir = %dir.display(), "no place for large answers");
    });
    opened.ok().map(|artefacts| Arc::new(artefacts) as Arc<dyn Artefacts>)
}
