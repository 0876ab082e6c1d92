//! Interpreter session of a running script: an acquired slot, or a saved interpreter state.

use serde::Deserialize;
use tool::call_outcome::CallFailure;
use tool::{ErrorCode, Json};

use super::{RunSegment, SegmentAbort};
use crate::interpreter::{CallValue, InterpreterRequest, InterpreterResponse, InterpreterSlot};
use crate::program_state::{CallPhase, Checkpoint};

/// Interpreter session of a program between its steps.
pub(crate) struct InterpreterSession {
    /// `None` while only its state is stored.
    slot: Option<Box<dyn InterpreterSlot>>,
    /// The interpreter's state, if it was captured since the last step.
    state: Option<String>,
    /// The functions that its script can call.
    function_names: Vec<String>,
}

impl InterpreterSession {
    /// Acquires a slot for a new program.
    pub(super) async fn new(
        segment: &RunSegment<'_>,
        names: Vec<String>,
    ) -> Result<Self, SegmentAbort> {
        Ok(Self { slot: Some(acquire_slot(segment).await?), state: None, function_names: names })
    }

    /// Creates a session from a stored state.
    pub(super) fn from_state(state: String, names: Vec<String>) -> Self {
        Self { slot: None, state: Some(state), function_names: names }
    }

    /// Sends a request to the interpreter.
    pub(super) async fn send_request<T: for<'de> Deserialize<'de>>(
        &mut self,
        segment: &RunSegment<'_>,
        request: &InterpreterRequest<'_>,
    ) -> Result<T, SegmentAbort> {
        let none = || CallFailure::new(ErrorCode::Internal, "the interpreter has no such program");
        let slot = self.slot.as_mut().ok_or_else(none)?;
        let answer = match segment.until_cancelled(slot.send_request(Json::encode(request))).await?
        {
            Ok(answer) => answer,
            Err(why) => {
                // A failed step ends the session.
                self.close_session(segment);
                return Err(CallFailure::new(ErrorCode::InvalidArguments, why).into());
            }
        };
        answer.decode().map_err(|error| {
            let message = format!("invalid response of the interpreter: {error}");
            CallFailure::new(ErrorCode::Internal, message).into()
        })
    }

    /// Resumes the script with the result of its call, until the next call or the end.
    pub(super) async fn resume_with(
        &mut self,
        segment: &RunSegment<'_>,
        value: &CallValue,
    ) -> Result<InterpreterResponse, SegmentAbort> {
        // Other programs wait for a slot.
        if self.slot.as_ref().is_some_and(|it| it.has_waiters()) {
            self.suspend_session(segment).await?;
        }
        let (stored, names) = (self.state.take(), std::mem::take(&mut self.function_names));
        let response = match stored {
            Some(state) if self.slot.is_none() => {
                self.slot = Some(acquire_slot(segment).await?);
                self.send_request(
                    segment,
                    &InterpreterRequest::Restore { state: &state, functions: &names, came: value },
                )
                .await
            }
            _ => self.send_request(segment, &InterpreterRequest::Continue { came: value }).await,
        };
        self.function_names = names;
        response
    }

    /// Captures the current position as a checkpoint.
    pub(super) async fn capture_checkpoint(
        &mut self,
        segment: &RunSegment<'_>,
        call: CallPhase,
    ) -> Result<Checkpoint, SegmentAbort> {
        let state = match self.state.take() {
            Some(state) => state,
            None => {
                self.send_request(segment, &InterpreterRequest::SaveState { leaves: false }).await?
            }
        };
        self.state = Some(state.clone());
        Ok(Checkpoint::Python { state, functions: self.function_names.clone(), call })
    }

    /// Releases the slot; the session later resumes from its state.
    pub(super) async fn suspend_session(
        &mut self,
        segment: &RunSegment<'_>,
    ) -> Result<(), SegmentAbort> {
        if self.slot.is_some() {
            self.state = Some(
                self.send_request(segment, &InterpreterRequest::SaveState { leaves: true }).await?,
            );
        }
        self.close_session(segment);
        Ok(())
    }

    /// Releases the slot, if the session has one.
    pub(super) fn close_session(&mut self, segment: &RunSegment<'_>) {
        if let Some(took) = self.slot.take().and_then(InterpreterSlot::release_slot) {
            segment.add_usage(took);
        }
    }
}

async fn acquire_slot(segment: &RunSegment<'_>) -> Result<Box<dyn InterpreterSlot>, SegmentAbort> {
    let slot = segment
        .until_cancelled(
            segment.programs.dependencies.interpreter.acquire_slot(segment.principal.caller()),
        )
        .await?;
    Ok(slot.map_err(|why| CallFailure::new(ErrorCode::Busy, why))?)
}
