//! Segments that go, and what stays of them.

use std::path::Path;
use std::time::Duration;

use tool::ledger::{Query, WaitStep, Waited};
use tool::{Digest, Durability, Interface, LedgerError, SourceName, ToolKey, ToolName, Wall};

use super::fixture::{
    DIR, Driven, Random, caller, driven, end, id, intent, seeds, small, threaded,
};
use super::sim_disk::{Crash, SimDisk};
use crate::chain::Checkpoint;
use crate::finding::Fault;
use crate::retain::{Keep, Retained, retain};
use crate::signed::{RecordKey, VerifyKey};
use crate::verify::{Report, verify_signed};
use crate::{Proof, holdings, prove};

pub(super) fn key() -> RecordKey {
    RecordKey::read(&"07".repeat(32)).unwrap()
}

pub(super) const NOTHING: Keep = Keep { age: None, bytes: Some(0) };

impl Driven {
    /// 300 calls, with a checkpoint after each few of them. Returns all of those.
    pub(super) fn work(&mut self, from: u64, many: u64) -> Vec<Checkpoint> {
        let mut sealed = Vec::new();
        for number in from..from + many {
            self.call(number);
            self.clock.go(1_000);
            self.syncer.turn(number % 3 == 0);
            sealed.extend(self.inner.checkpoint().clone());
        }
        self.syncer.turn(true);
        self.syncer.turn(true);
        sealed.dedup();
        sealed
    }

    pub(super) fn retain(&self, keep: Keep) -> Result<Retained, LedgerError> {
        let signed = self.inner.checkpoint().clone().unwrap();
        retain(&self.inner, keep, &signed, &key())
    }

    /// Until nothing more goes.
    pub(super) fn retain_all(&mut self, keep: Keep) -> u32 {
        let mut removed = 0;
        loop {
            let retained = self.retain(keep).unwrap();
            assert!(
                retained.stays.as_ref().is_none_or(|why| why.ends_with(" yet")),
                "{retained:?}"
            );
            removed += retained.removed;
            if retained.removed == 0 {
                return removed;
            }
            self.syncer.turn(true);
        }
    }
}

pub(super) fn signers(writer: &str) -> Vec<VerifyKey> {
    vec![key().of_writer(writer)]
}

pub(super) fn look(disk: &SimDisk, kept: &[Checkpoint]) -> Report {
    verify_signed(Path::new(DIR), &disk.shared(), kept, Some(&signers)).unwrap()
}

#[test]
fn old_segments_go_and_the_record_goes_on_and_is_proved() {
    let (disk, mut driven) = driven(small());
    let sealed = driven.work(0, 120);
    let files = disk.files().len();
    let removed = driven.retain_all(Keep { age: Some(Duration::from_secs(40)), bytes: None });
    assert!(removed > 10, "{removed}");
    let report = look(&disk, &sealed);
    assert!(report.is_sound(), "{:?}", report.findings);
    let writer = &report.writers[0];
    assert_eq!(writer.kept, sealed.len() as u64);
    let gone = writer.gone.as_ref().unwrap();
    assert_eq!((gone.segments, gone.unchecked, gone.open), (removed, 0, 0));
    assert!(gone.records + writer.records > 240, "{writer:?}");
    let held = holdings(Path::new(DIR), &disk.shared()).unwrap();
    assert_eq!(held[0].removed, removed as usize);
    assert!(held[0].segments + held[0].removed >= files);
    assert_eq!(held[0].removed_through, gone.through);
    // It goes on: in this process, and in the next one.
    let more = driven.work(1_000, 20);
    driven.close();
    let mut driven = Driven::open(disk.shared(), small()).unwrap();
    assert_eq!(driven.recovery.findings, []);
    let still = driven.work(2_000, 20);
    driven.retain_all(NOTHING);
    let all = [sealed, more, still].concat();
    let report = look(&disk, &all);
    assert!(report.is_sound(), "{:?}", report.findings);
    assert_eq!(report.writers[0].kept, all.len() as u64);
    assert!(report.writers[0].removals > 0);
}

