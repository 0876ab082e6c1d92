//! Approvals as interfaces return them.

use serde::{Deserialize, Serialize};
use tool::outcome::Status;
use tool::{CallId, Code, Digest, Interface, Json, Level, Wall};

use super::kept::Kept;
use crate::shape;

/// States of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
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

impl State {
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
pub struct Shown {
    /// Id of the call and of its approval.
    pub id: CallId,
    /// State of the approval.
    pub state: State,
    /// Name of the tool.
    pub tool: String,
    /// Name of its source.
    pub source: String,
    /// Reason code of the approval.
    pub reason: String,
    /// Reason, as a message for people.
    pub why: String,
    /// Reasons for the approval: reason codes, and rules by name and hash. An approval covers these
    /// only.
    pub holds: Vec<String>,
    /// Caller that requests the approval.
    pub asked_by: Asker,
    /// Interface by which it arrived.
    pub door: Interface,
    /// Arguments that will run.
    pub arguments: Json,
    /// SHA-256 of the arguments in the form of RFC 8785.
    pub arguments_sha256: Digest,
    /// Number of edits by a person.
    pub edits: u32,
    /// Side effects of the tool: the declared ones, or `unknown`.
    pub side_effects: Vec<String>,
    /// Minimum level to approve it.
    pub level: Level,
    /// Digest of the tool's definition.
    pub definition: Digest,
    /// Digest of the policy that requires the approval.
    pub policy: Digest,
    /// Time of the request.
    #[serde(serialize_with = "time")]
    pub created: Wall,
    /// Time at which it expires.
    #[serde(serialize_with = "time")]
    pub expires: Wall,
    /// Decision, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided: Option<Decided>,
    /// Result of the call, if it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Came>,
}

/// Caller that requests an approval.
#[derive(Debug, Clone, Serialize)]
pub struct Asker {
    /// User, as the key names it.
    pub subject: String,
    /// Id of the key.
    pub key: String,
    /// Permission level of the caller.
    pub level: Level,
    /// True if the key belongs to an agent.
    pub agent: bool,
}

/// Decision of a person.
#[derive(Debug, Clone, Serialize)]
pub struct Decided {
    /// The user who decided.
    pub subject: String,
    /// Id of the key.
    pub key: String,
    /// Interface of the decision.
    pub door: Interface,
    /// Time of the decision.
    #[serde(serialize_with = "time")]
    pub at: Wall,
    /// Reason of a denial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// True if it was the caller's own call.
    pub own: bool,
}

/// Result of a call after the decision.
#[derive(Debug, Clone, Serialize)]
pub struct Came {
    /// Status of the call.
    pub status: Status,
    /// Error code, if it was refused or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// Error message, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A page of approvals, newest first.
#[derive(Debug, Clone, Serialize)]
pub struct Page {
    /// Approvals of the page.
    pub approvals: Vec<Shown>,
    /// Cursor of the next page; absent at the end.
    pub next: Option<CallId>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn time<S: serde::Serializer>(at: &Wall, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(at)
}

impl Shown {
    pub(crate) fn of(kept: &Kept) -> Self {
        let caller = &kept.caller;
        let decided = kept.decision.as_ref().map(|decision| Decided {
            subject: decision.by.subject.clone(),
            key: decision.by.key.clone(),
            door: decision.door,
            at: decision.at,
            reason: decision.told.clone(),
            own: same(&decision.by, caller),
        });
        let ended = kept.end.as_ref().map(|end| Came {
            status: end.status,
            code: end.failure.as_ref().map(|(code, _)| *code),
            message: end.failure.as_ref().map(|(_, message)| message.clone()),
        });
        Self {
            id: kept.id,
            state: kept.state,
            tool: kept.tool.name.to_string(),
            source: kept.tool.source.to_string(),
            reason: kept.reason.0.clone(),
            why: kept.reason.1.clone(),
            holds: kept.holds.clone(),
            asked_by: Asker {
                subject: caller.subject.clone(),
                key: caller.key.clone(),
                level: caller.level,
                agent: caller.agent,
            },
            door: kept.door,
            arguments: shape::visible(&kept.args),
            arguments_sha256: kept.hash,
            edits: kept.edits,
            side_effects: kept.effects.clone(),
            level: kept.level,
            definition: kept.definition,
            policy: kept.policy,
            created: kept.created,
            expires: kept.expires,
            decided,
            ended,
        }
    }
}

/// Returns true if the same person is behind both, as far as can be determined: the same key or
/// subject, or one acts for the other.
pub(crate) fn same(a: &tool::Caller, b: &tool::Caller) -> bool {
    let meets = |(key, subject)| behind(b).any(|(other, who)| other == key || who == subject);
    a.org == b.org && behind(a).any(meets)
}

/// Iterates over key and subject of a caller, and of all who act through it.
pub(crate) fn behind(caller: &tool::Caller) -> impl Iterator<Item = (&str, &str)> {
    let actors = caller.actors.iter().map(|actor| (actor.key.as_str(), actor.subject.as_str()));
    std::iter::once((caller.key.as_str(), caller.subject.as_str())).chain(actors)
}
