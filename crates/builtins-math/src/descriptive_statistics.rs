//! `statistics`: computes descriptive statistics for a list of numbers.

use serde_json::{Map, Value, json};

use crate::tool_arguments::{ToolArguments, escape_for_message};
use crate::tool_execution::{Answer, RunContext};

/// Maximum numbers in one call. The gateway accepts no more elements in any case.
pub(crate) const MAX_VALUES: usize = 100_000;

/// Names of all available metrics.
pub(crate) const METRICS: &[&str] = &[
    "mean",
    "std",
    "min",
    "max",
    "median",
    "count",
    "sum",
    "var",
    "q25",
    "q75",
    "iqr",
    "sem",
    "skew",
    "kurtosis",
    "geometric_mean",
    "mode",
    "range",
];
const DEFAULT: &[&str] = &["mean", "std", "min", "max", "median", "count"];

/// Runs the tool `statistics` with its arguments.
pub(crate) fn run_statistics(
    arguments: ToolArguments<'_>,
    _run: &RunContext,
) -> Result<Answer, String> {
    let data = arguments.f64_list("data", 1..=MAX_VALUES)?;
    let metrics = requested_metrics(arguments)?;
    let sample = SortedSample::new(data);
    let mut answer = Map::new();
    let (mut defined, mut fault) = (false, None);
    for metric in metrics {
        let value = match sample.metric_value(metric) {
            Ok(value) => {
                defined = true;
                value
            }
            Err(why) => {
                fault.get_or_insert(why);
                Value::Null
            }
        };
        answer.insert(metric.to_owned(), value);
    }
    // If no other metric was requested, the reason is the answer.
    match fault {
        Some(why) if !defined => Err(why),
        _ => Ok(Value::Object(answer).into()),
    }
}