#[test]
fn nothing_goes_where_nothing_is_said_and_what_is_kept_is_kept() {
    let (disk, mut driven) = driven(small());
    driven.work(0, 60);
    let before = disk.files();
    assert_eq!(driven.retain(Keep::default()).unwrap(), Retained::default());
    let young = Keep { age: Some(Duration::from_hours(1)), bytes: Some(1 << 30) };
    assert_eq!(driven.retain(young).unwrap(), Retained::default());
    assert_eq!(disk.files(), before);
    let size = |disk: &SimDisk| {
        disk.files()
            .iter()
            .filter(|(name, _)| name.strip_suffix(".seg").is_some())
            .map(|(_, bytes)| bytes.len() as u64)
            .sum::<u64>()
    };
    let most = size(&disk) / 2;
    driven.retain_all(Keep { age: None, bytes: Some(most) });
    let left = size(&disk);
    assert!(left <= most && left + (16 << 10) > most, "{left} of {most}");
}

#[test]
fn what_a_call_needs_that_runs_or_waits_stays() {
    let (_disk, mut driven) = driven(small());
    let (ticket, _) = driven.begin(&intent(5_000), Durability::Written).unwrap();
    driven.work(0, 60);
    let stays = driven.retain(NOTHING).unwrap();
    assert_eq!(stays.removed, 0);
    assert!(stays.stays.unwrap().contains("still runs"));
    driven.inner.outcome(ticket.redeem(), &end(5_000), Durability::Written).unwrap();
    driven.work(100, 3);
    let held = step(7_000, WaitStep::Held, driven.inner.clock.wall());
    driven.inner.waited(&held).unwrap();
    driven.work(200, 60);
    assert!(driven.retain_until_stays().contains("is held"));
    driven.inner.waited(&step(7_000, WaitStep::Denied, driven.inner.clock.wall())).unwrap();
    driven.work(300, 20);
    driven.retain_all(NOTHING);
    // An approval that nobody ended holds nothing back for ever.
    driven.inner.waited(&step(7_001, WaitStep::Held, driven.inner.clock.wall())).unwrap();
    driven.work(400, 60);
    assert!(driven.retain_until_stays().contains("is held"));
    driven.clock.go(25 * 3_600_000);
    driven.retain_all(NOTHING);
}

impl Driven {
    fn retain_until_stays(&mut self) -> String {
        for _ in 0..100 {
            let retained = self.retain(NOTHING).unwrap();
            if let Some(why) = retained.stays {
                return why;
            }
            assert!(retained.removed > 0, "nothing stays");
            self.syncer.turn(true);
        }
        panic!("it never ends");
    }
}

fn step(number: u64, step: WaitStep, at: Wall) -> Waited {
    Waited {
        call: id(number),
        step,
        at,
        caller: caller(number),
        door: Interface::Rest,
        tool: ToolKey {
            org: tool::Org::default(),
            source: SourceName::new("notes").unwrap(),
            name: ToolName::new("notes.tool_1").unwrap(),
        },
        definition: Digest([1; 32]),
        policy: Digest([2; 32]),
        reason: "dangerous".to_owned(),
        args: Digest([3; 32]),
        expires: Wall(at.0 + 600_000),
        by: None,
        told: None,
    }
}

#[test]
fn what_no_signed_checkpoint_seals_stays() {
    let (_disk, mut driven) = driven(small());
    let sealed = driven.work(0, 60);
    let early = &sealed[2];
    let stays = retain(&driven.inner, NOTHING, early, &key()).unwrap();
    assert!(stays.removed <= 1 && stays.stays.unwrap().contains("not sealed by a signed"));
}

#[test]
fn a_changed_segment_stays_as_evidence() {
    let (disk, mut driven) = driven(small());
    driven.work(0, 60);
    driven.close();
    let mut files = disk.files();
    let third =
        files.keys().filter(|name| name.strip_suffix(".seg").is_some()).nth(2).unwrap().clone();
    let bytes = files.get_mut(&third).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 4;
    let disk = SimDisk::holding(&files);
    let mut driven = Driven::open(disk.shared(), small()).unwrap();
    driven.work(1_000, 20);
    let retained = driven.retain(NOTHING).unwrap();
    assert_eq!(retained.removed, 2);
    assert!(retained.stays.unwrap().contains("not as it was written"));
    assert!(disk.files().contains_key(&third));
    assert_eq!(look(&disk, &[]).findings[0].fault, Fault::Damaged);
}

