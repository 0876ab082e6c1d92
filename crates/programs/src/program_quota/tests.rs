use serde_json::{Value, json};
use tool::CallId;
use uuid::Uuid;

use super::{ProgramQuota, QuotaLimits};
use crate::program_head::ProgramHead;
use crate::program_store::ProgramKey;

const MIB: usize = 1 << 20;

fn id(number: u128) -> CallId {
    CallId(Uuid::from_u128(number))
}

/// A program of one of these keys: `key`, or one that was delegated from `root`.
fn head(number: u128, state: &str, (key, root): (&str, Option<&str>), bytes: usize) -> ProgramHead {
    let caller = json!({
        "org": "default", "subject": "ann", "key": key, "level": "user", "agent": true,
        "root": root.map_or(Value::Null, |root| json!(root)),
    });
    serde_json::from_value(json!({
        "id": id(number), "caller": caller, "state": state, "created": 0, "ended": null,
        "narrowed": { "read_only": false, "no_web": false, "task_type": null },
        "pending": [], "bytes": bytes,
    }))
    .unwrap()
}

fn own(number: u128, state: &str) -> ProgramHead {
    head(number, state, ("k", None), MIB)
}

fn bounds(programs: usize, mib: usize) -> ProgramQuota {
    ProgramQuota::new(QuotaLimits { max_programs: programs, max_bytes: mib * MIB })
}

fn ids(rows: &[ProgramKey]) -> Vec<CallId> {
    rows.iter().map(|row| row.id).collect()
}

#[test]
fn the_oldest_paused_program_makes_room_and_one_that_goes_on_never_does() {
    let mut quota = bounds(3, 100);
    for (number, state) in [(1, "waiting"), (2, "paused"), (3, "paused")] {
        assert_eq!(quota.admit_program(&own(number, state)).unwrap(), []);
    }
    assert_eq!(ids(&quota.admit_program(&own(4, "running")).unwrap()), [id(2)]);
    assert_eq!(ids(&quota.admit_program(&own(5, "waiting")).unwrap()), [id(3)]);
    let full = quota.admit_program(&own(6, "waiting")).unwrap_err();
    assert!(full.message.contains("this key already has 3 unfinished programs"), "{full:?}");
    // What was refused is not counted, and another key is not held up.
    assert_eq!(quota.admit_program(&head(6, "waiting", ("other", None), MIB)).unwrap(), []);
    // One that is there is written again, and when one has ended there is room.
    assert_eq!(quota.admit_program(&own(5, "running")).unwrap(), []);
    assert_eq!(quota.admit_program(&own(5, "succeeded")).unwrap(), []);
    assert_eq!(quota.admit_program(&own(7, "waiting")).unwrap(), []);
}

#[test]
fn programs_count_by_the_first_key_of_a_delegation_chain() {
    let mut quota = bounds(2, 100);
    quota.admit_program(&own(1, "waiting")).unwrap();
    quota.admit_program(&head(2, "waiting", ("delegated", Some("k")), MIB)).unwrap();
    for key in ["delegated", "another"] {
        assert!(quota.admit_program(&head(3, "waiting", (key, Some("k")), MIB)).is_err());
    }
    // The control: a key that stands for itself has its own count.
    quota.admit_program(&head(3, "waiting", ("another", None), MIB)).unwrap();
}

#[test]
fn bytes_are_bounded_and_what_has_ended_goes_first() {
    let mut quota = bounds(100, 10);
    quota.admit_program(&head(1, "paused", ("k", None), 4 * MIB)).unwrap();
    quota.admit_program(&head(2, "succeeded", ("k", None), 4 * MIB)).unwrap();
    let next = |quota: &mut ProgramQuota, number| {
        ids(&quota.admit_program(&head(number, "running", ("k", None), 4 * MIB)).unwrap())
    };
    assert_eq!(next(&mut quota, 3), [id(2)]);
    assert_eq!(next(&mut quota, 4), [id(1)]);
    let full = quota.admit_program(&head(5, "running", ("k", None), 4 * MIB)).unwrap_err();
    assert!(full.message.contains("12 MiB of storage; the maximum is 10 MiB"), "{full:?}");
    // One that grows is held to it too, and stays as it was.
    assert!(quota.admit_program(&head(4, "running", ("k", None), 9 * MIB)).is_err());
    quota.admit_program(&head(5, "running", ("k", None), 2 * MIB)).unwrap();
    // What comes to its end is always taken.
    assert_eq!(quota.admit_program(&head(4, "succeeded", ("k", None), 9 * MIB)).unwrap(), []);
}

#[test]
fn ended_programs_are_bounded_too_and_what_was_there_before_is_brought_within() {
    let mut quota = bounds(2, 100);
    for number in 1..=2 {
        assert_eq!(quota.admit_program(&own(number, "failed")).unwrap(), []);
    }
    assert_eq!(ids(&quota.admit_program(&own(3, "cancelled")).unwrap()), [id(1)]);
    for number in 4..=7 {
        quota.record_program(&own(number, "paused"));
    }
    assert_eq!(ids(&quota.evict_excess()), [id(4), id(5)]);
    assert_eq!(ids(&quota.evict_excess()), []);
}
