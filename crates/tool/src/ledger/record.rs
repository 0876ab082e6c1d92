//! Defines records as readers see them, and derives the status of a call from them.

use serde::{Deserialize, Serialize};

use super::{End, WaitStep, Waited};
use crate::outcome::Status;
use crate::{CallId, Json, Org, Wall};

/// One frame of the ledger, as displayed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Sequence number; orders the frames of one writer.
    pub seq: u64,
    /// Kind of the frame.
    pub kind: Kind,
    /// Id of the call that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// [`Intent`](super::Intent), [`Waited`], [`End`], [`Refusal`](super::Refusal) or
    /// [`Event`](super::Event), by kind.
    pub body: Json,
}

/// Kinds of frames. The numbers belong to the file format and never change their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Kind {
    /// A call is about to run.
    Intent = 1,
    /// A step of a pending approval.
    Wait = 2,
    /// A call that ended.
    Outcome = 3,
    /// A call that was refused.
    Refused = 4,
    /// Root of the tree and head of the chain so far.
    Checkpoint = 5,
    /// A segment that was removed by retention.
    Tombstone = 6,
    /// Records that were dropped, counted.
    Gap = 7,
    /// An administrative change: an [`Event`](super::Event).
    Event = 8,
}

impl Kind {
    /// Every kind of record.
    pub const ALL: &'static [Self] = &[
        Self::Intent,
        Self::Wait,
        Self::Outcome,
        Self::Refused,
        Self::Checkpoint,
        Self::Tombstone,
        Self::Gap,
        Self::Event,
    ];

    /// Returns the word as it is serialised.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Intent => "intent",
            Self::Wait => "wait",
            Self::Outcome => "outcome",
            Self::Refused => "refused",
            Self::Checkpoint => "checkpoint",
            Self::Tombstone => "tombstone",
            Self::Gap => "gap",
            Self::Event => "event",
        }
    }
}

impl Record {
    /// Formats the times of the body as RFC 3339, for people and other programs.
    #[must_use]
    pub fn with_times(mut self) -> Self {
        for name in ["at", "expires", "from", "to"] {
            let ms = self.body.get(name).and_then(|time| time.read::<u64>().ok());
            if let Some(ms) = ms {
                self.body = self.body.with(name, &Json::of(&Wall(ms).to_string()));
            }
        }
        self
    }
}

/// Filter of a record listing. An absent field matches any record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// Only of this tool.
    pub tool: Option<String>,
    /// Only of this organisation.
    pub org: Option<Org>,
    /// Only of this subject's calls, or events that it caused.
    pub caller: Option<String>,
    /// Only of this call.
    pub call: Option<CallId>,
    /// Only of this kind.
    pub kind: Option<Kind>,
    /// Only records that report this status of their call: its outcome, its refusal, or a step of
    /// its approval.
    pub status: Option<Status>,
    /// Only records of this time or a later one.
    pub since: Option<Wall>,
    /// Only records of an earlier time.
    pub until: Option<Wall>,
    /// Only before this number.
    pub before: Option<u64>,
    /// Maximum number of records.
    pub limit: usize,
}

/// Fields of a record body that a query can filter by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct RecordFacts {
    /// Time of the record.
    #[serde(default)]
    pub at: Option<Wall>,
    /// Status, if the record is an outcome.
    #[serde(default)]
    pub status: Option<Status>,
    /// Step of a pending approval.
    #[serde(default)]
    pub step: Option<WaitStep>,
}

impl Query {
    /// Returns true if the kind and call of a record match.
    pub fn fits_head(&self, kind: Kind, call: Option<CallId>) -> bool {
        self.kind.is_none_or(|wanted| wanted == kind)
            && self.call.is_none_or(|wanted| call == Some(wanted))
    }

    /// Returns true if the query needs more than the frame header and the intent of the call.
    pub fn needs_facts(&self) -> bool {
        self.status.is_some() || self.since.is_some() || self.until.is_some()
    }

    /// Returns true if the fields of a record of this kind match. A record without a time matches
    /// no time filter.
    pub fn fits_facts(&self, kind: Kind, facts: RecordFacts) -> bool {
        let status = match (kind, facts.step) {
            (Kind::Outcome, _) => facts.status,
            (Kind::Refused, _) => Some(Status::Refused),
            (Kind::Wait, Some(step)) if step.ends() => Some(Status::Refused),
            (Kind::Wait, Some(_)) => Some(Status::Waiting),
            _ => None,
        };
        let at = facts.at;
        self.status.is_none_or(|wanted| status == Some(wanted))
            && self.since.is_none_or(|since| at.is_some_and(|at| at >= since))
            && self.until.is_none_or(|until| at.is_some_and(|at| at < until))
    }
}

/// One page of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Newest first. A page can have fewer records than its limit, or none, and not be the last one.
    pub records: Vec<Record>,
    /// [`Query::before`] of the next page; `None` after the last page.
    pub next: Option<u64>,
}

/// Derives the status of a call from all its records, oldest first. If the process that wrote the
/// intent still holds its receipt (`alive`), a call without an outcome is running, otherwise
/// `unknown`. A pending approval stays `waiting` if its process dies: it is stored.
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
    use super::{Kind, Query, Record, RecordFacts, standing};
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
    fn a_query_asks_for_what_a_record_says() {
        let facts = |status| RecordFacts { at: Some(Wall(5)), status, step: None };
        let failed = facts(Some(Status::Failed));
        let query = |change: fn(&mut Query)| {
            let mut query = Query::default();
            change(&mut query);
            query
        };
        for (query, kind, facts, fits) in [
            (query(|q| q.since = Some(Wall(5))), Kind::Outcome, failed, true),
            (query(|q| q.since = Some(Wall(6))), Kind::Outcome, failed, false),
            (query(|q| q.until = Some(Wall(5))), Kind::Outcome, failed, false),
            (query(|q| q.until = Some(Wall(6))), Kind::Outcome, failed, true),
            (query(|q| q.until = Some(Wall(6))), Kind::Gap, RecordFacts::default(), false),
            (query(|q| q.status = Some(Status::Failed)), Kind::Outcome, failed, true),
            (query(|q| q.status = Some(Status::Failed)), Kind::Intent, facts(None), false),
            (query(|q| q.status = Some(Status::Refused)), Kind::Refused, facts(None), true),
        ] {
            assert_eq!(query.fits_facts(kind, facts), fits, "{query:?} {kind:?}");
        }
        let one = Query { kind: Some(Kind::Wait), ..Query::default() };
        assert!(one.fits_head(Kind::Wait, None) && !one.fits_head(Kind::Intent, None));
    }

    #[test]
    fn kinds_are_written_as_they_are_named_and_times_as_everywhere_else() {
        for kind in Kind::ALL {
            assert_eq!(Json::of(kind).as_str(), format!("\"{}\"", kind.as_str()));
        }
        let shown = record(Kind::Outcome).with_times().body.value();
        assert_eq!(
            (&shown["at"], &shown["elapsed_ms"]),
            (&"1970-01-01T00:00:00.000Z".into(), &1.into())
        );
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
