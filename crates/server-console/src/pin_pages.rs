//! The pages of pinned definitions: those to review, what changed in one, and the decision.

use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::{Html, Redirect};
use catalog::PinState;
use catalog::pin::DefinitionChange;
use serde::Deserialize;
use serde_json::Value;
use server_core::pin_review::{
    self, FormerDefinitionReply, MAX_REASON_CHARS, PinDecisionBody, PinDetailReply, PinListQuery,
    PinReply, PinVerdict,
};
use server_core::query_string::parse_query;
use tool::Json;
use url::form_urlencoded;

use crate::ConsoleState;
use crate::error_page::PageError;
use crate::form_post::SignedForm;
use crate::html::{Element, element, link, text_element};
use crate::indented_json::indent_json;
use crate::page_layout::{PageLayout, PageUser, Section, data_table, post_form, submit_button};
use crate::session::ConsoleSession;
use crate::source_page::section_tabs;
use crate::tool_filters::select;
use crate::tool_page::encode_segment;
use crate::word_diff::word_diff;

/// Path of the list.
pub(crate) const PAGE: &str = "/ui/pins";
/// Number of definitions per page.
const PAGE_SIZE: usize = 50;
/// Maximum number of changes that the page shows of an earlier definition.
const MAX_PAST_CHANGES: usize = 20;
/// State of the definitions that need a review, as in REST.
const WAITING: &str = "waiting";

/// The filters of the list. An empty value is no filter, as a form sends it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PinFilters {
    source: String,
    state: Option<String>,
    cursor: Option<String>,
}

impl PinFilters {
    fn state(&self) -> &str {
        self.state.as_deref().unwrap_or(WAITING)
    }

    fn query_string(&self) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        let pairs = [("source", self.source.as_str()), ("state", self.state())];
        query.extend_pairs(pairs.into_iter().filter(|(_, value)| !value.is_empty()));
        query.finish()
    }

    fn pin_query(&self) -> PinListQuery {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        PinListQuery {
            source: given(&self.source),
            state: given(self.state()),
            limit: Some(PAGE_SIZE),
            cursor: self.cursor.clone(),
        }
    }

    fn form(&self) -> Element {
        let source = element("input").attr("type", "text").attr("id", "source");
        let source = source.attr("name", "source").attr("maxlength", "128");
        let source = source.attr("value", self.source.clone()).attr("data-search", "");
        let label = text_element("label", "Source").attr("for", "source");
        let states = std::iter::once(WAITING).chain(PinState::ALL.map(PinState::as_str));
        element("form")
            .class("filters")
            .attr("role", "search")
            .attr("action", PAGE)
            .child(element("p").child(label).child(source))
            .child(select("state", "State", states, self.state()))
            .child(element("p").child(submit_button("Filter")))
    }
}

/// Returns the path of the definitions of a source that need a review.
pub(crate) fn review_path(source: &str) -> String {
    format!("/ui/pins?source={}", encode_segment(source))
}

/// Shows a page of the pinned definitions, at first those that need a review.
pub(crate) async fn list_pins(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
    uri: Uri,
) -> Result<Html<String>, PageError> {
    let filters: PinFilters = parse_query(&uri).map_err(PageError::invalid_query)?;
    let query = filters.pin_query();
    let page = pin_review::list_pins(&state.server, &session.principal, query).await?;
    let mut content = element("div").child(section_tabs(PAGE)).child(filters.form());
    if page.pins.is_empty() {
        content = content.child(text_element("p", "No definition matches.").class("empty"));
    } else {
        let titles = ["Tool", "Source", "State", "Since", "Decided by", "Reason"];
        content = content.child(text_element("p", &format!("{} definitions", page.total)));
        content = content.child(data_table(
            "List of definitions",
            &titles,
            page.pins.iter().map(pin_row),
        ));
    }
    let query = filters.query_string();
    let next = page.next_cursor.map(|next| {
        let next: String = form_urlencoded::byte_serialize(next.as_bytes()).collect();
        let path = format!("/ui/pins?{query}&cursor={next}").replace("?&", "?");
        element("p").child(link(path, "More definitions").attr("rel", "next"))
    });
    let twin = format!("GET /v1/pins?{query}");
    let layout = PageLayout {
        title: "Definitions to review",
        section: Some(Section::Sources),
        user: PageUser::SignedIn(&session),
        twin: Some(&twin),
    };
    Ok(layout.render(content.children(next)))
}

