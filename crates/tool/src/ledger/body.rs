//! Defines the bodies of records: intents, approval steps, outcomes, refusals and audit events.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::Caged;
use crate::outcome::Status;
use crate::{
    CallId, Caller, CallerType, Code, Digest, Interface, Org, SourceName, ToolKey, ToolName, Wall,
};

/// Record body written before a call runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// Id of the call.
    pub call: CallId,
    /// Id of the call that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<CallId>,
    /// Id of the chain that it belongs to: one id for all calls of a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain_id: Option<String>,
    /// Index in the chain, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain_index: Option<u32>,
    /// Pending call that it continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continues: Option<CallId>,
    /// Time of the record.
    pub at: Wall,
    /// Caller of the tool.
    pub caller: Caller,
    /// Interface by which the call arrived.
    pub door: Interface,
    /// Whether it was called directly or in a chain.
    pub caller_type: CallerType,
    /// Key of the called tool.
    pub tool: ToolKey,
    /// Digest of the tool's definition.
    pub definition: Digest,
    /// Version of the catalog.
    pub catalog: u64,
    /// Digest of the policy.
    pub policy: Digest,
    /// Reason code with which the policy allowed it.
    pub reason: Cow<'static, str>,
    /// Keyed hash of the arguments: the same arguments give the same value on one installation, and
    /// nothing else can be read from it.
    pub args: Digest,
    /// Size of the arguments in bytes.
    pub args_bytes: usize,
    /// True if the call may change state.
    pub effects: bool,
    /// True if it may change state because the tool declares no effects.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown_effects: bool,
}

/// Record body written when a call ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Time of the record.
    pub at: Wall,
    /// Final status of the call.
    pub status: Status,
    /// Error code, if the call failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// Milliseconds from intent to here, on the monotonic clock.
    pub elapsed_ms: u64,
    /// Size of the result in bytes.
    pub bytes: usize,
    /// Keyed hash of the result, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Digest>,
    /// Sandbox usage, if the call ran in a sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cage: Option<Caged>,
}

/// Record body of a call that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Id of the call.
    pub call: CallId,
    /// Time of the record.
    pub at: Wall,
    /// Caller of the tool.
    pub caller: Caller,
    /// Interface by which the call arrived.
    pub door: Interface,
    /// Requested tool name, cut to the maximum length of a name.
    pub tool: String,
    /// Error code of the refusal.
    pub code: Code,
    /// Reason code, if the policy refused the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Record body of one step of a pending approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waited {
    /// Id of the call, and of its pending approval.
    pub call: CallId,
    /// Step that was taken.
    pub step: WaitStep,
    /// Time of the record.
    pub at: Wall,
    /// Caller of the tool.
    pub caller: Caller,
    /// Interface by which the call arrived.
    pub door: Interface,
    /// Key of the requested tool.
    pub tool: ToolKey,
    /// Digest of the tool's definition.
    pub definition: Digest,
    /// Digest of the policy that requires the approval.
    pub policy: Digest,
    /// Reason code with which the policy requires the approval.
    pub reason: String,
    /// Keyed hash of the arguments after this step.
    pub args: Digest,
    /// Time at which the pending approval expires.
    pub expires: Wall,
    /// Person who took the step and the interface used, if a person did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<(Caller, Interface)>,
    /// Comment: why it was denied, or what had changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<String>,
}

/// Steps of a pending approval before the intent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitStep {
    /// An approval is requested.
    Held,
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

impl WaitStep {
    /// Returns true if the step ends the call before it ran.
    pub const fn ends(self) -> bool {
        matches!(self, Self::Denied | Self::Expired | Self::Void)
    }
}

/// Record body of an administrative change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Time of the record.
    pub at: Wall,
    /// Organisation of the event.
    pub org: Org,
    /// Kind of event: `pin_approved`, `pin_quarantined`, …
    pub event: String,
    /// Caller who made the change; absent if Toolkeep did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Caller>,
    /// The source it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceName>,
    /// The tool it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolName>,
    /// Digest before the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Digest>,
    /// Digest after the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Digest>,
    /// Comment of the person who made the change, or a count if one event stands for many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}
