//! A program as Python: from call to call.

use serde_json::{Map, Value};

use super::again::{self, Stands};
use super::call::{Called, Settled, note};
use super::{Came, Leg, Stop, named};
use crate::functions::{Function, Functions};
use crate::keep::Kept;
use crate::program::{At, AtCall, Making, Wave};
use crate::script::{self, Answered, Asked, Kind};
use tool::outcome::{Answer, Failure, Status};
use tool::{CallId, Code};

/// Where Python stood.
pub(crate) struct Stood {
    pub(crate) state: String,
    pub(crate) names: Vec<String>,
    pub(crate) call: AtCall,
    /// What came of the held call.
    pub(crate) settled: Vec<Settled>,
}

/// One stop of Python: the state that it stopped in, and the functions it knows.
struct Paused {
    state: String,
    names: Vec<String>,
}

impl Paused {
    fn at(&self, call: AtCall) -> At {
        At::Python { state: self.state.clone(), functions: self.names.clone(), call }
    }
}

pub(crate) async fn begin(
    leg: &Leg<'_>,
    kept: &mut Kept,
    names: Vec<String>,
    functions: &Functions,
) -> Result<Came, Stop> {
    let asked =
        Asked::Begin { code: &kept.program.code, inputs: &kept.program.inputs, functions: &names };
    let answered = leg.asked(&asked).await?;
    run(leg, kept, (names, answered), functions).await
}

pub(crate) async fn go_on(
    leg: &Leg<'_>,
    kept: &mut Kept,
    stood: Stood,
    functions: &Functions,
) -> Result<Came, Stop> {
    let Stood { state, names, call, settled } = stood;
    let stop = Paused { state, names };
    let called = match call {
        AtCall::Came(came) => To::Came(came),
        AtCall::Held(held) => {
            let none = || Failure::new(Code::Internal, "the program waits for nothing");
            let settled = settled.into_iter().next().ok_or_else(none)?;
            was_held(leg, kept, (&stop, held, settled), functions).await?
        }
        AtCall::Making(making) => made_again(leg, kept, (&stop, making), functions).await?,
    };
    let came = match called {
        To::Came(came) => came,
        To::Held(held) => return Ok(Came::Waits(Box::new(stop.at(AtCall::Held(held))))),
    };
    let asked = Asked::GoOn { state: &stop.state, functions: &stop.names, came: &came };
    let answered = leg.asked(&asked).await?;
    run(leg, kept, (stop.names, answered), functions).await
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

/// A call that was held and has ended.
async fn was_held(
    leg: &Leg<'_>,
    kept: &mut Kept,
    (stop, held, (answer, came)): (&Paused, Making, Settled),
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
    made(leg, kept, (stop, Making { call, ..held }), function).await
}

/// A call that was being made when the process ended.
async fn made_again(
    leg: &Leg<'_>,
    kept: &mut Kept,
    (stop, making): (&Paused, Making),
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
            Some(function) => made(leg, kept, (stop, Making { call, ..making }), function).await,
            None => Ok(no_tool(&making.function)),
        },
    }
}

async fn run(
    leg: &Leg<'_>,
    kept: &mut Kept,
    (mut names, mut answered): (Vec<String>, Answered),
    functions: &Functions,
) -> Result<Came, Stop> {
    loop {
        let (function, args, kwargs, state) = match answered {
            Answered::Done { value, printed } => {
                kept.program.prints(&printed);
                return Ok(Came::Done(value));
            }
            Answered::Raised { message, printed } => {
                kept.program.prints(&printed);
                return Ok(Came::Failed(message));
            }
            Answered::Call { function, args, kwargs, state, printed } => {
                kept.program.prints(&printed);
                (function, args, kwargs, state)
            }
        };
        let stop = Paused { state, names };
        let came = match called(leg, kept, (&stop, (function, args, kwargs)), functions).await? {
            To::Came(came) => came,
            To::Held(held) => return Ok(Came::Waits(Box::new(stop.at(AtCall::Held(held))))),
        };
        let asked = Asked::GoOn { state: &stop.state, functions: &stop.names, came: &came };
        answered = leg.asked(&asked).await?;
        names = stop.names;
    }
}

type Wanted = (String, Vec<Value>, Map<String, Value>);

async fn called(
    leg: &Leg<'_>,
    kept: &mut Kept,
    (stop, (mut name, mut args, kwargs)): (&Paused, Wanted),
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
    made(leg, kept, (stop, making), function).await
}

/// Makes a call; one with effects is written down before and after.
async fn made(
    leg: &Leg<'_>,
    kept: &mut Kept,
    (stop, making): (&Paused, Making),
    function: &Function,
) -> Result<To, Stop> {
    let (id, effects): ((CallId, CallId), bool) =
        ((kept.program.id, making.call), !function.read_only());
    if effects {
        leg.keeps(kept, stop.at(AtCall::Making(making.clone()))).await?;
    }
    let (answer, called) = leg.call(id, function, &making.args).await?;
    noted(kept, function.tool(), &answer);
    if let (Called::To(came), true) = (&called, effects) {
        leg.keeps(kept, stop.at(AtCall::Came(came.clone()))).await?;
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
