//! Results of calls as text or JSON for a model.

use tool::{Json, Outcome, OutcomeBody};

use crate::mcp;

/// Returns a string as its own text, and any other value as JSON.
pub(crate) fn json_text(value: &Json) -> String {
    value.decode::<String>().unwrap_or_else(|_| value.as_str().to_owned())
}

/// Returns the outcome as text.
pub(crate) fn outcome_text(outcome: &Outcome) -> String {
    match &outcome.body {
        OutcomeBody::Value(value) => json_text(value),
        OutcomeBody::Mcp(result) => mcp::call_result_text(result),
    }
}

/// Returns the outcome as text, with the module API's error prefix for a failure; for providers
/// without an error flag.
pub(crate) fn outcome_text_with_error_prefix(outcome: &Outcome) -> String {
    let text = outcome_text(outcome);
    if outcome.is_error { format!("Error: {text}") } else { text }
}

/// Returns the outcome as a value: its structured content, if there is any.
pub(crate) fn outcome_value(outcome: &Outcome) -> Json {
    match &outcome.body {
        OutcomeBody::Value(value) => value.clone(),
        OutcomeBody::Mcp(result) => result
            .get("structuredContent")
            .filter(|structured| structured.kind() != "null")
            .or_else(|| tool::artifact::artifact_preview(result))
            .unwrap_or_else(|| Json::encode(&mcp::call_result_text(result))),
    }
}
