//! Tests of removed segments, and of the tombstones that remain.

use std::path::Path;
use std::time::Duration;

use tool::ledger::{ApprovalStep, ApprovalStepRecord, RecordQuery};
use tool::{Digest, Durability, Interface, LedgerError, SourceName, ToolKey, ToolName, WallTime};

use super::fixture::{
    DIR, Driven, Random, caller, driven, end, id, intent, seeds, small, threaded,
};
use super::sim_disk::{Crash, SimDisk};
use crate::hash_chain::LedgerCheckpoint;
use crate::integrity_finding::DamageKind;
use crate::retention::{RetentionPolicy, RetentionReport, apply_retention};
use crate::signed_checkpoint::{CheckpointSigningKey, VerifierKey};
use crate::verification::{VerificationReport, verify_signed_record};
use crate::{ConsistencyProof, build_consistency_proof, summarize_writers};

pub(super) fn key() -> CheckpointSigningKey {
    CheckpointSigningKey::from_hex(&"07".repeat(32)).unwrap()
}

pub(super) const NOTHING: RetentionPolicy = RetentionPolicy { max_age: None, max_bytes: Some(0) };

impl Driven {
    /// Writes 300 calls with a checkpoint after every few, and returns the checkpoints.
    pub(super) fn work(&mut self, from: u64, many: u64) -> Vec<LedgerCheckpoint> {
        let mut sealed = Vec::new();
        for number in from..from + many {
            self.call(number);
            self.clock.go(1_000);
            self.syncer.run_once(number % 3 == 0);
            sealed.extend(self.inner.lock_checkpoint().clone());
        }
        self.syncer.run_once(true);
        self.syncer.run_once(true);
        sealed.dedup();
        sealed
    }

    pub(super) fn retain(&self, keep: RetentionPolicy) -> Result<RetentionReport, LedgerError> {
        let signed = self.inner.lock_checkpoint().clone().unwrap();
        apply_retention(&self.inner, keep, &signed, &key())
    }

    /// Until nothing more goes.
    pub(super) fn retain_all(&mut self, keep: RetentionPolicy) -> u32 {
        let mut removed = 0;
        loop {
            let retained = self.retain(keep).unwrap();
            assert!(
                retained.blocked_reason.as_ref().is_none_or(|why| why.ends_with(" yet")),
                "{retained:?}"
            );
            removed += retained.removed_segments;
            if retained.removed_segments == 0 {
                return removed;
            }
            self.syncer.run_once(true);
        }
    }
}

pub(super) fn signers(writer: &str) -> Vec<VerifierKey> {
    vec![key().verifier_key_of(writer)]
}

pub(super) fn look(disk: &SimDisk, kept: &[LedgerCheckpoint]) -> VerificationReport {
    verify_signed_record(Path::new(DIR), &disk.shared(), kept, Some(&signers)).unwrap()
}

#[test]
fn old_segments_go_and_the_record_goes_on_and_is_proved() {
    let (disk, mut driven) = driven(small());
    let sealed = driven.work(0, 120);
    let files = disk.files().len();
    let removed = driven
        .retain_all(RetentionPolicy { max_age: Some(Duration::from_secs(40)), max_bytes: None });
    assert!(removed > 10, "{removed}");
    let report = look(&disk, &sealed);
    assert!(report.is_sound(), "{:?}", report.findings);
    let writer = &report.writers[0];
    assert_eq!(writer.external_checkpoints, sealed.len() as u64);
    let gone = writer.removed.as_ref().unwrap();
    assert_eq!((gone.segments, gone.unverified_tombstones, gone.open_calls), (removed, 0, 0));
    assert!(gone.records + writer.records > 240, "{writer:?}");
    let held = summarize_writers(Path::new(DIR), &disk.shared()).unwrap();
    assert_eq!(held[0].removed_segments, removed as usize);
    assert!(held[0].segments + held[0].removed_segments >= files);
    assert_eq!(held[0].removed_last_seq, gone.last_seq);
    // It continues in this process and in the next one.
    let more = driven.work(1_000, 20);
    driven.close();
    let mut driven = Driven::open(disk.shared(), small()).unwrap();
    assert_eq!(driven.recovery.findings, []);
    let still = driven.work(2_000, 20);
    driven.retain_all(NOTHING);
    let all = [sealed, more, still].concat();
    let report = look(&disk, &all);
    assert!(report.is_sound(), "{:?}", report.findings);
    assert_eq!(report.writers[0].external_checkpoints, all.len() as u64);
    assert!(report.writers[0].removals > 0);
}

