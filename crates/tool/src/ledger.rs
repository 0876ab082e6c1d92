//! The port to the record. No intent on record, no execution.

mod caged;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::outcome::Status;
use crate::{Boxed, CallId, Caller, CallerType, Code, Digest, Json, ToolKey, Wall};
pub use caged::Caged;

/// What keeps the record of every call: one intent before it runs, one outcome after.
pub trait Ledger: Send + Sync + fmt::Debug {
    /// Writes the intent, and resolves when it is as durable as asked.
    ///
    /// # Errors
    /// [`LedgerError`]; the call must then not run.
    fn begin(&self, intent: Intent, need: Durability) -> Boxed<'_, Result<Ticket, LedgerError>>;

    /// Writes the outcome and ends the ticket; `need` is that of the intent, and only `Full` waits for
    /// the disk here.
    ///
    /// # Errors
    /// [`LedgerError`]; the call then shows as unknown.
    fn finish(
        &self,
        ticket: Ticket,
        end: End,
        need: Durability,
    ) -> Boxed<'_, Result<(), LedgerError>>;

    /// Notes a step of a call that is held. Handed to the kernel when this returns; the intent that may
    /// follow is synced, and with it this.
    ///
    /// # Errors
    /// [`LedgerError`]; the step must then not be taken.
    fn wait(&self, waited: &Waited) -> Result<(), LedgerError>;

    /// Notes a call that was refused. Rate-capped and never synced: losing one loses no effect.
    fn refuse(&self, refusal: Refusal);

    /// Whether intents can be written now, and if not, why.
    fn health(&self) -> Result<(), LedgerError>;
}

/// Takes down what decides over calls and is no call itself.
pub trait Events: Send + Sync + fmt::Debug {
    /// Writes it: handed to the system when this returns, on the disk soon after.
    ///
    /// # Errors
    /// [`LedgerError`]; whoever was about to widen what may be called must then not do it.
    fn note(&self, event: &Event) -> Result<(), LedgerError>;
}

/// Something that decides over calls was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When.
    pub at: Wall,
    /// Whose.
    pub org: crate::Org,
    /// What: `pin_approved`, `pin_quarantined`, …
    pub event: String,
    /// Who did it; absent where Toolkeep did so by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Caller>,
    /// The source it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<crate::SourceName>,
    /// The tool it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<crate::ToolName>,
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

/// Reads the record.
pub trait Records: Send + Sync + fmt::Debug {
    /// Newest first.
    ///
    /// # Errors
    /// [`LedgerError`].
    fn list(&self, query: Query) -> Boxed<'_, Result<Vec<Record>, LedgerError>>;

    /// All that is on record of one call, oldest first.
    ///
    /// # Errors
    /// [`LedgerError`].
    fn of_call(&self, call: CallId) -> Boxed<'_, Result<Vec<Record>, LedgerError>>;

    /// Where a call stands; `None` where nothing is on record of it. As given, every call without an
    /// outcome counts as running: a ledger that outlives its process knows better and says so.
    ///
    /// # Errors
    /// [`LedgerError`].
    fn status(&self, call: CallId) -> Boxed<'_, Result<Option<Status>, LedgerError>> {
        Box::pin(async move { Ok(standing(&self.of_call(call).await?, true)) })
    }
}

/// Where a call stands by all that is on record of it, oldest first. `alive` says that the process
/// that wrote the intent still holds its ticket: without an outcome the call runs then, and is
/// `unknown` otherwise. A held call stays `waiting` when its process dies: its wait is stored.
pub fn standing(records: &[Record], alive: bool) -> Option<Status> {
    let ended = |record: &Record| match record.kind {
        Kind::Outcome => Some(record.body.read::<End>().map_or(Status::Unknown, |end| end.status)),
        Kind::Refused => Some(Status::Refused),
        Kind::Wait => {
            let ends = record.body.read::<Waited>().is_ok_and(|waited| waited.step.ends());
            ends.then_some(Status::Refused)
        }
        _ => None,
    };
    let last = records.iter().rfind(|record| record.call.is_some())?;
    Some(records.iter().find_map(ended).unwrap_or(match (last.kind, alive) {
        (Kind::Wait, _) => Status::Waiting,
        (_, true) => Status::Running,
        (_, false) => Status::Unknown,
    }))
}

/// How sure a record must be before the call runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Handed to the kernel: survives `kill -9`.
    Written,
    /// On the disk: survives loss of power.
    Synced,
    /// On the disk, and its outcome is too before it is answered.
    Full,
}

/// What is about to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// The call.
    pub call: CallId,
    /// The call that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<CallId>,
    /// The call whose wait it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continues: Option<CallId>,
    /// When.
    pub at: Wall,
    /// Who.
    pub caller: Caller,
    /// By which door: `rest`, `mcp`, `cli`, `library`.
    pub door: String,
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
    pub reason: String,
    /// Keyed hash of the arguments: the same arguments give the same value on one installation, and
    /// nothing else can be read from it.
    pub args: Digest,
    /// Their bytes.
    pub args_bytes: usize,
    /// Whether the call may change something.
    pub effects: bool,
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
    /// By which door.
    pub door: String,
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
    /// By which door it came.
    pub door: String,
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
    /// Who took the step, where a person did, and by which door.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<(Caller, String)>,
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

