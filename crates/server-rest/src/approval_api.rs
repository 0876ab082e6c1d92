//! `/v1/approvals`: pending calls, for users who may decide on them and for their own callers.

use axum::extract::{Path, State};
use axum::response::Html;
use axum::routing::{get, post};
use axum::{Extension, Json as Reply};
use gateway::{ApprovalDetails, ArgumentEdit};
use identity::Principal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::call_outcome::CallFailure;
use tool::display_text::truncate_and_escape_debug;
use tool::{CallId, Digest, ErrorCode, Interface, Json};
use uuid::Uuid;

use server_core::body::{DecodedBody, QueryParams};
use server_core::error::ApiError;
use server_core::query_string::check_limit;
use server_core::route::{ApiRoute, QueryParam};
use server_core::server_state::ServerState;

/// Default and maximum number of pending calls per page.
const DEFAULT_PAGE_SIZE: usize = 50;
const MAX_PAGE_SIZE: usize = 200;

const LIST_QUERY: &[QueryParam] = &[
    QueryParam {
        name: "state",
        description: "`pending` (default): calls that wait for a decision; `all`: decided calls as well",
        schema_type: "string",
    },
    QueryParam {
        name: "limit",
        description: "number of calls per page, 1 to 200; default 50",
        schema_type: "integer",
    },
    QueryParam {
        name: "cursor",
        description: "next_cursor of the previous page",
        schema_type: "string",
    },
];

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::new(
            "get",
            "/v1/approvals",
            "List calls that need approval, newest first",
            get(list_approvals),
        )
        .with_query(LIST_QUERY)
        .with_reply::<ApprovalListReply>(),
        ApiRoute::new(
            "get",
            "/v1/approvals/{id}",
            "Get a call that needs approval",
            get(show_approval),
        )
        .with_reply::<ApprovalSchema>(),
        ApiRoute::new(
            "get",
            "/v1/approvals/{id}/last-approved",
            "Get the last approved call of the same tool, to compare a pending one with it",
            get(show_last_approved),
        )
        .with_reply::<LastApprovedReply>(),
        ApiRoute::new(
            "post",
            "/v1/approvals/{id}/approve",
            "Approve a pending call",
            post(approve_call),
        )
        .with_body::<ApproveBody>()
        .with_reply::<ApprovalSchema>(),
        ApiRoute::new("post", "/v1/approvals/{id}/deny", "Deny a pending call", post(deny_call))
            .with_body::<DenyBody>()
            .with_reply::<ApprovalSchema>(),
        ApiRoute::new(
            "post",
            "/v1/approvals/{id}/edit",
            "Replace the arguments of a pending call",
            post(edit_call),
        )
        .with_body::<EditArgumentsBody>()
        .with_reply::<ApprovalSchema>(),
    ]
}

/// The routes without a key: a page that explains how to decide. It contains no data of the call.
pub(crate) fn public_routes() -> Vec<ApiRoute> {
    let what = "Explain how to decide on a pending call";
    vec![ApiRoute::new("get", "/approvals/{id}", what, get(approval_page)).without_key()]
}

/// A pending or decided call that needs approval.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it says what there is; the gateway writes it")]
struct ApprovalSchema {
    /// ID of the call and of its approval.
    id: String,
    /// State: `pending`, `approved`, `denied`, `expired`, `void`, `consumed` or `done`.
    state: String,
    tool: String,
    source: String,
    /// Reason code of the policy for the approval.
    reason: String,
    /// Reason for the approval, for people.
    why: String,
    /// Reason codes, and rules with name and hash, that require the approval. An approval lifts
    /// only these.
    holds: Vec<String>,
    /// Caller: subject, key, level, and whether it is an agent.
    asked_by: serde_json::Map<String, serde_json::Value>,
    /// Interface that received the call.
    door: String,
    /// Arguments of the call, with invisible characters escaped.
    arguments: serde_json::Map<String, serde_json::Value>,
    /// SHA-256 of the arguments in the canonical form of RFC 8785.
    arguments_sha256: String,
    /// Number of edits of the arguments.
    edits: u32,
    /// Declared side effects of the tool, or `unknown`.
    side_effects: Vec<String>,
    /// Minimum level of an approver.
    level: String,
    /// Hash of the tool's definition.
    definition: String,
    /// Hash of the policy that required the approval.
    policy: String,
    /// Creation time, RFC 3339.
    created: String,
    /// Expiry time, RFC 3339.
    expires: String,
    /// Decision: approver, interface, time, reason, and whether it was the caller's own.
    decided: Option<serde_json::Map<String, serde_json::Value>>,
    /// Outcome of the call: `status`, `code`, `message`.
    ended: Option<serde_json::Map<String, serde_json::Value>>,
}

#[derive(Serialize, JsonSchema)]
struct ApprovalListReply {
    #[schemars(with = "Vec<ApprovalSchema>")]
    approvals: Vec<ApprovalDetails>,
    /// Cursor of the next page; null on the last page.
    #[schemars(with = "Option<String>")]
    next_cursor: Option<CallId>,
}

#[derive(Serialize, JsonSchema)]
struct LastApprovedReply {
    /// The call; null if there is none that you may see.
    #[schemars(with = "Option<ApprovalSchema>")]
    approval: Option<ApprovalDetails>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ApprovalListQuery {
    state: Option<String>,
    limit: Option<usize>,
    cursor: Option<Uuid>,
}

/// An approval. Without a body, it approves the current arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ApproveBody {
    /// Hash of the reviewed arguments. If the arguments have changed, the call is not approved.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    arguments_sha256: Option<Digest>,
}

