//! Stored form of an approval: its call, caller, state and result.

use bytes::Bytes;
use identity::{Principal, RequestRestrictions};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tool::call_outcome::{CallFailure, CallResponse, CallStatus, Outcome, OutcomeBody};
use tool::ledger::StepCaller;
use tool::{
    CallId, Caller, CallerType, Digest, ErrorCode, ExecutionState, Interface, Json,
    PermissionLevel, ToolKey, WallTime, executor::ApprovalRequest, executor::PendingReason,
};

use super::{ApprovalScope, ApprovalState};
use crate::{CallRequest, CallTarget, ModelCall};

/// Store prefix of all approvals.
pub(crate) const APPROVAL_PREFIX: &str = "wait/";
/// Maximum size in bytes of a result that is stored for its caller.
const MAX_STORED_RESULT_BYTES: usize = 256 << 10;

/// Returns the store key of an approval.
pub(crate) fn store_key(id: CallId) -> String {
    format!("{APPROVAL_PREFIX}{id}")
}

/// Everything to which a pending call is bound, and its state.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoredApproval {
    pub(crate) id: CallId,
    pub(crate) state: ApprovalState,
    pub(crate) caller: Caller,
    /// Restrictions that the caller set for the request.
    #[serde(rename = "narrowed")]
    pub(crate) restrictions: RequestRestrictions,
    pub(crate) caller_type: CallerType,
    #[serde(rename = "door")]
    pub(crate) interface: Interface,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "parent")]
    pub(crate) parent_id: Option<CallId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) chain_index: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timeout_ms: Option<u64>,
    #[serde(rename = "tool")]
    pub(crate) tool_key: ToolKey,
    #[serde(rename = "definition")]
    pub(crate) definition_digest: Digest,
    #[serde(rename = "policy")]
    pub(crate) policy_digest: Digest,
    /// Why the policy requires an approval.
    pub(crate) reason: StoredReason,
    /// All reasons for the approval, which a person approves. It covers no other reason.
    #[serde(default)]
    #[serde(rename = "holds")]
    pub(crate) approval_reasons: Vec<String>,
    /// Minimum level to call the tool, and so to approve it.
    #[serde(rename = "level")]
    pub(crate) min_level: PermissionLevel,
    #[serde(rename = "effects")]
    pub(crate) side_effects: Vec<String>,
    /// Validated arguments that will run.
    #[serde(rename = "args")]
    pub(crate) arguments: Json,
    /// SHA-256 of their canonical form.
    #[serde(rename = "hash")]
    pub(crate) arguments_digest: Digest,
    #[serde(rename = "created")]
    pub(crate) created_at: WallTime,
    #[serde(rename = "expires")]
    pub(crate) expires_at: WallTime,
    /// Number of edits by a person.
    #[serde(rename = "edits")]
    pub(crate) edit_count: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) decision: Option<StoredDecision>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "end")]
    pub(crate) call_result: Option<StoredResult>,
    /// Names of the call in the model's message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model_call: Option<ModelCall>,
}

/// Reason for an approval, stored as an array of code and text.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(from = "(String, String)", into = "(String, String)")]
pub(crate) struct StoredReason {
    /// Code of the policy.
    pub(crate) code: String,
    /// Text for a person.
    pub(crate) text: String,
}

impl From<(String, String)> for StoredReason {
    fn from((code, text): (String, String)) -> Self {
        Self { code, text }
    }
}

impl From<StoredReason> for (String, String) {
    fn from(reason: StoredReason) -> Self {
        (reason.code, reason.text)
    }
}

/// Request of a pending call, as its caller made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingRequest {
    /// Key of the called tool.
    pub tool_key: ToolKey,
    /// Arguments that will run: an approver may have edited them.
    pub arguments: Json,
    /// Names of the call in the model's message, if it came in one.
    pub model_call: Option<ModelCall>,
}

/// Decision on an approval.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoredDecision {
    #[serde(rename = "by")]
    pub(crate) decided_by: Caller,
    #[serde(rename = "door")]
    pub(crate) interface: Interface,
    #[serde(rename = "at")]
    pub(crate) decided_at: WallTime,
    /// Comment of a denial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "told")]
    pub(crate) comment: Option<String>,
}

impl StoredDecision {
    /// Returns who decided, as the record has it.
    pub(crate) fn step_caller(&self) -> StepCaller {
        StepCaller { caller: self.decided_by.clone(), interface: self.interface }
    }
}

/// Stored result of an approved call.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoredResult {
    #[serde(rename = "at")]
    pub(crate) ended_at: WallTime,
    pub(crate) status: CallStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<(ErrorCode, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "answer")]
    pub(crate) outcome: Option<StoredOutcome>,
    pub(crate) elapsed_ms: u64,
}

/// Stored outcome of a tool.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoredOutcome {
    /// True if it is an MCP result.
    #[serde(rename = "mcp")]
    is_mcp: bool,
    is_error: bool,
    body: Json,
}

