//! The pages of access to tools: the matrix of keys and tools, one decision explained, and what an
//! edited policy would change.

use axum::extract::State;
use axum::http::Uri;
use axum::response::Html;
use identity::RequestRestrictions;
use serde::Deserialize;
use server_core::authorization_checks::require_right;
use server_core::decision_explanation::{self, HypotheticalCall};
use server_core::error::ApiError;
use server_core::page_query::run_blocking;
use server_core::query_string::parse_query;
use server_core::tool_access::{
    self, AccessChangeReply, AccessKeyReply, AccessMatrixQuery, AccessReply, PolicyPreviewBody,
    PolicyPreviewReply, ToolAccessReply,
};
use tool::{ErrorCode, Json, JsonLimits};
use url::form_urlencoded;

use crate::ConsoleState;
use crate::access_pages::{render, section_tabs};
use crate::error_page::PageError;
use crate::form_post::SignedForm;
use crate::html::{Element, element, link, text_element};
use crate::page_layout::{data_table, post_form, submit_button};
use crate::session::ConsoleSession;
use crate::try_page::decision_view;

/// Path of the matrix.
pub(crate) const MATRIX: &str = "/ui/access/tools";
/// Path of one decision.
pub(crate) const DECISION: &str = "/ui/access/decision";
/// Path of the edited policy.
pub(crate) const POLICY: &str = "/ui/access/policy";
/// Number of tools per page.
const PAGE_SIZE: usize = 50;
/// Field with the edited policy.
const POLICY_FIELD: &str = "policy";

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct MatrixFilters {
    keys: String,
    tool: String,
    after: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct DecisionFields {
    tool: String,
    key: String,
    arguments: String,
}

/// Shows which keys may call which tools.
pub(crate) async fn show_matrix(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
    uri: Uri,
) -> Result<Html<String>, PageError> {
    let filters: MatrixFilters = parse_query(&uri).map_err(PageError::invalid_query)?;
    let query = AccessMatrixQuery {
        keys: Some(filters.keys.clone()),
        tool: Some(filters.tool.clone()),
        limit: Some(PAGE_SIZE),
        after: filters.after.clone(),
    };
    let matrix = tool_access::list_access(&state.server, &session.principal, query).await?;
    let names = ["Tool", "Source"].map(str::to_owned);
    let titles: Vec<_> = names.into_iter().chain(matrix.keys.iter().map(key_title)).collect();
    let titles: Vec<_> = titles.iter().map(String::as_str).collect();
    let rows = matrix.tools.iter().map(|tool| matrix_row(&matrix.keys, tool));
    let next = matrix.next.map(|next| {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("keys", &filters.keys).append_pair("tool", &filters.tool);
        query.append_pair("after", &next);
        let next = link(format!("{MATRIX}?{}", query.finish()), "More tools").attr("rel", "next");
        element("p").child(next)
    });
    let hint = "One key of each combination of rights, unless you name keys. A cell opens the \
                decision with its reason.";
    let content = element("div")
        .child(section_tabs(MATRIX))
        .child(filter_form(&filters))
        .child(text_element("p", hint).class("hint"))
        .child(data_table("Access of keys to tools", &titles, rows))
        .children(next);
    Ok(render(&session, "GET /v1/access", content))
}

/// Explains the decision on a call of a key.
pub(crate) async fn show_decision(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
    uri: Uri,
) -> Result<Html<String>, PageError> {
    let fields: DecisionFields = parse_query(&uri).map_err(PageError::invalid_query)?;
    let mut content = element("div").child(section_tabs(DECISION)).child(decision_form(&fields));
    if !fields.tool.is_empty() {
        let arguments = Some(fields.arguments.trim()).filter(|text| !text.is_empty());
        let arguments = arguments
            .map(|text| Json::parse(text.to_owned(), JsonLimits::ARGUMENTS))
            .transpose()
            .map_err(|error| PageError::invalid_query(format!("the arguments: {error}")))?;
        let call = HypotheticalCall {
            tool: fields.tool.clone(),
            arguments,
            key: Some(fields.key.clone()).filter(|key| !key.is_empty()),
            is_chained: false,
            restrictions: RequestRestrictions::default(),
        };
        let reply = decision_explanation::explain_call(&state.server, &session.principal, call)?;
        content = content.child(decision_view(&reply));
    }
    Ok(render(&session, "POST /v1/explain", content))
}

/// Shows the policy of the configuration file, for editing.
pub(crate) async fn edit_policy(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
) -> Result<Html<String>, PageError> {
    require_right(&session.principal, identity::Right::PolicyExplain)?;
    let configuration = state.server.components.require_configuration()?;
    let text = run_blocking(move || configuration.policy_text()).await?;
    let text = text.map_err(|why| ApiError::new(ErrorCode::InvalidConfig, why))?;
    let content = element("div").child(section_tabs(POLICY)).child(policy_form(&session, &text));
    Ok(render(&session, "POST /v1/policy/preview", content))
}

/// Shows what an edited policy would change.
pub(crate) async fn preview_policy(
    State(state): State<ConsoleState>,
    form: SignedForm,
) -> Result<Html<String>, PageError> {
    let session = form.session;
    let text = form.fields.get(POLICY_FIELD).replace("\r\n", "\n");
    let body = PolicyPreviewBody { policy: text.clone() };
    let preview = tool_access::preview_policy(&state.server, &session.principal, body).await?;
    let content = element("div")
        .child(section_tabs(POLICY))
        .child(preview_view(&preview))
        .child(policy_form(&session, &text));
    Ok(render(&session, "POST /v1/policy/preview", content))
}

fn key_title(key: &AccessKeyReply) -> String {
    let roles = key.roles.join(", ");
    let roles = if roles.is_empty() { roles } else { format!(", {roles}") };
    format!("{} ({}{roles}) {}", key.subject, key.level, key.id)
}

fn text_field(name: &'static str, label: &str, value: &str) -> Element {
    let input = element("input").attr("type", "text").attr("id", name).attr("name", name);
    let input = input.attr("value", value.to_owned()).attr("maxlength", "400");
    let input = input.attr("autocomplete", "off");
    element("p").child(text_element("label", label).attr("for", name)).child(input)
}

/// Creates the field that searches for a part of a name while somebody types.
fn tool_search(text: &str) -> Element {
    let input = element("input").attr("type", "text").attr("id", "tool").attr("name", "tool");
    let input = input.attr("value", text.to_owned()).attr("maxlength", "200");
    let input = input.attr("autocomplete", "off").attr("data-search", "").attr("data-instant", "");
    element("p").child(text_element("label", "Tool").attr("for", "tool")).child(input)
}

fn filter_form(filters: &MatrixFilters) -> Element {
    element("form")
        .class("filters")
        .attr("role", "search")
        .attr("action", MATRIX)
        .child(tool_search(&filters.tool))
        .child(text_field("keys", "IDs of keys, with commas", &filters.keys))
        .child(element("p").child(submit_button("Filter")))
}

fn matrix_row(keys: &[AccessKeyReply], tool: &ToolAccessReply) -> Element {
    let cells = keys.iter().zip(&tool.access).map(|(key, access)| {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("tool", &tool.tool).append_pair("key", &key.id);
        let label = format!("{} for {}: {}", tool.tool, key.subject, access.decision);
        let open = link(format!("{DECISION}?{}", query.finish()), access.decision);
        let says_more = access.reason != "allowed" || !access.rules.is_empty();
        let reason = says_more.then(|| text_element("p", &access_reason(access)).class("hint"));
        element("td").child(element("p").child(open.attr("aria-label", label))).children(reason)
    });
    let name = element("th").attr("scope", "row").text(&tool.tool);
    let source = text_element("td", &tool.source);
    let row = element("tr").attr("data-row", "").attr("tabindex", "-1").child(name);
    row.child(source).children(cells)
}

/// The reason of a decision, or the rules that decide each call.
fn access_reason(access: &AccessReply) -> String {
    if access.rules.is_empty() { access.reason.to_owned() } else { access.rules.join(", ") }
}

fn decision_form(fields: &DecisionFields) -> Element {
    let area = element("textarea").attr("id", "arguments").attr("name", "arguments");
    let area = area.attr("rows", "4").attr("spellcheck", "false").text(&fields.arguments);
    let label = text_element("label", "Arguments as one JSON object").attr("for", "arguments");
    element("form")
        .class("arguments")
        .attr("action", DECISION)
        .child(text_field("tool", "Tool", &fields.tool).class("field"))
        .child(text_field("key", "ID of the key; empty for yours", &fields.key).class("field"))
        .child(element("div").class("field").child(label).child(area))
        .child(submit_button("Explain the decision"))
}

fn policy_form(session: &ConsoleSession, text: &str) -> Element {
    let area = element("textarea").attr("id", POLICY_FIELD).attr("name", POLICY_FIELD);
    let area = area.attr("rows", "12").attr("spellcheck", "false").text(text);
    let label = "The key `policy` of the configuration file. Nothing is changed by a comparison.";
    post_form(session, POLICY.to_owned())
        .class("arguments")
        .child(text_element("label", label).attr("for", POLICY_FIELD))
        .child(area)
        .child(element("p").child(submit_button("Show what it would change").class("primary")))
}

fn preview_view(preview: &PolicyPreviewReply) -> Element {
    let all = if preview.complete { "" } else { ", as far as the work is bounded" };
    let compared = format!("Compared for {} keys and {} tools{all}.", preview.keys, preview.tools);
    let section = element("section")
        .child(text_element("h2", "What it would change"))
        .child(text_element("p", &compared));
    let rules = preview.rules.iter().map(|change| {
        let item = element("li").child(text_element("code", &change.path)).text(" ");
        let before = change.before.iter().map(|text| text_element("del", text));
        let after = change.after.iter().map(|text| text_element("ins", text));
        item.children(before).children(after)
    });
    let rules: Vec<_> = rules.collect();
    let rules = (!rules.is_empty()).then(|| element("ul").children(rules));
    let section = section.children(rules);
    if preview.changes.is_empty() {
        let message = "No key would get other access to a tool.";
        return section.child(text_element("p", message).class("empty"));
    }
    let more = (preview.more > 0)
        .then(|| text_element("p", &format!("And {} more changes.", preview.more)).class("hint"));
    let titles = ["Tool", "Now", "Then", "Keys"];
    let rows = preview.changes.iter().map(change_row);
    section.child(data_table("Changes of access", &titles, rows)).children(more)
}

fn change_row(change: &AccessChangeReply) -> Element {
    let access = |access: &AccessReply| {
        element("td")
            .child(text_element("p", access.decision))
            .child(text_element("p", &access_reason(access)).class("hint"))
    };
    let keys = change.keys.iter().map(|key| text_element("li", &key_title(key)));
    let more = change.key_count.saturating_sub(change.keys.len());
    let more = (more > 0).then(|| text_element("li", &format!("{more} more")));
    let name = element("th").attr("scope", "row").child(text_element("p", &change.tool));
    element("tr")
        .attr("data-row", "")
        .attr("tabindex", "-1")
        .child(name.child(text_element("p", &change.source).class("hint")))
        .child(access(&change.before))
        .child(access(&change.after))
        .child(element("td").child(element("ul").children(keys).children(more)))
}
