//! `symbolic_solve`: solves equations and returns verified solutions.

mod check;
mod system;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};
use symplex::prelude::{Assumption, Ex, SymplexError};

use crate::lower::Names;
use crate::read::{self, Node};
use crate::root;
use crate::show;
use check::{Checked, Solution};

/// Equations, and unknowns, of a system.
const MOST: usize = 8;
/// Names all together.
const NAMES: usize = 20;
/// Characters of one answer.
const LONGEST: usize = 200_000;

#[derive(Deserialize)]
struct Asked {
    equation: String,
    variable: Option<String>,
    #[serde(default)]
    general: Option<bool>,
    #[serde(default)]
    assume: Option<BTreeMap<String, String>>,
}

/// A question that was understood.
#[derive(Debug)]
struct Problem {
    /// Each is to be 0.
    equations: Vec<Node>,
    /// The same for the algebra.
    lowered: Vec<Ex>,
    unknowns: Vec<String>,
    names: Names,
    assumed: BTreeMap<String, String>,
    general: bool,
}

impl Problem {
    /// Whether there are names that nobody said anything of, and that are not to be found.
    fn has_parameters(&self) -> bool {
        let open = |(name, _): &(String, Ex)| {
            !self.unknowns.contains(name) && !self.assumed.contains_key(name)
        };
        self.names.all.iter().any(open)
    }
}

/// The solutions as JSON: a list of texts, or for several unknowns of objects. The limit is held outside, by
/// the end of the process.
///
/// # Errors
/// What is wrong with the arguments, or that it cannot be solved, for the model.
pub fn solve(args: &[u8], _limit: Duration) -> Result<Vec<u8>, String> {
    let asked: Asked = serde_json::from_slice(args).map_err(|error| error.to_string())?;
    let plain = problem(&asked, Parameters::Complex)?;
    let answer = answered(&plain).or_else(|why| {
        // What holds for every real parameter is worth an answer; `check` draws real ones.
        if !plain.has_parameters() {
            return Err(why);
        }
        let found = answered(&problem(&asked, Parameters::Real)?);
        found.map_err(|other| if other.contains("`assume`") { other } else { why })
    })?;
    let answer = serde_json::to_vec(&answer).map_err(|error| error.to_string())?;
    if answer.len() > LONGEST {
        return Err(cannot(&plain, "the solutions are too long to be written"));
    }
    Ok(answer)
}

/// What names stand for that nobody said anything of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parameters {
    Complex,
    Real,
}

fn answered(problem: &Problem) -> Result<Value, String> {
    let solutions = if let ([equation], [unknown]) =
        (problem.lowered.as_slice(), problem.unknowns.as_slice())
    {
        single(problem, equation, unknown)?
    } else {
        system::solutions(problem)?
    };
    let held = check::all(problem, solutions).map_err(|why| cannot(problem, &why))?;
    Ok(Value::Array(held.iter().map(|solution| shown(problem, solution)).collect()))
}

fn problem(asked: &Asked, parameters: Parameters) -> Result<Problem, String> {
    let equations =
        read::equations(&asked.equation, MOST).map_err(|error| format!("`equation`: {error}"))?;
    let mut names = Vec::new();
    for equation in &equations {
        equation.names(&mut names);
    }
    if names.len() > NAMES {
        return Err(format!(
            "`equation`: there are {} names, at most {NAMES} are allowed",
            names.len()
        ));
    }
    let unknowns = unknowns(asked.variable.as_deref(), &names)?;
    let assumed = asked.assume.clone().unwrap_or_default();
    if let Some(strange) = assumed.keys().find(|name| !names.contains(name)) {
        let strange: String = strange.chars().take(40).flat_map(char::escape_debug).collect();
        return Err(format!("`assume`: `{strange}` does not occur in the equation"));
    }
    // A sign or a size is one of real numbers, unless somebody says otherwise.
    let sizes = equations.iter().any(|equation| equation.calls(&["Abs", "sign"]));
    let assumption = |name: &str| match assumed.get(name).map(String::as_str) {
        Some("real") => Some(Assumption::Real),
        Some("positive") => Some(Assumption::Positive),
        Some("negative") => Some(Assumption::Negative),
        Some("integer") => Some(Assumption::Integer),
        None => {
            let unknown = unknowns.iter().any(|unknown| unknown == name);
            let real = if unknown { sizes } else { parameters == Parameters::Real };
            real.then_some(Assumption::Real)
        }
        _ => None,
    };
    let names = Names::new(names, assumption)?;
    let lower = |equation| names.lower(equation).map_err(|error| format!("`equation`: {error}"));
    let lowered = equations.iter().map(lower).collect::<Result<_, _>>()?;
    let general = asked.general.unwrap_or(false);
    Ok(Problem { equations, lowered, unknowns, names, assumed, general })
}

