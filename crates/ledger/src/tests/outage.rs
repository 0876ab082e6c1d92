//! Disks that fail, hang and deny; a thread that dies.

use std::io;
use std::path::Path;
use std::time::Duration;

use tool::call_outcome::CallStatus;
use tool::ledger::{RecordKind, RecordReader as _};
use tool::{Durability, ErrorCode, Ledger as _, OutcomeRecord};

use super::fixture::{DIR, Driven, check, driven, end, id, intent, small, threaded};
use super::sim_disk::{Crash, SimDisk};
use crate::disk::{Disk as _, OpenMode};
use crate::ledger_options::LedgerOptions;
use crate::verification::verify_record;

/// The control for all that follows: to ask the same file again is to lose what was written.
#[test]
fn a_second_sync_of_the_same_file_proves_nothing() {
    let disk = SimDisk::new(1);
    let file = disk.open_file(Path::new("a"), OpenMode::Truncate).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    file.append_bytes(b"record").unwrap();
    disk.world().failing_syncs = 100;
    file.sync_data().unwrap_err();
    disk.world().failing_syncs = 0;
    file.sync_data().unwrap();
    disk.crash(Crash::Power);
    assert!(!disk.files()["a"].starts_with(b"record"), "the disk keeps what its sync failed on");
}

#[test]
fn after_a_failed_sync_the_records_go_on_in_a_new_segment() {
    let (disk, mut driven) = driven(small());
    driven.call(0);
    driven.syncer.run_once(true);
    // In the file, and not on the disk: records that needed no sync, and one that does.
    driven.call(1);
    let (ticket, confirmed) = driven.begin(&intent(2), Durability::Synced).unwrap();
    fail_next_sync(&disk);
    driven.syncer.run_once(false);
    confirmed.unwrap().try_recv().unwrap().unwrap();
    driven.inner.check_health().unwrap();
    disk.crash(Crash::Power);
    drop(ticket);
    let driven = Driven::open(disk.shared(), small()).unwrap();
    assert_eq!(driven.recovery.open_calls, [id(2)]);
    assert_eq!(driven.recovery.findings, []);
    let report = verify_record(Path::new(DIR), &disk.shared(), &[]).unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert_eq!((report.writers[0].intents, report.writers[0].outcomes), (3, 2));
    assert_eq!((report.writers[0].open_calls, report.writers[0].unknown_calls), (1, 1));
}

/// The next sync fails, those after it do not.
fn fail_next_sync(disk: &SimDisk) {
    disk.world().fail_syncs_once = true;
}

#[test]
fn where_no_disk_takes_it_the_ledger_stops_says_so_and_comes_back() {
    let (disk, mut driven) = driven(small());
    driven.call(0);
    let (ticket, confirmed) = driven.begin(&intent(1), Durability::Synced).unwrap();
    let (running, _) = driven.begin(&intent(2), Durability::Written).unwrap();
    disk.world().failing_syncs = 100;
    driven.syncer.run_once(false);
    let told = confirmed.unwrap().try_recv().unwrap().unwrap_err();
    assert!(told.message.starts_with("cannot create a new segment in `/record`"), "{told}");
    driven.inner.append_not_executed(ticket.mark_complete());
    // It takes nothing, and what ends meanwhile is not forgotten.
    for need in [Durability::Written, Durability::Synced] {
        assert_eq!(driven.begin(&intent(9), need).unwrap_err(), told);
    }
    assert_eq!(driven.inner.check_health(), Err(told));
    driven.inner.append_outcome(running.mark_complete(), &end(2), Durability::Written).unwrap_err();
    for _ in 0..3 {
        driven.syncer.run_once(true);
        assert!(driven.inner.check_health().is_err());
    }
    disk.world().failing_syncs = 0;
    driven.syncer.run_once(true);
    driven.inner.check_health().unwrap();
    driven.call(3);
    driven.close();
    check(&disk, 4);
}

