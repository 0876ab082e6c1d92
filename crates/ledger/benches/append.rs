//! How many calls a second the record takes, and what it adds to one: `cargo bench -p ledger`.
//!
//! A call is an intent and an outcome: two records. Give a directory as the first argument to
//! measure another disk than that of the temporary files.

#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]
#![expect(clippy::disallowed_methods, reason = "a bench reads the machine's own clock")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot measure has nothing else to do")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use ledger::{FileLedger, LedgerOptions, OsDisk, verify_record};
use tool::call_outcome::CallStatus;
use tool::{
    CallId, Caller, CallerType, Clock, Digest, Durability, IntentRecord, Interface, Ledger as _,
    MonotonicTime, Org, OutcomeRecord, PermissionLevel, SourceName, ToolKey, ToolName, WallTime,
};

#[derive(Debug)]
struct Machine(Instant);

impl Clock for Machine {
    fn wall_now(&self) -> WallTime {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        WallTime(u64::try_from(since.as_millis()).unwrap_or_default())
    }
    fn monotonic_now(&self) -> MonotonicTime {
        MonotonicTime(self.0.elapsed())
    }
}

fn intent() -> IntentRecord {
    IntentRecord {
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
            source: SourceName::new("notes").unwrap(),
            name: ToolName::new("notes.append").unwrap(),
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
    }
}

fn end() -> OutcomeRecord {
    OutcomeRecord {
        recorded_at: WallTime(1_700_000_000_000),
        status: CallStatus::Succeeded,
        code: None,
        elapsed_ms: 1,
        result_bytes: 5,
        result_digest: Some(Digest([4; 32])),
        sandbox_usage: None,
    }
}

async fn caller(ledger: Arc<FileLedger>, need: Durability, until: Instant) -> Vec<Duration> {
    let mut took = Vec::new();
    while Instant::now() < until {
        let began = Instant::now();
        let ticket = ledger.record_intent(intent(), need).await.unwrap();
        ledger.record_outcome(ticket, end(), Durability::Written).await.unwrap();
        took.push(began.elapsed());
        if need == Durability::Written {
            // Nothing in a written call waits: without this, no other task would have its turn.
            tokio::task::yield_now().await;
        }
    }
    took
}

fn measure(dir: &Path, need: Durability, callers: usize) {
    let clock = Arc::new(Machine(Instant::now()));
    let record = dir.join(format!("{need:?}-{callers}"));
    // A slow disk is waited for when the ledger is closed, not in between.
    let options = LedgerOptions { max_unsynced_bytes: 1 << 30, ..LedgerOptions::default() };
    let (ledger, _) =
        FileLedger::open_directory(&record, Arc::new(OsDisk), clock, options).unwrap();
    let ledger = Arc::new(ledger);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (began, used) = (Instant::now(), cpu());
    let mut took = runtime.block_on(async {
        let until = began + Duration::from_secs(3);
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..callers {
            tasks.spawn(caller(Arc::clone(&ledger), need, until));
        }
        tasks.join_all().await.concat()
    });
    let seconds = began.elapsed().as_secs_f64();
    let used = cpu().saturating_sub(used).as_secs_f64();
    drop(ledger);
    took.sort_unstable();
    let at = |percent: usize| took.get(took.len() * percent / 100).copied().unwrap_or_default();
    let many = f64::from(u32::try_from(took.len()).unwrap_or(u32::MAX));
    println!(
        "{need:?}, {callers:3} callers: {:8.0} calls/s, {:8.0} appends/s, {:6.2} µs CPU an append, p50 {:?}, p99 {:?}",
        many / seconds,
        2.0 * many / seconds,
        used * 1e6 / (2.0 * many),
        at(50),
        at(99)
    );
    reopen(&record);
}

/// User and system time of this process so far.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    // In hundredths of a second, the unit of `/proc` on Linux.
    let ticks: u64 =
        fields.iter().skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

/// How long a start and a check take.
fn reopen(record: &Path) {
    let began = Instant::now();
    let disk: Arc<dyn ledger::Disk> = Arc::new(OsDisk);
    let report = verify_record(record, &disk, &[]).unwrap();
    let verified = began.elapsed();
    assert!(report.is_sound(), "{report:?}");
    let bytes: u64 = report.writers.iter().map(|writer| writer.bytes).sum();
    let began = Instant::now();
    let clock = Arc::new(Machine(Instant::now()));
    let opened = FileLedger::open_directory(record, disk, clock, LedgerOptions::default()).unwrap();
    let took = began.elapsed();
    drop(opened);
    println!("    {} MiB: verified in {verified:?}, opened in {took:?}", bytes >> 20);
}

fn main() {
    let named = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let dir = tempfile::tempdir().unwrap();
    let dir = named.map_or_else(|| dir.path().to_owned(), PathBuf::from);
    for callers in [1, 64] {
        measure(&dir, Durability::Written, callers);
    }
    for callers in [1, 16, 64, 256] {
        measure(&dir, Durability::Synced, callers);
    }
}
