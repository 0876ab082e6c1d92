use std::time::Duration;

use crate::tests::{faults, good, reading};

#[test]
fn what_is_said_is_kept_and_nothing_goes_where_nothing_is_said() {
    let none = good("version: 1\n");
    assert_eq!((none.keep, none.record_file), (ledger::Keep::default(), 64 << 20));
    let some = good("version: 1\nrecords: { keep: { age: 90d, bytes: 20GiB }, file: 1MiB }\n");
    assert_eq!(some.keep.age, Some(Duration::from_hours(90 * 24)));
    assert_eq!((some.keep.bytes, some.record_file), (Some(20 << 30), 1 << 20));
}

#[test]
fn what_cannot_be_kept_so_is_told() {
    for (yaml, fault) in [
        ("{ keep: { age: 5m } }", "`5m` is no such age"),
        ("{ keep: { age: 90 } }", "`90` is no such age"),
        ("{ keep: { bytes: 5kB } }", "`5kB` is no such size"),
        ("{ file: 2GiB }", "`2GiB` is no such size"),
        ("{ keep: { days: 5 } }", "days"),
    ] {
        let text = format!("version: 1\nrecords: {yaml}\n");
        let told = faults(&reading(&text, &[])).join("\n");
        assert!(told.contains(fault), "{yaml}: {told}");
    }
}
