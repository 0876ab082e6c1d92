//! Counts the bytes of the record that a start reads.

use std::collections::BTreeMap;

use tool::ledger::RecordQuery;
use tool::{Durability, IntentReceipt};

use super::fixture::{Driven, id, intent};
use super::sim_disk::SimDisk;
use crate::ledger_options::LedgerOptions;
use crate::record_search::RecordSearch;
use crate::recovery::RecoveryReport;
use crate::segment::parse_segment_name;

pub(super) fn options(max_index_entries: usize) -> LedgerOptions {
    LedgerOptions {
        segment_bytes: 64 << 10,
        reserve_bytes: 4 << 10,
        max_index_entries,
        ..LedgerOptions::default()
    }
}

/// Opens the record. Returns the bytes of its segments that were read, as a percentage of their size.
pub(super) fn open(disk: &SimDisk, max_index_entries: usize) -> (u64, RecoveryReport) {
    let files = disk.files();
    let segments = files.iter().filter(|(name, _)| parse_segment_name(name).is_some());
    let size = segments.map(|(_, bytes)| bytes.len() as u64).sum::<u64>();
    let before = disk.bytes_read(".seg");
    let driven = Driven::open(disk.shared(), options(max_index_entries)).unwrap();
    let read = disk.bytes_read(".seg") - before;
    let recovery = driven.recovery.clone();
    driven.close();
    (read * 100 / size, recovery)
}

/// Writes a record of many segments, in which some calls end in a later segment and some never. Returns the
/// latter, oldest first.
pub(super) fn write_old_segments(disk: &SimDisk) -> (Driven, Vec<(u64, IntentReceipt)>) {
    let mut driven = Driven::open(disk.shared(), options(20)).unwrap();
    let mut open_calls = Vec::new();
    for number in 0..2_000 {
        if number % 250 == 7 {
            // Its intent and its outcome are in different segments, or it has none.
            let (ticket, _) = driven.begin(&intent(number), Durability::Written).unwrap();
            open_calls.push((number, ticket));
        } else {
            driven.call(number);
        }
        if number == 1_000 {
            // The outcome is in an old segment too, which is skipped.
            let (number, ticket) = open_calls.remove(1);
            let end = super::fixture::end(number);
            driven.inner.append_outcome(ticket.mark_complete(), &end, Durability::Written).unwrap();
        }
        if number % 20 == 0 {
            driven.syncer.run_once(false);
        }
    }
    for (number, ticket) in open_calls.drain(..3) {
        let end = super::fixture::end(number);
        driven.inner.append_outcome(ticket.mark_complete(), &end, Durability::Written).unwrap();
    }
    (driven, open_calls)
}

/// The control is an index that needs all of them.
#[test]
fn a_start_reads_old_segments_once_and_knows_the_calls_that_they_leave_open() {
    let disk = SimDisk::new(1);
    let (driven, open_calls) = write_old_segments(&disk);
    let still_open: Vec<_> = open_calls.iter().rev().map(|(number, _)| id(*number)).collect();
    driven.close();
    let (read, skipping) = open(&disk, 20);
    assert!((100..130).contains(&read), "{read} %");
    assert_eq!((&skipping.open_calls, skipping.open_call_count), (&still_open, 4));
    assert!(skipping.segments > 10 && skipping.findings.is_empty(), "{skipping:?}");
    let (read, replaying) = open(&disk, 1_000_000);
    assert!(read > 190, "{read} %");
    assert_eq!(replaying.open_calls, still_open);
    assert!(replaying.records >= skipping.records && skipping.records > 3_990, "{replaying:?}");
}

/// Returns the numbers of all records that lists show, and opens the record with an index of so many.
fn listed(files: &BTreeMap<String, Vec<u8>>, max_index_entries: usize) -> Vec<u64> {
    let disk = SimDisk::holding(files);
    let driven = Driven::open(disk.shared(), options(max_index_entries)).unwrap();
    let (mut all, mut before_sequence) = (Vec::new(), None);
    loop {
        let query = RecordQuery { limit: 1_000, before_sequence, ..RecordQuery::default() };
        let page = RecordSearch::new(&driven.inner, query).list_page().unwrap();
        all.extend(page.records.iter().map(|record| record.sequence));
        before_sequence = page.next_before;
        if before_sequence.is_none() {
            return all;
        }
    }
}

/// A damaged old segment is visited, those after it are skipped, and the index ends short of its bound.
#[test]
fn a_start_shows_all_readable_records_where_old_segments_are_damaged_and_new_ones_missing() {
    let disk = SimDisk::new(1);
    let mut driven = Driven::open(disk.shared(), options(300)).unwrap();
    for number in 0..1_500 {
        driven.call(number);
        if number % 20 == 0 {
            driven.syncer.run_once(false);
        }
    }
    driven.close();
    let mut files = disk.files();
    let names: Vec<_> =
        files.keys().filter(|name| parse_segment_name(name).is_some()).cloned().collect();
    assert!(names.len() > 8, "{names:?}");
    let damaged = files.get_mut(&names[2]).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    files.remove(&names[names.len() - 2]).unwrap();
    let all = listed(&files, 1_000_000);
    let written = 3_000;
    assert!(all.len() > written / 2 && all.len() < written, "{}", all.len());
    assert_eq!(listed(&files, 300), all);
}
