//! Resumption of an approved call: evaluated again in the current snapshot, its approval consumed,
//! executed once.

use std::sync::Arc;
use std::time::Duration;

use identity::Principal;
use policy::Decision;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tool::ledger::WaitStep;
use tool::outcome::{Answer, Failure, Status};
use tool::{CallId, Code, Limits, Refusal, StoreError};

use super::decide::changed;
use super::index::Phase;
use super::kept::{Kept, PendingRequest, mark};
use super::{Read, State, Waits, left, unavailable};
use crate::pipeline::{Ready, Refused};
use crate::run::Ended;
use crate::{Gateway, Request};

/// Delay between attempts while there is no capacity.
const AGAIN: Duration = Duration::from_millis(50);
const LONGEST_AGAIN: Duration = Duration::from_secs(2);

/// Returns true if this process has not seen the call's end.
fn is_open(phase: Option<Phase>) -> bool {
    matches!(phase, Some(Phase::Pending | Phase::Approved(_)))
}

/// Result of an attempt to resume.
enum Went {
    /// The call ended with this response.
    To(Answer),
    /// There is no capacity now; the approval is unchanged.
    Busy(Failure),
}

impl Gateway {
    /// Returns the result of a pending call to its caller, waiting up to `wait`. If the call was
    /// approved and nobody runs it, it is resumed here with this principal.
    ///
    /// # Errors
    /// [`Code::NotFound`] for unknown calls and for those of others, and if the store does not
    /// respond.
    pub async fn settled(
        self: &Arc<Self>,
        who: &Principal,
        id: CallId,
        wait: Duration,
    ) -> Result<Answer, Failure> {
        let until = self.parts.clock.mono().after(wait.min(super::LONGEST));
        let missing = || Failure::new(Code::NotFound, format!("no held call `{id}`"));
        let waits = self.waits.as_ref().ok_or_else(missing)?;
        loop {
            // Subscribes before reading, so that no change is missed.
            let mut watched = waits.index.watch(id);
            // Likewise: a call that is unfinished now, and has started when it is read, runs here.
            let phase = waits.index.phase(id);
            let read = waits.read(id).await?.ok_or_else(missing)?;
            if !read.kept.is_of(who.caller()) {
                return Err(missing());
            }
            let answer = read.kept.answer(is_open(phase));
            match (read.kept.state, phase) {
                (State::Pending | State::Approved, _) if self.is_over(waits, &read.kept) => {
                    self.expire(waits, read).await;
                    continue;
                }
                (State::Approved, Some(Phase::Approved(false)))
                    if waits.index.phase(id) == Some(Phase::Approved(false)) =>
                {
                    // The approval is recorded before the intent, even if the process ended in
                    // between.
                    let by = read.kept.decision.as_ref().map(|it| (&it.by, it.door));
                    self.note(&read.kept, WaitStep::Approved, by, Some("its caller came back"))?;
                    waits.index.move_to(id, Phase::Approved(true), None);
                    self.go_on_soon(who.clone(), id);
                }
                (State::Pending | State::Approved, _) => {}
                (State::Consumed, phase) if is_open(phase) => {}
                _ => {
                    waits.index.fetched(id);
                    return Ok(answer);
                }
            }
            let time = left(until, self.parts.clock.mono());
            let Some(watched) = watched.as_mut().filter(|_| !time.is_zero()) else {
                return Ok(answer);
            };
            tokio::select! {
                changed = watched.changed() => {
                    let told = watched.borrow_and_update().clone();
                    match (changed, told) {
                        (_, Some(told)) => {
                            waits.index.fetched(id);
                            return Ok(Answer::clone(&told));
                        }
                        (Ok(()), None) => {}
                        // Its index entry was removed; the store has the result.
                        (Err(_), None) => tokio::task::yield_now().await,
                    }
                }
                () = tokio::time::sleep(time) => return Ok(answer),
                () = waits.closing.cancelled() => return Ok(answer),
            }
        }
    }

    /// Finds a pending call of this principal that equals `request` and whose result was not
    /// fetched: for clients that can only call again.
    pub fn earlier(&self, who: &Principal, request: &Request) -> Option<CallId> {
        let index = &self.waits.as_ref()?.index;
        // There is nearly never one, and then nothing is read.
        if !index.has_unfetched(who.caller()) {
            return None;
        }
        let args = request.args.within(Limits::ARGUMENTS).ok()?;
        let view = self.view(who, request.caller_type);
        let (entry, _) = view.target(&request.target)?;
        let args = crate::pipeline::fits(entry, args).ok()?;
        let hash = catalog::arguments::digest(args.raw());
        index.unfetched(who.caller(), mark(&entry.key, hash))
    }

