//! The pages of access: keys, users and roles, and the forms to create and revoke them.

use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::{Html, Redirect};
use identity::Right;
use serde::Deserialize;
use server_core::key_management::{self, CreateKeyBody, KeyReply, KeyRevocationQuery};
use server_core::page_query::PageQuery;
use server_core::query_string::parse_query;
use server_core::role_management::{self, RoleReply};
use server_core::user_management::{self, UserReply};
use tool::PermissionLevel;
use url::form_urlencoded;

use crate::ConsoleState;
use crate::access_matrix_pages::{DECISION, MATRIX, POLICY};
use crate::directory_pages::{ORGS, PERSONAS};
use crate::error_page::PageError;
use crate::form_post::{FormFields, SignedForm};
use crate::html::{Element, element, link, text_element};
use crate::page_layout::{
    PageLayout, PageUser, Section, check_field, data_table, guarded_button, page_tabs, post_form,
    submit_button,
};
use crate::session::ConsoleSession;
use crate::tool_page::encode_segment;

/// Number of entries per page.
const PAGE_SIZE: usize = 50;
/// Seconds of a day, in which the form states a lifetime.
const DAY_SECONDS: u64 = 86_400;
/// Path of the list of keys.
const KEYS: &str = "/ui/access";
/// Path of the list of users.
const USERS: &str = "/ui/access/users";
/// Path of the list of roles.
const ROLES: &str = "/ui/access/roles";

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AfterQuery {
    after: Option<String>,
}

impl AfterQuery {
    fn page_query(self) -> PageQuery {
        PageQuery { limit: Some(PAGE_SIZE), after: self.after }
    }
}

/// Shows a page of the keys, and the form that creates one.
pub(crate) async fn list_keys(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
    uri: Uri,
) -> Result<Html<String>, PageError> {
    let query: AfterQuery = parse_query(&uri).map_err(PageError::invalid_query)?;
    let page =
        key_management::list_keys(&state.server, &session.principal, query.page_query()).await?;
    let titles = ["Key", "User", "Level", "Rights and roles", "Expires", "State", "Action"];
    let rows = page.keys.iter().map(|key| key_row(&session, key));
    let content = element("div")
        .child(section_tabs(KEYS))
        .child(data_table("List of keys", &titles, rows))
        .children(next_link(KEYS, "More keys", page.next))
        .child(text_element("h2", "Create a key"))
        .child(create_form(&session));
    Ok(render(&session, "GET, POST and DELETE /v1/keys", content))
}

/// Creates the key of a form, and shows it once.
pub(crate) async fn create_key(
    State(state): State<ConsoleState>,
    form: SignedForm,
) -> Result<Html<String>, PageError> {
    let body = read_key_form(&form.fields)?;
    let principal = &form.session.principal;
    let created = key_management::create_key(&state.server, principal, body).await?;
    let told = "This is the key. It is shown once: the server keeps only its hash.";
    let key = text_element("pre", &created.key).attr("tabindex", "0").attr("id", "created-key");
    let id = element("p").text("ID: ").child(text_element("code", &created.id));
    let content = element("div")
        .child(element("div").class("notice").child(text_element("p", told)))
        .child(key)
        .child(id)
        .child(element("p").child(link(KEYS, "All keys")));
    Ok(render(&form.session, "POST /v1/keys", content))
}

/// Revokes a key. The last owner key is not revoked here.
pub(crate) async fn revoke_key(
    State(state): State<ConsoleState>,
    Path(id): Path<String>,
    form: SignedForm,
) -> Result<Redirect, PageError> {
    let options = KeyRevocationQuery::default();
    key_management::revoke_key(&state.server, &form.session.principal, id, options).await?;
    Ok(Redirect::to(KEYS))
}

/// Shows a page of the users.
pub(crate) async fn list_users(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
    uri: Uri,
) -> Result<Html<String>, PageError> {
    let query: AfterQuery = parse_query(&uri).map_err(PageError::invalid_query)?;
    let page =
        user_management::list_users(&state.server, &session.principal, query.page_query()).await?;
    let titles = ["User", "Level", "Persona", "Roles", "Keys", "State", "Action"];
    let rows = page.users.iter().map(|user| user_row(&session, user));
    let content = element("div")
        .child(section_tabs(USERS))
        .child(data_table("List of users", &titles, rows))
        .children(next_link(USERS, "More users", page.next));
    Ok(render(&session, "GET /v1/users", content))
}

