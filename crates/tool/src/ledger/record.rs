//! Defines records as readers see them, and derives the status of a call from them.

use serde::{Deserialize, Serialize};

use super::{ApprovalStep, ApprovalStepRecord, OutcomeRecord};
use crate::call_outcome::CallStatus;
use crate::{CallId, Json, Org, WallTime};

/// One frame of the ledger, as displayed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerRecord {
    /// Sequence number; orders the frames of one writer.
    #[serde(rename = "seq")]
    pub sequence: u64,
    /// Kind of the frame.
    pub kind: RecordKind,
    /// Id of the call that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "call")]
    pub call_id: Option<CallId>,
    /// [`IntentRecord`](super::IntentRecord), [`ApprovalStepRecord`], [`OutcomeRecord`],
    /// [`RefusalRecord`](super::RefusalRecord) or [`AuditEventRecord`](super::AuditEventRecord), by
    /// kind.
    pub body: Json,
}

/// Kinds of frames. The numbers belong to the file format and never change their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum RecordKind {
    /// A call is about to run.
    Intent = 1,
    /// A step of a pending approval.
    #[serde(rename = "wait")]
    ApprovalStep = 2,
    /// A call that ended.
    Outcome = 3,
    /// A call that was refused.
    #[serde(rename = "refused")]
    Refusal = 4,
    /// Root of the tree and head of the chain so far.
    Checkpoint = 5,
    /// A segment that was removed by retention.
    Tombstone = 6,
    /// Records that were dropped, counted.
    Gap = 7,
    /// An administrative change: an [`AuditEventRecord`](super::AuditEventRecord).
    #[serde(rename = "event")]
    AuditEvent = 8,
}

impl RecordKind {
    /// Every kind of record.
    pub const ALL: &'static [Self] = &[
        Self::Intent,
        Self::ApprovalStep,
        Self::Outcome,
        Self::Refusal,
        Self::Checkpoint,
        Self::Tombstone,
        Self::Gap,
        Self::AuditEvent,
    ];

    /// Returns the word as it is serialised.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Intent => "intent",
            Self::ApprovalStep => "wait",
            Self::Outcome => "outcome",
            Self::Refusal => "refused",
            Self::Checkpoint => "checkpoint",
            Self::Tombstone => "tombstone",
            Self::Gap => "gap",
            Self::AuditEvent => "event",
        }
    }
}

impl LedgerRecord {
    /// Formats the times of the body as RFC 3339, for people and other programs.
    #[must_use]
    pub fn with_formatted_times(mut self) -> Self {
        for name in ["at", "expires", "from", "to"] {
            let ms = self.body.get(name).and_then(|time| time.decode::<u64>().ok());
            if let Some(ms) = ms {
                self.body = self.body.with_member(name, &Json::encode(&WallTime(ms).to_string()));
            }
        }
        self
    }
}

/// Filter of a record listing. An absent field matches any record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordQuery {
    /// Only of this tool.
    pub tool: Option<String>,
    /// Only of this organisation.
    pub org: Option<Org>,
    /// Only of this subject's calls, or events that it caused.
    pub caller: Option<String>,
    /// Only of this call.
    pub call: Option<CallId>,
    /// Only intents of calls that this call made.
    pub parent: Option<CallId>,
    /// Only of this kind.
    pub kind: Option<RecordKind>,
    /// Only records that report this status of their call: its outcome, its refusal, or a step of
    /// its approval.
    pub status: Option<CallStatus>,
    /// Only records of this time or a later one.
    pub since: Option<WallTime>,
    /// Only records of an earlier time.
    pub until: Option<WallTime>,
    /// Only before this number.
    pub before_sequence: Option<u64>,
    /// Maximum number of records.
    pub limit: usize,
}

/// Fields of a record body that a query can filter by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct RecordFacts {
    /// Time of the record.
    #[serde(default)]
    #[serde(rename = "at")]
    pub recorded_at: Option<WallTime>,
    /// Status, if the record is an outcome.
    #[serde(default)]
    pub status: Option<CallStatus>,
    /// Step of a pending approval.
    #[serde(default)]
    pub step: Option<ApprovalStep>,
    /// Call that made the call, if the record is an intent.
    #[serde(default)]
    #[serde(rename = "parent")]
    pub parent_id: Option<CallId>,
}

