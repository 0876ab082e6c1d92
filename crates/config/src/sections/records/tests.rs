use std::time::Duration;

use crate::tests::{error_lines, load_yaml, valid_config};

#[test]
fn what_is_said_is_kept_and_nothing_goes_where_nothing_is_said() {
    let none = valid_config("version: 1\n");
    assert_eq!(
        (none.retention, none.segment_bytes),
        (ledger::RetentionPolicy::default(), 64 << 20)
    );
    let some =
        valid_config("version: 1\nrecords: { keep: { age: 90d, bytes: 20GiB }, file: 1MiB }\n");
    assert_eq!(some.retention.max_age, Some(Duration::from_hours(90 * 24)));
    assert_eq!((some.retention.max_bytes, some.segment_bytes), (Some(20 << 30), 1 << 20));
}

#[test]
fn what_cannot_be_kept_so_is_told() {
    for (yaml, error) in [
        ("{ keep: { age: 5m } }", "invalid age `5m`"),
        ("{ keep: { age: 90 } }", "invalid age `90`"),
        ("{ keep: { bytes: 5kB } }", "invalid size `5kB`"),
        ("{ file: 2GiB }", "invalid size `2GiB`"),
        ("{ keep: { days: 5 } }", "days"),
    ] {
        let text = format!("version: 1\nrecords: {yaml}\n");
        let messages = error_lines(&load_yaml(&text, &[])).join("\n");
        assert!(messages.contains(error), "{yaml}: {messages}");
    }
}
