//! Estimates the condition number of an upper triangular matrix by Lanczos iteration, without an
//! SVD.
//!
//! Lanczos iteration on RᵀR and on its inverse finds the largest and smallest singular value to
//! about twelve digits in dozens of products. All singular values would take three times as long as
//! everything else.

use faer::{Mat, MatRef, Side};

/// Maximum Lanczos steps.
const STEPS: usize = 160;
/// Relative residual at which the iteration stops. The error of the value is its square, divided by
/// the gap to the next value.
const LEFT: f64 = 1e-8;

/// Upper triangle of a matrix, by columns, each up to its diagonal.
#[derive(Debug)]
pub(super) struct UpperTriangle {
    columns: Vec<Vec<f64>>,
}

impl UpperTriangle {
    pub(super) fn from_upper_triangular(upper_triangle: MatRef<'_, f64>) -> Self {
        let column = |j: usize| (0..=j).map(|i| upper_triangle[(i, j)]).collect();
        Self { columns: (0..upper_triangle.ncols()).map(column).collect() }
    }

    /// Returns the ratio of the largest to the smallest singular value; `None` if it does not
    /// converge or the diagonal contains a zero.
    pub(super) fn condition_number(&self) -> Option<f64> {
        let regular = |column: &Vec<f64>| column.last().is_some_and(|it| it.is_normal());
        if !self.columns.iter().all(regular) {
            return None;
        }
        let most = largest_eigenvalue(self.columns.len(), |x| {
            self.multiply_transposed(&self.multiply(x))
        })?;
        let least = largest_eigenvalue(self.columns.len(), |x| {
            self.solve_system(&self.solve_transposed(x))
        })?;
        let condition = (most * least).sqrt();
        condition.is_finite().then_some(condition)
    }

    /// Computes R x.
    fn multiply(&self, x: &[f64]) -> Vec<f64> {
        let mut y = vec![0.0; x.len()];
        for (column, x) in self.columns.iter().zip(x) {
            y.iter_mut().zip(column).for_each(|(y, r)| *y += r * x);
        }
        y
    }

    /// Computes Rᵀ x.
    fn multiply_transposed(&self, x: &[f64]) -> Vec<f64> {
        self.columns.iter().map(|column| dot_product(column, x)).collect()
    }

    /// Computes R⁻¹ x.
    fn solve_system(&self, x: &[f64]) -> Vec<f64> {
        let mut y = x.to_vec();
        for (j, column) in self.columns.iter().enumerate().rev() {
            let Some((diagonal, above)) = column.split_last() else { continue };
            let Some(found) = y.get_mut(j) else { continue };
            *found /= diagonal;
            let found = *found;
            y.iter_mut().zip(above).for_each(|(y, r)| *y -= r * found);
        }
        y
    }

    /// Computes R⁻ᵀ x.
    fn solve_transposed(&self, x: &[f64]) -> Vec<f64> {
        let mut y: Vec<f64> = Vec::with_capacity(x.len());
        for (column, x) in self.columns.iter().zip(x) {
            let Some((diagonal, above)) = column.split_last() else { continue };
            y.push((x - dot_product(above, &y)) / diagonal);
        }
        y
    }
}

/// Dot product with independent partial sums, which the CPU can add in parallel.
fn dot_product(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (left, right) = (a.chunks_exact(8), b.get(..a.len()).unwrap_or(b).chunks_exact(8));
    let rest: f64 = left.remainder().iter().zip(right.remainder()).map(|(a, b)| a * b).sum();
    for (left, right) in left.zip(right) {
        for ((sum, a), b) in sums.iter_mut().zip(left).zip(right) {
            *sum += a * b;
        }
    }
    sums.iter().sum::<f64>() + rest
}

/// Returns the largest eigenvalue of a symmetric positive map of `n` numbers.
fn largest_eigenvalue(n: usize, map: impl Fn(&[f64]) -> Vec<f64>) -> Option<f64> {
    // Neither purely even nor purely odd, and without equal neighbours.
    let start: Vec<f64> = (0..n).map(|i| 1.0 + (i as f64 * 0.754_877_666).fract()).collect();
    let mut basis: Vec<Vec<f64>> = vec![normalize_vector(start)?];
    let (mut diagonal, mut beside): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    while let Some(last) = basis.last() {
        let mut next = map(last);
        diagonal.push(dot_product(last, &next));
        // Twice: a single pass leaves rounding errors.
        for _ in 0..2 {
            for other in &basis {
                let part = dot_product(other, &next);
                next.iter_mut().zip(other).for_each(|(x, o)| *x -= part * o);
            }
        }
        let size = dot_product(&next, &next).sqrt();
        if !size.is_finite() {
            return None;
        }
        let count = diagonal.len();
        if count == n || size == 0.0 || count % 10 == 0 {
            let (value, end) = tridiagonal_top(&diagonal, &beside)?;
            if count == n || size * end <= LEFT * value {
                return (value > 0.0).then_some(value);
            }
        }
        if count >= STEPS {
            return None;
        }
        beside.push(size);
        basis.push(normalize_vector(next)?);
    }
    None
}

fn normalize_vector(mut x: Vec<f64>) -> Option<Vec<f64>> {
    let size = dot_product(&x, &x).sqrt();
    for x in &mut x {
        *x /= size;
    }
    (size.is_normal()).then_some(x)
}

/// Returns the largest eigenvalue of a tridiagonal matrix, and the last component of its
/// eigenvector.
fn tridiagonal_top(diagonal: &[f64], beside: &[f64]) -> Option<(f64, f64)> {
    let n = diagonal.len();
    let entry = |i: usize, j: usize| match i.abs_diff(j) {
        0 => diagonal.get(i).copied().unwrap_or(0.0),
        1 => beside.get(i.min(j)).copied().unwrap_or(0.0),
        _ => 0.0,
    };
    let found = Mat::from_fn(n, n, entry).self_adjoint_eigen(Side::Lower).ok()?;
    let value = found.S().column_vector().iter().copied().last()?;
    Some((value, found.U()[(n - 1, n - 1)].abs()))
}

#[cfg(test)]
mod tests {
    use faer::Mat;

    use super::UpperTriangle;

    #[test]
    fn it_is_the_quotient_of_the_singular_values() {
        for (n, steep) in [(1, 1.0), (3, 1.0), (64, 1.0), (150, 30.0), (200, 1e4)] {
            let entry = |i: usize, j: usize| {
                let wave = ((i * 7 + j * 13 + i * j) as f64).sin();
                wave + if i == j { 3.0 + steep * (i as f64 / n as f64) } else { 0.0 }
            };
            let a = Mat::from_fn(n, n, entry);
            let found =
                UpperTriangle::from_upper_triangular(a.qr().thin_R()).condition_number().unwrap();
            let values = a.singular_values().unwrap();
            let wanted = values[0] / values[n - 1];
            assert!((found / wanted - 1.0).abs() < 1e-10, "{n}: {found}, wanted {wanted}");
        }
    }

    #[test]
    fn a_zero_on_the_diagonal_has_no_condition_number() {
        let a = Mat::from_fn(3, 3, |i, j| if i == j && i < 2 { 1.0 } else { 0.0 });
        assert_eq!(UpperTriangle::from_upper_triangular(a.as_ref()).condition_number(), None);
    }
}
