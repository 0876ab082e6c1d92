//! What records say: of a call before it runs, while it waits and at its end, and of what decides over calls.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::Caged;
use crate::outcome::Status;
use crate::{
    CallId, Caller, CallerType, Code, Digest, Interface, Org, SourceName, ToolKey, ToolName, Wall,
};

/// What is about to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// The call.
    pub call: CallId,
    /// The call that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<CallId>,
    /// The chain that it is part of: the same for all calls of one program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain_id: Option<String>,
    /// Its place in the chain, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain_index: Option<u32>,
    /// The call whose wait it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continues: Option<CallId>,
    /// When.
    pub at: Wall,
    /// Who.
    pub caller: Caller,
    /// By which interface.
    pub door: Interface,
    /// Directly or in a chain.
    pub caller_type: CallerType,
    /// What.
    pub tool: ToolKey,
    /// In which definition.
    pub definition: Digest,
    /// In which catalog.
    pub catalog: u64,
    /// Under which policy.
    pub policy: Digest,
    /// Why it was allowed: a reason code of the policy.
    pub reason: Cow<'static, str>,
    /// Keyed hash of the arguments: the same arguments give the same value on one installation, and
    /// nothing else can be read from it.
    pub args: Digest,
    /// Their bytes.
    pub args_bytes: usize,
    /// Whether the call may change something.
    pub effects: bool,
    /// Whether that is so because nobody declared the tool's effects.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown_effects: bool,
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// When.
    pub at: Wall,
    /// How.
    pub status: Status,
    /// The code, where it is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// Milliseconds from intent to here, on the monotonic clock.
    pub elapsed_ms: u64,
    /// Bytes of the answer.
    pub bytes: usize,
    /// Keyed hash of the answer, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Digest>,
    /// What it took in a cage, where it ran in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cage: Option<Caged>,
}

/// A call that was not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The call.
    pub call: CallId,
    /// When.
    pub at: Wall,
    /// Who.
    pub caller: Caller,
    /// By which interface.
    pub door: Interface,
    /// The tool, as it was asked for, cut to a name's length.
    pub tool: String,
    /// Why.
    pub code: Code,
    /// The policy's reason code, where it was the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A step of a call that is held for a person's decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waited {
    /// The call; its wait has the same id.
    pub call: CallId,
    /// Which step.
    pub step: WaitStep,
    /// When.
    pub at: Wall,
    /// Whose call it is.
    pub caller: Caller,
    /// By which interface it came.
    pub door: Interface,
    /// What would run.
    pub tool: ToolKey,
    /// In which definition.
    pub definition: Digest,
    /// Under which policy it was held.
    pub policy: Digest,
    /// Why it was held: a reason code of the policy.
    pub reason: String,
    /// Keyed hash of the arguments as they stand after this step.
    pub args: Digest,
    /// When the wait ends by itself.
    pub expires: Wall,
    /// Who took the step, where a person did, and by which interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<(Caller, Interface)>,
    /// In words: why it was denied, or what had changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<String>,
}

/// The steps of a held call before its intent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitStep {
    /// It is held.
    Held,
    /// A person changed its arguments; it is still held.
    Edited,
    /// A person agreed.
    Approved,
    /// A person refused.
    Denied,
    /// Nobody decided in time.
    Expired,
    /// What was approved is not what is there now, so it did not run.
    Void,
}

impl WaitStep {
    /// Whether the call has ended with it, without having run.
    pub const fn ends(self) -> bool {
        matches!(self, Self::Denied | Self::Expired | Self::Void)
    }
}

/// Something that decides over calls was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When.
    pub at: Wall,
    /// Whose.
    pub org: Org,
    /// What: `pin_approved`, `pin_quarantined`, …
    pub event: String,
    /// Who did it; absent where Toolkeep did so by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Caller>,
    /// The source it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceName>,
    /// The tool it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolName>,
    /// What was before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Digest>,
    /// What is from here on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Digest>,
    /// Why, in the words of whoever did it, or how many where it is told once for many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}