    /// Returns the current response of a pending call to its caller, without side effects.
    ///
    /// # Errors
    /// As [`Gateway::settled`].
    pub async fn standing(&self, who: &Principal, id: CallId) -> Result<Answer, Failure> {
        let missing = || Failure::new(Code::NotFound, format!("no held call `{id}`"));
        let waits = self.waits.as_ref().ok_or_else(missing)?;
        let here = is_open(waits.index.phase(id));
        let read = waits.read(id).await?.filter(|read| read.kept.is_of(who.caller()));
        Ok(read.ok_or_else(missing)?.kept.answer(here))
    }

    /// Returns the request of a pending call to its caller.
    ///
    /// # Errors
    /// As [`Gateway::settled`].
    pub async fn pending_request(
        &self,
        who: &Principal,
        id: CallId,
    ) -> Result<PendingRequest, Failure> {
        let missing = || Failure::new(Code::NotFound, format!("no held call `{id}`"));
        let waits = self.waits.as_ref().ok_or_else(missing)?;
        let read = waits.read(id).await?.filter(|read| read.kept.is_of(who.caller()));
        let Kept { tool, args, model_call, .. } = read.ok_or_else(missing)?.kept;
        Ok(PendingRequest { tool, args, model_call })
    }

    /// Runs an approved call in its own task. The shutdown of the server waits for it to start.
    pub(crate) fn go_on_soon(self: &Arc<Self>, who: Principal, id: CallId) {
        let (gateway, starting) = (Arc::clone(self), self.starting.token());
        drop(self.tasks.spawn(async move { gateway.run_approved(&who, id, starting).await }));
    }

    /// Resumes the call, and retries while there is no capacity.
    async fn run_approved(self: Arc<Self>, who: &Principal, id: CallId, first: TaskTrackerToken) {
        let Some(waits) = &self.waits else { return };
        let (mut again, mut first) = (AGAIN, Some(first));
        loop {
            match Box::pin(self.go_on(waits, who, (id, first.take()))).await {
                Ok(Went::To(answer)) => return waits.tell(id, Some(&answer)),
                Ok(Went::Busy(failure)) if failure.code == Code::Busy => {
                    tokio::time::sleep(again).await;
                    again = (again * 2).min(LONGEST_AGAIN);
                }
                Ok(Went::Busy(failure)) | Err(failure) => {
                    tracing::warn!(call = %id, "an approved call did not go on: {}", failure.message);
                    waits.index.move_to(id, Phase::Approved(false), None);
                    return waits.tell(id, None);
                }
            }
        }
    }

    async fn go_on(
        self: &Arc<Self>,
        waits: &Waits,
        who: &Principal,
        (id, starting): (CallId, Option<TaskTrackerToken>),
    ) -> Result<Went, Failure> {
        let gone = || Failure::new(Code::NotFound, format!("no held call `{id}`"));
        let read = waits.read(id).await?.ok_or_else(gone)?;
        if read.kept.state != State::Approved {
            return Ok(Went::To(read.kept.answer(false)));
        }
        if self.is_over(waits, &read.kept) {
            return Ok(Went::To(self.expire(waits, read).await));
        }
        let now = self.parts.clock.wall();
        let Some(who) = waits.holding.holders.renewed(&read.kept.caller, who, now) else {
            let failure = Failure::new(Code::ApprovalVoid, super::GONE);
            return Ok(Went::To(self.void(waits, read, failure).await));
        };
        let who = read.kept.as_called(&who);
        let request = Box::new(read.kept.request());
        let ready = match self.again(&who, &request, &read.kept) {
            Ok(ready) => ready,
            Err(again) if again.passes => return Ok(Went::Busy(again.failure)),
            Err(again) => return Ok(Went::To(self.void(waits, read, again.failure).await)),
        };
        drop(starting);
        let read = match self.consume(waits, read).await {
            Ok(read) => read,
            // Another process runs it, or ran it.
            Err(StoreError::Conflict { .. }) => {
                let read = waits.read(id).await?.ok_or_else(gone)?;
                return Ok(Went::To(read.kept.answer(false)));
            }
            Err(error) => return Err(unavailable(&error)),
        };
        let started = self.parts.clock.mono();
        let (status, result) = self.recorded_run(&who, request, ready, &read.kept).await;
        let elapsed = self.parts.clock.mono().since(started);
        let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let answer = Answer { call: id, status, result, elapsed_ms };
        // The call has ended and is recorded; waiters need not wait until it is stored.
        waits.tell(id, Some(&answer));
        self.done(waits, read, &answer).await;
        Ok(Went::To(answer))
    }

