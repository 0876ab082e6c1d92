//! A disk without room.

use std::path::Path;

use tool::call_outcome::CallStatus;
use tool::{Durability, Ledger as _, OutcomeRecord};

use super::fixture::{DIR, Driven, check, driven, end, intent, refusal, threaded};
use super::sim_disk::SimDisk;
use crate::ledger_options::LedgerOptions;
use crate::verification::verify_record;

const RESERVE: u64 = 64 << 10;

fn options() -> LedgerOptions {
    LedgerOptions { reserve_bytes: RESERVE, ..LedgerOptions::default() }
}

fn used(disk: &SimDisk) -> u64 {
    disk.files().values().map(|bytes| bytes.len() as u64).sum()
}

/// Fills the disk; allocated space stays allocated.
fn fill(disk: &SimDisk) {
    disk.world().capacity = Some(0);
}

fn free(disk: &SimDisk) {
    disk.world().capacity = None;
}

#[test]
fn a_full_disk_refuses_effects_serves_the_rest_and_comes_back() {
    let (disk, mut driven) = driven(options());
    driven.call(0);
    fill(&disk);
    // Calls do not notice it until the reserve is used.
    let mut number = 1;
    while driven.inner.check_health().is_ok() {
        driven.call(number);
        driven.syncer.run_once(false);
        number += 1;
    }
    let why = driven.inner.check_health().unwrap_err().message;
    assert_eq!(
        why,
        "calls with side effects are rejected, because they cannot be recorded reliably in `/record`: no space left; free some space there; recording resumes within 5 seconds"
    );
    // Records that must be synced are refused, without a trace.
    for _ in 0..100 {
        let error = driven.begin(&intent(number), Durability::Synced).unwrap_err();
        assert_eq!(error.message, why);
        driven.inner.append_refusal(&refusal(number));
    }
    // Other records are accepted until the reserve is exhausted.
    let mut running = Vec::new();
    let last = loop {
        match driven.begin(&intent(number), Durability::Written) {
            Ok((ticket, _)) => running.push(ticket),
            Err(error) => break error.message,
        }
        number += 1;
        driven.syncer.run_once(number.is_multiple_of(10));
        assert!(driven.inner.check_health().is_err());
    };
    assert!(last.contains("the ledger's reserve is exhausted; free some space there"), "{last}");
    let served = running.len();
    println!("{served} calls from a reserve of {RESERVE} bytes, {} bytes are used", used(&disk));
    assert!(served as u64 > RESERVE / 2 / (512 + 600), "{served} calls were served");
    // Every call that runs has room for its outcome.
    for (ticket, at) in running.into_iter().zip(0..) {
        if at % 2 == 0 {
            drop(ticket);
        } else {
            driven
                .inner
                .append_outcome(ticket.mark_complete(), &end(at), Durability::Written)
                .unwrap();
        }
    }
    free(&disk);
    driven.syncer.run_once(true);
    driven.inner.check_health().unwrap();
    let (ticket, confirmed) = driven.begin(&intent(number), Durability::Synced).unwrap();
    driven.syncer.run_once(false);
    confirmed.unwrap().try_recv().unwrap().unwrap();
    driven.inner.append_outcome(ticket.mark_complete(), &end(number), Durability::Written).unwrap();
    // The refusals of the meantime are counted.
    driven.clock.go(2_000);
    driven.syncer.run_once(true);
    driven.close();
    check(&disk, number + 1);
    assert_eq!(verify_record(Path::new(DIR), &disk.shared(), &[]).unwrap().writers[0].gaps, 1);
}

/// Space that returns but stays below the reserve is reported correctly, and nothing remains
/// allocated.
#[test]
fn room_below_the_reserve_is_not_told_as_none() {
    let (disk, mut driven) = driven(options());
    driven.call(0);
    fill(&disk);
    let mut number = 1;
    while driven.inner.check_health().is_ok() {
        driven.call(number);
        driven.syncer.run_once(false);
        number += 1;
    }
    let told = |driven: &Driven| driven.inner.check_health().unwrap_err().message;
    assert!(told(&driven).contains("no space left; free some space there"), "{}", told(&driven));
    let room = |free: u64| {
        let taken = disk.world().used();
        disk.world().capacity = Some(taken + free);
    };
    // With all of the reserve still there, any room would do.
    let left =
        |driven: &Driven| driven.inner.lock_state().active_segment.as_ref().unwrap().reserve_left();
    while left(&driven) > RESERVE / 2 {
        driven.call(number);
        number += 1;
    }
    for (free, shown) in [(RESERVE / 8, "8 KiB"), (RESERVE / 32, "2 KiB")] {
        room(free);
        for _ in 0..2 {
            driven.syncer.run_once(true);
            let told = told(&driven);
            let expected = format!(
                "in `/record`: about {shown} are free, less than the ledger's reserve of 64 KiB; \
                 free some more space there"
            );
            assert!(told.contains(&expected), "{told}");
        }
    }
    let refused = loop {
        match driven.begin(&intent(number), Durability::Written) {
            Ok((ticket, _)) => drop(ticket),
            Err(error) => break error.message,
        }
        number += 1;
    };
    assert!(refused.contains("about 2 KiB are free, less than"), "{refused}");
    assert!(refused.contains("and the ledger's reserve is exhausted; free some more"), "{refused}");
    room(0);
    driven.syncer.run_once(true);
    assert!(told(&driven).contains("no space left"), "{}", told(&driven));
    free(&disk);
    driven.syncer.run_once(true);
    driven.inner.check_health().unwrap();
    driven.close();
    check(&disk, number);
}

