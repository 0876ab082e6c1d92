//! The first page: what needs the operator.

use axum::extract::State;
use axum::response::Html;
use server_core::source_list::list_sources;

use crate::ConsoleState;
use crate::approval_pages::{EVENTS, PAGE_SIZE};
use crate::error_page::PageError;
use crate::html::{element, link, text_element};
use crate::page_layout::{PageLayout, PageUser, Section};
use crate::session::ConsoleSession;
use crate::source_page::{needs_attention, problem_notice, state_badge};

/// Maximum number of sources on the page; the page of the sources has all.
const MAX_SOURCES: usize = 20;

/// Shows the waiting calls and the sources with problems.
pub(crate) async fn show_overview(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
) -> Result<Html<String>, PageError> {
    let gateway = &state.server.components.gateway;
    let page = gateway.list_approvals(&session.principal, true, (None, PAGE_SIZE)).await?;
    let list = list_sources(&state.server, &session.principal);
    let calls = page.approvals.iter().map(|call| {
        let path = format!("/ui/approvals/{}", call.id);
        let entry = element("li").attr("data-row", "").attr("tabindex", "-1");
        let entry = entry.child(link(path, &call.tool).attr("data-open", ""));
        entry.text(&format!(": {}, until {}", call.reason_text, call.expires_at))
    });
    let more = page.next.map(|_| element("p").child(link("/ui/approvals", "All waiting calls")));
    let notice = element("p").class("notice").attr("role", "status").attr("data-live", EVENTS);
    let reload = link("/ui", "Load the page again");
    let notice = notice.flag("hidden", true).text("The waiting calls have changed. ").child(reload);
    let mut content =
        element("div").child(notice).child(text_element("h2", "Waiting for an approval"));
    content = match page.approvals.len() {
        0 => content.child(text_element("p", "No call waits for an approval.").class("empty")),
        _ => content.child(element("ul").children(calls)).children(more),
    };
    content = content.child(text_element("h2", "Sources with problems"));
    let mut troubled = list.sources.iter().filter(|source| needs_attention(source)).peekable();
    if troubled.peek().is_none() {
        let message = "No source has a problem that you can see.";
        content = content.child(text_element("p", message).class("empty"));
    }
    content = content.children(troubled.take(MAX_SOURCES).map(|source| {
        let title = element("p").child(text_element("strong", &source.name)).text(" ");
        let review = (source.pending_pins > 0)
            .then(|| text_element("p", &format!("{} definitions to review", source.pending_pins)));
        let entry = element("div").child(title.child(state_badge(source))).children(review);
        entry.children(source.problems.iter().map(problem_notice))
    }));
    let layout = PageLayout {
        title: "Overview",
        section: Some(Section::Overview),
        user: PageUser::SignedIn(&session),
        twin: Some("GET /v1/approvals and GET /v1/sources"),
    };
    Ok(layout.render(content))
}
