//! Search fields of a record, read from its body: its organisation, tool and caller, the status that
//! it reports, and the call that made its call.

use std::borrow::Cow;

use serde::Deserialize;
use tool::CallId;
use tool::call_outcome::CallStatus;
use tool::ledger::{RecordFacts, RecordKind};

use crate::frame::Frame;

#[derive(Deserialize)]
struct CallerFields<'b> {
    #[serde(borrow)]
    org: Cow<'b, str>,
    #[serde(borrow, default)]
    subject: Cow<'b, str>,
}

#[derive(Deserialize)]
struct ToolKeyFields<'b> {
    #[serde(borrow)]
    name: Cow<'b, str>,
}

#[derive(Deserialize)]
struct IntentFields<'b> {
    #[serde(borrow)]
    caller: CallerFields<'b>,
    #[serde(borrow)]
    tool: ToolKeyFields<'b>,
}

#[derive(Deserialize)]
struct RefusalFields<'b> {
    #[serde(borrow)]
    caller: CallerFields<'b>,
    #[serde(borrow)]
    tool: Cow<'b, str>,
}

#[derive(Deserialize)]
struct EventFields<'b> {
    #[serde(borrow)]
    org: Cow<'b, str>,
    #[serde(borrow, default)]
    tool: Cow<'b, str>,
    #[serde(borrow, default)]
    by: Option<CallerFields<'b>>,
}

/// Organisation, tool and caller of a call, as a lookup holds them in memory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SearchFields {
    pub(crate) org: String,
    pub(crate) tool: String,
    /// The caller's subject.
    pub(crate) caller: String,
}

/// Identity of one frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FrameSearchFields<'b> {
    pub(crate) org: Cow<'b, str>,
    pub(crate) tool: Cow<'b, str>,
    pub(crate) caller: Cow<'b, str>,
}

impl<'b> FrameSearchFields<'b> {
    fn from_parts(caller: CallerFields<'b>, tool: Cow<'b, str>) -> Self {
        Self { org: caller.org, tool, caller: caller.subject }
    }

    pub(crate) fn into_owned_fields(self) -> SearchFields {
        let Self { org, tool, caller } = self;
        SearchFields { org: org.into(), tool: tool.into(), caller: caller.into() }
    }
}

/// Returns whether records of this kind have search fields of their own. The filter of a segment
/// and the search must agree on it, or a search misses records.
pub(crate) fn has_search_fields(kind: RecordKind) -> bool {
    match kind {
        RecordKind::Intent
        | RecordKind::ApprovalStep
        | RecordKind::Refusal
        | RecordKind::AuditEvent => true,
        RecordKind::Outcome | RecordKind::Checkpoint | RecordKind::Tombstone | RecordKind::Gap => {
            false
        }
    }
}

/// Returns the caller's organisation, the tool name and the caller's subject, if the kind
/// [has them](has_search_fields). In an audit event they are its organisation and its
/// actor.
pub(crate) fn search_fields<'b>(frame: &Frame<'b>) -> Option<FrameSearchFields<'b>> {
    match frame.kind {
        // An approval step stores both in the same form.
        RecordKind::Intent | RecordKind::ApprovalStep => frame
            .decode_body::<IntentFields<'b>>()
            .map(|it| FrameSearchFields::from_parts(it.caller, it.tool.name)),
        RecordKind::Refusal => frame
            .decode_body::<RefusalFields<'b>>()
            .map(|it| FrameSearchFields::from_parts(it.caller, it.tool)),
        RecordKind::AuditEvent => frame.decode_body::<EventFields<'b>>().map(|event| {
            let caller = event.by.map(|by| by.subject).unwrap_or_default();
            FrameSearchFields { org: event.org, tool: event.tool, caller }
        }),
        _ => None,
    }
}

/// Facts of an unreadable record; it matches no condition on them.
pub(crate) const UNREADABLE_FACTS: RecordFacts =
    RecordFacts { recorded_at: None, status: None, step: None, parent_id: None };

/// Returns the time, the status and the parent of a frame.
pub(crate) fn frame_facts(frame: &Frame<'_>) -> RecordFacts {
    frame.decode_body().unwrap_or(UNREADABLE_FACTS)
}

/// Facts of one record that a query can search for, beside names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SearchFacts {
    /// Status that the record reports of its call.
    pub(crate) status: Option<CallStatus>,
    /// Call that made the call, if the record is an intent.
    pub(crate) parent: Option<CallId>,
}

impl SearchFacts {
    /// Returns the facts of a record; only kinds that can have any are read.
    pub(crate) fn from_frame(frame: &Frame<'_>) -> Self {
        match frame.kind {
            RecordKind::Intent
            | RecordKind::Outcome
            | RecordKind::Refusal
            | RecordKind::ApprovalStep => Self::from_facts(frame.kind, frame_facts(frame)),
            RecordKind::AuditEvent
            | RecordKind::Checkpoint
            | RecordKind::Tombstone
            | RecordKind::Gap => Self::default(),
        }
    }

    pub(crate) fn from_facts(kind: RecordKind, facts: RecordFacts) -> Self {
        let parent = facts.parent_id.filter(|_| kind == RecordKind::Intent);
        Self { status: facts.reported_status(kind), parent }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::frame::{FrameBuilder, iter_frames};

    #[test]
    fn a_kind_has_search_fields_where_they_can_be_read() {
        let caller = json!({"org": "acme", "subject": "ada"});
        let bodies = [
            json!({"caller": caller, "tool": {"name": "mail"}}),
            json!({"caller": caller, "tool": "mail", "org": "acme"}),
        ];
        for kind in RecordKind::ALL {
            let has_fields = bodies.iter().any(|body| {
                let mut draft = FrameBuilder::json(*kind, None, body).unwrap();
                iter_frames(draft.finish(1)).any(|frame| search_fields(&frame).is_some())
            });
            assert_eq!(has_search_fields(*kind), has_fields, "{kind:?}");
        }
    }
}
