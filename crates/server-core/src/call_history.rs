//! The history of a call: its status and records, from the ledger and its pending approval.

use gateway::ApprovalDetails;
use identity::{Principal, Right};
use schemars::JsonSchema;
use serde::Serialize;
use tool::call_outcome::CallStatus;
use tool::ledger::{ApprovalStep, ApprovalStepRecord, LedgerRecord, RecordKind, derive_status};
use tool::{
    CallId, Caller, ErrorCode, ExecutionState, IntentRecord, Json, Org, OutcomeRecord,
    RefusalRecord,
};

use crate::call_result::to_plain_result;
use crate::error::ApiError;
use crate::server_state::ServerState;

/// The state of a recorded call.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CallStatusReply {
    /// ID of the call.
    #[schemars(with = "String")]
    pub call_id: CallId,
    /// Status of the call.
    #[schemars(with = "String")]
    pub status: CallStatus,
    /// ID of the call that made it, such as that of a program.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub parent: Option<CallId>,
    /// Name of the tool.
    pub tool: Option<String>,
    /// Source of the tool.
    pub source: Option<String>,
    /// Start time, RFC 3339.
    pub started: Option<String>,
    /// Duration in milliseconds, if the call has ended.
    pub elapsed_ms: Option<u64>,
    /// Error code, if the call was refused or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub code: Option<ErrorCode>,
    /// State of the approval, if the call needs one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub approval: Option<ApprovalDetails>,
    /// Result of a call that needed approval, for its caller, as long as it is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub result: Option<Json>,
    /// All records of the call.
    #[schemars(with = "Vec<serde_json::Value>")]
    pub records: Vec<LedgerRecord>,
}

/// Returns the state of a recorded call; `None` if there is none, or none that this principal may
/// see.
///
/// # Errors
/// Returns an error if the records cannot be read.
pub async fn find_call(
    server_state: &ServerState,
    principal: &Principal,
    call: CallId,
) -> Result<Option<CallStatusReply>, ApiError> {
    // Checked before the records are read, so that a call that ends meanwhile is found with its
    // outcome.
    let is_running = server_state.components.records.is_running(call);
    let records = server_state.components.records.list_for_call(call).await?;
    let Some(history) = CallHistory::from_records(call, is_running, records) else {
        return Ok(None);
    };
    if !history.caller.is_some_and(|caller| caller.is_visible_to(principal)) {
        return Ok(None);
    }
    Ok(Some(history.reply.with_pending_call(server_state, principal).await))
}

impl CallStatusReply {
    /// Adds the state of the call's approval, if it had one.
    async fn with_pending_call(mut self, state: &ServerState, principal: &Principal) -> Self {
        let held = self.records.iter().any(|record| record.kind == RecordKind::ApprovalStep);
        if !held {
            return self;
        }
        let gateway = &state.components.gateway;
        self.approval = gateway.get_approval(principal, self.call_id).await.ok();
        if let Ok(answer) = gateway.approval_result(principal, self.call_id).await {
            // The approval was consumed, and the process ended before the intent was recorded.
            if answer.status == CallStatus::Unknown && self.status == CallStatus::Pending {
                self.status = CallStatus::Unknown;
            }
            if let Ok(ExecutionState::Completed(outcome)) = answer.result {
                self.result = Some(to_plain_result(outcome).0);
            }
        }
        self
    }
}

/// The caller of a recorded call.
struct RecordedCaller {
    org: Org,
    subject: String,
    key_id: String,
}

impl RecordedCaller {
    fn is_visible_to(&self, principal: &Principal) -> bool {
        self.org == *principal.org()
            && (principal.has_right(Right::RecordsRead) || self.subject == principal.subject())
            // Other keys of the subject call tools that a toolset leaves out.
            && (principal.rights_class().restrictions().toolsets.is_empty()
                || self.key_id == principal.key_id())
    }
}

impl From<Caller> for RecordedCaller {
    fn from(Caller { org, subject, key_id, .. }: Caller) -> Self {
        Self { org, subject, key_id }
    }
}

/// The facts that the records of a call state.
pub(crate) struct CallHistory {
    caller: Option<RecordedCaller>,
    pub(crate) reply: CallStatusReply,
}

impl CallHistory {
    /// Reads all records of a call; `None` if there are none.
    pub(crate) fn from_records(
        call_id: CallId,
        is_running: bool,
        records: Vec<LedgerRecord>,
    ) -> Option<Self> {
        let status = derive_status(&records, is_running)?;
        Some(read_records(call_id, status, records))
    }
}

fn read_records(call_id: CallId, status: CallStatus, records: Vec<LedgerRecord>) -> CallHistory {
    let mut shown = CallStatusReply {
        call_id,
        status,
        parent: None,
        tool: None,
        source: None,
        started: None,
        elapsed_ms: None,
        code: None,
        approval: None,
        result: None,
        records: Vec::new(),
    };
    let mut caller = None;
    for record in &records {
        match record.kind {
            RecordKind::Intent => {
                let Ok(intent) = record.body.decode::<IntentRecord>() else { continue };
                shown.tool = Some(intent.tool_key.name.to_string());
                shown.source = Some(intent.tool_key.source.to_string());
                shown.started = Some(intent.recorded_at.to_string());
                shown.parent = intent.parent_id;
                caller = Some(intent.caller.into());
            }
            RecordKind::Outcome => {
                let Ok(end) = record.body.decode::<OutcomeRecord>() else { continue };
                shown.code = end.code;
                shown.elapsed_ms = Some(end.elapsed_ms);
            }
            RecordKind::Refusal => {
                let Ok(refusal) = record.body.decode::<RefusalRecord>() else { continue };
                shown.code = Some(refusal.code);
                shown.tool = Some(refusal.tool_name);
                shown.started = Some(refusal.recorded_at.to_string());
                caller = Some(refusal.caller.into());
            }
            RecordKind::ApprovalStep => {
                let Ok(waited) = record.body.decode::<ApprovalStepRecord>() else { continue };
                if waited.step == ApprovalStep::Requested {
                    shown.started = Some(waited.recorded_at.to_string());
                }
                shown.tool = Some(waited.tool_key.name.to_string());
                shown.source = Some(waited.tool_key.source.to_string());
                caller = Some(waited.caller.into());
            }
            RecordKind::Checkpoint
            | RecordKind::Tombstone
            | RecordKind::Gap
            | RecordKind::AuditEvent => {}
        }
    }
    shown.records = records.into_iter().map(LedgerRecord::with_formatted_times).collect();
    CallHistory { caller, reply: shown }
}
