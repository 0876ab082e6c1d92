//! A program as data: steps with what they depend on, put into waves. Nothing here runs anything.
//!
//! A step may name what another came to: `"$step"` for the whole, `"$step.items.0"` for a part. That makes
//! it depend on the other. `"$$…"` is a text that begins with `$`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::script::{Plain, Step, Waves};

/// Steps of one program.
const MOST: usize = 1_000;
/// Lists within lists of an argument.
const NESTED: usize = 40;

/// One call that is to be made.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Planned {
    /// Names what it comes to.
    id: String,
    /// The tool, or the name of its function.
    tool: String,
    #[serde(default)]
    arguments: Map<String, Value>,
    /// Steps that come before it.
    #[serde(default)]
    depends_on: Vec<String>,
    /// Steps of one group run in one wave.
    #[serde(default)]
    parallel_group: Option<String>,
}

impl Planned {
    pub(crate) fn tool(&self) -> &str {
        &self.tool
    }
}

/// The waves: each step in the first in which all that it needs is there, a group in the latest that any
/// of its steps needs; by id within a wave.
///
/// # Errors
/// An id that is none or comes twice, a step that is not there, steps that wait for each other: with the
/// place.
pub(crate) fn waves(steps: &[Planned], inputs: &Map<String, Value>) -> Result<Waves, String> {
    if steps.is_empty() || steps.len() > MOST {
        return Err(format!("steps: {} of them; write 1 to {MOST}", steps.len()));
    }
    let places = places(steps)?;
    let mut made = Vec::new();
    let mut needs = Vec::new();
    for (at, planned) in steps.iter().enumerate() {
        let (step, named) = step(at, planned, &places, inputs)?;
        let mut need = BTreeSet::new();
        for id in
            named.iter().map(String::as_str).chain(planned.depends_on.iter().map(String::as_str))
        {
            let place = places.get(id);
            need.insert(*place.ok_or_else(|| {
                format!("steps[{at}].depends_on: unknown step `{}`", id.escape_debug())
            })?);
        }
        made.push(step);
        needs.push(need);
    }
    let mut order = order(steps, &needs)?;
    for wave in &mut order {
        wave.sort_by_key(|at| steps.get(*at).map(|it| it.id.as_str()));
    }
    let all = steps.iter().map(|it| (it.id.clone(), Plain::Name(it.id.clone())));
    Ok(Waves { steps: made, order, value: Some(Plain::Dict(all.collect())), last: false })
}

fn places(steps: &[Planned]) -> Result<BTreeMap<&str, usize>, String> {
    let mut places = BTreeMap::new();
    for (at, step) in steps.iter().enumerate() {
        let id = step.id.as_str();
        if !is_id(id) {
            return Err(format!(
                "steps[{at}].id: `{}` is no id; write a letter or `_`, then letters, digits, `_` and `-`",
                id.escape_debug()
            ));
        }
        if places.insert(id, at).is_some() {
            return Err(format!("steps[{at}].id: duplicate step `{id}`"));
        }
    }
    Ok(places)
}

fn is_id(text: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(word)
}

/// A step as a call, and the steps that its arguments name.
fn step(
    at: usize,
    planned: &Planned,
    places: &BTreeMap<&str, usize>,
    inputs: &Map<String, Value>,
) -> Result<(Step, BTreeSet<String>), String> {
    let mut named = BTreeSet::new();
    let mut kwargs = Vec::new();
    for (name, value) in &planned.arguments {
        let plain = plain(value, 0, &mut |text| {
            let Some((id, path)) = reference(text) else {
                return Ok(Plain::Value(Value::String(text.replacen("$$", "$", 1))));
            };
            let path: Vec<String> =
                path.map(|it| it.split('.').map(str::to_owned).collect()).unwrap_or_default();
            if places.contains_key(id) {
                named.insert(id.to_owned());
            } else if !inputs.contains_key(id) {
                return Err(format!("unknown step `{id}`; `$$` is a plain `$`"));
            }
            Ok(if path.is_empty() {
                Plain::Name(id.to_owned())
            } else {
                Plain::Part(id.to_owned(), path)
            })
        });
        let told = |why| format!("steps[{at}].arguments.{name}: {why}");
        kwargs.push((name.clone(), plain.map_err(told)?));
    }
    let (function, name) = (planned.tool.clone(), Some(planned.id.clone()));
    Ok((Step { function, args: Vec::new(), kwargs, name }, named))
}

/// `$id` or `$id.path`: what it names. A text such as `$5` names nothing.
fn reference(text: &str) -> Option<(&str, Option<&str>)> {
    let rest = text.strip_prefix('$')?;
    let (id, path) = match rest.split_once('.') {
        Some((id, path)) => (id, Some(path)),
        None => (rest, None),
    };
    is_id(id).then_some((id, path))
}

fn plain(
    value: &Value,
    depth: usize,
    text: &mut dyn FnMut(&str) -> Result<Plain, String>,
) -> Result<Plain, String> {
    if depth > NESTED {
        return Err(format!("more than {NESTED} values within each other"));
    }
    Ok(match value {
        Value::String(it) if it.starts_with('$') => text(it)?,
        Value::Array(items) => {
            let items = items.iter().map(|it| plain(it, depth + 1, text));
            Plain::List(items.collect::<Result<_, _>>()?)
        }
        Value::Object(items) => {
            let items =
                items.iter().map(|(key, it)| Ok((key.clone(), plain(it, depth + 1, text)?)));
            Plain::Dict(items.collect::<Result<_, String>>()?)
        }
        other => Plain::Value(other.clone()),
    })
}

/// Waves of steps; the steps of a group are as one, which needs what any of them needs.
fn order(steps: &[Planned], needs: &[BTreeSet<usize>]) -> Result<Vec<Vec<usize>>, String> {
    let mut groups: BTreeMap<&str, usize> = BTreeMap::new();
    // The place of the first step of its group stands for all of it.
    let first: Vec<usize> = steps
        .iter()
        .enumerate()
        .map(|(at, step)| match &step.parallel_group {
            Some(group) => *groups.entry(group.as_str()).or_insert(at),
            None => at,
        })
        .collect();
    let of = |at: usize| first.get(at).copied().unwrap_or(at);
    let mut open: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for (at, need) in needs.iter().enumerate() {
        open.entry(of(at)).or_default().extend(need.iter().map(|it| of(*it)));
    }
    let mut waves = Vec::new();
    while !open.is_empty() {
        let free = |need: &BTreeSet<usize>| need.iter().all(|it| !open.contains_key(it));
        let now: BTreeSet<usize> =
            open.iter().filter(|(_, need)| free(need)).map(|(at, _)| *at).collect();
        if now.is_empty() {
            let ids = open.keys().filter_map(|at| Some(steps.get(*at)?.id.as_str()));
            let ids: Vec<_> = ids.take(10).collect();
            return Err(format!(
                "steps: these wait for each other, or for one that does: {}",
                ids.join(", ")
            ));
        }
        open.retain(|at, _| !now.contains(at));
        waves.push((0..steps.len()).filter(|at| now.contains(&of(*at))).collect());
    }
    Ok(waves)
}

#[cfg(test)]
mod tests;
