//! A held call as people see it.

use serde::{Deserialize, Serialize};
use tool::outcome::Status;
use tool::{CallId, Code, Digest, Interface, Json, Level, Wall};

use super::kept::Kept;
use crate::shape;

/// How far a held call came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Nobody decided yet.
    Pending,
    /// A person agreed, and it has not begun.
    Approved,
    /// A person refused.
    Denied,
    /// Nobody decided in time.
    Expired,
    /// What was approved is not what was there when it was to run.
    Void,
    /// It was begun; its approval is used up.
    Consumed,
    /// It ran to its end.
    Done,
}

impl State {
    /// The word as it is written.
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

/// A held call: all that a person needs to decide, with hidden characters made visible.
#[derive(Debug, Clone, Serialize)]
pub struct Shown {
    /// The call, and the wait.
    pub id: CallId,
    /// How far it came.
    pub state: State,
    /// The tool.
    pub tool: String,
    /// Its source.
    pub source: String,
    /// Why it is held: a reason code.
    pub reason: String,
    /// The same in words.
    pub why: String,
    /// Everything that holds it: reason codes, and rules by name and hash. An approval lifts these alone.
    pub holds: Vec<String>,
    /// Who asks.
    pub asked_by: Asker,
    /// By which interface it came.
    pub door: Interface,
    /// What will run.
    pub arguments: Json,
    /// SHA-256 of the arguments in the form of RFC 8785.
    pub arguments_sha256: Digest,
    /// How often a person changed them.
    pub edits: u32,
    /// The tool's side effects: the declared ones, or `unknown`.
    pub side_effects: Vec<String>,
    /// The least level that may approve it.
    pub level: Level,
    /// The hash of the tool's definition.
    pub definition: Digest,
    /// The hash of the policy that held it.
    pub policy: Digest,
    /// When it was asked for.
    #[serde(serialize_with = "time")]
    pub created: Wall,
    /// When it ends by itself.
    #[serde(serialize_with = "time")]
    pub expires: Wall,
    /// Who decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided: Option<Decided>,
    /// What came of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Came>,
}

/// Who asks.
#[derive(Debug, Clone, Serialize)]
pub struct Asker {
    /// The user, as the key names it.
    pub subject: String,
    /// Id of the key.
    pub key: String,
    /// Permission level.
    pub level: Level,
    /// Whether the key belongs to an agent.
    pub agent: bool,
}

/// Who decided.
#[derive(Debug, Clone, Serialize)]
pub struct Decided {
    /// The user.
    pub subject: String,
    /// Id of the key.
    pub key: String,
    /// By which interface.
    pub door: Interface,
    /// When.
    #[serde(serialize_with = "time")]
    pub at: Wall,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether it was the caller's own call.
    pub own: bool,
}

/// What came of it.
#[derive(Debug, Clone, Serialize)]
pub struct Came {
    /// Where the call stands.
    pub status: Status,
    /// Why it did not run, or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// The same in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Some held calls, the newest first.
#[derive(Debug, Clone, Serialize)]
pub struct Page {
    /// They.
    pub approvals: Vec<Shown>,
    /// Where the next page begins; nothing at the end.
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

/// Whether one person is behind both, as far as can be told: by the same key or the same subject, or
/// because one of them acts for the other.
pub(crate) fn same(a: &tool::Caller, b: &tool::Caller) -> bool {
    let meets = |(key, subject)| behind(b).any(|(other, who)| other == key || who == subject);
    a.org == b.org && behind(a).any(meets)
}

/// Key and subject of a caller, and of all who act through it.
pub(crate) fn behind(caller: &tool::Caller) -> impl Iterator<Item = (&str, &str)> {
    let actors = caller.actors.iter().map(|actor| (actor.key.as_str(), actor.subject.as_str()));
    std::iter::once((caller.key.as_str(), caller.subject.as_str())).chain(actors)
}
