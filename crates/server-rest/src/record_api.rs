//! `/v1/records`: the records of the caller's organization, for callers with the right to read
//! them.

use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Json as Reply};
use identity::Principal;
use schemars::JsonSchema;
use serde::Serialize;
use tool::ledger::LedgerRecord;

use server_core::body::QueryParams;
use server_core::error::ApiError;
use server_core::record_export;
use server_core::record_list::{self, RecordListQuery};
use server_core::record_storage::{self, RecordStorageReply};
use server_core::record_verification::{self, VerificationReply};
use server_core::route::{ApiRoute, QueryParam};
use server_core::server_state::ServerState;

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
        name: "parent",
        description: "only intents of the calls that this call made",
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
        ApiRoute::new(
            "get",
            "/v1/records/storage",
            "Show what the record stores, and its last checkpoint",
            get(show_storage),
        )
        .with_reply::<RecordStorageReply>(),
        ApiRoute::new(
            "get",
            "/v1/records/export",
            "Export records as JSON lines, newest first, at most 100,000",
            get(export_records),
        )
        .with_query(LIST_QUERY),
        ApiRoute::new(
            "get",
            "/v1/records/verification",
            "Show the last verification of the record",
            get(show_verification),
        )
        .with_reply::<VerificationReply>(),
        ApiRoute::new(
            "post",
            "/v1/records/verification",
            "Verify the whole record in the background",
            post(start_verification),
        )
        .with_reply::<VerificationReply>(),
    ]
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

async fn show_storage(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
) -> Result<Reply<RecordStorageReply>, ApiError> {
    record_storage::show_storage(&state, &principal).await.map(Reply)
}

async fn list_records(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    QueryParams(list_query): QueryParams<RecordListQuery>,
) -> Result<Reply<RecordListReply>, ApiError> {
    let page = record_list::list_records(&state, &principal, list_query).await?;
    Ok(Reply(RecordListReply { records: page.records, next_cursor: page.next_cursor }))
}

async fn export_records(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
    QueryParams(list_query): QueryParams<RecordListQuery>,
) -> Result<Response, ApiError> {
    record_export::export_records(&state, &principal, list_query).await
}

async fn show_verification(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
) -> Result<Reply<VerificationReply>, ApiError> {
    record_verification::show_verification(&state, &principal).map(Reply)
}

async fn start_verification(
    State(state): State<ServerState>,
    Extension(principal): Extension<Principal>,
) -> Result<Reply<VerificationReply>, ApiError> {
    record_verification::start_verification(&state, &principal).map(Reply)
}