#[test]
fn calls_that_are_unknown_stay_so_and_late_outcomes_are_no_strangers() {
    let (disk, mut driven) = driven(small());
    driven.work(0, 10);
    let (lost, _) = driven.begin(&intent(6_000), Durability::Written).unwrap();
    driven.work(100, 10);
    disk.crash(Crash::Kill);
    drop(lost);
    drop(driven);
    let mut driven = Driven::open(disk.shared(), small()).unwrap();
    assert_eq!(driven.recovery.open, [id(6_000)]);
    driven.work(200, 3);
    // Its intent goes while it runs no more, and its outcome stays in a later segment.
    let (ticket, _) = driven.begin(&intent(6_001), Durability::Written).unwrap();
    driven.work(300, 8);
    driven.inner.outcome(ticket.redeem(), &end(6_001), Durability::Written).unwrap();
    driven.work(400, 40);
    for _ in 0..3 {
        driven.retain_some(4);
        let report = look(&disk, &[]);
        assert!(report.is_sound(), "{:?}", report.findings);
        assert_eq!(report.writers[0].unknown, 1, "{:?}", report.writers);
    }
    driven.retain_all(NOTHING);
    let report = look(&disk, &[]);
    assert!(report.is_sound(), "{:?}", report.findings);
    assert_eq!((report.writers[0].open, report.writers[0].gone.as_ref().unwrap().open), (1, 1));
    driven.close();
    let driven = Driven::open(disk.shared(), small()).unwrap();
    assert_eq!(driven.recovery.open, [id(6_000)]);
}

impl Driven {
    /// Removes about so many segments.
    fn retain_some(&mut self, many: usize) {
        let dir = Path::new(DIR);
        let there = holdings(dir, &self.inner.site.disk).unwrap();
        let most = there[0].bytes.saturating_sub(many as u64 * (4 << 10));
        self.retain(Keep { age: None, bytes: Some(most) }).unwrap();
        self.syncer.turn(true);
    }
}

/// Whatever step of a removal a crash stops, the record is whole, and the next time it is done.
#[test]
fn a_removal_that_a_crash_stops_is_done_to_its_end() {
    let mut deaths = 0;
    for fuse in 1..40 {
        for how in [Crash::Kill, Crash::Power] {
            let (disk, mut driven) = driven(small());
            let sealed = driven.work(0, 60);
            disk.world().fuse = Some(fuse);
            driven.retain(Keep { age: None, bytes: Some(40 << 10) }).ok();
            deaths += u32::from(disk.world().fuse == Some(0));
            disk.crash(how);
            drop(driven);
            let report = look(&disk, &sealed[..sealed.len() - 2]);
            assert!(report.is_sound(), "{fuse} {how:?}: {:?}", report.findings);
            let mut driven = Driven::open(disk.shared(), small()).unwrap();
            assert_eq!(driven.recovery.findings, [], "{fuse} {how:?}");
            driven.work(1_000, 5);
            driven.retain_all(Keep { age: None, bytes: Some(20 << 10) });
            let report = look(&disk, &sealed[..sealed.len() - 2]);
            assert!(report.is_sound(), "{fuse} {how:?}: {:?}", report.findings);
            let names = disk.files();
            let both = |name: &String| names.contains_key(&name.replace(".tomb", ".seg"));
            assert!(!names.keys().any(|name| name.strip_suffix(".tomb").is_some() && both(name)));
        }
    }
    assert!(deaths > 20, "a removal takes fewer steps than the test believes: {deaths}");
}

/// Any pair of checkpoints, wherever the frames are; and no pair that does not fit.
#[test]
fn any_two_checkpoints_are_proved_also_where_segments_are_gone() {
    let (disk, mut driven) = driven(small());
    let mut sealed = driven.work(0, 80);
    driven.retain_all(Keep { age: None, bytes: Some(60 << 10) });
    sealed.extend(driven.work(1_000, 40));
    driven.retain_all(Keep { age: None, bytes: Some(30 << 10) });
    let (other, mut else_driven) = super::fixture::driven(small());
    let theirs = else_driven.work(500, 120);
    let last = sealed.last().unwrap().count;
    let gone = look(&disk, &[]).writers[0].gone.clone().unwrap().records;
    assert!(gone > last / 3 && gone < last, "{gone} of {last}");
    let (mut random, mut proved, mut across) = (Random::new(9), 0, 0);
    for _ in 0..seeds() / 5 {
        let (a, b) = (random.index(sealed.len()), random.index(sealed.len()));
        let (a, b) = (&sealed[a.min(b)], &sealed[a.max(b)]);
        let proof = prove(Path::new(DIR), &disk.shared(), a, b).unwrap();
        proof.check(a, b).unwrap();
        proved += 1;
        across += u32::from(a.count < gone && b.count > gone);
        // Forged: another record's checkpoint of the same size, a root of its own, a path of its own.
        let mut forged = b.clone();
        forged.root.0[random.index(32)] ^= 1;
        prove(Path::new(DIR), &disk.shared(), a, &forged).unwrap_err();
        assert!(a == b || proof.check(a, &forged).is_err());
        if let Some(path) = proof.path.len().checked_sub(1) {
            let mut lie: Proof = proof.clone();
            lie.path[random.index(path + 1)].0[0] ^= 1;
            lie.check(a, b).unwrap_err();
        }
        let foreign = &theirs[random.index(theirs.len())];
        let (x, y) = if foreign.count < b.count { (foreign, b) } else { (b, foreign) };
        prove(Path::new(DIR), &disk.shared(), x, y).unwrap_err();
        prove(Path::new(DIR), &other.shared(), x, y).unwrap_err();
    }
    println!("{proved} pairs proved, {across} of them from what is gone to what is there");
    assert!(across > 10, "{across}");
    // A size at which no node was kept is told, and is no proof.
    let mut between = sealed[0].clone();
    between.count += 1;
    let told = prove(Path::new(DIR), &disk.shared(), &between, sealed.last().unwrap());
    assert!(told.unwrap_err().message.contains("keeps no node there"));
}

