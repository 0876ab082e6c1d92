//! A program as Python: from call to call.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};

use super::again::{self, Stands};
use super::call::{Called, Settled, note};
use super::place::Place;
use super::{Came, Leg, Stop, named};
use crate::functions::{Function, Functions};
use crate::keep::Kept;
use crate::program::{AtCall, Making, Program, Wave};
use crate::script::{self, Answered, Asked, Kind, Mode, Plan, ToPlan, Traits};
use tool::Code;
use tool::outcome::{Answer, Failure, Status};

/// A program whose call takes longer gives its place at the interpreter to others.
const SHORT: Duration = Duration::from_millis(20);

/// Where Python stood.
pub(crate) struct Stood {
    pub(crate) state: String,
    pub(crate) names: Vec<String>,
    pub(crate) call: AtCall,
    /// What came of the held call.
    pub(crate) settled: Vec<Settled>,
}

/// A program that has begun: where it stands, and what came of its first step.
pub(crate) type Begun = (Place, Answered);

/// Plans it; what runs as Python, and may, has begun.
pub(crate) async fn begun(
    leg: &Leg<'_>,
    program: &Program,
    named: &BTreeMap<String, Function>,
) -> Result<(Plan, Option<Begun>), Stop> {
    let names = named.keys().cloned().chain(["TOOL".to_owned(), "CALL".to_owned()]);
    let mut place = Place::new(leg, names.collect()).await?;
    let functions = traits(named);
    let plan = to_plan(program, &functions);
    let asked = Asked::Begin { plan, inputs: &program.inputs };
    let mut plan: Plan = place.asked(leg, &asked).await?;
    let python = plan.answered.take();
    if python.is_none() {
        place.over(leg);
    }
    Ok((plan, python.map(|answered| (place, answered))))
}

/// Plans it alone.
pub(crate) async fn planned(
    leg: &Leg<'_>,
    program: &Program,
    named: &BTreeMap<String, Function>,
) -> Result<Plan, Stop> {
    let mut place = Place::new(leg, Vec::new()).await?;
    let functions = traits(named);
    let plan = place.asked(leg, &Asked::Plan(to_plan(program, &functions))).await?;
    place.over(leg);
    Ok(plan)
}

fn traits(named: &BTreeMap<String, Function>) -> BTreeMap<String, Traits> {
    let traits = |it: &Function| Traits { read_only: it.read_only(), chain: it.chain };
    named.iter().map(|(name, it)| (name.clone(), traits(it))).collect()
}

fn to_plan<'a>(program: &'a Program, functions: &'a BTreeMap<String, Traits>) -> ToPlan<'a> {
    ToPlan {
        code: &program.code,
        functions,
        inputs: program.inputs.keys().map(String::as_str).collect(),
        mode: program.mode,
        parallel: program.mode == Mode::Seq,
        parallel_mutations: program.parallel_mutations,
    }
}

pub(crate) async fn go_on(
    leg: &Leg<'_>,
    kept: &mut Kept,
    stood: Stood,
    functions: &Functions,
) -> Result<Came, Stop> {
    let Stood { state, names, call, settled } = stood;
    let mut place = Place::kept(state, names);
    let called = match call {
        AtCall::Came(came) => To::Came(came),
        AtCall::Held(held) => {
            let none = || Failure::new(Code::Internal, "the program waits for nothing");
            let settled = settled.into_iter().next().ok_or_else(none)?;
            if settled.is_expired() {
                return paused(leg, kept, (&mut place, held), functions).await;
            }
            was_held(leg, kept, (&mut place, held, settled), functions).await?
        }
        AtCall::Making(making) => made_again(leg, kept, (&mut place, making), functions).await?,
    };
    let came = match called {
        To::Came(came) => came,
        To::Held(held) => return waits(leg, place, held).await,
    };
    let answered = place.answered(leg, &came).await?;
    run(leg, kept, (place, answered), functions).await
}

/// What a call came to.
enum To {
    Came(script::Came),
    Held(Making),
}

impl To {
    fn of(called: Called, making: Making) -> Self {
        match called {
            Called::To(came) => Self::Came(came),
            Called::Held(call) => Self::Held(Making { call, ..making }),
        }
    }
}

/// Nobody decided in time about a held call: it was not made, and will be when its program is resumed.
async fn paused(
    leg: &Leg<'_>,
    kept: &mut Kept,
    (place, held): (&mut Place, Making),
    functions: &Functions,
) -> Result<Came, Stop> {
    kept.program.forgets(held.call);
    let function = Leg::function(functions, &held.function);
    let tool = function.map_or(held.function.as_str(), Function::tool).to_owned();
    let making = Making { call: leg.named_call(), ..held };
    Ok(Came::Paused(Box::new(place.at(leg, AtCall::Making(making)).await?), vec![tool]))
}

/// A call that was held and has ended.
async fn was_held(
    leg: &Leg<'_>,
    kept: &mut Kept,
    (place, held, Settled { answer, came }): (&mut Place, Making, Settled),
    functions: &Functions,
) -> Result<To, Stop> {
    let function = Leg::function(functions, &held.function);
    let tool = function.map_or(held.function.as_str(), Function::tool).to_owned();
    noted(kept, &tool, &answer);
    let Some(function) = function.filter(|_| answer.status == Status::Unknown) else {
        return match answer.status {
            Status::Unknown => Err(again::lost(answer.call, None)),
            _ => Ok(To::Came(came)),
        };
    };
    let call = leg.once_more(answer.call, function)?;
    made(leg, kept, (place, Making { call, ..held }), function).await
}

