//! The call pipeline in one function, from the request to its recorded outcome.

use std::borrow::Cow;
use std::sync::Arc;

use catalog::Entry;
use identity::Principal;
use policy::{Decision, Reason};
use tool::outcome::{Answer, Failure, Status};
use tool::{Args, Call, CallId, Code, Intent, Refusal, Ticket, Wall};

use crate::aside::aside;
use crate::decide::Moment;
use crate::limits::Permit;
use crate::principal_executor::CallPrincipal;
use crate::run::{Ended, Run};
use crate::{Gateway, Request, View};

/// A call that runs once its intent is written.
pub(crate) struct Ready {
    pub(crate) call: Call,
    pub(crate) entry: Arc<Entry>,
    view: Arc<View>,
    /// Reason code with which it is allowed.
    reason: &'static str,
    _permit: Permit,
}

/// A call that was evaluated in one snapshot.
pub(crate) struct Looked {
    pub(crate) entry: Arc<Entry>,
    pub(crate) view: Arc<View>,
    pub(crate) args: Args,
    pub(crate) decision: Decision,
    /// Reasons why it needs an approval; empty if it needs none.
    pub(crate) holds: Vec<String>,
    /// Reason text if it is pending or denied; empty otherwise.
    pub(crate) why: Cow<'static, str>,
}

/// Next step of a call that is not refused.
enum Prepared {
    Runs(Box<Ready>),
    Waits(Box<(Looked, Reason)>),
}

/// A call that is refused.
pub(crate) struct Refused {
    pub(crate) failure: Failure,
    reason: Option<Reason>,
}

impl Refused {
    pub(crate) fn of(failure: Failure, reason: Reason) -> Self {
        Self { failure, reason: Some(reason) }
    }
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self { failure, reason: None }
    }
}

