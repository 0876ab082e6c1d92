//! Counts the bytes of the record that a start reads.

use tool::Durability;

use super::fixture::{Driven, id, intent};
use super::sim_disk::SimDisk;
use crate::ledger_options::LedgerOptions;
use crate::recovery::RecoveryReport;
use crate::segment::parse_segment_name;

fn options(max_index_entries: usize) -> LedgerOptions {
    LedgerOptions {
        segment_bytes: 64 << 10,
        reserve_bytes: 4 << 10,
        max_index_entries,
        ..LedgerOptions::default()
    }
}

/// Opens the record. Returns the bytes of its segments that were read, as a percentage of their size.
fn open(disk: &SimDisk, max_index_entries: usize) -> (u64, RecoveryReport) {
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

/// The control is an index that needs all of them.
#[test]
fn a_start_reads_old_segments_once_and_knows_the_calls_that_they_leave_open() {
    let disk = SimDisk::new(1);
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
        if number % 20 == 0 {
            driven.syncer.run_once(false);
        }
    }
    for (number, ticket) in open_calls.drain(..4) {
        let end = super::fixture::end(number);
        driven.inner.append_outcome(ticket.mark_complete(), &end, Durability::Written).unwrap();
    }
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
