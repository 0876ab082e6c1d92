//! Matrix tools: solve, eigenvalues, SVD, inverse and determinant.
//!
//! Based on faer's decompositions. A singular matrix is an error with its condition number. For an
//! ill-conditioned matrix the answer contains the number and a warning.

mod condition_number;

use faer::linalg::solvers::{DenseSolveCore as _, SolveLstsq as _};
use faer::{Mat, Side, c64};
use serde_json::{Map, Value, json};

use crate::tool_arguments::ToolArguments;
use crate::tool_execution::{Answer, RunContext};
use condition_number::UpperTriangle;

/// Maximum rows and columns.
const MAX_MATRIX_DIM: usize = 512;
/// Condition number from which the answer contains a warning: fewer than half of the digits are
/// reliable.
const ILL_CONDITIONED: f64 = 1e8;

/// Size from which singular values take longer than solving the system.
const LARGE_MATRIX_DIM: usize = 48;
/// Condition number below which the fast path is as exact as the slow path.
const WELL_CONDITIONED: f64 = 1e5;

/// Runs the tool `matrix_solve` with its arguments.
pub(crate) fn matrix_solve(
    arguments: ToolArguments<'_>,
    run: &RunContext,
) -> Result<Answer, String> {
    let a = arguments.matrix_value("A", MAX_MATRIX_DIM)?;
    let b = arguments.f64_list("b", 1..=MAX_MATRIX_DIM)?;
    let (rows, columns) = (a.nrows(), a.ncols());
    if b.len() != rows {
        let found = b.len();
        return Err(format!("`b` has {found} numbers, `A` has {rows} rows; they must be as many"));
    }
    if rows < columns {
        return Err(format!(
            "`A` is {rows} × {columns}: with fewer equations than unknowns there is no single answer"
        ));
    }
    let b = Mat::from_fn(rows, 1, |i, _| b.get(i).copied().unwrap_or(0.0));
    let (x, condition) = if let Some((qr, condition)) = well_conditioned(&a) {
        (refine_solution(&a, &b, |b| qr.solve_lstsq(b)), condition)
    } else {
        let condition = condition_or_singular(&a)?;
        run.check_cancelled()?;
        let qr = a.col_piv_qr();
        (refine_solution(&a, &b, |b| qr.solve_lstsq(b)), condition)
    };
    let (rest, size) = ((&b - &a * &x).norm_l2(), b.norm_l2());
    let relative = if size > 0.0 { rest / size } else { rest };
    let mut answer = Map::new();
    answer.insert("x".to_owned(), json!(column_values(&x, 0)));
    answer.insert("relative_error".to_owned(), json!(relative));
    if rows > columns {
        answer.insert("least_squares".to_owned(), json!(true));
    }
    with_condition_warning(answer, condition)
}

/// Returns the QR factors and condition number of a large, well-conditioned square matrix, which
/// needs no column pivoting. `None` selects the slow path.
fn well_conditioned(a: &Mat<f64>) -> Option<(faer::linalg::solvers::Qr<f64>, f64)> {
    if a.nrows() != a.ncols() || a.nrows() < LARGE_MATRIX_DIM {
        return None;
    }
    let qr = a.qr();
    let condition = UpperTriangle::from_upper_triangular(qr.thin_R()).condition_number()?;
    (condition < WELL_CONDITIONED).then_some((qr, condition))
}

/// Returns a solution after one step of iterative refinement, if the condition number allows.
fn refine_solution(a: &Mat<f64>, b: &Mat<f64>, solve: impl Fn(&Mat<f64>) -> Mat<f64>) -> Mat<f64> {
    let x = solve(b);
    if a.nrows() > a.ncols() {
        return x;
    }
    let rest = b - a * &x;
    let better = &x + solve(&rest);
    if (b - a * &better).norm_l2() < rest.norm_l2() { better } else { x }
}

