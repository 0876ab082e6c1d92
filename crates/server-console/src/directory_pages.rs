//! The pages of personas and organisations: what each may use, and the forms that change them.

use axum::extract::{Path, State};
use axum::response::{Html, Redirect};
use server_core::org_management::{self, CreateOrgBody, OrgReply, OrgToolsBody};
use server_core::persona_management::{self, CreatePersonaBody, PersonaReply, UpdatePersonaBody};

use crate::ConsoleState;
use crate::access_pages::{cell, render, row, section_tabs};
use crate::error_page::PageError;
use crate::form_post::SignedForm;
use crate::html::{Element, element, link, text_element};
use crate::page_layout::{check_field, data_table, guarded_button, post_form, submit_button};
use crate::session::ConsoleSession;
use crate::tool_page::encode_segment;

/// Path of the list of personas.
pub(crate) const PERSONAS: &str = "/ui/access/personas";
/// Path of the list of organisations.
pub(crate) const ORGS: &str = "/ui/access/orgs";
/// Field with one name a line.
const NAMES: &str = "names";

/// Shows the personas with the sources that each may use.
pub(crate) async fn list_personas(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
) -> Result<Html<String>, PageError> {
    let list = persona_management::list_personas(&state.server, &session.principal)?;
    let titles = ["Persona", "Sources that it may use", "Default"];
    let rows = list.personas.iter().map(|persona| persona_row(&session, persona));
    let name = text_field("name", "Name", "new-persona");
    let form = post_form(&session, PERSONAS.to_owned())
        .class("arguments")
        .child(name)
        .child(names_field("new-sources", "Sources, one a line; none if empty", &[]))
        .child(submit_button("Create the persona").class("primary"));
    let content = element("div")
        .child(section_tabs(PERSONAS))
        .child(if list.personas.is_empty() {
            text_element("p", "There are no personas.").class("empty")
        } else {
            data_table("List of personas", &titles, rows)
        })
        .child(text_element("h2", "Create a persona"))
        .child(form);
    Ok(render(&session, "GET and POST /v1/personas", content))
}

/// Creates the persona of a form.
pub(crate) async fn create_persona(
    State(state): State<ConsoleState>,
    form: SignedForm,
) -> Result<Redirect, PageError> {
    let body = CreatePersonaBody {
        name: form.fields.get("name").trim().to_owned(),
        allowed_modules: read_names(form.fields.get(NAMES)).into_iter().collect(),
    };
    persona_management::create_persona(&state.server, &form.session.principal, body).await?;
    Ok(Redirect::to(PERSONAS))
}

/// Changes the sources of a persona, and whether it is the default.
pub(crate) async fn update_persona(
    State(state): State<ConsoleState>,
    Path(name): Path<String>,
    form: SignedForm,
) -> Result<Redirect, PageError> {
    let change = UpdatePersonaBody {
        allowed_modules: Some(read_names(form.fields.get(NAMES)).into_iter().collect()),
        is_default: !form.fields.get("default").is_empty(),
    };
    let principal = &form.session.principal;
    persona_management::update_persona(&state.server, principal, &name, change).await?;
    Ok(Redirect::to(PERSONAS))
}

/// Shows the organisations of the installation.
pub(crate) async fn list_orgs(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
) -> Result<Html<String>, PageError> {
    let list = org_management::list_orgs(&state.server, &session.principal)?;
    let titles = ["Organisation", "Description", "Keys", "Tools", "State", "Action"];
    let rows = list.orgs.iter().map(|org| org_row(&session, org));
    let mut content = element("div").child(section_tabs(ORGS));
    content = if list.orgs.is_empty() {
        let message = "There are no organisations beside `default`.";
        content.child(text_element("p", message).class("empty"))
    } else {
        content.child(data_table("List of organisations", &titles, rows))
    };
    let form = post_form(&session, ORGS.to_owned())
        .class("arguments")
        .child(text_field("name", "Name", "org-name"))
        .child(text_field("description", "Description", "org-description"))
        .child(submit_button("Create the organisation").class("primary"));
    let content = content.child(text_element("h2", "Create an organisation")).child(form);
    Ok(render(&session, "GET and POST /v1/orgs", content))
}

/// Creates an organisation, and shows the key of its owner once.
pub(crate) async fn create_org(
    State(state): State<ConsoleState>,
    form: SignedForm,
) -> Result<Html<String>, PageError> {
    let name = form.fields.get("name").trim();
    let name = name.parse().map_err(|error: tool::NameError| {
        PageError::invalid_query(format!("the name of the organisation: {error}"))
    })?;
    let description = form.fields.get("description").trim().to_owned();
    let body = CreateOrgBody { name, description };
    let principal = &form.session.principal;
    let created = org_management::create_org(&state.server, principal, body).await?;
    let told = "This is the key of its owner. It is shown once: the server keeps only its hash.";
    let key = text_element("pre", &created.key).attr("tabindex", "0").attr("id", "created-key");
    let content = element("div")
        .child(element("div").class("notice").child(text_element("p", told)))
        .child(key)
        .child(element("p").child(link(ORGS, "All organisations")));
    Ok(render(&form.session, "POST /v1/orgs", content))
}

