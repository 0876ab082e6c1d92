//! What the tests share: a clock that stands, numbers that repeat, calls.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tool::outcome::Status;
use tool::{
    CallId, Caller, CallerType, Clock, Code, Digest, Durability, End, Intent, Interface, Level,
    Mono, Org, Refusal, SourceName, Ticket, ToolKey, ToolName, Wall,
};
use uuid::Uuid;

use super::sim_disk::SimDisk;
use crate::disk::Disk;
use crate::file_ledger::FileLedger;
use crate::inner::Inner;
use crate::open::{Recovery, open};
use crate::options::Options;
use crate::segment::Site;
use crate::state::Confirmed;
use crate::sync::Syncer;
use crate::verify::verify;

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

/// A clock that goes on when told.
#[derive(Debug, Default)]
pub(crate) struct Hand(AtomicU64);

impl Hand {
    pub(crate) fn go(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::Relaxed);
    }
}

impl Clock for Hand {
    fn wall(&self) -> Wall {
        Wall(1_700_000_000_000 + self.0.load(Ordering::Relaxed))
    }
    fn mono(&self) -> Mono {
        Mono(Duration::from_millis(self.0.load(Ordering::Relaxed)))
    }
}

pub(crate) const DIR: &str = "/record";

/// Small enough that everything happens often.
pub(crate) fn small() -> Options {
    Options {
        segment_bytes: 4 << 10,
        reserve_bytes: 4 << 10,
        checkpoint_records: 8,
        ..Options::default()
    }
}

/// A ledger without its thread: the test takes the turns.
pub(crate) struct Driven {
    pub(crate) inner: Arc<Inner>,
    pub(crate) syncer: Syncer,
    pub(crate) recovery: Recovery,
    pub(crate) clock: Arc<Hand>,
}

impl Driven {
    pub(crate) fn open(disk: Arc<dyn Disk>, options: Options) -> Result<Self, tool::LedgerError> {
        let clock = Arc::new(Hand::default());
        let writer = options.writer.clone();
        let site = Site { disk, dir: Path::new(DIR).to_owned(), writer };
        let (inner, syncer, recovery) = open(site, clock.clone(), options)?;
        Ok(Self { inner, syncer, recovery, clock })
    }

    pub(crate) fn begin(
        &self,
        intent: &Intent,
        need: Durability,
    ) -> Result<(Ticket, Option<Confirmed>), tool::LedgerError> {
        self.inner.intent(intent, need)
    }

    /// An intent that needs no sync and its outcome.
    pub(crate) fn call(&self, number: u64) {
        let (ticket, _) = self.begin(&intent(number), Durability::Written).unwrap();
        self.inner.outcome(ticket.redeem(), &end(number), Durability::Written).unwrap();
    }

    /// As closing does it.
    pub(crate) fn close(mut self) {
        self.syncer.close();
    }
}

/// A disk, and a ledger on it without its thread.
pub(crate) fn driven(options: Options) -> (SimDisk, Driven) {
    let disk = SimDisk::new(1);
    let driven = Driven::open(disk.shared(), options).unwrap();
    (disk, driven)
}

/// A ledger with its thread, and its clock.
pub(crate) fn threaded(disk: &SimDisk, options: Options) -> (FileLedger, Arc<Hand>) {
    let clock = Arc::new(Hand::default());
    let opened = FileLedger::open(Path::new(DIR), disk.shared(), clock.clone(), options);
    (opened.unwrap().0, clock)
}

/// Fails where a call does not have one intent and one outcome.
pub(crate) fn check(disk: &SimDisk, calls: u64) {
    let report = verify(Path::new(DIR), &disk.shared(), &[]).unwrap();
    assert!(report.is_sound(), "{report:?}");
    let numbers = &report.writers[0];
    assert_eq!((numbers.intents, numbers.outcomes, numbers.open), (calls, calls, 0), "{numbers:?}");
}

pub(crate) fn id(number: u64) -> CallId {
    CallId(Uuid::from_u128(u128::from(number) + 1))
}

pub(crate) fn intent(number: u64) -> Intent {
    let name = format!("notes.tool_{}", number % 5);
    Intent {
        call: id(number),
        parent: None,
        chain_id: None,
        chain_index: None,
        continues: None,
        at: Wall(number),
        caller: caller(number),
        door: Interface::Rest,
        caller_type: CallerType::Direct,
        tool: ToolKey {
            org: Org::default(),
            source: SourceName::new("notes").unwrap(),
            name: ToolName::new(name).unwrap(),
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

pub(crate) fn caller(number: u64) -> Caller {
    Caller {
        org: Org::new(if number.is_multiple_of(2) { "even" } else { "odd" }).unwrap(),
        subject: "ada".repeat(1 + usize::try_from(number % 40).unwrap()),
        key: "key-1".to_owned(),
        level: Level::User,
        agent: true,
        actors: Vec::new(),
        root: None,
    }
}

pub(crate) fn end(number: u64) -> End {
    End {
        at: Wall(number),
        status: Status::Succeeded,
        code: None,
        elapsed_ms: number,
        bytes: 5,
        result: Some(Digest([4; 32])),
        cage: None,
    }
}

pub(crate) fn refusal(number: u64) -> Refusal {
    Refusal {
        call: id(number),
        at: Wall(number),
        caller: caller(number),
        door: Interface::Mcp,
        tool: format!("notes.tool_{}", number % 5),
        code: Code::Denied,
        reason: None,
    }
}

/// 1,000, or 10,000 where `TOOLKEEP_DEEP=1` asks for it.
#[expect(clippy::disallowed_methods, reason = "how deep tests go is the caller's choice")]
pub(crate) fn seeds() -> u64 {
    if std::env::var("TOOLKEEP_DEEP").is_ok_and(|deep| deep == "1") { 10_000 } else { 1_000 }
}
