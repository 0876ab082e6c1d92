//! Solves systems of equations: linear ones directly, polynomial ones by the solver of the CAS,
//! others one unknown at a time.

use symplex::polysys::{LinearSolution, linsolve, solve_system_ex};
use symplex::prelude::{Ex, SymplexError};

use super::verification::SolutionValues;
use super::{EquationProblem, unsolvable_message};

/// Maximum branches that are followed at the same time.
const WAYS: usize = 64;

pub(super) fn solve_system(problem: &EquationProblem) -> Result<Vec<SolutionValues>, String> {
    let unknowns: Vec<Ex> = problem
        .unknowns
        .iter()
        .filter_map(|name| problem.names.find_symbol(name).cloned())
        .collect();
    let named = |values: Vec<Ex>| problem.unknowns.iter().cloned().zip(values).collect();
    if unknowns.is_empty() {
        return check_without_unknowns(problem);
    }
    match linsolve(&problem.cas_equations, &unknowns) {
        Ok(LinearSolution::Inconsistent) => return Ok(Vec::new()),
        Ok(LinearSolution::Unique(pairs) | LinearSolution::Parametric { solution: pairs, .. }) => {
            return Ok(vec![named(pairs.into_iter().map(|(_, value)| value).collect())]);
        }
        Err(_) => {}
    }
    match solve_system_ex(&problem.cas_equations, &unknowns) {
        Ok(found) => return Ok(found.into_iter().map(named).collect()),
        Err(SymplexError::NoSolution { .. }) => return Ok(Vec::new()),
        Err(_) => {}
    }
    let mut budget = WAYS;
    let found = eliminate_unknowns(&problem.cas_equations, &unknowns, &mut budget);
    let found = found.ok_or_else(|| unsolvable_message(problem, ""))?;
    let in_order = |values: Vec<(Ex, Ex)>| {
        let value = |unknown: &Ex| {
            let found = values.iter().find(|(known, _)| known == unknown);
            found.map_or_else(|| unknown.clone(), |(_, value)| value.clone())
        };
        named(unknowns.iter().map(value).collect())
    };
    Ok(found.into_iter().map(in_order).collect())
}

/// Checks equations without unknowns.
fn check_without_unknowns(problem: &EquationProblem) -> Result<Vec<SolutionValues>, String> {
    let zero = |equation: &Ex| equation.eval().is_zero();
    match problem.cas_equations.iter().map(zero).collect::<Option<Vec<bool>>>() {
        Some(all) if all.iter().all(|holds| *holds) => {
            Err("it is always true: there is nothing to solve".to_owned())
        }
        Some(_) => Ok(Vec::new()),
        None => Err("it has no unknown to solve for".to_owned()),
    }
}

/// Returns all solutions, each as values of the unknowns it determines; `None` if the method fails.
fn eliminate_unknowns(
    equations: &[Ex],
    unknowns: &[Ex],
    budget: &mut usize,
) -> Option<Vec<Vec<(Ex, Ex)>>> {
    *budget = budget.checked_sub(1)?;
    let mut left: Vec<&Ex> = Vec::new();
    for equation in equations {
        match equation.is_zero() {
            Some(true) => {}
            Some(false) if !unknowns.iter().any(|it| equation.contains(it)) => {
                return Some(Vec::new());
            }
            _ => left.push(equation),
        }
    }
    if left.is_empty() {
        return Some(vec![Vec::new()]);
    }
    let mut choices: Vec<(usize, usize, &Ex)> = Vec::new();
    for (i, equation) in left.iter().enumerate() {
        for unknown in unknowns.iter().filter(|it| equation.contains(it)) {
            choices.push((elimination_cost(equation, unknown, unknowns), i, unknown));
        }
    }
    choices.sort_by_key(|(effort, ..)| *effort);
    choices.into_iter().take(6).find_map(|(_, i, unknown)| {
        let chosen = left.get(i)?;
        let rest: Vec<&Ex> =
            left.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, it)| *it).collect();
        substitute_root(chosen, unknown, &rest, unknowns, budget)
    })
}

/// Cost of solving for the unknown without losing a solution; lower is better.
fn elimination_cost(equation: &Ex, unknown: &Ex, unknowns: &[Ex]) -> usize {
    let Some(coefficients) = equation.coeffs(unknown) else { return 50 };
    let open = |it: &Ex| unknowns.iter().any(|other| it.contains(other));
    // The leading coefficient may be 0 for some value of another unknown; dividing by it would lose
    // solutions.
    let first = coefficients.iter().rev().find(|it| it.is_zero() != Some(true));
    coefficients.len() + if first.is_some_and(open) { 100 } else { 0 }
}

fn substitute_root(
    chosen: &Ex,
    unknown: &Ex,
    rest: &[&Ex],
    unknowns: &[Ex],
    budget: &mut usize,
) -> Option<Vec<Vec<(Ex, Ex)>>> {
    let roots = match chosen.solve(unknown) {
        Ok(roots) if !roots.is_empty() => roots,
        Err(SymplexError::NoSolution { .. }) => return Some(Vec::new()),
        _ => return None,
    };
    let others: Vec<Ex> = unknowns.iter().filter(|it| *it != unknown).cloned().collect();
    let mut found = Vec::new();
    for root in roots {
        let rest: Vec<Ex> =
            rest.iter().map(|it| it.subs(unknown, &root).eval().expand().simplify()).collect();
        for mut values in eliminate_unknowns(&rest, &others, budget)? {
            let mut value = root.clone();
            for (other, its) in &values {
                value = value.subs(other, its);
            }
            values.push((unknown.clone(), value.eval().simplify()));
            found.push(values);
        }
    }
    Some(found)
}
