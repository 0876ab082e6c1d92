//! The list of tools that the user may call, with a search and filters.

use axum::extract::State;
use axum::http::Uri;
use axum::response::Html;
use catalog::CatalogEntry;
use gateway::CatalogView;
use server_core::query_string::parse_query;
use server_core::tool_lists::{page_after, run_blocking_if_many_tools};
use tool::CallerType;

use crate::ConsoleState;
use crate::error_page::PageError;
use crate::html::{Element, element, link, text_element};
use crate::page_layout::{PageLayout, PageUser, Section, data_table};
use crate::session::ConsoleSession;
use crate::tool_filters::ToolFilters;
use crate::tool_page::tool_path;

/// Number of tools per page.
const PAGE_SIZE: usize = 50;
/// Maximum number of characters of a description in the list.
const MAX_SUMMARY_CHARS: usize = 200;

/// Shows a page of the list.
pub(crate) async fn list_tools(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
    uri: Uri,
) -> Result<Html<String>, PageError> {
    let filters: ToolFilters = parse_query(&uri).map_err(PageError::invalid_query)?;
    filters.check().map_err(PageError::invalid_query)?;
    let gateway = &state.server.components.gateway;
    let view = gateway.view_for(&session.principal, CallerType::Direct);
    let content =
        run_blocking_if_many_tools(view.full_catalog().len(), || list_content(&view, &filters));
    let twin = "GET /v1/tools";
    let layout = PageLayout {
        title: "Tools",
        section: Some(Section::Tools),
        user: PageUser::SignedIn(&session),
        twin: Some(twin),
    };
    Ok(layout.render(content?))
}

fn list_content(view: &CatalogView, filters: &ToolFilters) -> Result<Element, PageError> {
    let page = page_after(view, PAGE_SIZE, filters.cursor.as_deref(), filters.predicate());
    let page = page.ok_or_else(|| {
        let error = PageError::invalid_query("the tool of the cursor no longer exists");
        error.with_help("list from the beginning")
    })?;
    let content = element("div").child(filters.form(view));
    if page.tools.is_empty() {
        return Ok(content.child(text_element("p", "No tool matches.").class("empty")));
    }
    let titles = ["Tool", "Source", "Level", "Safety", "Side effects"];
    let rows = page.tools.iter().map(|entry| tool_row(entry));
    let table = data_table("List of tools", &titles, rows);
    let next = page.next.map(|next| {
        element("p").child(link(filters.next_path(&next), "More tools").attr("rel", "next"))
    });
    Ok(content.child(table).children(next))
}

fn tool_row(entry: &CatalogEntry) -> Element {
    let traits = &entry.tool.traits;
    let name = link(tool_path(entry.name.as_str()), entry.name.as_str()).attr("data-open", "");
    let name = element("p").child(name);
    let summary = text_element("p", &summary(&entry.tool.description)).class("hint");
    let tool = element("th").attr("scope", "row").child(name).child(summary);
    let cell = |text: &str| text_element("td", text);
    element("tr")
        .attr("data-row", "")
        .attr("tabindex", "-1")
        .child(tool)
        .child(cell(entry.tool_key.source.as_str()))
        .child(cell(traits.min_level.as_str()))
        .child(cell(traits.safety.as_str()))
        .child(cell(&traits.effects.effect_names().join(", ")))
}

/// Returns the beginning of a description; `…` stands for the rest.
fn summary(description: &str) -> String {
    match description.char_indices().nth(MAX_SUMMARY_CHARS) {
        Some((end, _)) => format!("{}…", description.get(..end).unwrap_or_default()),
        None => description.to_owned(),
    }
}
