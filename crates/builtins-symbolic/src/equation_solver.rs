//! `symbolic_solve`: solves equations and returns verified solutions.

mod equation_system;
mod verification;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};
use symplex::prelude::{Assumption, Ex, SymplexError};
use tool::display_text::truncate_and_escape_debug;

use crate::cas_lowering::SymbolTable;
use crate::equation_parser::{self, EquationNode};
use crate::polynomial_roots;
use crate::python_notation;
use verification::{SolutionValues, VerifiedSolution};

/// Maximum equations, and unknowns, of a system.
const MOST: usize = 8;
/// Maximum names in total.
const NAMES: usize = 20;
/// Maximum characters of one answer.
const LONGEST: usize = 200_000;

#[derive(Deserialize)]
struct SolveArgs {
    equation: String,
    variable: Option<String>,
    #[serde(default)]
    general: Option<bool>,
    #[serde(default)]
    assume: Option<BTreeMap<String, String>>,
}

/// Parsed problem.
#[derive(Debug)]
struct EquationProblem {
    /// Equations as expressions that equal zero.
    equations: Vec<EquationNode>,
    /// The equations as CAS expressions.
    cas_equations: Vec<Ex>,
    unknowns: Vec<String>,
    names: SymbolTable,
    assumptions: BTreeMap<String, String>,
    wants_all_periods: bool,
}

impl EquationProblem {
    /// Whether there are symbols that are neither unknowns nor assumed.
    fn has_parameters(&self) -> bool {
        let open = |(name, _): &(String, Ex)| {
            !self.unknowns.contains(name) && !self.assumptions.contains_key(name)
        };
        self.names.symbols.iter().any(open)
    }
}

/// Solves the equations and returns the solutions as JSON: a list of texts, or of objects for
/// several unknowns. The caller enforces the time limit by ending the process.
///
/// # Errors
/// Describes for the model the fault of the arguments, or that there is no solution.
pub fn solve_equations(args: &[u8], _limit: Duration) -> Result<Vec<u8>, String> {
    let asked: SolveArgs = serde_json::from_slice(args).map_err(|error| error.to_string())?;
    let plain = build_problem(&asked, ParameterDomain::Complex)?;
    let answer = solve_problem(&plain).or_else(|why| {
        // A solution that holds for all real parameters is still useful; verification samples real
        // ones.
        if !plain.has_parameters() {
            return Err(why);
        }
        let found = solve_problem(&build_problem(&asked, ParameterDomain::Real)?);
        found.map_err(|other| if other.contains("`assume`") { other } else { why })
    })?;
    let answer = serde_json::to_vec(&answer).map_err(|error| error.to_string())?;
    if answer.len() > LONGEST {
        return Err(unsolvable_message(&plain, "the solutions are too long"));
    }
    Ok(answer)
}

/// Domain of the symbols without an assumption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ParameterDomain {
    Complex,
    Real,
}

fn solve_problem(problem: &EquationProblem) -> Result<Value, String> {
    let solutions = if let ([equation], [unknown]) =
        (problem.cas_equations.as_slice(), problem.unknowns.as_slice())
    {
        solve_single(problem, equation, unknown)?
    } else {
        equation_system::solve_system(problem)?
    };
    let held = verification::verify_solutions(problem, solutions)
        .map_err(|why| unsolvable_message(problem, &why))?;
    Ok(Value::Array(held.iter().map(|solution| solution_json(problem, solution)).collect()))
}

fn build_problem(
    asked: &SolveArgs,
    parameters: ParameterDomain,
) -> Result<EquationProblem, String> {
    let equations = equation_parser::parse_equations(&asked.equation, MOST)
        .map_err(|error| format!("`equation`: {error}"))?;
    let mut names = Vec::new();
    for equation in &equations {
        equation.collect_symbols(&mut names);
    }
    if names.len() > NAMES {
        return Err(format!(
            "`equation`: {} names are too many; the maximum is {NAMES}",
            names.len()
        ));
    }
    let unknowns = choose_unknowns(asked.variable.as_deref(), &names)?;
    let assumed = asked.assume.clone().unwrap_or_default();
    if let Some(strange) = assumed.keys().find(|name| !names.contains(name)) {
        let strange = truncate_and_escape_debug(strange, 40);
        return Err(format!("`assume`: `{strange}` does not occur in the equation"));
    }
    // `Abs` and `sign` take real numbers, unless an assumption says otherwise.
    let sizes = equations.iter().any(|equation| equation.calls_any(&["Abs", "sign"]));
    let assumption = |name: &str| match assumed.get(name).map(String::as_str) {
        Some("real") => Some(Assumption::Real),
        Some("positive") => Some(Assumption::Positive),
        Some("negative") => Some(Assumption::Negative),
        Some("integer") => Some(Assumption::Integer),
        None => {
            let unknown = unknowns.iter().any(|unknown| unknown == name);
            let real = if unknown { sizes } else { parameters == ParameterDomain::Real };
            real.then_some(Assumption::Real)
        }
        _ => None,
    };
    let names = SymbolTable::with_assumptions(names, assumption)?;
    let lower =
        |equation| names.lower_node(equation).map_err(|error| format!("`equation`: {error}"));
    let lowered = equations.iter().map(lower).collect::<Result<_, _>>()?;
    let general = asked.general.unwrap_or(false);
    Ok(EquationProblem {
        equations,
        cas_equations: lowered,
        unknowns,
        names,
        assumptions: assumed,
        wants_all_periods: general,
    })
}

