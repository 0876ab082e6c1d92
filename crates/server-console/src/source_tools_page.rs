//! The tools of one source: what each costs in a list, and the switches that turn them off and on.

use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::{Html, Redirect};
use serde::Deserialize;
use server_core::page_query::PageQuery;
use server_core::query_string::parse_query;
use server_core::tool_switches::{self, SourceToolReply, SwitchBody};

use crate::ConsoleState;
use crate::access_pages::cell;
use crate::error_page::PageError;
use crate::form_post::SignedForm;
use crate::html::{Element, element, link, text_element};
use crate::page_layout::{PageLayout, PageUser, Section, data_table, post_form, submit_button};
use crate::session::ConsoleSession;
use crate::tool_page::{encode_segment, tool_path};

/// Number of tools per page.
const PAGE_SIZE: usize = 50;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AfterQuery {
    /// Name of the tool after which the page begins.
    after: Option<String>,
}

/// Returns the path of the page.
pub(crate) fn source_path(source: &str) -> String {
    format!("/ui/sources/{}/tools", encode_segment(source))
}

/// Shows a page of the tools of a source, with their switches.
pub(crate) async fn show_tools(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
    Path(source): Path<String>,
    uri: Uri,
) -> Result<Html<String>, PageError> {
    let query: AfterQuery = parse_query(&uri).map_err(PageError::invalid_query)?;
    let page = PageQuery { limit: Some(PAGE_SIZE), after: query.after };
    let principal = &session.principal;
    let found = tool_switches::list_source_tools(&state.server, principal, &source, page).await?;
    let next = found.next.as_ref().map(|next| {
        let path = format!("{}?after={}", source_path(&source), encode_segment(next));
        element("p").child(link(path, "More tools").attr("rel", "next"))
    });
    let facts = format!(
        "About {} tokens in a full list, and {} that are saved by what is off.",
        found.listed_tokens, found.saved_tokens
    );
    let rows = found.tools.iter().map(|tool| tool_row(&session, &source, tool));
    let titles = ["Tool", "Tokens (estimate)", "State", "Action"];
    let content = element("div")
        .child(element("p").text(&facts))
        .child(source_switch(&session, &source, found.enabled))
        .child(data_table("List of tools", &titles, rows))
        .children(next);
    let twin = format!("GET /v1/sources/{}/tools and PUT /v1/switches", encode_segment(&source));
    let title = format!("Tools of {source}");
    let layout = PageLayout {
        title: &title,
        section: Some(Section::Sources),
        user: PageUser::SignedIn(&session),
        twin: Some(&twin),
    };
    Ok(layout.render(content))
}

/// Turns the source, or one of its tools, on or off.
pub(crate) async fn post_switch(
    State(state): State<ConsoleState>,
    Path(source): Path<String>,
    form: SignedForm,
) -> Result<Redirect, PageError> {
    let tool = Some(form.fields.get("tool")).filter(|tool| !tool.is_empty());
    let body = SwitchBody {
        source: source.clone(),
        tool: tool.map(str::to_owned),
        enabled: form.fields.get("enabled") == "true",
    };
    tool_switches::set_switch(&state.server, &form.session.principal, body).await?;
    Ok(Redirect::to(&source_path(&source)))
}

/// A form with one button that sets a switch.
fn switch_form(
    session: &ConsoleSession,
    (source, tool): (&str, &str),
    (is_enabled, label): (bool, &str),
) -> Element {
    let hidden = |name: &'static str, value: String| {
        element("input").attr("type", "hidden").attr("name", name).attr("value", value)
    };
    let text = if is_enabled { "Turn on" } else { "Turn off" };
    let button = submit_button(text).attr("aria-label", format!("{text} {label}"));
    post_form(session, format!("/ui/sources/{}/switch", encode_segment(source)))
        .child(hidden("tool", tool.to_owned()))
        .child(hidden("enabled", is_enabled.to_string()))
        .child(button)
}

fn source_switch(session: &ConsoleSession, source: &str, is_on: bool) -> Element {
    let told = if is_on { "The source is on." } else { "The source is off: it offers nothing." };
    let form = switch_form(session, (source, ""), (!is_on, &format!("the source {source}")));
    element("div").child(text_element("p", told)).child(form)
}

fn tool_row(session: &ConsoleSession, source: &str, tool: &SourceToolReply) -> Element {
    let name = if tool.enabled {
        link(tool_path(&tool.name), &tool.name).attr("data-open", "")
    } else {
        text_element("span", &tool.name)
    };
    let state = if tool.enabled {
        text_element("span", "on").class("badge")
    } else {
        text_element("span", "off").class("badge pending")
    };
    let switch = switch_form(session, (source, &tool.tool), (!tool.enabled, &tool.name));
    element("tr")
        .attr("data-row", "")
        .attr("tabindex", "-1")
        .child(element("th").attr("scope", "row").child(name))
        .child(cell(&tool.tokens.to_string()))
        .child(element("td").child(state))
        .child(element("td").child(switch))
}
