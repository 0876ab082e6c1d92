//! Axis ticks: round numbers with short labels.

/// Returns at most `count` round numbers of a range, in steps of 1, 2 or 5 times a power of ten.
pub(super) fn axis_ticks((min, max): (f64, f64), count: usize) -> Vec<f64> {
    let raw = (max / count.max(1) as f64) - (min / count.max(1) as f64);
    let power = 10.0_f64.powf(raw.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].iter().map(|m| m * power).find(|step| *step >= raw * 0.999_999);
    let step = step.unwrap_or(raw);
    if !step.is_normal() {
        return vec![min, max];
    }
    let first = (min / step - 1e-9).ceil();
    let last = (max / step + 1e-9).floor();
    let mut ticks = Vec::new();
    let mut at = first;
    while at <= last && ticks.len() <= count + 1 {
        ticks.push(at * step);
        at += 1.0;
    }
    ticks
}

/// Formats a number on an axis whose ticks are `step` apart.
pub(super) fn tick_label(x: f64, step: f64) -> String {
    let step = step.abs();
    if x.abs() < step * 1e-9 {
        return "0".to_owned();
    }
    let size = x.abs().max(step);
    if !(1e-4..1e7).contains(&size) {
        // Enough digits to distinguish neighbouring ticks.
        let digits = (x.abs().log10().floor() - step.log10().floor()).clamp(0.0, 8.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 8")]
        let text = format!("{x:.*e}", digits as usize);
        return text;
    }
    let places = (-step.log10() + 1e-9).ceil().clamp(0.0, 12.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 12")]
    let text = format!("{x:.*}", places as usize);
    text
}

/// Formats the end of an axis with enough digits to distinguish both ends.
pub(super) fn range_label(x: f64, (min, max): (f64, f64)) -> String {
    let width = max - min;
    let step = 10.0_f64.powf((width / 100.0).log10().floor());
    let text = tick_label(x, if step.is_normal() { step } else { 1.0 });
    if text.contains('e') || !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
