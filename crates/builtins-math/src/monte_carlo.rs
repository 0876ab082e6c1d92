//! `monte_carlo`: simulates an expression of random variables and summarises its distribution.

use rand::RngExt as _;
use rand_distr::{Distribution as _, Exp1, StandardNormal};
use serde_json::{Map, Value, json};

use crate::descriptive_statistics::SortedSample;
use crate::histogram_bins::HistogramBins;
use crate::random_streams::{RandomStream, map_blocks};
use crate::tool_arguments::ToolArguments;
use crate::tool_execution::{Answer, RunContext};

const MOST: usize = 1_000_000;
const BLOCK: u64 = 8_192;
/// Independent variables: x0 to x7.
const VARIABLES: usize = 8;

#[derive(Debug, Clone, Copy)]
enum SampleDistribution {
    Uniform,
    Normal,
    Exponential,
}

impl SampleDistribution {
    fn draw_sample(self, stream: &mut RandomStream) -> f64 {
        match self {
            Self::Uniform => stream.random(),
            Self::Normal => StandardNormal.sample(stream),
            Self::Exponential => Exp1.sample(stream),
        }
    }
}

/// Runs the tool `monte_carlo` with its arguments.
pub(crate) fn run_monte_carlo(
    arguments: ToolArguments<'_>,
    run: &RunContext,
) -> Result<Answer, String> {
    let known = "x, and x0 to x7, which are independent of each other; x is x0";
    let program = arguments.compile_field(
        "expression",
        crate::tool_arguments::indexed_variable('x', VARIABLES),
        known,
    )?;
    let samples = arguments.usize_in("samples", 10_000, 1..=MOST)?;
    let law =
        match arguments.one_of("distribution", "uniform", &["uniform", "normal", "exponential"])? {
            "uniform" => SampleDistribution::Uniform,
            "normal" => SampleDistribution::Normal,
            _ => SampleDistribution::Exponential,
        };
    let seed = arguments.integer_in("seed", 42, 0..=u64::MAX)?;
    let bins = arguments.usize_in("bins", 20, 1..=1_000)?;
    let slots = program.slot_count().max(1);
    let blocks = map_blocks((samples as u64, BLOCK), seed, run, |mut stream, length| {
        let (mut stack, mut drawn) = (Vec::new(), vec![0.0; slots]);
        let sample = |_| {
            for x in &mut drawn {
                *x = law.draw_sample(&mut stream);
            }
            program.evaluate_f64(&drawn, &mut stack)
        };
        (0..length).map(sample).collect::<Vec<f64>>()
    })?;
    let mut values = blocks.concat();
    values.retain(|value| value.is_finite());
    let undefined = samples - values.len();
    if values.is_empty() {
        return Err("`expression` has no finite value for any of the samples".to_owned());
    }
    let histogram = HistogramBins::from_values(&values, bins);
    let sample = SortedSample::new(values);
    let deviation = sample.std_dev();
    if !sample.mean.is_finite() || !deviation.is_finite() {
        return Err("the spread of the values is too large".to_owned());
    }
    let percentile = |p: u32| (p.to_string(), json!(sample.quantile(f64::from(p) / 100.0)));
    let percentiles: Map<String, Value> = [5, 25, 50, 75, 95].map(percentile).into_iter().collect();
    let mut answer = json!({
        "mean": sample.mean,
        "std": deviation,
        "standard_error": deviation / ((samples - undefined) as f64).sqrt(),
        "min": sample.min_value(),
        "max": sample.max_value(),
        "percentiles": percentiles,
        "histogram": { "counts": histogram.counts, "bin_edges": histogram.edges },
        "samples": samples,
    });
    if let (Some(object), true) = (answer.as_object_mut(), undefined > 0) {
        object.insert("undefined".to_owned(), json!(undefined));
        let warning =
            format!("{undefined} of {samples} samples have no finite value and are omitted");
        object.insert("warning".to_owned(), json!(warning));
    }
    Ok(answer.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::tool_execution::tests::{answer, fault};

    #[test]
    fn known_integrals_come_out_within_their_errors() {
        for (expression, law, mean, std) in [
            ("x", "uniform", 0.5, 1.0 / 12.0_f64.sqrt()),
            ("x ** 2", "uniform", 1.0 / 3.0, (4.0_f64 / 45.0).sqrt()),
            ("x", "normal", 0.0, 1.0),
            ("x ** 2", "normal", 1.0, 2.0_f64.sqrt()),
            ("x", "exponential", 1.0, 1.0),
            ("4 * (x0 ** 2 + x1 ** 2 < 1)", "uniform", std::f64::consts::PI, 1.642),
            ("np.exp(x)", "uniform", std::f64::consts::E - 1.0, 0.492),
        ] {
            let args = json!({ "expression": expression, "distribution": law, "samples": 200_000 });
            let found = answer("monte_carlo", &args);
            let error = found["standard_error"].as_f64().unwrap();
            assert!(
                (found["mean"].as_f64().unwrap() - mean).abs() < 5.0 * error,
                "{expression} {found}"
            );
            assert!(
                (found["std"].as_f64().unwrap() / std - 1.0).abs() < 0.02,
                "{expression} {found}"
            );
            let counts = found["histogram"]["counts"].as_array().unwrap();
            assert_eq!(counts.iter().map(|c| c.as_u64().unwrap()).sum::<u64>(), 200_000);
            assert_eq!(found["histogram"]["bin_edges"].as_array().unwrap().len(), 21);
        }
    }

    #[test]
    fn a_seed_fixes_the_answer() {
        let args = |seed: u64| json!({ "expression": "sin(x)", "samples": 20_000, "seed": seed });
        assert_eq!(answer("monte_carlo", &args(7)), answer("monte_carlo", &args(7)));
        assert_ne!(answer("monte_carlo", &args(7)), answer("monte_carlo", &args(8)));
    }

    #[test]
    fn values_that_are_no_numbers_are_counted_and_told() {
        let found =
            answer("monte_carlo", &json!({ "expression": "sqrt(x)", "distribution": "normal" }));
        let undefined = found["undefined"].as_u64().unwrap();
        assert!((4_000..6_000).contains(&undefined), "{found}");
        assert!(found["warning"].as_str().unwrap().contains("are omitted"));
        assert_eq!(
            fault("monte_carlo", &json!({ "expression": "sqrt(-1 - x)" })),
            "`expression` has no finite value for any of the samples"
        );
        assert_eq!(
            fault("monte_carlo", &json!({ "expression": "x + z" })),
            "`expression`: unknown name `z` at position 5; the variables are x, and x0 to x7, which are \
             independent of each other; x is x0"
        );
        assert_eq!(
            fault("monte_carlo", &json!({ "expression": "x", "distribution": "cauchy" })),
            "`distribution` is `cauchy`; it must be one of uniform, normal, exponential"
        );
    }
}
