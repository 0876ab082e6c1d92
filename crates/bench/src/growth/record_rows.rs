//! Growth with the number of records: look-ups of calls and rare records that are not in the index
//! in memory.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use ledger::{FileLedger, LedgerOptions, OsDisk};
use tool::call_outcome::CallStatus;
use tool::ledger::{RecordKind, RecordQuery, RecordReader as _};
use tool::{
    CallId, Caller, CallerType, Clock, Digest, Durability, IntentRecord, Interface, Ledger as _,
    MonotonicTime, Org, OutcomeRecord, PermissionLevel, SourceName, ToolKey, ToolName, WallTime,
};

use super::growth_row::{GrowthPoint, GrowthRow};
use crate::system_stats;

/// Longest time until the filters of all closed segments are built.
const FILTER_TIMEOUT: Duration = Duration::from_mins(2);
/// Look-ups of each kind at each size; the report has the median.
const REPETITIONS: u32 = 20;

/// A look-up of the benchmark.
type LookUp = (&'static str, fn(&RareRecords) -> RecordQuery);

/// What the look-ups ask for.
#[derive(Debug)]
struct RareRecords {
    /// An id within the range of recorded ones, which no call has.
    unknown_call: CallId,
}

const LOOK_UPS: [LookUp; 6] = [
    ("records of a call id that is not on record", |rare| RecordQuery {
        call: Some(rare.unknown_call),
        ..RecordQuery::default()
    }),
    ("records of a tool that is not on record", |_| RecordQuery {
        tool: Some("notes.absent".to_owned()),
        ..RecordQuery::default()
    }),
    ("records of a caller who is not on record", |_| RecordQuery {
        caller: Some("nobody".to_owned()),
        ..RecordQuery::default()
    }),
    ("records of a status that is not on record", |_| RecordQuery {
        status: Some(CallStatus::Abandoned),
        ..RecordQuery::default()
    }),
    ("records of a kind that is not on record", |_| RecordQuery {
        kind: Some(RecordKind::AuditEvent),
        ..RecordQuery::default()
    }),
    ("calls made by a call that made none", |rare| RecordQuery {
        parent: Some(rare.unknown_call),
        ..RecordQuery::default()
    }),
];

/// Measures all rows in a record in `folder`, which grows from size to size.
pub(super) async fn measure_record_rows(
    sizes: &[usize],
    folder: &Path,
) -> Result<Vec<GrowthRow>, String> {
    let clock = machine_clock();
    let opened =
        FileLedger::open_directory(folder, Arc::new(OsDisk), clock, LedgerOptions::default());
    let (ledger, _) = opened.map_err(|error| error.to_string())?;
    let ledger = Arc::new(ledger);
    let mut rows: Vec<_> = LOOK_UPS
        .iter()
        .map(|(name, _)| GrowthRow {
            name,
            grows: "records",
            counts: "bytes read",
            // One page of 4 KiB of the filter of each closed segment.
            exponent_limit: 1.15,
            points: Vec::new(),
        })
        .collect();
    let (mut calls, mut first) = (0, None);
    for size in sizes {
        while calls * 2 < *size {
            let call = record_call(&ledger, calls).await?;
            first.get_or_insert(call);
            calls += 1;
        }
        wait_for_filters(folder).await?;
        let first = first.ok_or("no call is recorded")?;
        // The next millisecond has ids, but not this one.
        let unknown_call = CallId(uuid::Uuid::from_u128(first.0.as_u128() + (1 << 80)));
        for ((_, query), row) in LOOK_UPS.iter().zip(&mut rows) {
            let query = RecordQuery { limit: 100, ..query(&RareRecords { unknown_call }) };
            row.points.push(measure_look_up(&ledger, &query, *size).await?);
        }
    }
    drop(tokio::task::spawn_blocking(move || drop(ledger)).await);
    Ok(rows)
}

async fn measure_look_up(
    ledger: &FileLedger,
    query: &RecordQuery,
    size: usize,
) -> Result<GrowthPoint, String> {
    let (before, mut times) = (system_stats::read_bytes(), Vec::new());
    for _ in 0..REPETITIONS {
        let begun = Instant::now();
        // As the interfaces do: the records of one call have a search of their own.
        let found = match query.call {
            Some(call) => ledger.list_for_call(call).await.map(|found| found.len()),
            None => ledger
                .list_records(query.clone())
                .await
                .map(|page| page.records.len() + usize::from(page.next_before.is_some())),
        };
        if found.map_err(|error| error.to_string())? > 0 {
            return Err(format!("a look-up is not complete in one page: {query:?}"));
        }
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    let bytes = system_stats::read_bytes().saturating_sub(before);
    let count = bytes as f64 / f64::from(REPETITIONS);
    Ok(GrowthPoint { size, micros: median.as_secs_f64() * 1e6, count })
}

/// Waits until each closed segment has its filter.
pub(super) async fn wait_for_filters(folder: &Path) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        let names = std::fs::read_dir(folder).map_err(|error| error.to_string())?;
        let names: Vec<_> =
            names.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        let count = |end: &str| names.iter().filter(|name| name.ends_with(end)).count();
        if count(".filter") + 1 >= count(".seg") {
            return Ok(());
        }
        if begun.elapsed() > FILTER_TIMEOUT {
            return Err("the filters of the record are not built in time".to_owned());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub(super) async fn record_call(ledger: &FileLedger, number: usize) -> Result<CallId, String> {
    let intent = build_intent(number)?;
    let call = intent.call_id;
    // Waits now and then, so that the disk keeps up.
    let durability =
        if number.is_multiple_of(2_000) { Durability::Synced } else { Durability::Written };
    let receipt =
        ledger.record_intent(intent, durability).await.map_err(|error| error.to_string())?;
    let outcome = OutcomeRecord {
        recorded_at: WallTime(1_700_000_000_000),
        status: CallStatus::Succeeded,
        code: None,
        elapsed_ms: 1,
        result_bytes: 5,
        result_digest: Some(Digest([4; 32])),
        sandbox_usage: None,
    };
    let recorded = ledger.record_outcome(receipt, outcome, Durability::Written).await;
    recorded.map(|()| call).map_err(|error| error.to_string())
}

fn build_intent(number: usize) -> Result<IntentRecord, String> {
    let name = ToolName::new(format!("notes.tool_{}", number % 20));
    let source = SourceName::new("notes");
    Ok(IntentRecord {
        call_id: CallId(uuid::Uuid::now_v7()),
        parent_id: None,
        chain_id: None,
        chain_index: None,
        continues_call: None,
        recorded_at: WallTime(1_700_000_000_000),
        caller: Caller {
            org: Org::default(),
            subject: "ada".to_owned(),
            key_id: "key-1".to_owned(),
            level: PermissionLevel::User,
            is_agent: true,
            actors: Vec::new(),
            root_key_id: None,
        },
        interface: Interface::Mcp,
        caller_type: CallerType::Direct,
        tool_key: ToolKey {
            org: Org::default(),
            source: source.map_err(|error| error.to_string())?,
            name: name.map_err(|error| error.to_string())?,
        },
        definition_digest: Digest([1; 32]),
        catalog_version: 3,
        policy_digest: Digest([2; 32]),
        reason: "level".into(),
        arguments_digest: Digest([3; 32]),
        arguments_bytes: 17,
        may_change_state: true,
        has_unknown_effects: false,
        toolset: None,
    })
}

/// Returns a clock of this machine.
pub(super) fn machine_clock() -> Arc<dyn Clock> {
    Arc::new(MachineClock(Instant::now()))
}

#[derive(Debug)]
struct MachineClock(Instant);

impl Clock for MachineClock {
    fn wall_now(&self) -> WallTime {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        WallTime(u64::try_from(since.as_millis()).unwrap_or_default())
    }
    fn monotonic_now(&self) -> MonotonicTime {
        MonotonicTime(self.0.elapsed())
    }
}