/// Proof that a call's intent is on record. One is made for each intent, by the ledger; it ends in
/// [`Ledger::finish`], or is noted as abandoned where it is dropped.
pub struct Ticket {
    call: CallId,
    abandoned: Option<Box<dyn FnOnce(CallId) + Send + Sync>>,
}

impl Ticket {
    /// For ledgers: a ticket whose drop calls `abandoned`.
    pub fn issue(call: CallId, abandoned: impl FnOnce(CallId) + Send + Sync + 'static) -> Self {
        Self { call, abandoned: Some(Box::new(abandoned)) }
    }

    /// Whose.
    pub fn call(&self) -> CallId {
        self.call
    }

    /// For ledgers: ends it without the note.
    pub fn redeem(mut self) -> CallId {
        self.abandoned = None;
        self.call
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(abandoned) = self.abandoned.take() {
            abandoned(self.call);
        }
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket({})", self.call)
    }
}

/// One frame, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its number; orders the frames of one writer.
    pub seq: u64,
    /// Its kind.
    pub kind: Kind,
    /// The call it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// [`Intent`], [`Waited`], [`End`], [`Refusal`] or [`Event`], by kind.
    pub body: Json,
}

/// Kinds of frames. The numbers are the file format's and never change their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Kind {
    /// A call is about to run.
    Intent = 1,
    /// A call is held.
    Wait = 2,
    /// A call ended.
    Outcome = 3,
    /// A call was not run.
    Refused = 4,
    /// Root of the tree and head of the chain so far.
    Checkpoint = 5,
    /// A segment that was removed by retention.
    Tombstone = 6,
    /// Records that were dropped, counted.
    Gap = 7,
    /// Something that decides over calls was changed: an [`Event`].
    Event = 8,
}

/// What to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// Only of this tool.
    pub tool: Option<String>,
    /// Only of this organisation.
    pub org: Option<crate::Org>,
    /// Only before this number.
    pub before: Option<u64>,
    /// At most so many.
    pub limit: usize,
}

/// The record cannot be written or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LedgerError {
    /// In words, with the file and what to do.
    pub message: String,
}

impl LedgerError {
    /// In words.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::{End, Kind, Record, standing};
    use crate::outcome::Status;
    use crate::{CallId, Digest, Json, Wall};

    fn record(kind: Kind) -> Record {
        let end = End {
            at: Wall(0),
            status: Status::Failed,
            code: None,
            elapsed_ms: 1,
            bytes: 0,
            result: None,
            cage: None,
        };
        Record { seq: 1, kind, call: Some(CallId(uuid::Uuid::from_u128(7))), body: Json::of(&end) }
    }

    #[test]
    fn a_call_stands_where_its_records_say() {
        for (kinds, alive, status) in [
            (&[][..], true, None),
            (&[Kind::Intent], true, Some(Status::Running)),
            (&[Kind::Intent], false, Some(Status::Unknown)),
            (&[Kind::Intent, Kind::Wait], false, Some(Status::Waiting)),
            (&[Kind::Intent, Kind::Wait, Kind::Outcome], false, Some(Status::Failed)),
            (&[Kind::Refused], false, Some(Status::Refused)),
        ] {
            let records = kinds.iter().map(|&kind| record(kind)).collect::<Vec<_>>();
            assert_eq!(standing(&records, alive), status, "{kinds:?}");
        }
    }

    #[test]
    fn a_held_call_that_never_ran_stands_as_refused_by_its_waits_alone() {
        let wait = |step: &str| {
            let body = serde_json::json!({
                "call": uuid::Uuid::from_u128(7), "step": step, "at": 1, "door": "rest",
                "caller": {"org": "default", "subject": "a", "key": "k", "level": "user", "agent": true},
                "tool": {"org": "default", "source": "s", "name": "t"},
                "definition": Digest([0; 32]), "policy": Digest([0; 32]), "args": Digest([0; 32]),
                "reason": "dangerous", "expires": 2,
            });
            Record { body: Json::of(&body), ..record(Kind::Wait) }
        };
        for (step, status) in [
            ("held", Status::Waiting),
            ("edited", Status::Waiting),
            ("approved", Status::Waiting),
            ("denied", Status::Refused),
            ("expired", Status::Refused),
            ("void", Status::Refused),
        ] {
            let records = [wait("held"), wait(step)];
            assert!(records[1].body.read::<super::Waited>().is_ok());
            assert_eq!(standing(&records, false), Some(status), "{step}");
            // What ran after it counts, and what began and has no end is unknown.
            let begun = [wait("held"), wait("approved"), record(Kind::Intent)];
            assert_eq!(standing(&begun, false), Some(Status::Unknown));
        }
    }
}
