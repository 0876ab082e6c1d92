//! A program as Python: from call to call.

use serde_json::{Map, Value};

use super::call::{Called, note};
use super::{Came, Leg, Stop, named};
use crate::functions::Functions;
use crate::keep::Kept;
use crate::program::{At, Wave};
use crate::script::{self, Answered, Asked, Kind};
use tool::outcome::Answer;

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
    (state, names, (answer, came)): (String, Vec<String>, (Answer, script::Came)),
    functions: &Functions,
) -> Result<Came, Stop> {
    let known = kept.program.calls.iter().find(|it| it.call == answer.call);
    let tool = known.map(|it| it.tool.clone()).unwrap_or_default();
    note(&mut kept.program, &tool, &answer);
    wave(kept, &tool, &answer);
    let asked = Asked::GoOn { state: &state, functions: &names, came: &came };
    let answered = leg.asked(&asked).await?;
    run(leg, kept, (names, answered), functions).await
}

async fn run(
    leg: &Leg<'_>,
    kept: &mut Kept,
    (names, mut answered): (Vec<String>, Answered),
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
        let came = match called(leg, kept, (function, args, kwargs), functions).await? {
            Called::To(came) => came,
            Called::Held(call) => {
                return Ok(Came::Waits(Box::new(At::Python { state, functions: names, call })));
            }
        };
        let asked = Asked::GoOn { state: &state, functions: &names, came: &came };
        answered = leg.asked(&asked).await?;
    }
}

type Wanted = (String, Vec<Value>, Map<String, Value>);

async fn called(
    leg: &Leg<'_>,
    kept: &mut Kept,
    (mut name, mut args, kwargs): Wanted,
    functions: &Functions,
) -> Result<Called, Stop> {
    let raised = |kind, message| Ok(Called::To(script::Came::Raised { kind, message }));
    if matches!(name.as_str(), "TOOL" | "CALL") {
        match (!args.is_empty()).then(|| args.remove(0)) {
            Some(Value::String(tool)) => name = tool,
            _ => {
                return raised(Kind::Arguments, format!("{name}() needs the name of a tool first"));
            }
        }
    }
    let Some(function) = Leg::function(functions, &name) else {
        let name: String = name.chars().take(100).flat_map(char::escape_debug).collect();
        let told =
            format!("there is no tool `{name}` for programs; get_chainable_tools lists them");
        return raised(Kind::Failed, told);
    };
    let args = match named(function, args, kwargs) {
        Ok(args) => args,
        Err(told) => return raised(Kind::Arguments, told),
    };
    if let Err(told) = Leg::has_room(&kept.program, 1) {
        return Err(Stop::Fault(tool::outcome::Failure::new(tool::Code::TooLarge, told)));
    }
    if !function.read_only() {
        leg.keeps(kept).await?;
    }
    let (answer, called) = leg.call(kept.program.id, function, &args).await?;
    note(&mut kept.program, function.tool(), &answer);
    if !matches!(called, Called::Held(_)) {
        wave(kept, function.tool(), &answer);
    }
    let done = kept.program.calls.len();
    #[expect(clippy::cast_precision_loss, reason = "calls are bounded far below 2^53")]
    leg.context.progress.report(done as f64, None, Some(function.tool()));
    Ok(called)
}

/// In order, each call is a wave of its own.
fn wave(kept: &mut Kept, tool: &str, answer: &Answer) {
    kept.program.waves.push(Wave {
        tools: vec![tool.to_owned()],
        elapsed_ms: answer.elapsed_ms,
        parallel_mutations: false,
    });
}
