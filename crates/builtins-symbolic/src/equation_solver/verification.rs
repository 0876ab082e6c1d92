//! Numeric verification: substitutes each solution into the equations at sample values of the free
//! symbols.
//!
//! The values of a solution come from the CAS, and again from the text of the answer. The equations
//! are evaluated by `numeric_eval` alone.

use symplex::prelude::{Complex64, Ex};

use super::EquationProblem;
use crate::{equation_parser, numeric_eval, python_notation};

/// Values of the unknowns. They may contain parameters, free unknowns and an integer.
pub(super) type SolutionValues = Vec<(String, Ex)>;
/// Solution that passed verification.
pub(super) type VerifiedSolution = SolutionValues;

/// Relative tolerance of a residual, relative to the magnitude of its terms.
const NEAR: f64 = 1e-9;
/// Numerators over 97: two samples of positive numbers and two of mixed sign.
const DRAWS: [[i64; 7]; 4] = [
    [131, 163, 74, 217, 305, 59, 181],
    [58, 241, 179, 88, 137, 269, 43],
    [-113, 71, -209, 151, -67, 190, -278],
    [229, -86, 47, -173, 118, -251, 65],
];
/// Integers for families of solutions.
const WHOLE: [i64; 4] = [0, 3, -2, -5];

/// Result of verifying one solution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VerificationResult {
    Holds,
    /// Holds for some values of the parameters.
    HoldsConditionally,
    Fails,
}

/// Returns the distinct solutions if every one of them holds.
pub(super) fn verify_solutions(
    problem: &EquationProblem,
    solutions: Vec<SolutionValues>,
) -> Result<Vec<VerifiedSolution>, String> {
    let mut held: Vec<(VerifiedSolution, Vec<Complex64>)> = Vec::new();
    for solution in solutions {
        match verify_solution(problem, &solution) {
            VerificationResult::Holds => {}
            VerificationResult::HoldsConditionally => {
                return Err(
                    "a solution is valid for some values of the parameters only; restrict \
                    them with `assume`, such as {\"a\": \"positive\"}"
                        .to_owned(),
                );
            }
            VerificationResult::Fails => {
                return Err("the solution could not be verified".to_owned());
            }
        }
        let draw = SamplePoint::new(problem, &solution, 0);
        let at: Vec<_> =
            solution.iter().filter_map(|(_, value)| draw.evaluate_cas(value)).collect();
        let same = |other: &Vec<Complex64>| {
            let near =
                |(a, b): (&Complex64, &Complex64)| (a - b).norm() <= 1e-12 * a.norm().max(b.norm());
            other.len() == at.len() && other.iter().zip(&at).all(near)
        };
        if !held.iter().any(|(_, other)| same(other)) {
            held.push((solution, at));
        }
    }
    // Sorted by value, so that the order does not depend on the method.
    held.sort_by(|(_, a), (_, b)| {
        let key = |at: &Complex64| (at.im.abs() > 1e-12 * at.re.abs().max(1.0), at.re, at.im);
        let (a, b) = (a.iter().map(key), b.iter().map(key));
        a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal)
    });
    Ok(held.into_iter().map(|(solution, _)| solution).collect())
}

fn verify_solution(problem: &EquationProblem, solution: &SolutionValues) -> VerificationResult {
    let draws = 0..DRAWS.len();
    let verdicts: Vec<Option<bool>> = draws
        .map(|i| SamplePoint::new(problem, solution, i).satisfies_problem(problem, solution))
        .collect();
    let good = verdicts.iter().filter(|it| **it == Some(true)).count();
    let bad = verdicts.iter().filter(|it| **it == Some(false)).count();
    match (good, bad) {
        (2.., 0) => VerificationResult::Holds,
        (1.., 1..) => VerificationResult::HoldsConditionally,
        _ => VerificationResult::Fails,
    }
}

