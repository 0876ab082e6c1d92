//! Defines wall-clock time, which may jump, and monotonic time, which orders events. The two must
//! not be mixed.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Wall time: milliseconds since 1970-01-01 UTC. For people and for expiry, never for deadlines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WallTime(pub u64);

/// Monotonic time since the process started. For deadlines and durations; has no meaning outside
/// the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MonotonicTime(pub Duration);

impl MonotonicTime {
    /// Returns the time after a duration, saturating.
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }

    /// Returns the duration since `earlier`, or zero if it is not earlier.
    pub fn saturating_duration_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Returns the whole milliseconds of a duration, saturating.
pub fn duration_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Source of the current time. Tests provide their own.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Returns the wall-clock time, which may jump forwards and backwards.
    fn wall_now(&self) -> WallTime;
    /// Returns the monotonic time.
    fn monotonic_now(&self) -> MonotonicTime;
}

impl fmt::Display for WallTime {
    /// RFC 3339 in UTC with milliseconds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, of_day) = (self.0 / 86_400_000, self.0 % 86_400_000);
        let (year, month, day) = civil_from_days(days);
        let (h, m, s) = (of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1000 % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{:03}Z", of_day % 1000)
    }
}

/// Converts days since 1970-01-01 to year, month and day: the 400-year cycle of the Gregorian
/// calendar, counted from 0000-03-01 so that the leap day ends a year.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + u64::from(month <= 2), month, day)
}

/// Error for a text that is not a valid time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "it is neither an RFC 3339 time, such as `2026-11-24T15:00:00Z`, nor a date, such as \
     `2026-11-24`"
)]
pub struct ParseTimeError;

impl FromStr for WallTime {
    type Err = ParseTimeError;

    /// Parses RFC 3339 from 1970 on, rounded down to milliseconds, or a date, which is midnight in
    /// UTC. A leap second counts as the second before it.
    fn from_str(text: &str) -> Result<Self, ParseTimeError> {
        parse_timestamp(text).map(Self).ok_or(ParseTimeError)
    }
}

fn parse_timestamp(text: &str) -> Option<u64> {
    let (date, rest) = text.split_at_checked(10)?;
    let (year, month, day) = (
        parse_number(date, 0, "0000-")?,
        parse_number(date, 5, "00-")?,
        parse_number(date, 8, "00")?,
    );
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let longest = match month {
        2 => 28 + u64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if year < 1970 || !(1..=longest).contains(&day) {
        return None;
    }
    let midnight = days_from_civil(year, month, day) * 86_400_000;
    if rest.is_empty() {
        return Some(midnight);
    }
    let (time, rest) = rest.strip_prefix(['T', 't', ' '])?.split_at_checked(8)?;
    let (h, m, s) = (
        parse_number(time, 0, "00:")?,
        parse_number(time, 3, "00:")?,
        parse_number(time, 6, "00")?,
    );
    if h > 23 || m > 59 || s > 60 {
        return None;
    }
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (ms, zone) = match rest.strip_prefix('.') {
        Some(fraction) => {
            let (part, zone) = fraction.split_at_checked(digits(fraction))?;
            let ms = part.bytes().chain([b'0'; 3]).take(3);
            let ms = ms.fold(0, |ms, digit| ms * 10 + u64::from(digit - b'0'));
            ((!part.is_empty()).then_some(ms)?, zone)
        }
        None => (0, rest),
    };
    let local = midnight + (h * 3_600 + m * 60 + s.min(59)) * 1_000 + ms;
    if zone.eq_ignore_ascii_case("z") {
        return Some(local);
    }
    let (sign, zone) = zone.split_at_checked(1)?;
    let (hours, minutes) = (parse_number(zone, 0, "00:")?, parse_number(zone, 3, "00")?);
    if zone.len() != 5 || hours > 23 || minutes > 59 {
        return None;
    }
    let offset = (hours * 3_600 + minutes * 60) * 1_000;
    match sign {
        "+" => local.checked_sub(offset),
        "-" => local.checked_add(offset),
        _ => None,
    }
}

/// Parses as many digits at `at` as `shape` has zeros, followed by the rest of `shape`.
fn parse_number(text: &str, at: usize, shape: &str) -> Option<u64> {
    let part = text.get(at..at + shape.len())?;
    let digits = shape.trim_end_matches(['-', ':']).len();
    let (number, end) = part.split_at_checked(digits)?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && shape.ends_with(end)).then(|| number.parse().ok()).flatten()
}

/// Converts a date to days since 1970-01-01: the inverse of [`civil_from_days`].
fn days_from_civil(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let of_year = (153 * month + 2) / 5 + day - 1;
    let of_era = year % 400 * 365 + year % 400 / 4 - year % 400 / 100 + of_year;
    year / 400 * 146_097 + of_era - 719_468
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{WallTime, duration_millis};

    #[test]
    fn milliseconds_are_rounded_down_and_saturate() {
        assert_eq!(duration_millis(Duration::from_micros(2_999)), 2);
        assert_eq!(duration_millis(Duration::MAX), u64::MAX);
    }

    #[test]
    fn known_days() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(WallTime(ms).to_string(), text);
            assert_eq!(text.parse(), Ok(WallTime(ms)));
        }
    }

    #[test]
    fn times_of_rfc_3339_are_read_and_nothing_else() {
        for (text, ms) in [
            ("2000-02-29", 951_782_400_000),
            ("2000-02-29T00:00:00Z", 951_782_400_000),
            ("2000-02-29t01:30:00.0019+01:30", 951_782_400_001),
            ("2000-02-28 23:00:00.25-01:00", 951_782_400_250),
            ("1970-01-01T00:00:60z", 59_000),
        ] {
            assert_eq!(text.parse(), Ok(WallTime(ms)), "{text}");
        }
        for day in 0..60_000_u64 {
            let wall = WallTime(day * 86_400_000 + 86_399_999);
            assert_eq!(wall.to_string().parse(), Ok(wall));
        }
        for bad in [
            "",
            "2000",
            "2000-2-29",
            "2001-02-29",
            "2100-02-29",
            "2000-13-01",
            "2000-00-01",
            "2000-01-00",
            "2000-04-31",
            "1969-12-31",
            "2000-01-01T",
            "2000-01-01T00:00:00",
            "2000-01-01T24:00:00Z",
            "2000-01-01T00:60:00Z",
            "2000-01-01T00:00:61Z",
            "2000-01-01T00:00:00.Z",
            "2000-01-01T00:00:00+1:00",
            "2000-01-01T00:00:00+01:00x",
            "2000-01-01T00:00:00*01:00",
            "+000-01-01",
            "2000-01-01T00:00:0éZ",
            "1970-01-01T00:00:00+00:01",
            "1700000000000",
            "now",
        ] {
            assert!(bad.parse::<WallTime>().is_err(), "{bad}");
        }
    }
}
