//! The tools on matrices: solve, eigenvalues, singular values, inverse, determinant.
//!
//! By faer's decompositions. What is singular is an error with the condition number; what is nearly so
//! is answered with it and a warning.

mod triangle;

use faer::linalg::solvers::{DenseSolveCore as _, SolveLstsq as _};
use faer::{Mat, Side, c64};
use serde_json::{Map, Value, json};

use crate::fields::Fields;
use crate::work::{Answer, Run};
use triangle::Triangle;

/// Rows and columns.
const MOST: usize = 512;
/// From here on an answer comes with a warning: fewer than half of the digits are left.
const ILL: f64 = 1e8;

/// From here on singular values take longer than a system's solution.
const LARGE: usize = 48;
/// Below this condition number the short way is as exact as the long one.
const WELL: f64 = 1e5;

/// Runs `matrix_solve`.
pub(crate) fn solve(fields: Fields<'_>, run: &Run) -> Result<Answer, String> {
    let a = fields.matrix("A", MOST)?;
    let b = fields.numbers("b", 1..=MOST)?;
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
        (refined(&a, &b, |b| qr.solve_lstsq(b)), condition)
    } else {
        let condition = regular(&a)?;
        run.go_on()?;
        let qr = a.col_piv_qr();
        (refined(&a, &b, |b| qr.solve_lstsq(b)), condition)
    };
    let (rest, size) = ((&b - &a * &x).norm_l2(), b.norm_l2());
    let relative = if size > 0.0 { rest / size } else { rest };
    let mut answer = Map::new();
    answer.insert("x".to_owned(), json!(column(&x, 0)));
    answer.insert("relative_error".to_owned(), json!(relative));
    if rows > columns {
        answer.insert("least_squares".to_owned(), json!(true));
    }
    conditioned(answer, condition)
}

/// The factors of a large square matrix that is far from singular, and its condition number: columns need
/// not be exchanged then. Others go the long way.
fn well_conditioned(a: &Mat<f64>) -> Option<(faer::linalg::solvers::Qr<f64>, f64)> {
    if a.nrows() != a.ncols() || a.nrows() < LARGE {
        return None;
    }
    let qr = a.qr();
    let condition = Triangle::of(qr.thin_R()).condition()?;
    (condition < WELL).then_some((qr, condition))
}

/// A solution, with one step of refinement as far as the condition lets it be better.
fn refined(a: &Mat<f64>, b: &Mat<f64>, solve: impl Fn(&Mat<f64>) -> Mat<f64>) -> Mat<f64> {
    let x = solve(b);
    if a.nrows() > a.ncols() {
        return x;
    }
    let rest = b - a * &x;
    let better = &x + solve(&rest);
    if (b - a * &better).norm_l2() < rest.norm_l2() { better } else { x }
}

/// Runs `matrix_eigenvalues`.
pub(crate) fn eigenvalues(fields: Fields<'_>, run: &Run) -> Result<Answer, String> {
    let a = square(fields)?;
    let with_vectors = fields.flag("vectors")?;
    run.go_on()?;
    let symmetric = (0..a.nrows()).all(|i| (0..i).all(|j| (a[(i, j)] - a[(j, i)]).abs() == 0.0));
    if symmetric { of_symmetric(&a, with_vectors) } else { of_general(&a, with_vectors) }
}

fn of_symmetric(a: &Mat<f64>, with_vectors: bool) -> Result<Answer, String> {
    let found = a.self_adjoint_eigen(Side::Lower).map_err(|_| unfinished("eigenvalues"))?;
    let values: Vec<f64> = found.S().column_vector().iter().copied().collect();
    let vectors = with_vectors.then(|| rows(&found.U().to_owned()));
    finite(&values, "eigenvalues")?;
    Ok(json!({
        "eigenvalues": values, "eigenvectors": vectors, "symmetric": true, "complex": false,
    })
    .into())
}

