//! Tests of records that belong to no call.

use std::path::Path;

use tool::ledger::{AuditEventRecord, AuditLog as _, RecordKind, RecordQuery, RecordReader as _};
use tool::{Org, WallTime};

use super::fixture::{DIR, threaded};
use super::sim_disk::SimDisk;
use crate::ledger_options::LedgerOptions;
use crate::verification::verify_record;

fn event(number: u64) -> AuditEventRecord {
    AuditEventRecord {
        recorded_at: WallTime(number),
        org: Org::default(),
        kind: "pin_approved".to_owned(),
        changed_by: None,
        source: Some("s".parse().unwrap()),
        tool: Some("a".parse().unwrap()),
        digest_before: None,
        digest_after: None,
        comment: Some("looked".to_owned()),
    }
}

#[tokio::test]
async fn an_event_is_found_by_its_organisation_and_tool_also_after_a_restart() {
    let disk = SimDisk::new(3);
    let wanted = RecordQuery {
        org: Some(Org::default()),
        tool: Some("a".to_owned()),
        limit: 9,
        ..RecordQuery::default()
    };
    let ledger = threaded(&disk, LedgerOptions::default()).0;
    ledger.record_event(&event(1)).unwrap();
    assert_eq!(ledger.list_records(wanted.clone()).await.unwrap().records.len(), 1);
    ledger.close_ledger();
    ledger.record_event(&event(2)).unwrap_err();
    drop(ledger);
    let ledger = threaded(&disk, LedgerOptions::default()).0;
    let found = ledger.list_records(wanted.clone()).await.unwrap().records;
    assert_eq!((found.len(), found[0].kind), (1, RecordKind::AuditEvent));
    assert_eq!(found[0].body.decode::<AuditEventRecord>().unwrap(), event(1));
    let other = RecordQuery { org: Some("other".parse().unwrap()), ..wanted };
    assert!(ledger.list_records(other).await.unwrap().records.is_empty());
    drop(ledger);
    let report = verify_record(Path::new(DIR), &disk.shared(), &[]).unwrap();
    assert!(report.is_sound() && report.writers[0].events == 1, "{report:?}");
    let mut kinds = Vec::new();
    crate::export_records(Path::new(DIR), &disk.shared(), &mut |writer, record| {
        assert_eq!(writer, "main");
        kinds.push(record.kind);
        true
    })
    .unwrap();
    assert!(kinds.contains(&RecordKind::AuditEvent), "{kinds:?}");
}