/// Runs the tool `matrix_eigenvalues` with its arguments.
pub(crate) fn matrix_eigenvalues(
    arguments: ToolArguments<'_>,
    run: &RunContext,
) -> Result<Answer, String> {
    let a = square_matrix(arguments)?;
    let with_vectors = arguments.bool_or_false("vectors")?;
    run.check_cancelled()?;
    let symmetric = (0..a.nrows()).all(|i| (0..i).all(|j| (a[(i, j)] - a[(j, i)]).abs() == 0.0));
    if symmetric { symmetric_eigen(&a, with_vectors) } else { general_eigen(&a, with_vectors) }
}

fn symmetric_eigen(a: &Mat<f64>, with_vectors: bool) -> Result<Answer, String> {
    let found =
        a.self_adjoint_eigen(Side::Lower).map_err(|_| no_convergence_error("eigenvalues"))?;
    let values: Vec<f64> = found.S().column_vector().iter().copied().collect();
    let vectors = with_vectors.then(|| matrix_rows(&found.U().to_owned()));
    require_finite(&values, "eigenvalues")?;
    Ok(json!({
        "eigenvalues": values, "eigenvectors": vectors, "symmetric": true, "complex": false,
    })
    .into())
}

/// Eigenvalues of a general matrix, sorted by real part, then by imaginary part.
fn general_eigen(a: &Mat<f64>, with_vectors: bool) -> Result<Answer, String> {
    let found = a.eigen().map_err(|_| no_convergence_error("eigenvalues"))?;
    let values: Vec<(f64, f64)> = found.S().column_vector().iter().map(|z| (z.re, z.im)).collect();
    let parts: Vec<f64> = values.iter().flat_map(|z| [z.0, z.1]).collect();
    require_finite(&parts, "eigenvalues")?;
    let mut order: Vec<usize> = (0..values.len()).collect();
    let key = |i: &usize| values.get(*i).copied().unwrap_or_default();
    order.sort_by(|i, j| {
        let (left, right) = (key(i), key(j));
        left.0.total_cmp(&right.0).then(left.1.total_cmp(&right.1))
    });
    let complex = values.iter().any(|z| z.1 != 0.0);
    let written = |(re, im): (f64, f64)| {
        if complex { json!({ "re": re, "im": im }) } else { json!(re) }
    };
    let eigenvalues: Vec<Value> = order.iter().map(|i| written(key(i))).collect();
    let vectors = if with_vectors {
        let found: Vec<Vec<c64>> = order
            .iter()
            .map(|j| {
                check_eigenvector(a, key(j), (0..a.nrows()).map(|i| found.U()[(i, *j)]).collect())
            })
            .collect::<Result<_, _>>()?;
        let row = |i: usize| -> Vec<Value> {
            found.iter().filter_map(|v| v.get(i)).map(|z| written((z.re, z.im))).collect()
        };
        Some((0..a.nrows()).map(row).collect::<Vec<_>>())
    } else {
        None
    };
    Ok(json!({
        "eigenvalues": eigenvalues, "eigenvectors": vectors, "symmetric": false, "complex": complex,
    })
    .into())
}

/// Returns a unit eigenvector. If the found vector of a defective matrix is none, it is the vector
/// that A - λ shortens most.
fn check_eigenvector(
    a: &Mat<f64>,
    (re, im): (f64, f64),
    found: Vec<c64>,
) -> Result<Vec<c64>, String> {
    let n = a.nrows();
    let less = Mat::from_fn(n, n, |i, j| {
        let diagonal = if i == j { c64::new(re, im) } else { c64::new(0.0, 0.0) };
        c64::new(a[(i, j)], 0.0) - diagonal
    });
    let long = |v: &[c64]| v.iter().map(c64::norm_sqr).sum::<f64>().sqrt();
    let left = |v: &[c64]| {
        let row = |i: usize| v.iter().enumerate().map(|(j, z)| less[(i, j)] * z).sum::<c64>();
        long(&(0..n).map(row).collect::<Vec<_>>())
    };
    let unit = |v: Vec<c64>| {
        let length = long(&v);
        v.into_iter().map(|z| z / length).collect::<Vec<c64>>()
    };
    let found = unit(found);
    if left(&found) <= 1e-12 * a.norm_l2() {
        return Ok(found);
    }
    let svd = less.svd().map_err(|_| no_convergence_error("eigenvectors"))?;
    let other = unit((0..n).map(|i| svd.V()[(i, n - 1)]).collect());
    let good = left(&other) <= 1e-7 * a.norm_l2();
    if left(&found) <= left(&other) || !good { Ok(found) } else { Ok(other) }
}

