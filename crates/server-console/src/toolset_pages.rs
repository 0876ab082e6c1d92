//! The pages of toolsets: their list, and one with the items that wait for its owner.

use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::{Html, Redirect};
use serde::Deserialize;
use serde_json::Value;
use server_core::query_string::parse_query;
use server_core::toolset_management::{
    self, AcceptToolsetBody, ToolsetDetailReply, ToolsetItemReply, ToolsetItemState,
    ToolsetOwnerReply, ToolsetReply,
};

use crate::ConsoleState;
use crate::error_page::PageError;
use crate::form_post::SignedForm;
use crate::html::{Element, element, link, text_element};
use crate::indented_json::indent_json;
use crate::page_layout::{data_table, post_form, submit_button};
use crate::pin_pages::change_view;
use crate::session::ConsoleSession;
use crate::source_page::{render_section_page, section_tabs};
use crate::tool_page::encode_segment;

/// Path of the list.
pub(crate) const PAGE: &str = "/ui/toolsets";
/// Number of toolsets per page.
const PAGE_SIZE: usize = 50;
/// Maximum number of accepted items that the page of a toolset lists.
const MAX_ACCEPTED: usize = 100;
/// Maximum number of waiting items whose definitions a page shows.
const MAX_WAITING: usize = 50;
/// Maximum size of those definitions in bytes, as received.
const MAX_DEFINITION_BYTES: usize = 30_000;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolsetListQuery {
    /// Name after which the page begins.
    after: Option<String>,
}

/// Shows a page of the toolsets that the principal may know.
pub(crate) async fn list_toolsets(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
    uri: Uri,
) -> Result<Html<String>, PageError> {
    let query: ToolsetListQuery = parse_query(&uri).map_err(PageError::invalid_query)?;
    let list = toolset_management::list_toolsets(&state.server, &session.principal).await?;
    let is_after =
        |toolset: &&ToolsetReply| query.after.as_ref().is_none_or(|after| toolset.name > *after);
    let mut toolsets: Vec<_> = list.toolsets.iter().filter(is_after).collect();
    let next = toolsets.get(PAGE_SIZE).and_then(|_| toolsets.get(PAGE_SIZE - 1)).map(|last| {
        let path = format!("{PAGE}?after={}", encode_segment(&last.name));
        element("p").child(link(path, "More toolsets").attr("rel", "next"))
    });
    toolsets.truncate(PAGE_SIZE);
    let content = element("div").child(section_tabs(PAGE));
    let content = if toolsets.is_empty() {
        let none = "There are no toolsets that you may know.";
        content.child(text_element("p", none).class("empty"))
    } else {
        let titles = ["Toolset", "Address", "Tools", "Roles", "Items", "Accepted"];
        content.child(data_table("List of toolsets", &titles, toolsets.into_iter().map(list_row)))
    };
    Ok(render_section_page(&session, "Toolsets", "GET /v1/toolsets", content.children(next)))
}

/// Shows one toolset: what waits for its owner, and what is accepted.
pub(crate) async fn show_toolset(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
    Path(name): Path<String>,
) -> Result<Html<String>, PageError> {
    let principal = &session.principal;
    let details = toolset_management::show_toolset(&state.server, principal, &name).await?;
    let content = element("div").child(fact_list(&details.toolset));
    let content = content.children(review_section(&session, &details));
    let content = content.children(accepted_section(&details));
    let content = content.child(element("p").child(link(PAGE, "All toolsets")));
    let twin = format!("GET /v1/toolsets/{}", encode_segment(&name));
    Ok(render_section_page(&session, &format!("Toolset {}", details.toolset.name), &twin, content))
}

/// Accepts the items that the page showed.
pub(crate) async fn accept_toolset(
    State(state): State<ConsoleState>,
    Path(name): Path<String>,
    form: SignedForm,
) -> Result<Redirect, PageError> {
    let body = AcceptToolsetBody { revision: form.fields.get("revision").to_owned() };
    let principal = &form.session.principal;
    toolset_management::accept_toolset(&state.server, principal, (&name, body)).await?;
    Ok(Redirect::to(&toolset_path(&name)))
}

/// Returns the path of the page of a toolset.
pub(crate) fn toolset_path(name: &str) -> String {
    format!("{PAGE}/{}", encode_segment(name))
}

fn list_row(toolset: &ToolsetReply) -> Element {
    let cell = |text: &str| text_element("td", text);
    let name = link(toolset_path(&toolset.name), &toolset.name).attr("data-open", "");
    let title = text_element("p", &toolset.title).class("hint");
    let name = element("th").attr("scope", "row").child(element("p").child(name)).child(title);
    let owner = toolset.owner.as_ref();
    element("tr")
        .attr("data-row", "")
        .attr("tabindex", "-1")
        .child(name)
        .child(element("td").child(text_element("code", &toolset.path)))
        .child(cell(&tool_count(toolset)))
        .child(cell(&owner.map(role_text).unwrap_or_default()))
        .child(element("td").children(owner.map(waiting_badge)))
        .child(cell(&owner.and_then(accepted_text).unwrap_or_default()))
}

/// Returns the number of tools that the caller may call; `–` if it may not use the toolset.
fn tool_count(toolset: &ToolsetReply) -> String {
    toolset.tools.map_or_else(|| "–".to_owned(), |count| count.to_string())
}

