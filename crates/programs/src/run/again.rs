//! A call that was being made when the process ended: whether it was made, and what came of it.

use std::time::Duration;

use tool::executor::Wait;
use tool::outcome::{Answer, Failure, Status};
use tool::{CallId, Code, Step};

use super::call::{Called, came};
use super::{Leg, Stop};
use crate::functions::Function;

/// How a call stands that the process before was making.
pub(crate) enum Stands {
    /// It was held, and this has come of it or will.
    Known(Answer, Called),
    /// It was not made, or may be made twice: with this id.
    ToMake(CallId),
}

impl Leg<'_> {
    /// Looks it up. Where nobody can know whether it had its effect, the program ends.
    pub(crate) async fn stands(
        &self,
        call: CallId,
        function: Option<&Function>,
    ) -> Result<Stands, Stop> {
        match self.gateway.settled(self.who, call, Duration::ZERO).await {
            // It was approved and had begun.
            Ok(answer) if answer.status == Status::Unknown => {
                let function = function.ok_or_else(|| lost(call, None))?;
                return Ok(Stands::ToMake(self.once_more(call, function)?));
            }
            Ok(answer) => {
                let called = match &answer.result {
                    Ok(Step::Wait(Wait::Approval(_))) => Called::Held(call),
                    _ => Called::To(came(&answer)),
                };
                return Ok(Stands::Known(answer, called));
            }
            Err(failure) if failure.code == Code::NotFound => {}
            Err(failure) => return Err(failure.into()),
        }
        match self.recorded(call).await? {
            // No intent on record, no execution.
            None => Ok(Stands::ToMake(call)),
            // Nothing ran, and the same will be said again.
            Some(Status::Refused) => Ok(Stands::ToMake(self.named_call())),
            Some(_) => match function {
                Some(function) => Ok(Stands::ToMake(self.once_more(call, function)?)),
                None => Err(lost(call, None)),
            },
        }
    }

    /// The id for a call that is made once more, because a second changes nothing that the first did not.
    pub(crate) fn once_more(&self, call: CallId, function: &Function) -> Result<CallId, Stop> {
        if function.may_repeat() {
            return Ok(self.named_call());
        }
        Err(lost(call, Some(function)))
    }

    pub(super) async fn recorded(&self, call: CallId) -> Result<Option<Status>, Failure> {
        let told = |why: &dyn std::fmt::Display| {
            let told = format!("the record of the call `{call}` cannot be read: {why}");
            Failure::new(Code::RecordUnavailable, told)
        };
        self.programs.records().status(call).await.map_err(|error| told(&error))
    }
}

/// Nobody knows what came of this call.
pub(crate) fn lost(call: CallId, function: Option<&Function>) -> Stop {
    let tool = function.map_or("a tool that is gone", Function::tool);
    Stop::Lost(format!(
        "the server ended while `{tool}` ran (call {call}): whether it had its effect is unknown, and it is \
         not run again by itself"
    ))
}