/// Disables a user and its keys.
pub(crate) async fn disable_user(
    State(state): State<ConsoleState>,
    Path(subject): Path<String>,
    form: SignedForm,
) -> Result<Redirect, PageError> {
    user_management::disable_user(&state.server, &form.session.principal, &subject).await?;
    Ok(Redirect::to(USERS))
}

/// Enables a disabled user.
pub(crate) async fn enable_user(
    State(state): State<ConsoleState>,
    Path(subject): Path<String>,
    form: SignedForm,
) -> Result<Redirect, PageError> {
    user_management::enable_user(&state.server, &form.session.principal, &subject).await?;
    Ok(Redirect::to(USERS))
}

/// Shows the roles of the installation.
pub(crate) async fn list_roles(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
) -> Result<Html<String>, PageError> {
    let list = role_management::list_roles(&state.server, &session.principal)?;
    let titles = ["Role", "Maximum level", "Rights", "Keys", "State"];
    let content = element("div").child(section_tabs(ROLES));
    let content = if list.roles.is_empty() {
        content.child(text_element("p", "There are no roles.").class("empty"))
    } else {
        content.child(data_table("List of roles", &titles, list.roles.iter().map(role_row)))
    };
    Ok(render(&session, "GET /v1/roles", content))
}

pub(crate) fn render(session: &ConsoleSession, twin: &str, content: Element) -> Html<String> {
    let layout = PageLayout {
        title: "Access",
        section: Some(Section::Access),
        user: PageUser::SignedIn(session),
        twin: Some(twin),
    };
    layout.render(content)
}

/// Creates the choice of the pages of access.
pub(crate) fn section_tabs(current: &'static str) -> Element {
    let pages = [
        (KEYS, "Keys"),
        (USERS, "Users"),
        (ROLES, "Roles"),
        (PERSONAS, "Personas"),
        (ORGS, "Organisations"),
        (MATRIX, "Tools"),
        (DECISION, "One decision"),
        (POLICY, "Try a policy"),
    ];
    page_tabs("Access", pages.map(|(path, text)| (path, text, path == current)))
}

fn next_link(path: &str, text: &str, next: Option<String>) -> Option<Element> {
    let next = next?;
    let next: String = form_urlencoded::byte_serialize(next.as_bytes()).collect();
    let next = link(format!("{path}?after={next}"), text).attr("rel", "next");
    Some(element("p").child(next))
}

/// Creates a row of a table that begins with a name.
pub(crate) fn row(name: &str, cells: impl IntoIterator<Item = Element>) -> Element {
    let name = element("th").attr("scope", "row").child(text_element("code", name));
    element("tr").attr("data-row", "").attr("tabindex", "-1").child(name).children(cells)
}

/// Creates a cell with a text.
pub(crate) fn cell(text: &str) -> Element {
    text_element("td", text)
}

fn key_row(session: &ConsoleSession, key: &KeyReply) -> Element {
    let kind = if key.agent { "agent" } else { "person" };
    let label = (!key.label.is_empty()).then(|| text_element("p", &key.label).class("hint"));
    let user = element("td").child(text_element("p", &key.subject)).children(label);
    let rights =
        key.rights.iter().map(|right| right.as_str()).chain(key.roles.iter().map(String::as_str));
    let rights = rights.collect::<Vec<_>>().join(", ");
    let state = match &key.inactive_reason {
        Some(reason) => element("td").child(text_element("span", reason).class("badge pending")),
        None => element("td").child(text_element("span", "valid").class("badge")),
    };
    let path = format!("{KEYS}/keys/{}/revoke", encode_segment(&key.id));
    let action = key.revoked.is_none().then(|| guarded_button(session, path, "Revoke", &key.id));
    row(
        &key.id,
        [
            user,
            cell(&format!("{}, {kind}", key.level)),
            cell(&rights),
            cell(key.expires.as_deref().unwrap_or("never")),
            state,
            element("td").children(action),
        ],
    )
}

