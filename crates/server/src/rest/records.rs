//! `/v1/records`: the record of the caller's organisation, for those with the right to read it.

use axum::extract::State;
use axum::routing::get;
use axum::{Extension, Json as Reply};
use identity::{Principal, Right};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::Code;
use tool::ledger::{Query, Record};

use super::body::Params;
use super::route::{Param, Route};
use crate::error::ApiError;
use crate::state::Doors;

/// The most records of one page, and how many where no limit is given.
const PAGE: usize = 1_000;
const USUAL: usize = 100;

const QUERY: &[Param] = &[
    Param {
        name: "limit",
        what: "records of one page, 1 to 1000; 100 where absent",
        kind: "integer",
    },
    Param { name: "cursor", what: "next_cursor of the page before", kind: "string" },
    Param { name: "tool", what: "only of this tool", kind: "string" },
];

pub(super) fn routes() -> Vec<Route> {
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
}

#[derive(Debug, Serialize, JsonSchema)]
struct RecordsReply {
    /// Frames: `seq`, `kind`, `call`, `body`.
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
    let limit = asked.limit.unwrap_or(USUAL);
    if limit == 0 || limit > PAGE {
        return Err(ApiError::new(Code::InvalidRequest, format!("`limit` is 1 to {PAGE}")));
    }
    let org = Some(principal.org().clone());
    let query = Query { tool: asked.tool, org, before: asked.cursor, limit };
    let page = doors.parts.records.list(query).await?;
    let next_cursor = page.next.map(|next| next.to_string());
    Ok(Reply(RecordsReply { records: page.records, next_cursor }))
}
