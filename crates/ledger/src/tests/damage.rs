//! Damage to a directory that the ledger wrote on this machine's disk: a flipped bit, a truncation, a zeroed range, a
//! deleted file. `verify` reports each one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tool::{Durability, Ledger as _, MonotonicTime};

use super::fixture::{DIR, Hand, Random, end, intent, seeds};
use super::retain::{key, signers};
use super::sim_disk::SimDisk;
use super::tamper::Files;
use crate::disk::{Disk as _, OsDisk};
use crate::file_ledger::FileLedger;
use crate::ledger_options::LedgerOptions;
use crate::retention::RetentionPolicy;
use crate::segment::{
    SEGMENT_HEADER_BYTES, SegmentHeader, parse_filter_name, parse_segment_name,
    parse_tombstone_name,
};
use crate::signed_checkpoint::CheckpointPublisher;
use crate::verification::{VerificationReport, verify_signed_record};

/// How a writer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// In order.
    Closed,
    /// Killed, with records that were acknowledged and not synced.
    Killed,
}

const KINDS: [&str; 4] = ["flip a bit", "truncate a file", "zero a range", "delete a file"];

/// One of [`KINDS`], and the file.
type Done = (usize, String);

fn options() -> LedgerOptions {
    LedgerOptions {
        segment_bytes: 8 << 10,
        reserve_bytes: 4 << 10,
        checkpoint_records: 20,
        checkpoint_interval: Duration::from_secs(4),
        ..LedgerOptions::default()
    }
}

/// Writes several segments, checkpoints and tombstones, as a server does, and reads what is in the directory then.
async fn written(how: End) -> Files {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(Hand::default());
    let opened = FileLedger::open_directory(dir.path(), Arc::new(OsDisk), clock, options());
    let (ledger, _) = opened.unwrap();
    let mut seals = CheckpointPublisher::new(key(), dir.path().to_owned(), None);
    let (mut number, mut removed) = (0, 0);
    // The thread writes checkpoints in parallel to the calls.
    while number < 160 || removed < 3 {
        let ticket = ledger.record_intent(intent(number), Durability::Synced).await.unwrap();
        ledger.record_outcome(ticket, end(number), Durability::Written).await.unwrap();
        seal(&ledger, &mut seals, number);
        if number > 120 && removed < 3 {
            let keep = RetentionPolicy { max_age: None, max_bytes: Some(48 << 10) };
            removed += seals.apply_retention(&ledger, keep).unwrap().removed_segments;
        }
        number += 1;
    }
    // Fewer than the thread would sync by itself.
    for number in number..number + 8 {
        let ticket = ledger.record_intent(intent(number), Durability::Written).await.unwrap();
        ledger.record_outcome(ticket, end(number), Durability::Written).await.unwrap();
    }
    if how == End::Closed {
        ledger.close_ledger();
        seal(&ledger, &mut seals, 1_000);
    }
    // Nothing is written meanwhile.
    let state = ledger.inner.lock_state();
    let files = read(dir.path());
    drop(state);
    files
}

fn seal(ledger: &FileLedger, seals: &mut CheckpointPublisher, second: u64) {
    seals.publish_latest(ledger, MonotonicTime(Duration::from_secs(second)), false).unwrap();
}

/// The files of the record. The lock and unnamed files hold no part of it.
fn read(dir: &Path) -> Files {
    let mut files = Files::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let none = path.extension().is_some_and(|ending| ending == "lock" || ending == "tmp");
        if !none {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            files.insert(name, std::fs::read(path).unwrap());
        }
    }
    files
}

/// Applies one of [`KINDS`] to one file. `None` if the file stays unchanged.
fn damage(files: &mut Files, random: &mut Random) -> Option<Done> {
    let names: Vec<_> = files.keys().cloned().collect();
    let (name, kind) = (names[random.index(names.len())].clone(), random.index(KINDS.len()));
    let before = files[&name].clone();
    let mut bytes = before.clone();
    let at = random.index(bytes.len());
    match kind {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes.truncate(at),
        2 => {
            let to = at + 1 + random.index(bytes.len() - at);
            bytes[at..to].fill(0);
        }
        _ => {
            files.remove(&name);
            return Some((kind, name));
        }
    }
    files.insert(name.clone(), bytes);
    (files[&name] != before).then_some((kind, name))
}

fn look(files: &Files) -> VerificationReport {
    let disk = SimDisk::holding(files);
    disk.world().boot = OsDisk.boot_id();
    verify_signed_record(Path::new(DIR), &disk.shared(), &[], Some(&signers)).unwrap()
}

/// The same record as an older version left it, without a progress file.
fn as_before(files: &Files) -> Files {
    let mut files = files.clone();
    files.retain(|name, _| {
        parse_segment_name(name).is_some() || parse_tombstone_name(name).is_some()
    });
    for (name, bytes) in &mut files {
        if parse_segment_name(name).is_some() {
            let header = SegmentHeader {
                has_progress: false,
                ..SegmentHeader::decode_header(bytes).unwrap()
            };
            bytes[..SEGMENT_HEADER_BYTES].copy_from_slice(&header.encode_header());
        }
    }
    files
}

/// Damages that `verify` does not report, of `many`, and how many of each kind there were.
fn undetected(good: &Files, many: u64) -> (Vec<Done>, [u64; KINDS.len()]) {
    let (mut missed, mut tried) = (Vec::new(), [0; KINDS.len()]);
    let mut random = Random::new(12);
    while tried.iter().sum::<u64>() < many {
        let mut files = good.clone();
        let Some(done) = damage(&mut files, &mut random) else { continue };
        tried[done.0] += 1;
        if look(&files).is_sound() {
            missed.push(done);
        }
    }
    (missed, tried)
}

fn told(missed: &[Done]) -> Vec<String> {
    let mut told: Vec<_> =
        missed.iter().map(|(kind, name)| format!("{} of {name}", KINDS[*kind])).collect();
    told.sort_unstable();
    told.dedup();
    told
}

#[tokio::test]
async fn every_damage_is_detected() {
    for how in [End::Closed, End::Killed] {
        let mut good = written(how).await;
        // Filters are derived from the record and are no part of it; `lookups` tests their damage.
        good.retain(|name, _| parse_filter_name(name).is_none());
        let report = look(&good);
        assert!(report.is_sound(), "{how:?}: {report:?}");
        let of = |ending: &str| good.keys().filter(|name| name.ends_with(ending)).count();
        assert!(of(".seg") > 4 && of(".tomb") > 2 && of(".checkpoint") == 1, "{:?}", good.keys());
        assert_eq!(report.writers[0].discarded, [], "{how:?}");
        // Deep, 10,000 in all.
        let many = if seeds() > 1_000 { 5_000 } else { 300 };
        let (missed, tried) = undetected(&good, many);
        println!("{how:?}: {} of {many} damages undetected; of each kind {tried:?}", missed.len());
        assert!(tried.iter().all(|tried| *tried > many / 8), "{tried:?}");
        assert_eq!(told(&missed), Vec::<String>::new(), "{how:?}: {} undetected", missed.len());
        // Control: the same record in its old state, without the files beside it.
        let before = as_before(&good);
        assert!(look(&before).is_sound());
        let (missed, _) = undetected(&before, many / 2);
        println!("{how:?}: as it was before, {} of {} undetected", missed.len(), many / 2);
        let newest = before.keys().rfind(|name| parse_segment_name(name).is_some()).unwrap();
        for (files, sound) in [(&before, true), (&good, false)] {
            let mut files = files.clone();
            files.remove(newest);
            assert_eq!(look(&files).is_sound(), sound, "{how:?}");
        }
    }
}
