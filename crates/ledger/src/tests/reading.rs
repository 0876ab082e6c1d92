//! Lists, and what is on record of one call: newest first, by tool and organisation, past what the
//! index holds and past the end of a segment.

use std::path::Path;
use std::sync::Arc;

use tool::call_outcome::CallStatus;
use tool::ledger::{RecordKind, RecordQuery, RecordReader as _};
use tool::{Durability, IntentRecord, Ledger as _, Org, OutcomeRecord};

use super::fixture::{DIR, Hand, end, id, intent, refusal};
use super::sim_disk::SimDisk;
use crate::file_ledger::FileLedger;
use crate::frame::FrameBuilder;
use crate::ledger_options::LedgerOptions;
use crate::segment::parse_segment_name;

pub(super) const CALLS: u64 = 120;

pub(super) fn open(disk: &SimDisk) -> FileLedger {
    let options = LedgerOptions {
        segment_bytes: 8 << 10,
        reserve_bytes: 4 << 10,
        checkpoint_records: 10,
        max_index_entries: 50,
        ..LedgerOptions::default()
    };
    FileLedger::open_directory(Path::new(DIR), disk.shared(), Arc::new(Hand::default()), options)
        .unwrap()
        .0
}

/// Calls 0 to 119; call 0 ends last, many segments after its intent; call 200 is refused.
pub(super) async fn filled(disk: &SimDisk) -> FileLedger {
    let ledger = open(disk);
    let first = ledger.record_intent(intent(0), Durability::Synced).await.unwrap();
    for number in 1..CALLS {
        let ticket = ledger.record_intent(intent(number), Durability::Synced).await.unwrap();
        ledger.record_outcome(ticket, end(number), Durability::Written).await.unwrap();
    }
    ledger.record_refusal(refusal(200));
    ledger.record_outcome(first, end(0), Durability::Written).await.unwrap();
    assert!(disk.files().len() > 5, "{:?}", disk.files().keys());
    ledger
}

/// Number, kind, and which call.
type Shown = (u64, RecordKind, Option<u64>);

async fn list(ledger: &FileLedger, query: RecordQuery) -> Vec<Shown> {
    let records = ledger.list_records(query).await.unwrap().records;
    let call = |id: tool::CallId| u64::try_from(id.0.as_u128() - 1).unwrap();
    records.iter().map(|record| (record.sequence, record.kind, record.call_id.map(call))).collect()
}

