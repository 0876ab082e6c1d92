//! Time windows of rules. The time is an argument; the time zone database is in the binary.

use std::collections::BTreeSet;
use std::ops::Range;

use jiff::Timestamp;
use jiff::civil::{Time, Weekday};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use serde::Serialize;
use tool::WallTime;

/// Number of minutes per day.
const MINUTES_PER_DAY: u16 = 24 * 60;
/// Validity of an admission if local time cannot be computed, in milliseconds.
const FALLBACK_VALIDITY_MS: u64 = 60_000;
/// Weekdays as written, Monday first.
const WEEKDAY_NAMES: [(&str, Weekday); 7] = [
    ("mon", Weekday::Monday),
    ("tue", Weekday::Tuesday),
    ("wed", Weekday::Wednesday),
    ("thu", Weekday::Thursday),
    ("fri", Weekday::Friday),
    ("sat", Weekday::Saturday),
    ("sun", Weekday::Sunday),
];

/// A window of days and hours in one time zone. Absent parts do not limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TimeWindow {
    days: BTreeSet<&'static str>,
    /// Minutes of the day; a window past midnight ends before it begins.
    minutes: Option<Range<u16>>,
    #[serde(skip)]
    zone: TimeZone,
    #[serde(rename = "named")]
    zone_name: String,
    #[serde(rename = "since")]
    starts_at: Option<WallTime>,
    #[serde(rename = "until")]
    ends_at: Option<WallTime>,
}

/// A time window as written in the file.
#[derive(Debug, Clone, Copy, Default)]
pub struct TimeWindowSpec<'a> {
    /// Weekdays, `mon` to `sun`.
    pub days: &'a [&'a str],
    /// Hours such as `22:00-06:00`.
    pub hours: Option<&'a str>,
    /// Time zone such as `Europe/Berlin`; UTC if absent.
    pub zone: Option<&'a str>,
    /// Start in RFC 3339.
    pub since: Option<&'a str>,
    /// End in RFC 3339.
    pub until: Option<&'a str>,
}

/// Part of a time window that is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeWindowField {
    /// A weekday, by its index.
    Day(usize),
    /// The span of hours.
    Hours,
    /// The name of the time zone.
    Zone,
    /// The start of the window.
    Since,
    /// The end of the window.
    Until,
}

/// Error in a time window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeWindowError {
    /// Invalid part of the window.
    pub part: TimeWindowField,
    /// Description of the problem.
    pub message: String,
    /// Help on the fix.
    pub help: String,
}

impl TimeWindowError {
    fn new(part: TimeWindowField, message: String, fix: impl Into<String>) -> Self {
        Self { part, message, help: fix.into() }
    }
}

impl TimeWindow {
    /// Parses a time window.
    ///
    /// # Errors
    /// All errors of the window.
    pub fn parse_window(text: TimeWindowSpec<'_>) -> Result<Self, Vec<TimeWindowError>> {
        let mut faults = Vec::new();
        let mut days = BTreeSet::new();
        for (at, day) in text.days.iter().enumerate() {
            match WEEKDAY_NAMES.iter().find(|(word, _)| word == day) {
                Some((word, _)) => drop(days.insert(*word)),
                None => faults.push(invalid_day(at, day)),
            }
        }
        let mut keep = |fault: TimeWindowError| faults.push(fault);
        let named = text.zone.unwrap_or("UTC").to_owned();
        let zone = TimeZoneDatabase::bundled().get(&named);
        let zone = zone.map_err(|_| keep(invalid_zone(&named))).ok();
        let hours = text.hours.map(parse_hours).transpose().map_err(&mut keep).ok();
        let since = parse_optional_time(TimeWindowField::Since, text.since).map_err(&mut keep).ok();
        let until = parse_optional_time(TimeWindowField::Until, text.until).map_err(&mut keep).ok();
        let (since_at, until_at) = (since.flatten(), until.flatten());
        if since_at.zip(until_at).is_some_and(|(since, until)| until <= since) {
            let told = "`until` is not after `since`, so the rule would never apply".to_owned();
            keep(TimeWindowError::new(TimeWindowField::Until, told, "write a later time"));
        }
        match (zone, hours) {
            (Some(zone), Some(minutes)) if faults.is_empty() => Ok(Self {
                days,
                minutes,
                zone,
                zone_name: named,
                starts_at: since_at,
                ends_at: until_at,
            }),
            _ => Err(faults),
        }
    }

    /// Returns true if `now` is in the window, and also if local time cannot be computed, because a
    /// rule only restricts.
    pub fn contains_time(&self, now: WallTime) -> bool {
        if self.starts_at.is_some_and(|since| now < since)
            || self.ends_at.is_some_and(|until| now >= until)
        {
            return false;
        }
        let Some(local) = self.to_local(now) else { return true };
        let minute =
            u16::from(local.hour().unsigned_abs()) * 60 + u16::from(local.minute().unsigned_abs());
        let in_hours = self.minutes.as_ref().is_none_or(|span| span_contains(span, minute));
        in_hours && (self.days.is_empty() || self.days.contains(weekday_name(local.weekday())))
    }

