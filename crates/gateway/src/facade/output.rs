//! Spec 3: one envelope for what a tool answers, for people and for programs.

use catalog::Entry;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tool::outcome::Answer;
use tool::{Code, Step, Wait};

use super::{ListedTool, text, value};

/// Spec 3's `ToolOutput`, its seven fields in its order.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolOutput {
    /// 1.
    pub protocol_version: u8,
    /// Whether it did not fail. What waits for an approval has not failed.
    pub ok: bool,
    /// `success`, `error` or `pending_approval`.
    pub status: &'static str,
    /// What the tool answered, or what went wrong in words; null while it waits.
    pub output: Value,
    /// What the tool declares to do beside answering; empty where nobody declared it.
    pub side_effects_declared: Vec<&'static str>,
    /// Whether it waits for an approval.
    pub requires_approval: bool,
    /// `elapsed_ms` and `call_id`; while it waits `tool_name`, `args` and `approval_id` as well.
    pub metadata: Map<String, Value>,
}

impl ToolOutput {
    /// Of a call of `entry` with these arguments; `None` where the call was refused before it ran, which
    /// spec 3 raises and does not wrap.
    pub fn of(entry: &Entry, args: &Value, answer: &Answer) -> Option<Self> {
        let mut output = Self {
            protocol_version: 1,
            ok: true,
            status: "success",
            output: Value::Null,
            side_effects_declared: entry.tool.traits.effects.declared(),
            requires_approval: false,
            metadata: Map::new(),
        };
        output.metadata.insert("elapsed_ms".to_owned(), json!(answer.elapsed_ms));
        output.metadata.insert("call_id".to_owned(), json!(answer.call));
        match &answer.result {
            Ok(Step::Done(outcome)) => {
                output.output = value(outcome);
                if outcome.is_error {
                    (output.ok, output.status) = (false, "error");
                    output.output = text(&output.output).into();
                }
            }
            Ok(Step::Wait(Wait::Input { .. })) => {
                (output.ok, output.status) = (false, "error");
                output.output = "the tool asks for input, which nobody gives here".into();
            }
            Ok(Step::Wait(wait)) => {
                (output.status, output.requires_approval) = ("pending_approval", true);
                output.metadata.insert("tool_name".to_owned(), json!(entry.name));
                output.metadata.insert("args".to_owned(), args.clone());
                if let Wait::Approval(_) = wait {
                    output.metadata.insert("approval_id".to_owned(), json!(answer.call));
                }
            }
            Err(failure) if before(failure.code) => return None,
            Err(failure) => {
                (output.ok, output.status) = (false, "error");
                output.output = failure.message.clone().into();
            }
        }
        Some(output)
    }

    /// Text for people: `[ERROR] …`, `[PENDING APPROVAL] Side effects: …`, or the answer.
    pub fn to_human(&self) -> String {
        if !self.ok {
            return format!("[ERROR] {}", text(&self.output));
        }
        if self.requires_approval {
            let effects = match self.side_effects_declared.as_slice() {
                [] => "none".to_owned(),
                effects => effects.join(", "),
            };
            return format!("[PENDING APPROVAL] Side effects: {effects}");
        }
        if self.output.is_null() { String::new() } else { text(&self.output) }
    }

    /// The seven fields as one object.
    pub fn to_machine(&self) -> Value {
        json!(self)
    }
}

/// Whether nothing ran: no such tool, arguments that do not fit, no permission, no room.
fn before(code: Code) -> bool {
    matches!(
        code,
        Code::UnknownTool
            | Code::InvalidArguments
            | Code::Denied
            | Code::ApprovalRequired
            | Code::Busy
            | Code::RateLimited
            | Code::RecordUnavailable
            | Code::ShuttingDown
    )
}

/// A tool as spec 3's `list_tools` has it. `kind` is its source's.
pub fn listed(entry: &Entry, kind: &str) -> ListedTool {
    let schema = entry.tool.input.value();
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut parameters =
        schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    for (name, parameter) in &mut parameters {
        if let Some(parameter) = parameter.as_object_mut() {
            let wanted = required.iter().any(|one| one.as_str() == Some(name));
            parameter.insert("required".to_owned(), wanted.into());
        }
    }
    ListedTool {
        name: entry.name.to_string(),
        description: entry.tool.description.clone(),
        category: entry.tool.traits.categories.first().cloned().unwrap_or_default(),
        parameters,
        mcp_backed: kind == "mcp",
        side_effects: entry.tool.traits.effects.declared(),
        destructive: entry.tool.traits.destructive,
    }
}
