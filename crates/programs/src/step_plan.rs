//! Planning of programs given as steps: resolves references and orders the steps into waves.
//! Executes nothing.
//!
//! A step can reference the result of another: `"$step"` for the whole, `"$step.items.0"` for a
//! part, and then depends on it. `"$$…"` is a text that begins with `$`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::interpreter::{PlannedStep, ValueTemplate, WavePlan};

/// Steps of one program.
const MAX_STEPS: usize = 1_000;
/// Lists within lists of an argument.
const MAX_NESTING: usize = 40;

/// One step of a program, as the caller sends it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramStep {
    /// ID by which other steps reference the result.
    id: String,
    /// The tool, or the name of its function.
    tool: String,
    #[serde(default)]
    arguments: Map<String, Value>,
    /// IDs of the steps that must run before.
    #[serde(default)]
    depends_on: Vec<String>,
    /// Steps of one group run in one wave.
    #[serde(default)]
    parallel_group: Option<String>,
}

impl ProgramStep {
    pub(crate) fn tool_name(&self) -> &str {
        &self.tool
    }
}

/// Plans the waves. A step is in the first wave after all of its dependencies, a group in the
/// latest that any of its steps requires. Steps of a wave are ordered by ID.
///
/// # Errors
/// An invalid or duplicate ID, an unknown step, or a dependency cycle, with its location.
pub(crate) fn plan_waves(
    steps: &[ProgramStep],
    inputs: &Map<String, Value>,
) -> Result<WavePlan, String> {
    if steps.is_empty() || steps.len() > MAX_STEPS {
        return Err(format!("steps: {} steps; write 1 to {MAX_STEPS}", steps.len()));
    }
    let places = step_indexes(steps)?;
    let mut made = Vec::new();
    let mut needs = Vec::new();
    for (at, planned) in steps.iter().enumerate() {
        let (step, referenced) = plan_step(at, planned, &places, inputs)?;
        let mut need = BTreeSet::new();
        for id in referenced
            .iter()
            .map(String::as_str)
            .chain(planned.depends_on.iter().map(String::as_str))
        {
            let index = places.get(id);
            need.insert(*index.ok_or_else(|| {
                format!("steps[{at}].depends_on: unknown step `{}`", id.escape_debug())
            })?);
        }
        made.push(step);
        needs.push(need);
    }
    let mut order = assign_waves(steps, &needs)?;
    for wave in &mut order {
        wave.sort_by_key(|at| steps.get(*at).map(|it| it.id.as_str()));
    }
    let all = steps.iter().map(|it| (it.id.clone(), ValueTemplate::Reference(it.id.clone())));
    Ok(WavePlan {
        steps: made,
        waves: order,
        result_template: Some(ValueTemplate::Dict(all.collect())),
        returns_last_value: false,
    })
}

fn step_indexes(steps: &[ProgramStep]) -> Result<BTreeMap<&str, usize>, String> {
    let mut places = BTreeMap::new();
    for (at, step) in steps.iter().enumerate() {
        let id = step.id.as_str();
        if !is_step_id(id) {
            return Err(format!(
                "steps[{at}].id: invalid ID `{}`; write a letter or `_`, then letters, digits, `_` \
                 and `-`",
                id.escape_debug()
            ));
        }
        if places.insert(id, at).is_some() {
            return Err(format!("steps[{at}].id: duplicate step `{id}`"));
        }
    }
    Ok(places)
}

fn is_step_id(text: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(word)
}

/// A step as a call, and the steps that its arguments name.
fn plan_step(
    at: usize,
    planned: &ProgramStep,
    places: &BTreeMap<&str, usize>,
    inputs: &Map<String, Value>,
) -> Result<(PlannedStep, BTreeSet<String>), String> {
    let mut referenced = BTreeSet::new();
    let mut kwargs = Vec::new();
    for (name, value) in &planned.arguments {
        let plain = parse_template(value, 0, &mut |text| {
            let Some((id, path)) = parse_reference(text) else {
                return Ok(ValueTemplate::Value(Value::String(text.replacen("$$", "$", 1))));
            };
            let path: Vec<String> =
                path.map(|it| it.split('.').map(str::to_owned).collect()).unwrap_or_default();
            if places.contains_key(id) {
                referenced.insert(id.to_owned());
            } else if !inputs.contains_key(id) {
                return Err(format!("unknown step `{id}`; `$$` is a plain `$`"));
            }
            Ok(if path.is_empty() {
                ValueTemplate::Reference(id.to_owned())
            } else {
                ValueTemplate::PathReference(id.to_owned(), path)
            })
        });
        let message = |why| format!("steps[{at}].arguments.{name}: {why}");
        kwargs.push((name.clone(), plain.map_err(message)?));
    }
    let (function, name) = (planned.tool.clone(), Some(planned.id.clone()));
    Ok((PlannedStep { function, args: Vec::new(), kwargs, name }, referenced))
}

/// Parses a reference `$id` or `$id.path`. A text such as `$5` is not a reference.
fn parse_reference(text: &str) -> Option<(&str, Option<&str>)> {
    let rest = text.strip_prefix('$')?;
    let (id, path) = match rest.split_once('.') {
        Some((id, path)) => (id, Some(path)),
        None => (rest, None),
    };
    is_step_id(id).then_some((id, path))
}

fn parse_template(
    value: &Value,
    depth: usize,
    text: &mut dyn FnMut(&str) -> Result<ValueTemplate, String>,
) -> Result<ValueTemplate, String> {
    if depth > MAX_NESTING {
        return Err(format!("nested deeper than {MAX_NESTING} levels"));
    }
    Ok(match value {
        Value::String(it) if it.starts_with('$') => text(it)?,
        Value::Array(items) => {
            let items = items.iter().map(|it| parse_template(it, depth + 1, text));
            ValueTemplate::List(items.collect::<Result<_, _>>()?)
        }
        Value::Object(items) => {
            let items = items
                .iter()
                .map(|(key, it)| Ok((key.clone(), parse_template(it, depth + 1, text)?)));
            ValueTemplate::Dict(items.collect::<Result<_, String>>()?)
        }
        other => ValueTemplate::Value(other.clone()),
    })
}

/// Assigns steps to waves. The steps of a group share one wave and their dependencies.
fn assign_waves(
    steps: &[ProgramStep],
    needs: &[BTreeSet<usize>],
) -> Result<Vec<Vec<usize>>, String> {
    let mut groups: BTreeMap<&str, usize> = BTreeMap::new();
    // The index of its first step represents a group.
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
