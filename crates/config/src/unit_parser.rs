//! Parses durations and sizes with units, such as `30s` and `2MiB`.

use std::time::Duration;

/// The longest timeout of a call, which is also the gateway's limit for any tool.
const MAX_CALL_TIMEOUT: Duration = Duration::from_mins(10);

/// Parses the timeout of a call, such as `500ms`, `30s` or `2m`: from 1 ms to 10 minutes.
///
/// # Errors
/// The fix, for a text that is no such timeout.
pub fn parse_call_timeout(text: &str) -> Result<Duration, String> {
    parse_duration(text, MAX_CALL_TIMEOUT)
}

/// Parses a duration from 1 ms to `max`; an error is the fix.
pub(crate) fn parse_duration(text: &str, max: Duration) -> Result<Duration, String> {
    let help = "write a number and its unit, such as `500ms`, `30s` or `2m`";
    let (number, unit) = split_unit(text).ok_or(help)?;
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err(help.to_owned()),
    };
    let duration = Duration::from_millis(number.saturating_mul(milliseconds));
    if duration.is_zero() || duration > max {
        return Err(format!("use a duration from `1ms` to `{}m`", max.as_secs() / 60));
    }
    Ok(duration)
}

/// Parses an age in hours, days or weeks: `36h`, `90d`, `52w`.
pub(crate) fn parse_age(text: &str) -> Option<Duration> {
    let (number, unit) = split_unit(text)?;
    let hours = match unit {
        "h" => 1,
        "d" => 24,
        "w" => 24 * 7,
        _ => return None,
    };
    Some(Duration::from_secs(number.saturating_mul(hours).saturating_mul(3_600)))
}

/// Parses a number of bytes: `1048576`, `64KiB`, `2MiB`, `1GiB`; `kB`, `MB` and `GB` are powers of 1000. An error is
/// the fix.
pub(crate) fn parse_byte_size(text: &str) -> Result<usize, String> {
    let help = "write a number of bytes, or one with its unit, such as `64KiB` or `2MiB`";
    let (number, unit) = split_unit(text).ok_or(help)?;
    let bytes = match unit {
        "" | "B" => 1,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(help.to_owned()),
    };
    usize::try_from(number.saturating_mul(bytes)).map_err(|_| help.to_owned())
}

fn split_unit(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end)?;
    Some((number.parse().ok()?, unit.trim_start()))
}

#[cfg(test)]
mod tests;