/// No record, no execution: however the record fails, no call begins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_begins_without_its_record() {
    let (mut began, mut tried) = (0, 0);
    for way in 0..6 {
        let disk = SimDisk::new(way);
        let options = LedgerOptions { sync_timeout: Duration::from_millis(20), ..small() };
        let (ledger, _) = threaded(&disk, options);
        match way {
            0 => {
                disk.world().capacity = Some(0);
                // From here on the rest of the reserve is for calls without effects. At this rate
                // of calls none is left.
                while let Ok(ticket) =
                    ledger.record_intent(intent(1 << 30), Durability::Written).await
                {
                    ledger.record_outcome(ticket, end(1), Durability::Written).await.ok();
                }
            }
            1 => disk.world().failing_writes = Some(io::ErrorKind::Other),
            2 => disk.world().failing_writes = Some(io::ErrorKind::PermissionDenied),
            3 => disk.hang(true),
            4 => ledger.close_ledger(),
            _ => disk.world().deadly_syncs = true,
        }
        // A disk that hangs costs each caller its whole wait.
        let calls = if way == 3 { 50 } else { 2_000 };
        for number in 0..calls {
            tried += 1;
            match ledger.record_intent(intent(number), Durability::Synced).await {
                Ok(_) => began += 1,
                Err(error) => assert!(error.message.len() > 20, "{error}"),
            }
        }
        disk.hang(false);
    }
    println!("{began} of {tried} calls began");
    assert_eq!((began, tried), (0, 10_050));
}

/// The caller learned that its call does not run, so the record must state that too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_the_disk_did_not_confirm_in_time_is_refused() {
    let disk = SimDisk::new(1);
    let options = LedgerOptions { sync_timeout: Duration::from_millis(20), ..small() };
    let (ledger, clock) = threaded(&disk, options);
    disk.hang(true);
    let error = ledger.record_intent(intent(1), Durability::Synced).await.unwrap_err();
    assert_eq!(
        error.message,
        "the disk of `/record` did not sync a record within 20 ms; check its load and health"
    );
    clock.go(1_000);
    assert!(ledger.check_health().unwrap_err().message.contains("did not sync a record"));
    disk.hang(false);
    let records = ledger.list_for_call(id(1)).await.unwrap();
    let kinds = records.iter().map(|record| record.kind).collect::<Vec<_>>();
    assert_eq!(kinds, [RecordKind::Intent, RecordKind::Outcome]);
    let end = records[1].body.decode::<OutcomeRecord>().unwrap();
    assert_eq!((end.status, end.code), (CallStatus::Refused, Some(ErrorCode::RecordUnavailable)));
    drop(ledger);
    check(&disk, 1);
}

#[test]
fn more_than_may_wait_for_the_disk_is_refused() {
    let (disk, mut driven) = driven(LedgerOptions { max_unsynced_bytes: 64 << 10, ..small() });
    let mut number = 0;
    let error = loop {
        match driven.begin(&intent(number), Durability::Written) {
            Ok((ticket, _)) => drop(ticket),
            Err(error) => break error,
        }
        number += 1;
    };
    assert!(error.message.starts_with("the disk of `/record` is too slow"), "{error}");
    assert!((50..200).contains(&number), "{number}");
    driven.syncer.run_once(false);
    driven.call(number);
    driven.close();
    check(&disk, number + 1);
}

#[test]
fn after_a_fault_while_writing_the_ledger_goes_on_with_what_is_whole() {
    let (disk, mut driven) = driven(small());
    driven.call(0);
    let (running, _) = driven.begin(&intent(1), Durability::Written).unwrap();
    driven.inner.poison();
    let error = driven.begin(&intent(2), Durability::Written).unwrap_err();
    assert!(error.message.starts_with("an internal error of Toolkeep"), "{error}");
    driven.inner.append_outcome(running.mark_complete(), &end(1), Durability::Written).unwrap_err();
    driven.syncer.run_once(true);
    driven.call(2);
    driven.close();
    check(&disk, 3);
}

/// Space that was allocated for a file no longer written is released.
#[test]
fn room_of_a_segment_that_is_left_is_given_back() {
    let (disk, mut driven) = driven(small());
    driven.call(0);
    let before = disk.world().used();
    for _ in 0..20 {
        driven.call(1);
        driven.inner.poison();
        drop(driven.inner.lock_state());
        driven.syncer.run_once(true);
        driven.inner.check_health().unwrap();
    }
    let after = disk.world().used();
    assert!(after < before + 20 * 2_048, "{before} {after}");
}