#[test]
fn nothing_goes_where_nothing_is_said_and_what_is_kept_is_kept() {
    let (disk, mut driven) = driven(small());
    driven.work(0, 60);
    let before = disk.files();
    assert_eq!(driven.retain(RetentionPolicy::default()).unwrap(), RetentionReport::default());
    let young =
        RetentionPolicy { max_age: Some(Duration::from_hours(1)), max_bytes: Some(1 << 30) };
    assert_eq!(driven.retain(young).unwrap(), RetentionReport::default());
    assert_eq!(disk.files(), before);
    let size = |disk: &SimDisk| {
        disk.files()
            .iter()
            .filter(|(name, _)| name.strip_suffix(".seg").is_some())
            .map(|(_, bytes)| bytes.len() as u64)
            .sum::<u64>()
    };
    let most = size(&disk) / 2;
    driven.retain_all(RetentionPolicy { max_age: None, max_bytes: Some(most) });
    let left = size(&disk);
    assert!(left <= most && left + (16 << 10) > most, "{left} of {most}");
}

#[test]
fn what_a_call_needs_that_runs_or_waits_stays() {
    let (_disk, mut driven) = driven(small());
    let (ticket, _) = driven.begin(&intent(5_000), Durability::Written).unwrap();
    driven.work(0, 60);
    let stays = driven.retain(NOTHING).unwrap();
    assert_eq!(stays.removed_segments, 0);
    assert!(stays.blocked_reason.unwrap().contains("is still running"));
    driven.inner.append_outcome(ticket.mark_complete(), &end(5_000), Durability::Written).unwrap();
    driven.work(100, 3);
    let held = step(7_000, ApprovalStep::Requested, driven.inner.clock.wall_now());
    driven.inner.append_approval_step(&held).unwrap();
    driven.work(200, 60);
    assert!(driven.retain_until_stays().contains("is pending"));
    driven
        .inner
        .append_approval_step(&step(7_000, ApprovalStep::Denied, driven.inner.clock.wall_now()))
        .unwrap();
    driven.work(300, 20);
    driven.retain_all(NOTHING);
    // An approval that never ended does not block removals forever.
    driven
        .inner
        .append_approval_step(&step(7_001, ApprovalStep::Requested, driven.inner.clock.wall_now()))
        .unwrap();
    driven.work(400, 60);
    assert!(driven.retain_until_stays().contains("is pending"));
    driven.clock.go(25 * 3_600_000);
    driven.retain_all(NOTHING);
}

impl Driven {
    fn retain_until_stays(&mut self) -> String {
        for _ in 0..100 {
            let retained = self.retain(NOTHING).unwrap();
            if let Some(why) = retained.blocked_reason {
                return why;
            }
            assert!(retained.removed_segments > 0, "nothing stays");
            self.syncer.run_once(true);
        }
        panic!("it never ends");
    }
}

fn step(number: u64, step: ApprovalStep, at: WallTime) -> ApprovalStepRecord {
    ApprovalStepRecord {
        call_id: id(number),
        step,
        recorded_at: at,
        caller: caller(number),
        interface: Interface::Rest,
        tool_key: ToolKey {
            org: tool::Org::default(),
            source: SourceName::new("notes").unwrap(),
            name: ToolName::new("notes.tool_1").unwrap(),
        },
        definition_digest: Digest([1; 32]),
        policy_digest: Digest([2; 32]),
        reason: "dangerous".to_owned(),
        arguments_digest: Digest([3; 32]),
        expires_at: WallTime(at.0 + 600_000),
        decided_by: None,
        comment: None,
    }
}

