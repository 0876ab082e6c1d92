//! Lives that end badly, one after the other, on one disk; and what is on record then.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tool::ledger::RecordKind;
use tool::{CallId, Durability, IntentReceipt};

use super::fixture::{DIR, Driven, Random, end, id, intent, refusal, seeds, small};
use super::sim_disk::{Crash, SimDisk};
use crate::ledger_options::LedgerOptions;
use crate::ledger_state::SyncConfirmation;
use crate::record_scan::RecordScan;
use crate::recovery::RecoveryReport;
use crate::segment::WriterDir;
use crate::verification::verify_record;

/// Results that callers received.
#[derive(Debug, Default)]
struct Told {
    /// Intents that were confirmed as synced.
    synced: BTreeSet<CallId>,
    /// Intents and outcomes that were confirmed as written since the power was last there.
    written: BTreeSet<(CallId, u8)>,
    /// Every body that was ever handed over.
    bodies: BTreeMap<(CallId, u8), Vec<u8>>,
    /// Next call.
    next: u64,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Sum {
    synced: usize,
    lost_synced: usize,
    lost_written_by_kill: usize,
    /// Records that a ledger would have lost if it had replied before the sync.
    lost_written_by_power: usize,
    torn: usize,
    wrong: Vec<String>,
    frames: usize,
    crashes: usize,
    cuts: usize,
    stopped: usize,
}

struct Life<'a> {
    driven: Driven,
    disk: &'a SimDisk,
    told: &'a mut Told,
    running: Vec<(u64, IntentReceipt)>,
    waiting: Vec<(u64, IntentReceipt, SyncConfirmation)>,
}

impl Life<'_> {
    fn step(&mut self, random: &mut Random) {
        match random.below(10) {
            0..=4 => self.begin(random),
            5 | 6 => self.finish(random),
            7 => self.driven.inner.append_refusal(&refusal(1 << 40)),
            8 => self.driven.clock.go(random.below(700)),
            _ => self.driven.syncer.run_once(random.percent(30)),
        }
        self.hear();
    }

    fn begin(&mut self, random: &mut Random) {
        let number = self.told.next;
        self.told.next += 1;
        let intent = intent(number);
        let need = if random.percent(50) { Durability::Synced } else { Durability::Written };
        let body = rmp_serde::to_vec_named(&intent).unwrap();
        self.told.bodies.insert((id(number), RecordKind::Intent as u8), body);
        match self.driven.begin(&intent, need) {
            Ok((ticket, Some(confirmed))) => self.waiting.push((number, ticket, confirmed)),
            Ok((ticket, None)) => {
                self.told.written.insert((id(number), RecordKind::Intent as u8));
                self.running.push((number, ticket));
            }
            Err(_) => {}
        }
    }

    fn finish(&mut self, random: &mut Random) {
        if self.running.is_empty() {
            return;
        }
        let at = random.index(self.running.len());
        let (number, ticket) = self.running.swap_remove(at);
        if random.percent(20) {
            drop(ticket);
            return;
        }
        let key = (id(number), RecordKind::Outcome as u8);
        self.told.bodies.insert(key, rmp_serde::to_vec_named(&end(number)).unwrap());
        if self
            .driven
            .inner
            .append_outcome(ticket.mark_complete(), &end(number), Durability::Written)
            .is_ok()
        {
            self.told.written.insert(key);
        }
    }

    /// Listens for what the disk confirmed.
    fn hear(&mut self) {
        for (number, ticket, mut confirmed) in std::mem::take(&mut self.waiting) {
            match confirmed.try_recv() {
                Ok(Ok(())) => {
                    self.told.synced.insert(id(number));
                    self.told.written.insert((id(number), RecordKind::Intent as u8));
                    self.running.push((number, ticket));
                }
                Ok(Err(_)) => self.driven.inner.append_not_executed(ticket.mark_complete()),
                Err(_) => self.waiting.push((number, ticket, confirmed)),
            }
        }
    }
}

/// Runs one life: opens the ledger, works, and ends at the fuse. Returns whether it could open, and
/// whether it was closed properly.
fn live(
    disk: &SimDisk,
    told: &mut Told,
    random: &mut Random,
    options: &LedgerOptions,
) -> Option<(RecoveryReport, bool)> {
    disk.world().fuse = random.percent(90).then(|| 1 + random.below(120));
    let driven = Driven::open(disk.shared(), options.clone()).ok()?;
    let recovery = driven.recovery.clone();
    let mut life = Life { driven, disk, told, running: Vec::new(), waiting: Vec::new() };
    for _ in 0..random.below(150) {
        life.step(random);
        if life.disk.world().fuse == Some(0) {
            break;
        }
    }
    let orderly = life.disk.world().fuse.is_none() && random.percent(50);
    if orderly {
        // Tickets end first: a server that stops in order lets its calls end.
        life.running.clear();
        life.waiting.clear();
        life.driven.syncer.close_writer();
    }
    let stopped = life.driven.inner.check_health().is_err();
    // Without the machine, nothing that drops can write.
    disk.world().fuse.get_or_insert(0);
    drop(life);
    Some((recovery, stopped))
}

