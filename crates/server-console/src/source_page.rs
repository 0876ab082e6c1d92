//! The sources of tools: their state, and their problems with how to fix them.

use axum::extract::State;
use axum::http::Uri;
use axum::response::{Html, Redirect};
use serde::Deserialize;
use server_core::query_string::parse_query;
use server_core::source_list::{self, SourceReply, list_sources};
use tool::Problem;

use crate::ConsoleState;
use crate::error_page::PageError;
use crate::form_post::SignedForm;
use crate::html::{Element, element, link, text_element};
use crate::page_layout::{
    PageLayout, PageUser, Section, data_table, page_tabs, post_form, submit_button,
};
use crate::pin_pages::review_path;
use crate::session::ConsoleSession;
use crate::source_login_page::login_path;
use crate::source_tools_page::source_path;
use crate::tool_page::encode_segment;
use crate::{node_pages, pin_pages, plugin_pages, source_add_page, toolset_pages};

/// Path of the list.
pub(crate) const PAGE: &str = "/ui/sources";
/// Number of sources per page.
const PAGE_SIZE: usize = 30;
/// Maximum number of problems that the page shows of one source.
const MAX_PROBLEMS: usize = 3;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SourceListQuery {
    /// Whether to list only sources that are not as they should be.
    #[serde(default)]
    problems: bool,
    /// Name after which the page begins.
    after: Option<String>,
}

/// Shows a page of the sources with their problems.
pub(crate) async fn show_sources(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
    uri: Uri,
) -> Result<Html<String>, PageError> {
    let query: SourceListQuery = parse_query(&uri).map_err(PageError::invalid_query)?;
    let mut sources = list_sources(&state.server, &session.principal).sources;
    let troubled = sources.iter().filter(|source| needs_attention(source)).count();
    let tabs = source_tabs(&query, (sources.len(), troubled));
    sources.sort_by(|a, b| a.name.cmp(&b.name));
    sources.retain(|source| {
        (!query.problems || needs_attention(source))
            && query.after.as_ref().is_none_or(|after| source.name > *after)
    });
    let next = sources.get(PAGE_SIZE).and_then(|_| sources.get(PAGE_SIZE - 1));
    let next = next.map(|last| {
        let path =
            format!("/ui/sources?problems={}&after={}", query.problems, encode_segment(&last.name));
        element("p").child(link(path, "More sources").attr("rel", "next"))
    });
    sources.truncate(PAGE_SIZE);
    let titles = ["Source", "Kind", "State", "Tools", "Definitions", "Trust", "Action"];
    let rows = sources.iter().map(|source| source_row(&session, source));
    let content = element("div").child(section_tabs(PAGE)).child(tabs).child(data_table(
        "List of sources",
        &titles,
        rows,
    ));
    let content = content.children(next);
    let layout = PageLayout {
        title: "Sources",
        section: Some(Section::Sources),
        user: PageUser::SignedIn(&session),
        twin: Some("GET /v1/sources and POST /v1/sources/refresh"),
    };
    Ok(layout.render(content))
}

/// Returns true if a source, or a definition of it, waits for somebody, as far as the caller may know.
fn needs_attention(source: &SourceReply) -> bool {
    source.needs_attention || source.pending_pins > 0
}

/// Renders a page of the section of sources.
pub(crate) fn render_section_page(
    session: &ConsoleSession,
    title: &str,
    twin: &str,
    content: Element,
) -> Html<String> {
    let layout = PageLayout {
        title,
        section: Some(Section::Sources),
        user: PageUser::SignedIn(session),
        twin: Some(twin),
    };
    layout.render(content)
}

/// Creates the choice of the pages about where tools come from.
pub(crate) fn section_tabs(current: &'static str) -> Element {
    let pages = [
        (PAGE, "Sources"),
        (source_add_page::PAGE, "Add a source"),
        (node_pages::PAGE, "Nodes"),
        (plugin_pages::PAGE, "Plugins"),
        (pin_pages::PAGE, "Definitions"),
        (toolset_pages::PAGE, "Toolsets"),
    ];
    page_tabs("Origins of tools", pages.map(|(path, text)| (path, text, path == current)))
}

fn source_tabs(query: &SourceListQuery, (all, troubled): (usize, usize)) -> Element {
    let (all, troubled) = (format!("All ({all})"), format!("With problems ({troubled})"));
    let all = ("/ui/sources", all.as_str(), !query.problems);
    page_tabs("Which sources", [all, ("/ui/sources?problems=true", &troubled, query.problems)])
}

/// Lists the tools of one source again.
pub(crate) async fn refresh_sources(
    State(state): State<ConsoleState>,
    form: SignedForm,
) -> Result<Redirect, PageError> {
    let source = Some(form.fields.get("source")).filter(|name| !name.is_empty());
    source_list::refresh_sources(&state.server, &form.session.principal, source).await?;
    Ok(Redirect::to("/ui/sources"))
}

/// A form with one button, which lists the tools of the source again.
fn refresh_form(session: &ConsoleSession, source: &str) -> Element {
    let name = element("input").attr("type", "hidden").attr("name", "source");
    let name = name.attr("value", source.to_owned());
    let button = submit_button("Refresh").attr("aria-label", format!("Refresh {source}"));
    post_form(session, "/ui/sources/refresh".to_owned()).child(name).child(button)
}

/// A form with one button that leads to the login page of the source's server.
fn login_form(session: &ConsoleSession, source: &SourceReply) -> Option<Element> {
    let path = login_path(&source.name);
    let button = submit_button("Sign in").attr("aria-label", format!("Sign in to {}", source.name));
    (source.uses_login && source.needs_attention).then(|| post_form(session, path).child(button))
}

fn source_row(session: &ConsoleSession, source: &SourceReply) -> Element {
    let cell = |text: &str| text_element("td", text);
    let problems = source.problems.iter().take(MAX_PROBLEMS).map(problem_notice);
    let more = source.problems.len().saturating_sub(MAX_PROBLEMS);
    let more = (more > 0).then(|| {
        text_element("p", &format!("{more} more problems: `toolkeep source list`")).class("hint")
    });
    let name = element("th").attr("scope", "row").child(text_element("p", &source.name));
    element("tr")
        .attr("data-row", "")
        .attr("tabindex", "-1")
        .child(name.children(problems).children(more))
        .child(cell(source.kind))
        .child(element("td").child(state_badge(source)))
        .child(element("td").child(link(source_path(&source.name), &source.tools.to_string())))
        .child(element("td").children(review_link(source)))
        .child(cell(serde_json::json!(source.trust).as_str().unwrap_or_default()))
        .child(
            element("td")
                .child(refresh_form(session, &source.name))
                .children(login_form(session, source)),
        )
}

/// Links the definitions of a source that need a review.
fn review_link(source: &SourceReply) -> Option<Element> {
    let text = format!("{} to review", source.pending_pins);
    (source.pending_pins > 0).then(|| link(review_path(&source.name), &text))
}

/// Renders the state, with the time since when a source is unavailable.
fn state_badge(source: &SourceReply) -> Element {
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
