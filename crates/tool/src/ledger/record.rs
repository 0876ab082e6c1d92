//! Records as they are read, and where a call stands by them.

use serde::{Deserialize, Serialize};

use super::{End, Waited};
use crate::outcome::Status;
use crate::{CallId, Json, Org};

/// One frame, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its number; orders the frames of one writer.
    pub seq: u64,
    /// Its kind.
    pub kind: Kind,
    /// The call it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// [`Intent`](super::Intent), [`Waited`], [`End`], [`Refusal`](super::Refusal) or
    /// [`Event`](super::Event), by kind.
    pub body: Json,
}

/// Kinds of frames. The numbers are the file format's and never change their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Kind {
    /// A call is about to run.
    Intent = 1,
    /// A call is held.
    Wait = 2,
    /// A call ended.
    Outcome = 3,
    /// A call was not run.
    Refused = 4,
    /// Root of the tree and head of the chain so far.
    Checkpoint = 5,
    /// A segment that was removed by retention.
    Tombstone = 6,
    /// Records that were dropped, counted.
    Gap = 7,
    /// Something that decides over calls was changed: an [`Event`](super::Event).
    Event = 8,
}

/// What to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// Only of this tool.
    pub tool: Option<String>,
    /// Only of this organisation.
    pub org: Option<Org>,
    /// Only before this number.
    pub before: Option<u64>,
    /// At most so many.
    pub limit: usize,
}

/// One page of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Newest first. A page can have fewer records than its limit, or none, and not be the last one.
    pub records: Vec<Record>,
    /// [`Query::before`] of the next page; `None` after the last page.
    pub next: Option<u64>,
}

/// Where a call stands by all that is on record of it, oldest first. `alive` says that the process
/// that wrote the intent still holds its ticket: without an outcome the call runs then, and is
/// `unknown` otherwise. A held call stays `waiting` when its process dies: its wait is stored.
pub fn standing(records: &[Record], alive: bool) -> Option<Status> {
    let ended = |record: &Record| match record.kind {
        Kind::Outcome => Some(record.body.read::<End>().map_or(Status::Unknown, |end| end.status)),
        Kind::Refused => Some(Status::Refused),
        Kind::Wait => {
            let ends = record.body.read::<Waited>().is_ok_and(|waited| waited.step.ends());
            ends.then_some(Status::Refused)
        }
        _ => None,
    };
    let last = records.iter().rfind(|record| record.call.is_some())?;
    Some(records.iter().find_map(ended).unwrap_or(match (last.kind, alive) {
        (Kind::Wait, _) => Status::Waiting,
        (_, true) => Status::Running,
        (_, false) => Status::Unknown,
    }))
}

#[cfg(test)]
mod tests {
    use super::{Kind, Record, standing};
    use crate::ledger::{End, Waited};
    use crate::outcome::Status;
    use crate::{CallId, Digest, Json, Wall};

    fn record(kind: Kind) -> Record {
        let end = End {
            at: Wall(0),
            status: Status::Failed,
            code: None,
            elapsed_ms: 1,
            bytes: 0,
            result: None,
            cage: None,
        };
        Record { seq: 1, kind, call: Some(CallId(uuid::Uuid::from_u128(7))), body: Json::of(&end) }
    }

    #[test]
    fn a_call_stands_where_its_records_say() {
        for (kinds, alive, status) in [
            (&[][..], true, None),
            (&[Kind::Intent], true, Some(Status::Running)),
            (&[Kind::Intent], false, Some(Status::Unknown)),
            (&[Kind::Intent, Kind::Wait], false, Some(Status::Waiting)),
            (&[Kind::Intent, Kind::Wait, Kind::Outcome], false, Some(Status::Failed)),
            (&[Kind::Refused], false, Some(Status::Refused)),
        ] {
            let records = kinds.iter().map(|&kind| record(kind)).collect::<Vec<_>>();
            assert_eq!(standing(&records, alive), status, "{kinds:?}");
        }
    }

    #[test]
    fn a_held_call_that_never_ran_stands_as_refused_by_its_waits_alone() {
        let wait = |step: &str| {
            let body = serde_json::json!({
                "call": uuid::Uuid::from_u128(7), "step": step, "at": 1, "door": "rest",
                "caller": {"org": "default", "subject": "a", "key": "k", "level": "user", "agent": true},
                "tool": {"org": "default", "source": "s", "name": "t"},
                "definition": Digest([0; 32]), "policy": Digest([0; 32]), "args": Digest([0; 32]),
                "reason": "dangerous", "expires": 2,
            });
            Record { body: Json::of(&body), ..record(Kind::Wait) }
        };
        for (step, status) in [
            ("held", Status::Waiting),
            ("edited", Status::Waiting),
            ("approved", Status::Waiting),
            ("denied", Status::Refused),
            ("expired", Status::Refused),
            ("void", Status::Refused),
        ] {
            let records = [wait("held"), wait(step)];
            assert!(records[1].body.read::<Waited>().is_ok());
            assert_eq!(standing(&records, false), Some(status), "{step}");
            // What ran after it counts, and what began and has no end is unknown.
            let begun = [wait("held"), wait("approved"), record(Kind::Intent)];
            assert_eq!(standing(&begun, false), Some(Status::Unknown));
        }
    }
}
