//! What came of a call, as text or value for a model.

use tool::{Body, Json, Outcome};

use crate::mcp;

/// A string is its own text; everything else is its JSON.
pub(crate) fn value_text(value: &Json) -> String {
    value.read::<String>().unwrap_or_else(|_| value.as_str().to_owned())
}

/// The outcome as text.
pub(crate) fn text(outcome: &Outcome) -> String {
    match &outcome.body {
        Body::Value(value) => value_text(value),
        Body::Mcp(result) => mcp::result_text(result),
    }
}

/// The outcome as text that says of a failure that it is one, in the word of spec 0: for providers that
/// have no flag for it.
pub(crate) fn flagged(outcome: &Outcome) -> String {
    let text = text(outcome);
    if outcome.is_error { format!("Error: {text}") } else { text }
}

/// The outcome as a value: structured, where there is such a part.
pub(crate) fn value(outcome: &Outcome) -> Json {
    match &outcome.body {
        Body::Value(value) => value.clone(),
        Body::Mcp(result) => result
            .get("structuredContent")
            .filter(|structured| structured.kind() != "null")
            .or_else(|| tool::artefact::preview_of(result))
            .unwrap_or_else(|| Json::of(&mcp::result_text(result))),
    }
}
