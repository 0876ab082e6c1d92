//! View of the result of a call that a page made.

use server_core::call_result::to_plain_result;
use server_core::error::ApiError;
use server_core::pending_call::{INPUT_NOT_SUPPORTED, PendingCall, pending_message};
use tool::call_outcome::CallResponse;
use tool::executor::PendingReason;
use tool::{ExecutionState, Json, Outcome};

use crate::ConsoleState;
use crate::html::{Element, element, link, text_element};
use crate::indented_json::indent_json;
use crate::record_view::call_path;
use crate::session::ConsoleSession;

/// Maximum size of a result that a page shows, in bytes.
const MAX_RESULT_TEXT: usize = 64_000;

/// Renders the result, or why there is none, with the way to its records.
///
/// # Errors
/// The system has no random bytes for the addresses of pictures.
pub(crate) fn call_result(
    state: &ConsoleState,
    session: &ConsoleSession,
    answer: CallResponse,
) -> Result<Element, ApiError> {
    let CallResponse { call_id, status, result, elapsed_ms } = answer;
    let fact = |name: &str, value: Element| [text_element("dt", name), element("dd").child(value)];
    let facts = [
        fact("Status", text_element("span", status.as_str()).class("badge")),
        fact("Duration", text_element("span", &format!("{elapsed_ms} ms"))),
        fact("Records", link(call_path(call_id), &call_id.to_string())),
    ];
    let section = element("section").child(text_element("h2", "Result"));
    let section = section.child(element("dl").class("facts").children(facts.into_iter().flatten()));
    Ok(match result {
        Ok(ExecutionState::Completed(outcome)) => {
            section.children(outcome_view(state, session, outcome)?)
        }
        Ok(ExecutionState::Pending(PendingReason::Approval(approval))) => {
            let message = pending_message(PendingCall { id: call_id, approval: &approval });
            let open = link(format!("/ui/approvals/{call_id}"), "Open the approval");
            let notice = element("div").class("notice").attr("role", "status");
            section.child(notice.child(text_element("p", &message)).child(element("p").child(open)))
        }
        Ok(ExecutionState::Pending(_)) => section.child(error_notice(INPUT_NOT_SUPPORTED, None)),
        Err(failure) => {
            let error = ApiError::from_failure(call_id, failure);
            let code = format!("Error code: {}", error.code().as_str());
            section.child(error_notice(error.message(), Some(&code)))
        }
    })
}

fn error_notice(message: &str, detail: Option<&str>) -> Element {
    let notice = element("div").class("notice error").attr("role", "alert");
    let detail = detail.map(|detail| text_element("p", detail));
    notice.child(text_element("p", message)).children(detail)
}

fn outcome_view(
    state: &ConsoleState,
    session: &ConsoleSession,
    outcome: Outcome,
) -> Result<Vec<Element>, ApiError> {
    let mut parts = Vec::new();
    if outcome.is_error {
        parts.push(error_notice("The tool reports a failure.", None));
    }
    let (value, content) = to_plain_result(outcome);
    let pictures = match &content {
        Some(content) => state.pictures.store_pictures(session.principal.key_id(), content)?,
        None => Vec::new(),
    };
    parts.extend(pictures.into_iter().map(|path| {
        element("img").attr("src", path).attr("alt", "Picture in the result").class("picture")
    }));
    parts.push(value_view(&value));
    Ok(parts)
}

/// Shows text as text, and other values as JSON.
fn value_view(value: &Json) -> Element {
    if value.as_str().len() > MAX_RESULT_TEXT {
        let size = value.as_str().len();
        let message =
            format!("The result has {size} bytes, too many for this page; REST returns it.");
        return text_element("p", &message).class("hint");
    }
    let text: Option<String> = value.decode().ok();
    let text = text.unwrap_or_else(|| indent_json(value.as_str()));
    text_element("pre", &text)
        .attr("tabindex", "0")
        .attr("role", "region")
        .attr("aria-label", "Result")
}
