//! Export of records as JSON lines: the same records and the same right as the list.

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::stream;
use identity::Principal;
use serde_json::json;
use tool::ErrorCode;
use tool::ledger::LedgerRecord;

use crate::error::ApiError;
use crate::record_list::{RecordListPage, RecordListQuery, list_records};
use crate::server_state::ServerState;

/// Maximum number of records of one export.
const MAX_RECORDS: usize = 100_000;
/// Number of records that are read at a time.
const CHUNK_RECORDS: usize = 1_000;

/// An export that goes on.
struct RecordExport {
    state: ServerState,
    principal: Principal,
    query: RecordListQuery,
    /// Page that was read already.
    page: Option<RecordListPage>,
    record_count: usize,
}

/// Returns matching records as JSON lines, newest first, as a download. At most 100,000; the last line of
/// a longer one is `{"next_cursor": …}`, with which the next export begins. It breaks off once the
/// credential is revoked.
///
/// # Errors
/// As [`list_records`], for the first records.
pub async fn export_records(
    state: &ServerState,
    principal: &Principal,
    query: RecordListQuery,
) -> Result<Response, ApiError> {
    let query = RecordListQuery { limit: Some(CHUNK_RECORDS), ..query };
    let page = list_records(state, principal, query.clone()).await?;
    let export = RecordExport {
        state: state.clone(),
        principal: principal.clone(),
        query,
        page: Some(page),
        record_count: 0,
    };
    let chunks = stream::unfold(Some(export), |export| async move {
        let mut export = export?;
        match export.next_chunk().await {
            Ok((chunk, is_last)) => Some((Ok(chunk), (!is_last).then_some(export))),
            // The client sees a body that breaks off.
            Err(error) => Some((Err(std::io::Error::other(error.message().to_owned())), None)),
        }
    });
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/jsonl")),
        (
            header::CONTENT_DISPOSITION,
            HeaderValue::from_static("attachment; filename=\"toolkeep-records.jsonl\""),
        ),
    ];
    Ok((headers, Body::from_stream(chunks)).into_response())
}

impl RecordExport {
    /// Returns the principal as it is now: an export takes longer than a request.
    fn current_principal(&self) -> Result<Principal, ApiError> {
        let components = &self.state.components;
        let now = components.clock.wall_now();
        let ended =
            || ApiError::new(ErrorCode::Unauthenticated, "the credential is no longer valid");
        components.keys.current_principal(&self.principal, now).ok_or_else(ended)
    }

    /// Returns the lines of the next records, and whether they are the last.
    async fn next_chunk(&mut self) -> Result<(Bytes, bool), ApiError> {
        let principal = self.current_principal()?;
        let page = match self.page.take() {
            Some(page) => page,
            None => list_records(&self.state, &principal, self.query.clone()).await?,
        };
        let mut lines = Vec::new();
        for record in &page.records {
            push_line(&mut lines, record)?;
        }
        self.record_count += page.records.len();
        let Some(next) = page.next_cursor else { return Ok((Bytes::from(lines), true)) };
        if self.record_count >= MAX_RECORDS {
            lines.extend_from_slice(json!({ "next_cursor": next }).to_string().as_bytes());
            lines.push(b'\n');
            return Ok((Bytes::from(lines), true));
        }
        self.query.cursor = next.parse().ok();
        Ok((Bytes::from(lines), false))
    }
}

fn push_line(lines: &mut Vec<u8>, record: &LedgerRecord) -> Result<(), ApiError> {
    let text = serde_json::to_string(record).map_err(|error| {
        ApiError::new(ErrorCode::Internal, format!("a record cannot be encoded: {error}"))
    })?;
    // As in every reply: what is invisible is written as an escape of JSON.
    let text = json::escape_invisible_as_json(&text).unwrap_or(text);
    lines.extend_from_slice(text.as_bytes());
    lines.push(b'\n');
    Ok(())
}
