//! View of one pending or decided call, and the forms to decide about it.

use gateway::{ApprovalDetails, ApprovalState};

use crate::argument_hunks::{ArgumentHunk, ArgumentHunks};
use crate::html::{Element, element, link, text_element};
use crate::indented_json::indent_json;
use crate::page_layout::{post_form, submit_button};
use crate::record_view::call_path;
use crate::session::ConsoleSession;
use crate::tool_page::tool_path;
use crate::word_diff::word_diff;

/// Maximum length of arguments in the list, in bytes of markup. Longer ones are on the page of the
/// call.
const MAX_LISTED_ARGUMENTS: usize = 2_500;
/// Bytes of markup that a quotation mark takes beyond its own.
const QUOTE_MARKUP: usize = 5;

/// Field of the form with single changes: the numbers of those that are kept.
pub(crate) const HUNK_FIELD: &str = "hunk";
/// Field with the call that the changes are compared with.
pub(crate) const FORMER_FIELD: &str = "former";
/// Maximum length of arguments that can be edited here, in bytes.
const MAX_EDITED_ARGUMENTS: usize = 20_000;

/// Renders one call of the list. A decision needs all arguments: if they are too long for the list,
/// a link to the page of the call takes the place of the forms.
pub(crate) fn listed_call(session: &ConsoleSession, details: &ApprovalDetails) -> Element {
    let path = approval_path(details);
    let title = element("h2").child(link(path.clone(), &details.tool).attr("data-open", ""));
    let title = title.text(" ").child(state_badge(details));
    let mut call = element("article").class("call").attr("data-row", "").attr("tabindex", "-1");
    call = call.child(title).child(reason_line(details)).child(requester_line(details));
    let text = details.arguments.as_str();
    let quotes = text.bytes().filter(|byte| *byte == b'"').count();
    if text.len() + quotes * QUOTE_MARKUP > MAX_LISTED_ARGUMENTS {
        let size = format!("The arguments have {} bytes. ", details.arguments.as_str().len());
        let open = link(path, "Open the call to read them and to decide");
        return call.child(element("p").text(&size).child(open));
    }
    call.child(arguments_block(details)).children(decision_forms(session, details))
}

/// Renders the page content of one call.
pub(crate) fn call_content(
    session: &ConsoleSession,
    details: &ApprovalDetails,
    former: Option<&ApprovalDetails>,
) -> Element {
    let content = element("div").class("call").attr("data-row", "");
    let content =
        content.child(element("p").child(state_badge(details))).child(reason_line(details));
    let content = content.child(text_element("h2", "Arguments")).child(arguments_block(details));
    let content = content.children(decision_forms(session, details));
    let content = content.children(edit_form(session, details));
    let content = content.children(former.map(|former| comparison(former, details)));
    let content = content.children(former.and_then(|former| hunk_form(session, former, details)));
    content.child(text_element("h2", "Details")).child(fact_list(details))
}

fn approval_path(details: &ApprovalDetails) -> String {
    format!("/ui/approvals/{}", details.id)
}

fn state_badge(details: &ApprovalDetails) -> Element {
    let class = if details.state == ApprovalState::Pending { "badge pending" } else { "badge" };
    text_element("span", details.state.as_str()).class(class)
}

fn reason_line(details: &ApprovalDetails) -> Element {
    let code = text_element("code", &details.reason);
    element("p").class("reason").text(&details.reason_text).text(" ").child(code)
}

fn requester_line(details: &ApprovalDetails) -> Element {
    let requester = &details.requester;
    let kind = if requester.is_agent { "agent" } else { "person" };
    let line = element("p").class("hint").text("Requested by ");
    let line = line.child(text_element("strong", &requester.subject));
    let line = line.text(&format!(" ({kind}, {}, key {}) at ", requester.level, requester.key_id));
    let line = line.child(time_element(&details.created_at.to_string()));
    line.text(", expires at ").child(time_element(&details.expires_at.to_string()))
}

fn time_element(time: &str) -> Element {
    text_element("time", time).attr("datetime", time.to_owned())
}

/// The exact arguments that would run. Invisible characters are in letters already.
fn arguments_block(details: &ApprovalDetails) -> Element {
    let text = indent_json(details.arguments.as_str());
    let label = format!("Arguments of {}", details.id);
    let block = text_element("pre", &text).attr("tabindex", "0").attr("role", "region");
    block.attr("aria-label", label)
}

/// The forms of a pending call. They approve the arguments that this page shows, and no others.
fn decision_forms(session: &ConsoleSession, details: &ApprovalDetails) -> Option<Element> {
    if details.state != ApprovalState::Pending {
        return None;
    }
    let path = approval_path(details);
    let approve = submit_button("Approve").class("primary").attr("data-approve", "");
    let approve =
        post_form(session, format!("{path}/approve")).child(digest_field(details)).child(approve);
    let reason_id = format!("reason-{}", details.id);
    let label = text_element("label", "Reason, for the caller").attr("for", reason_id.clone());
    let reason = element("input")
        .attr("type", "text")
        .attr("name", "reason")
        .attr("id", reason_id)
        .attr("maxlength", "1000")
        .attr("autocomplete", "off")
        .attr("data-deny", "");
    let deny = submit_button("Deny").class("danger");
    let deny = post_form(session, format!("{path}/deny")).child(label).child(reason).child(deny);
    Some(element("div").class("decision").child(approve).child(deny))
}