fn requested_metrics(fields: ToolArguments<'_>) -> Result<Vec<&'static str>, String> {
    if !fields.has_value("metrics") {
        return Ok(DEFAULT.to_vec());
    }
    let list = fields.array_value("metrics")?;
    let known = |value: &Value| {
        let name = value.as_str().unwrap_or_default();
        METRICS.iter().find(|metric| **metric == name).copied().ok_or_else(|| {
            let (name, all) = (escape_for_message(name), METRICS.join(", "));
            format!("`metrics`: `{name}` is unknown; there are {all}")
        })
    };
    list.iter().map(known).collect()
}

/// Sorted numbers with mean and variance.
#[derive(Debug)]
pub(crate) struct SortedSample {
    sorted: Vec<f64>,
    pub(crate) mean: f64,
    /// Variance of the population.
    pub(crate) variance: f64,
}

impl SortedSample {
    /// Creates a sample of at least one number.
    pub(crate) fn new(mut data: Vec<f64>) -> Self {
        data.sort_unstable_by(f64::total_cmp);
        let (mean, variance) = mean_and_variance(&data);
        Self { sorted: data, mean, variance }
    }

    fn count(&self) -> f64 {
        self.sorted.len() as f64
    }

    /// Returns a quantile by linear interpolation, as NumPy does by default.
    pub(crate) fn quantile(&self, fraction: f64) -> f64 {
        interpolate_quantile(&self.sorted, fraction)
    }

    pub(crate) fn min_value(&self) -> f64 {
        self.sorted.first().copied().unwrap_or(f64::NAN)
    }

    pub(crate) fn max_value(&self) -> f64 {
        self.sorted.last().copied().unwrap_or(f64::NAN)
    }

    fn metric_value(&self, name: &str) -> Result<Value, String> {
        let value = match name {
            "count" => return Ok(json!(self.sorted.len())),
            "mean" => self.mean,
            "std" => self.std_dev(),
            "var" => self.variance,
            "min" => self.min_value(),
            "max" => self.max_value(),
            "range" => self.max_value() - self.min_value(),
            "sum" => compensated_sum(&self.sorted),
            "median" => self.quantile(0.5),
            "q25" => self.quantile(0.25),
            "q75" => self.quantile(0.75),
            "iqr" => self.quantile(0.75) - self.quantile(0.25),
            "mode" => self.most_frequent(),
            "sem" => {
                self.require_count(2, name)?;
                (self.variance / (self.count() - 1.0)).sqrt()
            }
            "skew" => self.standardized_moment(3, name)?,
            "kurtosis" => self.standardized_moment(4, name)? - 3.0,
            _ => self.geometric_mean()?,
        };
        if value.is_finite() {
            Ok(json!(value))
        } else {
            Err(format!("`{name}` of these numbers is too large"))
        }
    }

    /// Scaled by the largest distance from the mean, so that squares neither underflow nor
    /// overflow.
    pub(crate) fn std_dev(&self) -> f64 {
        let widest = (self.max_value() - self.mean).max(self.mean - self.min_value());
        if widest <= 0.0 || !widest.is_finite() {
            return self.variance.sqrt();
        }
        let squares: Vec<f64> =
            self.sorted.iter().map(|x| ((x - self.mean) / widest).powi(2)).collect();
        widest * (compensated_sum(&squares) / self.count()).sqrt()
    }

    /// Returns the most frequent number; the smallest of several.
    fn most_frequent(&self) -> f64 {
        let runs = self.sorted.chunk_by(f64::eq);
        let longest = runs.fold((0, f64::NAN), |best, run| {
            if run.len() > best.0 {
                (run.len(), run.first().copied().unwrap_or(f64::NAN))
            } else {
                best
            }
        });
        longest.1
    }

    fn require_count(&self, count: usize, name: &str) -> Result<(), String> {
        let found = self.sorted.len();
        let enough = found >= count;
        enough.then_some(()).ok_or_else(|| format!("`{name}` needs {count} numbers, found {found}"))
    }

    /// Returns a standardized moment of the population.
    fn standardized_moment(&self, power: i32, name: &str) -> Result<f64, String> {
        self.require_count(2, name)?;
        let spread = self.variance.sqrt();
        if spread <= f64::EPSILON * self.mean.abs() {
            return Err(format!("`{name}` is not defined if all numbers are equal"));
        }
        let powers: Vec<f64> =
            self.sorted.iter().map(|x| ((x - self.mean) / spread).powi(power)).collect();
        Ok(compensated_sum(&powers) / self.count())
    }

    fn geometric_mean(&self) -> Result<f64, String> {
        if self.min_value() <= 0.0 {
            let least = self.min_value();
            return Err(format!("`geometric_mean` needs numbers above 0, found {least}"));
        }
        let logarithms: Vec<f64> = self.sorted.iter().map(|x| x.ln()).collect();
        Ok((compensated_sum(&logarithms) / self.count()).exp())
    }
}

/// Interpolates linearly between the two nearest elements of `sorted`, which must not be empty.
pub(crate) fn interpolate_quantile(sorted: &[f64], fraction: f64) -> f64 {
    let place = fraction.clamp(0.0, 1.0) * (sorted.len().saturating_sub(1)) as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and the length"
    )]
    let below = place.floor() as usize;
    let at = |index: usize| sorted.get(index).or(sorted.last()).copied().unwrap_or(f64::NAN);
    let (low, high, weight) = (at(below), at(below + 1), place - place.floor());
    if weight == 0.0 {
        return low;
    }
    // NumPy's formula, so that the last digit is the same from either side.
    let step = high - low;
    if weight >= 0.5 { high - step * (1.0 - weight) } else { low + step * weight }
}

/// Returns mean and population variance, in two compensated passes.
pub(crate) fn mean_and_variance(data: &[f64]) -> (f64, f64) {
    let count = data.len() as f64;
    let mut mean = compensated_sum(data) / count;
    if !mean.is_finite() {
        // The sum overflows, but the mean does not.
        mean = data.iter().map(|x| x / count).sum();
    }
    let squares: Vec<f64> = data.iter().map(|x| (x - mean) * (x - mean)).collect();
    (mean, compensated_sum(&squares) / count)
}

