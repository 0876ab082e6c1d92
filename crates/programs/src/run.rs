//! One leg of a program: from its beginning or from a wait, to the next wait or to its end.

mod again;
mod call;
mod place;
mod python;
mod waves;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use gateway::Gateway;
use identity::Principal;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use tool::executor::Cancel;
use tool::outcome::Failure;
use tool::{Args, Boxed, Caged, CallerType, Code};

use crate::functions::{Function, Functions};
use crate::keep::Kept;
use crate::program::{At, Program, State};
use crate::script::{Mode, Plan};
use crate::steps::{self, Planned};
use crate::{Programs, Running};

/// Runs a program as its caller, as it is now.
pub(crate) struct Leg<'a> {
    pub(crate) programs: &'a Programs,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) who: &'a Principal,
    pub(crate) context: Running<'a>,
    /// Fires when its caller gives the program up.
    pub(crate) own: CancellationToken,
    /// What its steps took at the interpreter.
    caged: Mutex<Option<Caged>>,
}

/// Nobody gives up what goes on by itself.
pub(crate) struct Never;

impl Cancel for Never {
    fn cancelled(&self) -> Boxed<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn is_cancelled(&self) -> bool {
        false
    }
}

/// How far a leg came.
pub(crate) enum Came {
    /// To the end, with what the whole comes to.
    Done(Value),
    /// To an exception.
    Failed(String),
    /// To a held call.
    Waits(Box<At>),
    /// To calls of these tools about which nobody decided in time.
    Paused(Box<At>, Vec<String>),
}

/// Why a leg stops without an end of its own.
pub(crate) enum Stop {
    /// It was given up.
    Cancelled,
    /// The process before ended while a call of it ran, and nobody knows what came of that.
    Lost(String),
    /// It cannot go on: nothing of it is lost that was kept.
    Fault(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Fault(failure)
    }
}

impl<'a> Leg<'a> {
    pub(crate) fn new(
        programs: &'a Programs,
        (gateway, who): (Arc<Gateway>, &'a Principal),
        context: Running<'a>,
        own: CancellationToken,
    ) -> Self {
        Self { programs, gateway, who, context, own, caged: Mutex::default() }
    }
}

impl Leg<'_> {
    /// From the beginning.
    pub(crate) async fn begun(&self, mut kept: Kept, steps: &[Planned]) -> Result<Kept, Failure> {
        let functions = self.programs.functions.of(&self.gateway, self.who);
        let named = functions.named_in(&kept.program.code);
        let started = self.programs.parts.clock.mono();
        let begun = if steps.is_empty() {
            python::begun(self, &kept.program, &named).await
        } else {
            planned(&kept.program, steps, &functions).map(|plan| (plan, None))
        };
        let (plan, python) = match begun {
            Ok(begun) => begun,
            Err(stop) => return self.settled(kept, Err(stop), started).await,
        };
        kept.program.used = plan.used;
        kept.program.fallback = plan.fallback;
        if !plan.blocked.is_empty() {
            let now = self.programs.parts.clock.wall();
            kept.program.ends(now, State::Failed, Err(refused(&plan.blocked, &functions)));
            return Ok(kept);
        }
        let came = match (plan.waves, python) {
            (Some(waves), _) => waves::begin(self, &mut kept, waves, &functions).await,
            (None, Some(python)) => python::run(self, &mut kept, python, &functions).await,
            (None, None) => {
                Err(Failure::new(Code::Internal, "the interpreter began nothing").into())
            }
        };
        self.settled(kept, came, started).await
    }

    /// From where it stands, with what its held calls came to.
    pub(crate) async fn gone_on(
        &self,
        mut kept: Kept,
        settled: Vec<call::Settled>,
    ) -> Result<Kept, Failure> {
        let Some(at) = kept.program.at.clone() else { return Ok(kept) };
        let functions = self.programs.functions.of(&self.gateway, self.who);
        // Whoever writes this first goes on with it.
        self.programs.write(&mut kept).await?;
        let started = self.programs.parts.clock.mono();
        let came = match at {
            At::Python { state, functions: names, call } => {
                let stood = python::Stood { state, names, call, settled };
                python::go_on(self, &mut kept, stood, &functions).await
            }
            At::Waves(at) => waves::go_on(self, &mut kept, *at, settled, &functions).await,
        };
        self.settled(kept, came, started).await
    }