/// The form that replaces the arguments. The call still has to be approved afterwards.
fn edit_form(session: &ConsoleSession, details: &ApprovalDetails) -> Option<Element> {
    let arguments = details.arguments.as_str();
    if details.state != ApprovalState::Pending || arguments.len() > MAX_EDITED_ARGUMENTS {
        return None;
    }
    let label = text_element("label", "Arguments as JSON").attr("for", "edited-arguments");
    let text = text_element("textarea", &indent_json(arguments))
        .attr("name", "arguments")
        .attr("id", "edited-arguments")
        .attr("spellcheck", "false");
    let hint = "The call waits on with the new arguments, and still needs an approval.";
    let form = post_form(session, format!("{}/edit", approval_path(details))).class("arguments");
    let form = form.child(digest_field(details)).child(label).child(text);
    let form = form.child(text_element("p", hint).class("hint"));
    let form = form.child(submit_button("Replace the arguments"));
    let summary = text_element("summary", "Edit the arguments");
    Some(element("details").child(summary).child(form))
}

/// Compares the arguments with those of the last approved call of the tool.
fn comparison(former: &ApprovalDetails, details: &ApprovalDetails) -> Element {
    let section = element("div").child(text_element("h2", "Compared with the last approved call"));
    let by = former.decision.as_ref().map(|it| format!("{} at {}", it.subject, it.decided_at));
    let line = element("p").class("hint").text("Approved by ");
    let line = line.text(&by.unwrap_or_else(|| "a person".to_owned())).text(": ");
    let path = approval_path(former);
    let section = section.child(line.child(link(path, &former.id.to_string())));
    if former.arguments_sha256 == details.arguments_sha256 {
        return section.child(text_element("p", "The arguments are the same."));
    }
    let text = |details: &ApprovalDetails| indent_json(details.arguments.as_str());
    section.child(word_diff(&text(former), &text(details)))
}

/// The form that takes single changes since the last approved call back.
fn hunk_form(
    session: &ConsoleSession,
    former: &ApprovalDetails,
    details: &ApprovalDetails,
) -> Option<Element> {
    if details.state != ApprovalState::Pending
        || details.arguments.as_str().len() > MAX_EDITED_ARGUMENTS
    {
        return None;
    }
    let hunks = ArgumentHunks::between(&former.arguments, &details.arguments)?.list();
    let row = |(number, hunk): (usize, &ArgumentHunk)| {
        let place = if hunk.place.is_empty() { "all arguments" } else { &hunk.place };
        let input = element("input").attr("type", "checkbox").attr("name", HUNK_FIELD);
        let input = input.attr("value", number.to_string()).flag("checked", true);
        let label = element("label").class("check").child(input).text(" Keep ");
        let label = label.child(text_element("code", place));
        element("div").child(element("p").child(label)).child(word_diff(&hunk.before, &hunk.after))
    };
    let former_id = element("input").attr("type", "hidden").attr("name", FORMER_FIELD);
    let former_id = former_id.attr("value", former.id.to_string());
    let hint = "What is not kept becomes what the last approved call had. The call waits on with the new arguments.";
    let form = post_form(session, format!("{}/hunks", approval_path(details)))
        .child(digest_field(details))
        .child(former_id)
        .children(hunks.iter().enumerate().map(row))
        .child(text_element("p", hint).class("hint"))
        .child(submit_button("Keep only these changes"));
    let summary = text_element("summary", "Take single changes back");
    Some(element("details").child(summary).child(form))
}

/// The hash of the arguments that the page shows.
fn digest_field(details: &ApprovalDetails) -> Element {
    let digest = element("input").attr("type", "hidden").attr("name", "arguments_sha256");
    digest.attr("value", details.arguments_sha256.to_string())
}

fn fact_list(details: &ApprovalDetails) -> Element {
    let fact = |name: &str, value: Element| [text_element("dt", name), element("dd").child(value)];
    let plain = |text: &str| text_element("span", text);
    let digest = |digest: &tool::Digest| text_element("code", &digest.to_string());
    let requester = &details.requester;
    let kind = if requester.is_agent { "agent" } else { "person" };
    let requested_by =
        format!("{} ({kind}, {}, key {})", requester.subject, requester.level, requester.key_id);
    let facts = [
        fact("Call", link(call_path(details.id), &details.id.to_string())),
        fact("Tool", link(tool_path(&details.tool), &details.tool)),
        fact("Source", plain(&details.source)),
        fact("Approval needed for", plain(&details.approval_reasons.join(", "))),
        fact("Requested by", plain(&requested_by)),
        fact("Interface", plain(details.interface.as_str())),
        fact("Requested at", time_element(&details.created_at.to_string())),
        fact("Expires at", time_element(&details.expires_at.to_string())),
        fact("Side effects", plain(&details.side_effects.join(", "))),
        fact("Minimum level of an approver", plain(details.min_level.as_str())),
        fact("Edits of the arguments", plain(&details.edit_count.to_string())),
        fact("SHA-256 of the arguments", digest(&details.arguments_sha256)),
        fact("Definition of the tool", digest(&details.definition_digest)),
        fact("Policy", digest(&details.policy_digest)),
    ];
    let decided = details.decision.as_ref().map(|decision| {
        let mut text = format!(
            "by {} (key {}) over {} at {}",
            decision.subject, decision.key_id, decision.interface, decision.decided_at
        );
        if let Some(reason) = &decision.reason {
            text = format!("{text}: {reason}");
        }
        fact("Decided", plain(&text))
    });
    let result = details.call_result.as_ref().map(|result| {
        let code = result.code.map(|code| format!(" ({})", code.as_str())).unwrap_or_default();
        let message = result.message.as_ref().map(|it| format!(": {it}")).unwrap_or_default();
        fact("Result", plain(&format!("{}{code}{message}", result.status.as_str())))
    });
    let facts = facts.into_iter().chain(decided).chain(result).flatten();
    element("dl").class("facts").children(facts)
}
