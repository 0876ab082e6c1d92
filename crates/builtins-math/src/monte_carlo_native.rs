//! `monte_carlo_native`: Monte Carlo integration, π estimation and bootstrap, on all cores.

use rand::RngExt as _;
use serde_json::json;

use crate::descriptive_statistics::{interpolate_quantile, mean_and_variance};
use crate::random_streams::{RandomStream, RunningMoments, map_blocks};
use crate::tool_arguments::{ToolArguments, indexed_variable, variable_names_text};
use crate::tool_execution::{Answer, RunContext};

/// Maximum samples of an integral.
const MOST: u64 = 1_000_000_000;
const BLOCK: u64 = 65_536;
const DIMENSIONS: usize = 64;
/// Maximum draws of a bootstrap: resamples times numbers.
const DRAWN: u64 = 1_000_000_000;

/// Runs the tool `monte_carlo_native` with its arguments.
pub(crate) fn run_monte_carlo_native(
    arguments: ToolArguments<'_>,
    run: &RunContext,
) -> Result<Answer, String> {
    match arguments.one_of("operation", "integrate", &["integrate", "pi", "bootstrap"])? {
        "pi" => estimate_pi(arguments, run),
        "bootstrap" => run_bootstrap(arguments, run),
        _ => run_integrate(arguments, run),
    }
}

fn run_integrate(fields: ToolArguments<'_>, run: &RunContext) -> Result<Answer, String> {
    let bounds = fields.interval_list("bounds", DIMENSIONS)?;
    let samples = fields.integer_in("n_samples", 10_000, 2..=MOST)?;
    let seed = fields.integer_in("seed", 42, 0..=u64::MAX)?;
    let volume: f64 = bounds.iter().map(|(least, most)| most - least).product();
    let found = match fields.string_or("function", "constant")? {
        "constant" => sample_mean((samples, seed), &bounds, run, || |_: &[f64]| 1.0)?,
        // 1 inside the unit ball: the integral is its volume.
        "sphere" => sample_mean((samples, seed), &bounds, run, || {
            |x: &[f64]| f64::from(u8::from(x.iter().map(|x| x * x).sum::<f64>() <= 1.0))
        })?,
        "gaussian" => sample_mean((samples, seed), &bounds, run, || {
            |x: &[f64]| (-x.iter().map(|x| x * x).sum::<f64>()).exp()
        })?,
        "polynomial" => sample_mean((samples, seed), &bounds, run, || {
            |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>()
        })?,
        _ => {
            let count = bounds.len();
            let known = format!(
                "{}; there are also the functions constant, sphere, gaussian and polynomial",
                variable_names_text('x', count)
            );
            let program = fields.compile_field("function", indexed_variable('x', count), &known)?;
            sample_mean((samples, seed), &bounds, run, || {
                let mut stack = Vec::new();
                let program = &program;
                move |x: &[f64]| program.evaluate_f64(x, &mut stack)
            })?
        }
    };
    let (integral, error) = (volume * found.mean, volume * found.standard_error());
    if !integral.is_finite() || !error.is_finite() {
        return Err("`function` has no finite value at some points inside `bounds`".to_owned());
    }
    Ok(json!({
        "integral": integral,
        "standard_error": error,
        "samples_used": samples,
        "volume": volume,
        "confidence_interval": { "lower": integral - 1.96 * error, "upper": integral + 1.96 * error },
    })
    .into())
}

/// Returns mean and variance of a function over a box. `function` creates one per block.
fn sample_mean<F: FnMut(&[f64]) -> f64>(
    (samples, seed): (u64, u64),
    bounds: &[(f64, f64)],
    run: &RunContext,
    function: impl Fn() -> F + Sync,
) -> Result<RunningMoments, String> {
    let blocks = map_blocks((samples, BLOCK), seed, run, |mut stream, length| {
        let (mut x, mut function) = (vec![0.0; bounds.len()], function());
        // Relative to the first value, so that squares of large values do not lose the differences.
        let mut around = None;
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..length {
            draw_point(&mut x, bounds, &mut stream);
            let value = function(&x);
            let apart = value - *around.get_or_insert(value);
            sum += apart;
            squares += apart * apart;
        }
        let mut found = RunningMoments::from_sums(length as f64, sum, squares);
        found.mean += around.unwrap_or(0.0);
        found
    })?;
    Ok(blocks.into_iter().fold(RunningMoments::default(), RunningMoments::merge_with))
}

