//! The `ToolOutput` envelope of the research registry, for people and for programs.

use catalog::CatalogEntry;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tool::call_outcome::CallResponse;
use tool::{ErrorCode, ExecutionState, PendingReason};

use super::{ListedTool, outcome_value, value_to_text};

/// `ToolOutput` of the research registry with its seven fields in order.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolOutput {
    /// Protocol version, always 1.
    pub protocol_version: u8,
    /// True unless the call failed. A pending approval is no failure.
    pub ok: bool,
    /// Status: `success`, `error` or `pending_approval`.
    pub status: &'static str,
    /// Result of the tool or the error message; null while it is pending.
    pub output: Value,
    /// Declared side effects of the tool; empty if it declares none.
    pub side_effects_declared: Vec<&'static str>,
    /// True while it needs an approval.
    pub requires_approval: bool,
    /// `elapsed_ms` and `call_id`; while it is pending also `tool_name`, `args` and `approval_id`.
    pub metadata: Map<String, Value>,
}

impl ToolOutput {
    /// Builds the envelope of a call of `entry`; `None` if the call was refused before it ran,
    /// which the research registry raises instead.
    pub fn from_response(
        entry: &CatalogEntry,
        args: &Value,
        answer: &CallResponse,
    ) -> Option<Self> {
        let mut output = Self {
            protocol_version: 1,
            ok: true,
            status: "success",
            output: Value::Null,
            side_effects_declared: entry.tool.traits.effects.declared_names(),
            requires_approval: false,
            metadata: Map::new(),
        };
        output.metadata.insert("elapsed_ms".to_owned(), json!(answer.elapsed_ms));
        output.metadata.insert("call_id".to_owned(), json!(answer.call_id));
        match &answer.result {
            Ok(ExecutionState::Completed(outcome)) => {
                output.output = outcome_value(outcome);
                if outcome.is_error {
                    (output.ok, output.status) = (false, "error");
                    output.output = value_to_text(&output.output).into();
                }
            }
            Ok(ExecutionState::Pending(PendingReason::Input { .. })) => {
                (output.ok, output.status) = (false, "error");
                output.output = "the tool requests input, which this interface does not \
                    support"
                    .into();
            }
            Ok(ExecutionState::Pending(wait)) => {
                (output.status, output.requires_approval) = ("pending_approval", true);
                output.metadata.insert("tool_name".to_owned(), json!(entry.name));
                output.metadata.insert("args".to_owned(), args.clone());
                if let PendingReason::Approval(_) = wait {
                    output.metadata.insert("approval_id".to_owned(), json!(answer.call_id));
                }
            }
            Err(failure) if was_refused(failure.code) => return None,
            Err(failure) => {
                (output.ok, output.status) = (false, "error");
                output.output = failure.message.clone().into();
            }
        }
        Some(output)
    }

    /// Returns text for people: `[ERROR] …`, `[PENDING APPROVAL] Side effects: …`, or the result.
    pub fn to_human(&self) -> String {
        if !self.ok {
            return format!("[ERROR] {}", value_to_text(&self.output));
        }
        if self.requires_approval {
            let effects = match self.side_effects_declared.as_slice() {
                [] => "none".to_owned(),
                effects => effects.join(", "),
            };
            return format!("[PENDING APPROVAL] Side effects: {effects}");
        }
        if self.output.is_null() { String::new() } else { value_to_text(&self.output) }
    }

    /// Returns the seven fields as one object.
    pub fn to_machine(&self) -> Value {
        json!(self)
    }
}

/// Returns true if nothing ran: unknown tool, invalid arguments, no permission, no capacity.
fn was_refused(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::UnknownTool
            | ErrorCode::InvalidArguments
            | ErrorCode::Denied
            | ErrorCode::ApprovalRequired
            | ErrorCode::Busy
            | ErrorCode::RateLimited
            | ErrorCode::RecordUnavailable
            | ErrorCode::ShuttingDown
    )
}

/// Describes a tool as in the research registry's `list_tools`. `kind` is the kind of its source.
pub fn list_tool(entry: &CatalogEntry, kind: &str) -> ListedTool {
    let schema = entry.tool.input_schema.to_value();
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
        side_effects: entry.tool.traits.effects.declared_names(),
        destructive: entry.tool.traits.is_destructive,
    }
}