/// Compares the record with the results that callers received.
fn judge(disk: &SimDisk, told: &Told, sum: &mut Sum, power: bool) -> BTreeSet<(CallId, u8)> {
    let report = verify_record(Path::new(DIR), &disk.shared(), &[]).unwrap();
    for finding in &report.findings {
        sum.wrong.push(format!("a crash was taken for tampering: {finding:?}"));
    }
    let site = WriterDir {
        disk: disk.shared(),
        dir: Path::new(DIR).to_owned(),
        writer_name: "main".into(),
    };
    let survey = RecordScan::scan_writer(&site).unwrap();
    sum.cuts += survey.discarded.len();
    let mut seen = BTreeSet::new();
    let mut expected = 1;
    survey
        .replay_frames(&site, &mut |_, _, frame| {
            sum.frames += 1;
            if frame.seq != expected {
                sum.wrong.push(format!("record {} follows {}", frame.seq, expected - 1));
            }
            expected = frame.seq + 1;
            let Some(call) = frame.call_id else { return };
            if !seen.insert((call, frame.kind as u8)) && frame.kind != RecordKind::Refusal {
                sum.wrong.push(format!("call {call} has two of kind {:?}", frame.kind));
            }
            let body = told.bodies.get(&(call, frame.kind as u8));
            let own = matches!(frame.kind, RecordKind::Outcome) && {
                let end = frame.decode_body::<tool::OutcomeRecord>().unwrap();
                matches!(
                    end.status,
                    tool::call_outcome::CallStatus::Abandoned
                        | tool::call_outcome::CallStatus::Refused
                )
            };
            if frame.kind != RecordKind::Refusal
                && !own
                && body.is_none_or(|body| body != frame.body)
            {
                sum.torn += 1;
            }
        })
        .unwrap();
    let intent = |call: &CallId| seen.contains(&(*call, RecordKind::Intent as u8));
    for call in told.synced.iter().filter(|call| !intent(call)) {
        sum.lost_synced += 1;
        sum.wrong.push(format!("the confirmed call {call} is lost"));
    }
    let lost = told.written.iter().filter(|key| !seen.contains(*key)).count();
    *if power { &mut sum.lost_written_by_power } else { &mut sum.lost_written_by_kill } += lost;
    seen
}

fn run(seed: u64, shape: impl Fn(&SimDisk, &mut Random)) -> Sum {
    let mut random = Random::new(seed);
    let disk = SimDisk::new(seed ^ 0xdead_beef);
    shape(&disk, &mut random);
    let mut options = small();
    options.segment_bytes = 1 << (11 + random.below(4));
    options.checkpoint_records = 2 + random.below(12);
    options.max_index_entries = 1 + random.index(64);
    let (mut told, mut sum) = (Told::default(), Sum::default());
    for _ in 0..2 + random.below(4) {
        let opened = live(&disk, &mut told, &mut random, &options);
        sum.stopped += usize::from(opened.is_some_and(|(_, stopped)| stopped));
        let how = if random.percent(60) { Crash::Power } else { Crash::Kill };
        disk.crash(how);
        sum.crashes += 1;
        let seen = judge(&disk, &told, &mut sum, how == Crash::Power);
        // Records that the power failure took are lost; from here on only the remaining ones are
        // required.
        told.written.retain(|key| seen.contains(key));
        if sum.lost_synced > 0 {
            break;
        }
    }
    sum.synced = told.synced.len();
    // In the end it must open without faults, and report the unknown calls.
    disk.world().failing_syncs = 0;
    let driven = Driven::open(disk.shared(), options).unwrap();
    let seen = judge(&disk, &told, &mut sum, false);
    let has = |call: CallId, kind: RecordKind| seen.contains(&(call, kind as u8));
    let open = seen
        .iter()
        .map(|(call, _)| *call)
        .filter(|call| has(*call, RecordKind::Intent) && !has(*call, RecordKind::Outcome));
    if driven.recovery.open_calls.iter().copied().collect::<BTreeSet<_>>() != open.collect() {
        sum.wrong.push("the open calls are others".to_owned());
    }
    if driven.inner.check_health().is_err() {
        sum.wrong.push("it does not work again".to_owned());
    }
    driven.close();
    judge(&disk, &told, &mut sum, false);
    sum
}

