//! Checks of the record after the server has ended.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use host::clock::SystemClock;
use ledger::{Disk, FileLedger, LedgerOptions, OsDisk, verify_record};
use serde_json::Value;
use tool::ledger::{RecordKind, RecordQuery, RecordReader as _};

/// The record in `folder` is sound, and holds `calls` calls with one intent and one outcome each and
/// nothing else of calls; those named in `ids` are among them.
pub(super) async fn holds(folder: &Path, calls: usize, ids: &[String]) {
    let disk: Arc<dyn Disk> = Arc::new(OsDisk);
    let report = verify_record(folder, &disk, &[]).unwrap();
    assert!(report.is_sound(), "{report:?}");
    let count = u64::try_from(calls).unwrap();
    let [writer] = report.writers.as_slice() else { panic!("{report:?}") };
    assert_eq!((writer.intents, writer.outcomes), (count, count), "{writer:?}");
    assert_eq!((writer.open_calls, writer.refusals, writer.gaps), (0, 0, 0), "{writer:?}");
    let kinds = kinds(folder, disk).await;
    assert_eq!(kinds.len(), calls);
    for (call, kinds) in &kinds {
        assert_eq!(kinds.as_slice(), [RecordKind::Intent, RecordKind::Outcome], "{call}");
    }
    for id in ids {
        assert!(kinds.contains_key(id), "{id} is not on record");
    }
}

/// Records of each call in the order of their writes.
async fn kinds(folder: &Path, disk: Arc<dyn Disk>) -> BTreeMap<String, Vec<RecordKind>> {
    let clock = Arc::new(SystemClock::default());
    let (ledger, _) =
        FileLedger::open_directory(folder, disk, clock, LedgerOptions::default()).unwrap();
    let page =
        ledger.list_records(RecordQuery { limit: 1_000, ..RecordQuery::default() }).await.unwrap();
    let listed = page.records;
    assert!(page.next_before.is_none(), "more records than one page");
    let mut kinds: BTreeMap<String, Vec<RecordKind>> = BTreeMap::new();
    for record in listed.iter().rev() {
        if let Some(call) = record.call_id {
            kinds.entry(call.to_string()).or_default().push(record.kind);
        }
    }
    ledger.close_ledger();
    kinds
}

/// The ids of calls that were answered.
pub(super) fn ids<'a>(answers: impl Iterator<Item = &'a Value>) -> Vec<String> {
    answers.map(|answer| answer["call_id"].as_str().unwrap().to_owned()).collect()
}
