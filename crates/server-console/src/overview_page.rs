//! The first page: what needs a person, the most urgent first, and the calls that wait.

use axum::extract::State;
use axum::response::Html;
use server_core::attention_list::{AttentionEntry, AttentionTopic, Urgency, list_attention};

use crate::ConsoleState;
use crate::activity_chart::activity_charts;
use crate::approval_pages::{EVENTS, PAGE_SIZE};
use crate::error_page::PageError;
use crate::html::{Element, element, link, text_element};
use crate::page_layout::{PageLayout, PageUser, Section};
use crate::pin_pages::review_path;
use crate::session::ConsoleSession;
use crate::toolset_pages::toolset_path;

/// Maximum number of entries on the page.
const MAX_ENTRIES: usize = 40;

/// Shows what needs attention, and the waiting calls.
pub(crate) async fn show_overview(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
) -> Result<Html<String>, PageError> {
    let gateway = &state.server.components.gateway;
    let page = gateway.list_approvals(&session.principal, true, (None, PAGE_SIZE)).await?;
    let attention = list_attention(&state.server, &session.principal).await?;
    let notice = element("p").class("notice").attr("role", "status").attr("data-live", EVENTS);
    let reload = link("/ui", "Load the page again");
    let notice = notice.flag("hidden", true).text("The waiting calls have changed. ").child(reload);
    let mut content = element("div").child(notice).child(text_element("h2", "Needs attention"));
    if attention.entries.is_empty() {
        let message = "Nothing that you can see needs you.";
        content = content.child(text_element("p", message).class("empty"));
    } else {
        let entries = attention.entries.iter().take(MAX_ENTRIES).map(attention_item);
        content = content.child(element("ul").class("attention").children(entries));
    }
    let more = attention.more + attention.entries.len().saturating_sub(MAX_ENTRIES);
    if more > 0 {
        let told = format!("And {more} less urgent ones, which `toolkeep status` lists.");
        content = content.child(text_element("p", &told).class("hint"));
    }
    let activity = state.server.activity.list_minutes();
    let charts = activity_charts(&activity.minutes);
    content = content.child(text_element("h2", "The last hour")).child(charts);
    content = content.child(text_element("h2", "Waiting for an approval"));
    let calls = page.approvals.iter().map(|call| {
        let path = format!("/ui/approvals/{}", call.id);
        let entry = element("li").attr("data-row", "").attr("tabindex", "-1");
        let entry = entry.child(link(path, &call.tool).attr("data-open", ""));
        entry.text(&format!(": {}, until {}", call.reason_text, call.expires_at))
    });
    let more = page.next.map(|_| element("p").child(link("/ui/approvals", "All waiting calls")));
    content = match page.approvals.len() {
        0 => content.child(text_element("p", "No call waits for an approval.").class("empty")),
        _ => content.child(element("ul").children(calls)).children(more),
    };
    let layout = PageLayout {
        title: "Overview",
        section: Some(Section::Overview),
        user: PageUser::SignedIn(&session),
        twin: Some("GET /v1/attention, GET /v1/activity and GET /v1/approvals"),
    };
    Ok(layout.render(content))
}

/// Renders an entry: how urgent it is, what is wrong, since when, and what mends it.
fn attention_item(entry: &AttentionEntry) -> Element {
    let class = if entry.urgency == Urgency::Notice { "badge" } else { "badge pending" };
    let badge = text_element("span", entry.urgency.as_str()).class(class);
    let line = element("p").child(badge).text(" ").text(&entry.message);
    let since = entry.since.as_ref().map(|since| {
        let time = text_element("time", since).attr("datetime", since.clone());
        element("p").class("hint").text("Since ").child(time)
    });
    let (path, title) = target_page(entry);
    let open = link(path, title).attr("data-open", "");
    // Of the others, the page is what to do.
    let is_elsewhere = matches!(
        entry.topic,
        AttentionTopic::Record | AttentionTopic::Disk | AttentionTopic::Source
    );
    let action = element("p");
    let action = if is_elsewhere {
        action.text(&entry.action).text(" · ").child(open)
    } else {
        action.child(open)
    };
    let item = element("li").attr("data-row", "").attr("tabindex", "-1");
    item.child(line).children(since).child(action)
}

/// The page where the entry is dealt with, or explained.
fn target_page(entry: &AttentionEntry) -> (String, &'static str) {
    let subject = entry.subject.as_deref().unwrap_or_default();
    match entry.topic {
        AttentionTopic::Record | AttentionTopic::Disk => ("/ui/record".to_owned(), "Record"),
        AttentionTopic::Source => ("/ui/sources".to_owned(), "Sources"),
        AttentionTopic::Approval => ("/ui/approvals".to_owned(), "Approvals"),
        AttentionTopic::Definition => (review_path(subject), "Definitions to review"),
        AttentionTopic::Toolset => (toolset_path(subject), "Toolset"),
        AttentionTopic::Key => ("/ui/access".to_owned(), "Access"),
    }
}
