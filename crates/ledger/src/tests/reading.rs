//! Lists, and what is on record of one call: newest first, by tool and organisation, past what the
//! index holds and past the end of a segment.

use std::path::Path;
use std::sync::Arc;

use tool::ledger::{Kind, Query, Records as _};
use tool::outcome::Status;
use tool::{Durability, End, Intent, Ledger as _, Org};

use super::fixture::{DIR, Hand, end, id, intent, refusal};
use super::sim_disk::SimDisk;
use crate::file_ledger::FileLedger;
use crate::frame::Draft;
use crate::options::Options;
use crate::segment::parse_name;

pub(super) const CALLS: u64 = 120;

pub(super) fn open(disk: &SimDisk) -> FileLedger {
    let options = Options {
        segment_bytes: 8 << 10,
        reserve_bytes: 4 << 10,
        checkpoint_records: 10,
        index_entries: 50,
        ..Options::default()
    };
    FileLedger::open(Path::new(DIR), disk.shared(), Arc::new(Hand::default()), options).unwrap().0
}

/// Calls 0 to 119; call 0 ends last, many segments after its intent; call 200 is refused.
pub(super) async fn filled(disk: &SimDisk) -> FileLedger {
    let ledger = open(disk);
    let first = ledger.begin(intent(0), Durability::Synced).await.unwrap();
    for number in 1..CALLS {
        let ticket = ledger.begin(intent(number), Durability::Synced).await.unwrap();
        ledger.finish(ticket, end(number), Durability::Written).await.unwrap();
    }
    ledger.refuse(refusal(200));
    ledger.finish(first, end(0), Durability::Written).await.unwrap();
    assert!(disk.files().len() > 5, "{:?}", disk.files().keys());
    ledger
}

/// Number, kind, and which call.
type Shown = (u64, Kind, Option<u64>);

async fn list(ledger: &FileLedger, query: Query) -> Vec<Shown> {
    let records = ledger.list(query).await.unwrap().records;
    let call = |id: tool::CallId| u64::try_from(id.0.as_u128() - 1).unwrap();
    records.iter().map(|record| (record.seq, record.kind, record.call.map(call))).collect()
}

pub(super) async fn check(ledger: &FileLedger) {
    let limit = 1_000;
    let all = list(ledger, Query { limit, ..Query::default() }).await;
    let last = all[0].0;
    let seqs = all.iter().map(|(seq, ..)| *seq).collect::<Vec<_>>();
    assert_eq!(seqs, (1..=last).rev().collect::<Vec<_>>());
    // Page by page it is the same.
    // Up to there: its thread may write a checkpoint meanwhile.
    let (mut pages, mut before) = (Vec::new(), Some(last + 1));
    loop {
        let page = list(ledger, Query { limit: 33, before, ..Query::default() }).await;
        let Some((seq, ..)) = page.last() else { break };
        before = Some(*seq);
        pages.extend(page);
    }
    assert_eq!(pages, all);

    filters(ledger, &all).await;
    calls(ledger).await;
}

async fn filters(ledger: &FileLedger, all: &[Shown]) {
    let limit = 1_000;
    // By tool and organisation: what a plain look through all records gives.
    let odd = Org::new("odd").unwrap();
    let query = Query { limit, tool: Some("notes.tool_0".into()), ..Query::default() };
    let by_tool = list(ledger, query.clone()).await;
    let fits = |every: u64, of: u64| {
        let call = move |call: Option<u64>| call.is_some_and(|call| call % every == of);
        all.iter().filter(move |(_, _, id)| call(*id)).copied().collect::<Vec<_>>()
    };
    assert_eq!(by_tool, fits(5, 0));
    assert!(by_tool.iter().any(|(_, kind, _)| *kind == Kind::Refused));
    assert!(by_tool.contains(all.iter().find(|r| r.2 == Some(0)).unwrap()), "call 0 ended late");
    let by_org = list(ledger, Query { limit, org: Some(odd.clone()), ..Query::default() }).await;
    assert_eq!(by_org, fits(2, 1));
    let both = list(ledger, Query { org: Some(odd), ..query }).await;
    assert_eq!(both, fits(10, 5));
    assert_eq!(list(ledger, Query { limit: 0, ..Query::default() }).await, []);
}