fn draw_point(x: &mut [f64], bounds: &[(f64, f64)], stream: &mut RandomStream) {
    for (x, (least, most)) in x.iter_mut().zip(bounds) {
        *x = least + (most - least) * stream.random::<f64>();
    }
}

fn estimate_pi(fields: ToolArguments<'_>, run: &RunContext) -> Result<Answer, String> {
    let samples = fields.integer_in("n_samples", 100_000, 2..=MOST)?;
    let seed = fields.integer_in("seed", 42, 0..=u64::MAX)?;
    let unit = [(0.0, 1.0), (0.0, 1.0)];
    let quarter = || |x: &[f64]| f64::from(u8::from(x.iter().map(|x| x * x).sum::<f64>() <= 1.0));
    let found = sample_mean((samples, seed), &unit, run, quarter)?;
    let estimate = 4.0 * found.mean;
    Ok(json!({
        "pi_estimate": estimate,
        "absolute_error": (estimate - std::f64::consts::PI).abs(),
        "standard_error": 4.0 * found.standard_error(),
        "samples_used": samples,
    })
    .into())
}

fn run_bootstrap(fields: ToolArguments<'_>, run: &RunContext) -> Result<Answer, String> {
    let mut data = fields.f64_list("data", 2..=crate::descriptive_statistics::MAX_VALUES)?;
    let resamples = fields.integer_in("n_samples", 10_000, 100..=1_000_000)?;
    let seed = fields.integer_in("seed", 42, 0..=u64::MAX)?;
    let confidence = fields.f64_or("confidence", 0.95)?;
    if !(confidence > 0.0 && confidence < 1.0) {
        return Err(format!("`confidence` is {confidence}; it must lie between 0 and 1"));
    }
    let name = fields.one_of("statistic", "mean", &["mean", "median", "std"])?;
    if resamples.saturating_mul(data.len() as u64) > DRAWN {
        let count = data.len();
        return Err(format!(
            "{resamples} resamples of {count} numbers are too many: at most {DRAWN} draws in all; lower \
             `n_samples`"
        ));
    }
    let blocks = map_blocks((resamples, 64), seed, run, |mut stream, length| {
        let mut drawn = vec![0.0; data.len()];
        let one = |_| {
            for x in &mut drawn {
                let at = stream.random_range(0..data.len());
                *x = data.get(at).copied().unwrap_or(f64::NAN);
            }
            compute_statistic(name, &mut drawn)
        };
        (0..length).map(one).collect::<Vec<f64>>()
    })?;
    let mut found = blocks.concat();
    found.sort_unstable_by(f64::total_cmp);
    let (mean, variance) = mean_and_variance(&found);
    let original = compute_statistic(name, &mut data);
    if !original.is_finite() || !variance.is_finite() {
        return Err("the numbers are too large for this statistic".to_owned());
    }
    let (lower, upper) = ((1.0 - confidence) / 2.0, f64::midpoint(1.0, confidence));
    Ok(json!({
        "original_value": original,
        "bootstrap_mean": mean,
        "bias": mean - original,
        "standard_error": variance.sqrt(),
        "confidence_interval": { "lower": interpolate_quantile(&found, lower), "upper": interpolate_quantile(&found, upper) },
        "confidence": confidence,
        "samples_used": resamples,
    })
    .into())
}

