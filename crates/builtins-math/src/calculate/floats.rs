//! Float operations: Python's division and remainder, sums, and the checks for errors.

/// Returns an error for a NaN or infinite result of valid inputs, as NumPy does under
/// `seterr(all="raise")`.
pub(super) fn check_result(result: f64, inputs: &[f64]) -> Result<f64, String> {
    if result.is_nan() && !inputs.iter().any(|input| input.is_nan()) {
        return Err("the result is not a real number".to_owned());
    }
    if result.is_infinite() && inputs.iter().all(|input| input.is_finite()) {
        return Err("the result is too large".to_owned());
    }
    Ok(result)
}

/// Returns the remainder with the divisor's sign; NaN by zero.
pub(super) fn remainder(left: f64, right: f64) -> f64 {
    let rest = left % right;
    if rest == 0.0 {
        0.0_f64.copysign(right)
    } else if (rest < 0.0) != (right < 0.0) {
        rest + right
    } else {
        rest
    }
}

/// Returns the quotient rounded down, consistent with the remainder.
pub(super) fn floor_quotient(left: f64, right: f64) -> f64 {
    let rest = left % right;
    let signed = rest != 0.0 && (rest < 0.0) != (right < 0.0);
    let quotient = (left - rest) / right - if signed { 1.0 } else { 0.0 };
    if quotient == 0.0 {
        return 0.0_f64.copysign(left / right);
    }
    let floor = quotient.floor();
    if quotient - floor > 0.5 { floor + 1.0 } else { floor }
}

/// Python's `sum` with Neumaier's compensation of rounding errors.
pub(super) fn compensated_sum(numbers: &[f64]) -> f64 {
    let (mut sum, mut lost) = (0.0_f64, 0.0_f64);
    for number in numbers {
        let next = sum + number;
        lost +=
            if sum.abs() >= number.abs() { (sum - next) + number } else { (number - next) + sum };
        sum = next;
    }
    if lost.is_finite() { sum + lost } else { sum }
}

/// `np.sum`: pairwise summation, so that errors grow slowly.
pub(super) fn pairwise_sum(numbers: &[f64]) -> f64 {
    if numbers.len() < 8 {
        return numbers.iter().fold(0.0, |sum, number| sum + number);
    }
    if numbers.len() > 128 {
        let half = numbers.len() / 2;
        let (left, right) = numbers.split_at(half - half % 8);
        return pairwise_sum(left) + pairwise_sum(right);
    }
    let mut lanes = [0.0_f64; 8];
    let chunks = numbers.chunks_exact(8);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, number) in lanes.iter_mut().zip(chunk) {
            *lane += number;
        }
    }
    // In pairs, in NumPy's order of addition.
    let [a, b, c, d] =
        [lanes[0] + lanes[1], lanes[2] + lanes[3], lanes[4] + lanes[5], lanes[6] + lanes[7]];
    let sum = (a + b) + (c + d);
    rest.iter().fold(sum, |sum, number| sum + number)
}

/// `math.fsum`: the exact sum, rounded once.
pub(super) fn exact_sum(numbers: &[f64]) -> f64 {
    let mut partials: Vec<f64> = Vec::new();
    for number in numbers {
        let mut carried = *number;
        let mut kept = Vec::with_capacity(partials.len() + 1);
        for partial in &partials {
            let (large, small) = if carried.abs() < partial.abs() {
                (*partial, carried)
            } else {
                (carried, *partial)
            };
            let high = large + small;
            let low = small - (high - large);
            if low != 0.0 {
                kept.push(low);
            }
            carried = high;
        }
        kept.push(carried);
        partials = kept;
    }
    rounded_total(&partials)
}

/// Returns the sum of non-overlapping parts in ascending order, rounded half to even.
fn rounded_total(partials: &[f64]) -> f64 {
    let mut rest = partials.iter().rev();
    let Some(mut high) = rest.next().copied() else { return 0.0 };
    while let Some(part) = rest.next() {
        let sum = high + part;
        let low = part - (sum - high);
        high = sum;
        if low != 0.0 {
            // The next smaller part decides a tie.
            if rest.next().is_some_and(|next| (*next < 0.0) == (low < 0.0)) {
                let twice = low * 2.0;
                let up = high + twice;
                if (up - high).to_bits() == twice.to_bits() {
                    high = up;
                }
            }
            break;
        }
    }
    high
}
