//! Tool runner of the safety-level library: runs calls and returns every failure as a result.

use std::sync::Arc;

use bytes::Bytes;
use identity::Principal;
use serde::Serialize;
use tool::outcome::{Answer, Failure};
use tool::{CallId, CallerType, Code, Interface, Safety, Step, Wait};

use super::approver::{Approver, Ask};
use super::{text, value};
use crate::{Gateway, Request};

/// One call as a model requested it.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Id that the model gave the call.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments, an unparsed JSON object.
    pub args: Bytes,
}

/// Result in the safety-level library's format. Either `success` or `error` is set; `content` is
/// always text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolResult {
    /// Id of the call.
    pub id: String,
    /// True if the call succeeded.
    pub success: bool,
    /// Result of the tool; empty if the call failed.
    pub content: String,
    /// Error message, if the call failed.
    pub error: Option<String>,
    /// Additional facts about the call.
    pub metadata: Metadata,
}

/// Metadata of a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Metadata {
    /// Execution time in milliseconds.
    pub execution_time_ms: u64,
    /// Safety level of the tool; absent if the tool is unknown.
    pub safety_level: Option<Safety>,
    /// True if a person approved it.
    pub approved: bool,
}

/// Runs calls for one principal.
#[derive(Debug, Clone)]
pub struct Runner {
    gateway: Arc<Gateway>,
    principal: Principal,
    approver: Option<Approver>,
}

impl Runner {
    /// Creates a runner for this principal.
    pub fn new(gateway: Arc<Gateway>, principal: Principal) -> Self {
        Self { gateway, principal, approver: None }
    }

    /// Adds an approval callback, which decides about pending calls as `who` and needs its right
    /// `approve`: see [`Approver`].
    #[must_use]
    pub fn approved_by(self, who: Principal, ask: impl Ask) -> Self {
        Self { approver: Some(Approver::new(who, ask)), ..self }
    }

    /// Runs one call and returns its result.
    pub async fn execute(&self, asked: Asked) -> ToolResult {
        let view = self.gateway.view(&self.principal, CallerType::Direct);
        let safety = view.find(&asked.name).map(|(entry, _)| entry.tool.traits.safety);
        let request = Request::new(asked.name.clone(), asked.args.clone(), Interface::Library);
        let answer = self.gateway.call(&self.principal, request).await;
        let approver = self.approver.as_ref().filter(|_| is_held(&answer));
        let Some(approver) = approver else { return result(&asked, (safety, false), answer) };
        let decided = Box::pin(approver.decide(&self.gateway, &self.principal, answer)).await;
        result(&asked, (safety, decided.approved), decided.answer)
    }

    /// Runs calls one after the other. Each has its own result.
    pub async fn execute_all(&self, asked: Vec<Asked>) -> Vec<ToolResult> {
        let mut results = Vec::with_capacity(asked.len());
        for one in asked {
            results.push(self.execute(one).await);
        }
        results
    }
}

fn is_held(answer: &Answer) -> bool {
    matches!(answer.result, Ok(Step::Wait(Wait::Approval(_))))
}

fn result(
    asked: &Asked,
    (safety_level, approved): (Option<Safety>, bool),
    answer: Answer,
) -> ToolResult {
    let metadata = Metadata { execution_time_ms: answer.elapsed_ms, safety_level, approved };
    let (content, error) = match answer.result {
        Ok(Step::Done(outcome)) if outcome.is_error => {
            (String::new(), Some(format!("Tool error: {}", text(&value(&outcome)))))
        }
        Ok(Step::Done(outcome)) => (printed(&value(&outcome)), None),
        Ok(Step::Wait(wait)) => (String::new(), Some(waits(&wait, answer.call))),
        Err(failure) => (String::new(), Some(told(&asked.name, &failure))),
    };
    ToolResult { id: asked.id.clone(), success: error.is_none(), content, error, metadata }
}

/// Formats a value as the safety-level library does: strings unchanged, null as `nil`, other values
/// as JSON.
fn printed(value: &serde_json::Value) -> String {
    if value.is_null() { "nil".to_owned() } else { text(value) }
}

fn waits(wait: &Wait, call: CallId) -> String {
    match wait {
        Wait::Approval(_) => format!("Tool error: it waits for an approval: {call}"),
        Wait::Input { .. } => "Tool error: it asks for input, which nobody gives here".to_owned(),
        Wait::Nested(call) => format!("Tool error: it waits for the call {call}"),
    }
}

/// Returns the safety-level library's error text.
fn told(name: &str, failure: &Failure) -> String {
    match failure.code {
        Code::UnknownTool => format!("Unknown tool: {name}"),
        Code::ApprovalRequired => {
            "Dangerous tool requires approval handler, but none configured".to_owned()
        }
        Code::ApprovalDenied => match failure.message.split_once(": ") {
            Some((_, reason)) => format!("Tool execution denied by user: {reason}"),
            None => "Tool execution denied by user".to_owned(),
        },
        Code::InvalidArguments => match missing(&failure.message) {
            Some(parameter) => format!("Required parameter '{parameter}' missing"),
            None => format!("Tool error: {}", failure.message),
        },
        _ => format!("Tool error: {}", failure.message),
    }
}

/// Returns the name of a missing parameter, if that is the error.
fn missing(message: &str) -> Option<&str> {
    message.strip_prefix('"')?.split_once("\" is a required property").map(|(name, _)| name)
}
