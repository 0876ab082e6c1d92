//! Views of records: a row of a list, and an entry of a call's timeline.

use serde_json::Value;
use tool::CallId;
use tool::ledger::{LedgerRecord, RecordKind};

use crate::html::{Element, element, link, text_element};
use crate::indented_json::indent_json;

/// Returns the path of a call's page.
pub(crate) fn call_path(id: CallId) -> String {
    format!("/ui/calls/{id}")
}

/// The parts of a record that every kind shows, in the forms that REST has.
#[derive(Debug, Default)]
struct RecordSummary {
    time: String,
    tool: String,
    caller: String,
    interface: String,
    result: String,
}

impl RecordSummary {
    fn new(record: &LedgerRecord) -> Self {
        let body = record.body.to_value();
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        let field = |name: &str| body.get(name).map(text).unwrap_or_default();
        let tool = body.get("tool").map(|tool| tool.get("name").unwrap_or(tool));
        let caller = body.get("caller").or_else(|| body.get("by"));
        let caller = caller.map(|caller| caller.get("subject").unwrap_or(caller));
        let words = ["status", "step", "event", "code", "reason", "told"].map(field);
        let mut result: Vec<String> = words.into_iter().filter(|word| !word.is_empty()).collect();
        if let Some(elapsed) = body.get("elapsed_ms") {
            result.push(format!("{elapsed} ms"));
        }
        Self {
            time: field("at"),
            tool: tool.map(text).unwrap_or_default(),
            caller: caller.map(text).unwrap_or_default(),
            interface: field("door"),
            result: result.join(", "),
        }
    }
}

/// Renders a record as a row of the list.
pub(crate) fn record_row(record: &LedgerRecord) -> Element {
    let summary = RecordSummary::new(record);
    let time = text_element("time", &summary.time).attr("datetime", summary.time.clone());
    let call = match record.call_id {
        Some(id) => element("td").child(link(call_path(id), &id.to_string()).attr("data-open", "")),
        None => element("td"),
    };
    let cell = |text: &str| text_element("td", text);
    element("tr")
        .attr("data-row", "")
        .attr("tabindex", "-1")
        .child(element("th").attr("scope", "row").child(time))
        .child(cell(record.kind.as_str()))
        .child(cell(&summary.tool))
        .child(cell(&summary.caller))
        .child(cell(&summary.result))
        .child(call)
}

/// Renders a record as an entry of a timeline.
pub(crate) fn timeline_entry(record: &LedgerRecord) -> Element {
    let summary = RecordSummary::new(record);
    let time = text_element("time", &summary.time).attr("datetime", summary.time.clone());
    let title = text_element("strong", step_title(record.kind));
    let mut line = element("p").child(title).text(" ").child(time);
    for (label, value) in [("by", &summary.caller), ("over", &summary.interface)] {
        if !value.is_empty() {
            line = line.text(&format!(" {label} ")).child(text_element("span", value));
        }
    }
    let mut entry = element("li").child(line);
    if !summary.result.is_empty() {
        entry = entry.child(text_element("p", &summary.result).class("reason"));
    }
    let block = text_element("pre", &indent_json(record.body.as_str())).attr("tabindex", "0");
    let label = format!("Record {}", record.sequence);
    entry.child(element("details").child(text_element("summary", &label)).child(block))
}

fn step_title(kind: RecordKind) -> &'static str {
    match kind {
        RecordKind::Intent => "Started",
        RecordKind::ApprovalStep => "Approval",
        RecordKind::Outcome => "Ended",
        RecordKind::Refusal => "Refused",
        RecordKind::Checkpoint
        | RecordKind::Tombstone
        | RecordKind::Gap
        | RecordKind::AuditEvent => kind.as_str(),
    }
}
