//! The page that adds a source: a form, what the source lists, and the lines in the configuration
//! file.

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{Html, IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::Value;
use server_core::configuration_file::{PlannedSource, TriedSource};
use server_core::query_string::parse_query;
use server_core::source_addition::{self, SourceTrialReply};

use crate::ConsoleState;
use crate::argument_form::FieldError;
use crate::error_page::PageError;
use crate::form_post::{FormFields, SignedForm};
use crate::html::{Element, element, link, text_element};
use crate::page_layout::{
    PageLayout, PageUser, Section, data_table, page_tabs, post_form, submit_button,
};
use crate::session::ConsoleSession;
use crate::source_form::SourceKind;
use crate::source_page::{problem_notice, section_tabs};

/// Path of the page.
pub(crate) const PAGE: &str = "/ui/sources/add";
/// Field with the kind of the source.
const KIND_FIELD: &str = "kind";

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct KindQuery {
    kind: String,
}

/// Shows the form of a kind of source.
pub(crate) async fn show_form(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
    uri: Uri,
) -> Result<Html<String>, PageError> {
    let query: KindQuery = parse_query(&uri).map_err(PageError::invalid_query)?;
    let kind = parse_kind(&query.kind)?;
    let schema = state.server.components.require_configuration()?.schema();
    let form = source_form(&session, kind, &schema, None, &[]);
    Ok(render(&session, kind, form))
}

/// Tries the source of a form, or adds it.
pub(crate) async fn post_form_of_source(
    State(state): State<ConsoleState>,
    form: SignedForm,
) -> Result<Response, PageError> {
    let SignedForm { session, fields } = form;
    let kind = parse_kind(fields.get(KIND_FIELD))?;
    let schema = state.server.components.require_configuration()?.schema();
    let entry = match kind.read_entry(&schema, &fields) {
        Ok(entry) => entry,
        Err(errors) => {
            let form = source_form(&session, kind, &schema, Some(&fields), &errors);
            return Ok((StatusCode::BAD_REQUEST, render(&session, kind, form)).into_response());
        }
    };
    let principal = &session.principal;
    let result = if fields.get("action") == "add" {
        let added = source_addition::add_source(&state.server, principal, entry).await?;
        added_view(&added)
    } else {
        trial_view(&source_addition::try_source(&state.server, principal, entry).await?)
    };
    let form = source_form(&session, kind, &schema, Some(&fields), &[]);
    Ok(render(&session, kind, element("div").child(result).child(form)).into_response())
}

fn parse_kind(word: &str) -> Result<SourceKind, PageError> {
    SourceKind::parse(word)
        .ok_or_else(|| PageError::invalid_query("`kind` is not a kind of source"))
}

fn render(session: &ConsoleSession, kind: SourceKind, content: Element) -> Html<String> {
    let kinds = SourceKind::ALL.map(|other| {
        let (word, title) = other.names();
        (kind_path(word), title, other == kind)
    });
    let content = element("div")
        .child(section_tabs(PAGE))
        .child(page_tabs("Kind of source", kinds))
        .child(content);
    let layout = PageLayout {
        title: "Add a source",
        section: Some(Section::Sources),
        user: PageUser::SignedIn(session),
        twin: Some("POST /v1/sources/try and POST /v1/sources"),
    };
    layout.render(content)
}

fn kind_path(word: &str) -> String {
    format!("{PAGE}?kind={word}")
}

fn source_form(
    session: &ConsoleSession,
    kind: SourceKind,
    schema: &Value,
    typed: Option<&FormFields>,
    errors: &[FieldError],
) -> Element {
    let word = element("input").attr("type", "hidden").attr("name", KIND_FIELD);
    let button = |text: &str, action: &'static str| {
        submit_button(text).attr("name", "action").attr("value", action)
    };
    // The first button is the one that Enter presses: it changes nothing.
    let buttons = element("p")
        .class("buttons")
        .child(button("Test it", "try"))
        .child(button("Add it", "add").class("primary"));
    let failed = (!errors.is_empty()).then(|| {
        let items = errors.iter().map(|error| text_element("li", &error.message));
        let notice = element("div").class("notice error").attr("role", "alert");
        notice
            .child(text_element("p", "Some fields are not valid:"))
            .child(element("ul").children(items))
    });
    let hint = "A program, a file or a variable (`${NAME}`) of the server is only taken where its configuration allows it.";
    post_form(session, PAGE.to_owned())
        .class("arguments")
        .child(word.attr("value", kind.names().0))
        .children(failed)
        .children(kind.form(schema).render(typed, errors))
        .child(text_element("p", hint).class("hint"))
        .child(buttons)
}

fn added_view(added: &PlannedSource) -> Element {
    let told =
        "The source is in the configuration file. The server starts it when it sees the change.";
    element("section")
        .child(element("div").class("notice").attr("role", "status").child(text_element("p", told)))
        .child(lines_view(added))
        .child(element("p").child(link("/ui/sources", "All sources")))
}

fn lines_view(planned: &PlannedSource) -> Element {
    let place = format!("{}, line {}", planned.file, planned.line);
    element("div")
        .child(text_element("p", &place).class("hint"))
        .child(text_element("pre", &planned.lines).attr("tabindex", "0"))
}

fn trial_view(trial: &SourceTrialReply) -> Element {
    let section = element("section").child(text_element("h2", "Test"));
    let result = match (&trial.listed, &trial.not_started) {
        (Some(listed), _) => listed_view(listed),
        (None, why) => {
            let why = why.as_deref().unwrap_or_default();
            element("div").class("notice").child(text_element("p", why))
        }
    };
    section
        .child(result)
        .child(text_element("h2", "Lines of the configuration file"))
        .child(lines_view(&trial.planned))
}

fn listed_view(listed: &TriedSource) -> Element {
    if let Some(failure) = &listed.failure {
        let told = text_element("p", "It cannot be listed:");
        return element("div").child(told).child(problem_notice(failure));
    }
    let count = format!("It lists {} tools. Nothing was added.", listed.tool_count);
    let rows = listed.tools.iter().map(|tool| {
        let name = text_element("th", &tool.name).attr("scope", "row");
        element("tr").child(name).child(text_element("td", &tool.description).class("description"))
    });
    let more = listed.tool_count.saturating_sub(listed.tools.len());
    let more = (more > 0).then(|| text_element("p", &format!("And {more} more.")).class("hint"));
    element("div")
        .child(text_element("p", &count).attr("role", "status"))
        .children(listed.problems.iter().map(problem_notice))
        .child(data_table("Tools of the source", &["Tool", "Description"], rows))
        .children(more)
}
