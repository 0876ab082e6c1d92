//! `/v1/approvals`: pending calls, for users who may decide on them and for their own callers.

use axum::extract::{Path, State};
use axum::response::Html;
use axum::routing::{get, post};
use axum::{Extension, Json as Reply};
use gateway::Shown;
use identity::Principal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::outcome::Failure;
use tool::{CallId, Code, Digest, Interface, Json};
use uuid::Uuid;

use server_core::body::{Body, Params};
use server_core::error::ApiError;
use server_core::route::{Param, Route};
use server_core::state::Doors;

/// Default and maximum number of pending calls per page.
const USUAL: usize = 50;
const PAGE: usize = 200;

const QUERY: &[Param] = &[
    Param {
        name: "state",
        what: "`pending` where absent: those that wait for a decision; `all`: also what became of others",
        kind: "string",
    },
    Param { name: "limit", what: "of one page, 1 to 200; 50 where absent", kind: "integer" },
    Param { name: "cursor", what: "next_cursor of the page before", kind: "string" },
];

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::new("get", "/v1/approvals", "Held calls, the newest first", get(list))
            .query(QUERY)
            .reply::<Approvals>(),
        Route::new("get", "/v1/approvals/{id}", "One held call", get(one)).reply::<Approval>(),
        Route::new("post", "/v1/approvals/{id}/approve", "Let a held call run", post(approve))
            .body::<Approve>()
            .reply::<Approval>(),
        Route::new("post", "/v1/approvals/{id}/deny", "Refuse a held call", post(deny))
            .body::<Deny>()
            .reply::<Approval>(),
        Route::new("post", "/v1/approvals/{id}/edit", "Change a held call's arguments", post(edit))
            .body::<Edit>()
            .reply::<Approval>(),
    ]
}

/// The routes without a key: a page that explains how to decide. It contains no data of the call.
pub(crate) fn open() -> Vec<Route> {
    let what = "How to decide about a held call";
    vec![Route::new("get", "/approvals/{id}", what, get(page)).open()]
}

/// A held call.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it says what there is; the gateway writes it")]
struct Approval {
    /// Names the call and its approval.
    id: String,
    /// `pending`, `approved`, `denied`, `expired`, `void`, `consumed` or `done`.
    state: String,
    tool: String,
    source: String,
    /// Why it is held: a reason code of the policy.
    reason: String,
    /// The same in words.
    why: String,
    /// Everything that holds it: reason codes, and rules by name and hash. An approval lifts these alone.
    holds: Vec<String>,
    /// Subject, key, level, and whether it is an agent.
    asked_by: serde_json::Map<String, serde_json::Value>,
    /// By which door it came.
    door: String,
    /// What will run, with hidden characters made visible.
    arguments: serde_json::Map<String, serde_json::Value>,
    /// SHA-256 of the arguments in the form of RFC 8785.
    arguments_sha256: String,
    /// How often a person changed them.
    edits: u32,
    /// The tool's declared side effects, or `unknown`, which counts as one.
    side_effects: Vec<String>,
    /// The least level that may approve it.
    level: String,
    /// Hash of the tool's definition.
    definition: String,
    /// Hash of the policy that held it.
    policy: String,
    /// RFC 3339.
    created: String,
    /// RFC 3339; it ends by itself then.
    expires: String,
    /// Who decided, by which door, when, why, and whether it was the caller's own.
    decided: Option<serde_json::Map<String, serde_json::Value>>,
    /// What came of it: `status`, `code`, `message`.
    ended: Option<serde_json::Map<String, serde_json::Value>>,
}

#[derive(Serialize, JsonSchema)]
struct Approvals {
    #[schemars(with = "Vec<Approval>")]
    approvals: Vec<Shown>,
    /// Give it as `cursor` for the next page; null at the end.
    #[schemars(with = "Option<String>")]
    next_cursor: Option<CallId>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    state: Option<String>,
    limit: Option<usize>,
    cursor: Option<Uuid>,
}

/// An approval. Without a body it is for the arguments as they stand.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Approve {
    /// The hash of the arguments that were looked at: where they were changed since, nothing is approved.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    arguments_sha256: Option<Digest>,
}

