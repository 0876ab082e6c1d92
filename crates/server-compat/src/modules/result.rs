//! The result of a call as the module API's `ToolResult`, with its texts.

use catalog::State;
use identity::Principal;
use schemars::JsonSchema;
use serde::Serialize;
use tool::outcome::{Answer, Failure};
use tool::{CallerType, Code, Json, Step, Wait};

use super::seen;
use server_core::call_result::shown;
use server_core::held;
use server_core::state::Doors;

/// Always with status 200; a failure is in `error`.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ToolResult {
    /// The name it was called by.
    tool_name: String,
    /// Whether the tool says so.
    success: bool,
    /// Its answer; null where it failed; spec 3's pending result where it waits for an approval.
    #[schemars(with = "serde_json::Value")]
    result: Json,
    /// What went wrong.
    error: Option<String>,
}

impl ToolResult {
    pub(super) fn failed(tool_name: String, error: String) -> Self {
        Self { tool_name, success: false, result: Json::of(&()), error: Some(error) }
    }
}

/// A completed call and its caller.
pub(super) struct Asked<'a> {
    pub(super) doors: &'a Doors,
    /// The caller with the level of its key.
    pub(super) principal: &'a Principal,
    /// The caller with the level that the call requested.
    pub(super) caller: &'a Principal,
    pub(super) tool_name: String,
    pub(super) arguments: Json,
}

impl Asked<'_> {
    pub(super) fn told(self, answer: Answer) -> ToolResult {
        let outcome = match answer.result {
            Ok(Step::Done(outcome)) => outcome,
            // The module API has no pending state. Nothing ran, so it is not a success; calling
            // again returns the same pending call. The result has the format of the tool-file
            // registry.
            Ok(Step::Wait(Wait::Approval(approval))) => {
                let held = (answer.call, &approval);
                let result = held::pending(&self.tool_name, &self.arguments, held);
                let error = Some(held::sentence(answer.call, &approval));
                return ToolResult { tool_name: self.tool_name, success: false, result, error };
            }
            Ok(Step::Wait(_)) => {
                let told = "the tool asks for input, which cannot be given through this door";
                return ToolResult::failed(self.tool_name, told.to_owned());
            }
            Err(failure) => {
                let error = self.error(failure);
                return ToolResult::failed(self.tool_name, error);
            }
        };
        let is_error = outcome.is_error;
        let (result, _) = shown(outcome);
        if is_error {
            let error = result.read::<String>().unwrap_or_else(|_| result.as_str().to_owned());
            return ToolResult::failed(self.tool_name, error);
        }
        ToolResult { tool_name: self.tool_name, success: true, result, error: None }
    }

    /// The error text. If only the requested level hides the tool, the text says so.
    fn error(&self, failure: Failure) -> String {
        if failure.code != Code::UnknownTool {
            return failure.message;
        }
        let name = &self.tool_name;
        let own = self.doors.parts.gateway.view(self.principal, CallerType::Direct);
        if let Some((entry, _)) = own.find(name) {
            let (needed, has) = (entry.tool.traits.level, self.caller.level());
            return format!("Permission denied: {name} requires '{needed}' but user has '{has}'");
        }
        unknown(self.doors, self.principal, name)
    }
}

/// The module API's text for a tool that does not exist for the caller; hidden and unknown tools
/// are reported alike.
pub(super) fn unknown(doors: &Doors, principal: &Principal, name: &str) -> String {
    let view = doors.parts.gateway.view(principal, CallerType::Direct);
    match name.split_once('.') {
        None => {
            let name = cut(name);
            format!("Invalid tool name format: {name}. Expected 'module.tool_name'.")
        }
        Some((module, _)) if view.has_source(module) => unknown_tool(name),
        Some((module, _)) => away(doors, principal, module)
            .unwrap_or_else(|| format!("Unknown module: {}", cut(module))),
    }
}

/// Explains why a visible module that was never listed cannot be called.
fn away(doors: &Doors, principal: &Principal, module: &str) -> Option<String> {
    let mut modules = seen(doors, principal).into_iter();
    let shelf = modules.find(|shelf| shelf.source.as_str() == module)?;
    match shelf.state {
        State::Ok | State::Stale => None,
        State::Starting => Some("Tool execution error: the module was not reached yet".to_owned()),
        State::Failed(_) => {
            let problem = shelf.problems.first().map(|problem| problem.message.as_str());
            Some(format!("Tool execution error: {}", problem.unwrap_or("Connection refused")))
        }
    }
}

pub(super) fn unknown_tool(name: &str) -> String {
    format!("Unknown tool: {}", cut(name))
}

fn cut(name: &str) -> String {
    name.chars().take(tool::name::MAX).flat_map(char::escape_debug).collect()
}