/// A call that was being made when the process ended.
async fn made_again(
    leg: &Leg<'_>,
    kept: &mut Kept,
    (place, making): (&mut Place, Making),
    functions: &Functions,
) -> Result<To, Stop> {
    let function = Leg::function(functions, &making.function);
    match leg.stands(making.call, function).await? {
        Stands::Known(answer, called) => {
            let tool = function.map_or(making.function.as_str(), Function::tool).to_owned();
            noted(kept, &tool, &answer);
            Ok(To::of(called, making))
        }
        Stands::ToMake(call) => match function {
            Some(function) => made(leg, kept, (place, Making { call, ..making }), function).await,
            None => Ok(no_tool(&making.function)),
        },
    }
}

/// From what the last step came to.
pub(crate) async fn run(
    leg: &Leg<'_>,
    kept: &mut Kept,
    (mut place, mut answered): Begun,
    functions: &Functions,
) -> Result<Came, Stop> {
    loop {
        let wanted = match answered {
            Answered::Done { value, printed } => {
                place.over(leg);
                kept.program.prints(&printed);
                return Ok(Came::Done(value));
            }
            Answered::Raised { message, printed } => {
                place.over(leg);
                kept.program.prints(&printed);
                return Ok(Came::Failed(message));
            }
            Answered::Call { function, args, kwargs, printed } => {
                kept.program.prints(&printed);
                (function, args, kwargs)
            }
        };
        let came = match called(leg, kept, (&mut place, wanted), functions).await? {
            To::Came(came) => came,
            To::Held(held) => return waits(leg, place, held).await,
        };
        answered = place.answered(leg, &came).await?;
    }
}

async fn waits(leg: &Leg<'_>, mut place: Place, held: Making) -> Result<Came, Stop> {
    place.leaves(leg).await?;
    Ok(Came::Waits(Box::new(place.at(leg, AtCall::Held(held)).await?)))
}

type Wanted = (String, Vec<Value>, Map<String, Value>);

async fn called(
    leg: &Leg<'_>,
    kept: &mut Kept,
    (place, (mut name, mut args, kwargs)): (&mut Place, Wanted),
    functions: &Functions,
) -> Result<To, Stop> {
    if matches!(name.as_str(), "TOOL" | "CALL") {
        let Some(Value::String(tool)) = (!args.is_empty()).then(|| args.remove(0)) else {
            let told = format!("{name}() needs the name of a tool first");
            return Ok(raised(Kind::Arguments, told));
        };
        name = tool;
    }
    let Some(function) = Leg::function(functions, &name) else { return Ok(no_tool(&name)) };
    let args = match named(function, args, kwargs) {
        Ok(args) => args,
        Err(told) => return Ok(raised(Kind::Arguments, told)),
    };
    if let Err(told) = Leg::has_room(&kept.program, 1) {
        return Err(Failure::new(Code::TooLarge, told).into());
    }
    let making = Making { call: leg.named_call(), function: name, args };
    made(leg, kept, (place, making), function).await
}

/// Makes a call; one with effects is written down before and after.
async fn made(
    leg: &Leg<'_>,
    kept: &mut Kept,
    (place, making): (&mut Place, Making),
    function: &Function,
) -> Result<To, Stop> {
    let index = kept.program.index_of(making.call);
    let (id, effects) = ((kept.program.id, making.call, index), !function.read_only());
    if effects {
        let at = place.at(leg, AtCall::Making(making.clone())).await?;
        leg.keeps(kept, at).await?;
    }
    let (answer, called) = {
        let mut calling = std::pin::pin!(leg.call(id, function, &making.args));
        if let Ok(called) = tokio::time::timeout(SHORT, &mut calling).await {
            called?
        } else {
            place.leaves(leg).await?;
            calling.await?
        }
    };
    noted(kept, function.tool(), &answer);
    if let (Called::To(came), true) = (&called, effects) {
        let at = place.at(leg, AtCall::Came(came.clone())).await?;
        leg.keeps(kept, at).await?;
    }
    leg.programs.index().tells(&kept.program);
    let done = kept.program.calls.len();
    #[expect(clippy::cast_precision_loss, reason = "calls are bounded far below 2^53")]
    leg.context.progress.report(done as f64, None, Some(function.tool()));
    Ok(To::of(called, making))
}

fn raised(kind: Kind, message: String) -> To {
    To::Came(script::Came::Raised { kind, message })
}

fn no_tool(name: &str) -> To {
    let name: String = name.chars().take(100).flat_map(char::escape_debug).collect();
    let told = format!("there is no tool `{name}` for programs; get_chainable_tools lists them");
    raised(Kind::Failed, told)
}

/// In order, each call that has ended is a wave of its own.
fn noted(kept: &mut Kept, tool: &str, answer: &Answer) {
    note(&mut kept.program, tool, answer);
    if !matches!(answer.result, Ok(tool::Step::Wait(_))) {
        kept.program.waves.push(Wave {
            tools: vec![tool.to_owned()],
            elapsed_ms: answer.elapsed_ms,
            parallel_mutations: false,
        });
    }
}