async fn calls(ledger: &FileLedger) {
    for number in [0, 1, 60, CALLS - 1] {
        let kinds = ledger.of_call(id(number)).await.unwrap();
        let kinds = kinds.iter().map(|record| record.kind).collect::<Vec<_>>();
        assert_eq!(kinds, [Kind::Intent, Kind::Outcome], "call {number}");
        assert_eq!(ledger.status(id(number)).await.unwrap(), Some(Status::Succeeded));
    }
    assert_eq!(ledger.status(id(200)).await.unwrap(), Some(Status::Refused));
    assert_eq!(ledger.of_call(id(999)).await.unwrap(), []);
}

#[tokio::test]
async fn records_are_found_however_old_they_are() {
    let disk = SimDisk::new(1);
    let ledger = filled(&disk).await;
    check(&ledger).await;
    drop(ledger);
    let ledger = open(&disk);
    check(&ledger).await;
    // The same by the filters of the segments.
    crate::filters::refresh(&ledger.inner);
    // All but the one that is written, which has no records yet where the one before was sealed.
    assert!(ledger.inner.index().without_filter(u32::MAX).len() <= 1);
    let is_filter = |name: &&String| name.strip_suffix(".filter").is_some();
    assert!(disk.files().keys().filter(is_filter).count() > 3, "{:?}", disk.files().keys());
    check(&ledger).await;
}

#[tokio::test]
async fn records_are_found_after_they_were_carried_to_another_segment() {
    let disk = SimDisk::new(1);
    let ledger = filled(&disk).await;
    for number in 300..305 {
        let ticket = ledger.begin(intent(number), Durability::Written).await.unwrap();
        ledger.finish(ticket, end(number), Durability::Written).await.unwrap();
        disk.world().fail_syncs_once = true;
        let ticket = ledger.begin(intent(number + 10), Durability::Synced).await.unwrap();
        ledger.finish(ticket, end(number), Durability::Written).await.unwrap();
    }
    check(&ledger).await;
}

/// Both records of a call, as JSON.
fn call_as_before(ledger: &FileLedger, number: u64) {
    let (inner, intent) = (&ledger.inner, intent(number));
    let label = inner.label_of(&intent.caller, intent.tool.name.as_str());
    let begun = Draft::new(Kind::Intent, Some(intent.call), &intent);
    let ended = Draft::new(Kind::Outcome, Some(intent.call), &end(number));
    for draft in [begun, ended] {
        inner.append(&mut inner.lock(), &mut draft.unwrap(), Some(label)).unwrap();
    }
}

#[tokio::test]
async fn what_an_older_version_wrote_is_found_shown_and_proved_like_all_else() {
    let disk = SimDisk::new(1);
    let ledger = filled(&disk).await;
    for number in 400..440 {
        call_as_before(&ledger, number);
        let ticket = ledger.begin(intent(number + 100), Durability::Synced).await.unwrap();
        ledger.finish(ticket, end(number + 100), Durability::Written).await.unwrap();
    }
    check(&ledger).await;
    let of = |number| ledger.of_call(id(number));
    let (old, new) = (of(401).await.unwrap(), of(501).await.unwrap());
    assert_eq!(old[0].body.read::<Intent>().unwrap(), intent(401));
    assert_eq!(new[1].body.read::<End>().unwrap(), end(501));
    drop(ledger);
    super::fixture::check(&disk, CALLS + 80);
    let mut exported = 0;
    let mut count = |_: &str, _| {
        exported += 1;
        true
    };
    crate::export(Path::new(DIR), &disk.shared(), &mut count).unwrap();
    let again = open(&disk);
    check(&again).await;
    assert_eq!(list(&again, Query { limit: 1_000, ..Query::default() }).await.len(), exported);
}

#[tokio::test]
async fn one_bad_record_does_not_hide_the_others() {
    let disk = SimDisk::new(1);
    drop(filled(&disk).await);
    let mut files = disk.files();
    let mut segments = files.iter_mut().filter(|(name, _)| parse_name(name).is_some());
    let (_, bytes) = segments.nth(2).unwrap();
    bytes[300] ^= 1;
    let disk = SimDisk::holding(&files);
    let ledger = open(&disk);
    let all = list(&ledger, Query { limit: 1_000, ..Query::default() }).await;
    let last = usize::try_from(all[0].0).unwrap();
    assert_eq!(all.len(), last - 1);
}