fn choose_unknowns(variable: Option<&str>, names: &[String]) -> Result<Vec<String>, String> {
    let Some(variable) = variable else {
        // Suggests another reading if there is only one name: with several letters it may be a
        // product.
        return match names {
            [only] if only.chars().filter(|c| c.is_alphabetic()).count() > 1 => {
                let only = truncate_and_escape_debug(only, 40);
                Err(format!(
                    "`variable`: use `{only}` if that is the unknown; write a product with `*`"
                ))
            }
            [only] => Ok(vec![only.clone()]),
            _ if names.iter().any(|name| name == "x") => Ok(vec!["x".to_owned()]),
            [] => Ok(Vec::new()),
            _ => {
                let names = names.join(", ");
                Err(format!("`variable`: name the unknown, one of {names}"))
            }
        };
    };
    let mut found: Vec<String> = Vec::new();
    for name in variable.split([',', ';', ' ']).map(str::trim).filter(|name| !name.is_empty()) {
        let known = names.iter().any(|known| known == name);
        if !known && !names.is_empty() {
            let shown = truncate_and_escape_debug(name, 40);
            let names = names.join(", ");
            return Err(format!(
                "`variable`: `{shown}` does not occur in the equation; its names are {names}"
            ));
        }
        if known && !found.iter().any(|it| it == name) {
            found.push(name.to_owned());
        }
    }
    if found.len() > MOST {
        return Err(format!("`variable`: at most {MOST} unknowns are allowed"));
    }
    Ok(found)
}

/// Solves one equation for one unknown.
fn solve_single(
    problem: &EquationProblem,
    equation: &Ex,
    unknown: &str,
) -> Result<Vec<SolutionValues>, String> {
    let Some(symbol) = problem.names.find_symbol(unknown) else { return Ok(Vec::new()) };
    let roots = find_roots(problem.wants_all_periods, equation, symbol);
    let roots = match roots {
        // The CAS returns no roots if it found none, or if the roots violate an assumption.
        Ok(roots) if roots.is_empty() && !is_excluded_by_assumption(problem, equation, symbol) => {
            return Err(unsolvable_message(problem, ""));
        }
        Ok(roots) => roots,
        Err(error) => return classify_solver_error(problem, &error),
    };
    Ok(roots.into_iter().map(|root| vec![(unknown.to_owned(), root)]).collect())
}

fn find_roots(general: bool, equation: &Ex, symbol: &Ex) -> Result<Vec<Ex>, SymplexError> {
    if general {
        return equation.solve_general(symbol).map(|general| general.solutions);
    }
    equation.solve(symbol)
}

/// Whether the equation has roots only without the assumption on the unknown.
fn is_excluded_by_assumption(problem: &EquationProblem, equation: &Ex, symbol: &Ex) -> bool {
    let Ok(plain) = problem.names.cas.try_symbol("free") else { return false };
    let roots = equation.subs(symbol, &plain).solve(&plain);
    matches!(roots, Ok(roots) if !roots.is_empty())
}

/// Returns no solutions if it is certain that there are none.
fn classify_solver_error(
    problem: &EquationProblem,
    error: &SymplexError,
) -> Result<Vec<SolutionValues>, String> {
    match error {
        SymplexError::NoSolution { .. } => Ok(Vec::new()),
        SymplexError::InfiniteSolutions { .. } => {
            let unknowns = problem.unknowns.join(", ");
            Err(format!("every value of {unknowns} is a solution, or infinitely many are"))
        }
        _ => Err(unsolvable_message(problem, "")),
    }
}

/// Error message that the equations cannot be solved.
fn unsolvable_message(problem: &EquationProblem, why: &str) -> String {
    let unknowns = problem.unknowns.join(", ");
    let what = if problem.equations.len() == 1 { "this" } else { "these equations" };
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    format!("cannot solve {what} for {unknowns} in closed form{why}")
}

fn solution_json(problem: &EquationProblem, solution: &VerifiedSolution) -> Value {
    let whole = python_notation::integer_symbol(&problem.names);
    let text = |value: &Ex| {
        let written = polynomial_roots::renumber_roots(&value.to_string(), &problem.names);
        let mut text = python_notation::to_python(&written, &problem.names, whole);
        if let Some(number) =
            polynomial_roots::numeric_text(value).filter(|_| written.contains("RootOf("))
        {
            text = format!("{text}  # {number}");
        }
        Value::from(text)
    };
    if let ([(_, value)], [_]) = (solution.as_slice(), problem.unknowns.as_slice()) {
        return text(value);
    }
    let pair = |(name, value): &(String, Ex)| (name.clone(), text(value));
    Value::Object(solution.iter().map(pair).collect::<Map<_, _>>())
}