fn compute_statistic(name: &str, data: &mut [f64]) -> f64 {
    match name {
        "median" => {
            data.sort_unstable_by(f64::total_cmp);
            interpolate_quantile(data, 0.5)
        }
        "std" => mean_and_variance(data).1.sqrt(),
        _ => mean_and_variance(data).0,
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use serde_json::{Value, json};

    use crate::tool_execution::tests::{answer, fault};

    fn close(args: &Value, expected: f64) {
        let found = answer("monte_carlo_native", args);
        let (integral, error) =
            (found["integral"].as_f64().unwrap(), found["standard_error"].as_f64().unwrap());
        assert!((integral - expected).abs() <= 5.0 * error + 1e-12, "{args} {found}");
    }

    #[test]
    fn known_integrals() {
        let unit = json!([[-1, 1], [-1, 1]]);
        close(&json!({ "bounds": [[0, 2], [1, 4]] }), 6.0);
        close(&json!({ "bounds": unit, "function": "sphere", "n_samples": 300_000 }), PI);
        let ball = json!([[-1, 1], [-1, 1], [-1, 1]]);
        close(
            &json!({ "bounds": ball, "function": "sphere", "n_samples": 300_000 }),
            4.0 * PI / 3.0,
        );
        let wide = json!([[-6, 6], [-6, 6]]);
        close(&json!({ "bounds": wide, "function": "gaussian", "n_samples": 300_000 }), PI);
        close(
            &json!({ "bounds": unit, "function": "polynomial", "n_samples": 100_000 }),
            8.0 / 3.0,
        );
        let args = json!({ "bounds": [[0, PI]], "function": "sin(x)", "n_samples": 100_000 });
        close(&args, 2.0);
        let args =
            json!({ "bounds": [[0, 1], [0, 1]], "function": "x0 * x1", "n_samples": 100_000 });
        close(&args, 0.25);
    }

    #[test]
    fn an_offset_that_is_large_does_not_eat_the_error() {
        let args = json!({ "bounds": [[0, 1]], "function": "1e9 + x", "n_samples": 200_000 });
        let error = answer("monte_carlo_native", &args)["standard_error"].as_f64().unwrap();
        let expected = (1.0_f64 / 12.0 / 200_000.0).sqrt();
        assert!((error / expected - 1.0).abs() < 0.02, "{error} {expected}");
    }

    #[test]
    fn pi_and_bootstrap() {
        let args = json!({ "operation": "pi", "n_samples": 400_000 });
        let found = answer("monte_carlo_native", &args);
        let error = found["standard_error"].as_f64().unwrap();
        assert!(found["absolute_error"].as_f64().unwrap() < 5.0 * error, "{found}");
        let data: Vec<f64> = (0..100).map(f64::from).collect();
        let args = json!({ "operation": "bootstrap", "data": data });
        let found = answer("monte_carlo_native", &args);
        // Standard error of the mean of 0 to 99: the population's standard deviation divided by
        // ten.
        let error = found["standard_error"].as_f64().unwrap();
        assert!((error / 2.886_6 - 1.0).abs() < 0.03, "{found}");
        let interval = &found["confidence_interval"];
        assert!((interval["lower"].as_f64().unwrap() - 43.85).abs() < 0.4, "{found}");
        assert!((interval["upper"].as_f64().unwrap() - 55.15).abs() < 0.4, "{found}");
        assert_eq!(found, answer("monte_carlo_native", &args));
    }

    #[test]
    fn what_cannot_be_sampled_is_refused() {
        for (args, expected) in [
            (json!({ "bounds": [[1, 0]] }), "`bounds[0]` must be two numbers, the lower first"),
            (json!({ "bounds": [] }), "`bounds` has 0 dimensions; it must have from 1 to 64"),
            (
                json!({ "bounds": [[-1, 1]], "function": "sqrt(x)" }),
                "`function` has no finite value at some points inside `bounds`",
            ),
            (
                json!({ "bounds": [[0, 1]], "function": "x1" }),
                "`function`: unknown name `x1` at position 1; the variables are x or x0; there are also \
                 the functions constant, sphere, gaussian and polynomial",
            ),
            (
                json!({ "operation": "bootstrap", "data": [1, 2], "confidence": 1 }),
                "`confidence` is 1; it must lie between 0 and 1",
            ),
            (
                json!({ "bounds": [[0, 1]], "n_samples": 1_000_000_001_u64 }),
                "`n_samples` is 1000000001; it must be a whole number from 2 to 1000000000",
            ),
        ] {
            assert_eq!(fault("monte_carlo_native", &args), expected);
        }
    }
}