    /// What the program would do, and nothing of it done.
    pub(crate) async fn dry(&self, program: &Program, steps: &[Planned]) -> Result<Value, Failure> {
        let functions = self.programs.functions.of(&self.gateway, self.who);
        let named = functions.named_in(&program.code);
        let plan = if steps.is_empty() {
            python::planned(self, program, &named).await
        } else {
            planned(program, steps, &functions)
        };
        let plan = match plan {
            Ok(plan) => plan,
            Err(Stop::Fault(failure)) => return Err(failure),
            Err(_) => return Err(Failure::new(Code::Cancelled, "the caller gave the call up")),
        };
        let view = self.gateway.view(self.who, CallerType::Chain);
        let empty =
            Args::check("{}").map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
        let mut decisions = BTreeMap::new();
        for name in &plan.called {
            let Some(function) = functions.find(name) else { continue };
            let (who, tool) = ((self.who, CallerType::Chain), function.tool());
            // A condition on arguments may say otherwise when they are there.
            if let Some(told) = self.gateway.explain(&view, who, tool, &empty) {
                decisions.insert(tool, json!({ "decision": told.decision, "why": told.text }));
            }
        }
        Ok(json!({
            "status": "dry_run", "calls": plan.called, "blocked": plan.blocked,
            "mode_used": plan.used, "fallback_to_seq": plan.fallback, "decisions": decisions,
            "waves": plan.waves.map(|it| it.order),
        }))
    }

    /// For the record of the call that runs it.
    pub(crate) fn tells_what_it_took(&self) {
        let took = self.caged.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(took) = took {
            (self.context.caged)(took);
        }
    }

    fn took(&self, took: Caged) {
        let mut all = self.caged.lock().unwrap_or_else(PoisonError::into_inner);
        *all = Some(took.after(all.take()));
    }

    /// Waits for this, and no longer than until the program is given up.
    async fn unless_given_up<T>(&self, work: impl Future<Output = T>) -> Result<T, Stop> {
        tokio::select! {
            biased;
            () = self.context.cancel.cancelled() => Err(Stop::Cancelled),
            () = self.own.cancelled() => Err(Stop::Cancelled),
            came = work => Ok(came),
        }
    }

    /// Writes down where it stands now.
    async fn settled(
        &self,
        mut kept: Kept,
        came: Result<Came, Stop>,
        started: tool::Mono,
    ) -> Result<Kept, Failure> {
        let elapsed = self.programs.parts.clock.mono().since(started).as_millis();
        let now = self.programs.parts.clock.wall();
        let program = &mut kept.program;
        program.elapsed_ms += u64::try_from(elapsed).unwrap_or(u64::MAX);
        match came {
            Ok(Came::Done(value)) => program.ends(now, State::Succeeded, Ok(value)),
            Ok(Came::Failed(why)) => program.ends(now, State::Failed, Err(why)),
            Ok(Came::Waits(at)) => {
                program.waits(*at);
                self.crowded(program).await;
            }
            Ok(Came::Paused(at, tools)) => program.pauses(*at, &tools),
            Err(Stop::Cancelled) => {
                let why = "it was cancelled by its caller".to_owned();
                program.ends(now, State::Cancelled, Err(why));
            }
            Err(Stop::Lost(why)) => program.ends(now, State::Unknown, Err(why)),
            Err(Stop::Fault(failure)) => program.ends(now, State::Failed, Err(failure.message)),
        }
        // One that paused has waited, so it is kept.
        if kept.program.state != State::Waiting && !kept.is_kept() {
            return Ok(kept);
        }
        match self.programs.write(&mut kept).await {
            Err(failure) if matches!(failure.code, Code::RateLimited | Code::TooLarge) => {
                self.fail_waiting(&mut kept.program, failure.message).await;
                if kept.is_kept() {
                    self.programs.write(&mut kept).await?;
                }
            }
            written => written?,
        }
        Ok(kept)
    }