#[test]
fn what_no_signed_checkpoint_seals_stays() {
    let (_disk, mut driven) = driven(small());
    let sealed = driven.work(0, 60);
    let early = &sealed[2];
    let stays = apply_retention(&driven.inner, NOTHING, early, &key()).unwrap();
    assert!(
        stays.removed_segments <= 1
            && stays.blocked_reason.unwrap().contains("not sealed by a signed")
    );
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
    assert_eq!(retained.removed_segments, 2);
    assert!(retained.blocked_reason.unwrap().contains("was changed"));
    assert!(disk.files().contains_key(&third));
    assert_eq!(look(&disk, &[]).findings[0].damage, DamageKind::CorruptRecord);
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
    assert_eq!(driven.recovery.open_calls, [id(6_000)]);
    driven.work(200, 3);
    // Its intent goes while it runs no more, and its outcome stays in a later segment.
    let (ticket, _) = driven.begin(&intent(6_001), Durability::Written).unwrap();
    driven.work(300, 8);
    driven.inner.append_outcome(ticket.mark_complete(), &end(6_001), Durability::Written).unwrap();
    driven.work(400, 40);
    for _ in 0..3 {
        driven.retain_some(4);
        let report = look(&disk, &[]);
        assert!(report.is_sound(), "{:?}", report.findings);
        assert_eq!(report.writers[0].unknown_calls, 1, "{:?}", report.writers);
    }
    driven.retain_all(NOTHING);
    let report = look(&disk, &[]);
    assert!(report.is_sound(), "{:?}", report.findings);
    assert_eq!(
        (report.writers[0].open_calls, report.writers[0].removed.as_ref().unwrap().open_calls),
        (1, 1)
    );
    driven.close();
    let driven = Driven::open(disk.shared(), small()).unwrap();
    assert_eq!(driven.recovery.open_calls, [id(6_000)]);
}