/// A refusal.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Deny {
    /// Why; the caller is told.
    #[serde(default)]
    reason: Option<String>,
}

/// A change.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Edit {
    /// All arguments, as they shall be.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    arguments: Json,
    /// Whether it is approved with these; else it waits on.
    #[serde(default)]
    approve: bool,
}

async fn list(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Params(asked): Params<Asked>,
) -> Result<Reply<Approvals>, ApiError> {
    let bad = |told: String| ApiError::new(Code::InvalidRequest, told);
    let pending = match asked.state.as_deref() {
        None | Some("pending") => true,
        Some("all") => false,
        Some(other) => {
            let told = format!("`state` is `pending` or `all`, and not `{}`", other.escape_debug());
            return Err(bad(told));
        }
    };
    let limit = asked.limit.unwrap_or(USUAL);
    if limit == 0 || limit > PAGE {
        return Err(bad(format!("`limit` is 1 to {PAGE}")));
    }
    let from = (asked.cursor.map(CallId), limit);
    let page = doors.parts.gateway.approvals(&principal, pending, from).await.map_err(told)?;
    Ok(Reply(Approvals { approvals: page.approvals, next_cursor: page.next }))
}

async fn one(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Result<Reply<Shown>, ApiError> {
    doors.parts.gateway.approval(&principal, read(&id)?).await.map(Reply).map_err(told)
}

async fn approve(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
    Body(body): Body<Approve>,
) -> Result<Reply<Shown>, ApiError> {
    let by = (&principal, Interface::Rest);
    let shown = doors.parts.gateway.approve(by, read(&id)?, body.arguments_sha256).await;
    shown.map(Reply).map_err(told)
}

async fn deny(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
    Body(body): Body<Deny>,
) -> Result<Reply<Shown>, ApiError> {
    let by = (&principal, Interface::Rest);
    let shown = doors.parts.gateway.deny(by, read(&id)?, body.reason.as_deref()).await;
    shown.map(Reply).map_err(told)
}

async fn edit(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
    Body(body): Body<Edit>,
) -> Result<Reply<Shown>, ApiError> {
    let (by, id) = ((&principal, Interface::Rest), read(&id)?);
    let gateway = &doors.parts.gateway;
    let edited = gateway.edit(by, id, body.arguments).await.map_err(told)?;
    if !body.approve {
        return Ok(Reply(edited));
    }
    let approved = gateway.approve(by, id, Some(edited.arguments_sha256)).await;
    approved.map(Reply).map_err(told)
}

/// Parses an approval id. Ids of other callers and malformed ids are reported alike, as not found.
fn read(id: &str) -> Result<CallId, ApiError> {
    id.parse::<Uuid>().map(CallId).map_err(|_| {
        let shown: String = id.chars().take(60).flat_map(char::escape_debug).collect();
        told(Failure::new(Code::NotFound, format!("no approval `{shown}`")))
    })
}

fn told(failure: Failure) -> ApiError {
    let fix = match failure.code {
        Code::NotFound => "`toolkeep approval list` shows those that you may see",
        Code::Forbidden => {
            "use the key of a person who has `--right approve` and did not make the call"
        }
        Code::Conflict => "look again: `toolkeep approval show ID`",
        _ => return ApiError::new(failure.code, failure.message),
    };
    ApiError::new(failure.code, failure.message).fix(fix)
}

/// Serves the approval page. The id must be a UUID, so that nothing else of the address enters the
/// page.
async fn page(Path(id): Path<String>) -> Result<Html<String>, ApiError> {
    let id = read(&id)?;
    Ok(Html(format!(
        "<!doctype html><meta charset=\"utf-8\"><title>Toolkeep: approval</title>\
         <h1>A call waits for your approval</h1>\
         <p>Look at what would run, and decide:</p>\
         <pre>toolkeep approval show {id}\ntoolkeep approval approve {id}\n\
         toolkeep approval deny {id} --reason \"…\"</pre>\
         <p>This page decides nothing, and knows nothing of the call.</p>"
    )))
}
