//! The pages of pending calls: the queue, one call, and its decisions.

use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::{Html, Redirect};
use gateway::{ApprovalDetails, ArgumentEdit};
use serde::Deserialize;
use server_core::error::ApiError;
use server_core::query_string::parse_query;
use tool::display_text::truncate_and_escape_debug;
use tool::{CallId, Digest, ErrorCode, Interface, Json, JsonLimits};
use uuid::Uuid;

use crate::ConsoleState;
use crate::approval_details_view::{FORMER_FIELD, HUNK_FIELD, call_content, listed_call};
use crate::argument_hunks::ArgumentHunks;
use crate::error_page::PageError;
use crate::form_post::SignedForm;
use crate::html::{Element, element, link, text_element};
use crate::page_layout::{PageLayout, PageUser, Section, page_tabs};
use crate::session::ConsoleSession;

/// Path of the events of the list.
pub(crate) const EVENTS: &str = "/ui/events/approvals";
/// Number of calls per page.
pub(crate) const PAGE_SIZE: usize = 20;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ApprovalListQuery {
    /// `pending` or `all`, as in REST.
    state: Option<String>,
    cursor: Option<Uuid>,
}

/// Shows the pending calls, newest first, or all calls that needed an approval.
pub(crate) async fn list_approvals(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
    uri: Uri,
) -> Result<Html<String>, PageError> {
    let query: ApprovalListQuery = parse_query(&uri).map_err(PageError::invalid_query)?;
    let only_pending = match query.state.as_deref() {
        None | Some("pending") => true,
        Some("all") => false,
        Some(_) => return Err(PageError::invalid_query("`state` must be `pending` or `all`")),
    };
    let from = (query.cursor.map(CallId), PAGE_SIZE);
    let gateway = &state.server.components.gateway;
    let page = gateway.list_approvals(&session.principal, only_pending, from).await?;
    let mut content = element("div").child(state_tabs(only_pending));
    if only_pending && query.cursor.is_none() {
        content = content.child(live_notice());
    }
    if page.approvals.is_empty() {
        let message =
            if only_pending { "No call waits for an approval." } else { "There are no calls." };
        content = content.child(text_element("p", message).class("empty"));
    }
    content = content.children(page.approvals.iter().map(|call| listed_call(&session, call)));
    let state_word = if only_pending { "pending" } else { "all" };
    let next = page.next.map(|next| {
        let path = format!("/ui/approvals?state={state_word}&cursor={next}");
        element("p").child(link(path, "Older calls").attr("rel", "next"))
    });
    let twin = format!("GET /v1/approvals?state={state_word}");
    let layout = PageLayout {
        title: "Approvals",
        section: Some(Section::Approvals),
        user: PageUser::SignedIn(&session),
        twin: Some(&twin),
    };
    Ok(layout.render(content.children(next)))
}

/// A notice that the script shows when the list has changed while something is selected.
fn live_notice() -> Element {
    let notice = element("p").class("notice").attr("role", "status").attr("data-live", EVENTS);
    let reload = link("/ui/approvals", "Load the list again").attr("data-reload", "");
    notice.flag("hidden", true).text("The list has changed. ").child(reload)
}

fn state_tabs(only_pending: bool) -> Element {
    let waiting = ("/ui/approvals", "Waiting", only_pending);
    page_tabs("State", [waiting, ("/ui/approvals?state=all", "All", !only_pending)])
}

/// Shows one call with its exact arguments.
pub(crate) async fn show_approval(
    State(state): State<ConsoleState>,
    session: ConsoleSession,
    Path(id): Path<String>,
) -> Result<Html<String>, PageError> {
    let id = parse_id(&id)?;
    let gateway = &state.server.components.gateway;
    let details = gateway.get_approval(&session.principal, id).await?;
    let former = gateway.last_approved_call(&session.principal, id).await?;
    let title = format!("Approval of {}", details.tool);
    let twin = format!("GET /v1/approvals/{id} and GET /v1/approvals/{id}/last-approved");
    let layout = PageLayout {
        title: &title,
        section: Some(Section::Approvals),
        user: PageUser::SignedIn(&session),
        twin: Some(&twin),
    };
    Ok(layout.render(call_content(&session, &details, former.as_ref())))
}

