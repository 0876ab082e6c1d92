//! Many callers at once, on this machine's disk.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tool::call_outcome::CallStatus;
use tool::ledger::{RecordKind, RecordReader as _};
use tool::{Durability, IntentReceipt, Ledger as _, OutcomeRecord};

use super::fixture::{Hand, end, id, intent, refusal};
use crate::disk::{Disk, OsDisk};
use crate::file_ledger::FileLedger;
use crate::ledger_options::LedgerOptions;
use crate::recovery::RecoveryReport;
use crate::refusal_limit::RefusalGap;
use crate::verification::{VerificationReport, verify_record};

fn disk() -> Arc<dyn Disk> {
    Arc::new(OsDisk)
}

fn open(dir: &Path, options: LedgerOptions) -> (FileLedger, RecoveryReport, Arc<Hand>) {
    let clock = Arc::new(Hand::default());
    let (ledger, recovery) =
        FileLedger::open_directory(dir, disk(), clock.clone(), options).unwrap();
    (ledger, recovery, clock)
}

fn check(dir: &Path) -> VerificationReport {
    let report = verify_record(dir, &disk(), &[]).unwrap();
    assert!(report.is_sound(), "{report:?}");
    report
}

const TASKS: u64 = 40;
const CALLS: u64 = 50;