impl Gateway {
    /// Runs one call. Every call leaves a record: a refusal, or an intent and an outcome. If the
    /// caller disconnects, a call with effects continues, is told to stop, and is recorded as
    /// cancelled; one without effects is dropped and recorded as abandoned.
    pub fn call<'a>(
        self: &'a Arc<Self>,
        principal: &'a Principal,
        request: impl Into<Box<Request>>,
    ) -> impl Future<Output = Answer> + Send + 'a {
        // Boxed like the prepared call: futures carry their state through every layer above them.
        self.called(principal, request.into())
    }

    async fn called(self: &Arc<Self>, principal: &Principal, request: Box<Request>) -> Answer {
        let now = self.now();
        let id = request.id.unwrap_or_else(|| self.ids.make(now.wall));
        let size = request.args.bytes().len();
        let prepared = aside(size, || self.prepare((id, now), principal, &request));
        let result = match prepared {
            Err(refused) => self.refuse(id, principal, &request, refused),
            Ok(Prepared::Runs(ready)) => {
                match self.intent(principal, &request, &ready, now.wall).await {
                    Err(failure) => (Status::Refused, Err(failure)),
                    Ok(ticket) => self.run(principal, request, ready, ticket).await,
                }
            }
            Ok(Prepared::Waits(held)) => {
                match Box::pin(self.hold(id, principal, &request, *held)).await {
                    Err(refused) => self.refuse(id, principal, &request, refused),
                    Ok(wait) => (Status::Waiting, Ok(wait)),
                }
            }
        };
        let elapsed = self.parts.clock.mono().since(now.mono);
        let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        Answer { call: id, status: result.0, result: result.1, elapsed_ms }
    }

    /// Generates the id of a call in advance.
    pub fn new_call(&self) -> CallId {
        self.ids.make(self.parts.clock.wall())
    }

    /// Performs all steps before the intent. They have no effect.
    fn prepare(
        &self,
        (id, now): (CallId, Moment),
        principal: &Principal,
        request: &Request,
    ) -> Result<Prepared, Refused> {
        let looked = self.look(principal, request, now)?;
        let reason = match looked.decision {
            Decision::Allow(reason) => reason.as_str(),
            Decision::Deny(reason) => return Err(denied(Code::Denied, reason, &looked.why)),
            Decision::Hold(reason) => {
                // Nobody should approve a call that is certain to fail.
                can_succeed(&looked.entry, &looked.args)?;
                return Ok(Prepared::Waits(Box::new((looked, reason))));
            }
        };
        Ok(Prepared::Runs(self.permitted((id, reason), principal, request, looked)?))
    }

    /// Finds the tool, validates the arguments and decides; also for resumed calls.
    pub(crate) fn look(
        &self,
        principal: &Principal,
        request: &Request,
        now: Moment,
    ) -> Result<Looked, Refused> {
        // The call uses one snapshot to its end.
        let view = self.view(principal, request.caller_type);
        // Hidden and unknown tools get the same response, before arguments are inspected.
        let Some((entry, residual)) = view.target(&request.target) else {
            return Err(unknown(request.target.name()).into());
        };
        let (entry, residual) = (Arc::clone(entry), residual.clone());
        let limits = entry.tool.traits.limits();
        let args = request.args.within(limits).map_err(|error| {
            Failure::new(Code::InvalidArguments, format!("the arguments: {error}"))
        })?;
        let args = fits(&entry, args)?;
        let who = (principal, request.caller_type);
        let (decision, why) = self.decide(who, (&entry, &residual), &args, now);
        let holds = match decision {
            Decision::Hold(_) => self.holds(who, (&entry, &residual), &args, now),
            _ => Vec::new(),
        };
        Ok(Looked { entry, view, args, decision, holds, why })
    }

    /// Acquires the permit that a call needs.
    pub(crate) fn permitted(
        &self,
        (id, reason): (CallId, &'static str),
        principal: &Principal,
        request: &Request,
        looked: Looked,
    ) -> Result<Box<Ready>, Failure> {
        let Looked { entry, view, args, .. } = looked;
        let permit = self
            .limits
            .enter((principal.root_key(), entry.key.source.as_str()), self.tasks.token())?;
        let call = Call {
            id,
            parent: request.parent,
            continues: request.continues.clone(),
            unasked: request.unasked.clone(),
            key: entry.key.clone(),
            tool: Arc::clone(&entry.tool),
            args,
        };
        Ok(Box::new(Ready { call, entry, view, reason, _permit: permit }))
    }

    /// Writes the intent; without it the call does not run.
    pub(crate) fn intent(
        &self,
        principal: &Principal,
        request: &Request,
        ready: &Ready,
        at: Wall,
    ) -> impl Future<Output = Result<Ticket, Failure>> + Send {
        let Ready { call, entry, view, reason, .. } = ready;
        let effects = &call.tool.traits.effects;
        let args = call.args.raw().bytes();
        let intent = Intent {
            call: call.id,
            parent: call.parent,
            chain_id: request.chain_index.and(call.parent).map(CallId::chain_id),
            chain_index: request.chain_index,
            continues: call.continues.as_ref().map(|resume| resume.call),
            at,
            caller: principal.caller().clone(),
            door: request.door,
            caller_type: request.caller_type,
            tool: call.key.clone(),
            definition: entry.definition,
            catalog: view.catalog().number,
            policy: view.policy(),
            reason: (*reason).into(),
            args: aside(args.len(), || self.mac.of(args)),
            args_bytes: args.len(),
            effects: effects.any(),
            unknown_effects: effects.is_unknown(),
        };
        if *reason == Reason::Caution.as_str() {
            tracing::warn!(tool = %call.key.name, call = %call.id, "caution");
        }
        let (begun, id) = (self.parts.ledger.begin(intent, entry.need()), call.id);
        async move {
            begun.await.map_err(|error| {
                tracing::error!(%error, call = %id, "no intent, no execution");
                let told = format!("the call did not run, because it cannot be recorded: {error}");
                Failure::new(Code::RecordUnavailable, told)
            })
        }
    }

    /// Executes a call, sanitizes its result and writes the outcome. A call with effects runs in
    /// its own task, so that a disconnecting caller cannot leave it half done and unrecorded.
    pub(crate) async fn run(
        self: &Arc<Self>,
        principal: &Principal,
        request: Box<Request>,
        ready: Box<Ready>,
        ticket: Ticket,
    ) -> Ended {
        let started = self.parts.clock.mono();
        self.tainted(principal, &ready.view, &ready.entry, started);
        let effects = ready.call.tool.traits.effects.any();
        let caller = CallPrincipal { gateway: Arc::clone(self), principal: principal.clone() };
        let run = Run::new(caller, started, request, ready);
        if !effects {
            return run.finish(ticket).await;
        }
        // Cancels when this future is dropped, that is when the caller disconnects.
        let gone = run.cancel.0.clone().drop_guard();
        let task = self.tasks.spawn(async move { run.finish(ticket).await });
        let ended = task.await.unwrap_or_else(|_| {
            let failure = Failure::new(Code::Internal, "a fault in Toolkeep ended the call");
            (Status::Failed, Err(failure))
        });
        drop(gone.disarm());
        ended
    }

    fn refuse(
        &self,
        call: CallId,
        principal: &Principal,
        request: &Request,
        refused: Refused,
    ) -> Ended {
        let Refused { failure, reason } = refused;
        self.parts.ledger.refuse(Refusal {
            call,
            at: self.parts.clock.wall(),
            caller: principal.caller().clone(),
            door: request.door,
            tool: request.target.name().chars().take(tool::name::MAX).collect(),
            code: failure.code,
            reason: reason.map(|reason| reason.as_str().to_owned()),
        });
        (Status::Refused, Err(failure))
    }
}

/// Validates the arguments against the tool's schema.
pub(crate) fn fits(entry: &Entry, args: Args) -> Result<Args, Failure> {
    entry.accept(args).map_err(|faults| {
        let told: Vec<_> = faults.iter().map(ToString::to_string).collect();
        Failure::new(Code::InvalidArguments, told.join("; "))
    })
}

/// Checks that the executor accepts the arguments.
pub(crate) fn can_succeed(entry: &Entry, args: &Args) -> Result<(), Failure> {
    entry.executor.check_args(args).map_err(|told| Failure::new(Code::InvalidArguments, told))
}

fn unknown(name: &str) -> Failure {
    let shown: String = name.chars().take(tool::name::MAX).collect();
    Failure::new(Code::UnknownTool, format!("unknown tool `{}`", shown.escape_debug()))
}

pub(crate) fn denied(code: Code, reason: Reason, why: &str) -> Refused {
    Refused { failure: Failure::new(code, why), reason: Some(reason) }
}
