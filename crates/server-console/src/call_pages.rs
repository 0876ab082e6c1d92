//! The pages of recorded calls: the list of records, and the timeline of one call.

use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::{Html, Response};
use server_core::call_history::{CallStatusReply, find_call};
use server_core::child_calls::{ChildCallsReply, list_child_calls};
use server_core::error::ApiError;
use server_core::query_string::parse_query;
use server_core::record_export::export_records;
use server_core::record_list;
use tool::display_text::truncate_and_escape_debug;
use tool::ledger::LedgerRecord;
use tool::{CallId, ErrorCode};
use uuid::Uuid;

use crate::ConsoleState;
use crate::call_filters::CallFilters;
use crate::call_waterfall::waterfall;
use crate::error_page::PageError;
use crate::html::{Element, element, link, text_element};
use crate::indented_json::indent_json;
use crate::live_calls;
use crate::page_layout::{PageLayout, PageUser, Section, data_table, page_tabs};
use crate::record_view::{call_path, record_row, timeline_entry};
use crate::session::ConsoleSession;
use crate::tool_page::tool_path;

/// Path of the list.
pub(crate) const PAGE: &str = "/ui/calls";
/// Path of the records as a file.
pub(crate) const EXPORT: &str = "/ui/calls/export";
/// Maximum size of a result that the page of a call shows, in bytes.
const MAX_RESULT_TEXT: usize = 32_000;

/// Shows a page of the records, newest first.
pub(crate) async fn list_calls(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
    uri: Uri,
) -> Result<Html<String>, PageError> {
    let filters: CallFilters = parse_query(&uri).map_err(PageError::invalid_query)?;
    let query = filters.record_query();
    let page = record_list::list_records(&state.server, &session.principal, query).await?;
    let content = element("div")
        .child(call_tabs(PAGE))
        .child(filters.form(PAGE))
        .child(record_table(&page.records));
    let next = page.next_cursor.map(|next| {
        let path = filters.path_with(PAGE, &format!("cursor={next}"));
        element("p").child(link(path, "Older records").attr("rel", "next"))
    });
    let export = link(filters.path_with(EXPORT, ""), "Export these records as JSON lines");
    let content = content.child(element("p").child(export.flag("download", true)));
    let twin = filters.path_with("GET /v1/records and GET /v1/records/export", "");
    let layout = PageLayout {
        title: "Calls",
        section: Some(Section::Calls),
        user: PageUser::SignedIn(&session),
        twin: Some(&twin),
    };
    Ok(layout.render(content.children(next)))
}

/// Sends the records of the filters as a file.
pub(crate) async fn export_calls(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
    uri: Uri,
) -> Result<Response, PageError> {
    let filters: CallFilters = parse_query(&uri).map_err(PageError::invalid_query)?;
    let query = filters.record_query();
    Ok(export_records(&state.server, &session.principal, query).await?)
}

/// Creates the choice between the recorded and the live calls.
pub(crate) fn call_tabs(current: &'static str) -> Element {
    let pages = [(PAGE, "Recorded"), (live_calls::PAGE, "Live")];
    page_tabs("Calls", pages.map(|(path, text)| (path, text, path == current)))
}

/// Renders a page of the record as a table.
pub(crate) fn record_table(records: &[LedgerRecord]) -> Element {
    let titles = ["Time", "Kind", "Tool", "Caller", "Result", "Call"];
    let table = data_table("List of records", &titles, records.iter().map(record_row));
    let message = "No record matches on this page.";
    let empty = records.is_empty().then(|| text_element("p", message).class("empty"));
    element("div").child(table).children(empty)
}

/// Shows one call: its state, its result if it is stored, the calls that it made, and its records as
/// a timeline.
pub(crate) async fn show_call(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
    Path(id): Path<String>,
) -> Result<Html<String>, PageError> {
    let missing = || {
        let shown = truncate_and_escape_debug(&id, 60);
        ApiError::new(ErrorCode::NotFound, format!("no call `{shown}`"))
    };
    let call = id.parse::<Uuid>().map(CallId).map_err(|_| missing())?;
    let history = find_call(&state.server, &session.principal, call).await?;
    let children = list_child_calls(&state.server, &session.principal, call).await?;
    let (title, content) = match &history {
        Some(history) => {
            let tool = history.tool.as_deref().unwrap_or("an unknown tool");
            (format!("Call of {tool}"), call_content(history, &children))
        }
        // A program that no call started has no record of its own.
        None => ("Program".to_owned(), waterfall(&children).ok_or_else(missing)?),
    };
    let twin = format!("GET /v1/calls/{call} and GET /v1/calls/{call}/children");
    let layout = PageLayout {
        title: &title,
        section: Some(Section::Calls),
        user: PageUser::SignedIn(&session),
        twin: Some(&twin),
    };
    Ok(layout.render(content))
}

fn call_content(history: &CallStatusReply, children: &ChildCallsReply) -> Element {
    let fact = |name: &str, value: Element| [text_element("dt", name), element("dd").child(value)];
    let plain = |text: &str| text_element("span", text);
    let tool = history.tool.as_ref().map(|name| fact("Tool", link(tool_path(name), name)));
    let source = history.source.as_ref().map(|name| fact("Source", plain(name)));
    let started = history.started.as_ref().map(|time| fact("Started", plain(time)));
    let elapsed = history.elapsed_ms.map(|ms| fact("Duration", plain(&format!("{ms} ms"))));
    let code = history.code.map(|code| fact("Error code", text_element("code", code.as_str())));
    let approval = history.approval.as_ref().map(|approval| {
        let path = format!("/ui/approvals/{}", approval.id);
        fact("Approval", link(path, approval.state.as_str()))
    });
    let id = fact("Call", text_element("code", &history.call_id.to_string()));
    let parent = history.parent.map(|parent| fact("Made by", link(call_path(parent), "this call")));
    let facts = [Some(id), parent, tool, source, started, elapsed, code, approval];
    let facts = element("dl").class("facts").children(facts.into_iter().flatten().flatten());
    let status = text_element("span", history.status.as_str()).class("badge");
    let mut content = element("div").child(element("p").child(status)).child(facts);
    if let Some(result) = &history.result {
        content = content.child(text_element("h2", "Result"));
        content = content.child(if result.as_str().len() <= MAX_RESULT_TEXT {
            text_element("pre", &indent_json(result.as_str())).attr("tabindex", "0")
        } else {
            text_element("p", "The result is too long for this page; REST returns it.")
                .class("hint")
        });
    }
    let timeline =
        element("ol").class("timeline").children(history.records.iter().map(timeline_entry));
    let content = content.children(waterfall(children));
    content.child(text_element("h2", "Timeline")).child(timeline)
}
