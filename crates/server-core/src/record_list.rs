//! Listing of records: the query of all interfaces, and the right that it needs.

use identity::{Principal, Right};
use serde::Deserialize;
use tool::call_outcome::CallStatus;
use tool::display_text::truncate_and_escape_debug;
use tool::ledger::{LedgerRecord, RecordKind, RecordQuery};
use tool::{CallId, ErrorCode, WallTime};
use uuid::Uuid;

use crate::error::ApiError;
use crate::query_string::check_limit;
use crate::server_state::ServerState;

/// Maximum and default number of records per page.
const MAX_PAGE_SIZE: usize = 1_000;
const DEFAULT_PAGE_SIZE: usize = 100;
/// Maximum characters of a parameter that an error quotes.
const MAX_QUOTED_CHARS: usize = 100;
/// The record kinds that an organization can have.
pub const KINDS: &[RecordKind] = &[
    RecordKind::Intent,
    RecordKind::ApprovalStep,
    RecordKind::Outcome,
    RecordKind::Refusal,
    RecordKind::AuditEvent,
];
/// The statuses that a record can contain.
pub const STATUSES: &[CallStatus] = &[
    CallStatus::Succeeded,
    CallStatus::Failed,
    CallStatus::Cancelled,
    CallStatus::Abandoned,
    CallStatus::Unknown,
    CallStatus::Refused,
    CallStatus::Pending,
];

/// The query of a list. Absent and empty fields match any record.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordListQuery {
    /// Number of records per page.
    pub limit: Option<usize>,
    /// Sequence number before which the page ends.
    pub cursor: Option<u64>,
    /// Only of this tool.
    pub tool: Option<String>,
    /// Only of this call.
    pub call: Option<String>,
    /// Only of this subject's calls, and events that it caused.
    pub caller: Option<String>,
    /// Only intents of calls that this call made.
    pub parent: Option<String>,
    /// Only of this kind.
    pub kind: Option<String>,
    /// Only with this status.
    pub status: Option<String>,
    /// Only since this time.
    pub since: Option<String>,
    /// Only before this time.
    pub until: Option<String>,
}

/// A page of records, newest first, with formatted times.
#[derive(Debug)]
pub struct RecordListPage {
    /// The records.
    pub records: Vec<LedgerRecord>,
    /// Cursor of the next page; `None` on the last one.
    pub next_cursor: Option<String>,
}

/// Lists records of the principal's organization.
///
/// # Errors
/// [`ErrorCode::Forbidden`] without the right to read records; an error for an invalid query, or if
/// the records cannot be read.
pub async fn list_records(
    state: &ServerState,
    principal: &Principal,
    query: RecordListQuery,
) -> Result<RecordListPage, ApiError> {
    if !principal.has_right(Right::RecordsRead) {
        return Err(ApiError::missing_right(Right::RecordsRead));
    }
    let query = query.into_record_query(principal, state.components.clock.wall_now())?;
    let page = state.components.records.list_records(query).await?;
    let next_cursor = page.next_before.map(|next| next.to_string());
    let records = page.records.into_iter().map(LedgerRecord::with_formatted_times).collect();
    Ok(RecordListPage { records, next_cursor })
}

impl RecordListQuery {
    fn into_record_query(
        self,
        principal: &Principal,
        now: WallTime,
    ) -> Result<RecordQuery, ApiError> {
        let limit = check_limit(self.limit, DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)?;
        Ok(RecordQuery {
            tool: self.tool,
            org: Some(principal.org().clone()),
            caller: self.caller,
            call: parse_call_id("call", self.call)?,
            parent: parse_call_id("parent", self.parent)?,
            kind: parse_keyword("kind", self.kind, (KINDS, |kind| kind.as_str()))?,
            status: parse_keyword("status", self.status, (STATUSES, |status| status.as_str()))?,
            since: self.since.map(|text| parse_time("since", &text, now)).transpose()?,
            until: self.until.map(|text| parse_time("until", &text, now)).transpose()?,
            before_sequence: self.cursor,
            limit,
        })
    }
}

fn parse_call_id(name: &str, text: Option<String>) -> Result<Option<CallId>, ApiError> {
    let Some(id) = text else { return Ok(None) };
    let message = || format!("`{name}` must be the ID of a call, not `{}`", escape_input(&id));
    id.parse::<Uuid>().map(|id| Some(CallId(id))).map_err(|_| invalid_request(message()))
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