/// Sample values for everything that a solution leaves free.
struct SamplePoint {
    values: Vec<(Ex, String, Ex, Complex64)>,
    /// Name of the integer of solution families, and its value.
    whole: (&'static str, i64),
}

impl SamplePoint {
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    fn new(problem: &EquationProblem, solution: &SolutionValues, which: usize) -> Self {
        let names = &problem.names;
        let row = DRAWS.get(which).copied().unwrap_or_default();
        let open = names.symbols.iter().filter(|(name, symbol)| {
            // An unknown is free if its value is itself.
            let value = solution.iter().find(|(known, _)| known == name);
            value.is_none_or(|(_, value)| value == symbol)
        });
        let value = |(i, (name, symbol)): (usize, &(String, Ex))| {
            // Mixed signs in all samples except the first two, and no value twice.
            let drawn =
                row.get(i % row.len()).copied().unwrap_or(7) + i64::try_from(i / 7).unwrap_or(0);
            let assumed = problem.assumptions.get(name).map(String::as_str);
            let (over, under) = match assumed {
                Some("positive") => (drawn.abs(), 97),
                Some("negative") => (-drawn.abs(), 97),
                Some("integer") => (drawn / 10, 1),
                _ => (drawn, 97),
            };
            let number = Complex64::new(over as f64 / under as f64, 0.0);
            (symbol.clone(), name.clone(), names.cas.rational(over, under), number)
        };
        let values = open.enumerate().map(value).collect();
        let whole = WHOLE.get(which).copied().unwrap_or_default();
        Self { values, whole: (python_notation::integer_symbol(names), whole) }
    }

    /// Evaluates an expression by the CAS.
    fn evaluate_cas(&self, value: &Ex) -> Option<Complex64> {
        let mut value = value.clone();
        for symbol in value.free_symbols() {
            let found = self.values.iter().find(|(own, ..)| *own == symbol);
            value = match found {
                Some((_, _, number, _)) => value.subs(&symbol, number),
                None if symbol.to_string() == "n" => value.subs_i64(&symbol, self.whole.1),
                None => return None,
            };
        }
        value.eval_complex64().ok().filter(|number| number.re.is_finite() && number.im.is_finite())
    }

    /// Whether the solution satisfies all equations; `None` if it has no value here.
    fn satisfies_problem(
        &self,
        problem: &EquationProblem,
        solution: &SolutionValues,
    ) -> Option<bool> {
        let mut numbers = Vec::new();
        for (name, value) in solution {
            numbers.push((name.as_str(), self.evaluate_cas(value)?));
            if !self.matches_rendered_text(problem, value, numbers.last()?.1) {
                return Some(false);
            }
        }
        let known = |shift: f64| {
            let numbers = &numbers;
            move |name: &str| {
                let found = numbers.iter().find(|(known, _)| *known == name);
                let found = found.map(|(_, number)| number * (1.0 + shift));
                found.or_else(|| self.value_of(name))
            }
        };
        for equation in &problem.equations {
            let at = numeric_eval::evaluate_node(equation, &known(0.0))?;
            if !at.value.norm().is_finite() {
                return Some(false);
            }
            // The last digits of a solution are not certain either.
            let beside = numeric_eval::evaluate_node(equation, &known(1e-13))?.value;
            let steep = (beside - at.value).norm();
            let allowed = NEAR * at.magnitude + if steep.is_finite() { 10.0 * steep } else { 0.0 };
            if at.value.norm() > allowed {
                return Some(false);
            }
        }
        Some(true)
    }

    fn value_of(&self, name: &str) -> Option<Complex64> {
        if name == self.whole.0 {
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            return Some(Complex64::new(self.whole.1 as f64, 0.0));
        }
        self.values.iter().find(|(_, known, ..)| known == name).map(|(.., number)| *number)
    }

    /// Whether the rendered value, parsed again, evaluates to the same number. A text that cannot
    /// be parsed is accepted: only the CAS knows its functions.
    fn matches_rendered_text(
        &self,
        problem: &EquationProblem,
        value: &Ex,
        number: Complex64,
    ) -> bool {
        let text = python_notation::to_python(&value.to_string(), &problem.names, self.whole.0);
        let Ok(read) = equation_parser::parse_expression(&text) else { return true };
        let Some(again) = numeric_eval::evaluate_node(&read, &|name| self.value_of(name)) else {
            return true;
        };
        let apart = (again.value - number).norm();
        apart.is_nan() || apart <= 1e-7 * again.magnitude.max(number.norm())
    }
}
