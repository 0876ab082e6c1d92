//! Approvals as the store holds them.

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

/// Store prefix of all approvals.
pub(crate) const PREFIX: &str = "wait/";
/// Maximum size in bytes of a result that is stored for its caller.
const RESULT: usize = 256 << 10;

/// Returns the store key of an approval.
pub(crate) fn key(id: CallId) -> String {
    format!("{PREFIX}{id}")
}

/// Everything to which a pending call is bound, and its state.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kept {
    pub(crate) id: CallId,
    pub(crate) state: State,
    pub(crate) caller: Caller,
    /// Restrictions that the caller set for the request.
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
    /// Reason code of the policy, and its text.
    pub(crate) reason: (String, String),
    /// All reasons for the approval, which a person approves. It covers no other reason.
    #[serde(default)]
    pub(crate) holds: Vec<String>,
    /// Minimum level to call the tool, and so to approve it.
    pub(crate) level: Level,
    pub(crate) effects: Vec<String>,
    /// Validated arguments that will run.
    pub(crate) args: Json,
    /// SHA-256 of their canonical form.
    pub(crate) hash: Digest,
    pub(crate) created: Wall,
    pub(crate) expires: Wall,
    /// Number of edits by a person.
    pub(crate) edits: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) decision: Option<Decision>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) end: Option<Ended>,
    /// Names of the call in the model's message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model_call: Option<ModelCall>,
}

/// Request of a pending call, as its caller made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingRequest {
    /// Key of the called tool.
    pub tool: ToolKey,
    /// Arguments that will run: an approver may have edited them.
    pub args: Json,
    /// Names of the call in the model's message, if it came in one.
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

/// Decision on an approval.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Decision {
    pub(crate) by: Caller,
    pub(crate) door: Interface,
    pub(crate) at: Wall,
    /// Comment of a denial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) told: Option<String>,
}

/// Stored result of an approved call.
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

/// Stored outcome of a tool.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answered {
    /// True if it is an MCP result.
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

    /// Returns the fingerprint of tool and arguments.
    pub(crate) fn mark(&self) -> Digest {
        mark(&self.tool, self.hash)
    }

    /// Returns true if this is its caller, by whichever credential.
    pub(crate) fn is_of(&self, who: &Caller) -> bool {
        let Caller { org, subject, key, .. } = who;
        *org == self.caller.org && *subject == self.caller.subject && *key == self.caller.key
    }

    /// Restricts the caller to the rights that it had when it called.
    pub(crate) fn as_called(&self, now: &Principal) -> Principal {
        let Narrowed { read_only, no_web, task_type } = self.narrowed.clone();
        now.lowered(self.caller.level).narrowed(&Narrowing { read_only, no_web, task_type })
    }

    /// Returns the stored call as a request, to be evaluated again.
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

    /// Stores the result; a result that is too large reaches current waiters only.
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

    /// Returns the current response for its caller. `here` means that it runs in this process.
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

/// Returns the fingerprint of tool and arguments. The tool counts by its key: another source may
/// have one of its name.
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