pub(super) async fn check(ledger: &FileLedger) {
    let limit = 1_000;
    let all = list(ledger, RecordQuery { limit, ..RecordQuery::default() }).await;
    let last = all[0].0;
    let seqs = all.iter().map(|(seq, ..)| *seq).collect::<Vec<_>>();
    assert_eq!(seqs, (1..=last).rev().collect::<Vec<_>>());
    // Page by page it is the same.
    // Up to there: its thread may write a checkpoint meanwhile.
    let (mut pages, mut before) = (Vec::new(), Some(last + 1));
    loop {
        let page = list(
            ledger,
            RecordQuery { limit: 33, before_sequence: before, ..RecordQuery::default() },
        )
        .await;
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
    // By tool and organisation: the result of a full scan of the records.
    let odd = Org::new("odd").unwrap();
    let query = RecordQuery { limit, tool: Some("notes.tool_0".into()), ..RecordQuery::default() };
    let by_tool = list(ledger, query.clone()).await;
    let fits = |every: u64, of: u64| {
        let call = move |call: Option<u64>| call.is_some_and(|call| call % every == of);
        all.iter().filter(move |(_, _, id)| call(*id)).copied().collect::<Vec<_>>()
    };
    assert_eq!(by_tool, fits(5, 0));
    assert!(by_tool.iter().any(|(_, kind, _)| *kind == RecordKind::Refusal));
    assert!(by_tool.contains(all.iter().find(|r| r.2 == Some(0)).unwrap()), "call 0 ended late");
    let by_org =
        list(ledger, RecordQuery { limit, org: Some(odd.clone()), ..RecordQuery::default() }).await;
    assert_eq!(by_org, fits(2, 1));
    let both = list(ledger, RecordQuery { org: Some(odd), ..query }).await;
    assert_eq!(both, fits(10, 5));
    assert_eq!(list(ledger, RecordQuery { limit: 0, ..RecordQuery::default() }).await, []);
}

async fn calls(ledger: &FileLedger) {
    for number in [0, 1, 60, CALLS - 1] {
        let kinds = ledger.list_for_call(id(number)).await.unwrap();
        let kinds = kinds.iter().map(|record| record.kind).collect::<Vec<_>>();
        assert_eq!(kinds, [RecordKind::Intent, RecordKind::Outcome], "call {number}");
        assert_eq!(ledger.call_status(id(number)).await.unwrap(), Some(CallStatus::Succeeded));
    }
    assert_eq!(ledger.call_status(id(200)).await.unwrap(), Some(CallStatus::Refused));
    assert_eq!(ledger.list_for_call(id(999)).await.unwrap(), []);
}

#[tokio::test]
async fn records_are_found_however_old_they_are() {
    let disk = SimDisk::new(1);
    let ledger = filled(&disk).await;
    check(&ledger).await;
    drop(ledger);
    let ledger = open(&disk);
    check(&ledger).await;
    // The same query through the filters of the segments.
    crate::filter_thread::refresh_filters(&ledger.inner);
    // All but the one that is written, which has no records yet where the one before was sealed.
    assert!(ledger.inner.lock_index().segments_without_filter(u32::MAX).len() <= 1);
    let is_filter = |name: &&String| name.strip_suffix(".filter").is_some();
    assert!(disk.files().keys().filter(is_filter).count() > 3, "{:?}", disk.files().keys());
    check(&ledger).await;
}

#[tokio::test]
async fn records_are_found_after_they_were_carried_to_another_segment() {
    let disk = SimDisk::new(1);
    let ledger = filled(&disk).await;
    for number in 300..305 {
        let ticket = ledger.record_intent(intent(number), Durability::Written).await.unwrap();
        ledger.record_outcome(ticket, end(number), Durability::Written).await.unwrap();
        disk.world().fail_syncs_once = true;
        let ticket = ledger.record_intent(intent(number + 10), Durability::Synced).await.unwrap();
        ledger.record_outcome(ticket, end(number), Durability::Written).await.unwrap();
    }
    check(&ledger).await;
}

/// Both records of a call, as JSON.
fn call_as_before(ledger: &FileLedger, number: u64) {
    let (inner, intent) = (&ledger.inner, intent(number));
    let label = inner.search_key_of_call(&intent.caller, intent.tool_key.name.as_str());
    let begun = FrameBuilder::json(RecordKind::Intent, Some(intent.call_id), &intent);
    let ended = FrameBuilder::json(RecordKind::Outcome, Some(intent.call_id), &end(number));
    for draft in [begun, ended] {
        inner.append_frame(&mut inner.lock_state(), &mut draft.unwrap(), Some(label)).unwrap();
    }
}

#[tokio::test]
async fn what_an_older_version_wrote_is_found_shown_and_proved_like_all_else() {
    let disk = SimDisk::new(1);
    let ledger = filled(&disk).await;
    for number in 400..440 {
        call_as_before(&ledger, number);
        let ticket = ledger.record_intent(intent(number + 100), Durability::Synced).await.unwrap();
        ledger.record_outcome(ticket, end(number + 100), Durability::Written).await.unwrap();
    }
    check(&ledger).await;
    let of = |number| ledger.list_for_call(id(number));
    let (old, new) = (of(401).await.unwrap(), of(501).await.unwrap());
    assert_eq!(old[0].body.decode::<IntentRecord>().unwrap(), intent(401));
    assert_eq!(new[1].body.decode::<OutcomeRecord>().unwrap(), end(501));
    drop(ledger);
    super::fixture::check(&disk, CALLS + 80);
    let mut exported = 0;
    let mut count = |_: &str, _| {
        exported += 1;
        true
    };
    crate::export_records(Path::new(DIR), &disk.shared(), &mut count).unwrap();
    let again = open(&disk);
    check(&again).await;
    assert_eq!(
        list(&again, RecordQuery { limit: 1_000, ..RecordQuery::default() }).await.len(),
        exported
    );
}

#[tokio::test]
async fn one_bad_record_does_not_hide_the_others() {
    let disk = SimDisk::new(1);
    drop(filled(&disk).await);
    let mut files = disk.files();
    let mut segments = files.iter_mut().filter(|(name, _)| parse_segment_name(name).is_some());
    let (_, bytes) = segments.nth(2).unwrap();
    bytes[300] ^= 1;
    let disk = SimDisk::holding(&files);
    let ledger = open(&disk);
    let all = list(&ledger, RecordQuery { limit: 1_000, ..RecordQuery::default() }).await;
    let last = usize::try_from(all[0].0).unwrap();
    assert_eq!(all.len(), last - 1);
}