impl StoredApproval {
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }

    pub(crate) fn encode(&self) -> Bytes {
        Json::encode(self).bytes().clone()
    }

    /// Returns the fingerprint of tool and arguments.
    pub(crate) fn call_fingerprint(&self) -> Digest {
        call_fingerprint(&self.tool_key, self.arguments_digest)
    }

    /// Returns true if the approval belongs to this caller, with any of its credentials.
    pub(crate) fn belongs_to(&self, caller: &Caller) -> bool {
        self.caller.has_credential_of(caller)
    }

    /// Returns the facts that decide who sees the call.
    pub(crate) fn scope(&self) -> ApprovalScope {
        ApprovalScope {
            caller: self.caller.clone(),
            tool_key: self.tool_key.clone(),
            caller_type: self.caller_type,
        }
    }

    /// Restricts the caller to the rights that it had when it called.
    pub(crate) fn restrict_principal(&self, now: &Principal) -> Principal {
        now.with_max_level(self.caller.level).with_restrictions(&self.restrictions)
    }

    /// Returns the stored call as a request, to be evaluated again.
    pub(crate) fn to_request(&self) -> CallRequest {
        let (source, name) = (self.tool_key.source.to_string(), self.tool_key.name.to_string());
        let args = self.arguments.bytes().clone();
        let mut request =
            CallRequest::for_target(CallTarget::SourceTool { source, name }, args, self.interface);
        request.caller_type = self.caller_type;
        request.parent_id = self.parent_id;
        request.chain_index = self.chain_index;
        request.timeout = self.timeout_ms.map(std::time::Duration::from_millis);
        request
    }

    /// Stores the result; a result that is too large reaches current waiters only.
    pub(crate) fn set_result(
        &mut self,
        state: ApprovalState,
        ended_at: WallTime,
        answer: &CallResponse,
    ) {
        let answered = match &answer.result {
            Ok(ExecutionState::Completed(outcome))
                if outcome.size_bytes() <= MAX_STORED_RESULT_BYTES =>
            {
                let (mcp, body) = match &outcome.body {
                    OutcomeBody::Value(json) => (false, json.clone()),
                    OutcomeBody::Mcp(json) => (true, json.clone()),
                };
                Some(StoredOutcome { is_mcp: mcp, is_error: outcome.is_error, body })
            }
            _ => None,
        };
        let failure = match &answer.result {
            Err(failure) => Some((failure.code, failure.message.clone())),
            Ok(_) => None,
        };
        self.state = state;
        self.call_result = Some(StoredResult {
            ended_at,
            status: answer.status,
            failure,
            outcome: answered,
            elapsed_ms: answer.elapsed_ms,
        });
    }

    /// Returns the current response for its caller.
    pub(crate) fn to_response(&self, is_running_here: bool) -> CallResponse {
        let elapsed_ms = self.call_result.as_ref().map_or(0, |end| end.elapsed_ms);
        let (status, result) = match (&self.state, &self.call_result) {
            (ApprovalState::Pending | ApprovalState::Approved, _) => {
                (CallStatus::Pending, Ok(self.to_pending_state()))
            }
            (ApprovalState::Consumed, _) if is_running_here => {
                (CallStatus::Running, Ok(self.to_pending_state()))
            }
            (ApprovalState::Consumed, _) => (CallStatus::Unknown, Err(unknown_outcome())),
            (_, Some(end)) => (end.status, end.to_result()),
            (_, None) => (CallStatus::Refused, Err(unknown_outcome())),
        };
        CallResponse { call_id: self.id, status, result, elapsed_ms }
    }

    pub(crate) fn to_pending_state(&self) -> ExecutionState {
        ExecutionState::Pending(PendingReason::Approval(ApprovalRequest {
            reason: self.reason.text.clone(),
            expires_at: self.expires_at,
            effects: self.side_effects.clone(),
            is_approved: self.state != ApprovalState::Pending,
            is_from_agent: self.caller.is_agent,
        }))
    }
}

impl StoredResult {
    fn to_result(&self) -> Result<ExecutionState, CallFailure> {
        if let Some((code, message)) = &self.failure {
            return Err(CallFailure::new(*code, message.clone()));
        }
        let Some(answered) = &self.outcome else {
            let told = "the call ran, but its result was too large to store";
            return Err(CallFailure::new(ErrorCode::TooLarge, told));
        };
        let body = answered.body.clone();
        let body = if answered.is_mcp { OutcomeBody::Mcp(body) } else { OutcomeBody::Value(body) };
        Ok(ExecutionState::Completed(Outcome { body, is_error: answered.is_error }))
    }
}

/// Returns the fingerprint of tool and arguments. The tool counts by its key: another source may
/// have one of its name.
pub(crate) fn call_fingerprint(tool: &ToolKey, args: Digest) -> Digest {
    let mut hash = Sha256::new();
    hash.update(args.0);
    hash.update(tool.to_string());
    Digest(hash.finalize().into())
}

fn unknown_outcome() -> CallFailure {
    let told = "the server stopped during the call: its effect is unknown, and it is not retried";
    CallFailure::new(ErrorCode::Internal, told)
}
