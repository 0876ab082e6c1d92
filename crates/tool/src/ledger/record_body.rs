//! Defines the bodies of records: intents, approval steps, outcomes, refusals and audit events.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::SandboxUsage;
use crate::call_outcome::CallStatus;
use crate::{
    CallId, Caller, CallerType, Digest, ErrorCode, Interface, Org, SourceName, ToolKey, ToolName,
    WallTime,
};

/// Record body written before a call runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntentRecord {
    /// Id of the call.
    #[serde(rename = "call")]
    pub call_id: CallId,
    /// Id of the call that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "parent")]
    pub parent_id: Option<CallId>,
    /// Id of the chain that it belongs to: one id for all calls of a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain_id: Option<String>,
    /// Index in the chain, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain_index: Option<u32>,
    /// Pending call that it continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "continues")]
    pub continues_call: Option<CallId>,
    /// Time of the record.
    #[serde(rename = "at")]
    pub recorded_at: WallTime,
    /// Caller of the tool.
    pub caller: Caller,
    /// Interface by which the call arrived.
    #[serde(rename = "door")]
    pub interface: Interface,
    /// Whether it was called directly or in a chain.
    pub caller_type: CallerType,
    /// Key of the called tool.
    #[serde(rename = "tool")]
    pub tool_key: ToolKey,
    /// Digest of the tool's definition.
    #[serde(rename = "definition")]
    pub definition_digest: Digest,
    /// Version of the catalog.
    #[serde(rename = "catalog")]
    pub catalog_version: u64,
    /// Digest of the policy.
    #[serde(rename = "policy")]
    pub policy_digest: Digest,
    /// Reason code with which the policy allowed it.
    pub reason: Cow<'static, str>,
    /// Keyed hash of the arguments: the same arguments give the same value on one installation, and
    /// nothing else can be read from it.
    #[serde(rename = "args")]
    pub arguments_digest: Digest,
    /// Size of the arguments in bytes.
    #[serde(rename = "args_bytes")]
    pub arguments_bytes: usize,
    /// True if the call may change state.
    #[serde(rename = "effects")]
    pub may_change_state: bool,
    /// True if it may change state because the tool declares no effects.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[serde(rename = "unknown_effects")]
    pub has_unknown_effects: bool,
    /// Name of the toolset in which the caller found the tool, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toolset: Option<String>,
}

/// Record body written when a call ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutcomeRecord {
    /// Time of the record.
    #[serde(rename = "at")]
    pub recorded_at: WallTime,
    /// Final status of the call.
    pub status: CallStatus,
    /// Error code, if the call failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<ErrorCode>,
    /// Milliseconds from intent to here, on the monotonic clock.
    pub elapsed_ms: u64,
    /// Size of the result in bytes.
    #[serde(rename = "bytes")]
    pub result_bytes: usize,
    /// Keyed hash of the result, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "result")]
    pub result_digest: Option<Digest>,
    /// Sandbox usage, if the call ran in a sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "cage")]
    pub sandbox_usage: Option<SandboxUsage>,
}

/// Record body of a call that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusalRecord {
    /// Id of the call.
    #[serde(rename = "call")]
    pub call_id: CallId,
    /// Time of the record.
    #[serde(rename = "at")]
    pub recorded_at: WallTime,
    /// Caller of the tool.
    pub caller: Caller,
    /// Interface by which the call arrived.
    #[serde(rename = "door")]
    pub interface: Interface,
    /// Requested tool name, cut to the maximum length of a name.
    #[serde(rename = "tool")]
    pub tool_name: String,
    /// Error code of the refusal.
    pub code: ErrorCode,
    /// Reason code, if the policy refused the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Record body of one step of a pending approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalStepRecord {
    /// Id of the call, and of its pending approval.
    #[serde(rename = "call")]
    pub call_id: CallId,
    /// Step that was taken.
    pub step: ApprovalStep,
    /// Time of the record.
    #[serde(rename = "at")]
    pub recorded_at: WallTime,
    /// Caller of the tool.
    pub caller: Caller,
    /// Interface by which the call arrived.
    #[serde(rename = "door")]
    pub interface: Interface,
    /// Key of the requested tool.
    #[serde(rename = "tool")]
    pub tool_key: ToolKey,
    /// Digest of the tool's definition.
    #[serde(rename = "definition")]
    pub definition_digest: Digest,
    /// Digest of the policy that requires the approval.
    #[serde(rename = "policy")]
    pub policy_digest: Digest,
    /// Reason code with which the policy requires the approval.
    pub reason: String,
    /// Keyed hash of the arguments after this step.
    #[serde(rename = "args")]
    pub arguments_digest: Digest,
    /// Time at which the pending approval expires.
    #[serde(rename = "expires")]
    pub expires_at: WallTime,
    /// Person who took the step and the interface used, if a person did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "by")]
    pub decided_by: Option<StepCaller>,
    /// Comment: why it was denied, or what had changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "told")]
    pub comment: Option<String>,
}

/// Caller who took a step of a pending approval, recorded as an array with the interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(Caller, Interface)", into = "(Caller, Interface)")]
pub struct StepCaller {
    /// The caller.
    pub caller: Caller,
    /// Interface that it used.
    pub interface: Interface,
}

impl From<(Caller, Interface)> for StepCaller {
    fn from((caller, interface): (Caller, Interface)) -> Self {
        Self { caller, interface }
    }
}

impl From<StepCaller> for (Caller, Interface) {
    fn from(by: StepCaller) -> Self {
        (by.caller, by.interface)
    }
}

/// Steps of a pending approval before the intent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalStep {
    /// An approval is requested.
    #[serde(rename = "held")]
    Requested,
    /// A person edited the arguments; the call is still pending.
    Edited,
    /// A person approved the call.
    Approved,
    /// A person denied the call.
    Denied,
    /// Nobody decided in time.
    Expired,
    /// The approved call no longer matches the current definition or policy, so it did not run.
    Void,
}

impl ApprovalStep {
    /// Returns true if the step ends the call before it ran.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Denied | Self::Expired | Self::Void)
    }
}

/// Record body of an administrative change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEventRecord {
    /// Time of the record.
    #[serde(rename = "at")]
    pub recorded_at: WallTime,
    /// Organisation of the event.
    pub org: Org,
    /// Kind of event: `pin_approved`, `pin_quarantined`, …
    #[serde(rename = "event")]
    pub kind: String,
    /// Caller who made the change; absent if Toolkeep did.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "by")]
    pub changed_by: Option<Caller>,
    /// The source it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceName>,
    /// The tool it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolName>,
    /// Digest before the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "before")]
    pub digest_before: Option<Digest>,
    /// Digest after the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "after")]
    pub digest_after: Option<Digest>,
    /// Comment of the person who made the change, or a count if one event stands for many.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "note")]
    pub comment: Option<String>,
}
