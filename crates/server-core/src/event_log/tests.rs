use std::sync::Arc;

use testkit::clock::FakeClock;
use tool::{CallId, Caller, Org, PermissionLevel, SourceName};
use uuid::Uuid;

use super::{EventKind, EventLog, MAX_EVENT_BYTES, MAX_EVENTS};

fn log_of(count: usize) -> Arc<EventLog> {
    let log = EventLog::new(Arc::new(FakeClock::default()));
    let source = SourceName::new("a").unwrap();
    for _ in 0..count {
        log.push_source(EventKind::SourceDown, &source, "stale");
    }
    log
}

#[test]
fn a_reader_gets_what_is_new_and_learns_what_it_missed() {
    let log = log_of(3);
    let page = log.events_after(1);
    assert_eq!(page.events.iter().map(|it| it.position).collect::<Vec<_>>(), [2, 3]);
    assert!(!page.is_truncated && page.head == 3);
    assert!(log.events_after(3).events.is_empty() && log.events_after(9).events.is_empty());
    let log = log_of(MAX_EVENTS + 5);
    let page = log.events_after(4);
    assert!(page.is_truncated && page.events.len() == MAX_EVENTS);
    // The control: nothing was missed by one that is just in time.
    assert!(!log.events_after(5).is_truncated);
}

#[test]
fn kinds_have_one_name() {
    for kind in EventKind::ALL {
        assert_eq!(EventKind::parse(kind.as_str()), Some(kind));
    }
    assert_eq!(EventKind::parse("approval"), None);
}

#[test]
fn hidden_characters_are_escaped_and_what_is_too_large_is_no_event() {
    let log = log_of(0);
    let caller = Caller {
        org: Org::default(),
        subject: "ann".to_owned(),
        key_id: "k".to_owned(),
        level: PermissionLevel::User,
        is_agent: false,
        actors: Vec::new(),
        root_key_id: None,
    };
    let push = |status: &str| log.push_program(CallId(Uuid::nil()), status, &caller);
    push(&"x".repeat(MAX_EVENT_BYTES));
    assert_eq!(log.head(), 0);
    push("a\u{202e}b");
    push("plain");
    let data: Vec<_> = log.events_after(0).events.iter().map(|it| it.data.to_value()).collect();
    let status = data[0]["status"].as_str().unwrap();
    assert!(!status.contains('\u{202e}') && status.contains("202e"), "{status}");
    assert_eq!(data[1]["status"], "plain", "control");
}
