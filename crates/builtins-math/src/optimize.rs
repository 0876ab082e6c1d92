//! `optimize`: the least, or the greatest, of a function.

use faer::Mat;
use serde_json::{Value, json};

use crate::descent::{self, Until};
use crate::fields::{Fields, compiled, names, numbered};
use crate::work::{Answer, Run};

const DIMENSIONS: usize = 100;

type Function = Box<dyn FnMut(&[f64]) -> f64>;
type Named = (&'static str, fn(&[f64]) -> f64);

/// Those that have a name.
const NAMED: &[Named] = &[
    ("sphere", |x| x.iter().map(|x| x * x).sum()),
    ("rosenbrock", |x| {
        let pairs = x.iter().zip(x.iter().skip(1));
        pairs.map(|(a, b)| 100.0 * (b - a * a).powi(2) + (1.0 - a).powi(2)).sum()
    }),
    ("rastrigin", |x| {
        let wave = |x: &f64| x * x - 10.0 * (std::f64::consts::TAU * x).cos() + 10.0;
        x.iter().map(wave).sum()
    }),
    ("ackley", |x| {
        let n = x.len() as f64;
        let far = (x.iter().map(|x| x * x).sum::<f64>() / n).sqrt();
        let waves = x.iter().map(|x| (std::f64::consts::TAU * x).cos()).sum::<f64>() / n;
        20.0 + std::f64::consts::E - 20.0 * (-0.2 * far).exp() - waves.exp()
    }),
];

/// Runs the tool.
pub(crate) fn optimize(fields: Fields<'_>, run: &Run) -> Result<Answer, String> {
    let x0 = fields.numbers("x0", 1..=DIMENSIONS)?;
    let method = fields.choice("method", "nelder_mead", &["nelder_mead", "gradient_descent"])?;
    let greatest = fields.choice("mode", "minimize", &["minimize", "maximize"])? == "maximize";
    let iterations = fields.count("max_iter", 1_000, 1..=1_000_000)?;
    let tolerance = fields.positive("tolerance", 1e-8)?;
    let mut function = objective(fields.required("objective")?, x0.len())?;
    let sign = if greatest { -1.0 } else { 1.0 };
    let start = function(&x0);
    if !start.is_finite() {
        return Err("`objective` has no finite value at `x0`; start somewhere else".to_owned());
    }
    let until = Until { iterations, tolerance };
    let f = |x: &[f64]| sign * function(x);
    let found = match method {
        "gradient_descent" => descent::gradient(&x0, f, until, run)?,
        _ => descent::nelder_mead(&x0, f, until, run)?,
    };
    if !found.f.is_finite() || found.f.abs() > 1e300 || found.x.iter().any(|x| x.abs() > 1e150) {
        let way = if greatest { "rises" } else { "falls" };
        return Err(format!("`objective` {way} without end; there is nothing to be found"));
    }
    Ok(json!({
        "x": found.x,
        // Not to write minus zero.
        "f": sign * found.f + 0.0,
        "iterations": found.iterations,
        "evaluations": found.evaluations,
        "converged": found.converged,
    })
    .into())
}

/// A name or an expression; or an object with one of `quadratic`, `function`, `expression`, or a name
/// that is true.
fn objective(value: &Value, dimension: usize) -> Result<Function, String> {
    if let Some(text) = value.as_str() {
        return written(text, dimension);
    }
    let fields = Fields::inside(value);
    if let Some(quadratic) = fields.get("quadratic") {
        return self::quadratic(Fields::inside(quadratic), dimension);
    }
    for key in ["function", "expression"] {
        if fields.has(key) {
            return written(fields.text(key)?, dimension);
        }
    }
    let flagged = |(name, _): &&Named| fields.get(name) == Some(&json!(true));
    match NAMED.iter().find(flagged) {
        Some((_, function)) => Ok(Box::new(*function)),
        None => Err(format!(
            "`objective` must be an expression such as `(x0 - 1)**2 + x1**2`, {}, or \
             {{\"quadratic\": {{\"A\", \"b\", \"c\"}}}}",
            NAMED.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
        )),
    }
}

fn written(text: &str, dimension: usize) -> Result<Function, String> {
    if let Some((_, function)) = NAMED.iter().find(|(name, _)| *name == text.trim()) {
        return Ok(Box::new(*function));
    }
    let program = compiled("objective", text, numbered('x', dimension), &names('x', dimension))?;
    let mut stack = Vec::new();
    Ok(Box::new(move |x| program.real(x, &mut stack)))
}

/// ½ xᵀAx + bᵀx + c.
fn quadratic(fields: Fields<'_>, dimension: usize) -> Result<Function, String> {
    let a: Mat<f64> = fields.matrix("A", DIMENSIONS)?;
    let b =
        if fields.has("b") { fields.numbers("b", 0..=DIMENSIONS)? } else { vec![0.0; dimension] };
    let c = fields.number_or("c", 0.0)?;
    if a.nrows() != dimension || a.ncols() != dimension || b.len() != dimension {
        let (rows, columns, length) = (a.nrows(), a.ncols(), b.len());
        return Err(format!(
            "`x0` has {dimension} numbers, but `A` is {rows} × {columns} and `b` has {length}"
        ));
    }
    Ok(Box::new(move |x| {
        let mut total = c;
        for (i, (xi, bi)) in x.iter().zip(&b).enumerate() {
            let row: f64 = x.iter().enumerate().map(|(j, xj)| a[(i, j)] * xj).sum();
            total += xi * (0.5 * row + bi);
        }
        total
    }))
}

#[cfg(test)]
mod tests;