    /// Returns the earliest time after `now` at which [`TimeWindow::contains_time`] may change; `None` if it
    /// never changes.
    pub fn next_change(&self, now: WallTime) -> Option<WallTime> {
        let ends = [self.starts_at, self.ends_at].into_iter().flatten();
        let calendar = self.minutes.is_some() || !self.days.is_empty();
        let turns = if calendar { self.calendar_boundaries(now) } else { Vec::new() };
        ends.chain(turns).filter(|moment| *moment > now).min()
    }

    /// Returns midnight and the window's boundaries, today and tomorrow.
    fn calendar_boundaries(&self, now: WallTime) -> Vec<WallTime> {
        let unsure = || vec![WallTime(now.0.saturating_add(FALLBACK_VALIDITY_MS))];
        let Some(local) = self.to_local(now) else { return unsure() };
        let span = self.minutes.clone().unwrap_or(0..MINUTES_PER_DAY);
        let times = [0, span.start, span.end % MINUTES_PER_DAY];
        let dates = [Some(local.date()), local.date().tomorrow().ok()];
        let turns = dates.into_iter().flatten().flat_map(|date| {
            times.iter().filter_map(move |minute| {
                let (hour, minute) =
                    (i8::try_from(minute / 60).ok()?, i8::try_from(minute % 60).ok()?);
                Some(date.to_datetime(Time::new(hour, minute, 0, 0).ok()?))
            })
        });
        let turns = turns.filter_map(|turn| {
            let zoned = turn.to_zoned(self.zone.clone()).ok()?;
            Some(WallTime(u64::try_from(zoned.timestamp().as_millisecond()).ok()?))
        });
        // A clock that is set back may repeat an hour: no view is valid longer than that.
        let hour = WallTime(now.0.saturating_add(60 * FALLBACK_VALIDITY_MS));
        turns.chain([hour]).collect()
    }

    fn to_local(&self, now: WallTime) -> Option<jiff::Zoned> {
        let moment = Timestamp::from_millisecond(i64::try_from(now.0).ok()?).ok()?;
        Some(moment.to_zoned(self.zone.clone()))
    }
}

fn span_contains(span: &Range<u16>, minute: u16) -> bool {
    if span.start < span.end {
        return span.contains(&minute);
    }
    minute >= span.start || minute < span.end
}

/// Returns the name of a weekday.
pub(crate) fn weekday_name(day: Weekday) -> &'static str {
    WEEKDAY_NAMES.iter().find(|(_, known)| *known == day).map_or("", |(word, _)| word)
}

fn invalid_day(at: usize, day: &str) -> TimeWindowError {
    let short = WEEKDAY_NAMES.iter().find(|(word, _)| day.to_lowercase().starts_with(word));
    let fix = match short {
        Some((word, _)) => format!("write `{word}`"),
        None => "use mon, tue, wed, thu, fri, sat, sun".to_owned(),
    };
    TimeWindowError::new(
        TimeWindowField::Day(at),
        format!("invalid day `{}`", day.escape_debug()),
        fix,
    )
}

fn invalid_zone(named: &str) -> TimeWindowError {
    let message = format!("unknown time zone `{}`", named.escape_debug());
    TimeWindowError::new(TimeWindowField::Zone, message, "use an IANA name such as `Europe/Berlin`")
}

fn parse_hours(text: &str) -> Result<Range<u16>, TimeWindowError> {
    let one = |text: &str| {
        let (hour, minute) = text.trim().split_once(':')?;
        let digits = |text: &str| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        let (hour, minute) = (digits(hour).then_some(hour)?, digits(minute).then_some(minute)?);
        let (hour, minute): (u16, u16) = (hour.parse().ok()?, minute.parse().ok()?);
        let minutes = hour * 60 + minute;
        (minute < 60 && minutes <= MINUTES_PER_DAY).then_some(minutes)
    };
    let both = text.split_once('-').and_then(|(from, to)| Some(one(from)?..one(to)?));
    let span = both.filter(|span| span.start < MINUTES_PER_DAY && span.start != span.end);
    span.ok_or_else(|| {
        let message = format!("invalid hours `{}`", text.escape_debug());
        let fix = "use a span such as `09:00-17:30` or `22:00-06:00`";
        TimeWindowError::new(TimeWindowField::Hours, message, fix)
    })
}

fn parse_optional_time(
    part: TimeWindowField,
    text: Option<&str>,
) -> Result<Option<WallTime>, TimeWindowError> {
    let Some(text) = text else { return Ok(None) };
    parse_rfc3339(text).map(Some).ok_or_else(|| {
        let message = format!("invalid time `{}`", text.escape_debug());
        TimeWindowError::new(part, message, "use one such as `2026-12-24T18:00:00Z`")
    })
}

