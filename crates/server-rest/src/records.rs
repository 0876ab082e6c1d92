//! `/v1/records`: the records of the caller's organization, for callers with the right to read
//! them.

use axum::extract::State;
use axum::routing::get;
use axum::{Extension, Json as Reply};
use identity::{Principal, Right};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::ledger::{Kind, Query, Record};
use tool::outcome::Status;
use tool::{CallId, Code, Wall};
use uuid::Uuid;

use server_core::body::Params;
use server_core::error::ApiError;
use server_core::route::{Param, Route};
use server_core::state::Doors;

/// Maximum and default number of records per page.
const PAGE: usize = 1_000;
const USUAL: usize = 100;
/// The record kinds that an organization can have.
const KINDS: &[Kind] = &[Kind::Intent, Kind::Wait, Kind::Outcome, Kind::Refused, Kind::Event];
/// The statuses that a record can contain.
const STATUSES: &[Status] = &[
    Status::Succeeded,
    Status::Failed,
    Status::Cancelled,
    Status::Abandoned,
    Status::Unknown,
    Status::Refused,
    Status::Waiting,
];

const QUERY: &[Param] = &[
    Param {
        name: "limit",
        what: "records of one page, 1 to 1000; 100 where absent",
        kind: "integer",
    },
    Param { name: "cursor", what: "next_cursor of the page before", kind: "string" },
    Param { name: "tool", what: "only of this tool", kind: "string" },
    Param { name: "call", what: "only of the call with this id", kind: "string" },
    Param {
        name: "caller",
        what: "only of calls of this subject, and events that it caused",
        kind: "string",
    },
    Param {
        name: "kind",
        what: "only of this kind: intent, wait, outcome, refused or event",
        kind: "string",
    },
    Param {
        name: "status",
        what: "only records that give this status: succeeded, failed, cancelled, abandoned, unknown (outcomes), refused \
               (refusals too, and waits that ended so) or waiting (waits)",
        kind: "string",
    },
    Param {
        name: "since",
        what: "only from this time on: RFC 3339, a day, or how long ago, such as 15m, 2h or 7d",
        kind: "string",
    },
    Param { name: "until", what: "only before this time, written in the same way", kind: "string" },
];

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::new("get", "/v1/records", "The record, newest first", get(list))
            .query(QUERY)
            .reply::<RecordsReply>(),
    ]
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
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
struct RecordsReply {
    /// Frames: `seq`, `kind`, `call`, `body`. Times are RFC 3339.
    #[schemars(with = "Vec<serde_json::Value>")]
    records: Vec<Record>,
    /// Give it as `cursor` for the next page; null after the last page. The work for one page is bounded, so a page can have fewer
    /// records than `limit`, or none, and not be the last one.
    next_cursor: Option<String>,
}

async fn list(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Params(asked): Params<Asked>,
) -> Result<Reply<RecordsReply>, ApiError> {
    if !principal.may(Right::RecordsRead) {
        return Err(ApiError::lacks(Right::RecordsRead));
    }
    let query = asked.query(&principal, doors.parts.clock.wall())?;
    let page = doors.parts.records.list(query).await?;
    let next_cursor = page.next.map(|next| next.to_string());
    let records = page.records.into_iter().map(Record::with_times).collect();
    Ok(Reply(RecordsReply { records, next_cursor }))
}

impl Asked {
    fn query(self, principal: &Principal, now: Wall) -> Result<Query, ApiError> {
        let limit = self.limit.unwrap_or(USUAL);
        if limit == 0 || limit > PAGE {
            return Err(bad(format!("`limit` is 1 to {PAGE}")));
        }
        let call = self.call.map(|id| {
            let told = format!("`call` is the id of a call, and not `{}`", shown(&id));
            id.parse::<Uuid>().map(CallId).map_err(|_| bad(told))
        });
        Ok(Query {
            tool: self.tool,
            org: Some(principal.org().clone()),
            caller: self.caller,
            call: call.transpose()?,
            kind: word("kind", self.kind, (KINDS, |kind| kind.as_str()))?,
            status: word("status", self.status, (STATUSES, |status| status.as_str()))?,
            since: self.since.map(|text| time("since", &text, now)).transpose()?,
            until: self.until.map(|text| time("until", &text, now)).transpose()?,
            before: self.cursor,
            limit,
        })
    }
}

/// Parses a keyword of a fixed list.
fn word<T: Copy>(
    name: &str,
    text: Option<String>,
    (known, as_str): (&[T], fn(&T) -> &'static str),
) -> Result<Option<T>, ApiError> {
    let Some(text) = text else { return Ok(None) };
    if let Some(found) = known.iter().find(|it| as_str(it) == text) {
        return Ok(Some(*found));
    }
    let words = known.iter().map(as_str).collect::<Vec<_>>().join(", ");
    Err(bad(format!("unknown `{name}`: `{}`; use one of {words}", shown(&text))))
}

/// Parses a time, or a duration before now.
fn time(name: &str, text: &str, now: Wall) -> Result<Wall, ApiError> {
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
        Some(Wall(now.0.saturating_sub(ms)))
    };
    // A decoded query contains a blank instead of a plus sign.
    let read = || text.trim().replace(' ', "+").parse().ok();
    ago().or_else(read).ok_or_else(|| {
        bad(format!("`{name}` is no time: `{}`", shown(text)))
            .fix("write it as `2026-11-24T15:00:00Z`, as a day, or as how long ago, such as `15m`, `2h` or `7d`")
    })
}

fn bad(message: String) -> ApiError {
    ApiError::new(Code::InvalidRequest, message)
}

fn shown(text: &str) -> String {
    text.chars().take(100).flat_map(char::escape_debug).collect()
}