fn unknowns(variable: Option<&str>, names: &[String]) -> Result<Vec<String>, String> {
    let Some(variable) = variable else {
        // What else could be meant, where there is one name only? A product, where it has several letters.
        return match names {
            [only] if only.chars().filter(|c| c.is_alphabetic()).count() > 1 => {
                let only: String = only.chars().take(40).flat_map(char::escape_debug).collect();
                Err(format!(
                    "`variable`: say `{only}` if that is what is to be found; a product is written with `*`"
                ))
            }
            [only] => Ok(vec![only.clone()]),
            _ if names.iter().any(|name| name == "x") => Ok(vec!["x".to_owned()]),
            [] => Ok(Vec::new()),
            _ => {
                let names = names.join(", ");
                Err(format!("`variable`: which of {names} is to be found?"))
            }
        };
    };
    let mut found: Vec<String> = Vec::new();
    for name in variable.split([',', ';', ' ']).map(str::trim).filter(|name| !name.is_empty()) {
        let known = names.iter().any(|known| known == name);
        if !known && !names.is_empty() {
            let shown: String = name.chars().take(40).flat_map(char::escape_debug).collect();
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

/// One equation, one unknown.
fn single(problem: &Problem, equation: &Ex, unknown: &str) -> Result<Vec<Solution>, String> {
    let Some(symbol) = problem.names.get(unknown) else { return Ok(Vec::new()) };
    let roots = roots(problem.general, equation, symbol);
    let roots = match roots {
        // The algebra says so where it found nothing, and where what it found is not allowed.
        Ok(roots) if roots.is_empty() && !excluded(problem, equation, symbol) => {
            return Err(cannot(problem, ""));
        }
        Ok(roots) => roots,
        Err(error) => return refused(problem, &error).map(|()| Vec::new()),
    };
    Ok(roots.into_iter().map(|root| vec![(unknown.to_owned(), root)]).collect())
}

fn roots(general: bool, equation: &Ex, symbol: &Ex) -> Result<Vec<Ex>, SymplexError> {
    if general {
        return equation.solve_general(symbol).map(|general| general.solutions);
    }
    equation.solve(symbol)
}

/// Whether the only reason for no root is what the unknown is assumed to be.
fn excluded(problem: &Problem, equation: &Ex, symbol: &Ex) -> bool {
    let Ok(plain) = problem.names.algebra.try_symbol("free") else { return false };
    let roots = equation.subs(symbol, &plain).solve(&plain);
    matches!(roots, Ok(roots) if !roots.is_empty())
}

/// `Ok` where it is certain that there is no solution.
fn refused(problem: &Problem, error: &SymplexError) -> Result<(), String> {
    match error {
        SymplexError::NoSolution { .. } => Ok(()),
        SymplexError::InfiniteSolutions { .. } => {
            let unknowns = problem.unknowns.join(", ");
            Err(format!("every value of {unknowns} is a solution, or infinitely many are"))
        }
        _ => Err(cannot(problem, "")),
    }
}

/// That it cannot be done, said plainly.
fn cannot(problem: &Problem, why: &str) -> String {
    let unknowns = problem.unknowns.join(", ");
    let what = if problem.equations.len() == 1 { "this" } else { "these equations" };
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    format!("cannot solve {what} for {unknowns} in closed form{why}")
}

fn shown(problem: &Problem, solution: &Checked) -> Value {
    let whole = show::whole(&problem.names);
    let text = |value: &Ex| {
        let written = root::renumbered(&value.to_string(), &problem.names);
        let mut text = show::text(&written, &problem.names, whole);
        if let Some(number) = root::number(value).filter(|_| written.contains("RootOf(")) {
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
