//! One leg of a program: from its beginning or from a wait, to the next wait or to its end.

mod call;
mod python;
mod waves;

use std::collections::BTreeMap;
use std::sync::Arc;

use gateway::Gateway;
use identity::Principal;
use serde_json::{Map, Value, json};
use tool::outcome::Failure;
use tool::{Args, CallerType, Code, Json};

use crate::functions::{Function, Functions};
use crate::keep::Kept;
use crate::program::{At, Program, State};
use crate::script::{Asked, Mode, Plan, Traits};
use crate::{Programs, Running};

/// Runs a program as its caller, as it is now.
pub(crate) struct Leg<'a> {
    pub(crate) programs: &'a Programs,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) who: &'a Principal,
    pub(crate) context: Running<'a>,
}

/// How far a leg came.
pub(crate) enum Came {
    /// To the end, with what the whole comes to.
    Done(Value),
    /// To an exception.
    Failed(String),
    /// To a held call.
    Waits(Box<At>),
}

/// Why a leg stops without an end of its own.
pub(crate) enum Stop {
    /// It was given up.
    Cancelled,
    /// It cannot go on: nothing of it is lost that was kept.
    Fault(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Fault(failure)
    }
}

impl Leg<'_> {
    /// From the beginning.
    pub(crate) async fn begun(&self, mut kept: Kept) -> Result<Kept, Failure> {
        let functions = self.programs.functions.of(&self.gateway, self.who);
        let named = functions.named_in(&kept.program.code);
        let plan = self.plan(&kept.program, &named).await?;
        kept.program.used = plan.used;
        kept.program.fallback = plan.fallback;
        if !plan.blocked.is_empty() {
            kept.program.ends(State::Failed, Err(refused(&plan.blocked)));
            return Ok(kept);
        }
        let started = self.programs.parts.clock.mono();
        let came = if let Some(waves) = plan.waves {
            waves::begin(self, &mut kept, waves, &functions).await
        } else {
            let names = named.keys().cloned().chain(["TOOL".to_owned(), "CALL".to_owned()]);
            python::begin(self, &mut kept, names.collect(), &functions).await
        };
        self.settled(kept, came, started).await
    }

    /// From a wait, once what it waited for is settled; as it was where it is not.
    pub(crate) async fn gone_on(&self, mut kept: Kept) -> Result<Kept, Failure> {
        let Some(at) = kept.program.at.clone() else { return Ok(kept) };
        let Some(settled) = self.decided(&kept).await? else { return Ok(kept) };
        let functions = self.programs.functions.of(&self.gateway, self.who);
        kept.program.state = State::Running;
        // Whoever writes this first goes on with it.
        kept.write(self.programs.parts.store.as_ref()).await?;
        let started = self.programs.parts.clock.mono();
        let came = match at {
            At::Python { state, functions: names, .. } => {
                let first = settled
                    .into_iter()
                    .next()
                    .ok_or_else(|| Failure::new(Code::Internal, "the program waits for nothing"))?;
                python::go_on(self, &mut kept, (state, names, first), &functions).await
            }
            At::Waves(at) => waves::go_on(self, &mut kept, *at, settled, &functions).await,
        };
        self.settled(kept, came, started).await
    }

    /// What the program would do, and nothing of it done.
    pub(crate) async fn dry(&self, program: &Program) -> Result<Value, Failure> {
        let functions = self.programs.functions.of(&self.gateway, self.who);
        let named = functions.named_in(&program.code);
        let plan = self.plan(program, &named).await?;
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

    async fn plan(
        &self,
        program: &Program,
        named: &BTreeMap<String, Function>,
    ) -> Result<Plan, Failure> {
        let functions: BTreeMap<String, Traits> = named
            .iter()
            .map(|(name, it)| (name.clone(), Traits { read_only: it.read_only(), chain: it.chain }))
            .collect();
        let asked = Asked::Plan {
            code: &program.code,
            functions: &functions,
            inputs: program.inputs.keys().map(String::as_str).collect(),
            mode: program.mode,
            parallel: program.mode == Mode::Seq,
            parallel_mutations: program.parallel_mutations,
        };
        self.asked(&asked).await
    }

    /// Asks the interpreter.
    pub(crate) async fn asked<T: for<'de> serde::Deserialize<'de>>(
        &self,
        asked: &Asked<'_>,
    ) -> Result<T, Failure> {
        let stepping = self.programs.parts.interpreter.step(Json::of(asked));
        let answer = stepping.await.map_err(|why| Failure::new(Code::InvalidArguments, why))?;
        answer.read().map_err(|error| {
            Failure::new(
                Code::Internal,
                format!("the interpreter answered something else: {error}"),
            )
        })
    }

    /// Writes down where it stands now.
    async fn settled(
        &self,
        mut kept: Kept,
        came: Result<Came, Stop>,
        started: tool::Mono,
    ) -> Result<Kept, Failure> {
        let elapsed = self.programs.parts.clock.mono().since(started).as_millis();
        let program = &mut kept.program;
        program.elapsed_ms += u64::try_from(elapsed).unwrap_or(u64::MAX);
        match came {
            Ok(Came::Done(value)) => program.ends(State::Succeeded, Ok(value)),
            Ok(Came::Failed(why)) => program.ends(State::Failed, Err(why)),
            Ok(Came::Waits(at)) => {
                program.waits(*at);
                self.crowded(program).await;
            }
            Err(Stop::Cancelled) => {
                program.ends(State::Cancelled, Err("it was given up by its caller".to_owned()));
            }
            Err(Stop::Fault(failure)) => program.ends(State::Failed, Err(failure.message)),
        }
        let waits = program.state == State::Waiting;
        if !waits {
            program.ended = Some(self.programs.parts.clock.wall());
        }
        if waits || kept.is_kept() {
            kept.write(self.programs.parts.store.as_ref()).await?;
        }
        Ok(kept)
    }

    /// Where too many programs wait already, this one does not: its calls are taken back.
    async fn crowded(&self, program: &mut Program) {
        if self.programs.index().has_room() {
            return;
        }
        for call in program.waits_for() {
            drop(self.gateway.withdraw(self.who, call).await);
        }
        program.ends(State::Failed, Err("too many programs wait already; try later".to_owned()));
    }

    /// A program whose call may have an effect is kept before: what it was doing can be told then, whatever
    /// happens.
    pub(crate) async fn keeps(&self, kept: &mut Kept) -> Result<(), Stop> {
        if kept.is_kept() {
            return Ok(());
        }
        Ok(kept.write(self.programs.parts.store.as_ref()).await?)
    }

    /// The functions by their names, for a call.
    pub(crate) fn function<'f>(functions: &'f Functions, name: &str) -> Option<&'f Function> {
        functions.find(name).filter(|it| it.chain)
    }
}

/// The gate of spec 3, in its words.
fn refused(blocked: &[String]) -> String {
    let blocked = blocked.join(", ");
    format!(
        "Structured mode: multi-tool chaining requires chain opt-in for non-read-only tools. Blocked tools: {blocked}."
    )
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
    for (name, value) in parameters.into_iter().zip(args) {
        if kwargs.contains_key(&name) {
            return Err(format!("{tool}() got `{name}` twice"));
        }
        kwargs.insert(name, value);
    }
    Ok(kwargs)
}
