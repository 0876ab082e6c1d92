//! Trying a tool: the decision on a call before it runs, and its result.

use axum::extract::{Path, State};
use axum::http::header::ORIGIN;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use catalog::CatalogEntry;
use gateway::CallRequest;
use identity::{Principal, RequestRestrictions};
use server_core::decision_explanation::{self, ExplainReply, HypotheticalCall};
use server_core::key_delegation;
use tool::{Interface, Json, JsonLimits};

use crate::ConsoleState;
use crate::argument_form::{ArgumentForm, FieldError};
use crate::call_result_view::call_result;
use crate::call_snippets::CallSnippets;
use crate::error_page::PageError;
use crate::form_post::{FormFields, SignedForm};
use crate::html::{Element, element, link, text_element};
use crate::page_layout::{PageLayout, PageUser, Section, post_form, submit_button};
use crate::session::ConsoleSession;
use crate::tool_page::{find_tool, tool_path};

/// Field that says whether the arguments are in fields of their own or JSON.
const SOURCE_FIELD: &str = "argument_source";
/// Field with the user to act for; empty for oneself.
const SUBJECT_FIELD: &str = "act_for";
/// Field with the arguments as JSON.
const JSON_FIELD: &str = "arguments";

/// The forms as they came back.
#[derive(Debug, Clone, Copy, Default)]
struct PostedForms<'a> {
    fields: Option<&'a FormFields>,
    json: Option<&'a str>,
    subject: &'a str,
    errors: &'a [FieldError],
}

/// Renders the forms that explain and run a call: with fields for its properties, and as JSON.
pub(crate) fn try_section(session: &ConsoleSession, entry: &CatalogEntry) -> Element {
    render_forms(session, entry, &form_of(entry), PostedForms::default())
}

/// Explains or runs the call of a form.
pub(crate) async fn post_try(
    State(state): State<ConsoleState>,
    Path(name): Path<String>,
    headers: HeaderMap,
    form: SignedForm,
) -> Result<Response, PageError> {
    let SignedForm { session, fields } = form;
    let view = session.tool_view(&state);
    let entry = find_tool(&state, &view, &name)?;
    let argument_form = form_of(entry);
    let is_json = fields.get(SOURCE_FIELD) == "json";
    let read = if is_json { read_json(&fields) } else { argument_form.read_arguments(&fields) };
    let subject = fields.get(SUBJECT_FIELD).trim();
    let caller = acting_principal(&state, &session, subject).await?;
    let mut content = element("div");
    let mut status = StatusCode::OK;
    let mut errors = Vec::new();
    match read {
        Err(wrong) => {
            status = StatusCode::BAD_REQUEST;
            content = content.child(error_list(&wrong));
            errors = wrong;
        }
        Ok(arguments) if fields.get("action") == "run" => {
            let request =
                CallRequest::new(entry.name.as_str(), arguments.clone(), Interface::Console);
            let answer = state.server.components.gateway.call_tool(&caller, request).await;
            state.server.metrics.observe_call(Interface::Console, &answer);
            content = content.child(call_result(&state, &session, answer)?);
            content = content.child(snippets(&headers, entry, &arguments));
        }
        Ok(arguments) => {
            content = content.child(explain(&state, &caller, entry, &arguments)?);
            content = content.child(snippets(&headers, entry, &arguments));
        }
    }
    let posted = PostedForms {
        fields: (!is_json).then_some(&fields),
        json: is_json.then(|| fields.get(JSON_FIELD)),
        subject,
        errors: &errors,
    };
    let title = format!("Try {}", entry.name);
    let layout = PageLayout {
        title: &title,
        section: Some(Section::Tools),
        user: PageUser::SignedIn(&session),
        twin: Some("POST /v1/explain and POST /v1/calls"),
    };
    let tool = link(tool_path(entry.name.as_str()), "Description of the tool");
    content = content
        .child(render_forms(&session, entry, &argument_form, posted))
        .child(element("p").child(tool));
    Ok((status, layout.render(content)).into_response())
}

/// Returns who calls: the session's principal, or one that acts for another user.
async fn acting_principal(
    state: &ConsoleState,
    session: &ConsoleSession,
    subject: &str,
) -> Result<Principal, PageError> {
    let own = &session.principal;
    if subject.is_empty() || subject == own.subject() {
        return Ok(own.clone());
    }
    let key = (own.key_id().to_owned(), subject.to_owned());
    let ring = state.server.components.keys.key_ring();
    let now = state.server.components.clock.wall_now();
    if let Some(known) = state.acting_keys.find_principal(&key, &ring, now) {
        return Ok(known);
    }
    let acting = key_delegation::act_for_user(&state.server, own, subject).await?;
    state.acting_keys.store_key(key, acting.key_id());
    Ok(acting)
}

fn read_json(fields: &FormFields) -> Result<String, Vec<FieldError>> {
    let text = fields.get(JSON_FIELD).trim();
    let text = if text.is_empty() { "{}" } else { text };
    let parsed = Json::parse(text.to_owned(), JsonLimits::ARGUMENTS);
    let checked = parsed.map_err(|error| error.to_string()).and_then(|json| {
        if json.as_str().starts_with('{') { Ok(json) } else { Err("expected an object".to_owned()) }
    });
    checked
        .map(|json| json.as_str().to_owned())
        .map_err(|why| vec![FieldError::new(JSON_FIELD, &why)])
}

fn form_of(entry: &CatalogEntry) -> ArgumentForm {
    ArgumentForm::from_schema(&entry.tool.input_schema.to_value())
}

