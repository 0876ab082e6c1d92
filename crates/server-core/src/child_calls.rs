//! The calls that a call made, such as those of a program, with their times.

use identity::{Principal, Right};
use schemars::JsonSchema;
use serde::Serialize;
use tool::call_outcome::CallStatus;
use tool::ledger::{RecordKind, RecordQuery};
use tool::{CallId, ErrorCode, IntentRecord, WallTime};

use crate::call_history::CallHistory;
use crate::error::ApiError;
use crate::server_state::ServerState;

/// Maximum number of calls of a list.
const MAX_CALLS: usize = 200;
/// Maximum number of pages of the record that are searched; the work of each is bounded.
const MAX_PAGES: usize = 4;

/// The calls that a call made, in the order in which they started.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ChildCallsReply {
    /// The calls, oldest first: at most 200, the newest ones.
    pub calls: Vec<ChildCallReply>,
    /// Whether these are all: the record is searched in bounded time.
    pub complete: bool,
}

/// A call that another call made.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ChildCallReply {
    /// ID of the call.
    #[schemars(with = "String")]
    pub call_id: CallId,
    /// Status of the call.
    #[schemars(with = "String")]
    pub status: CallStatus,
    /// Name of the tool.
    pub tool: String,
    /// Position among the calls of a program, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain_index: Option<u32>,
    /// Start time, RFC 3339.
    pub started: String,
    /// Milliseconds between the ID of the calling call and the start.
    pub offset_ms: u64,
    /// Duration in milliseconds, if the call has ended.
    pub elapsed_ms: Option<u64>,
    /// Error code, if the call failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub code: Option<ErrorCode>,
}

/// Lists the calls that `parent` made, as far as the principal may see them. A program that was not
/// started by a call has no record of its own, but its calls name it.
///
/// # Errors
/// Returns an error if the records cannot be read.
pub async fn list_child_calls(
    state: &ServerState,
    principal: &Principal,
    parent: CallId,
) -> Result<ChildCallsReply, ApiError> {
    let begun = started_at(parent);
    let sees_all = principal.has_right(Right::RecordsRead);
    let mut query = RecordQuery {
        org: Some(principal.org().clone()),
        caller: (!sees_all).then(|| principal.subject().to_owned()),
        parent: Some(parent),
        kind: Some(RecordKind::Intent),
        since: Some(begun),
        limit: MAX_CALLS,
        ..RecordQuery::default()
    };
    let (mut intents, mut complete) = (Vec::new(), false);
    for _ in 0..MAX_PAGES {
        let page = state.components.records.list_records(query.clone()).await?;
        intents.extend(page.records);
        complete = page.next_before.is_none();
        if complete || intents.len() >= MAX_CALLS {
            break;
        }
        query.before_sequence = page.next_before;
        query.limit = MAX_CALLS.saturating_sub(intents.len());
    }
    let mut calls = Vec::new();
    for record in intents.into_iter().rev() {
        let (Some(id), Ok(intent)) = (record.call_id, record.body.decode::<IntentRecord>()) else {
            continue;
        };
        calls.push(read_child(state, id, intent, begun).await?);
    }
    Ok(ChildCallsReply { calls, complete })
}

async fn read_child(
    state: &ServerState,
    id: CallId,
    intent: IntentRecord,
    begun: WallTime,
) -> Result<ChildCallReply, ApiError> {
    // Before the records are read, so that a call that ends meanwhile is found with its outcome.
    let is_running = state.components.records.is_running(id);
    let records = state.components.records.list_for_call(id).await?;
    let end = CallHistory::from_records(id, is_running, records).map(|history| history.reply);
    Ok(ChildCallReply {
        call_id: id,
        status: end.as_ref().map_or(CallStatus::Unknown, |end| end.status),
        tool: intent.tool_key.name.to_string(),
        chain_index: intent.chain_index,
        started: intent.recorded_at.to_string(),
        offset_ms: intent.recorded_at.0.saturating_sub(begun.0),
        elapsed_ms: end.as_ref().and_then(|end| end.elapsed_ms),
        code: end.and_then(|end| end.code),
    })
}

/// The time in the ID of a call, before which it made none.
fn started_at(call: CallId) -> WallTime {
    let (seconds, nanos) = call.0.get_timestamp().map_or((0, 0), |time| time.to_unix());
    WallTime(seconds.saturating_mul(1_000).saturating_add(u64::from(nanos / 1_000_000)))
}

#[cfg(test)]
mod tests {
    use tool::{CallId, WallTime};
    use uuid::{Builder, Uuid};

    use super::started_at;

    #[test]
    fn the_time_of_a_call_is_in_its_id() {
        let id = Builder::from_unix_timestamp_millis(1_700_000_000_123, &[7; 10]).into_uuid();
        assert_eq!(started_at(CallId(id)), WallTime(1_700_000_000_123));
        assert_eq!(started_at(CallId(Uuid::from_u128(7))), WallTime(0), "an ID without a time");
    }
}