    /// Where too many programs wait already, this one does not.
    async fn crowded(&self, program: &mut Program) {
        if !self.programs.index().has_room() {
            let why = "too many programs wait already; try later".to_owned();
            self.fail_waiting(program, why).await;
        }
    }

    /// It cannot wait: its calls are taken back.
    async fn fail_waiting(&self, program: &mut Program, why: String) {
        for call in program.waits_for() {
            drop(self.gateway.withdraw(self.who, call).await);
        }
        program.ends(self.programs.parts.clock.wall(), State::Failed, Err(why));
    }

    /// Writes down where it stands, before and after each call that may have an effect: whenever the process
    /// ends, it is known what was done and what was not.
    pub(crate) async fn keeps(&self, kept: &mut Kept, at: At) -> Result<(), Stop> {
        kept.program.at = Some(at);
        Ok(self.programs.write(kept).await?)
    }

    /// The functions by their names, for a call.
    pub(crate) fn function<'f>(functions: &'f Functions, name: &str) -> Option<&'f Function> {
        functions.find(name).filter(|it| it.chain)
    }
}

/// Steps as data: their waves, and what of it is not for programs.
fn planned(program: &Program, steps: &[Planned], functions: &Functions) -> Result<Plan, Stop> {
    let waves = steps::waves(steps, &program.inputs)
        .map_err(|why| Failure::new(Code::InvalidArguments, why))?;
    let called: Vec<String> = steps.iter().map(|it| it.tool().to_owned()).collect();
    let may = |tool: &&String| Leg::function(functions, tool).is_none();
    let blocked: BTreeSet<String> = called.iter().filter(may).cloned().collect();
    let (used, waves) = (Mode::Dep, Some(waves));
    let blocked = blocked.into_iter().collect();
    Ok(Plan { called, blocked, used, fallback: false, waves, answered: None })
}

/// The gate of spec 3: in its words where a tool lacks the opt-in that they are about, and else why.
fn refused(blocked: &[String], functions: &Functions) -> String {
    let (mut others, mut closed) = (Vec::new(), Vec::new());
    let mut told = Vec::new();
    for name in blocked {
        // As the gate lists it: a tool by its name, or `TOOL(name)`.
        let own = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
        match functions.find(own.unwrap_or(name)) {
            Some(it) if it.routes() => {
                told.push(format!("`{name}` routes and never runs in a chain."));
            }
            Some(it) if it.read_only() && !it.chain => closed.push(format!("`{name}`")),
            _ => others.push(name.as_str()),
        }
    }
    if !closed.is_empty() {
        let (names, verb) = (closed.join(", "), if closed.len() == 1 { "does" } else { "do" });
        told.push(format!("{names} {verb} not allow `chain` under `allowed_callers`."));
    }
    let first = if others.is_empty() {
        String::new()
    } else {
        let others = others.join(", ");
        format!(
            " multi-tool chaining requires chain opt-in for non-read-only tools. Blocked tools: {others}."
        )
    };
    let told: String = told.iter().flat_map(|it| [" ", it.as_str()]).collect();
    format!("Structured mode:{first}{told}")
}

/// Arguments of a call by name: what has no name takes those of the parameters, in order.
pub(crate) fn named(
    function: &Function,
    args: Vec<Value>,
    mut kwargs: Map<String, Value>,
) -> Result<Map<String, Value>, String> {
    if args.is_empty() {
        return Ok(kwargs);
    }
    let (tool, parameters) = (function.tool(), function.parameters());
    if args.len() > parameters.len() {
        let (given, most) = (args.len(), parameters.len());
        return Err(format!("{tool}() takes at most {most} arguments, {given} were given"));
    }
    for (name, value) in parameters.iter().zip(args) {
        if kwargs.contains_key(name) {
            return Err(format!("{tool}() got `{name}` twice"));
        }
        kwargs.insert(name.clone(), value);
    }
    Ok(kwargs)
}

#[cfg(test)]
mod tests;
