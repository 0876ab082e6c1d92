//! A program as waves of calls: those of one wave need nothing of each other.

use futures_util::StreamExt as _;
use serde_json::{Map, Value};
use tool::outcome::{Answer, Status};
use tool::{Boxed, CallId};

use super::again::{self, Stands};
use super::call::{Called, Settled, note};
use super::{Came, Leg, Stop, named};
use crate::functions::{Function, Functions};
use crate::keep::Kept;
use crate::program::{At, AtWave, Program, Wave};
use crate::script::{self, Mode, Step, Waves};

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
    let (done, held, making) = (Vec::new(), Vec::new(), Vec::new());
    let standing = AtWave { plan, values, last: Value::Null, wave: 0, done, held, making };
    run(leg, kept, standing, functions).await
}

pub(crate) async fn go_on(
    leg: &Leg<'_>,
    kept: &mut Kept,
    mut standing: AtWave,
    settled: Vec<Settled>,
    functions: &Functions,
) -> Result<Came, Stop> {
    let (mut failed, held) = (None, std::mem::take(&mut standing.held));
    let mut expired = Vec::new();
    for settled in settled {
        let (missed, Settled { answer, came }) = (settled.is_expired(), settled);
        let Some((step, _)) = held.iter().find(|(_, call)| *call == answer.call) else { continue };
        if missed {
            // Not noted as done, it is asked for anew with the rest of its wave.
            kept.program.forgets(answer.call);
            expired.extend(standing.tool(*step, functions));
            continue;
        }
        note(&mut kept.program, "", &answer);
        if answer.status == Status::Unknown {
            // Not noted as done, it is made once more with the rest of its wave.
            let wanted = standing.plan.steps.get(*step);
            let function = wanted.and_then(|it| Leg::function(functions, &it.function));
            let function = function.ok_or_else(|| again::lost(answer.call, None))?;
            leg.once_more(answer.call, function)?;
            continue;
        }
        failed = failed.or(standing.take(*step, came));
    }
    // What the process before was making; what is to be made anew is so with the rest of its wave.
    for (step, call) in std::mem::take(&mut standing.making) {
        let wanted = standing.plan.steps.get(step);
        let function = wanted.and_then(|it| Leg::function(functions, &it.function));
        if let Stands::Known(answer, called) = leg.stands(call, function).await? {
            note(&mut kept.program, function.map_or("", Function::tool), &answer);
            match called {
                Called::To(came) => failed = failed.or(standing.take(step, came)),
                Called::Held(call) => standing.held.push((step, call)),
            }
        }
    }
    if let Some(told) = failed.filter(|_| kept.program.used == Mode::Dep) {
        return Ok(Came::Failed(told));
    }
    if !expired.is_empty() {
        return Ok(Came::Paused(Box::new(At::Waves(Box::new(standing))), expired));
    }
    if !standing.held.is_empty() {
        return Ok(Came::Waits(Box::new(At::Waves(Box::new(standing)))));
    }
    run(leg, kept, standing, functions).await
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
    kept.program.observes(&standing.observed());
    Ok(standing.ends())
}

/// Where the value of a step without a name is: no name of Python.
fn unnamed(step: usize) -> String {
    format!("#{step}")
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
    let beside = |it: &Ready<'_>| it.function.read_only() || kept.program.parallel_mutations;
    let (beside, after): (Vec<_>, Vec<_>) = ready.into_iter().partition(beside);
    let (mut held, mut failed) = (Vec::new(), None);
    // One after the other where it may not be otherwise: each is a row of calls by itself.
    let mut rows = vec![beside];
    rows.extend(after.into_iter().map(|it| vec![it]));
    for row in rows {
        if failed.is_some() || !held.is_empty() {
            break;
        }
        failed = at_once(leg, kept, standing, (&row, &mut held)).await?;
    }
    // Those that run beside each other go on whatever becomes of one; a chain stops at its first error.
    Ok(match failed.filter(|_| kept.program.used == Mode::Dep) {
        Some(told) => Waved::Failed(told),
        None if held.is_empty() => Waved::Over,
        None => Waved::Held(held),
    })
}

/// Calls that run beside each other; written down before and after where one may have an effect. Gives back
/// the first error.
async fn at_once(
    leg: &Leg<'_>,
    kept: &mut Kept,
    standing: &mut AtWave,
    (row, held): (&[Ready<'_>], &mut Vec<(usize, CallId)>),
) -> Result<Option<String>, Stop> {
    let id = kept.program.id;
    let named: Vec<_> = row.iter().map(|it| (it, leg.named_call())).collect();
    let effects = |(it, _): &&(&Ready<'_>, CallId)| !it.function.read_only();
    standing.making = named.iter().filter(effects).map(|(it, call)| (it.step, *call)).collect();
    let keeps = !standing.making.is_empty();
    if keeps {
        leg.keeps(kept, At::Waves(Box::new(standing.clone()))).await?;
    }
    // They are noted in this order when they have ended.
    let first = kept.program.calls.len();
    let calls = named.iter().enumerate();
    let calls: Vec<_> =
        calls.map(|(at, (it, call))| made(leg, (id, *call, first + at), it)).collect();
    let came: Vec<_> = futures_util::stream::iter(calls).buffered(BESIDE).collect().await;
    let mut failed = None;
    for (it, called) in row.iter().zip(came) {
        failed = failed.or(standing.settles(&mut kept.program, it, called?, held));
    }
    standing.making.clear();
    if keeps && held.is_empty() {
        leg.keeps(kept, At::Waves(Box::new(standing.clone()))).await?;
    }
    leg.programs.index().tells(&kept.program);
    Ok(failed)
}

fn made<'a>(
    leg: &'a Leg<'a>,
    id: (CallId, CallId, usize),
    it: &'a Ready<'a>,
) -> Boxed<'a, Result<(Answer, Called), Stop>> {
    Box::pin(leg.call(id, it.function, &it.args))
}

impl AtWave {
    /// The tool that a step calls.
    fn tool(&self, step: usize, functions: &Functions) -> Option<String> {
        let wanted = self.plan.steps.get(step)?;
        let function = Leg::function(functions, &wanted.function);
        Some(function.map_or(wanted.function.as_str(), Function::tool).to_owned())
    }

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
        let name = self.plan.steps.get(step).and_then(|it| it.name.clone());
        self.values.insert(name.unwrap_or_else(|| unnamed(step)), value);
        raised
    }

    /// Spec 3's text of a turn: what each call came to, in the order of the script.
    fn observed(&self) -> String {
        let of = |(at, step): (usize, &Step)| {
            let name = step.name.clone();
            let value = match self.values.get(&name.clone().unwrap_or_else(|| unnamed(at)))? {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            Some(format!("[{}]: {value}", name.as_deref().unwrap_or(&step.function)))
        };
        let blocks: Vec<_> = self.plan.steps.iter().enumerate().filter_map(of).collect();
        format!("Observation:\n{}", blocks.join("\n---\n"))
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