fn user_row(session: &ConsoleSession, user: &UserReply) -> Element {
    let path = |action: &str| format!("{USERS}/{}/{action}", encode_segment(&user.subject));
    let (state, action) = if let Some(since) = &user.disabled {
        let badge = text_element("span", &format!("disabled since {since}"));
        let label = format!("Enable {}", user.subject);
        let button = submit_button("Enable").attr("aria-label", label);
        (badge.class("badge pending"), post_form(session, path("enable")).child(button))
    } else {
        let button = guarded_button(session, path("disable"), "Disable", &user.subject);
        (text_element("span", "enabled").class("badge"), button)
    };
    row(
        &user.subject,
        [
            cell(user.level.as_str()),
            cell(user.persona.as_deref().unwrap_or_default()),
            cell(&user.roles.join(", ")),
            cell(&user.keys.to_string()),
            element("td").child(state),
            element("td").child(action),
        ],
    )
}

fn role_row(role: &RoleReply) -> Element {
    let description =
        (!role.description.is_empty()).then(|| text_element("p", &role.description).class("hint"));
    let rights = role.rights.iter().map(|right| right.as_str()).collect::<Vec<_>>().join(", ");
    let state = role.revoked.as_ref().map_or_else(
        || text_element("span", "valid").class("badge"),
        |at| text_element("span", &format!("revoked at {at}")).class("badge pending"),
    );
    row(
        &role.name,
        [
            cell(role.level.map_or("none", PermissionLevel::as_str)),
            element("td").child(text_element("p", &rights)).children(description),
            cell(&role.keys.to_string()),
            element("td").child(state),
        ],
    )
}

/// The form of a new key. What a key may have is decided when it is created.
fn create_form(session: &ConsoleSession) -> Element {
    let field = |name: &'static str, label: &str, kind: &'static str| {
        let input = element("input").attr("type", kind).attr("id", name).attr("name", name);
        let label = text_element("label", label).attr("for", name);
        element("p").class("field").child(label).child(input.attr("autocomplete", "off"))
    };
    let level = PermissionLevel::ALL.iter().map(|level| {
        let option = text_element("option", level.as_str()).attr("value", level.as_str());
        option.flag("selected", *level == PermissionLevel::User)
    });
    let level = element("select").attr("id", "level").attr("name", "level").children(level);
    let level_label = text_element("label", "Level").attr("for", "level");
    let level = element("p").class("field").child(level_label).child(level);
    let person = check_field("person", "For a person, not for an agent", false);
    let rights =
        Right::ALL.iter().map(|right| check_field(&right_field(*right), right.as_str(), false));
    let rights = element("fieldset")
        .class("checks")
        .child(text_element("legend", "Rights"))
        .children(rights);
    post_form(session, format!("{KEYS}/keys"))
        .class("arguments")
        .child(field("subject", "User", "text"))
        .child(field("label", "Description", "text"))
        .child(level)
        .child(field("days", "Lifetime in days; empty for no end", "number"))
        .child(person)
        .child(rights)
        .child(submit_button("Create the key").class("primary"))
}

fn right_field(right: Right) -> String {
    format!("right-{}", right.as_str())
}

fn read_key_form(fields: &FormFields) -> Result<CreateKeyBody, PageError> {
    let level = fields.get("level");
    let level = PermissionLevel::ALL.iter().find(|known| known.as_str() == level).copied();
    let level = level.ok_or_else(|| PageError::invalid_query("`level` is not a level"))?;
    let days = fields.get("days").trim();
    let expires_in = match days {
        "" => None,
        days => {
            let days: u64 = days.parse().map_err(|_| {
                PageError::invalid_query("the lifetime must be a whole number of days")
            })?;
            Some(days.saturating_mul(DAY_SECONDS))
        }
    };
    let is_checked = |right: &&Right| !fields.get(&right_field(**right)).is_empty();
    Ok(CreateKeyBody {
        subject: fields.get("subject").trim().to_owned(),
        level: Some(level),
        label: fields.get("label").trim().to_owned(),
        person: Some(!fields.get("person").is_empty()),
        rights: Right::ALL.iter().filter(is_checked).copied().collect(),
        expires_in,
        ..CreateKeyBody::default()
    })
}
