//! Estimates the condition number of an upper triangular matrix by Lanczos iteration, without an
//! SVD.
//!
//! Lanczos' steps on RᵀR and on its inverse find the largest and the least singular value to some twelve
//! digits in dozens of products, where all of them would take as long as everything else three times over.

use faer::{Mat, MatRef, Side};

/// Steps before it is given up.
const STEPS: usize = 160;
/// What may be left, in parts of the value: squared, and by the gap to the next, it is what is wrong.
const LEFT: f64 = 1e-8;

/// The triangle of a matrix, by columns, each up to its diagonal.
#[derive(Debug)]
pub(super) struct Triangle {
    columns: Vec<Vec<f64>>,
}

impl Triangle {
    pub(super) fn of(r: MatRef<'_, f64>) -> Self {
        let column = |j: usize| (0..=j).map(|i| r[(i, j)]).collect();
        Self { columns: (0..r.ncols()).map(column).collect() }
    }

    /// The quotient of its largest and its least singular value; `None` where it is not found, or where
    /// there is a zero on the diagonal.
    pub(super) fn condition(&self) -> Option<f64> {
        let regular = |column: &Vec<f64>| column.last().is_some_and(|it| it.is_normal());
        if !self.columns.iter().all(regular) {
            return None;
        }
        let most = largest(self.columns.len(), |x| self.across(&self.along(x)))?;
        let least = largest(self.columns.len(), |x| self.solved(&self.solved_across(x)))?;
        let condition = (most * least).sqrt();
        condition.is_finite().then_some(condition)
    }

    /// R x.
    fn along(&self, x: &[f64]) -> Vec<f64> {
        let mut y = vec![0.0; x.len()];
        for (column, x) in self.columns.iter().zip(x) {
            y.iter_mut().zip(column).for_each(|(y, r)| *y += r * x);
        }
        y
    }

    /// Rᵀ x.
    fn across(&self, x: &[f64]) -> Vec<f64> {
        self.columns.iter().map(|column| dot(column, x)).collect()
    }

    /// R⁻¹ x.
    fn solved(&self, x: &[f64]) -> Vec<f64> {
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

    /// R⁻ᵀ x.
    fn solved_across(&self, x: &[f64]) -> Vec<f64> {
        let mut y: Vec<f64> = Vec::with_capacity(x.len());
        for (column, x) in self.columns.iter().zip(x) {
            let Some((diagonal, above)) = column.split_last() else { continue };
            y.push((x - dot(above, &y)) / diagonal);
        }
        y
    }
}

/// Four sums beside each other, which the processor can add at once.
fn dot(a: &[f64], b: &[f64]) -> f64 {
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

/// The largest eigenvalue of a symmetric, positive map of `n` numbers.
fn largest(n: usize, map: impl Fn(&[f64]) -> Vec<f64>) -> Option<f64> {
    // Neither of even nor of odd vectors only, and never the same twice in a row.
    let start: Vec<f64> = (0..n).map(|i| 1.0 + (i as f64 * 0.754_877_666).fract()).collect();
    let mut basis: Vec<Vec<f64>> = vec![scaled(start)?];
    let (mut diagonal, mut beside): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    while let Some(last) = basis.last() {
        let mut next = map(last);
        diagonal.push(dot(last, &next));
        // Twice: once leaves what rounding made of it.
        for _ in 0..2 {
            for other in &basis {
                let part = dot(other, &next);
                next.iter_mut().zip(other).for_each(|(x, o)| *x -= part * o);
            }
        }
        let size = dot(&next, &next).sqrt();
        if !size.is_finite() {
            return None;
        }
        let count = diagonal.len();
        if count == n || size == 0.0 || count % 10 == 0 {
            let (value, end) = top(&diagonal, &beside)?;
            if count == n || size * end <= LEFT * value {
                return (value > 0.0).then_some(value);
            }
        }
        if count >= STEPS {
            return None;
        }
        beside.push(size);
        basis.push(scaled(next)?);
    }
    None
}

fn scaled(mut x: Vec<f64>) -> Option<Vec<f64>> {
    let size = dot(&x, &x).sqrt();
    for x in &mut x {
        *x /= size;
    }
    (size.is_normal()).then_some(x)
}

/// The largest eigenvalue of a tridiagonal matrix, and the end of its vector.
fn top(diagonal: &[f64], beside: &[f64]) -> Option<(f64, f64)> {
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

    use super::Triangle;

    #[test]
    fn it_is_the_quotient_of_the_singular_values() {
        for (n, steep) in [(1, 1.0), (3, 1.0), (64, 1.0), (150, 30.0), (200, 1e4)] {
            let entry = |i: usize, j: usize| {
                let wave = ((i * 7 + j * 13 + i * j) as f64).sin();
                wave + if i == j { 3.0 + steep * (i as f64 / n as f64) } else { 0.0 }
            };
            let a = Mat::from_fn(n, n, entry);
            let found = Triangle::of(a.qr().thin_R()).condition().unwrap();
            let values = a.singular_values().unwrap();
            let wanted = values[0] / values[n - 1];
            assert!((found / wanted - 1.0).abs() < 1e-10, "{n}: {found}, wanted {wanted}");
        }
    }

    #[test]
    fn a_zero_on_the_diagonal_has_no_condition_number() {
        let a = Mat::from_fn(3, 3, |i, j| if i == j && i < 2 { 1.0 } else { 0.0 });
        assert_eq!(Triangle::of(a.as_ref()).condition(), None);
    }
}
