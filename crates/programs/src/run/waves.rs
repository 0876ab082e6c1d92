//! A program as waves of calls: those of one wave need nothing of each other.

use futures_util::StreamExt as _;
use serde_json::{Map, Value};
use tool::outcome::Answer;
use tool::{Boxed, CallId};

use super::call::{Called, note};
use super::{Came, Leg, Stop, named};
use crate::functions::{Function, Functions};
use crate::keep::Kept;
use crate::program::{At, AtWave, Program, Wave};
use crate::script::{self, Mode, Waves};

/// Calls of one wave at once.
const BESIDE: usize = 4;

/// How a wave ended.
enum Waved {
    Over,
    Failed(String),
    Held(Vec<(usize, CallId)>),
}

/// A call of a wave.
struct Ready<'f> {
    step: usize,
    function: &'f Function,
    args: Map<String, Value>,
}

pub(crate) async fn begin(
    leg: &Leg<'_>,
    kept: &mut Kept,
    plan: Waves,
    functions: &Functions,
) -> Result<Came, Stop> {
    let values = kept.program.inputs.clone();
    let (done, held) = (Vec::new(), Vec::new());
    let standing = AtWave { plan, values, last: Value::Null, wave: 0, done, held };
    run(leg, kept, standing, functions).await
}

pub(crate) async fn go_on(
    leg: &Leg<'_>,
    kept: &mut Kept,
    mut standing: AtWave,
    settled: Vec<(Answer, script::Came)>,
    functions: &Functions,
) -> Result<Came, Stop> {
    let (mut failed, held) = (None, std::mem::take(&mut standing.held));
    for (answer, came) in settled {
        let Some((step, _)) = held.iter().find(|(_, call)| *call == answer.call) else { continue };
        note(&mut kept.program, "", &answer);
        failed = failed.or(standing.take(*step, came));
    }
    match failed.filter(|_| kept.program.used == Mode::Dep) {
        Some(told) => Ok(Came::Failed(told)),
        None => run(leg, kept, standing, functions).await,
    }
}

async fn run(
    leg: &Leg<'_>,
    kept: &mut Kept,
    mut standing: AtWave,
    functions: &Functions,
) -> Result<Came, Stop> {
    while let Some(order) = standing.plan.order.get(standing.wave) {
        let left: Vec<usize> =
            order.iter().copied().filter(|step| !standing.done.contains(step)).collect();
        let started = leg.programs.parts.clock.mono();
        let mut tools = Vec::new();
        let waved = match ready(&standing, &left, functions) {
            Ok(ready) => {
                tools.extend(ready.iter().map(|it| it.function.tool().to_owned()));
                wave(leg, kept, &mut standing, ready).await?
            }
            Err(told) => Waved::Failed(told),
        };
        let elapsed = leg.programs.parts.clock.mono().since(started).as_millis();
        let elapsed_ms = u64::try_from(elapsed).unwrap_or(u64::MAX);
        let parallel_mutations = kept.program.parallel_mutations;
        kept.program.waves.push(Wave { tools, elapsed_ms, parallel_mutations });
        match waved {
            Waved::Over => {}
            Waved::Failed(told) => return Ok(Came::Failed(told)),
            Waved::Held(held) => {
                standing.held = held;
                return Ok(Came::Waits(Box::new(At::Waves(Box::new(standing)))));
            }
        }
        (standing.wave, standing.done) = (standing.wave + 1, Vec::new());
        progress(leg, &standing);
    }
    Ok(standing.ends())
}

fn progress(leg: &Leg<'_>, standing: &AtWave) {
    let (done, all) = (standing.wave, standing.plan.order.len());
    let told = format!("wave {done} of {all}");
    #[expect(clippy::cast_precision_loss, reason = "waves are bounded far below 2^53")]
    leg.context.progress.report(done as f64, Some(all as f64), Some(&told));
}