impl RecordFacts {
    /// Returns the status of its call that a record of this kind reports.
    pub fn reported_status(&self, kind: RecordKind) -> Option<CallStatus> {
        match (kind, self.step) {
            (RecordKind::Outcome, _) => self.status,
            (RecordKind::Refusal, _) => Some(CallStatus::Refused),
            (RecordKind::ApprovalStep, Some(step)) if step.is_final() => Some(CallStatus::Refused),
            (RecordKind::ApprovalStep, Some(_)) => Some(CallStatus::Pending),
            _ => None,
        }
    }
}

impl RecordQuery {
    /// Returns true if the kind and call of a record match. A kind that never has what the query
    /// asks for does not, so that its records need not be read.
    pub fn matches_header(&self, kind: RecordKind, call: Option<CallId>) -> bool {
        let has_status =
            matches!(kind, RecordKind::Outcome | RecordKind::Refusal | RecordKind::ApprovalStep);
        self.kind.is_none_or(|wanted| wanted == kind)
            && self.call.is_none_or(|wanted| call == Some(wanted))
            && (self.status.is_none() || has_status)
            && (self.parent.is_none() || kind == RecordKind::Intent)
    }

    /// Returns true if the query needs more than the frame header and the intent of the call.
    pub fn needs_facts(&self) -> bool {
        self.status.is_some()
            || self.parent.is_some()
            || self.since.is_some()
            || self.until.is_some()
    }

    /// Returns true if the fields of a record of this kind match. A record without a time matches
    /// no time filter.
    pub fn matches_facts(&self, kind: RecordKind, facts: RecordFacts) -> bool {
        let at = facts.recorded_at;
        self.status.is_none_or(|wanted| facts.reported_status(kind) == Some(wanted))
            && self.parent.is_none_or(|wanted| facts.parent_id == Some(wanted))
            && self.since.is_none_or(|since| at.is_some_and(|at| at >= since))
            && self.until.is_none_or(|until| at.is_some_and(|at| at < until))
    }
}

/// One page of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordPage {
    /// Newest first. A page can have fewer records than its limit, or none, and not be the last one.
    pub records: Vec<LedgerRecord>,
    /// [`RecordQuery::before_sequence`] of the next page; `None` after the last page.
    pub next_before: Option<u64>,
}

/// Derives the status of a call from all its records, oldest first. If the process that wrote the
/// intent still holds its receipt (`is_writer_alive`), a call without an outcome is running,
/// otherwise `unknown`. A pending approval stays `waiting` if its process dies: it is stored.
pub fn derive_status(records: &[LedgerRecord], is_writer_alive: bool) -> Option<CallStatus> {
    let ended = |record: &LedgerRecord| match record.kind {
        RecordKind::Outcome => Some(
            record.body.decode::<OutcomeRecord>().map_or(CallStatus::Unknown, |end| end.status),
        ),
        RecordKind::Refusal => Some(CallStatus::Refused),
        RecordKind::ApprovalStep => {
            let ends = record
                .body
                .decode::<ApprovalStepRecord>()
                .is_ok_and(|waited| waited.step.is_final());
            ends.then_some(CallStatus::Refused)
        }
        _ => None,
    };
    let last = records.iter().rfind(|record| record.call_id.is_some())?;
    Some(records.iter().find_map(ended).unwrap_or(match (last.kind, is_writer_alive) {
        (RecordKind::ApprovalStep, _) => CallStatus::Pending,
        (_, true) => CallStatus::Running,
        (_, false) => CallStatus::Unknown,
    }))
}

#[cfg(test)]
mod tests {
    use super::{LedgerRecord, RecordFacts, RecordKind, RecordQuery, derive_status};
    use crate::call_outcome::CallStatus;
    use crate::ledger::{ApprovalStepRecord, OutcomeRecord};
    use crate::{CallId, Digest, Json, WallTime};

    fn record(kind: RecordKind) -> LedgerRecord {
        let end = OutcomeRecord {
            recorded_at: WallTime(0),
            status: CallStatus::Failed,
            code: None,
            elapsed_ms: 1,
            result_bytes: 0,
            result_digest: None,
            sandbox_usage: None,
        };
        LedgerRecord {
            sequence: 1,
            kind,
            call_id: Some(CallId(uuid::Uuid::from_u128(7))),
            body: Json::encode(&end),
        }
    }