/// Shows one definition: what changed, or its whole text, and the forms to decide about it.
pub(crate) async fn show_pin(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
    Path((source, tool)): Path<(String, String)>,
) -> Result<Html<String>, PageError> {
    let path = (source.as_str(), tool.as_str());
    let details = pin_review::show_pin(&state.server, &session.principal, path).await?;
    let title = format!("Definition of {}", details.pin.tool);
    let twin = format!("GET /v1/pins/{}/{}", encode_segment(&source), encode_segment(&tool));
    let layout = PageLayout {
        title: &title,
        section: Some(Section::Sources),
        user: PageUser::SignedIn(&session),
        twin: Some(&twin),
    };
    Ok(layout.render(pin_content(&session, &details)))
}

/// Approves the definition that the page showed.
pub(crate) async fn approve_definition(
    State(state): State<ConsoleState>,
    Path(path): Path<(String, String)>,
    form: SignedForm,
) -> Result<Redirect, PageError> {
    decide_definition(&state, path, PinVerdict::Approve, &form).await
}

/// Rejects the definition that the page showed.
pub(crate) async fn reject_definition(
    State(state): State<ConsoleState>,
    Path(path): Path<(String, String)>,
    form: SignedForm,
) -> Result<Redirect, PageError> {
    decide_definition(&state, path, PinVerdict::Reject, &form).await
}

async fn decide_definition(
    state: &ConsoleState,
    (source, tool): (String, String),
    verdict: PinVerdict,
    form: &SignedForm,
) -> Result<Redirect, PageError> {
    let reason = Some(form.fields.get("reason").trim()).filter(|reason| !reason.is_empty());
    let body = PinDecisionBody {
        definition: form.fields.get("definition").to_owned(),
        reason: reason.map(ToOwned::to_owned),
    };
    let principal = &form.session.principal;
    pin_review::decide_pin(&state.server, principal, (&source, &tool), (verdict, body)).await?;
    Ok(Redirect::to(&pin_path(&source, &tool)))
}

pub(crate) fn pin_path(source: &str, tool: &str) -> String {
    format!("/ui/pins/{}/{}", encode_segment(source), encode_segment(tool))
}

fn pin_row(pin: &PinReply) -> Element {
    let name = link(pin_path(&pin.source, &pin.tool), &pin.tool).attr("data-open", "");
    let cell = |text: &str| text_element("td", text);
    element("tr")
        .attr("data-row", "")
        .attr("tabindex", "-1")
        .child(element("th").attr("scope", "row").child(name))
        .child(cell(&pin.source))
        .child(element("td").child(state_badge(pin)))
        .child(cell(pin.since.as_deref().unwrap_or_default()))
        .child(cell(pin.by.as_deref().unwrap_or_default()))
        .child(cell(pin.reason.as_deref().unwrap_or_default()))
}

fn state_badge(pin: &PinReply) -> Element {
    let class = if pin.state.needs_review() { "badge pending" } else { "badge" };
    text_element("span", pin.state.as_str()).class(class)
}

fn pin_content(session: &ConsoleSession, details: &PinDetailReply) -> Element {
    let mut content = element("div").class("call").attr("data-row", "");
    content = content.child(element("p").child(state_badge(&details.pin)));
    if details.pin.has_hidden_characters {
        let warning = "The definition contains invisible characters. They are shown in letters.";
        content = content.child(element("div").class("notice").child(text_element("p", warning)));
    }
    content = content.children(change_section(details));
    content = content.children(decision_forms(session, details));
    content = content.child(text_element("h2", "Details")).child(fact_list(details));
    content.children(history_section(&details.history))
}

/// The definitions that were approved before, each with what the next one changed.
fn history_section(history: &[FormerDefinitionReply]) -> Option<Element> {
    let entry = |former: &FormerDefinitionReply| {
        let summary = format!("Since {}", former.former.at);
        let digest = text_element("code", &former.former.definition.to_string());
        let changes = former.changes.iter().take(MAX_PAST_CHANGES).flat_map(change_view);
        let more = former.changes.len().saturating_sub(MAX_PAST_CHANGES) + former.more_changes;
        let more = (more > 0).then(|| text_element("p", &format!("{more} more changes")));
        let none = "The texts are not stored.";
        let none = former.changes.is_empty().then(|| text_element("p", none).class("empty"));
        element("details")
            .child(text_element("summary", &summary))
            .child(element("p").text("Replaced by the next definition. ").child(digest))
            .children(changes)
            .children(more)
            .children(none)
    };
    let title = text_element("h2", "Earlier definitions");
    let entries = history.iter().map(entry);
    (!history.is_empty()).then(|| element("section").child(title).children(entries))
}

