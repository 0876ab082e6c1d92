//! Where Python of a program stands: at the interpreter, or as a state that is kept.

use serde::Deserialize;
use tool::outcome::Failure;
use tool::{Code, Json};

use super::{Leg, Stop};
use crate::program::{At, AtCall};
use crate::script::{Answered, Asked, Came, Turn};

/// A program of Python, between its steps.
pub(crate) struct Place {
    /// None while it is kept alone.
    turn: Option<Box<dyn Turn>>,
    /// As the interpreter wrote it, where it was asked for since the last step.
    state: Option<String>,
    /// The functions that its script can call.
    names: Vec<String>,
}

impl Place {
    /// One that has not begun.
    pub(super) async fn new(leg: &Leg<'_>, names: Vec<String>) -> Result<Self, Stop> {
        Ok(Self { turn: Some(turn(leg).await?), state: None, names })
    }

    /// One that was kept.
    pub(super) fn kept(state: String, names: Vec<String>) -> Self {
        Self { turn: None, state: Some(state), names }
    }

    /// Asks the interpreter about it.
    pub(super) async fn asked<T: for<'de> Deserialize<'de>>(
        &mut self,
        leg: &Leg<'_>,
        asked: &Asked<'_>,
    ) -> Result<T, Stop> {
        let none = || Failure::new(Code::Internal, "the program has no place at the interpreter");
        let turn = self.turn.as_mut().ok_or_else(none)?;
        let answer = match leg.unless_given_up(turn.step(Json::of(asked))).await? {
            Ok(answer) => answer,
            Err(why) => {
                // What could not go on is gone.
                self.over(leg);
                return Err(Failure::new(Code::InvalidArguments, why).into());
            }
        };
        answer.read().map_err(|error| {
            let told = format!("the interpreter answered something else: {error}");
            Failure::new(Code::Internal, told).into()
        })
    }

    /// It goes on with what its call came to, to the next one or to its end.
    pub(super) async fn answered(&mut self, leg: &Leg<'_>, came: &Came) -> Result<Answered, Stop> {
        // Others run too.
        if self.turn.as_ref().is_some_and(|it| it.is_wanted()) {
            self.leaves(leg).await?;
        }
        let (kept, names) = (self.state.take(), std::mem::take(&mut self.names));
        let answered = match kept {
            Some(state) if self.turn.is_none() => {
                self.turn = Some(turn(leg).await?);
                self.asked(leg, &Asked::GoOn { state: &state, functions: &names, came }).await
            }
            _ => self.asked(leg, &Asked::Answer { came }).await,
        };
        self.names = names;
        answered
    }

    /// Where it stands, to be kept.
    pub(super) async fn at(&mut self, leg: &Leg<'_>, call: AtCall) -> Result<At, Stop> {
        let state = match self.state.take() {
            Some(state) => state,
            None => self.asked(leg, &Asked::Keep { leaves: false }).await?,
        };
        self.state = Some(state.clone());
        Ok(At::Python { state, functions: self.names.clone(), call })
    }

    /// It gives its place to others, and goes on from its state.
    pub(super) async fn leaves(&mut self, leg: &Leg<'_>) -> Result<(), Stop> {
        if self.turn.is_some() {
            self.state = Some(self.asked(leg, &Asked::Keep { leaves: true }).await?);
        }
        self.over(leg);
        Ok(())
    }

    /// Nothing of it is at the interpreter any more.
    pub(super) fn over(&mut self, leg: &Leg<'_>) {
        if let Some(took) = self.turn.take().and_then(Turn::over) {
            leg.took(took);
        }
    }
}

async fn turn(leg: &Leg<'_>) -> Result<Box<dyn Turn>, Stop> {
    let turn = leg.unless_given_up(leg.programs.parts.interpreter.turn(leg.who.caller())).await?;
    Ok(turn.map_err(|why| Failure::new(Code::Busy, why))?)
}
