//! Many callers at once, on this machine's disk.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tool::ledger::{Kind, Records as _};
use tool::outcome::Status;
use tool::{Durability, End, Ledger as _, Ticket};

use super::fixture::{Hand, end, id, intent, refusal};
use crate::disk::{Disk, RealDisk};
use crate::file_ledger::FileLedger;
use crate::open::Recovery;
use crate::options::Options;
use crate::refusals::Gap;
use crate::verify::{Report, verify};

fn disk() -> Arc<dyn Disk> {
    Arc::new(RealDisk)
}

fn open(dir: &Path, options: Options) -> (FileLedger, Recovery, Arc<Hand>) {
    let clock = Arc::new(Hand::default());
    let (ledger, recovery) = FileLedger::open(dir, disk(), clock.clone(), options).unwrap();
    (ledger, recovery, clock)
}

fn check(dir: &Path) -> Report {
    let report = verify(dir, &disk(), &[]).unwrap();
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
        let ticket = ledger.begin(intent(number), need).await.unwrap();
        if number.is_multiple_of(3) {
            drop(ticket);
        } else {
            ledger.finish(ticket, end(number), Durability::Written).await.unwrap();
        }
        if number.is_multiple_of(10) {
            ledger.refuse(refusal(number + (1 << 40)));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_has_one_intent_and_one_outcome() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { segment_bytes: 256 << 10, ..Options::default() };
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
        let records = ledger.of_call(id(number)).await.unwrap();
        let kinds = records.iter().map(|record| record.kind).collect::<Vec<_>>();
        assert_eq!(kinds, [Kind::Intent, Kind::Outcome], "call {number}");
        let status = records[1].body.read::<End>().unwrap().status;
        let dropped = number.is_multiple_of(3);
        assert_eq!(status, if dropped { Status::Abandoned } else { Status::Succeeded });
        ended[usize::from(dropped)] += 1;
    }
    drop(ledger);
    let report = check(dir.path());
    let numbers = &report.writers[0];
    println!("{checks} checks beside, {ended:?} ended and dropped, {numbers:?}");
    let all = TASKS * CALLS;
    assert_eq!((numbers.intents, numbers.outcomes, numbers.open), (all, all, 0));
    assert!(numbers.segments > 3, "{numbers:?}");
    // The numbers have no hole: that is part of being sound, and the sum says it again.
    let last = numbers.checkpoint.as_ref().unwrap().through + numbers.unsealed;
    assert_eq!(numbers.records, last);
}

#[tokio::test]
async fn a_call_without_its_ticket_is_unknown_after_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let (ledger, _, clock) = open(dir.path(), Options::default());
    let held = ledger.begin(intent(1), Durability::Synced).await.unwrap();
    assert_eq!(ledger.status(id(1)).await.unwrap(), Some(Status::Running));
    let dropped = ledger.begin(intent(2), Durability::Written).await.unwrap();
    clock.go(30);
    drop(dropped);
    assert_eq!(ledger.status(id(2)).await.unwrap(), Some(Status::Abandoned));
    let end = ledger.of_call(id(2)).await.unwrap()[1].body.read::<End>().unwrap();
    assert_eq!(end.elapsed_ms, 30);
    assert_eq!(ledger.status(id(3)).await.unwrap(), None);
    drop(ledger);

    let (ledger, recovery, _) = open(dir.path(), Options::default());
    assert_eq!((recovery.open, recovery.open_total), (vec![id(1)], 1));
    assert_eq!(ledger.status(id(1)).await.unwrap(), Some(Status::Unknown));
    assert_eq!(ledger.status(id(2)).await.unwrap(), Some(Status::Abandoned));
    // Nothing was written that pretends an outcome; and the ticket of the other life is void.
    assert_eq!(ledger.of_call(id(1)).await.unwrap().len(), 1);
    let error = ledger.finish(held, end_of(1), Durability::Written).await.unwrap_err();
    assert!(error.message.contains("was not issued by this ledger"), "{error}");
    assert_eq!(ledger.of_call(id(1)).await.unwrap().len(), 1);
}

/// The sync thread sleeps here: only the reader itself can have written it.
#[tokio::test]
async fn a_call_dropped_while_another_thread_writes_has_ended_for_the_next_reader() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { idle: Duration::from_secs(4), ..Options::default() };
    let (ledger, _, _) = open(dir.path(), options);
    let ticket = ledger.begin(intent(1), Durability::Written).await.unwrap();
    let writing = ledger.inner.lock();
    drop(ticket);
    drop(writing);
    assert_eq!(ledger.of_call(id(1)).await.unwrap().len(), 2);
    assert_eq!(ledger.status(id(1)).await.unwrap(), Some(Status::Abandoned));
}

fn end_of(number: u64) -> End {
    end(number)
}

