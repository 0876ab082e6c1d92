//! The event types of this server, and who may subscribe to them.

use identity::Principal;
use serde_json::{Map, Value, json};
use server_core::event_log::EventKind;
use server_core::pin_review::may_read_pins;
use server_core::server_state::StateInner;
use tool::Json;

/// The members of the arguments of a kind, each of which is a string and filters by equality.
pub(super) fn filter_names(kind: EventKind) -> &'static [&'static str] {
    match kind {
        EventKind::ApprovalRequested | EventKind::ApprovalDecided => &["source", "tool"],
        EventKind::PinChanged => &["source", "tool", "change"],
        EventKind::SourceDown | EventKind::SourceUp => &["source"],
        EventKind::ProgramFinished => &["status"],
    }
}

fn payload_names(kind: EventKind) -> &'static [&'static str] {
    match kind {
        EventKind::ApprovalRequested | EventKind::ApprovalDecided => {
            &["approval", "tool", "source", "state", "requested_by", "expires", "decided_by"]
        }
        EventKind::PinChanged => &["source", "tool", "change", "definition"],
        EventKind::SourceDown | EventKind::SourceUp => &["source", "state"],
        EventKind::ProgramFinished => &["program", "status"],
    }
}

fn describe_kind(kind: EventKind) -> &'static str {
    match kind {
        EventKind::ApprovalRequested => "A call waits for an approval by a person.",
        EventKind::ApprovalDecided => "An approval was given or denied, or has expired.",
        EventKind::PinChanged => {
            "The definition of a tool, prompt, resource or skill appeared or changed, or somebody \
             decided about it."
        }
        EventKind::SourceDown => "A source became unavailable.",
        EventKind::SourceUp => "A source is available again.",
        EventKind::ProgramFinished => "A program has ended.",
    }
}

/// Whether this caller may subscribe to a kind: one of whose events it can see any.
pub(super) fn is_offered(state: &StateInner, principal: &Principal, kind: EventKind) -> bool {
    match kind {
        EventKind::PinChanged => may_read_pins(principal),
        EventKind::ProgramFinished => state.components.programs.is_some(),
        EventKind::ApprovalRequested
        | EventKind::ApprovalDecided
        | EventKind::SourceDown
        | EventKind::SourceUp => true,
    }
}

/// The definition of a kind, for `events/list`.
pub(super) fn describe_event(kind: EventKind, delivery: &[&str]) -> Json {
    let strings = |names: &[&str]| -> Map<String, Value> {
        names.iter().map(|&name| (name.to_owned(), json!({"type": "string"}))).collect()
    };
    let nullable = |names: &[&str]| -> Map<String, Value> {
        let types = json!({"type": ["string", "null"]});
        names.iter().map(|&name| (name.to_owned(), types.clone())).collect()
    };
    Json::encode(&json!({
        "name": kind.as_str(),
        "description": describe_kind(kind),
        "delivery": delivery,
        "inputSchema": {
            "type": "object",
            "properties": strings(filter_names(kind)),
            "additionalProperties": false,
        },
        "payloadSchema": {"type": "object", "properties": nullable(payload_names(kind))},
    }))
}