#[test]
fn a_tombstone_that_was_changed_forged_or_taken_away_is_found() {
    let (disk, mut driven) = driven(small());
    let sealed = driven.work(0, 120);
    driven.retain_all(Keep { age: None, bytes: Some(30 << 10) });
    driven.close();
    let good = disk.files();
    let tombs: Vec<_> =
        good.keys().filter(|name| name.strip_suffix(".tomb").is_some()).cloned().collect();
    assert!(tombs.len() > 8, "{}", tombs.len());
    let mut random = Random::new(3);
    for round in 0..seeds() / 4 {
        let mut files = good.clone();
        let name = &tombs[random.index(tombs.len())];
        let bytes = files.get_mut(name).unwrap();
        match round % 4 {
            0 => {
                let at = random.index(bytes.len());
                bytes[at] ^= 1 << random.below(7);
            }
            1 => drop(files.remove(name)),
            2 => {
                let other = &tombs[random.index(tombs.len())];
                let (a, b) = (good[name].clone(), good[other].clone());
                files.insert(name.clone(), b);
                files.insert(other.clone(), a);
            }
            _ => bytes.truncate(random.index(bytes.len())),
        }
        if files == good {
            continue;
        }
        let report = look(&SimDisk::holding(&files), &sealed);
        assert!(!report.is_sound(), "round {round}: {name}");
    }
    // Signed by somebody else.
    let foreign = RecordKey::fresh().unwrap();
    let other = |writer: &str| vec![foreign.of_writer(writer)];
    let report = verify_signed(Path::new(DIR), &disk.shared(), &[], Some(&other)).unwrap();
    assert!(report.findings.iter().all(|found| found.fault == Fault::Tombstone));
    assert_eq!(report.findings.len(), tombs.len());
    // Without a key it is told that nothing was checked.
    let report = verify_signed(Path::new(DIR), &disk.shared(), &[], None).unwrap();
    let unchecked = report.writers[0].gone.as_ref().unwrap().unchecked;
    assert!(report.is_sound() && unchecked as usize == tombs.len());
}

#[tokio::test]
async fn who_reads_finds_what_is_there_and_nothing_else() {
    let disk = SimDisk::new(1);
    let (mut ledger, clock) = threaded(&disk, small());
    for number in 0..200 {
        let ticket =
            tool::Ledger::begin(&ledger, intent(number), Durability::Synced).await.unwrap();
        tool::Ledger::finish(&ledger, ticket, end(number), Durability::Full).await.unwrap();
        clock.go(100);
    }
    ledger.close();
    (ledger, _) = threaded(&disk, small());
    let signed = ledger.checkpoint().unwrap();
    let retained =
        ledger.retain(Keep { age: None, bytes: Some(60 << 10) }, &signed, &key()).unwrap();
    assert_eq!((retained.removed, retained.stays), (16, None));
    let query = Query { limit: 1_000, ..Query::default() };
    let records = tool::ledger::Records::list(&ledger, query).await.unwrap();
    let gone = look(&disk, &[]).writers[0].gone.clone().unwrap();
    assert!(records.records.iter().all(|record| record.seq > gone.through));
    assert_eq!(tool::ledger::Records::of_call(&ledger, id(0)).await.unwrap(), []);
    assert_eq!(tool::ledger::Records::of_call(&ledger, id(199)).await.unwrap().len(), 2);
}