fn error_list(errors: &[FieldError]) -> Element {
    let items = errors.iter().map(|error| text_element("li", &error.message));
    let notice = element("div").class("notice error").attr("role", "alert");
    let head = text_element("p", "Nothing has run. These arguments are not valid:");
    notice.child(head).child(element("ul").children(items))
}

fn snippets(headers: &HeaderMap, entry: &CatalogEntry, arguments: &str) -> Element {
    // Checked by the form: it is the origin of this server.
    let address = headers.get(ORIGIN).and_then(|value| value.to_str().ok()).unwrap_or_default();
    CallSnippets { address, tool: entry.name.as_str(), arguments }.render()
}

fn explain(
    state: &ConsoleState,
    caller: &Principal,
    entry: &CatalogEntry,
    arguments: &str,
) -> Result<Element, PageError> {
    let arguments = Json::parse(arguments.to_owned(), JsonLimits::ARGUMENTS)
        .map_err(|error| PageError::invalid_query(format!("the arguments: {error}")))?;
    let call = HypotheticalCall {
        tool: entry.name.to_string(),
        arguments: Some(arguments),
        key: None,
        is_chained: false,
        restrictions: RequestRestrictions::default(),
    };
    let reply = decision_explanation::explain_call(&state.server, caller, call)?;
    Ok(decision_view(&reply))
}

/// Renders the decision on a call with its reasons.
pub(crate) fn decision_view(reply: &ExplainReply) -> Element {
    let message = match reply.decision {
        "allow" => "This call would run.",
        "hold" => "This call would wait for an approval.",
        "deny" => "This call would be denied.",
        _ => "This tool does not exist for the caller.",
    };
    let fact = |name: &str, value: &str| [text_element("dt", name), text_element("dd", value)];
    let position = reply.position.as_ref();
    let position = position.map(|at| format!("line {}, column {}", at.line, at.column));
    let optional = [
        ("Layer", reply.layer.clone()),
        ("Rule", reply.rule.clone()),
        ("Place in the configuration", position),
        ("Error in the policy", reply.evaluation_error.clone()),
        (
            "Data that earlier calls received",
            Some(reply.taint.join(", ")).filter(|it| !it.is_empty()),
        ),
    ];
    let optional = optional.into_iter().filter_map(|(name, value)| Some(fact(name, &value?)));
    let facts = [fact("Reason", &reply.text), fact("Code", reply.reason)];
    let facts = element("dl").class("facts").children(facts.into_iter().chain(optional).flatten());
    let head = text_element("h2", "Decision");
    element("section").child(head).child(text_element("p", message)).child(facts)
}

fn render_forms(
    session: &ConsoleSession,
    entry: &CatalogEntry,
    form: &ArgumentForm,
    posted: PostedForms<'_>,
) -> Element {
    let section = element("section").child(text_element("h2", "Try it"));
    let mut fields = new_form(session, entry, "fields");
    if form.is_empty() {
        fields = fields.child(text_element("p", "The tool declares no arguments.").class("empty"));
    }
    let rest = "Not all arguments have a field; write them as JSON below.";
    let rest = (!form.is_complete).then(|| text_element("p", rest).class("hint"));
    let fields = fields.children(form.render(posted.fields, posted.errors)).children(rest);
    let area = element("textarea").attr("id", "arguments-json").attr("name", JSON_FIELD);
    let area = area.attr("rows", "6").attr("spellcheck", "false").text(posted.json.unwrap_or("{}"));
    let label = text_element("label", "Arguments as one JSON object").attr("for", "arguments-json");
    let json = new_form(session, entry, "json").child(label).child(area);
    let json = json.child(subject_field("subject-json", posted.subject)).child(buttons());
    let details = element("details").flag("open", posted.json.is_some());
    let details = details.child(text_element("summary", "Write the arguments as JSON")).child(json);
    let fields = fields.child(subject_field("subject-fields", posted.subject));
    section.child(fields.child(buttons())).child(details)
}

fn new_form(session: &ConsoleSession, entry: &CatalogEntry, source: &'static str) -> Element {
    let path = format!("{}/try", tool_path(entry.name.as_str()));
    let field = element("input").attr("type", "hidden").attr("name", SOURCE_FIELD);
    post_form(session, path).class("arguments").child(field.attr("value", source))
}

/// The user to act for. Whoever may not is told by the decision.
fn subject_field(id: &'static str, subject: &str) -> Element {
    let input = element("input").attr("type", "text").attr("id", id).attr("name", SUBJECT_FIELD);
    let input = input.attr("value", subject.to_owned()).attr("autocomplete", "off");
    let hint_id = format!("{id}-hint");
    let input = input.attr("aria-describedby", hint_id.clone());
    let label = text_element("label", "User to act for").attr("for", id);
    let hint = "Empty: yourself. For another user you need the right `act_as`; a key of ten minutes with the lesser \
                rights of both makes the call.";
    let hint = text_element("p", hint).class("hint").attr("id", hint_id);
    let summary = text_element("summary", "Act for another user");
    let details = element("details").class("group").flag("open", !subject.is_empty());
    details
        .child(summary)
        .child(element("div").class("field").child(label).child(hint).child(input))
}

/// The first button is the one that Enter presses: it runs nothing.
fn buttons() -> Element {
    let button = |text: &str, action: &'static str| {
        submit_button(text).attr("name", "action").attr("value", action)
    };
    let explain = button("Explain the decision", "explain");
    element("p").class("buttons").child(explain).child(button("Run", "run").class("primary"))
}