/// What a reviewer reads: each change word by word, or the whole text of a new definition.
fn change_section(details: &PinDetailReply) -> Vec<Element> {
    let text_of = |text: &Option<Json>| text.as_ref().map(|text| indent_json(text.as_str()));
    let Some(waiting) = &details.waiting else {
        let active = details.active.as_ref().and_then(|active| text_of(&active.received));
        let mut section = vec![text_element("p", "No definition waits for a review.")];
        section.extend(active.map(|text| text_element("pre", &text).attr("tabindex", "0")));
        return section;
    };
    if !details.changes.is_empty() {
        let mut section = vec![text_element("h2", "Changes")];
        section.extend(details.changes.iter().flat_map(change_view));
        if details.more_changes > 0 {
            let more = format!("{} more changes: REST shows both texts", details.more_changes);
            section.push(text_element("p", &more));
        }
        return section;
    }
    let is_same = details.active.as_ref().is_some_and(|it| it.definition == waiting.definition);
    if is_same {
        let message = "It equals the approved definition again, after a change in between.";
        return vec![text_element("p", message)];
    }
    match (&details.active, text_of(&waiting.received)) {
        (None, Some(text)) => vec![
            text_element("h2", "New definition"),
            text_element("pre", &text).attr("tabindex", "0"),
        ],
        _ => vec![text_element("p", "The texts of the definition are not stored.")],
    }
}

/// Renders a change of a definition word by word, below its place.
pub(crate) fn change_view(change: &DefinitionChange) -> [Element; 2] {
    let text = |value: &Option<Value>| match value {
        Some(Value::String(text)) => text.clone(),
        Some(value) => indent_json(&value.to_string()),
        None => String::new(),
    };
    let place = if change.pointer.is_empty() { "the whole definition" } else { &change.pointer };
    let title = element("h3").child(text_element("code", place));
    [title, word_diff(&text(&change.before), &text(&change.after))]
}

/// The forms of a definition that waits. They decide about the one that the page shows.
fn decision_forms(session: &ConsoleSession, details: &PinDetailReply) -> Option<Element> {
    let waiting = details.waiting.as_ref()?;
    let path = pin_path(&details.pin.source, &details.pin.tool);
    let digest = || {
        let digest = element("input").attr("type", "hidden").attr("name", "definition");
        digest.attr("value", waiting.definition.to_string())
    };
    let approve = submit_button("Approve").class("primary").attr("data-approve", "");
    let approve = post_form(session, format!("{path}/approve")).child(digest()).child(approve);
    let reason = element("input")
        .attr("type", "text")
        .attr("name", "reason")
        .attr("id", "reason")
        .attr("maxlength", MAX_REASON_CHARS.to_string())
        .attr("autocomplete", "off")
        .attr("data-deny", "");
    let label = text_element("label", "Reason, for the record").attr("for", "reason");
    let reject = post_form(session, format!("{path}/reject")).child(digest()).child(label);
    let reject = reject.child(reason).child(submit_button("Reject").class("danger"));
    Some(element("div").class("decision").child(approve).child(reject))
}

fn fact_list(details: &PinDetailReply) -> Element {
    let fact = |name: &str, value: &str| [text_element("dt", name), text_element("dd", value)];
    let pin = &details.pin;
    let digest = |name: &str, digest: &tool::Digest| {
        let digest = text_element("code", &digest.to_string());
        [text_element("dt", name), element("dd").child(digest)]
    };
    let mut facts = vec![fact("Source", &pin.source), fact("Tool", &pin.tool)];
    facts.extend(pin.since.as_deref().map(|since| fact("Since", since)));
    facts.extend(details.active.as_ref().map(|it| digest("Approved definition", &it.definition)));
    facts.extend(details.waiting.as_ref().map(|it| digest("Waiting definition", &it.definition)));
    facts.extend(details.rejected.iter().map(|it| digest("Rejected definition", it)));
    facts.extend(pin.by.as_deref().map(|by| fact("Decided by", by)));
    facts.extend(pin.reason.as_deref().map(|reason| fact("Reason", reason)));
    element("dl").class("facts").children(facts.into_iter().flatten())
}
