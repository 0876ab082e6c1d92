//! Time windows of rules. The time is an argument; the time zone database is in the binary.

use std::collections::BTreeSet;
use std::ops::Range;

use jiff::Timestamp;
use jiff::civil::{Time, Weekday};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use serde::Serialize;
use tool::Wall;

/// Number of minutes per day.
const DAY: u16 = 24 * 60;
/// Validity of an admission if local time cannot be computed, in milliseconds.
const UNSURE: u64 = 60_000;
/// Weekdays as written, Monday first.
const DAYS: [(&str, Weekday); 7] = [
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
pub struct Hours {
    days: BTreeSet<&'static str>,
    /// Minutes of the day; a window past midnight ends before it begins.
    minutes: Option<Range<u16>>,
    #[serde(skip)]
    zone: TimeZone,
    named: String,
    since: Option<Wall>,
    until: Option<Wall>,
}

/// A time window as written in the file.
#[derive(Debug, Clone, Copy, Default)]
pub struct HoursText<'a> {
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
pub enum HoursPart {
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
pub struct HoursFault {
    /// Invalid part of the window.
    pub part: HoursPart,
    /// Description of the problem.
    pub message: String,
    /// Help on the fix.
    pub fix: String,
}

impl HoursFault {
    fn new(part: HoursPart, message: String, fix: impl Into<String>) -> Self {
        Self { part, message, fix: fix.into() }
    }
}

impl Hours {
    /// Parses a time window.
    ///
    /// # Errors
    /// All errors of the window.
    pub fn read(text: HoursText<'_>) -> Result<Self, Vec<HoursFault>> {
        let mut faults = Vec::new();
        let mut days = BTreeSet::new();
        for (at, day) in text.days.iter().enumerate() {
            match DAYS.iter().find(|(word, _)| word == day) {
                Some((word, _)) => drop(days.insert(*word)),
                None => faults.push(no_day(at, day)),
            }
        }
        let mut keep = |fault: HoursFault| faults.push(fault);
        let named = text.zone.unwrap_or("UTC").to_owned();
        let zone = TimeZoneDatabase::bundled().get(&named);
        let zone = zone.map_err(|_| keep(no_zone(&named))).ok();
        let hours = text.hours.map(minutes).transpose().map_err(&mut keep).ok();
        let since = moment(HoursPart::Since, text.since).map_err(&mut keep).ok();
        let until = moment(HoursPart::Until, text.until).map_err(&mut keep).ok();
        let (since_at, until_at) = (since.flatten(), until.flatten());
        if since_at.zip(until_at).is_some_and(|(since, until)| until <= since) {
            let told = "`until` is not after `since`, so the rule would never hold".to_owned();
            keep(HoursFault::new(HoursPart::Until, told, "write a later time"));
        }
        match (zone, hours) {
            (Some(zone), Some(minutes)) if faults.is_empty() => {
                Ok(Self { days, minutes, zone, named, since: since_at, until: until_at })
            }
            _ => Err(faults),
        }
    }

    /// Returns true if `now` is in the window, and also if local time cannot be computed, because a
    /// rule only restricts.
    pub fn holds(&self, now: Wall) -> bool {
        if self.since.is_some_and(|since| now < since)
            || self.until.is_some_and(|until| now >= until)
        {
            return false;
        }
        let Some(local) = self.local(now) else { return true };
        let minute =
            u16::from(local.hour().unsigned_abs()) * 60 + u16::from(local.minute().unsigned_abs());
        let in_hours = self.minutes.as_ref().is_none_or(|span| within(span, minute));
        in_hours && (self.days.is_empty() || self.days.contains(word(local.weekday())))
    }

    /// Returns the earliest time after `now` at which [`Hours::holds`] may change; `None` if it
    /// never changes.
    pub fn changes(&self, now: Wall) -> Option<Wall> {
        let ends = [self.since, self.until].into_iter().flatten();
        let calendar = self.minutes.is_some() || !self.days.is_empty();
        let turns = if calendar { self.turns(now) } else { Vec::new() };
        ends.chain(turns).filter(|moment| *moment > now).min()
    }

    /// Returns midnight and the window's boundaries, today and tomorrow.
    fn turns(&self, now: Wall) -> Vec<Wall> {
        let unsure = || vec![Wall(now.0.saturating_add(UNSURE))];
        let Some(local) = self.local(now) else { return unsure() };
        let span = self.minutes.clone().unwrap_or(0..DAY);
        let times = [0, span.start, span.end % DAY];
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
            Some(Wall(u64::try_from(zoned.timestamp().as_millisecond()).ok()?))
        });
        // A clock that is set back may repeat an hour: no view is valid longer than that.
        let hour = Wall(now.0.saturating_add(60 * UNSURE));
        turns.chain([hour]).collect()
    }

    fn local(&self, now: Wall) -> Option<jiff::Zoned> {
        let moment = Timestamp::from_millisecond(i64::try_from(now.0).ok()?).ok()?;
        Some(moment.to_zoned(self.zone.clone()))
    }
}

fn within(span: &Range<u16>, minute: u16) -> bool {
    if span.start < span.end {
        return span.contains(&minute);
    }
    minute >= span.start || minute < span.end
}

/// Returns the name of a weekday.
pub(crate) fn word(day: Weekday) -> &'static str {
    DAYS.iter().find(|(_, known)| *known == day).map_or("", |(word, _)| word)
}

fn no_day(at: usize, day: &str) -> HoursFault {
    let short = DAYS.iter().find(|(word, _)| day.to_lowercase().starts_with(word));
    let fix = match short {
        Some((word, _)) => format!("write `{word}`"),
        None => "use mon, tue, wed, thu, fri, sat, sun".to_owned(),
    };
    HoursFault::new(HoursPart::Day(at), format!("`{}` is no day", day.escape_debug()), fix)
}

