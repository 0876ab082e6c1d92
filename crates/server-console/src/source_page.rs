//! The sources of tools: their state, and their problems with how to fix them.

use axum::extract::State;
use axum::response::Html;
use server_core::source_list::{SourceReply, list_sources};
use tool::Problem;

use crate::ConsoleState;
use crate::html::{Element, element, text_element};
use crate::page_layout::{PageLayout, PageUser, Section, wide_table};
use crate::session::ConsoleSession;

/// Shows all sources with their problems.
pub(crate) async fn show_sources(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
) -> Html<String> {
    let list = list_sources(&state.server, &session.principal);
    let titles = ["Source", "Kind", "State", "Tools", "To review", "Trust"];
    let head = titles.map(|title| text_element("th", title).attr("scope", "col"));
    let head = element("thead").child(element("tr").children(head));
    let rows = element("tbody").children(list.sources.iter().map(source_row));
    let table = element("table").child(head).child(rows);
    let content = element("div").child(wide_table("List of sources", table));
    let layout = PageLayout {
        title: "Sources",
        section: Some(Section::Sources),
        user: PageUser::SignedIn(&session),
        twin: Some("GET /v1/sources"),
    };
    layout.render(content)
}

/// Returns true if a source needs the operator.
pub(crate) fn needs_attention(source: &SourceReply) -> bool {
    !source.problems.is_empty()
        || source.pending_pins > 0
        || !matches!(source.state, "ok" | "starting")
}

fn source_row(source: &SourceReply) -> Element {
    let cell = |text: &str| text_element("td", text);
    let problems = source.problems.iter().map(problem_notice);
    let name = element("th").attr("scope", "row").child(text_element("p", &source.name));
    element("tr")
        .attr("data-row", "")
        .attr("tabindex", "-1")
        .child(name.children(problems))
        .child(cell(source.kind))
        .child(element("td").child(state_badge(source)))
        .child(cell(&source.tools.to_string()))
        .child(cell(&source.pending_pins.to_string()))
        .child(cell(serde_json::json!(source.trust).as_str().unwrap_or_default()))
}

/// Renders the state, with the time since when a source is unavailable.
pub(crate) fn state_badge(source: &SourceReply) -> Element {
    let since = source.stale_since.as_ref().map(|since| format!(" since {since}"));
    let text = format!("{}{}", source.state, since.unwrap_or_default());
    text_element("span", &text).class(if source.state == "ok" { "badge" } else { "badge pending" })
}

/// Renders a problem with its place and its fix.
pub(crate) fn problem_notice(problem: &Problem) -> Element {
    let notice = element("div").class("notice");
    let place = element("p").child(text_element("code", &problem.location));
    let message = text_element("p", &problem.message);
    notice
        .child(place)
        .child(message)
        .children(problem.help.iter().map(|help| text_element("p", help)))
}