/// Approves the arguments that the page showed.
pub(crate) async fn approve_call(
    State(state): State<ConsoleState>,
    Path(id): Path<String>,
    form: SignedForm,
) -> Result<Redirect, PageError> {
    let (id, by) = (parse_id(&id)?, (&form.session.principal, Interface::Console));
    let reviewed = reviewed_digest(&form)?;
    state.server.components.gateway.approve_call(by, id, Some(reviewed)).await?;
    Ok(Redirect::to(&format!("/ui/approvals/{id}")))
}

/// Replaces the arguments that the page showed. The call still waits for its approval.
pub(crate) async fn edit_call(
    State(state): State<ConsoleState>,
    Path(id): Path<String>,
    form: SignedForm,
) -> Result<Redirect, PageError> {
    let (id, by) = (parse_id(&id)?, (&form.session.principal, Interface::Console));
    let text = form.fields.get("arguments").trim().to_owned();
    let arguments = Json::parse(text, JsonLimits::ARGUMENTS).map_err(|error| {
        ApiError::new(ErrorCode::InvalidArguments, format!("the arguments: {error}"))
            .with_help("go back in the browser: the form still has what you wrote")
    })?;
    let edit = ArgumentEdit { arguments, reviewed: Some(reviewed_digest(&form)?) };
    state.server.components.gateway.edit_arguments(by, id, edit).await?;
    Ok(Redirect::to(&format!("/ui/approvals/{id}")))
}

/// Takes changes since the last approved call back, which the form does not keep. The call still waits
/// for its approval.
pub(crate) async fn keep_hunks(
    State(state): State<ConsoleState>,
    Path(id): Path<String>,
    form: SignedForm,
) -> Result<Redirect, PageError> {
    let (id, principal) = (parse_id(&id)?, &form.session.principal);
    let gateway = &state.server.components.gateway;
    let reviewed = reviewed_digest(&form)?;
    let details = gateway.get_approval(principal, id).await?;
    let former = gateway.last_approved_call(principal, id).await?;
    let changed = || {
        ApiError::new(
            ErrorCode::Conflict,
            "the arguments, or the last approved call, are no longer those of the page",
        )
        .with_help("load the page of the call again")
    };
    let is_shown =
        |former: &ApprovalDetails| former.id.to_string() == form.fields.get(FORMER_FIELD);
    let former = former.filter(is_shown).ok_or_else(changed)?;
    if details.arguments_sha256 != reviewed {
        return Err(changed().into());
    }
    let kept = form.fields.get_all(HUNK_FIELD).filter_map(|number| number.parse().ok()).collect();
    let hunks = ArgumentHunks::between(&former.arguments, &details.arguments);
    let text = hunks.and_then(|hunks| hunks.keep(&kept)).ok_or_else(changed)?;
    let arguments = Json::parse(text, JsonLimits::ARGUMENTS).map_err(|error| {
        ApiError::new(ErrorCode::InvalidArguments, format!("the arguments: {error}"))
    })?;
    let edit = ArgumentEdit { arguments, reviewed: Some(reviewed) };
    gateway.edit_arguments((principal, Interface::Console), id, edit).await?;
    Ok(Redirect::to(&format!("/ui/approvals/{id}")))
}

/// The hash of the arguments that the page of the form showed.
fn reviewed_digest(form: &SignedForm) -> Result<Digest, ApiError> {
    form.fields.get("arguments_sha256").parse().map_err(|_| {
        let message = "`arguments_sha256` must be the hash that the page has";
        ApiError::new(ErrorCode::InvalidRequest, message)
    })
}

/// Denies a call, with the reason for its caller.
pub(crate) async fn deny_call(
    State(state): State<ConsoleState>,
    Path(id): Path<String>,
    form: SignedForm,
) -> Result<Redirect, PageError> {
    let (id, by) = (parse_id(&id)?, (&form.session.principal, Interface::Console));
    let reason = Some(form.fields.get("reason").trim()).filter(|reason| !reason.is_empty());
    state.server.components.gateway.deny_call(by, id, reason).await?;
    Ok(Redirect::to(&format!("/ui/approvals/{id}")))
}

/// Parses an id. A malformed one is reported as an unknown one, as in REST.
fn parse_id(id: &str) -> Result<CallId, ApiError> {
    id.parse::<Uuid>().map(CallId).map_err(|_| {
        let shown = truncate_and_escape_debug(id, 60);
        ApiError::new(ErrorCode::NotFound, format!("no approval `{shown}`"))
    })
}
