//! JMESPath functions that take an expression: `map`, `sort_by`, `max_by`, `min_by`.

use jmespath::ast::Ast;
use jmespath::{Rcvar, RuntimeError, Variable};

use super::bounded_evaluator::{BoundedEvaluator, null_value};

/// Calls `name` if it is one of these functions. The crate's own version reports invalid arguments.
pub(super) fn call_expression_function(
    evaluator: &BoundedEvaluator<'_>,
    name: &str,
    args: &[Rcvar],
    offset: usize,
) -> Option<Result<Rcvar, String>> {
    let [one, other] = args else { return None };
    if name == "map" {
        let (ast, all) = (one.as_expref()?, other.as_array()?);
        return Some(map_values(evaluator, ast, all));
    }
    let (all, ast) = (one.as_array()?, other.as_expref()?);
    let keyed = || evaluate_keys(evaluator, ast, all, offset);
    match name {
        "sort_by" => Some(keyed().and_then(|mut pairs| {
            pairs.sort_by(|a, b| a.0.cmp(&b.0));
            evaluator.charge_list(pairs.into_iter().map(|(_, value)| value).collect())
        })),
        // Of equal values the first wins, as in the crate.
        "max_by" => Some(keyed().map(|pairs| best_value(pairs, |new, old| new > old))),
        "min_by" => Some(keyed().map(|pairs| best_value(pairs, |new, old| new < old))),
        _ => None,
    }
}

fn map_values(steps: &BoundedEvaluator<'_>, ast: &Ast, all: &[Rcvar]) -> Result<Rcvar, String> {
    let all = all.iter().map(|value| steps.eval_node(value, ast));
    steps.charge_list(all.collect::<Result<_, _>>()?)
}

fn best_value(pairs: Vec<(Rcvar, Rcvar)>, better: fn(&Rcvar, &Rcvar) -> bool) -> Rcvar {
    let best = pairs.into_iter().reduce(|old, new| if better(&new.0, &old.0) { new } else { old });
    best.map_or_else(null_value, |(_, value)| value)
}

/// Returns each value with its key; keys are all text or all numbers.
fn evaluate_keys(
    steps: &BoundedEvaluator<'_>,
    ast: &Ast,
    all: &[Rcvar],
    at: usize,
) -> Result<Vec<(Rcvar, Rcvar)>, String> {
    let mut pairs: Vec<(Rcvar, Rcvar)> = Vec::with_capacity(all.len());
    for (invocation, value) in all.iter().enumerate() {
        let key = steps.eval_node(value, ast)?;
        let fits = match pairs.first() {
            Some((first, _)) => first.get_type() == key.get_type(),
            None => matches!(*key, Variable::String(_) | Variable::Number(_)),
        };
        if !fits {
            let expected = "expression->number|expression->string".to_owned();
            let actual = key.get_type().to_string();
            let reason =
                RuntimeError::InvalidReturnType { expected, actual, position: 1, invocation };
            return Err(steps.error_at(at, reason));
        }
        // Sorting compares each key about log2(n) times.
        let bits = usize::try_from(usize::BITS - all.len().leading_zeros()).unwrap_or(usize::MAX);
        (0..bits).try_for_each(|_| steps.charge_value(&key))?;
        pairs.push((key, value.clone()));
    }
    Ok(pairs)
}