fn role_text(owner: &ToolsetOwnerReply) -> String {
    owner.roles.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn accepted_text(owner: &ToolsetOwnerReply) -> Option<String> {
    Some(format!("{} by {}", owner.accepted_at.as_ref()?, owner.accepted_by.as_ref()?))
}

fn waiting_badge(owner: &ToolsetOwnerReply) -> Element {
    match owner.waiting {
        0 => text_element("span", "accepted").class("badge"),
        count => text_element("span", &format!("{count} to accept")).class("badge pending"),
    }
}

fn fact_list(toolset: &ToolsetReply) -> Element {
    let fact = |name: &str, value: &str| [text_element("dt", name), text_element("dd", value)];
    let mut facts = vec![fact("Title", &toolset.title), fact("Description", &toolset.description)];
    facts.push(fact("Address", &toolset.path));
    facts.push(fact("Tools that you may call", &tool_count(toolset)));
    if let Some(owner) = &toolset.owner {
        let place = if owner.configured { "the configuration file" } else { "the API" };
        facts.push(fact("Defined in", place));
        facts.push(fact("Roles", &role_text(owner)));
        facts.extend(accepted_text(owner).map(|text| fact("Accepted", &text)));
    }
    element("dl").class("facts").children(facts.into_iter().flatten())
}

/// The items that wait, each with what an owner reads, and the form that accepts exactly these. A page
/// that cannot show all of them has no form.
fn review_section(session: &ConsoleSession, details: &ToolsetDetailReply) -> Option<Element> {
    let (items, revision) = (details.items.as_ref()?, details.revision.as_ref()?);
    let is_waiting = |item: &&ToolsetItemReply| item.state != ToolsetItemState::Accepted;
    let waiting: Vec<_> = items.iter().filter(is_waiting).collect();
    let section = element("section").child(text_element("h2", "To accept"));
    if waiting.is_empty() {
        return Some(section.child(text_element("p", "No item waits.").class("empty")));
    }
    let has_room = waiting.len() <= MAX_WAITING
        && waiting.iter().map(|item| shown_bytes(item)).sum::<usize>() <= MAX_DEFINITION_BYTES
        && waiting.iter().all(|item| item.more_changes == 0);
    if !has_room {
        let name = &details.toolset.name;
        let told = format!(
            "{} items wait, more than a page shows: `toolkeep toolset show {name}` has them.",
            waiting.len()
        );
        return Some(section.child(text_element("p", &told).class("notice")));
    }
    let field = element("input").attr("type", "hidden").attr("name", "revision");
    let field = field.attr("value", revision.to_string());
    let path = format!("{}/accept", toolset_path(&details.toolset.name));
    let form = post_form(session, path).child(field);
    let form = form.child(submit_button("Accept these items").class("primary"));
    let views = waiting.into_iter().map(waiting_view);
    Some(section.children(views).child(element("div").class("decision").child(form)))
}

/// Size of what the page shows of a waiting item: its definition, or what changed in it.
fn shown_bytes(item: &ToolsetItemReply) -> usize {
    let of_value = |value: &Option<Value>| value.as_ref().map_or(0, |it| it.to_string().len());
    let changes = item
        .changes
        .iter()
        .map(|change| change.pointer.len() + of_value(&change.before) + of_value(&change.after));
    let received = item.received.as_ref().map_or(0, |json| json.as_str().len());
    received + changes.sum::<usize>()
}

fn waiting_view(item: &ToolsetItemReply) -> Element {
    let title = text_element("h3", &format!("{} of {}", item.item, item.source));
    let badge = text_element("span", state_word(item.state)).class("badge pending");
    let line = element("p").child(badge).text(&format!(" {}, by the pattern ", item.kind));
    let view = element("div").attr("data-row", "").attr("tabindex", "-1");
    let view = view.child(title).child(line.child(text_element("code", &item.pattern)));
    if !item.changes.is_empty() {
        return view.children(item.changes.iter().flat_map(change_view));
    }
    let text = item.received.as_ref().map(|text| indent_json(text.as_str()));
    view.children(text.map(|text| text_element("pre", &text).attr("tabindex", "0")))
}

const fn state_word(state: ToolsetItemState) -> &'static str {
    match state {
        ToolsetItemState::Accepted => "accepted",
        ToolsetItemState::Added => "new",
        ToolsetItemState::Changed => "changed",
        ToolsetItemState::Removed => "no longer selected",
    }
}

fn accepted_section(details: &ToolsetDetailReply) -> Option<Element> {
    let items = details.items.as_ref()?;
    let accepted = || items.iter().filter(|item| item.state == ToolsetItemState::Accepted);
    let cell = |text: &str| text_element("td", text);
    let row = |item: &ToolsetItemReply| {
        let name = text_element("th", &item.item).attr("scope", "row");
        let pattern = element("td").child(text_element("code", &item.pattern));
        let row = element("tr").child(name).child(cell(&item.source));
        row.child(cell(item.kind)).child(pattern)
    };
    let section = element("section").child(text_element("h2", "Accepted"));
    if accepted().next().is_none() {
        return Some(section.child(text_element("p", "No item is accepted yet.").class("empty")));
    }
    let titles = ["Item", "Source", "Kind", "Pattern"];
    let rows = accepted().take(MAX_ACCEPTED).map(row);
    let more = accepted().count().saturating_sub(MAX_ACCEPTED);
    let more = (more > 0).then(|| text_element("p", &format!("And {more} more.")).class("hint"));
    Some(section.child(data_table("Accepted items", &titles, rows)).children(more))
}