impl Driven {
    /// Removes about so many segments.
    fn retain_some(&mut self, many: usize) {
        let dir = Path::new(DIR);
        let there = summarize_writers(dir, &self.inner.writer_dir.disk).unwrap();
        let most = there[0].bytes.saturating_sub(many as u64 * (4 << 10));
        self.retain(RetentionPolicy { max_age: None, max_bytes: Some(most) }).unwrap();
        self.syncer.run_once(true);
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
            driven.retain(RetentionPolicy { max_age: None, max_bytes: Some(40 << 10) }).ok();
            deaths += u32::from(disk.world().fuse == Some(0));
            disk.crash(how);
            drop(driven);
            let report = look(&disk, &sealed[..sealed.len() - 2]);
            assert!(report.is_sound(), "{fuse} {how:?}: {:?}", report.findings);
            let mut driven = Driven::open(disk.shared(), small()).unwrap();
            assert_eq!(driven.recovery.findings, [], "{fuse} {how:?}");
            driven.work(1_000, 5);
            driven.retain_all(RetentionPolicy { max_age: None, max_bytes: Some(20 << 10) });
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
    driven.retain_all(RetentionPolicy { max_age: None, max_bytes: Some(60 << 10) });
    sealed.extend(driven.work(1_000, 40));
    driven.retain_all(RetentionPolicy { max_age: None, max_bytes: Some(30 << 10) });
    let (other, mut else_driven) = super::fixture::driven(small());
    let theirs = else_driven.work(500, 120);
    let last = sealed.last().unwrap().frame_count;
    let gone = look(&disk, &[]).writers[0].removed.clone().unwrap().records;
    assert!(gone > last / 3 && gone < last, "{gone} of {last}");
    let (mut random, mut proved, mut across) = (Random::new(9), 0, 0);
    for _ in 0..seeds() / 5 {
        let (a, b) = (random.index(sealed.len()), random.index(sealed.len()));
        let (a, b) = (&sealed[a.min(b)], &sealed[a.max(b)]);
        let proof = build_consistency_proof(Path::new(DIR), &disk.shared(), a, b).unwrap();
        proof.verify_proof(a, b).unwrap();
        proved += 1;
        across += u32::from(a.frame_count < gone && b.frame_count > gone);
        // Forged: another record's checkpoint of the same size, a root of its own, a path of its own.
        let mut forged = b.clone();
        forged.root.0[random.index(32)] ^= 1;
        build_consistency_proof(Path::new(DIR), &disk.shared(), a, &forged).unwrap_err();
        assert!(a == b || proof.verify_proof(a, &forged).is_err());
        if let Some(path) = proof.path.len().checked_sub(1) {
            let mut lie: ConsistencyProof = proof.clone();
            lie.path[random.index(path + 1)].0[0] ^= 1;
            lie.verify_proof(a, b).unwrap_err();
        }
        let foreign = &theirs[random.index(theirs.len())];
        let (x, y) = if foreign.frame_count < b.frame_count { (foreign, b) } else { (b, foreign) };
        build_consistency_proof(Path::new(DIR), &disk.shared(), x, y).unwrap_err();
        build_consistency_proof(Path::new(DIR), &other.shared(), x, y).unwrap_err();
    }
    println!("{proved} pairs proved, {across} of them from what is gone to what is there");
    assert!(across > 10, "{across}");
    // A size without a stored node is an error, not a proof.
    let mut between = sealed[0].clone();
    between.frame_count += 1;
    let told =
        build_consistency_proof(Path::new(DIR), &disk.shared(), &between, sealed.last().unwrap());
    assert!(told.unwrap_err().message.contains("has no node for it"));
}

#[test]
fn a_tombstone_that_was_changed_forged_or_taken_away_is_found() {
    let (disk, mut driven) = driven(small());
    let sealed = driven.work(0, 120);
    driven.retain_all(RetentionPolicy { max_age: None, max_bytes: Some(30 << 10) });
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
    let foreign = CheckpointSigningKey::generate().unwrap();
    let other = |writer: &str| vec![foreign.verifier_key_of(writer)];
    let report = verify_signed_record(Path::new(DIR), &disk.shared(), &[], Some(&other)).unwrap();
    assert!(report.findings.iter().all(|found| found.damage == DamageKind::InvalidTombstone));
    assert_eq!(report.findings.len(), tombs.len());
    // Without a key, the report states that nothing was verified.
    let report = verify_signed_record(Path::new(DIR), &disk.shared(), &[], None).unwrap();
    let unchecked = report.writers[0].removed.as_ref().unwrap().unverified_tombstones;
    assert!(report.is_sound() && unchecked as usize == tombs.len());
}

#[tokio::test]
async fn who_reads_finds_what_is_there_and_nothing_else() {
    let disk = SimDisk::new(1);
    let (mut ledger, clock) = threaded(&disk, small());
    for number in 0..200 {
        let ticket =
            tool::Ledger::record_intent(&ledger, intent(number), Durability::Synced).await.unwrap();
        tool::Ledger::record_outcome(&ledger, ticket, end(number), Durability::Full).await.unwrap();
        clock.go(100);
    }
    ledger.close_ledger();
    (ledger, _) = threaded(&disk, small());
    let signed = ledger.last_checkpoint().unwrap();
    let retained = ledger
        .apply_retention(
            RetentionPolicy { max_age: None, max_bytes: Some(60 << 10) },
            &signed,
            &key(),
        )
        .unwrap();
    assert_eq!((retained.removed_segments, retained.blocked_reason), (16, None));
    let query = RecordQuery { limit: 1_000, ..RecordQuery::default() };
    let records = tool::ledger::RecordReader::list_records(&ledger, query).await.unwrap();
    let gone = look(&disk, &[]).writers[0].removed.clone().unwrap();
    assert!(records.records.iter().all(|record| record.sequence > gone.last_seq));
    assert_eq!(tool::ledger::RecordReader::list_for_call(&ledger, id(0)).await.unwrap(), []);
    assert_eq!(tool::ledger::RecordReader::list_for_call(&ledger, id(199)).await.unwrap().len(), 2);
}