fn no_zone(named: &str) -> HoursFault {
    let message = format!("`{}` is no time zone", named.escape_debug());
    HoursFault::new(HoursPart::Zone, message, "use one such as `Europe/Berlin`")
}

fn minutes(text: &str) -> Result<Range<u16>, HoursFault> {
    let one = |text: &str| {
        let (hour, minute) = text.trim().split_once(':')?;
        let digits = |text: &str| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        let (hour, minute) = (digits(hour).then_some(hour)?, digits(minute).then_some(minute)?);
        let (hour, minute): (u16, u16) = (hour.parse().ok()?, minute.parse().ok()?);
        let minutes = hour * 60 + minute;
        (minute < 60 && minutes <= DAY).then_some(minutes)
    };
    let both = text.split_once('-').and_then(|(from, to)| Some(one(from)?..one(to)?));
    let span = both.filter(|span| span.start < DAY && span.start != span.end);
    span.ok_or_else(|| {
        let message = format!("`{}` are no hours", text.escape_debug());
        let fix = "use a span such as `09:00-17:30` or `22:00-06:00`";
        HoursFault::new(HoursPart::Hours, message, fix)
    })
}

fn moment(part: HoursPart, text: Option<&str>) -> Result<Option<Wall>, HoursFault> {
    let Some(text) = text else { return Ok(None) };
    read_moment(text).map(Some).ok_or_else(|| {
        let message = format!("`{}` is no time", text.escape_debug());
        HoursFault::new(part, message, "use one such as `2026-12-24T18:00:00Z`")
    })
}

/// Parses an RFC 3339 time.
pub(crate) fn read_moment(text: &str) -> Option<Wall> {
    let moment: Timestamp = text.parse().ok()?;
    Some(Wall(u64::try_from(moment.as_millisecond()).ok()?))
}

#[cfg(test)]
mod tests {
    use tool::Wall;

    use super::{Hours, HoursPart, HoursText, read_moment};

    fn hours(text: HoursText<'_>) -> Hours {
        Hours::read(text).unwrap()
    }

    fn at(text: &str) -> Wall {
        read_moment(text).unwrap()
    }

    #[test]
    fn days_and_hours_hold_in_their_zone() {
        let night = HoursText {
            days: &["sat", "sun"],
            hours: Some("22:00-06:00"),
            zone: Some("Europe/Berlin"),
            ..HoursText::default()
        };
        let night = hours(night);
        // 2026-11-21 is a Saturday; Berlin is one hour ahead of UTC.
        assert!(night.holds(at("2026-11-21T21:00:00Z")));
        assert!(!night.holds(at("2026-11-21T20:59:00Z")));
        assert!(night.holds(at("2026-11-22T04:59:00Z")));
        assert!(!night.holds(at("2026-11-22T05:00:00Z")));
        assert!(!night.holds(at("2026-11-23T21:00:00Z")));
    }

    #[test]
    fn nothing_changes_before_the_moment_that_is_told() {
        let spans = [
            HoursText {
                hours: Some("09:00-17:30"),
                zone: Some("America/New_York"),
                ..HoursText::default()
            },
            HoursText { hours: Some("22:00-06:00"), days: &["mon"], ..HoursText::default() },
            HoursText { days: &["sun"], zone: Some("Europe/Berlin"), ..HoursText::default() },
            HoursText {
                since: Some("2026-10-24T12:34:56Z"),
                until: Some("2026-10-26T12:00:00Z"),
                ..HoursText::default()
            },
        ];
        // Over a change of the clocks in each of the zones.
        let (begin, end) = (at("2026-10-23T00:00:00Z"), at("2026-11-03T00:00:00Z"));
        for span in spans.map(hours) {
            let mut now = begin;
            let mut changes = 0;
            while now < end {
                let (state, next) = (span.holds(now), span.changes(now).unwrap_or(end).min(end));
                assert!(next > now);
                let mut within = now;
                while within < next {
                    assert_eq!(span.holds(within), state, "{span:?} {within}");
                    within = Wall(within.0 + 7 * 60_000);
                }
                changes += usize::from(span.holds(next) != state);
                now = next;
            }
            assert!(changes > 1, "{span:?}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let none = HoursText::default();
        for (text, told) in [
            (HoursText { days: &["monday"], ..none }, "is no day"),
            (HoursText { hours: Some("9-17"), ..none }, "are no hours"),
            (HoursText { hours: Some("09:00-24:01"), ..none }, "are no hours"),
            (HoursText { hours: Some("09:00-09:00"), ..none }, "are no hours"),
            (HoursText { zone: Some("Mars/Base"), ..none }, "is no time zone"),
            (HoursText { since: Some("tomorrow"), ..none }, "is no time"),
            (
                HoursText {
                    since: Some("2026-01-02T00:00:00Z"),
                    until: Some("2026-01-01T00:00:00Z"),
                    ..none
                },
                "never hold",
            ),
        ] {
            let faults = Hours::read(text).unwrap_err();
            assert!(faults.len() == 1 && faults[0].message.contains(told), "{faults:?}");
        }
    }

    /// Only the first was told, at the place of the whole.
    #[test]
    fn all_that_is_wrong_is_told_with_its_part() {
        let text = HoursText {
            days: &["mon", "saturday"],
            hours: Some("25:00-3"),
            zone: Some("Europe/Berlim"),
            ..HoursText::default()
        };
        let faults = Hours::read(text).unwrap_err();
        let parts: Vec<_> = faults.iter().map(|fault| fault.part).collect();
        assert_eq!(parts, [HoursPart::Day(1), HoursPart::Zone, HoursPart::Hours]);
        assert_eq!(faults[0].fix, "write `sat`");
    }
}