#[tokio::test]
async fn tickets_and_ids_are_used_once() {
    let dir = tempfile::tempdir().unwrap();
    let (ledger, _, _) = open(dir.path(), Options::default());
    let ticket = ledger.begin(intent(1), Durability::Written).await.unwrap();
    let error = ledger.begin(intent(1), Durability::Written).await.unwrap_err();
    assert!(error.message.contains("has an intent on record already"), "{error}");
    let forged = Ticket::issue(id(7), |_| {});
    ledger.finish(forged, end(7), Durability::Written).await.unwrap_err();
    ledger.finish(ticket, end(1), Durability::Written).await.unwrap();
    let long = "x".repeat(70_000);
    let mut big = intent(2);
    big.caller.subject = long;
    let error = ledger.begin(big, Durability::Written).await.unwrap_err();
    assert!(error.message.contains("65536 are allowed"), "{error}");
    ledger.close();
    let error = ledger.begin(intent(3), Durability::Written).await.unwrap_err();
    assert!(error.message.contains("is closed: the server is stopping"), "{error}");
    assert_eq!(check(dir.path()).writers[0].intents, 1);
}

#[tokio::test]
async fn one_process_writes_a_record() {
    let dir = tempfile::tempdir().unwrap();
    let (first, _, clock) = open(dir.path(), Options::default());
    let again = FileLedger::open(dir.path(), disk(), clock.clone(), Options::default());
    let error = again.map(|_| ()).unwrap_err();
    assert!(error.message.contains("another process keeps its record there"), "{error}");
    // Another name is another chain.
    let other = Options { writer: "second".to_owned(), ..Options::default() };
    let (second, _, _) = open(dir.path(), other);
    for (ledger, number) in [(&first, 1), (&second, 2)] {
        let ticket = ledger.begin(intent(number), Durability::Synced).await.unwrap();
        ledger.finish(ticket, end(number), Durability::Written).await.unwrap();
    }
    drop((first, second));
    let report = check(dir.path());
    let writers = report.writers.iter().map(|w| (w.writer.as_str(), w.intents)).collect::<Vec<_>>();
    assert_eq!(writers, [("main", 1), ("second", 1)]);
    let bad = Options { writer: "../x".to_owned(), ..Options::default() };
    let error = FileLedger::open(dir.path(), disk(), clock, bad).map(|_| ()).unwrap_err();
    assert!(error.message.starts_with("the writer's name `../x` does not fit"), "{error}");
}

#[tokio::test]
async fn refusals_are_written_up_to_the_cap_and_counted_past_it() {
    let dir = tempfile::tempdir().unwrap();
    let (ledger, _, clock) = open(dir.path(), Options::default());
    (0..350).for_each(|number| ledger.refuse(refusal(number)));
    clock.go(1_000);
    (350..360).for_each(|number| ledger.refuse(refusal(number)));
    let query = tool::ledger::Query { limit: 500, ..tool::ledger::Query::default() };
    let records = ledger.list(query).await.unwrap().records;
    let of = |kind| records.iter().filter(move |record| record.kind == kind);
    assert_eq!(of(Kind::Refused).count(), 110);
    let gaps = of(Kind::Gap).map(|r| r.body.read::<Gap>().unwrap().refused).collect::<Vec<_>>();
    assert_eq!(gaps, [250]);
    assert_eq!(ledger.status(id(355)).await.unwrap(), Some(Status::Refused));
    drop(ledger);
    assert_eq!(check(dir.path()).writers[0].refused, 110);
}

#[tokio::test]
async fn many_short_lives_leave_few_files() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..20 {
        let (ledger, recovery, _) = open(dir.path(), Options::default());
        assert_eq!((recovery.cuts, recovery.findings), (vec![], vec![]));
        if number % 2 == 0 {
            let ticket = ledger.begin(intent(number), Durability::Synced).await.unwrap();
            ledger.finish(ticket, end(number), Durability::Written).await.unwrap();
        }
    }
    let report = check(dir.path());
    assert_eq!((report.writers[0].segments, report.writers[0].intents), (1, 10));
}

/// What a process that was killed had written and not synced is on record, at once and after the next start.
#[tokio::test]
async fn records_that_were_not_synced_are_on_record() {
    let (dir, left) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (ledger, _, _) =
        open(dir.path(), Options { idle: Duration::from_secs(4), ..Options::default() });
    for number in 0..20 {
        let ticket = ledger.begin(intent(number), Durability::Written).await.unwrap();
        ledger.finish(ticket, end(number), Durability::Written).await.unwrap();
    }
    // What the next process finds, while this one has it open. What says how far it goes comes first: what is
    // written meanwhile is then more than that.
    for name in ["main.progress", "main-0000000001.seg"] {
        std::fs::copy(dir.path().join(name), left.path().join(name)).unwrap();
    }
    for dir in [dir.path(), left.path()] {
        let report = check(dir);
        assert_eq!((report.writers[0].outcomes, &*report.writers[0].cuts), (20, &[][..]));
    }
    // The control: without the end of the segment they are missing, and that is found.
    let segment = left.path().join("main-0000000001.seg");
    let whole = std::fs::read(&segment).unwrap();
    std::fs::write(&segment, &whole[..whole.len() / 2]).unwrap();
    let report = verify(left.path(), &disk(), &[]).unwrap();
    assert!(!report.is_sound() && report.writers[0].outcomes < 20, "{report:?}");
    std::fs::write(&segment, &whole).unwrap();
    let (again, recovery, _) = open(left.path(), Options::default());
    assert_eq!((recovery.cuts.len(), recovery.findings.len(), recovery.open_total), (0, 0, 0));
    assert!(recovery.records >= 40, "{recovery:?}");
    again.close();
    assert_eq!(check(left.path()).writers[0].outcomes, 20);
}