/// One caller: every third call is dropped, every second one must be synced.
async fn caller(ledger: Arc<FileLedger>, task: u64) {
    for at in 0..CALLS {
        let number = task * CALLS + at;
        let need = if number.is_multiple_of(2) { Durability::Synced } else { Durability::Written };
        let ticket = ledger.record_intent(intent(number), need).await.unwrap();
        if number.is_multiple_of(3) {
            drop(ticket);
        } else {
            ledger.record_outcome(ticket, end(number), Durability::Written).await.unwrap();
        }
        if number.is_multiple_of(10) {
            ledger.record_refusal(refusal(number + (1 << 40)));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_has_one_intent_and_one_outcome() {
    let dir = tempfile::tempdir().unwrap();
    let options = LedgerOptions { segment_bytes: 256 << 10, ..LedgerOptions::default() };
    let (ledger, _, _) = open(dir.path(), options);
    let ledger = Arc::new(ledger);
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..TASKS {
        tasks.spawn(caller(Arc::clone(&ledger), task));
    }
    // Beside them the record is checked again and again, as an operator would.
    let mut checks = 0;
    while !tasks.is_empty() {
        check(dir.path());
        checks += 1;
        while let Some(done) = tasks.try_join_next() {
            done.unwrap();
        }
        tokio::task::yield_now().await;
    }
    let mut ended = [0, 0];
    for number in 0..TASKS * CALLS {
        let records = ledger.list_for_call(id(number)).await.unwrap();
        let kinds = records.iter().map(|record| record.kind).collect::<Vec<_>>();
        assert_eq!(kinds, [RecordKind::Intent, RecordKind::Outcome], "call {number}");
        let status = records[1].body.decode::<OutcomeRecord>().unwrap().status;
        let dropped = number.is_multiple_of(3);
        assert_eq!(status, if dropped { CallStatus::Abandoned } else { CallStatus::Succeeded });
        ended[usize::from(dropped)] += 1;
    }
    drop(ledger);
    let report = check(dir.path());
    let numbers = &report.writers[0];
    println!("{checks} checks beside, {ended:?} ended and dropped, {numbers:?}");
    let all = TASKS * CALLS;
    assert_eq!((numbers.intents, numbers.outcomes, numbers.open_calls), (all, all, 0));
    assert!(numbers.segments > 3, "{numbers:?}");
    // Consecutive numbers are part of a sound record; the total confirms them.
    let last = numbers.last_checkpoint.as_ref().unwrap().last_seq + numbers.unsealed_records;
    assert_eq!(numbers.records, last);
}

#[tokio::test]
async fn a_call_without_its_ticket_is_unknown_after_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let (ledger, _, clock) = open(dir.path(), LedgerOptions::default());
    let held = ledger.record_intent(intent(1), Durability::Synced).await.unwrap();
    assert_eq!(ledger.call_status(id(1)).await.unwrap(), Some(CallStatus::Running));
    let dropped = ledger.record_intent(intent(2), Durability::Written).await.unwrap();
    clock.go(30);
    drop(dropped);
    assert_eq!(ledger.call_status(id(2)).await.unwrap(), Some(CallStatus::Abandoned));
    let end = ledger.list_for_call(id(2)).await.unwrap()[1].body.decode::<OutcomeRecord>().unwrap();
    assert_eq!(end.elapsed_ms, 30);
    assert_eq!(ledger.call_status(id(3)).await.unwrap(), None);
    drop(ledger);

    let (ledger, recovery, _) = open(dir.path(), LedgerOptions::default());
    assert_eq!((recovery.open_calls, recovery.open_call_count), (vec![id(1)], 1));
    assert_eq!(ledger.call_status(id(1)).await.unwrap(), Some(CallStatus::Unknown));
    assert_eq!(ledger.call_status(id(2)).await.unwrap(), Some(CallStatus::Abandoned));
    // Nothing was written that pretends an outcome; and the ticket of the other life is void.
    assert_eq!(ledger.list_for_call(id(1)).await.unwrap().len(), 1);
    let error = ledger.record_outcome(held, end_of(1), Durability::Written).await.unwrap_err();
    assert!(error.message.contains("was not issued by this ledger"), "{error}");
    assert_eq!(ledger.list_for_call(id(1)).await.unwrap().len(), 1);
}

/// The sync thread sleeps here: only the reader itself can have written it.
#[tokio::test]
async fn a_call_dropped_while_another_thread_writes_has_ended_for_the_next_reader() {
    let dir = tempfile::tempdir().unwrap();
    let options =
        LedgerOptions { checkpoint_interval: Duration::from_secs(4), ..LedgerOptions::default() };
    let (ledger, _, _) = open(dir.path(), options);
    let ticket = ledger.record_intent(intent(1), Durability::Written).await.unwrap();
    let writing = ledger.inner.lock_state();
    drop(ticket);
    drop(writing);
    assert_eq!(ledger.list_for_call(id(1)).await.unwrap().len(), 2);
    assert_eq!(ledger.call_status(id(1)).await.unwrap(), Some(CallStatus::Abandoned));
}

fn end_of(number: u64) -> OutcomeRecord {
    end(number)
}

#[tokio::test]
async fn tickets_and_ids_are_used_once() {
    let dir = tempfile::tempdir().unwrap();
    let (ledger, _, _) = open(dir.path(), LedgerOptions::default());
    let ticket = ledger.record_intent(intent(1), Durability::Written).await.unwrap();
    let error = ledger.record_intent(intent(1), Durability::Written).await.unwrap_err();
    assert!(error.message.contains("already has an intent on record"), "{error}");
    let forged = IntentReceipt::with_abandon_hook(id(7), |_| {});
    ledger.record_outcome(forged, end(7), Durability::Written).await.unwrap_err();
    ledger.record_outcome(ticket, end(1), Durability::Written).await.unwrap();
    let long = "x".repeat(70_000);
    let mut big = intent(2);
    big.caller.subject = long;
    let error = ledger.record_intent(big, Durability::Written).await.unwrap_err();
    assert!(error.message.contains("the maximum is 65536"), "{error}");
    ledger.close_ledger();
    let error = ledger.record_intent(intent(3), Durability::Written).await.unwrap_err();
    assert!(error.message.contains("is closed: the server is stopping"), "{error}");
    assert_eq!(check(dir.path()).writers[0].intents, 1);
}

#[tokio::test]
async fn one_process_writes_a_record() {
    let dir = tempfile::tempdir().unwrap();
    let (first, _, clock) = open(dir.path(), LedgerOptions::default());
    let again =
        FileLedger::open_directory(dir.path(), disk(), clock.clone(), LedgerOptions::default());
    let error = again.map(|_| ()).unwrap_err();
    assert!(error.message.contains("another process writes its record there"), "{error}");
    // Another name is another chain.
    let other = LedgerOptions { writer: "second".to_owned(), ..LedgerOptions::default() };
    let (second, _, _) = open(dir.path(), other);
    for (ledger, number) in [(&first, 1), (&second, 2)] {
        let ticket = ledger.record_intent(intent(number), Durability::Synced).await.unwrap();
        ledger.record_outcome(ticket, end(number), Durability::Written).await.unwrap();
    }
    drop((first, second));
    let report = check(dir.path());
    let writers = report.writers.iter().map(|w| (w.writer.as_str(), w.intents)).collect::<Vec<_>>();
    assert_eq!(writers, [("main", 1), ("second", 1)]);
    let bad = LedgerOptions { writer: "../x".to_owned(), ..LedgerOptions::default() };
    let error = FileLedger::open_directory(dir.path(), disk(), clock, bad).map(|_| ()).unwrap_err();
    assert!(error.message.starts_with("invalid writer name `../x`"), "{error}");
}

#[tokio::test]
async fn refusals_are_written_up_to_the_cap_and_counted_past_it() {
    let dir = tempfile::tempdir().unwrap();
    let (ledger, _, clock) = open(dir.path(), LedgerOptions::default());
    (0..350).for_each(|number| ledger.record_refusal(refusal(number)));
    clock.go(1_000);
    (350..360).for_each(|number| ledger.record_refusal(refusal(number)));
    let query = tool::ledger::RecordQuery { limit: 500, ..tool::ledger::RecordQuery::default() };
    let records = ledger.list_records(query).await.unwrap().records;
    let of = |kind| records.iter().filter(move |record| record.kind == kind);
    assert_eq!(of(RecordKind::Refusal).count(), 110);
    let gaps = of(RecordKind::Gap)
        .map(|r| r.body.decode::<RefusalGap>().unwrap().refusal_count)
        .collect::<Vec<_>>();
    assert_eq!(gaps, [250]);
    assert_eq!(ledger.call_status(id(355)).await.unwrap(), Some(CallStatus::Refused));
    drop(ledger);
    assert_eq!(check(dir.path()).writers[0].refusals, 110);
}

#[tokio::test]
async fn many_short_lives_leave_few_files() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..20 {
        let (ledger, recovery, _) = open(dir.path(), LedgerOptions::default());
        assert_eq!((recovery.discarded, recovery.findings), (vec![], vec![]));
        if number % 2 == 0 {
            let ticket = ledger.record_intent(intent(number), Durability::Synced).await.unwrap();
            ledger.record_outcome(ticket, end(number), Durability::Written).await.unwrap();
        }
    }
    let report = check(dir.path());
    assert_eq!((report.writers[0].segments, report.writers[0].intents), (1, 10));
}

/// Records that a killed process had written and not synced are on record, at once and after the
/// next start.
#[tokio::test]
async fn records_that_were_not_synced_are_on_record() {
    let (dir, left) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (ledger, _, _) = open(
        dir.path(),
        LedgerOptions { checkpoint_interval: Duration::from_secs(4), ..LedgerOptions::default() },
    );
    for number in 0..20 {
        let ticket = ledger.record_intent(intent(number), Durability::Written).await.unwrap();
        ledger.record_outcome(ticket, end(number), Durability::Written).await.unwrap();
    }
    // The files as the next process finds them, while this one has them open. The progress is read
    // first, so that later writes only add to it.
    for name in ["main.progress", "main-0000000001.seg"] {
        std::fs::copy(dir.path().join(name), left.path().join(name)).unwrap();
    }
    for dir in [dir.path(), left.path()] {
        let report = check(dir);
        assert_eq!((report.writers[0].outcomes, &*report.writers[0].discarded), (20, &[][..]));
    }
    // The control: without the end of the segment they are missing, and that is found.
    let segment = left.path().join("main-0000000001.seg");
    let whole = std::fs::read(&segment).unwrap();
    std::fs::write(&segment, &whole[..whole.len() / 2]).unwrap();
    let report = verify_record(left.path(), &disk(), &[]).unwrap();
    assert!(!report.is_sound() && report.writers[0].outcomes < 20, "{report:?}");
    std::fs::write(&segment, &whole).unwrap();
    let (again, recovery, _) = open(left.path(), LedgerOptions::default());
    assert_eq!(
        (recovery.discarded.len(), recovery.findings.len(), recovery.open_call_count),
        (0, 0, 0)
    );
    assert!(recovery.records >= 40, "{recovery:?}");
    again.close_ledger();
    assert_eq!(check(left.path()).writers[0].outcomes, 20);
}
