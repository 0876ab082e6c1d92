//! One call of a program, through the pipeline as any other.

use std::time::Duration;

use gateway::{Holder, Request};
use identity::Principal;
use serde_json::{Map, Value};
use tool::executor::Wait;
use tool::outcome::{Answer, Body, Failure, Outcome, Status};
use tool::{CallId, CallerType, Code, Interface, Json, Step};

use super::{Leg, Stop};
use crate::functions::Function;
use crate::going::{CREDENTIAL_GONE, LEG};
use crate::program::Program;
use crate::script::{Came, Kind};

/// How a call of a program ended.
pub(crate) enum Called {
    To(Came),
    /// It is held.
    Held(CallId),
}

impl Leg<'_> {
    /// The id of a call that will be made.
    pub(crate) fn named_call(&self) -> CallId {
        self.gateway.new_call()
    }

    /// Makes one call as the caller is now; gives up where the program is.
    pub(crate) async fn call(
        &self,
        (program, call, index): (CallId, CallId, usize),
        function: &Function,
        args: &Map<String, Value>,
    ) -> Result<(Answer, Called), Stop> {
        let request = Request {
            id: Some(call),
            caller_type: CallerType::Chain,
            parent: Some(program),
            chain_index: u32::try_from(index).ok(),
            ..Request::new(function.tool(), Json::of(args).bytes().clone(), Interface::Program)
        };
        let who = self.current_caller()?;
        let calling = Box::pin(self.gateway.call(&who, request));
        let answer = self.unless_given_up(calling).await?;
        let called = match &answer.result {
            Ok(Step::Wait(Wait::Approval(_))) => Called::Held(answer.call),
            _ => Called::To(came(&answer)),
        };
        Ok((answer, called))
    }

    /// The caller as its credential stands at this moment, with no more than the program has.
    fn current_caller(&self) -> Result<Principal, Stop> {
        let has = (self.who.caller(), self.who.rights().narrowing());
        match self.programs.current_caller(has, Some(self.who)) {
            Holder::Holds(now) => Ok(now),
            Holder::Gone | Holder::Elsewhere => {
                Err(Failure::new(Code::Unauthenticated, CREDENTIAL_GONE).into())
            }
        }
    }

    /// Whether a program may make so many more.
    pub(crate) fn has_room(program: &Program, more: usize) -> Result<(), String> {
        let most = program.most_calls;
        if program.calls.len().saturating_add(more) <= most {
            return Ok(());
        }
        Err(format!("a program may make {most} calls, and this one wants more"))
    }

    /// What these held calls came to; nothing while one is not settled.
    pub(crate) async fn decided(&self, held: &[CallId]) -> Result<Option<Vec<Settled>>, Failure> {
        let mut all = Vec::new();
        for call in held {
            match self.outcome_of(*call).await? {
                Some(settled) => all.push(settled),
                None => return Ok(None),
            }
        }
        Ok(Some(all))
    }

    async fn outcome_of(&self, call: CallId) -> Result<Option<Settled>, Failure> {
        let waits = |answer: &Answer| matches!(answer.result, Ok(Step::Wait(_)));
        let first = self.gateway.settled(self.who, call, Duration::ZERO).await;
        let mut answer = match first {
            Err(failure) if failure.code == Code::NotFound => {
                return self.forgotten(call).await.map(Some);
            }
            other => other?,
        };
        // One that was approved is waited for to its end.
        let approved = matches!(
            &answer.result, Ok(Step::Wait(Wait::Approval(approval))) if approval.approved
        );
        if waits(&answer) && approved {
            answer = self.gateway.settled(self.who, call, LEG).await?;
        }
        Ok((!waits(&answer)).then(|| Settled::new(answer)))
    }

    /// What came of a held call is kept for its caller for a while, and then only the record tells whether
    /// it was made.
    async fn forgotten(&self, call: CallId) -> Result<Settled, Failure> {
        let status = match self.recorded(call).await? {
            None | Some(Status::Refused) => Status::Refused,
            Some(_) => Status::Unknown,
        };
        let told = "what came of the call that was waited for is not kept any more";
        let result = Err(Failure::new(Code::ApprovalExpired, told));
        Ok(Settled::new(Answer { call, status, result, elapsed_ms: 0 }))
    }
}

/// A held call that has ended, and what a script sees of it.
pub(crate) struct Settled {
    pub(crate) answer: Answer,
    pub(crate) came: Came,
}

impl Settled {
    fn new(answer: Answer) -> Self {
        let came = came(&answer);
        Self { answer, came }
    }

    /// Nobody decided in time, and nothing ran.
    pub(crate) fn is_expired(&self) -> bool {
        let expired = |failure: &Failure| failure.code == Code::ApprovalExpired;
        self.answer.status != Status::Unknown && self.answer.result.as_ref().is_err_and(expired)
    }
}

/// An answer as a script sees it.
pub(super) fn came(answer: &Answer) -> Came {
    match &answer.result {
        Ok(Step::Done(outcome)) if outcome.is_error => {
            Came::Raised { kind: Kind::Failed, message: text(outcome) }
        }
        Ok(Step::Done(outcome)) => Came::Value(value(outcome)),
        Ok(Step::Wait(_)) => Came::Raised {
            kind: Kind::Failed,
            message: "the tool asks its user for input, and a program has none".to_owned(),
        },
        Err(failure) => {
            let kind = match failure.code {
                Code::Denied
                | Code::ApprovalDenied
                | Code::ApprovalRequired
                | Code::ApprovalExpired
                | Code::ApprovalVoid => Kind::Denied,
                Code::InvalidArguments => Kind::Arguments,
                _ => Kind::Failed,
            };
            Came::Raised { kind, message: failure.message.clone() }
        }
    }
}

/// What a script works with: structured content where there is some, or else the text.
fn value(outcome: &Outcome) -> Value {
    match &outcome.body {
        Body::Value(value) => value.value(),
        Body::Mcp(result) => {
            if let Some(preview) = tool::artefact::preview_of(result) {
                return preview.value();
            }
            let result = result.value();
            match result.get("structuredContent").filter(|it| !it.is_null()) {
                Some(structured) => structured.clone(),
                None => Value::String(texts(&result)),
            }
        }
    }
}

fn text(outcome: &Outcome) -> String {
    match &outcome.body {
        Body::Value(value) => match value.value() {
            Value::String(text) => text,
            other => other.to_string(),
        },
        Body::Mcp(result) => texts(&result.value()),
    }
}

fn texts(result: &Value) -> String {
    let content = result.get("content").and_then(Value::as_array);
    let texts = content.into_iter().flatten().filter_map(|it| it.get("text")?.as_str());
    texts.collect::<Vec<_>>().join("\n")
}

/// Notes an answer in the program.
pub(crate) fn note(program: &mut Program, tool: &str, answer: &Answer) {
    let success = match &answer.result {
        Ok(Step::Wait(_)) => None,
        Ok(Step::Done(outcome)) => Some(!outcome.is_error),
        Err(_) => Some(false),
    };
    program.notes(tool, (answer.call, success), answer.elapsed_ms);
}