/// A denial.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DenyBody {
    /// Reason, which the caller receives.
    #[serde(default)]
    reason: Option<String>,
}

/// An edit of the arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EditArgumentsBody {
    /// All arguments of the call.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    arguments: Json,
    /// Hash of the reviewed arguments. If the arguments have changed since, nothing is edited.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    arguments_sha256: Option<Digest>,
    /// Whether to approve the call with these arguments; otherwise it stays pending.
    #[serde(default)]
    approve: bool,
}

async fn list_approvals(
    State(doors): State<ServerState>,
    Extension(principal): Extension<Principal>,
    QueryParams(query): QueryParams<ApprovalListQuery>,
) -> Result<Reply<ApprovalListReply>, ApiError> {
    let pending = match query.state.as_deref() {
        None | Some("pending") => true,
        Some("all") => false,
        Some(other) => {
            let told = format!(
                "`state` must be `pending` or `all`, not \
                `{}`",
                other.escape_debug()
            );
            return Err(ApiError::new(ErrorCode::InvalidRequest, told));
        }
    };
    let limit = check_limit(query.limit, DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)?;
    let from = (query.cursor.map(CallId), limit);
    let page = doors
        .components
        .gateway
        .list_approvals(&principal, pending, from)
        .await
        .map_err(approval_error)?;
    Ok(Reply(ApprovalListReply { approvals: page.approvals, next_cursor: page.next }))
}

async fn show_approval(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Result<Reply<ApprovalDetails>, ApiError> {
    state
        .components
        .gateway
        .get_approval(&principal, parse_approval_id(&id)?)
        .await
        .map(Reply)
        .map_err(approval_error)
}

async fn show_last_approved(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Result<Reply<LastApprovedReply>, ApiError> {
    let gateway = &state.components.gateway;
    let found = gateway.last_approved_call(&principal, parse_approval_id(&id)?).await;
    let approval = found.map_err(approval_error)?;
    Ok(Reply(LastApprovedReply { approval }))
}

async fn approve_call(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
    DecodedBody(body): DecodedBody<ApproveBody>,
) -> Result<Reply<ApprovalDetails>, ApiError> {
    let by = (&principal, Interface::Rest);
    let shown = state
        .components
        .gateway
        .approve_call(by, parse_approval_id(&id)?, body.arguments_sha256)
        .await;
    shown.map(Reply).map_err(approval_error)
}

async fn deny_call(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
    DecodedBody(body): DecodedBody<DenyBody>,
) -> Result<Reply<ApprovalDetails>, ApiError> {
    let by = (&principal, Interface::Rest);
    let shown = state
        .components
        .gateway
        .deny_call(by, parse_approval_id(&id)?, body.reason.as_deref())
        .await;
    shown.map(Reply).map_err(approval_error)
}

async fn edit_call(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
    DecodedBody(body): DecodedBody<EditArgumentsBody>,
) -> Result<Reply<ApprovalDetails>, ApiError> {
    let (by, id) = ((&principal, Interface::Rest), parse_approval_id(&id)?);
    let gateway = &state.components.gateway;
    let edit = ArgumentEdit { arguments: body.arguments, reviewed: body.arguments_sha256 };
    let edited = gateway.edit_arguments(by, id, edit).await.map_err(approval_error)?;
    if !body.approve {
        return Ok(Reply(edited));
    }
    let approved = gateway.approve_call(by, id, Some(edited.arguments_sha256)).await;
    approved.map(Reply).map_err(approval_error)
}

/// Parses an approval id. Ids of other callers and malformed ids are reported alike, as not found.
fn parse_approval_id(id: &str) -> Result<CallId, ApiError> {
    id.parse::<Uuid>().map(CallId).map_err(|_| {
        let shown = truncate_and_escape_debug(id, 60);
        approval_error(CallFailure::new(ErrorCode::NotFound, format!("no approval `{shown}`")))
    })
}

fn approval_error(failure: CallFailure) -> ApiError {
    let fix = match failure.code {
        ErrorCode::NotFound => "run `toolkeep approval list` to see those that you may decide on",
        ErrorCode::Forbidden => {
            "use the key of a person who has `--right approve` and did not make the call"
        }
        ErrorCode::Conflict => "read it again: `toolkeep approval show ID`",
        _ => return ApiError::new(failure.code, failure.message),
    };
    ApiError::new(failure.code, failure.message).with_help(fix)
}

/// Serves the approval page. The id must be a UUID, so that nothing else of the address enters the
/// page.
async fn approval_page(Path(id): Path<String>) -> Result<Html<String>, ApiError> {
    let id = parse_approval_id(&id)?;
    Ok(Html(format!(
        "<!doctype html><meta charset=\"utf-8\"><title>Toolkeep: approval</title>\
         <h1>A call waits for your approval</h1>\
         <p>Look at what would run, and decide:</p>\
         <pre>toolkeep approval show {id}\ntoolkeep approval approve {id}\n\
         toolkeep approval deny {id} --reason \"…\"</pre>\
         <p>This page decides nothing, and knows nothing of the call.</p>"
    )))
}