/// Runs the tool `matrix_svd` with its arguments.
pub(crate) fn matrix_svd(arguments: ToolArguments<'_>, run: &RunContext) -> Result<Answer, String> {
    let a = arguments.matrix_value("A", MAX_MATRIX_DIM)?;
    let full = arguments.bool_or_false("full")?;
    run.check_cancelled()?;
    let found = if full { a.svd() } else { a.thin_svd() };
    let found = found.map_err(|_| no_convergence_error("singular values"))?;
    let values: Vec<f64> = found.S().column_vector().iter().copied().collect();
    require_finite(&values, "singular values")?;
    let condition = condition_number(&values);
    let rank = matrix_rank(&values, a.nrows().max(a.ncols()));
    Ok(json!({
        "singular_values": values,
        "U": matrix_rows(&found.U().to_owned()),
        "V": matrix_rows(&found.V().to_owned()),
        "rank": rank,
        "condition_number": condition.is_finite().then_some(condition),
    })
    .into())
}

/// Runs `matrix_op`: all operations, under the names of the research registry's native program.
pub(crate) fn matrix_operation(
    arguments: ToolArguments<'_>,
    run: &RunContext,
) -> Result<Answer, String> {
    let words = &["solve", "eigen", "svd", "inverse", "det"];
    arguments.string_value("operation")?;
    match arguments.one_of("operation", "solve", words)? {
        "solve" => matrix_solve(arguments, run),
        "eigen" => matrix_eigenvalues(arguments, run),
        "svd" => matrix_svd(arguments, run),
        "inverse" => matrix_inverse(arguments, run),
        _ => matrix_determinant(arguments, run),
    }
}

fn matrix_inverse(fields: ToolArguments<'_>, run: &RunContext) -> Result<Answer, String> {
    let a = square_matrix(fields)?;
    let condition = condition_or_singular(&a)?;
    run.check_cancelled()?;
    let inverse = a.partial_piv_lu().inverse();
    let mut answer = Map::new();
    answer.insert("inverse".to_owned(), json!(matrix_rows(&inverse)));
    with_condition_warning(answer, condition)
}

fn matrix_determinant(fields: ToolArguments<'_>, run: &RunContext) -> Result<Answer, String> {
    let a = square_matrix(fields)?;
    run.check_cancelled()?;
    let pivots = lu_pivots(a);
    // An intermediate product may overflow although the determinant does not.
    let sign: f64 = pivots.iter().map(|x| x.signum()).product();
    let logarithm: f64 = pivots.iter().map(|x| x.abs().ln()).sum();
    let product: f64 = pivots.iter().product();
    let inside = product.is_normal() || logarithm == f64::NEG_INFINITY;
    let determinant = if inside { product } else { sign * logarithm.exp() };
    if !determinant.is_finite() {
        return Err(format!(
            "the determinant is too large; its natural logarithm is {logarithm}, its sign {sign}"
        ));
    }
    // Avoids negative zero.
    Ok(json!({ "determinant": determinant + 0.0 }).into())
}