/// Parses an RFC 3339 time.
pub(crate) fn parse_rfc3339(text: &str) -> Option<WallTime> {
    let moment: Timestamp = text.parse().ok()?;
    Some(WallTime(u64::try_from(moment.as_millisecond()).ok()?))
}

#[cfg(test)]
mod tests {
    use tool::WallTime;

    use super::{TimeWindow, TimeWindowField, TimeWindowSpec, parse_rfc3339};

    fn hours(text: TimeWindowSpec<'_>) -> TimeWindow {
        TimeWindow::parse_window(text).unwrap()
    }

    fn at(text: &str) -> WallTime {
        parse_rfc3339(text).unwrap()
    }

    #[test]
    fn days_and_hours_hold_in_their_zone() {
        let night = TimeWindowSpec {
            days: &["sat", "sun"],
            hours: Some("22:00-06:00"),
            zone: Some("Europe/Berlin"),
            ..TimeWindowSpec::default()
        };
        let night = hours(night);
        // 2026-11-21 is a Saturday; Berlin is one hour ahead of UTC.
        assert!(night.contains_time(at("2026-11-21T21:00:00Z")));
        assert!(!night.contains_time(at("2026-11-21T20:59:00Z")));
        assert!(night.contains_time(at("2026-11-22T04:59:00Z")));
        assert!(!night.contains_time(at("2026-11-22T05:00:00Z")));
        assert!(!night.contains_time(at("2026-11-23T21:00:00Z")));
    }

    #[test]
    fn nothing_changes_before_the_moment_that_is_told() {
        let spans = [
            TimeWindowSpec {
                hours: Some("09:00-17:30"),
                zone: Some("America/New_York"),
                ..TimeWindowSpec::default()
            },
            TimeWindowSpec {
                hours: Some("22:00-06:00"),
                days: &["mon"],
                ..TimeWindowSpec::default()
            },
            TimeWindowSpec {
                days: &["sun"],
                zone: Some("Europe/Berlin"),
                ..TimeWindowSpec::default()
            },
            TimeWindowSpec {
                since: Some("2026-10-24T12:34:56Z"),
                until: Some("2026-10-26T12:00:00Z"),
                ..TimeWindowSpec::default()
            },
        ];
        // Over a change of the clocks in each of the zones.
        let (begin, end) = (at("2026-10-23T00:00:00Z"), at("2026-11-03T00:00:00Z"));
        for span in spans.map(hours) {
            let mut now = begin;
            let mut changes = 0;
            while now < end {
                let (state, next) =
                    (span.contains_time(now), span.next_change(now).unwrap_or(end).min(end));
                assert!(next > now);
                let mut within = now;
                while within < next {
                    assert_eq!(span.contains_time(within), state, "{span:?} {within}");
                    within = WallTime(within.0 + 7 * 60_000);
                }
                changes += usize::from(span.contains_time(next) != state);
                now = next;
            }
            assert!(changes > 1, "{span:?}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let none = TimeWindowSpec::default();
        for (text, told) in [
            (TimeWindowSpec { days: &["monday"], ..none }, "invalid day"),
            (TimeWindowSpec { hours: Some("9-17"), ..none }, "invalid hours"),
            (TimeWindowSpec { hours: Some("09:00-24:01"), ..none }, "invalid hours"),
            (TimeWindowSpec { hours: Some("09:00-09:00"), ..none }, "invalid hours"),
            (TimeWindowSpec { zone: Some("Mars/Base"), ..none }, "unknown time zone"),
            (TimeWindowSpec { since: Some("tomorrow"), ..none }, "invalid time"),
            (
                TimeWindowSpec {
                    since: Some("2026-01-02T00:00:00Z"),
                    until: Some("2026-01-01T00:00:00Z"),
                    ..none
                },
                "never apply",
            ),
        ] {
            let faults = TimeWindow::parse_window(text).unwrap_err();
            assert!(faults.len() == 1 && faults[0].message.contains(told), "{faults:?}");
        }
    }

    /// Only the first was told, at the place of the whole.
    #[test]
    fn all_that_is_wrong_is_told_with_its_part() {
        let text = TimeWindowSpec {
            days: &["mon", "saturday"],
            hours: Some("25:00-3"),
            zone: Some("Europe/Berlim"),
            ..TimeWindowSpec::default()
        };
        let faults = TimeWindow::parse_window(text).unwrap_err();
        let parts: Vec<_> = faults.iter().map(|fault| fault.part).collect();
        assert_eq!(parts, [TimeWindowField::Day(1), TimeWindowField::Zone, TimeWindowField::Hours]);
        assert_eq!(faults[0].help, "write `sat`");
    }
}
