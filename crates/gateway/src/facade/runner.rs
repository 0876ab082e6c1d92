//! Spec 1: an executor that never raises and answers every call with a result of its own.

use std::sync::Arc;

use bytes::Bytes;
use identity::Principal;
use serde::Serialize;
use tool::outcome::{Answer, Failure};
use tool::{CallId, CallerType, Code, Interface, Safety, Step, Wait};

use super::approver::{Approver, Ask};
use super::{text, value};
use crate::{Gateway, Request};

/// One call, as a model asked for it.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The model's own id of it.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments, a JSON object, unread.
    pub args: Bytes,
}

/// Spec 1's result. Exactly one of success and `error` holds; `content` is text always.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolResult {
    /// That of the call.
    pub id: String,
    /// Whether it succeeded.
    pub success: bool,
    /// What the tool answered; empty where it did not.
    pub content: String,
    /// What went wrong.
    pub error: Option<String>,
    /// Beside it.
    pub metadata: Metadata,
}

/// What is told beside a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Metadata {
    /// Milliseconds.
    pub execution_time_ms: u64,
    /// The tool's; absent where there is no such tool.
    pub safety_level: Option<Safety>,
    /// Whether a person agreed to it.
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
    /// For this principal.
    pub fn new(gateway: Arc<Gateway>, principal: Principal) -> Self {
        Self { gateway, principal, approver: None }
    }

    /// The same; a function is asked about calls that are held, and decides as `who`, whose right `approve`
    /// it needs: see [`Approver`].
    #[must_use]
    pub fn approved_by(self, who: Principal, ask: impl Ask) -> Self {
        Self { approver: Some(Approver::new(who, ask)), ..self }
    }

    /// Runs one call.
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

    /// Runs calls one after the other. Each has its result, whatever became of the others.
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

/// Spec 1's formatter: a text unchanged, nothing as `nil`, all else as it is written.
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

/// Spec 1's texts.
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

/// The parameter that is missing, where that is what is wrong.
fn missing(message: &str) -> Option<&str> {
    message.strip_prefix('"')?.split_once("\" is a required property").map(|(name, _)| name)
}
