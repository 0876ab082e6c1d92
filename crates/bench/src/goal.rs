//! Targets of figures: how they are written, and whether one is missed.

use std::fs;
use std::time::Duration;

/// What stands in the column of targets where a figure has none.
pub(crate) const OPEN: &str = "–";
/// What marks a figure that misses its target.
const MISSED: &str = "**missed**";

/// A figure that must stay below `limit`.
pub(crate) fn below(figure: f64, limit: f64, unit: &str) -> String {
    marked(format!("< {limit} {unit}"), figure < limit)
}

/// The same for a time, in milliseconds.
pub(crate) fn within(time: Duration, limit: Duration) -> String {
    below(time.as_secs_f64() * 1e3, limit.as_secs_f64() * 1e3, "ms")
}

/// A figure that must reach `limit`.
pub(crate) fn at_least(figure: f64, limit: f64, unit: &str) -> String {
    marked(format!("≥ {limit}{unit}"), figure >= limit)
}

/// A figure that must lie between two others.
pub(crate) fn between(figure: f64, low: f64, high: f64) -> String {
    marked(format!("{low:.2} – {high:.2}"), (low..=high).contains(&figure))
}

fn marked(goal: String, is_met: bool) -> String {
    if is_met { goal } else { format!("{goal}, {MISSED}") }
}

/// Prints the report, writes it where asked, and judges it.
///
/// # Errors
/// Where it cannot be written, or a figure misses its target.
pub(crate) fn publish(text: &str, file: Option<&str>) -> Result<(), String> {
    println!("{text}");
    if let Some(file) = file {
        fs::write(file, text).map_err(|error| format!("`{file}`: {error}"))?;
    }
    match text.matches(MISSED).count() {
        0 => Ok(()),
        missed => Err(format!("{missed} figures miss their targets; the report marks them")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{at_least, below, between, publish, within};

    #[test]
    fn a_missed_target_is_marked_and_fails_the_run() {
        assert_eq!(below(14.9, 15.0, "MiB"), "< 15 MiB");
        assert_eq!(below(15.0, 15.0, "MiB"), "< 15 MiB, **missed**");
        assert_eq!(within(Duration::from_millis(3), Duration::from_millis(5)), "< 5 ms");
        assert_eq!(at_least(0.5, 0.5, ""), "≥ 0.5");
        assert_eq!(at_least(3.9, 4.0, " ×"), "≥ 4 ×, **missed**");
        assert_eq!(between(0.95, 0.9, 1.1), "0.90 – 1.10");
        assert_eq!(between(1.2, 0.9, 1.1), "0.90 – 1.10, **missed**");
        assert_eq!(publish("| a | 0.6 | ≥ 0.5 |", None), Ok(()));
        let error = publish("| a | 0.4 | ≥ 0.5, **missed** |", None).unwrap_err();
        assert!(error.starts_with("1 figures"), "{error}");
        let file = crate::catalog::tempfile().unwrap().join("report");
        publish("x, **missed**", file.to_str()).unwrap_err();
        assert_eq!(
            std::fs::read_to_string(file).unwrap(),
            "x, **missed**",
            "it is written all the same"
        );
    }
}
