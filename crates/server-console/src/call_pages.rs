//! The pages of recorded calls: the list of records, and the timeline of one call.

use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::Html;
use serde::Deserialize;
use server_core::call_history::{CallStatusReply, find_call};
use server_core::error::ApiError;
use server_core::query_string::parse_query;
use server_core::record_list::{self, RecordListQuery};
use tool::call_outcome::CallStatus;
use tool::display_text::truncate_and_escape_debug;
use tool::ledger::RecordKind;
use tool::{CallId, ErrorCode};
use url::form_urlencoded;
use uuid::Uuid;

use crate::ConsoleState;
use crate::error_page::PageError;
use crate::html::{Element, element, link, text_element};
use crate::indented_json::indent_json;
use crate::page_layout::{PageLayout, PageUser, Section, data_table, submit_button};
use crate::record_view::{record_row, timeline_entry};
use crate::session::ConsoleSession;
use crate::tool_filters::select;
use crate::tool_page::tool_path;

/// Number of records per page.
const PAGE_SIZE: usize = 50;
/// Maximum size of a result that the page of a call shows, in bytes.
const MAX_RESULT_TEXT: usize = 32_000;

/// The filters of the list. An empty value is no filter, as a form sends it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct CallFilters {
    tool: String,
    caller: String,
    kind: String,
    status: String,
    since: String,
    until: String,
    cursor: Option<u64>,
}

impl CallFilters {
    fn fields(&self) -> [(&'static str, &str); 6] {
        [
            ("tool", &self.tool),
            ("caller", &self.caller),
            ("kind", &self.kind),
            ("status", &self.status),
            ("since", &self.since),
            ("until", &self.until),
        ]
    }

    /// Returns the query without empty filters, as REST takes it too.
    fn query_string(&self) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(self.fields().into_iter().filter(|(_, value)| !value.is_empty()));
        query.finish()
    }

    fn record_query(&self) -> RecordListQuery {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        RecordListQuery {
            limit: Some(PAGE_SIZE),
            cursor: self.cursor,
            tool: given(&self.tool),
            call: None,
            caller: given(&self.caller),
            kind: given(&self.kind),
            status: given(&self.status),
            since: given(&self.since),
            until: given(&self.until),
        }
    }

    fn form(&self) -> Element {
        let field = |name: &'static str, label: &str, value: &str| {
            let input = element("input").attr("type", "text").attr("id", name).attr("name", name);
            let input = input.attr("value", value.to_owned()).attr("maxlength", "200");
            let input = input.flag("data-search", name == "tool");
            element("p").child(text_element("label", label).attr("for", name)).child(input)
        };
        let kinds = record_list::KINDS.iter().map(|kind: &RecordKind| kind.as_str());
        let statuses = record_list::STATUSES.iter().map(|status: &CallStatus| status.as_str());
        element("form")
            .class("filters")
            .attr("role", "search")
            .attr("action", "/ui/calls")
            .child(field("tool", "Tool", &self.tool))
            .child(field("caller", "Caller", &self.caller))
            .child(select("kind", "Kind", kinds, &self.kind))
            .child(select("status", "Status", statuses, &self.status))
            .child(field("since", "Since (2h, or a time)", &self.since))
            .child(field("until", "Until", &self.until))
            .child(element("p").child(submit_button("Filter")))
    }
}

/// Shows a page of the records, newest first.
pub(crate) async fn list_calls(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
    uri: Uri,
) -> Result<Html<String>, PageError> {
    let filters: CallFilters = parse_query(&uri).map_err(PageError::invalid_query)?;
    let query = filters.record_query();
    let page = record_list::list_records(&state.server, &session.principal, query).await?;
    let mut content = element("div").child(filters.form());
    if page.records.is_empty() {
        content =
            content.child(text_element("p", "No record matches on this page.").class("empty"));
    } else {
        let titles = ["Time", "Kind", "Tool", "Caller", "Result", "Call"];
        content = content.child(data_table(
            "List of records",
            &titles,
            page.records.iter().map(record_row),
        ));
    }
    let query = filters.query_string();
    let next = page.next_cursor.map(|next| {
        let path = format!("/ui/calls?{query}&cursor={next}").replace("?&", "?");
        element("p").child(link(path, "Older records").attr("rel", "next"))
    });
    let twin = format!("GET /v1/records?{query}");
    let layout = PageLayout {
        title: "Calls",
        section: Some(Section::Calls),
        user: PageUser::SignedIn(&session),
        twin: Some(twin.trim_end_matches('?')),
    };
    Ok(layout.render(content.children(next)))
}

/// Shows one call: its state, its result if it is stored, and its records as a timeline.
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
    let found = find_call(&state.server, &session.principal, call).await?;
    let history = found.ok_or_else(missing)?;
    let title = format!("Call of {}", history.tool.as_deref().unwrap_or("an unknown tool"));
    let twin = format!("GET /v1/calls/{call}");
    let layout = PageLayout {
        title: &title,
        section: Some(Section::Calls),
        user: PageUser::SignedIn(&session),
        twin: Some(&twin),
    };
    Ok(layout.render(call_content(&history)))
}

fn call_content(history: &CallStatusReply) -> Element {
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
    let facts = [Some(id), tool, source, started, elapsed, code, approval];
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
    content.child(text_element("h2", "Timeline")).child(timeline)
}