/// In the order of their real parts, then of their imaginary ones.
fn of_general(a: &Mat<f64>, with_vectors: bool) -> Result<Answer, String> {
    let found = a.eigen().map_err(|_| unfinished("eigenvalues"))?;
    let values: Vec<(f64, f64)> = found.S().column_vector().iter().map(|z| (z.re, z.im)).collect();
    let parts: Vec<f64> = values.iter().flat_map(|z| [z.0, z.1]).collect();
    finite(&parts, "eigenvalues")?;
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
            .map(|j| vector(a, key(j), (0..a.nrows()).map(|i| found.U()[(i, *j)]).collect()))
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

/// An eigenvector of length one. What was found for a matrix that has too few of them may be none: then
/// it is the vector that A - λ shortens the most.
fn vector(a: &Mat<f64>, (re, im): (f64, f64), found: Vec<c64>) -> Result<Vec<c64>, String> {
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
    let svd = less.svd().map_err(|_| unfinished("eigenvectors"))?;
    let other = unit((0..n).map(|i| svd.V()[(i, n - 1)]).collect());
    let good = left(&other) <= 1e-7 * a.norm_l2();
    if left(&found) <= left(&other) || !good { Ok(found) } else { Ok(other) }
}

/// Runs `matrix_svd`.
pub(crate) fn svd(fields: Fields<'_>, run: &Run) -> Result<Answer, String> {
    let a = fields.matrix("A", MOST)?;
    let full = fields.flag("full")?;
    run.go_on()?;
    let found = if full { a.svd() } else { a.thin_svd() };
    let found = found.map_err(|_| unfinished("singular values"))?;
    let values: Vec<f64> = found.S().column_vector().iter().copied().collect();
    finite(&values, "singular values")?;
    let condition = condition(&values);
    let rank = rank(&values, a.nrows().max(a.ncols()));
    Ok(json!({
        "singular_values": values,
        "U": rows(&found.U().to_owned()),
        "V": rows(&found.V().to_owned()),
        "rank": rank,
        "condition_number": condition.is_finite().then_some(condition),
    })
    .into())
}

/// Runs `matrix_op`: all of it under the names of spec 3's native program.
pub(crate) fn operation(fields: Fields<'_>, run: &Run) -> Result<Answer, String> {
    let words = &["solve", "eigen", "svd", "inverse", "det"];
    fields.text("operation")?;
    match fields.choice("operation", "solve", words)? {
        "solve" => solve(fields, run),
        "eigen" => eigenvalues(fields, run),
        "svd" => svd(fields, run),
        "inverse" => inverse(fields, run),
        _ => determinant(fields, run),
    }
}

fn inverse(fields: Fields<'_>, run: &Run) -> Result<Answer, String> {
    let a = square(fields)?;
    let condition = regular(&a)?;
    run.go_on()?;
    let inverse = a.partial_piv_lu().inverse();
    let mut answer = Map::new();
    answer.insert("inverse".to_owned(), json!(rows(&inverse)));
    conditioned(answer, condition)
}

fn determinant(fields: Fields<'_>, run: &Run) -> Result<Answer, String> {
    let a = square(fields)?;
    run.go_on()?;
    let pivots = pivots(a);
    // A product of many numbers may leave the range on its way and come back.
    let sign: f64 = pivots.iter().map(|x| x.signum()).product();
    let logarithm: f64 = pivots.iter().map(|x| x.abs().ln()).sum();
    let product: f64 = pivots.iter().product();
    let inside = product.is_normal() || logarithm == f64::NEG_INFINITY;
    let determinant = if inside { product } else { sign * logarithm.exp() };
    if !determinant.is_finite() {
        return Err(format!(
            "the determinant is too large to be written; its natural logarithm is {logarithm}, its sign {sign}"
        ));
    }
    // Not to write minus zero.
    Ok(json!({ "determinant": determinant + 0.0 }).into())
}

/// What elimination with row pivoting leaves on the diagonal; each swap turns one sign. A column of
/// zeros is left as it is, and its zero with it.
fn pivots(mut a: Mat<f64>) -> Vec<f64> {
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

fn square(fields: Fields<'_>) -> Result<Mat<f64>, String> {
    let a = fields.matrix("A", MOST)?;
    let (rows, columns) = (a.nrows(), a.ncols());
    if rows == columns {
        Ok(a)
    } else {
        Err(format!("`A` is {rows} × {columns}; it must be square"))
    }
}

/// The condition number of a matrix of full column rank.
fn regular(a: &Mat<f64>) -> Result<f64, String> {
    let values = a.singular_values().map_err(|_| unfinished("condition number"))?;
    finite(&values, "singular values")?;
    let condition = condition(&values);
    let (rank, columns) = (rank(&values, a.nrows().max(a.ncols())), a.ncols());
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

fn condition(values: &[f64]) -> f64 {
    match (values.first(), values.last()) {
        (Some(most), Some(least)) if *least > 0.0 => most / least,
        _ => f64::INFINITY,
    }
}

/// As numpy counts it.
fn rank(values: &[f64], size: usize) -> usize {
    let most = values.first().copied().unwrap_or(0.0);
    values.iter().filter(|value| **value > most * size as f64 * f64::EPSILON).count()
}

fn conditioned(mut answer: Map<String, Value>, condition: f64) -> Result<Answer, String> {
    let numbers_fine = answer.values().all(all_written);
    if !numbers_fine {
        return Err("the answer is too large to be written".to_owned());
    }
    answer.insert("condition_number".to_owned(), json!(condition));
    if condition > ILL {
        let digits = (15.65 - condition.log10()).max(0.0).floor();
        let warning = format!(
            "ill-conditioned (condition number {condition:.2e}): about {digits} digits of the answer are \
             certain"
        );
        answer.insert("warning".to_owned(), json!(warning));
    }
    Ok(Value::Object(answer).into())
}

/// What is not finite becomes null in JSON.
fn all_written(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(list) => list.iter().all(all_written),
        _ => true,
    }
}

fn finite(values: &[f64], what: &str) -> Result<(), String> {
    let good = values.iter().all(|value| value.is_finite());
    good.then_some(()).ok_or_else(|| format!("the {what} are too large to be written"))
}

fn unfinished(what: &str) -> String {
    format!("the {what} of `A` were not found: the iteration did not come to an end")
}

fn column(a: &Mat<f64>, j: usize) -> Vec<f64> {
    (0..a.nrows()).map(|i| a[(i, j)]).collect()
}

pub(crate) fn rows(a: &Mat<f64>) -> Vec<Vec<f64>> {
    (0..a.nrows()).map(|i| (0..a.ncols()).map(|j| a[(i, j)]).collect()).collect()
}

#[cfg(test)]
mod tests;
