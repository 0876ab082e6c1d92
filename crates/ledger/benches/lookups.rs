//! CPU time of look-ups in a large record: `cargo bench -p ledger --bench lookups -- DIR RECORDS`.
//!
//! Writes RECORDS records (2,400,000 if absent) below DIR unless a record is there, opens the record, and prints the CPU time
//! of the process per look-up.

#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]
#![expect(clippy::disallowed_methods, reason = "a bench reads the machine's own clock")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot measure has nothing else to do")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use ledger::{FileLedger, LedgerOptions, OsDisk};
use tool::call_outcome::CallStatus;
use tool::ledger::{RecordQuery, RecordReader as _};
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

fn intent(number: u64) -> IntentRecord {
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
            name: ToolName::new(format!("notes.tool_{}", number % 20)).unwrap(),
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

fn open(dir: &Path) -> Arc<FileLedger> {
    let clock = Arc::new(Machine(Instant::now()));
    let mut options = LedgerOptions::default();
    if let Ok(bytes) = std::env::var("SEGMENT_BYTES") {
        options.segment_bytes = bytes.parse().unwrap();
    }
    Arc::new(FileLedger::open_directory(dir, Arc::new(OsDisk), clock, options).unwrap().0)
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

async fn fill(ledger: &FileLedger, records: u64) -> CallId {
    let mut oldest = None;
    for number in 0..records / 2 {
        let mut intent = intent(number);
        if number == records / 8 {
            intent.tool_key.name = ToolName::new("notes.rare").unwrap();
        }
        oldest.get_or_insert(intent.call_id);
        // Waits once in a while, so that the disk keeps up.
        let need = if number % 1_000 == 0 { Durability::Synced } else { Durability::Written };
        let ticket = ledger.record_intent(intent, need).await.unwrap();
        ledger.record_outcome(ticket, end(), Durability::Written).await.unwrap();
    }
    oldest.unwrap()
}

async fn measure<F: Future<Output = usize>>(what: &str, look_up: impl Fn() -> F) {
    let (began, before) = (Instant::now(), cpu());
    let (mut times, mut found) = (0_u32, 0);
    while times < 10 || (times < 20_000 && began.elapsed() < Duration::from_secs(3)) {
        found = look_up().await;
        times += 1;
    }
    let (wall, used) = (began.elapsed() / times, cpu().saturating_sub(before) / times);
    println!("{what:24} {used:>12?} CPU, {wall:>12?}, {found} records, {times} times");
}

async fn look_up(ledger: &FileLedger, oldest: CallId) {
    let list = |tool: &str| {
        let query =
            RecordQuery { tool: Some(tool.to_owned()), limit: 100, ..RecordQuery::default() };
        async { ledger.list_records(query).await.map_or(0, |page| count(&page)) }
    };
    let of_call = |call: CallId| async move { ledger.list_for_call(call).await.unwrap().len() };
    measure("unknown id, random", || of_call(CallId(uuid::Uuid::new_v4()))).await;
    let middle = |by: u128| CallId(uuid::Uuid::from_u128(oldest.0.as_u128() + (by << 80)));
    measure("unknown id, in the range", || of_call(middle(1))).await;
    measure("known id, the oldest", || of_call(oldest)).await;
    measure("tool that is absent", || list("notes.absent")).await;
    measure("tool of one call", || list("notes.rare")).await;
    measure("tool of every 20th call", || list("notes.tool_3")).await;
}

fn count<T: std::fmt::Debug>(page: &T) -> usize {
    format!("{page:?}").matches("seq:").count()
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let dir = PathBuf::from(arguments.next().unwrap());
    let records = arguments.next().map_or(2_400_000, |records| records.parse().unwrap());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let marker = dir.join("oldest");
    if !marker.exists() {
        let ledger = open(&dir);
        let oldest = runtime.block_on(fill(&ledger, records));
        drop(ledger);
        std::fs::write(&marker, oldest.0.to_string()).unwrap();
    }
    let oldest = CallId(std::fs::read_to_string(&marker).unwrap().parse().unwrap());
    let (began, before) = (Instant::now(), cpu());
    let ledger = open(&dir);
    println!("opened in {:?}, {:?} CPU", began.elapsed(), cpu().saturating_sub(before));
    runtime.block_on(look_up(&ledger, oldest));
}
