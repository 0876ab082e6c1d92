//! `/v1/records`: the records of the caller's organization, for callers with the right to read
//! them.

use axum::extract::State;
use axum::routing::get;
use axum::{Extension, Json as Reply};
use identity::{Principal, Right};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::call_outcome::CallStatus;
use tool::display_text::truncate_and_escape_debug;
use tool::ledger::{LedgerRecord, RecordKind, RecordQuery};
use tool::{CallId, ErrorCode, WallTime};
use uuid::Uuid;

use super::authorization_checks::require_right;
use super::page_query::check_limit;
use server_core::body::QueryParams;
use server_core::error::ApiError;
use server_core::route::{ApiRoute, QueryParam};
use server_core::server_state::ServerState;

/// Maximum and default number of records per page.
const MAX_PAGE_SIZE: usize = 1_000;
const DEFAULT_PAGE_SIZE: usize = 100;
/// Maximum characters of a parameter that an error quotes.
const MAX_QUOTED_CHARS: usize = 100;
/// The record kinds that an organization can have.
const KINDS: &[RecordKind] = &[
    RecordKind::Intent,
    RecordKind::ApprovalStep,
    RecordKind::Outcome,
    RecordKind::Refusal,
    RecordKind::AuditEvent,
];
/// The statuses that a record can contain.
const STATUSES: &[CallStatus] = &[
    CallStatus::Succeeded,
    CallStatus::Failed,
    CallStatus::Cancelled,
    CallStatus::Abandoned,
    CallStatus::Unknown,
    CallStatus::Refused,
    CallStatus::Pending,
];

const LIST_QUERY: &[QueryParam] = &[
    QueryParam {
        name: "limit",
        description: "number of records per page, 1 to 1000; default 100",
        schema_type: "integer",
    },
    QueryParam {
        name: "cursor",
        description: "next_cursor of the previous page",
        schema_type: "string",
    },
    QueryParam { name: "tool", description: "only records of this tool", schema_type: "string" },
    QueryParam { name: "call", description: "only records of this call", schema_type: "string" },
    QueryParam {
        name: "caller",
        description: "only records of this subject's calls, and events that it caused",
        schema_type: "string",
    },
    QueryParam {
        name: "kind",
        description: "only records of this kind: intent, wait, outcome, refused or event",
        schema_type: "string",
    },
    QueryParam {
        name: "status",
        description: "only records with this status: succeeded, failed, cancelled, abandoned, unknown \
               (outcomes), refused (also refusals and waits that ended so) or waiting (waits)",
        schema_type: "string",
    },
    QueryParam {
        name: "since",
        description: "only records since this time: RFC 3339, a date, or an age such as 15m, 2h or 7d",
        schema_type: "string",
    },
    QueryParam {
        name: "until",
        description: "only records before this time, in the same format",
        schema_type: "string",
    },
];

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::new("get", "/v1/records", "List records, newest first", get(list_records))
            .with_query(LIST_QUERY)
            .with_reply::<RecordListReply>(),
    ]
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordListQuery {
    limit: Option<usize>,
    cursor: Option<u64>,
    tool: Option<String>,
    call: Option<String>,
    caller: Option<String>,
    kind: Option<String>,
    status: Option<String>,
    since: Option<String>,
    until: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct RecordListReply {
    /// Records with `seq`, `kind`, `call` and `body`. Times are in RFC 3339 format.
    #[schemars(with = "Vec<serde_json::Value>")]
    records: Vec<LedgerRecord>,
    /// Cursor of the next page; null on the last page. The work per page is limited, so a page may
    /// have fewer records than `limit`, or none, without being the last one.
    next_cursor: Option<String>,
}

async fn list_records(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    QueryParams(list_query): QueryParams<RecordListQuery>,
) -> Result<Reply<RecordListReply>, ApiError> {
    require_right(&principal, Right::RecordsRead)?;
    let query = list_query.into_record_query(&principal, state.components.clock.wall_now())?;
    let page = state.components.records.list_records(query).await?;
    let next_cursor = page.next_before.map(|next| next.to_string());
    let records = page.records.into_iter().map(LedgerRecord::with_formatted_times).collect();
    Ok(Reply(RecordListReply { records, next_cursor }))
}

impl RecordListQuery {
    fn into_record_query(
        self,
        principal: &Principal,
        now: WallTime,
    ) -> Result<RecordQuery, ApiError> {
        let limit = check_limit(self.limit, DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)?;
        let call = self.call.map(|id| {
            let message = format!("`call` must be the ID of a call, not `{}`", escape_input(&id));
            id.parse::<Uuid>().map(CallId).map_err(|_| invalid_request(message))
        });
        Ok(RecordQuery {
            tool: self.tool,
            org: Some(principal.org().clone()),
            caller: self.caller,
            call: call.transpose()?,
            kind: parse_keyword("kind", self.kind, (KINDS, |kind| kind.as_str()))?,
            status: parse_keyword("status", self.status, (STATUSES, |status| status.as_str()))?,
            since: self.since.map(|text| parse_time("since", &text, now)).transpose()?,
            until: self.until.map(|text| parse_time("until", &text, now)).transpose()?,
            before_sequence: self.cursor,
            limit,
        })
    }
}

/// Parses a keyword of a fixed list.
fn parse_keyword<T: Copy>(
    name: &str,
    text: Option<String>,
    (known, as_str): (&[T], fn(&T) -> &'static str),
) -> Result<Option<T>, ApiError> {
    let Some(text) = text else { return Ok(None) };
    if let Some(found) = known.iter().find(|it| as_str(it) == text) {
        return Ok(Some(*found));
    }
    let words = known.iter().map(as_str).collect::<Vec<_>>().join(", ");
    Err(invalid_request(format!("unknown `{name}`: `{}`; use one of {words}", escape_input(&text))))
}

/// Parses a time, or a duration before now.
fn parse_time(name: &str, text: &str, now: WallTime) -> Result<WallTime, ApiError> {
    let ago = || {
        let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3_600,
            "d" => 86_400,
            _ => return None,
        };
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        let ms = number.parse::<u64>().ok().filter(|_| is_number)?.checked_mul(seconds * 1_000)?;
        Some(WallTime(now.0.saturating_sub(ms)))
    };
    // A decoded query contains a blank instead of a plus sign.
    let read = || text.trim().replace(' ', "+").parse().ok();
    ago().or_else(read).ok_or_else(|| {
        invalid_request(format!("invalid time in `{name}`: `{}`", escape_input(text))).with_help(
            "write it as `2026-11-24T15:00:00Z`, a date, or an age such as `15m`, `2h` \
                or `7d`",
        )
    })
}

fn invalid_request(message: String) -> ApiError {
    ApiError::new(ErrorCode::InvalidRequest, message)
}

fn escape_input(text: &str) -> String {
    truncate_and_escape_debug(text, MAX_QUOTED_CHARS)
}
