//! The live page of records: the newest ones, and further ones as they are written.
//!
//! A look takes the newest records only, so that a busy server sends as much as a quiet one. The
//! script keeps a bounded number of rows.

use axum::extract::State;
use axum::http::Uri;
use axum::response::sse::Event;
use axum::response::{Html, Response};
use identity::Principal;
use serde_json::json;
use server_core::query_string::parse_query;
use server_core::record_list::{RecordListPage, list_records};

use crate::ConsoleState;
use crate::call_filters::CallFilters;
use crate::call_pages::{call_tabs, record_table};
use crate::error_page::PageError;
use crate::html::element;
use crate::live_stream::{LiveView, open_stream};
use crate::page_layout::{PageLayout, PageUser, Section};
use crate::record_view::record_row;
use crate::session::ConsoleSession;

/// Path of the page.
pub(crate) const PAGE: &str = "/ui/calls/live";
/// Path of its events.
pub(crate) const EVENTS: &str = "/ui/events/calls";

/// Shows the newest records, and watches for further ones.
pub(crate) async fn show_live_calls(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
    uri: Uri,
) -> Result<Html<String>, PageError> {
    let filters: CallFilters = parse_query(&uri).map_err(PageError::invalid_query)?;
    let page = list_records(&state.server, &session.principal, filters.record_query()).await?;
    let events = filters.path_with(EVENTS, &format!("after={}", newest_sequence(&page)));
    let pause = element("button")
        .attr("type", "button")
        .attr("data-pause", "")
        .flag("hidden", true)
        .text("Pause");
    let status = element("p").class("hint").attr("role", "status").attr("data-live-status", "");
    let status = status.text("Without a script, load this page again to see newer records.");
    let live = element("div").attr("data-live-rows", events).child(status).child(pause);
    let content = element("div")
        .child(call_tabs(PAGE))
        .child(filters.form(PAGE))
        .child(live.child(record_table(&page.records)));
    let twin = filters.path_with("GET /v1/records", "");
    let layout = PageLayout {
        title: "Live calls",
        section: Some(Section::Calls),
        user: PageUser::SignedIn(&session),
        twin: Some(&twin),
    };
    Ok(layout.render(content))
}

/// Opens the stream of records after the last one that the page has.
pub(crate) async fn stream_calls(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
    uri: Uri,
) -> Result<Response, PageError> {
    let filters: CallFilters = parse_query(&uri).map_err(PageError::invalid_query)?;
    let page = list_records(&state.server, &session.principal, filters.record_query()).await?;
    let seen = filters.after.unwrap_or_else(|| newest_sequence(&page));
    open_stream(state, session, CallView { filters, seen, was_skipped: true })
}

/// The records that match the filters, up to the newest that was sent.
struct CallView {
    filters: CallFilters,
    seen: u64,
    /// Whether the last look of the stream was skipped: people read once a second at most, and each
    /// look at a busy record costs the calls beside it.
    was_skipped: bool,
}

impl LiveView for CallView {
    async fn next_event(&mut self, state: &ConsoleState, principal: &Principal) -> Option<Event> {
        self.was_skipped = !self.was_skipped;
        if self.was_skipped {
            return None;
        }
        let query = self.filters.record_query();
        // The page says so when it is opened again without the right.
        let mut page = list_records(&state.server, principal, query).await.ok()?;
        let read = page.records.len();
        page.records.retain(|record| record.sequence > self.seen);
        if page.records.is_empty() {
            return None;
        }
        let has_gap = page.records.len() == read && page.next_cursor.is_some();
        self.seen = newest_sequence(&page);
        let rows: Vec<_> = page.records.iter().map(|record| record_row(record).to_json()).collect();
        let data = json!({ "rows": rows, "gap": has_gap });
        Some(Event::default().event("records").data(data.to_string()))
    }
}

fn newest_sequence(page: &RecordListPage) -> u64 {
    page.records.first().map_or(0, |record| record.sequence)
}
