//! What is on record that is no call.

use std::path::Path;

use tool::ledger::{Event, Events as _, Kind, Query, Records as _};
use tool::{Org, Wall};

use super::fixture::{DIR, threaded};
use super::sim_disk::SimDisk;
use crate::options::Options;
use crate::verify::verify;

fn event(number: u64) -> Event {
    Event {
        at: Wall(number),
        org: Org::default(),
        event: "pin_approved".to_owned(),
        by: None,
        source: Some("s".parse().unwrap()),
        tool: Some("a".parse().unwrap()),
        before: None,
        after: None,
        note: Some("looked".to_owned()),
    }
}

#[tokio::test]
async fn an_event_is_found_by_its_organisation_and_tool_also_after_a_restart() {
    let disk = SimDisk::new(3);
    let wanted = Query {
        org: Some(Org::default()),
        tool: Some("a".to_owned()),
        limit: 9,
        ..Query::default()
    };
    let ledger = threaded(&disk, Options::default()).0;
    ledger.note(&event(1)).unwrap();
    assert_eq!(ledger.list(wanted.clone()).await.unwrap().records.len(), 1);
    ledger.close();
    ledger.note(&event(2)).unwrap_err();
    drop(ledger);
    let ledger = threaded(&disk, Options::default()).0;
    let found = ledger.list(wanted.clone()).await.unwrap().records;
    assert_eq!((found.len(), found[0].kind), (1, Kind::Event));
    assert_eq!(found[0].body.read::<Event>().unwrap(), event(1));
    let other = Query { org: Some("other".parse().unwrap()), ..wanted };
    assert!(ledger.list(other).await.unwrap().records.is_empty());
    drop(ledger);
    let report = verify(Path::new(DIR), &disk.shared(), &[]).unwrap();
    assert!(report.is_sound() && report.writers[0].events == 1, "{report:?}");
    let mut kinds = Vec::new();
    crate::export(Path::new(DIR), &disk.shared(), &mut |writer, record| {
        assert_eq!(writer, "main");
        kinds.push(record.kind);
        true
    })
    .unwrap();
    assert!(kinds.contains(&Kind::Event), "{kinds:?}");
}
