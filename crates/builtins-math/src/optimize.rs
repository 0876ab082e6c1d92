//! `optimize`: finds the minimum or maximum of a function.

use faer::Mat;
use serde_json::{Value, json};

use crate::local_minimizers::{self, StoppingRule};
use crate::tool_arguments::{
    ToolArguments, compile_expression, indexed_variable, variable_names_text,
};
use crate::tool_execution::{Answer, RunContext};

const DIMENSIONS: usize = 100;

type ObjectiveFn = Box<dyn FnMut(&[f64]) -> f64>;
type NamedObjective = (&'static str, fn(&[f64]) -> f64);

/// Objectives with a name.
const NAMED: &[NamedObjective] = &[
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

/// Runs the tool `optimize` with its arguments.
pub(crate) fn run_optimize(
    arguments: ToolArguments<'_>,
    run: &RunContext,
) -> Result<Answer, String> {
    let x0 = arguments.f64_list("x0", 1..=DIMENSIONS)?;
    let method = arguments.one_of("method", "nelder_mead", &["nelder_mead", "gradient_descent"])?;
    let greatest = arguments.one_of("mode", "minimize", &["minimize", "maximize"])? == "maximize";
    let iterations = arguments.usize_in("max_iter", 1_000, 1..=1_000_000)?;
    let tolerance = arguments.positive_or("tolerance", 1e-8)?;
    let mut function = parse_objective(arguments.required_value("objective")?, x0.len())?;
    let sign = if greatest { -1.0 } else { 1.0 };
    let start = function(&x0);
    if !start.is_finite() {
        return Err("`objective` has no finite value at `x0`; start somewhere else".to_owned());
    }
    let until = StoppingRule { iterations, tolerance };
    let f = |x: &[f64]| sign * function(x);
    let found = match method {
        "gradient_descent" => local_minimizers::gradient_descent(&x0, f, until, run)?,
        _ => local_minimizers::nelder_mead(&x0, f, until, run)?,
    };
    if !found.f.is_finite() || found.f.abs() > 1e300 || found.x.iter().any(|x| x.abs() > 1e150) {
        let way = if greatest { "rises" } else { "falls" };
        return Err(format!("`objective` {way} without bound; there is no optimum"));
    }
    Ok(json!({
        "x": found.x,
        // Avoids negative zero.
        "f": sign * found.f + 0.0,
        "iterations": found.iterations,
        "evaluations": found.evaluations,
        "converged": found.converged,
    })
    .into())
}

/// Parses an objective: a name or an expression, or an object with one of `quadratic`, `function`,
/// `expression`, or a name that is true.
fn parse_objective(value: &Value, dimension: usize) -> Result<ObjectiveFn, String> {
    if let Some(text) = value.as_str() {
        return expression_objective(text, dimension);
    }
    let fields = ToolArguments::from_value(value);
    if let Some(quadratic) = fields.get_value("quadratic") {
        return self::quadratic_objective(ToolArguments::from_value(quadratic), dimension);
    }
    for key in ["function", "expression"] {
        if fields.has_value(key) {
            return expression_objective(fields.string_value(key)?, dimension);
        }
    }
    let flagged = |(name, _): &&NamedObjective| fields.get_value(name) == Some(&json!(true));
    match NAMED.iter().find(flagged) {
        Some((_, function)) => Ok(Box::new(*function)),
        None => Err(format!(
            "`objective` must be an expression such as `(x0 - 1)**2 + x1**2`, {}, or \
             {{\"quadratic\": {{\"A\", \"b\", \"c\"}}}}",
            NAMED.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
        )),
    }
}

fn expression_objective(text: &str, dimension: usize) -> Result<ObjectiveFn, String> {
    if let Some((_, function)) = NAMED.iter().find(|(name, _)| *name == text.trim()) {
        return Ok(Box::new(*function));
    }
    let program = compile_expression(
        "objective",
        text,
        indexed_variable('x', dimension),
        &variable_names_text('x', dimension),
    )?;
    let mut stack = Vec::new();
    Ok(Box::new(move |x| program.evaluate_f64(x, &mut stack)))
}

/// Objective ½ xᵀAx + bᵀx + c.
fn quadratic_objective(fields: ToolArguments<'_>, dimension: usize) -> Result<ObjectiveFn, String> {
    let a: Mat<f64> = fields.matrix_value("A", DIMENSIONS)?;
    let b = if fields.has_value("b") {
        fields.f64_list("b", 0..=DIMENSIONS)?
    } else {
        vec![0.0; dimension]
    };
    let c = fields.f64_or("c", 0.0)?;
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