#[test]
fn a_write_that_went_halfway_is_cut_back() {
    let disk = SimDisk::new(1);
    disk.world().can_reserve = false;
    let mut driven = Driven::open(disk.shared(), options()).unwrap();
    driven.call(0);
    let before = disk.files();
    // Room for a part of a record only.
    disk.world().capacity = Some(used(&disk) + 100);
    let error = driven.begin(&intent(1), Durability::Written).unwrap_err();
    let why = "a record cannot be written in `/record`: no space left; free some space there; \
        recording resumes within 5 seconds";
    assert_eq!(error.message, why);
    assert_eq!(disk.files(), before);
    // Such a disk cannot allocate: everything is refused.
    for need in [Durability::Written, Durability::Synced] {
        assert_eq!(driven.begin(&intent(1), need).unwrap_err().message, why);
    }
    driven.syncer.run_once(true);
    assert!(driven.inner.check_health().is_err());
    free(&disk);
    driven.syncer.run_once(true);
    driven.inner.check_health().unwrap();
    driven.call(1);
    driven.close();
    check(&disk, 2);
}

#[test]
fn an_outcome_without_room_is_owed_and_written_later() {
    let disk = SimDisk::new(1);
    disk.world().can_reserve = false;
    let mut driven = Driven::open(disk.shared(), options()).unwrap();
    let tickets = (0..4)
        .map(|number| driven.begin(&intent(number), Durability::Written).unwrap().0)
        .collect::<Vec<_>>();
    fill(&disk);
    for (ticket, number) in tickets.into_iter().zip(0..) {
        if number == 3 {
            drop(ticket);
        } else {
            driven
                .inner
                .append_outcome(ticket.mark_complete(), &end(number), Durability::Written)
                .unwrap_err();
        }
    }
    driven.syncer.run_once(true);
    free(&disk);
    driven.syncer.run_once(true);
    driven.close();
    check(&disk, 4);
}

#[test]
fn a_server_starts_on_a_full_disk_and_takes_calls_when_there_is_room() {
    let (disk, driven) = driven(options());
    driven.call(0);
    driven.close();
    let before = disk.files();
    fill(&disk);
    let mut driven = Driven::open(disk.shared(), options()).unwrap();
    assert!(driven.inner.check_health().unwrap_err().message.contains("no space left"));
    driven.begin(&intent(1), Durability::Written).unwrap_err();
    assert_eq!(disk.files()["main-0000000001.seg"], before["main-0000000001.seg"]);
    free(&disk);
    driven.syncer.run_once(true);
    driven.inner.check_health().unwrap();
    driven.call(1);
    driven.close();
    check(&disk, 2);
}

/// With the real thread: the ledger recovers without any call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_comes_back_by_itself() {
    let disk = SimDisk::new(1);
    let options =
        LedgerOptions { checkpoint_interval: std::time::Duration::from_millis(10), ..options() };
    let (ledger, _) = threaded(&disk, options);
    fill(&disk);
    let mut number = 0;
    while let Ok(ticket) = ledger.record_intent(intent(number), Durability::Written).await {
        number += 1;
        // Without room it is owed.
        ledger.record_outcome(ticket, end(number), Durability::Written).await.ok();
    }
    ledger.record_intent(intent(number), Durability::Synced).await.unwrap_err();
    free(&disk);
    while ledger.check_health().is_err() {
        tokio::task::yield_now().await;
    }
    let ticket = ledger.record_intent(intent(number), Durability::Synced).await.unwrap();
    let end = OutcomeRecord { status: CallStatus::Failed, ..end(1) };
    ledger.record_outcome(ticket, end, Durability::Written).await.unwrap();
    drop(ledger);
    check(&disk, number + 1);
}
