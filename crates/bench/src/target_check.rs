//! Targets of figures in reports: formatting, and marks for missed targets.

use std::fs;
use std::time::Duration;

/// Text in the target column for a figure without target.
pub(crate) const NO_TARGET: &str = "–";
/// Mark of a figure that misses its target.
const MISSED_MARK: &str = "**missed**";

/// Formats a target for a figure that must stay below `limit`.
pub(crate) fn below_target(figure: f64, limit: f64, unit: &str) -> String {
    mark_missed(format!("< {limit} {unit}"), figure < limit)
}

/// Formats a target for a time that must stay below `limit`, in milliseconds.
pub(crate) fn within_target(time: Duration, limit: Duration) -> String {
    below_target(time.as_secs_f64() * 1e3, limit.as_secs_f64() * 1e3, "ms")
}

/// Formats a target for a figure that must reach `limit`.
pub(crate) fn at_least_target(figure: f64, limit: f64, unit: &str) -> String {
    mark_missed(format!("≥ {limit}{unit}"), figure >= limit)
}

/// Formats a target for a figure that must lie in a range.
pub(crate) fn between_targets(figure: f64, low: f64, high: f64) -> String {
    mark_missed(format!("{low:.2} – {high:.2}"), (low..=high).contains(&figure))
}

/// Returns the text of a goal, marked if the figure does not reach it.
pub(crate) fn mark_missed(goal: String, is_met: bool) -> String {
    if is_met { goal } else { format!("{goal}, {MISSED_MARK}") }
}

/// Prints the report, writes it if requested and checks its targets.
///
/// # Errors
/// The report cannot be written, or a figure misses its target.
pub(crate) fn publish_report(text: &str, file: Option<&str>) -> Result<(), String> {
    println!("{text}");
    if let Some(file) = file {
        fs::write(file, text).map_err(|error| format!("`{file}`: {error}"))?;
    }
    match text.matches(MISSED_MARK).count() {
        0 => Ok(()),
        missed => Err(format!("{missed} figures miss their targets; the report marks them")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{at_least_target, below_target, between_targets, publish_report, within_target};

    #[test]
    fn a_missed_target_is_marked_and_fails_the_run() {
        assert_eq!(below_target(14.9, 15.0, "MiB"), "< 15 MiB");
        assert_eq!(below_target(15.0, 15.0, "MiB"), "< 15 MiB, **missed**");
        assert_eq!(within_target(Duration::from_millis(3), Duration::from_millis(5)), "< 5 ms");
        assert_eq!(at_least_target(0.5, 0.5, ""), "≥ 0.5");
        assert_eq!(at_least_target(3.9, 4.0, " ×"), "≥ 4 ×, **missed**");
        assert_eq!(between_targets(0.95, 0.9, 1.1), "0.90 – 1.10");
        assert_eq!(between_targets(1.2, 0.9, 1.1), "0.90 – 1.10, **missed**");
        assert_eq!(publish_report("| a | 0.6 | ≥ 0.5 |", None), Ok(()));
        let error = publish_report("| a | 0.4 | ≥ 0.5, **missed** |", None).unwrap_err();
        assert!(error.starts_with("1 figures"), "{error}");
        let file = crate::catalog::create_temp_folder().unwrap().join("report");
        publish_report("x, **missed**", file.to_str()).unwrap_err();
        assert_eq!(
            std::fs::read_to_string(file).unwrap(),
            "x, **missed**",
            "it is written all the same"
        );
    }
}
