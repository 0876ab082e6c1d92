//! What the record must hold once the server has ended, read by the library.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use host::clock::SystemClock;
use ledger::{Disk, FileLedger, Options, RealDisk, verify};
use serde_json::Value;
use tool::ledger::{Kind, Query, Records as _};

/// The record in `folder` is sound, and holds `calls` calls with one intent and one outcome each and
/// nothing else of calls; those named in `ids` are among them.
pub(super) async fn holds(folder: &Path, calls: usize, ids: &[String]) {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let report = verify(folder, &disk, &[]).unwrap();
    assert!(report.is_sound(), "{report:?}");
    let count = u64::try_from(calls).unwrap();
    let [writer] = report.writers.as_slice() else { panic!("{report:?}") };
    assert_eq!((writer.intents, writer.outcomes), (count, count), "{writer:?}");
    assert_eq!((writer.open, writer.refused, writer.gaps), (0, 0, 0), "{writer:?}");
    let kinds = kinds(folder, disk).await;
    assert_eq!(kinds.len(), calls);
    for (call, kinds) in &kinds {
        assert_eq!(kinds.as_slice(), [Kind::Intent, Kind::Outcome], "{call}");
    }
    for id in ids {
        assert!(kinds.contains_key(id), "{id} is not on record");
    }
}

/// Of each call, what is on record of it, in the order it was written.
async fn kinds(folder: &Path, disk: Arc<dyn Disk>) -> BTreeMap<String, Vec<Kind>> {
    let clock = Arc::new(SystemClock::default());
    let (ledger, _) = FileLedger::open(folder, disk, clock, Options::default()).unwrap();
    let page = ledger.list(Query { limit: 1_000, ..Query::default() }).await.unwrap();
    let listed = page.records;
    assert!(page.next.is_none(), "more records than one page");
    let mut kinds: BTreeMap<String, Vec<Kind>> = BTreeMap::new();
    for record in listed.iter().rev() {
        if let Some(call) = record.call {
            kinds.entry(call.to_string()).or_default().push(record.kind);
        }
    }
    ledger.close();
    kinds
}

/// The ids of calls that were answered.
pub(super) fn ids<'a>(answers: impl Iterator<Item = &'a Value>) -> Vec<String> {
    answers.map(|answer| answer["call_id"].as_str().unwrap().to_owned()).collect()
}