fn all(seeds: u64, shape: impl Fn(&SimDisk, &mut Random)) -> (Sum, u64) {
    let (mut all, mut early) = (Sum::default(), 0);
    for seed in 0..seeds {
        let sum = run(seed, &shape);
        early += u64::from(sum.lost_written_by_power > 0);
        if all.wrong.len() < 5 {
            all.wrong.extend(sum.wrong.iter().map(|wrong| format!("seed {seed}: {wrong}")));
        }
        all.synced += sum.synced;
        all.lost_synced += sum.lost_synced;
        all.lost_written_by_kill += sum.lost_written_by_kill;
        all.lost_written_by_power += sum.lost_written_by_power;
        all.torn += sum.torn;
        all.frames += sum.frames;
        all.crashes += sum.crashes;
        all.cuts += sum.cuts;
        all.stopped += sum.stopped;
    }
    (all, early)
}

#[test]
fn nothing_confirmed_is_lost_by_kill_or_loss_of_power() {
    let seeds = seeds();
    let (sum, early) = all(seeds, |_, _| {});
    println!("{seeds} seeds: {sum:?}; answering before the sync loses on {early} seeds");
    assert_eq!(sum.wrong, Vec::<String>::new());
    assert_eq!((sum.lost_synced, sum.lost_written_by_kill, sum.torn), (0, 0, 0));
    assert!(sum.synced > 1_000 && sum.cuts > 100, "too little happened");
    // The control: the same disk, the same runs, answered before the sync.
    assert!(early > seeds / 20, "the disk loses too little to prove anything");
}

#[test]
fn nothing_confirmed_is_lost_where_syncs_fail_too() {
    let seeds = seeds() / 2;
    let shape = |disk: &SimDisk, random: &mut Random| {
        disk.world().failing_syncs = 5 + random.below(40);
    };
    let (sum, early) = all(seeds, shape);
    println!("{seeds} seeds: {sum:?}; answering before the sync loses on {early} seeds");
    assert_eq!(sum.wrong, Vec::<String>::new());
    assert_eq!((sum.lost_synced, sum.lost_written_by_kill, sum.torn), (0, 0, 0));
    assert!(sum.synced > 1_000 && sum.stopped > 10, "too little happened");
}

/// Negative control: if a sync only claims success, confirmed records are lost, and the ledger
/// reports changed files.
#[test]
fn a_disk_that_lies_is_found_out() {
    let (mut lost, mut told) = (0, 0);
    for seed in 0..100 {
        let sum = run(seed, |disk, _| disk.world().lying_syncs = true);
        lost += u64::from(sum.lost_synced > 0);
        told += u64::from(!sum.wrong.is_empty());
    }
    println!("100 seeds on a lying disk: confirmed records lost on {lost}, told on {told}");
    assert!(lost > 20 && told > 10, "{lost} {told}");
}

/// Crashes at every step of a start, and of the next start. A new segment with relocated records
/// must have its name durably before the older copies are truncated.
#[test]
fn nothing_confirmed_is_lost_by_dying_twice_while_starting() {
    let confirmed = |disk: &SimDisk| {
        let mut driven = Driven::open(disk.shared(), small()).unwrap();
        for number in 0..14 {
            let (ticket, confirmed) = driven.begin(&intent(number), Durability::Synced).unwrap();
            driven.syncer.run_once(false);
            confirmed.unwrap().try_recv().unwrap().unwrap();
            drop(ticket);
        }
        disk.crash(Crash::Kill);
    };
    let (mut runs, mut deaths) = (0, 0);
    for first in 1..20 {
        for second in 1..20 {
            for seed in 0..3 {
                let disk = SimDisk::new(seed);
                confirmed(&disk);
                for (fuse, how) in [(first, Crash::Kill), (second, Crash::Power)] {
                    disk.world().fuse = Some(fuse);
                    drop(Driven::open(disk.shared(), small()));
                    deaths += u64::from(disk.world().fuse == Some(0));
                    disk.crash(how);
                }
                let driven = Driven::open(disk.shared(), small()).unwrap();
                assert_eq!(driven.recovery.findings, [], "{first} {second} {seed}");
                let report = verify_record(Path::new(DIR), &disk.shared(), &[]).unwrap();
                assert!(report.is_sound(), "{first} {second} {seed}: {report:?}");
                assert_eq!(report.writers[0].intents, 14, "{first} {second} {seed}");
                runs += 1;
            }
        }
    }
    println!("{runs} runs, {deaths} deaths while starting");
    assert!(deaths > runs / 2, "a start takes fewer steps than the test believes");
}
