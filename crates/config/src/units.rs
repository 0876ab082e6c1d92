//! Times and sizes as people write them.

use std::time::Duration;

/// The longest time a call may be given: no tool gets more from the gateway either.
const LONGEST: Duration = Duration::from_mins(10);

/// `500ms`, `30s`, `2m`; from 1 ms to 10 minutes.
pub fn duration(text: &str) -> Result<Duration, String> {
    time(text, LONGEST)
}

/// The same, from 1 ms to `longest`.
pub(crate) fn time(text: &str, longest: Duration) -> Result<Duration, String> {
    let advice = "write a number and its unit, such as `500ms`, `30s` or `2m`";
    let (number, unit) = split(text).ok_or(advice)?;
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err(advice.to_owned()),
    };
    let time = Duration::from_millis(number.saturating_mul(milliseconds));
    if time.is_zero() || time > longest {
        return Err(format!("use a time from `1ms` to `{}m`", longest.as_secs() / 60));
    }
    Ok(time)
}

/// `36h`, `90d`, `52w`.
pub(crate) fn age(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let hours = match unit {
        "h" => 1,
        "d" => 24,
        "w" => 24 * 7,
        _ => return None,
    };
    Some(Duration::from_secs(number.saturating_mul(hours).saturating_mul(3_600)))
}

/// `1048576`, `64KiB`, `2MiB`, `1GiB`; also `kB`, `MB`, `GB` by the thousand.
pub(crate) fn size(text: &str) -> Result<usize, String> {
    let advice = "write a number of bytes, or one with its unit, such as `64KiB` or `2MiB`";
    let (number, unit) = split(text).ok_or(advice)?;
    let bytes = match unit {
        "" | "B" => 1,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(advice.to_owned()),
    };
    usize::try_from(number.saturating_mul(bytes)).map_err(|_| advice.to_owned())
}

fn split(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end)?;
    Some((number.parse().ok()?, unit.trim_start()))
}

#[cfg(test)]
mod tests;