/// The calls of these steps, with the values put in.
fn ready<'f>(
    standing: &AtWave,
    steps: &[usize],
    functions: &'f Functions,
) -> Result<Vec<Ready<'f>>, String> {
    let one = |step: &usize| {
        let wanted = standing.plan.steps.get(*step).ok_or("a step is not there")?;
        let name = wanted.function.as_str();
        let function = Leg::function(functions, name)
            .ok_or_else(|| format!("there is no tool `{name}` for programs any more"))?;
        let fill = |it: &script::Plain| {
            it.filled(&standing.values).ok_or_else(|| format!("{name}(): a name has no value"))
        };
        let args = wanted.args.iter().map(fill).collect::<Result<Vec<_>, _>>()?;
        let kwargs = wanted.kwargs.iter().map(|(key, it)| Ok((key.clone(), fill(it)?)));
        let args = named(function, args, kwargs.collect::<Result<_, String>>()?)?;
        Ok(Ready { step: *step, function, args })
    };
    steps.iter().map(one).collect()
}

/// What only looks runs first and at once, and then the others in order.
async fn wave(
    leg: &Leg<'_>,
    kept: &mut Kept,
    standing: &mut AtWave,
    ready: Vec<Ready<'_>>,
) -> Result<Waved, Stop> {
    if let Err(told) = Leg::has_room(&kept.program, ready.len()) {
        return Ok(Waved::Failed(told));
    }
    if ready.iter().any(|it| !it.function.read_only()) {
        leg.keeps(kept).await?;
    }
    let beside = |it: &Ready<'_>| it.function.read_only() || kept.program.parallel_mutations;
    let (beside, after): (Vec<_>, Vec<_>) = ready.into_iter().partition(beside);
    let id = kept.program.id;
    let calls: Vec<_> = beside.iter().map(|it| made(leg, id, it)).collect();
    let came: Vec<_> = futures_util::stream::iter(calls).buffered(BESIDE).collect().await;
    let (mut held, mut failed) = (Vec::new(), None);
    for (it, called) in beside.iter().zip(came) {
        failed = failed.or(standing.settles(&mut kept.program, it, called?, &mut held));
    }
    for it in after {
        if failed.is_some() || !held.is_empty() {
            break;
        }
        let called = leg.call(id, it.function, &it.args).await?;
        failed = standing.settles(&mut kept.program, &it, called, &mut held);
    }
    // Those that run beside each other go on whatever becomes of one; a chain stops at its first error.
    Ok(match failed.filter(|_| kept.program.used == Mode::Dep) {
        Some(told) => Waved::Failed(told),
        None if held.is_empty() => Waved::Over,
        None => Waved::Held(held),
    })
}

fn made<'a>(
    leg: &'a Leg<'a>,
    program: CallId,
    it: &'a Ready<'a>,
) -> Boxed<'a, Result<(Answer, Called), Stop>> {
    Box::pin(leg.call(program, it.function, &it.args))
}

impl AtWave {
    fn settles(
        &mut self,
        program: &mut Program,
        it: &Ready<'_>,
        (answer, called): (Answer, Called),
        held: &mut Vec<(usize, CallId)>,
    ) -> Option<String> {
        note(program, it.function.tool(), &answer);
        match called {
            Called::To(came) => self.take(it.step, came),
            Called::Held(call) => {
                held.push((it.step, call));
                None
            }
        }
    }

    /// Notes a value; gives back what was raised instead of one.
    fn take(&mut self, step: usize, came: script::Came) -> Option<String> {
        let (value, raised) = match came {
            script::Came::Value(value) => (value, None),
            script::Came::Raised { message, .. } => {
                (Value::String(format!("[ERROR: {message}]")), Some(message))
            }
        };
        self.done.push(step);
        if step + 1 == self.plan.steps.len() {
            self.last = value.clone();
        }
        if let Some(name) = self.plan.steps.get(step).and_then(|it| it.name.clone()) {
            self.values.insert(name, value);
        }
        raised
    }

    fn ends(self) -> Came {
        let Self { plan, values, last, .. } = self;
        match &plan.value {
            Some(plain) => plain.filled(&values).map_or_else(
                || Came::Failed("a name in the last value has none".to_owned()),
                Came::Done,
            ),
            None if plan.last => Came::Done(last),
            None => Came::Done(Value::Null),
        }
    }
}
