//! Growth of a start with what exists: sources with tools, keys, and records of calls.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use identity::Principal;
use intake::{ConfiguredSource, SourceSupervisor, SupervisorTimeouts};
use ledger::{FileLedger, LedgerOptions, OsDisk};
use server_core::KeyStore;
use store::MemoryStore;
use tool::{CallerType, Org, SourceTrust, Store};

use super::catalog_fixture::{ListedSource, build_caller};
use super::catalog_rows::UnchangedSource;
use super::growth_row::{GrowthPoint, GrowthRow};
use super::{key_rows, record_rows};
use crate::allocation_count::AllocationCounter;
use crate::policy::policy_fixture::{fixed_clock, gateway_with_snapshot};

/// Sources, as many as a company has.
const SOURCES: usize = 500;
/// Calls on record for each tool; each is two records.
const CALLS_PER_TOOL: usize = 50;

/// Measures starts with this many tools, as many keys and a hundred times as many records.
pub(super) async fn measure_start_row(sizes: &[usize], folder: &Path) -> Result<GrowthRow, String> {
    let mut row = GrowthRow {
        name: "start: open the record, load the keys, list 500 sources, build a view",
        grows: "tools, keys and hundredths of the records",
        counts: "bytes of a tool, a key and the index of a hundred records",
        // What is there without any tool weighs less and less.
        exponent_limit: 0.05,
        points: Vec::new(),
    };
    for size in sizes {
        let folder = folder.join(format!("start-{size}"));
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        write_records(&folder, size * CALLS_PER_TOOL).await?;
        row.points.push(measure_start(&folder, *size).await?);
        std::fs::remove_dir_all(&folder).map_err(|error| error.to_string())?;
    }
    Ok(row)
}

fn open_ledger(folder: &Path) -> Result<FileLedger, String> {
    let (disk, clock) = (Arc::new(OsDisk), record_rows::machine_clock());
    let opened = FileLedger::open_directory(folder, disk, clock, LedgerOptions::default());
    opened.map(|(ledger, _)| ledger).map_err(|error| error.to_string())
}

async fn write_records(folder: &Path, calls: usize) -> Result<(), String> {
    let ledger = Arc::new(open_ledger(folder)?);
    for number in 0..calls {
        record_rows::record_call(&ledger, number).await?;
    }
    record_rows::wait_for_filters(folder).await?;
    close_ledger(ledger).await;
    Ok(())
}

async fn close_ledger<T: Send + 'static>(ledger: T) {
    drop(tokio::task::spawn_blocking(move || drop(ledger)).await);
}

async fn measure_start(folder: &Path, size: usize) -> Result<GrowthPoint, String> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    key_rows::fill_store(store.as_ref(), size).await?;
    let caller: Principal = build_caller(0)?;
    let (begun, counter) = (Instant::now(), AllocationCounter::start());
    // As a server does: neither waits for the other.
    let records = folder.to_owned();
    let ledger = tokio::task::spawn_blocking(move || open_ledger(&records));
    let keys = KeyStore::load(store, None).await.map_err(|error| error.to_string())?;
    let ledger = ledger.await.map_err(|error| error.to_string())??;
    let source = |number: usize| {
        let tools = (size / SOURCES).max(1);
        let source = Arc::new(UnchangedSource(ListedSource::new(number, tools)?));
        Ok(ConfiguredSource::new(source, "test", SourceTrust::Full, number as u64))
    };
    let sources = (0..SOURCES).map(source).collect::<Result<_, String>>()?;
    let timeouts = SupervisorTimeouts::default();
    let intake = SourceSupervisor::start_sources(Org::default(), sources, timeouts, fixed_clock());
    intake.wait_until_listed().await;
    let gateway = gateway_with_snapshot(intake.current_snapshot());
    let view = gateway.view_for(&caller, CallerType::Direct);
    let micros = begun.elapsed().as_secs_f64() * 1e6;
    if view.list_tools().next().is_none() {
        return Err("no tool is listed after the start".to_owned());
    }
    let count = counter.count().live_bytes as f64 / size as f64;
    drop(counter);
    intake.shut_down().await;
    close_ledger((ledger, keys)).await;
    Ok(GrowthPoint { size, micros, count })
}
