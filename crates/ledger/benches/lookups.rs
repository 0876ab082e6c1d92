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

use ledger::{FileLedger, Options, RealDisk};
use tool::ledger::{Query, Records as _};
use tool::outcome::Status;
use tool::{
    CallId, Caller, CallerType, Clock, Digest, Durability, End, Intent, Interface, Ledger as _,
    Level, Mono, Org, SourceName, ToolKey, ToolName, Wall,
};

#[derive(Debug)]
struct Machine(Instant);

impl Clock for Machine {
    fn wall(&self) -> Wall {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Wall(u64::try_from(since.as_millis()).unwrap_or_default())
    }
    fn mono(&self) -> Mono {
        Mono(self.0.elapsed())
    }
}

fn intent(number: u64) -> Intent {
    Intent {
        call: CallId(uuid::Uuid::now_v7()),
        parent: None,
        chain_id: None,
        chain_index: None,
        continues: None,
        at: Wall(1_700_000_000_000),
        caller: Caller {
            org: Org::default(),
            subject: "ada".to_owned(),
            key: "key-1".to_owned(),
            level: Level::User,
            agent: true,
            actors: Vec::new(),
            root: None,
        },
        door: Interface::Mcp,
        caller_type: CallerType::Direct,
        tool: ToolKey {
            org: Org::default(),
            source: SourceName::new("notes").unwrap(),
            name: ToolName::new(format!("notes.tool_{}", number % 20)).unwrap(),
        },
        definition: Digest([1; 32]),
        catalog: 3,
        policy: Digest([2; 32]),
        reason: "level".into(),
        args: Digest([3; 32]),
        args_bytes: 17,
        effects: true,
        unknown_effects: false,
    }
}

fn end() -> End {
    End {
        at: Wall(1_700_000_000_000),
        status: Status::Succeeded,
        code: None,
        elapsed_ms: 1,
        bytes: 5,
        result: Some(Digest([4; 32])),
        cage: None,
    }
}

fn open(dir: &Path) -> Arc<FileLedger> {
    let clock = Arc::new(Machine(Instant::now()));
    let mut options = Options::default();
    if let Ok(bytes) = std::env::var("SEGMENT_BYTES") {
        options.segment_bytes = bytes.parse().unwrap();
    }
    Arc::new(FileLedger::open(dir, Arc::new(RealDisk), clock, options).unwrap().0)
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
            intent.tool.name = ToolName::new("notes.rare").unwrap();
        }
        oldest.get_or_insert(intent.call);
        // Waits once in a while, so that the disk keeps up.
        let need = if number % 1_000 == 0 { Durability::Synced } else { Durability::Written };
        let ticket = ledger.begin(intent, need).await.unwrap();
        ledger.finish(ticket, end(), Durability::Written).await.unwrap();
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
        let query = Query { tool: Some(tool.to_owned()), limit: 100, ..Query::default() };
        async { ledger.list(query).await.map_or(0, |page| count(&page)) }
    };
    let of_call = |call: CallId| async move { ledger.of_call(call).await.unwrap().len() };
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
