//! A held call as the store has it.

use bytes::Bytes;
use identity::{Narrowing, Principal};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tool::outcome::{Answer, Body, Failure, Outcome, Status};
use tool::{
    CallId, Caller, CallerType, Code, Digest, Interface, Json, Level, Step, ToolKey, Wall,
    executor::Approval, executor::Wait,
};

use super::State;
use crate::{ModelCall, Request, Target};

/// What all waits' names in the store begin with.
pub(crate) const PREFIX: &str = "wait/";
/// Bytes of an answer that are kept for a caller who comes later.
const RESULT: usize = 256 << 10;

/// A wait's name in the store.
pub(crate) fn key(id: CallId) -> String {
    format!("{PREFIX}{id}")
}

/// All that a held call is bound to, and how far it came.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kept {
    pub(crate) id: CallId,
    pub(crate) state: State,
    pub(crate) caller: Caller,
    /// What the caller took from itself.
    pub(crate) narrowed: Narrowed,
    pub(crate) caller_type: CallerType,
    pub(crate) door: Interface,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) parent: Option<CallId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) chain_index: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) tool: ToolKey,
    pub(crate) definition: Digest,
    pub(crate) policy: Digest,
    /// The policy's reason code, and the same in words.
    pub(crate) reason: (String, String),
    /// Everything that held it: what a person agrees to. A hold that is not among these is not lifted.
    #[serde(default)]
    pub(crate) holds: Vec<String>,
    /// The least level that may call the tool, and so the least that may approve it.
    pub(crate) level: Level,
    pub(crate) effects: Vec<String>,
    /// What will run, as it was checked.
    pub(crate) args: Json,
    /// SHA-256 of its canonical form.
    pub(crate) hash: Digest,
    pub(crate) created: Wall,
    pub(crate) expires: Wall,
    /// How often a person changed the arguments.
    pub(crate) edits: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) decision: Option<Decision>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) end: Option<Ended>,
    /// How its model's message names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model_call: Option<ModelCall>,
}

/// What a pending call asks for, in its caller's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingRequest {
    /// The tool.
    pub tool: ToolKey,
    /// The arguments that will run: an approver may have changed them.
    pub args: Json,
    /// How its model's message names it, where it came in one.
    pub model_call: Option<ModelCall>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Narrowed {
    read_only: bool,
    no_web: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    task_type: Option<String>,
}

/// Who decided.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Decision {
    pub(crate) by: Caller,
    pub(crate) door: Interface,
    pub(crate) at: Wall,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) told: Option<String>,
}

/// What came of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ended {
    pub(crate) at: Wall,
    pub(crate) status: Status,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<(Code, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<Answered>,
    pub(crate) elapsed_ms: u64,
}

/// A tool's answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answered {
    /// Whether it is in MCP's own words.
    mcp: bool,
    is_error: bool,
    body: Json,
}

impl Narrowed {
    fn of(narrowing: &Narrowing) -> Self {
        let Narrowing { read_only, no_web, task_type } = narrowing.clone();
        Self { read_only, no_web, task_type }
    }
}

impl Kept {
    pub(crate) fn narrowing(principal: &Principal) -> Narrowed {
        Narrowed::of(principal.rights().narrowing())
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }

    pub(crate) fn bytes(&self) -> Bytes {
        Json::of(self).bytes().clone()
    }

    /// Tool and arguments in one.
    pub(crate) fn mark(&self) -> Digest {
        mark(&self.tool, self.hash)
    }

    /// Whether this is its caller, by whichever credential the principal was made.
    pub(crate) fn is_of(&self, who: &Caller) -> bool {
        let Caller { org, subject, key, .. } = who;
        *org == self.caller.org && *subject == self.caller.subject && *key == self.caller.key
    }

    /// The same caller with no more than it had when it called.
    pub(crate) fn as_called(&self, now: &Principal) -> Principal {
        let Narrowed { read_only, no_web, task_type } = self.narrowed.clone();
        now.lowered(self.caller.level).narrowed(&Narrowing { read_only, no_web, task_type })
    }

    /// The stored call, to be looked at anew.
    pub(crate) fn request(&self) -> Request {
        let (source, name) = (self.tool.source.to_string(), self.tool.name.to_string());
        let args = self.args.bytes().clone();
        let mut request = Request::to(Target::Of { source, name }, args, self.door);
        request.caller_type = self.caller_type;
        request.parent = self.parent;
        request.chain_index = self.chain_index;
        request.timeout = self.timeout_ms.map(std::time::Duration::from_millis);
        request
    }

    /// Notes what came of it; an answer that is too large is for those who wait for it now.
    pub(crate) fn ended(&mut self, state: State, at: Wall, answer: &Answer) {
        let answered = match &answer.result {
            Ok(Step::Done(outcome)) if outcome.size() <= RESULT => {
                let (mcp, body) = match &outcome.body {
                    Body::Value(json) => (false, json.clone()),
                    Body::Mcp(json) => (true, json.clone()),
                };
                Some(Answered { mcp, is_error: outcome.is_error, body })
            }
            _ => None,
        };
        let failure = match &answer.result {
            Err(failure) => Some((failure.code, failure.message.clone())),
            Ok(_) => None,
        };
        self.state = state;
        self.end = Some(Ended {
            at,
            status: answer.status,
            failure,
            answer: answered,
            elapsed_ms: answer.elapsed_ms,
        });
    }

    /// What its caller is told as it stands. `here` says that it runs in this process.
    pub(crate) fn answer(&self, here: bool) -> Answer {
        let elapsed_ms = self.end.as_ref().map_or(0, |end| end.elapsed_ms);
        let (status, result) = match (&self.state, &self.end) {
            (State::Pending | State::Approved, _) => (Status::Waiting, Ok(self.waits())),
            (State::Consumed, _) if here => (Status::Running, Ok(self.waits())),
            (State::Consumed, _) => (Status::Unknown, Err(unknown())),
            (_, Some(end)) => (end.status, end.result()),
            (_, None) => (Status::Refused, Err(unknown())),
        };
        Answer { call: self.id, status, result, elapsed_ms }
    }

    pub(crate) fn waits(&self) -> Step {
        Step::Wait(Wait::Approval(Approval {
            reason: self.reason.1.clone(),
            expires: self.expires,
            effects: self.effects.clone(),
            approved: self.state != State::Pending,
            by_agent: self.caller.agent,
        }))
    }
}

impl Ended {
    fn result(&self) -> Result<Step, Failure> {
        if let Some((code, message)) = &self.failure {
            return Err(Failure::new(*code, message.clone()));
        }
        let Some(answered) = &self.answer else {
            let told = "the call ran, but its answer was too large to be kept for later";
            return Err(Failure::new(Code::TooLarge, told));
        };
        let body = answered.body.clone();
        let body = if answered.mcp { Body::Mcp(body) } else { Body::Value(body) };
        Ok(Step::Done(Outcome { body, is_error: answered.is_error }))
    }
}

/// Tool and arguments in one. The tool by its identity: another source may have one of its name.
pub(crate) fn mark(tool: &ToolKey, args: Digest) -> Digest {
    let mut hash = Sha256::new();
    hash.update(args.0);
    hash.update(tool.to_string());
    Digest(hash.finalize().into())
}

fn unknown() -> Failure {
    let told = "the server ended while the call ran: whether it had its effect is unknown, and it is \
                not run again by itself";
    Failure::new(Code::Internal, told)
}