    /// Evaluates the call again before it runs; the approval covers the reasons it was given for,
    /// and no others.
    fn again(&self, who: &Principal, request: &Request, kept: &Kept) -> Result<Box<Ready>, Again> {
        let void = |told: String| Again::ends(Failure::new(Code::ApprovalVoid, told));
        let looked = self.look(who, request, self.now()).map_err(|refused| {
            let told = format!("since the call was held: {}", refused.failure.message);
            Again::ends(Failure::new(refused.failure.code, told))
        })?;
        if looked.entry.key != kept.tool {
            return Err(void("another tool has taken the name since the call was held".to_owned()));
        }
        if looked.entry.definition != kept.definition {
            let told = "the tool's definition has changed since the call was held; call again";
            return Err(void(told.to_owned()));
        }
        if catalog::arguments::digest(looked.args.raw()) != kept.hash {
            return Err(void("the stored arguments are not those that were approved".to_owned()));
        }
        match looked.decision {
            Decision::Allow(_) => {}
            Decision::Hold(_) => {
                if let Some(new) = looked.holds.iter().find(|it| !kept.holds.contains(it)) {
                    let told = format!(
                        "the call is held for another reason now: {} (`{new}`); call again",
                        looked.why
                    );
                    return Err(void(told));
                }
            }
            Decision::Deny(_) => {
                let told = format!("since the call was held: {}", looked.why);
                return Err(Again::ends(Failure::new(Code::Denied, told)));
            }
        }
        let id = (kept.id, "approved");
        self.permitted(id, who, request, looked).map_err(|failure| Again { failure, passes: true })
    }

    /// Consumes the approval before the call starts.
    async fn consume(&self, waits: &Waits, mut read: Read) -> Result<Read, StoreError> {
        read.kept.state = State::Consumed;
        waits.write(read).await
    }

    async fn recorded_run(
        self: &Arc<Self>,
        who: &Principal,
        request: Box<Request>,
        ready: Box<Ready>,
        kept: &Kept,
    ) -> Ended {
        match self.intent(who, &request, &ready, self.parts.clock.wall()).await {
            Err(failure) => {
                tracing::error!(call = %kept.id, "an approval is used up, and the call did not run");
                (Status::Refused, Err(failure))
            }
            Ok(ticket) => self.run(who, request, ready, ticket).await,
        }
    }

    async fn done(&self, waits: &Waits, mut read: Read, answer: &Answer) {
        let id = read.kept.id;
        let now = self.parts.clock.wall();
        read.kept.ended(State::Done, now, answer);
        match waits.write(read).await {
            Ok(read) => drop(changed(waits, &read.kept)),
            // The record has it; only a caller who comes later gets no result.
            Err(error) => tracing::error!(%error, call = %id, "what came of it is not kept"),
        }
        self.keep_ended(waits, id);
    }

    pub(crate) fn keep_ended(&self, waits: &Waits, id: CallId) {
        let due = self.parts.clock.mono().after(waits.patience().kept);
        waits.index.move_to(id, Phase::Ended, Some(due));
    }

    /// Closes a call that does not run, and writes its one refusal record.
    pub(crate) async fn close(
        &self,
        waits: &Waits,
        mut read: Read,
        (state, failure): (State, Failure),
    ) -> Result<Read, StoreError> {
        let code = failure.code;
        let answer = Answer {
            call: read.kept.id,
            status: Status::Refused,
            result: Err(failure),
            elapsed_ms: 0,
        };
        read.kept.ended(state, self.parts.clock.wall(), &answer);
        let read = waits.write(read).await?;
        let kept = &read.kept;
        self.parts.ledger.refuse(Refusal {
            call: kept.id,
            at: self.parts.clock.wall(),
            caller: kept.caller.clone(),
            door: kept.door,
            tool: kept.tool.name.to_string(),
            code,
            reason: Some(kept.reason.0.clone()),
        });
        self.keep_ended(waits, kept.id);
        waits.tell(kept.id, Some(&answer));
        Ok(read)
    }

    /// Voids an approval that no longer matches the current state.
    pub(crate) async fn void(&self, waits: &Waits, read: Read, failure: Failure) -> Answer {
        let told = failure.message.clone();
        self.closed(waits, read, (State::Void, failure), (WaitStep::Void, &told)).await
    }

    /// Closes a call, and returns its response, whoever closed it.
    pub(crate) async fn closed(
        &self,
        waits: &Waits,
        read: Read,
        how: (State, Failure),
        (step, told): (WaitStep, &str),
    ) -> Answer {
        let (id, before) = (read.kept.id, read.kept.answer(false));
        match self.close(waits, read, how).await {
            Ok(read) => {
                // A failure to record is logged; the call has not run.
                self.note(&read.kept, step, None, Some(told)).ok();
                changed(waits, &read.kept);
                read.kept.answer(false)
            }
            Err(StoreError::Conflict { .. }) => {
                let here = is_open(waits.index.phase(id));
                match waits.read(id).await {
                    Ok(Some(read)) => read.kept.answer(here),
                    _ => before,
                }
            }
            Err(error) => {
                tracing::error!(%error, call = %id, "a held call is not closed");
                before
            }
        }
    }
}

/// Reason why an approved call is not resumed.
struct Again {
    failure: Failure,
    /// True if it may be resumed later.
    passes: bool,
}

impl Again {
    fn ends(failure: Failure) -> Self {
        Self { failure, passes: false }
    }
}

impl From<Refused> for Again {
    fn from(refused: Refused) -> Self {
        Self::ends(refused.failure)
    }
}
