//! Starts that take old segments from their summaries: what they read, and that they find what a start
//! finds that reads all frames.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use tool::Durability;
use tool::ledger::RecordInspector as _;

use super::fixture::{Driven, Random, end, intent, seeds, threaded};
use super::sim_disk::{Crash, SimDisk};
use super::start::{open, options, write_old_segments};
use crate::filter_thread::refresh_filters;
use crate::ledger_options::LedgerOptions;
use crate::recovery::RecoveryReport;
use crate::segment::{parse_filter_name, parse_segment_name};
use crate::segment_filter::PAGE_BYTES;
use crate::summary_check::SummaryCheck;

type Files = BTreeMap<String, Vec<u8>>;
/// A change of a filter, and its name.
type Change<'c> = (&'c str, &'c dyn Fn(&mut Vec<u8>));

/// A record with filters of all closed segments. Returns the calls that it leaves open.
fn summarized_record() -> (Files, RecoveryReport) {
    let disk = SimDisk::new(1);
    let (driven, _open_calls) = write_old_segments(&disk);
    refresh_filters(&driven.inner);
    driven.close();
    let all_frames = open(&SimDisk::holding(&without_filters(&disk.files())), 20).1;
    (disk.files(), all_frames)
}

fn without_filters(files: &Files) -> Files {
    let others = files.iter().filter(|(name, _)| parse_filter_name(name).is_none());
    others.map(|(name, bytes)| (name.clone(), bytes.clone())).collect()
}

fn filter_names(files: &Files) -> Vec<String> {
    files.keys().filter(|name| parse_filter_name(name).is_some()).cloned().collect()
}

/// Opens the record, checks the segments that the start did not read, builds filters, and closes it.
/// Returns the number of segments that were checked, and how many of them were damaged.
fn check_after_start(disk: &SimDisk) -> (usize, u64) {
    let driven = Driven::open(disk.shared(), options(20)).unwrap();
    let mut check = SummaryCheck::new(&driven.inner);
    let mut checked = 0;
    while check.next_pause().is_some() {
        check.check_next(&driven.inner);
        checked += 1;
    }
    refresh_filters(&driven.inner);
    let damaged = driven.inner.damaged_segments.load(Ordering::Relaxed);
    driven.close();
    (checked, damaged)
}

/// The controls are a start without filters, and one whose index needs all records.
#[test]
fn a_start_reads_the_newest_segments_and_knows_what_the_old_ones_leave_open() {
    let (files, all_frames) = summarized_record();
    let (read, summarized) = open(&SimDisk::holding(&files), 20);
    assert!(read < 30, "{read} %");
    assert_eq!(summarized, all_frames);
    assert_eq!(summarized.open_call_count, 4);
    assert!(summarized.segments > 10, "{summarized:?}");
    let (read, _) = open(&SimDisk::holding(&without_filters(&files)), 20);
    assert!(read >= 100, "{read} %");
    let (read, indexed) = open(&SimDisk::holding(&files), 1_000_000);
    assert!(read > 190, "{read} %");
    assert_eq!(indexed.open_calls, all_frames.open_calls);
}

#[test]
fn a_damaged_summary_does_not_count_and_is_written_anew() {
    let (files, all_frames) = summarized_record();
    let pages = |bytes: &[u8]| bytes.len() / PAGE_BYTES * PAGE_BYTES;
    let changes: [Change<'_>; 4] = [
        ("its last byte", &|bytes| *bytes.last_mut().unwrap() ^= 1),
        ("cut", &|bytes| bytes.truncate(bytes.len() - 1)),
        ("none", &|bytes| bytes.truncate(pages(bytes))),
        ("its length", &|bytes| {
            bytes[1_120] ^= 1;
            let sum = crc32fast::hash(&bytes[..PAGE_BYTES - 4]).to_le_bytes();
            bytes[PAGE_BYTES - 4..PAGE_BYTES].copy_from_slice(&sum);
        }),
    ];
    for (what, change) in changes {
        let mut files = files.clone();
        for name in filter_names(&files) {
            change(files.get_mut(&name).unwrap());
        }
        let (read, recovery) = open(&SimDisk::holding(&files), 20);
        assert!(read >= 100, "{what}: {read} %");
        assert_eq!(recovery, all_frames, "{what}");
        let disk = SimDisk::holding(&files);
        check_after_start(&disk);
        let (read, _) = open(&disk, 20);
        assert!(read < 30, "{what}: {read} %");
    }
}

/// The control is the same record without damage.
#[test]
fn damage_in_a_segment_that_the_start_did_not_read_is_found_after_it_and_by_the_next_start() {
    let (files, _) = summarized_record();
    let disk = SimDisk::holding(&files);
    let (checked, damaged) = check_after_start(&disk);
    assert!(checked > 5, "{checked}");
    assert_eq!(damaged, 0);
    for name in filter_names(&files).iter().take(3) {
        let disk = SimDisk::holding(&files);
        let segment = name.replace(".filter", ".seg");
        let mut bytes = files[&segment].clone();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        disk.replace(&segment, &bytes);
        let before = open(&SimDisk::holding(&disk.files()), 20).1;
        assert_eq!(before.findings, [], "{segment} is not read");
        assert_eq!(check_after_start(&disk).1, 1, "{segment}");
        let (_, next) = open(&disk, 20);
        assert!(next.findings.iter().all(|it| it.segment == segment), "{next:?}");
        assert!(!next.findings.is_empty(), "{segment}");
    }
}