/// Shows the tools that an organisation may use.
pub(crate) async fn show_org(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
    Path(name): Path<String>,
) -> Result<Html<String>, PageError> {
    let reply = org_management::show_org_tools(&state.server, &session.principal, &name)?;
    let path = org_path(&reply.org);
    let twin = format!("GET and PUT /v1/orgs/{}/tools", encode_segment(&reply.org));
    let told = match &reply.tools {
        None => "It has no list, so it may use every tool that its keys may.",
        Some(_) => "It may use the tools of this list.",
    };
    let names = reply.tools.unwrap_or_default();
    let label = "Patterns and groups of tools, one a line; none if empty";
    let form = post_form(&session, path)
        .class("arguments")
        .child(names_field("org-tools", label, &names))
        .child(submit_button("Set the list").class("primary"));
    let content = element("div")
        .child(section_tabs(ORGS))
        .child(text_element("h2", &reply.org))
        .child(text_element("p", told))
        .child(form);
    Ok(render(&session, &twin, content))
}

/// Sets the tools that an organisation may use.
pub(crate) async fn set_org_tools(
    State(state): State<ConsoleState>,
    Path(name): Path<String>,
    form: SignedForm,
) -> Result<Redirect, PageError> {
    let body = OrgToolsBody { tools: read_names(form.fields.get(NAMES)) };
    let principal = &form.session.principal;
    let reply = org_management::set_org_tools(&state.server, principal, &name, body).await?;
    Ok(Redirect::to(&org_path(&reply.org)))
}

/// Disables an organisation and its keys.
pub(crate) async fn disable_org(
    State(state): State<ConsoleState>,
    Path(name): Path<String>,
    form: SignedForm,
) -> Result<Redirect, PageError> {
    org_management::disable_org(&state.server, &form.session.principal, &name).await?;
    Ok(Redirect::to(ORGS))
}

/// Enables a disabled organisation.
pub(crate) async fn enable_org(
    State(state): State<ConsoleState>,
    Path(name): Path<String>,
    form: SignedForm,
) -> Result<Redirect, PageError> {
    org_management::enable_org(&state.server, &form.session.principal, &name).await?;
    Ok(Redirect::to(ORGS))
}

fn org_path(name: &str) -> String {
    format!("{ORGS}/{}", encode_segment(name))
}

fn persona_row(session: &ConsoleSession, persona: &PersonaReply) -> Element {
    let path = format!("{PERSONAS}/{}", encode_segment(&persona.name));
    let names: Vec<_> = persona.allowed_modules.iter().flatten().cloned().collect();
    let unknown = persona.unknown_modules.join(", ");
    let unknown = (!unknown.is_empty()).then(|| {
        text_element("p", &format!("No source has these names now: {unknown}")).class("hint")
    });
    let id = format!("sources-{}", persona.name);
    let label = format!("Sources of {}, one a line", persona.name);
    let form = post_form(session, path)
        .child(names_field(&id, &label, &names))
        .child(check_field("default", "For all users without a persona", persona.is_default))
        .child(submit_button("Save").attr("aria-label", format!("Save {}", persona.name)));
    let edit = element("details").child(text_element("summary", "Change")).child(form);
    let all = persona.allowed_modules.is_none().then(|| "all".to_owned());
    let sources =
        all.unwrap_or_else(|| if names.is_empty() { "none".to_owned() } else { names.join(", ") });
    let sources = element("td").child(text_element("p", &sources)).children(unknown).child(edit);
    row(&persona.name, [sources, cell(if persona.is_default { "yes" } else { "no" })])
}

fn org_row(session: &ConsoleSession, org: &OrgReply) -> Element {
    let path = |action: &str| format!("{}/{action}", org_path(&org.org));
    let (state, action) = if let Some(since) = &org.disabled {
        let badge = text_element("span", &format!("disabled since {since}"));
        let button = submit_button("Enable").attr("aria-label", format!("Enable {}", org.org));
        (badge.class("badge pending"), post_form(session, path("enable")).child(button))
    } else {
        let button = guarded_button(session, path("disable"), "Disable", &org.org);
        (text_element("span", "enabled").class("badge"), button)
    };
    let tools = org.tools.map_or_else(|| "all".to_owned(), |count| format!("{count} patterns"));
    let tools = link(org_path(&org.org), &tools).attr("data-open", "");
    row(
        &org.org,
        [
            cell(&org.description),
            cell(&org.keys.to_string()),
            element("td").child(tools),
            element("td").child(state),
            element("td").child(action),
        ],
    )
}

fn text_field(name: &'static str, label: &str, id: &str) -> Element {
    let input = element("input").attr("type", "text").attr("id", id.to_owned()).attr("name", name);
    let label = text_element("label", label).attr("for", id.to_owned());
    element("p").class("field").child(label).child(input.attr("autocomplete", "off"))
}

fn names_field(id: &str, label: &str, names: &[String]) -> Element {
    let area = element("textarea").attr("id", id.to_owned()).attr("name", NAMES).attr("rows", "4");
    let area = area.attr("spellcheck", "false").text(&names.join("\n"));
    let label = text_element("label", label).attr("for", id.to_owned());
    element("div").class("field").child(label).child(area)
}

fn read_names(text: &str) -> Vec<String> {
    text.lines().map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}
