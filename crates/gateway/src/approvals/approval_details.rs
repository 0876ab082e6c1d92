//! Details of an approval, as the interfaces return them.

use serde::{Deserialize, Serialize};
use tool::call_outcome::CallStatus;
use tool::{CallId, Digest, ErrorCode, Interface, Json, PermissionLevel, WallTime};

use super::stored_approval::StoredApproval;
use crate::sanitizer;

/// States of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalState {
    /// Nobody has decided yet.
    Pending,
    /// The call was approved and has not started.
    Approved,
    /// The call was denied.
    Denied,
    /// Nobody decided in time.
    Expired,
    /// The approved call no longer matched the current state when it was to run.
    Void,
    /// The call has started; its approval is consumed.
    Consumed,
    /// The call has ended.
    Done,
}

impl ApprovalState {
    /// Returns the word as it is serialised.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Void => "void",
            Self::Consumed => "consumed",
            Self::Done => "done",
        }
    }
}

/// A pending call with everything that a person needs to decide, invisible characters escaped.
#[derive(Debug, Clone, Serialize)]
pub struct ApprovalDetails {
    /// Id of the call and of its approval.
    pub id: CallId,
    /// State of the approval.
    pub state: ApprovalState,
    /// Name of the tool.
    pub tool: String,
    /// Name of its source.
    pub source: String,
    /// Reason code of the approval.
    pub reason: String,
    /// Reason, as a message for people.
    #[serde(rename = "why")]
    pub reason_text: String,
    /// Reasons for the approval: reason codes, and rules by name and hash. An approval covers these
    /// only.
    #[serde(rename = "holds")]
    pub approval_reasons: Vec<String>,
    /// Caller that requests the approval.
    #[serde(rename = "asked_by")]
    pub requester: ApprovalRequester,
    /// Interface by which it arrived.
    #[serde(rename = "door")]
    pub interface: Interface,
    /// Arguments that will run.
    pub arguments: Json,
    /// SHA-256 of the arguments in the form of RFC 8785.
    pub arguments_sha256: Digest,
    /// Number of edits by a person.
    #[serde(rename = "edits")]
    pub edit_count: u32,
    /// Side effects of the tool: the declared ones, or `unknown`.
    pub side_effects: Vec<String>,
    /// Minimum level to approve it.
    #[serde(rename = "level")]
    pub min_level: PermissionLevel,
    /// Digest of the tool's definition.
    #[serde(rename = "definition")]
    pub definition_digest: Digest,
    /// Digest of the policy that requires the approval.
    #[serde(rename = "policy")]
    pub policy_digest: Digest,
    /// Time of the request.
    #[serde(serialize_with = "serialize_time")]
    #[serde(rename = "created")]
    pub created_at: WallTime,
    /// Time at which it expires.
    #[serde(serialize_with = "serialize_time")]
    #[serde(rename = "expires")]
    pub expires_at: WallTime,
    /// Decision, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "decided")]
    pub decision: Option<ApprovalDecision>,
    /// Result of the call, if it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "ended")]
    pub call_result: Option<ApprovedCallResult>,
}

/// Caller that requests an approval.
#[derive(Debug, Clone, Serialize)]
pub struct ApprovalRequester {
    /// User, as the key names it.
    pub subject: String,
    /// Id of the key.
    #[serde(rename = "key")]
    pub key_id: String,
    /// Permission level of the caller.
    pub level: PermissionLevel,
    /// True if the key belongs to an agent.
    #[serde(rename = "agent")]
    pub is_agent: bool,
}

/// Decision of a person.
#[derive(Debug, Clone, Serialize)]
pub struct ApprovalDecision {
    /// The user who decided.
    pub subject: String,
    /// Id of the key.
    #[serde(rename = "key")]
    pub key_id: String,
    /// Interface of the decision.
    #[serde(rename = "door")]
    pub interface: Interface,
    /// Time of the decision.
    #[serde(serialize_with = "serialize_time")]
    #[serde(rename = "at")]
    pub decided_at: WallTime,
    /// Reason of a denial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// True if it was the caller's own call.
    #[serde(rename = "own")]
    pub is_own_call: bool,
}

/// Result of a call after the decision.
#[derive(Debug, Clone, Serialize)]
pub struct ApprovedCallResult {
    /// Status of the call.
    pub status: CallStatus,
    /// Error code, if it was refused or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<ErrorCode>,
    /// Error message, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A page of approvals, newest first.
#[derive(Debug, Clone, Serialize)]
pub struct ApprovalPage {
    /// Approvals of the page.
    pub approvals: Vec<ApprovalDetails>,
    /// Cursor of the next page; absent at the end.
    pub next: Option<CallId>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn serialize_time<S: serde::Serializer>(at: &WallTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(at)
}

impl ApprovalDetails {
    pub(crate) fn from_stored(approval: &StoredApproval) -> Self {
        let caller = &approval.caller;
        let decided = approval.decision.as_ref().map(|decision| ApprovalDecision {
            subject: decision.decided_by.subject.clone(),
            key_id: decision.decided_by.key_id.clone(),
            interface: decision.interface,
            decided_at: decision.decided_at,
            reason: decision.comment.clone(),
            is_own_call: is_same_person(&decision.decided_by, caller),
        });
        let ended = approval.call_result.as_ref().map(|end| ApprovedCallResult {
            status: end.status,
            code: end.failure.as_ref().map(|(code, _)| *code),
            message: end.failure.as_ref().map(|(_, message)| message.clone()),
        });
        Self {
            id: approval.id,
            state: approval.state,
            tool: approval.tool_key.name.to_string(),
            source: approval.tool_key.source.to_string(),
            reason: approval.reason.code.clone(),
            reason_text: approval.reason.text.clone(),
            approval_reasons: approval.approval_reasons.clone(),
            requester: ApprovalRequester {
                subject: caller.subject.clone(),
                key_id: caller.key_id.clone(),
                level: caller.level,
                is_agent: caller.is_agent,
            },
            interface: approval.interface,
            arguments: sanitizer::escape_invisible(&approval.arguments),
            arguments_sha256: approval.arguments_digest,
            edit_count: approval.edit_count,
            side_effects: approval.side_effects.clone(),
            min_level: approval.min_level,
            definition_digest: approval.definition_digest,
            policy_digest: approval.policy_digest,
            created_at: approval.created_at,
            expires_at: approval.expires_at,
            decision: decided,
            call_result: ended,
        }
    }
}

/// Returns true if the same person is behind both, as far as can be determined: the same key or
/// subject, or one acts for the other.
pub(crate) fn is_same_person(a: &tool::Caller, b: &tool::Caller) -> bool {
    let meets =
        |(key, subject)| keys_and_subjects(b).any(|(other, who)| other == key || who == subject);
    a.org == b.org && keys_and_subjects(a).any(meets)
}

/// Iterates over key and subject of a caller, and of all who act through it.
pub(crate) fn keys_and_subjects(caller: &tool::Caller) -> impl Iterator<Item = (&str, &str)> {
    let actors = caller.actors.iter().map(|actor| (actor.key_id.as_str(), actor.subject.as_str()));
    std::iter::once((caller.key_id.as_str(), caller.subject.as_str())).chain(actors)
}
