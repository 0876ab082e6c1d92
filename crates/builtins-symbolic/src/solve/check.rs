//! Numeric verification: substitutes each solution into the equations at sample values of the free
//! symbols.
//!
//! The numbers of a solution come from the algebra, and once more from the text that will be answered;
//! what the equations come to is computed by `value` alone.

use symplex::prelude::{Complex64, Ex};

use super::Problem;
use crate::{read, show, value};

/// A value for each unknown, which may contain parameters, other unknowns that are free, and a whole number.
pub(super) type Solution = Vec<(String, Ex)>;
/// One that holds.
pub(super) type Checked = Solution;

/// How far from 0 an equation may be, in parts of what it was added up from.
const NEAR: f64 = 1e-9;
/// Numerators over 97: two draws of numbers above zero, two of both signs.
const DRAWS: [[i64; 7]; 4] = [
    [131, 163, 74, 217, 305, 59, 181],
    [58, 241, 179, 88, 137, 269, 43],
    [-113, 71, -209, 151, -67, 190, -278],
    [229, -86, 47, -173, 118, -251, 65],
];
/// Whole numbers, for those of families.
const WHOLE: [i64; 4] = [0, 3, -2, -5];

/// What came of one solution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Holds,
    /// For some values of the parameters.
    Sometimes,
    Fails,
}

/// The solutions, each once, if every one of them holds.
pub(super) fn all(problem: &Problem, solutions: Vec<Solution>) -> Result<Vec<Checked>, String> {
    let mut held: Vec<(Checked, Vec<Complex64>)> = Vec::new();
    for solution in solutions {
        match verdict(problem, &solution) {
            Verdict::Holds => {}
            Verdict::Sometimes => {
                return Err("a solution holds for some values of the parameters only; say what \
                            they are with `assume`, such as {\"a\": \"positive\"}"
                    .to_owned());
            }
            Verdict::Fails => return Err("what was found could not be confirmed".to_owned()),
        }
        let draw = Draw::new(problem, &solution, 0);
        let at: Vec<_> = solution.iter().filter_map(|(_, value)| draw.number(value)).collect();
        let same = |other: &Vec<Complex64>| {
            let near =
                |(a, b): (&Complex64, &Complex64)| (a - b).norm() <= 1e-12 * a.norm().max(b.norm());
            other.len() == at.len() && other.iter().zip(&at).all(near)
        };
        if !held.iter().any(|(_, other)| same(other)) {
            held.push((solution, at));
        }
    }
    // In the order of their numbers: nothing of how they were found shows.
    held.sort_by(|(_, a), (_, b)| {
        let key = |at: &Complex64| (at.im.abs() > 1e-12 * at.re.abs().max(1.0), at.re, at.im);
        let (a, b) = (a.iter().map(key), b.iter().map(key));
        a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal)
    });
    Ok(held.into_iter().map(|(solution, _)| solution).collect())
}

fn verdict(problem: &Problem, solution: &Solution) -> Verdict {
    let draws = 0..DRAWS.len();
    let verdicts: Vec<Option<bool>> =
        draws.map(|i| Draw::new(problem, solution, i).holds(problem, solution)).collect();
    let good = verdicts.iter().filter(|it| **it == Some(true)).count();
    let bad = verdicts.iter().filter(|it| **it == Some(false)).count();
    match (good, bad) {
        (2.., 0) => Verdict::Holds,
        (1.., 1..) => Verdict::Sometimes,
        _ => Verdict::Fails,
    }
}

/// Values for everything that a solution leaves open.
struct Draw {
    values: Vec<(Ex, String, Ex, Complex64)>,
    /// What the whole number of families is called, and its value.
    whole: (&'static str, i64),
}

impl Draw {
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    fn new(problem: &Problem, solution: &Solution, which: usize) -> Self {
        let names = &problem.names;
        let row = DRAWS.get(which).copied().unwrap_or_default();
        let open = names.all.iter().filter(|(name, symbol)| {
            // An unknown is open where it stands for itself.
            let value = solution.iter().find(|(known, _)| known == name);
            value.is_none_or(|(_, value)| value == symbol)
        });
        let value = |(i, (name, symbol)): (usize, &(String, Ex))| {
            // Of both kinds in every draw but the first two, and never twice the same.
            let drawn =
                row.get(i % row.len()).copied().unwrap_or(7) + i64::try_from(i / 7).unwrap_or(0);
            let assumed = problem.assumed.get(name).map(String::as_str);
            let (over, under) = match assumed {
                Some("positive") => (drawn.abs(), 97),
                Some("negative") => (-drawn.abs(), 97),
                Some("integer") => (drawn / 10, 1),
                _ => (drawn, 97),
            };
            let number = Complex64::new(over as f64 / under as f64, 0.0);
            (symbol.clone(), name.clone(), names.algebra.rational(over, under), number)
        };
        let values = open.enumerate().map(value).collect();
        let whole = WHOLE.get(which).copied().unwrap_or_default();
        Self { values, whole: (show::whole(names), whole) }
    }

    /// What the algebra says that an expression comes to.
    fn number(&self, value: &Ex) -> Option<Complex64> {
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

    /// Whether the solution solves everything; `None` where it has no value here.
    fn holds(&self, problem: &Problem, solution: &Solution) -> Option<bool> {
        let mut numbers = Vec::new();
        for (name, value) in solution {
            numbers.push((name.as_str(), self.number(value)?));
            if !self.says_the_same(problem, value, numbers.last()?.1) {
                return Some(false);
            }
        }
        let known = |shift: f64| {
            let numbers = &numbers;
            move |name: &str| {
                let found = numbers.iter().find(|(known, _)| *known == name);
                let found = found.map(|(_, number)| number * (1.0 + shift));
                found.or_else(|| self.of(name))
            }
        };
        for equation in &problem.equations {
            let at = value::of(equation, &known(0.0))?;
            if !at.value.norm().is_finite() {
                return Some(false);
            }
            // The last digits of a solution are not certain either.
            let beside = value::of(equation, &known(1e-13))?.value;
            let steep = (beside - at.value).norm();
            let allowed = NEAR * at.size + if steep.is_finite() { 10.0 * steep } else { 0.0 };
            if at.value.norm() > allowed {
                return Some(false);
            }
        }
        Some(true)
    }

    fn of(&self, name: &str) -> Option<Complex64> {
        if name == self.whole.0 {
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            return Some(Complex64::new(self.whole.1 as f64, 0.0));
        }
        self.values.iter().find(|(_, known, ..)| known == name).map(|(.., number)| *number)
    }

    /// Whether the text of a value, read again, comes to the same number; what cannot be read is a
    /// function that only the algebra knows.
    fn says_the_same(&self, problem: &Problem, value: &Ex, number: Complex64) -> bool {
        let text = show::text(&value.to_string(), &problem.names, self.whole.0);
        let Ok(read) = read::expression(&text) else { return true };
        let Some(again) = value::of(&read, &|name| self.of(name)) else { return true };
        let apart = (again.value - number).norm();
        apart.is_nan() || apart <= 1e-7 * again.size.max(number.norm())
    }
}