    #[test]
    fn a_call_stands_where_its_records_say() {
        for (kinds, alive, status) in [
            (&[][..], true, None),
            (&[RecordKind::Intent], true, Some(CallStatus::Running)),
            (&[RecordKind::Intent], false, Some(CallStatus::Unknown)),
            (&[RecordKind::Intent, RecordKind::ApprovalStep], false, Some(CallStatus::Pending)),
            (
                &[RecordKind::Intent, RecordKind::ApprovalStep, RecordKind::Outcome],
                false,
                Some(CallStatus::Failed),
            ),
            (&[RecordKind::Refusal], false, Some(CallStatus::Refused)),
        ] {
            let records = kinds.iter().map(|&kind| record(kind)).collect::<Vec<_>>();
            assert_eq!(derive_status(&records, alive), status, "{kinds:?}");
        }
    }

    #[test]
    fn a_query_asks_for_what_a_record_says() {
        let facts = |status| RecordFacts {
            recorded_at: Some(WallTime(5)),
            status,
            ..RecordFacts::default()
        };
        let failed = facts(Some(CallStatus::Failed));
        let query = |change: fn(&mut RecordQuery)| {
            let mut query = RecordQuery::default();
            change(&mut query);
            query
        };
        for (query, kind, facts, fits) in [
            (query(|q| q.since = Some(WallTime(5))), RecordKind::Outcome, failed, true),
            (query(|q| q.since = Some(WallTime(6))), RecordKind::Outcome, failed, false),
            (query(|q| q.until = Some(WallTime(5))), RecordKind::Outcome, failed, false),
            (query(|q| q.until = Some(WallTime(6))), RecordKind::Outcome, failed, true),
            (
                query(|q| q.until = Some(WallTime(6))),
                RecordKind::Gap,
                RecordFacts::default(),
                false,
            ),
            (query(|q| q.status = Some(CallStatus::Failed)), RecordKind::Outcome, failed, true),
            (
                query(|q| q.status = Some(CallStatus::Failed)),
                RecordKind::Intent,
                facts(None),
                false,
            ),
            (
                query(|q| q.status = Some(CallStatus::Refused)),
                RecordKind::Refusal,
                facts(None),
                true,
            ),
        ] {
            assert_eq!(query.matches_facts(kind, facts), fits, "{query:?} {kind:?}");
        }
        let failed = query(|q| q.status = Some(CallStatus::Failed));
        let children = query(|q| q.parent = Some(CallId(uuid::Uuid::from_u128(7))));
        for kind in RecordKind::ALL {
            let has_status = failed.matches_facts(*kind, facts(Some(CallStatus::Failed)));
            assert!(!has_status || failed.matches_header(*kind, None), "{kind:?}");
            assert_eq!(children.matches_header(*kind, None), *kind == RecordKind::Intent);
        }
        let one = RecordQuery { kind: Some(RecordKind::ApprovalStep), ..RecordQuery::default() };
        assert!(
            one.matches_header(RecordKind::ApprovalStep, None)
                && !one.matches_header(RecordKind::Intent, None)
        );
    }

    #[test]
    fn kinds_are_written_as_they_are_named_and_times_as_everywhere_else() {
        for kind in RecordKind::ALL {
            assert_eq!(Json::encode(kind).as_str(), format!("\"{}\"", kind.as_str()));
        }
        let shown = record(RecordKind::Outcome).with_formatted_times().body.to_value();
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
            LedgerRecord { body: Json::encode(&body), ..record(RecordKind::ApprovalStep) }
        };
        for (step, status) in [
            ("held", CallStatus::Pending),
            ("edited", CallStatus::Pending),
            ("approved", CallStatus::Pending),
            ("denied", CallStatus::Refused),
            ("expired", CallStatus::Refused),
            ("void", CallStatus::Refused),
        ] {
            let records = [wait("held"), wait(step)];
            assert!(records[1].body.decode::<ApprovalStepRecord>().is_ok());
            assert_eq!(derive_status(&records, false), Some(status), "{step}");
            // What ran after it counts, and what began and has no end is unknown.
            let begun = [wait("held"), wait("approved"), record(RecordKind::Intent)];
            assert_eq!(derive_status(&begun, false), Some(CallStatus::Unknown));
        }
    }
}