/// Returns Neumaier's compensated sum of the numbers.
pub(crate) fn compensated_sum(data: &[f64]) -> f64 {
    let (mut total, mut lost) = (0.0_f64, 0.0);
    for x in data.iter().copied() {
        let next = total + x;
        lost += if total.abs() >= x.abs() { (total - next) + x } else { (x - next) + total };
        total = next;
    }
    if lost.is_finite() { total + lost } else { total }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::tool_execution::tests::{answer, fault};

    #[test]
    fn known_figures() {
        let found = answer(
            "statistics",
            &json!({ "data": [2, 4, 4, 4, 5, 5, 7, 9], "metrics": crate::descriptive_statistics::METRICS }),
        );
        assert_eq!((found["mean"].as_f64(), found["std"].as_f64()), (Some(5.0), Some(2.0)));
        assert_eq!((found["median"].as_f64(), found["mode"].as_f64()), (Some(4.5), Some(4.0)));
        assert_eq!((found["count"].as_u64(), found["iqr"].as_f64()), (Some(8), Some(1.5)));
        assert_eq!((found["q25"].as_f64(), found["range"].as_f64()), (Some(4.0), Some(7.0)));
        assert!((found["skew"].as_f64().unwrap() - 0.656_25).abs() < 1e-15);
        assert!((found["kurtosis"].as_f64().unwrap() + 0.218_75).abs() < 1e-15);
    }

    #[test]
    fn a_large_offset_costs_no_digits() {
        let data: Vec<f64> = [4.0, 7.0, 13.0, 16.0].iter().map(|x| 1e9 + x).collect();
        let found = answer("statistics", &json!({ "data": data, "metrics": ["var", "mean"] }));
        assert_eq!(found, json!({ "var": 22.5, "mean": 1_000_000_010.0 }));
        // Control: the one-pass formula loses them.
        let (n, sum) = (4.0, data.iter().sum::<f64>());
        let naive = data.iter().map(|x| x * x).sum::<f64>() / n - (sum / n) * (sum / n);
        assert!((naive - 22.5).abs() > 1.0, "{naive}");
    }

    /// Regression: `sem` of one number made the whole call fail.
    #[test]
    fn a_figure_that_is_not_defined_is_null_beside_the_others() {
        let args = json!({ "data": [7], "metrics": ["mean", "sem", "std", "max"] });
        let wanted = json!({ "mean": 7.0, "sem": null, "std": 0.0, "max": 7.0 });
        assert_eq!(answer("statistics", &args), wanted);
        // Control: it is defined for two numbers.
        let args = json!({ "data": [1, 3], "metrics": ["mean", "sem"] });
        assert_eq!(answer("statistics", &args), json!({ "mean": 2.0, "sem": 1.0 }));
    }

    #[test]
    fn what_is_not_defined_is_an_error_that_says_why() {
        for (args, expected) in [
            (json!({ "data": [] }), "`data` has 0 numbers; it must have from 1 to 100000"),
            (json!({ "data": [1, null] }), "`data[1]` is null, it must be a number"),
            (json!({ "data": "1,2" }), "`data` is text, it must be a list"),
            (json!({}), "`data` is missing"),
            (json!({ "data": [1], "metrics": ["sem"] }), "`sem` needs 2 numbers, found 1"),
            (
                json!({ "data": [3, 3], "metrics": ["skew"] }),
                "`skew` is not defined if all numbers are equal",
            ),
            (
                json!({ "data": [1, -1], "metrics": ["geometric_mean"] }),
                "`geometric_mean` needs numbers above 0, found -1",
            ),
            (
                json!({ "data": [1e308, -1e308], "metrics": ["var"] }),
                "`var` of these numbers is too large",
            ),
        ] {
            assert_eq!(fault("statistics", &args), expected);
        }
        let unknown = fault("statistics", &json!({ "data": [1], "metrics": ["modus"] }));
        assert!(
            unknown.starts_with("`metrics`: `modus` is unknown; there are mean, std"),
            "{unknown}"
        );
    }
}
