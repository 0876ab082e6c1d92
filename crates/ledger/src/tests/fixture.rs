//! Shared fixture: a manual clock, reproducible numbers, and calls.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tool::call_outcome::CallStatus;
use tool::{
    CallId, Caller, CallerType, Clock, Digest, Durability, ErrorCode, IntentReceipt, IntentRecord,
    Interface, MonotonicTime, Org, OutcomeRecord, PermissionLevel, RefusalRecord, SourceName,
    ToolKey, ToolName, WallTime,
};
use uuid::Uuid;

use super::sim_disk::SimDisk;
use crate::disk::Disk;
use crate::file_ledger::FileLedger;
use crate::ledger_inner::LedgerInner;
use crate::ledger_options::LedgerOptions;
use crate::ledger_state::SyncConfirmation;
use crate::recovery::{RecoveryReport, open_ledger};
use crate::segment::WriterDir;
use crate::sync_thread::SyncThread;
use crate::verification::verify_record;

/// SplitMix64.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(crate) fn index(&mut self, end: usize) -> usize {
        usize::try_from(self.below(end as u64)).unwrap()
    }

    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// A clock that advances only on request.
#[derive(Debug, Default)]
pub(crate) struct Hand(AtomicU64);

impl Hand {
    pub(crate) fn go(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::Relaxed);
    }
}

impl Clock for Hand {
    fn wall_now(&self) -> WallTime {
        WallTime(1_700_000_000_000 + self.0.load(Ordering::Relaxed))
    }
    fn monotonic_now(&self) -> MonotonicTime {
        MonotonicTime(Duration::from_millis(self.0.load(Ordering::Relaxed)))
    }
}

pub(crate) const DIR: &str = "/record";

/// Small enough that everything happens often.
pub(crate) fn small() -> LedgerOptions {
    LedgerOptions {
        segment_bytes: 4 << 10,
        reserve_bytes: 4 << 10,
        checkpoint_records: 8,
        ..LedgerOptions::default()
    }
}

/// A ledger without its thread: the test takes the turns.
pub(crate) struct Driven {
    pub(crate) inner: Arc<LedgerInner>,
    pub(crate) syncer: SyncThread,
    pub(crate) recovery: RecoveryReport,
    pub(crate) clock: Arc<Hand>,
}

impl Driven {
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        options: LedgerOptions,
    ) -> Result<Self, tool::LedgerError> {
        let clock = Arc::new(Hand::default());
        let writer = options.writer.clone();
        let site = WriterDir { disk, dir: Path::new(DIR).to_owned(), writer_name: writer };
        let (inner, syncer, recovery) = open_ledger(site, clock.clone(), options)?;
        Ok(Self { inner, syncer, recovery, clock })
    }

    pub(crate) fn begin(
        &self,
        intent: &IntentRecord,
        need: Durability,
    ) -> Result<(IntentReceipt, Option<SyncConfirmation>), tool::LedgerError> {
        self.inner.append_intent(intent, need)
    }

    /// An intent that needs no sync and its outcome.
    pub(crate) fn call(&self, number: u64) {
        let (ticket, _) = self.begin(&intent(number), Durability::Written).unwrap();
        self.inner
            .append_outcome(ticket.mark_complete(), &end(number), Durability::Written)
            .unwrap();
    }

    /// As closing does it.
    pub(crate) fn close(mut self) {
        self.syncer.close_writer();
    }
}

/// A disk, and a ledger on it without its thread.
pub(crate) fn driven(options: LedgerOptions) -> (SimDisk, Driven) {
    let disk = SimDisk::new(1);
    let driven = Driven::open(disk.shared(), options).unwrap();
    (disk, driven)
}

/// A ledger with its thread, and its clock.
pub(crate) fn threaded(disk: &SimDisk, options: LedgerOptions) -> (FileLedger, Arc<Hand>) {
    let clock = Arc::new(Hand::default());
    let opened = FileLedger::open_directory(Path::new(DIR), disk.shared(), clock.clone(), options);
    (opened.unwrap().0, clock)
}

/// Fails where a call does not have one intent and one outcome.
pub(crate) fn check(disk: &SimDisk, calls: u64) {
    let report = verify_record(Path::new(DIR), &disk.shared(), &[]).unwrap();
    assert!(report.is_sound(), "{report:?}");
    let numbers = &report.writers[0];
    assert_eq!(
        (numbers.intents, numbers.outcomes, numbers.open_calls),
        (calls, calls, 0),
        "{numbers:?}"
    );
}

pub(crate) fn id(number: u64) -> CallId {
    CallId(Uuid::from_u128(u128::from(number) + 1))
}

pub(crate) fn intent(number: u64) -> IntentRecord {
    let name = format!("notes.tool_{}", number % 5);
    IntentRecord {
        call_id: id(number),
        parent_id: None,
        chain_id: None,
        chain_index: None,
        continues_call: None,
        recorded_at: WallTime(number),
        caller: caller(number),
        interface: Interface::Rest,
        caller_type: CallerType::Direct,
        tool_key: ToolKey {
            org: Org::default(),
            source: SourceName::new("notes").unwrap(),
            name: ToolName::new(name).unwrap(),
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

pub(crate) fn caller(number: u64) -> Caller {
    Caller {
        org: Org::new(if number.is_multiple_of(2) { "even" } else { "odd" }).unwrap(),
        subject: "ada".repeat(1 + usize::try_from(number % 40).unwrap()),
        key_id: "key-1".to_owned(),
        level: PermissionLevel::User,
        is_agent: true,
        actors: Vec::new(),
        root_key_id: None,
    }
}

pub(crate) fn end(number: u64) -> OutcomeRecord {
    OutcomeRecord {
        recorded_at: WallTime(number),
        status: CallStatus::Succeeded,
        code: None,
        elapsed_ms: number,
        result_bytes: 5,
        result_digest: Some(Digest([4; 32])),
        sandbox_usage: None,
    }
}

pub(crate) fn refusal(number: u64) -> RefusalRecord {
    RefusalRecord {
        call_id: id(number),
        recorded_at: WallTime(number),
        caller: caller(number),
        interface: Interface::Mcp,
        tool_name: format!("notes.tool_{}", number % 5),
        code: ErrorCode::Denied,
        reason: None,
    }
}

/// 1,000, or 10,000 where `TOOLKEEP_DEEP=1` asks for it.
#[expect(clippy::disallowed_methods, reason = "how deep tests go is the caller's choice")]
pub(crate) fn seeds() -> u64 {
    if std::env::var("TOOLKEEP_DEEP").is_ok_and(|deep| deep == "1") { 10_000 } else { 1_000 }
}
