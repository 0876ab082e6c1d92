//! The page of nodes: their state, and the buttons that drain, resume and revoke them.

use axum::extract::{Path, State};
use axum::response::{Html, Redirect};
use server_core::node_management::{self, NodeListReply, NodeReply};

use crate::ConsoleState;
use crate::error_page::PageError;
use crate::form_post::SignedForm;
use crate::html::{Element, element, text_element};
use crate::page_layout::{
    PageLayout, PageUser, Section, data_table, guarded_button, post_form, submit_button,
};
use crate::session::ConsoleSession;
use crate::source_page::section_tabs;
use crate::tool_page::encode_segment;

/// Path of the page.
pub(crate) const PAGE: &str = "/ui/nodes";
/// Maximum number of nodes on the page.
const MAX_NODES: usize = 200;

/// Shows the nodes that the principal may know.
pub(crate) async fn list_nodes(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
) -> Result<Html<String>, PageError> {
    let list = node_management::list_nodes(&state.server, &session.principal)?;
    let layout = PageLayout {
        title: "Nodes",
        section: Some(Section::Sources),
        user: PageUser::SignedIn(&session),
        twin: Some("GET /v1/nodes"),
    };
    Ok(layout.render(node_list(&session, &list)))
}

/// Sends no further calls to a node.
pub(crate) async fn drain_node(
    State(state): State<ConsoleState>,
    Path(node): Path<String>,
    form: SignedForm,
) -> Result<Redirect, PageError> {
    node_management::drain_node(&state.server, &form.session.principal, &node, true)?;
    Ok(Redirect::to(PAGE))
}

/// Sends calls to a drained node again.
pub(crate) async fn resume_node(
    State(state): State<ConsoleState>,
    Path(node): Path<String>,
    form: SignedForm,
) -> Result<Redirect, PageError> {
    node_management::drain_node(&state.server, &form.session.principal, &node, false)?;
    Ok(Redirect::to(PAGE))
}

/// Revokes the certificates and keys of a node.
pub(crate) async fn revoke_node(
    State(state): State<ConsoleState>,
    Path(node): Path<String>,
    form: SignedForm,
) -> Result<Redirect, PageError> {
    node_management::revoke_node(&state.server, &form.session.principal, node).await?;
    Ok(Redirect::to(PAGE))
}

fn node_list(session: &ConsoleSession, list: &NodeListReply) -> Element {
    let stale = list.staleness.as_ref().map(|stale| {
        let why = stale.why.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
        let told = format!("The registry is unavailable since {}{why}.", stale.since);
        element("div").class("notice").child(text_element("p", &told))
    });
    let content = element("div").child(section_tabs(PAGE)).children(stale);
    if list.nodes.is_empty() {
        let message = "No node that you may know has registered.";
        return content.child(text_element("p", message).class("empty"));
    }
    let titles = ["Node", "State", "Tools", "Last heartbeat", "Certificate", "Action"];
    let rows = list.nodes.iter().take(MAX_NODES).map(|node| node_row(session, node));
    let more = list.nodes.len().saturating_sub(MAX_NODES);
    let more = (more > 0).then(|| {
        text_element("p", &format!("{more} more nodes: `toolkeep node list`")).class("hint")
    });
    content.child(data_table("List of nodes", &titles, rows)).children(more)
}

fn node_row(session: &ConsoleSession, node: &NodeReply) -> Element {
    let cell = |text: &str| text_element("td", text);
    let address = match (&node.endpoint, node.uses_own_connection) {
        (Some(endpoint), _) => Some(endpoint.clone()),
        (None, true) => Some("called over its own connection".to_owned()),
        (None, false) => None,
    };
    let address = address.map(|address| text_element("p", &address).class("hint"));
    let problem = node
        .problem
        .as_ref()
        .map(|problem| element("div").class("notice").child(text_element("p", problem)));
    let name = text_element("p", &node.node_id);
    let name = element("th").attr("scope", "row").child(name).children(address).children(problem);
    let state = node_state(node);
    let badge = text_element("span", state);
    let badge = badge.class(if state == "serving" { "badge" } else { "badge pending" });
    let certificate = node.certificates.first().map_or_else(
        || "none".to_owned(),
        |newest| match newest.state {
            tool::node_registry::CertificateState::Current => format!("until {}", newest.expires),
            other => serde_json::json!(other).as_str().unwrap_or_default().to_owned(),
        },
    );
    element("tr")
        .attr("data-row", "")
        .attr("tabindex", "-1")
        .child(name)
        .child(element("td").child(badge))
        .child(cell(&node.tools.to_string()))
        .child(cell(node.last_seen.as_deref().unwrap_or("none")))
        .child(cell(&certificate))
        .child(element("td").children(node_actions(session, node)))
}

fn node_state(node: &NodeReply) -> &'static str {
    use tool::node_registry::HeartbeatState;
    match node.state {
        _ if node.drained => "drained",
        Some(HeartbeatState::Serving) => "serving",
        Some(HeartbeatState::Draining) => "draining",
        None => "no heartbeat",
    }
}

fn node_actions(session: &ConsoleSession, node: &NodeReply) -> [Element; 2] {
    let path = |action: &str| format!("{PAGE}/{}/{action}", encode_segment(&node.node_id));
    let (text, action) = if node.drained { ("Resume", "resume") } else { ("Drain", "drain") };
    let button = submit_button(text).attr("aria-label", format!("{text} {}", node.node_id));
    let change = post_form(session, path(action)).child(button);
    [change, guarded_button(session, path("revoke"), "Revoke", &node.node_id)]
}