/// Damage that a start has found stays found when its segment has left the index.
#[test]
fn damage_that_one_start_found_is_found_by_the_next_ones() {
    let (files, _) = summarized_record();
    let disk = SimDisk::holding(&files);
    let segment = filter_names(&files)[0].replace(".filter", ".seg");
    let mut bytes = files[&segment].clone();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    disk.replace(&segment, &bytes);
    assert_eq!(open(&SimDisk::holding(&disk.files()), 20).1.findings, [], "the control");
    let all_are_read = open(&disk, 1_000_000).1;
    assert!(!all_are_read.findings.is_empty());
    assert_eq!(open(&disk, 20).1.findings, all_are_read.findings);
}

/// The control is a segment that can be read.
#[test]
fn a_segment_that_cannot_be_read_for_a_while_is_not_damaged() {
    let (files, _) = summarized_record();
    let disk = SimDisk::holding(&files);
    let driven = Driven::open(disk.shared(), options(20)).unwrap();
    let mut check = SummaryCheck::new(&driven.inner);
    disk.world().failing_reads = Some(std::io::ErrorKind::OutOfMemory);
    for _ in 0..100 {
        check.check_next(&driven.inner);
    }
    assert_eq!(driven.inner.damaged_segments.load(Ordering::Relaxed), 0);
    disk.world().failing_reads = None;
    let mut checked = 0;
    while check.next_pause().is_some() {
        check.check_next(&driven.inner);
        checked += 1;
    }
    assert!(checked > 5, "all are checked later: {checked}");
    assert_eq!(driven.inner.damaged_segments.load(Ordering::Relaxed), 0);
}

/// The thread of the ledger checks the segments, and what it finds counts as damage of the record.
#[tokio::test]
async fn the_storage_of_a_record_tells_of_damage_that_was_found_after_the_start() {
    let (files, _) = summarized_record();
    for is_damaged in [false, true] {
        let disk = SimDisk::holding(&files);
        let segment = filter_names(&files)[1].replace(".filter", ".seg");
        let mut bytes = files[&segment].clone();
        let middle = bytes.len() / 2;
        bytes[middle] ^= u8::from(is_damaged);
        disk.replace(&segment, &bytes);
        let (ledger, _) = threaded(&disk, options(20));
        let all = ledger.inner.lock_unchecked_segments().len();
        let damage = async || ledger.read_storage().await.unwrap().damage_count;
        for _ in 0..1_000 {
            if damage().await > 0 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(if is_damaged { 10 } else { 1 }))
                .await;
        }
        assert_eq!(damage().await, u64::from(is_damaged), "{all}");
    }
}

/// Writes a life of the record, which ends in order, by a kill, or by a loss of power.
fn write_life(disk: &SimDisk, random: &mut Random, next_call: &mut u64) {
    let options = LedgerOptions { checkpoint_records: 8, ..options(20) };
    let driven = Driven::open(disk.shared(), LedgerOptions { segment_bytes: 8 << 10, ..options });
    let Ok(mut driven) = driven else { return };
    let mut running = Vec::new();
    for _ in 0..random.below(150) {
        match random.below(12) {
            0..=6 => {
                let need =
                    if random.percent(50) { Durability::Synced } else { Durability::Written };
                if let Ok((ticket, _)) = driven.begin(&intent(*next_call), need) {
                    running.push((*next_call, ticket));
                }
                *next_call += 1;
            }
            7..=9 if !running.is_empty() => {
                let (number, ticket) = running.swap_remove(random.index(running.len()));
                let complete = ticket.mark_complete();
                drop(driven.inner.append_outcome(complete, &end(number), Durability::Written));
            }
            10 => refresh_filters(&driven.inner),
            _ => driven.syncer.run_once(random.percent(30)),
        }
    }
    match random.below(3) {
        0 => driven.close(),
        1 => disk.crash(Crash::Kill),
        _ => disk.crash(Crash::Power),
    }
}

/// Removes or cuts a segment, or leaves all as they are.
fn damage_files(files: &mut Files, random: &mut Random) {
    let segments: Vec<_> =
        files.keys().filter(|name| parse_segment_name(name).is_some()).cloned().collect();
    if segments.is_empty() || random.percent(60) {
        return;
    }
    let name = &segments[random.index(segments.len())];
    if random.percent(50) {
        files.remove(name);
    } else if let Some(bytes) = files.get_mut(name) {
        bytes.truncate(random.index(bytes.len().max(1)));
    }
}

#[test]
fn a_start_with_summaries_finds_what_a_start_that_reads_all_frames_finds() {
    let (mut skipped, mut with_findings, mut with_open_calls) = (0, 0, 0);
    for seed in 0..seeds() / 4 {
        let mut random = Random::new(seed);
        let disk = SimDisk::new(seed);
        let mut next_call = 0;
        for _ in 0..=random.below(4) {
            write_life(&disk, &mut random, &mut next_call);
        }
        let mut files = disk.files();
        damage_files(&mut files, &mut random);
        let opened = |files: &Files| {
            let disk = SimDisk::holding(files);
            let before = disk.bytes_read(".seg");
            let driven = Driven::open(disk.shared(), options(20)).ok()?;
            Some((driven.recovery, disk.bytes_read(".seg") - before))
        };
        let (with, without) = (opened(&files), opened(&without_filters(&files)));
        assert_eq!(with.is_some(), without.is_some(), "seed {seed}");
        let (Some((with, read)), Some((without, all))) = (with, without) else { continue };
        assert_eq!(with, without, "seed {seed}");
        skipped += usize::from(read < all);
        with_findings += usize::from(!with.findings.is_empty());
        with_open_calls += usize::from(with.open_call_count > 0);
    }
    let runs = usize::try_from(seeds() / 4).unwrap();
    assert!(skipped > runs / 4, "{skipped} starts skip segments");
    assert!(with_findings > runs / 20, "{with_findings} records are damaged");
    assert!(with_open_calls > runs / 4, "{with_open_calls} records have open calls");
}