/// Returns the pivots of Gaussian elimination with row pivoting; each swap changes one sign. If a
/// column is zero, the only pivot returned is zero.
fn lu_pivots(mut a: Mat<f64>) -> Vec<f64> {
    let n = a.nrows();
    let mut pivots = Vec::with_capacity(n);
    for k in 0..n {
        let size = |i: &usize| a[(*i, k)].abs();
        let row = (k..n).max_by(|i, j| size(i).total_cmp(&size(j))).unwrap_or(k);
        if a[(row, k)] == 0.0 {
            return vec![0.0];
        }
        let turned = if row == k { 1.0 } else { -1.0 };
        for j in k..n {
            (a[(k, j)], a[(row, j)]) = (a[(row, j)], a[(k, j)]);
        }
        for i in k + 1..n {
            let factor = a[(i, k)] / a[(k, k)];
            for j in k + 1..n {
                a[(i, j)] -= factor * a[(k, j)];
            }
        }
        pivots.push(turned * a[(k, k)]);
    }
    pivots
}

fn square_matrix(fields: ToolArguments<'_>) -> Result<Mat<f64>, String> {
    let a = fields.matrix_value("A", MAX_MATRIX_DIM)?;
    let (rows, columns) = (a.nrows(), a.ncols());
    if rows == columns {
        Ok(a)
    } else {
        Err(format!("`A` is {rows} × {columns}; it must be square"))
    }
}

/// Returns the condition number of a matrix of full column rank.
fn condition_or_singular(a: &Mat<f64>) -> Result<f64, String> {
    let values = a.singular_values().map_err(|_| no_convergence_error("condition number"))?;
    require_finite(&values, "singular values")?;
    let condition = condition_number(&values);
    let (rank, columns) = (matrix_rank(&values, a.nrows().max(a.ncols())), a.ncols());
    if rank == columns {
        return Ok(condition);
    }
    let number =
        if condition.is_finite() { format!("{condition:.2e}") } else { "infinite".to_owned() };
    Err(format!(
        "`A` is singular to the precision of its numbers (rank {rank} of {columns}, condition number \
         {number}): there is no single answer"
    ))
}

fn condition_number(values: &[f64]) -> f64 {
    match (values.first(), values.last()) {
        (Some(most), Some(least)) if *least > 0.0 => most / least,
        _ => f64::INFINITY,
    }
}

/// Returns the rank, with NumPy's tolerance.
fn matrix_rank(values: &[f64], size: usize) -> usize {
    let most = values.first().copied().unwrap_or(0.0);
    values.iter().filter(|value| **value > most * size as f64 * f64::EPSILON).count()
}

fn with_condition_warning(
    mut answer: Map<String, Value>,
    condition: f64,
) -> Result<Answer, String> {
    let numbers_fine = answer.values().all(is_finite_json);
    if !numbers_fine {
        return Err("the solution is too large".to_owned());
    }
    answer.insert("condition_number".to_owned(), json!(condition));
    if condition > ILL_CONDITIONED {
        let digits = (15.65 - condition.log10()).max(0.0).floor();
        let warning = format!(
            "ill-conditioned (condition number {condition:.2e}): about {digits} digits of the \
             solution are accurate"
        );
        answer.insert("warning".to_owned(), json!(warning));
    }
    Ok(Value::Object(answer).into())
}

/// Whether the JSON value contains no null, which stands for a number that is not finite.
fn is_finite_json(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(list) => list.iter().all(is_finite_json),
        _ => true,
    }
}

fn require_finite(values: &[f64], what: &str) -> Result<(), String> {
    let good = values.iter().all(|value| value.is_finite());
    good.then_some(()).ok_or_else(|| format!("the {what} are too large"))
}

fn no_convergence_error(what: &str) -> String {
    format!("the {what} of `A` were not found: the iteration did not converge")
}

fn column_values(a: &Mat<f64>, j: usize) -> Vec<f64> {
    (0..a.nrows()).map(|i| a[(i, j)]).collect()
}

pub(crate) fn matrix_rows(a: &Mat<f64>) -> Vec<Vec<f64>> {
    (0..a.nrows()).map(|i| (0..a.ncols()).map(|j| a[(i, j)]).collect()).collect()
}

#[cfg(test)]
mod tests;
