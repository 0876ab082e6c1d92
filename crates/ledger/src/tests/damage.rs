//! Damage to a directory that the ledger wrote on this machine's disk: a flipped bit, a truncation, a zeroed range, a
//! deleted file. `verify` reports each one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tool::{Durability, Ledger as _, Mono};

use super::fixture::{DIR, Hand, Random, end, intent, seeds};
use super::retain::{key, signers};
use super::sim_disk::SimDisk;
use super::tamper::Files;
use crate::disk::{Disk as _, RealDisk};
use crate::file_ledger::FileLedger;
use crate::options::Options;
use crate::retain::Keep;
use crate::segment::{HEADER, Header, parse_filter, parse_name, parse_tomb};
use crate::signed::Seals;
use crate::verify::{Report, verify_signed};

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

fn options() -> Options {
    Options {
        segment_bytes: 8 << 10,
        reserve_bytes: 4 << 10,
        checkpoint_records: 20,
        idle: Duration::from_secs(4),
        ..Options::default()
    }
}

/// Writes several segments, checkpoints and tombstones, as a server does, and reads what is in the directory then.
async fn written(how: End) -> Files {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(Hand::default());
    let opened = FileLedger::open(dir.path(), Arc::new(RealDisk), clock, options());
    let (ledger, _) = opened.unwrap();
    let mut seals = Seals::new(key(), dir.path().to_owned(), None);
    let (mut number, mut removed) = (0, 0);
    // The thread writes checkpoints beside the calls.
    while number < 160 || removed < 3 {
        let ticket = ledger.begin(intent(number), Durability::Synced).await.unwrap();
        ledger.finish(ticket, end(number), Durability::Written).await.unwrap();
        seal(&ledger, &mut seals, number);
        if number > 120 && removed < 3 {
            let keep = Keep { age: None, bytes: Some(48 << 10) };
            removed += seals.retain(&ledger, keep).unwrap().removed;
        }
        number += 1;
    }
    // Fewer than the thread would sync by itself.
    for number in number..number + 8 {
        let ticket = ledger.begin(intent(number), Durability::Written).await.unwrap();
        ledger.finish(ticket, end(number), Durability::Written).await.unwrap();
    }
    if how == End::Closed {
        ledger.close();
        seal(&ledger, &mut seals, 1_000);
    }
    // Nothing is written meanwhile.
    let state = ledger.inner.lock();
    let files = read(dir.path());
    drop(state);
    files
}

fn seal(ledger: &FileLedger, seals: &mut Seals, second: u64) {
    seals.seal(ledger, Mono(Duration::from_secs(second)), false).unwrap();
}

/// The files of the record; the lock and what has no name yet hold nothing of it.
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

/// Does one of [`KINDS`] to one file. `None` where that changes nothing.
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

fn look(files: &Files) -> Report {
    let disk = SimDisk::holding(files);
    disk.world().boot = RealDisk.boot();
    verify_signed(Path::new(DIR), &disk.shared(), &[], Some(&signers)).unwrap()
}

/// The same record as an older version left it: nothing beside it says how far it goes.
fn as_before(files: &Files) -> Files {
    let mut files = files.clone();
    files.retain(|name, _| parse_name(name).is_some() || parse_tomb(name).is_some());
    for (name, bytes) in &mut files {
        if parse_name(name).is_some() {
            let header = Header { has_progress: false, ..Header::decode(bytes).unwrap() };
            bytes[..HEADER].copy_from_slice(&header.encode());
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
        // They are made of the record and no part of it: `lookups` damages them.
        good.retain(|name, _| parse_filter(name).is_none());
        let report = look(&good);
        assert!(report.is_sound(), "{how:?}: {report:?}");
        let of = |ending: &str| good.keys().filter(|name| name.ends_with(ending)).count();
        assert!(of(".seg") > 4 && of(".tomb") > 2 && of(".checkpoint") == 1, "{:?}", good.keys());
        assert_eq!(report.writers[0].cuts, [], "{how:?}");
        // Deep, 10,000 in all.
        let many = if seeds() > 1_000 { 5_000 } else { 300 };
        let (missed, tried) = undetected(&good, many);
        println!("{how:?}: {} of {many} damages undetected; of each kind {tried:?}", missed.len());
        assert!(tried.iter().all(|tried| *tried > many / 8), "{tried:?}");
        assert_eq!(told(&missed), Vec::<String>::new(), "{how:?}: {} undetected", missed.len());
        // The control: the same record without what stands beside it, as it was before.
        let before = as_before(&good);
        assert!(look(&before).is_sound());
        let (missed, _) = undetected(&before, many / 2);
        println!("{how:?}: as it was before, {} of {} undetected", missed.len(), many / 2);
        let newest = before.keys().rfind(|name| parse_name(name).is_some()).unwrap();
        for (files, sound) in [(&before, true), (&good, false)] {
            let mut files = files.clone();
            files.remove(newest);
            assert_eq!(look(&files).is_sound(), sound, "{how:?}");
        }
    }
}
