//! The record of all calls: where its checkpoints are kept as well, and how much of it is kept.

use std::path::PathBuf;
use std::time::Duration;

use ledger::Keep;

use super::Resolver;
use crate::field::Field;
use crate::low;
use crate::node::shorten;
use crate::units;

const HOUR: Duration = Duration::from_hours(1);
/// A hundred years.
const CENTURY: Duration = Duration::from_hours(24 * 36_525);
/// What is kept at least, in bytes: less would be gone before anybody has looked.
const LEAST: u64 = 1 << 20;
/// One file of the record, in bytes.
const FILE: std::ops::RangeInclusive<u64> = 64 << 10..=1 << 30;

impl Resolver<'_> {
    pub(super) fn checkpoints_also(&self, low: &low::File) -> Option<PathBuf> {
        let (also, place) = low.records.get()?.checkpoints.get()?.also.given()?;
        if also.is_empty() || also.ends_with('/') {
            let fix = "name a file, such as `/mnt/other/toolkeep.checkpoints`";
            self.sink.tell(place, format!("`{}` is no file", shorten(also)), fix);
            return None;
        }
        Some(self.path(also))
    }

    /// Nothing is removed that the operator did not say.
    pub(super) fn keep(&self, low: &low::File) -> Keep {
        let keep = low.records.get().and_then(|records| records.keep.get());
        let age = keep.and_then(|keep| self.age(&keep.age));
        let fits = |bytes: u64| bytes >= LEAST;
        let bytes = keep.and_then(|keep| self.bytes(&keep.bytes, fits, "keep at least `1MiB`"));
        Keep { age, bytes }
    }

    pub(super) fn record_file(&self, low: &low::File) -> u64 {
        let file = low.records.get().map(|records| &records.file);
        let fits = |bytes: u64| FILE.contains(&bytes);
        let bytes = file.and_then(|file| self.bytes(file, fits, "use `64KiB` to `1GiB`"));
        bytes.unwrap_or_else(|| ledger::Options::default().segment_bytes)
    }

    fn age(&self, field: &Field<String>) -> Option<Duration> {
        let (text, place) = field.given()?;
        match units::age(text) {
            Some(age) if (HOUR..=CENTURY).contains(&age) => Some(age),
            _ => {
                let fix =
                    "write hours, days or weeks, such as `36h`, `90d` or `52w`; at least `1h`";
                self.sink.tell(place, format!("`{}` is no such age", shorten(text)), fix);
                None
            }
        }
    }

    pub(super) fn bytes(
        &self,
        field: &Field<low::Size>,
        fits: impl Fn(u64) -> bool,
        range: &str,
    ) -> Option<u64> {
        let (size, place) = field.given()?;
        let told = |advice: &str| {
            self.sink.tell(place, format!("`{}` is no such size", shorten(&size.0)), advice);
        };
        match units::size(&size.0).map(|bytes| bytes as u64) {
            Ok(bytes) if fits(bytes) => Some(bytes),
            Ok(_) => {
                told(range);
                None
            }
            Err(advice) => {
                told(&advice);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::tests::{faults, good, reading};

    #[test]
    fn what_is_said_is_kept_and_nothing_goes_where_nothing_is_said() {
        let none = good("version: 1\n");
        assert_eq!((none.keep, none.record_file), (ledger::Keep::default(), 64 << 20));
        let some = good("version: 1\nrecords: { keep: { age: 90d, bytes: 20GiB }, file: 1MiB }\n");
        assert_eq!(some.keep.age, Some(Duration::from_hours(90 * 24)));
        assert_eq!((some.keep.bytes, some.record_file), (Some(20 << 30), 1 << 20));
    }

    #[test]
    fn what_cannot_be_kept_so_is_told() {
        for (yaml, fault) in [
            ("{ keep: { age: 5m } }", "`5m` is no such age"),
            ("{ keep: { age: 90 } }", "`90` is no such age"),
            ("{ keep: { bytes: 5kB } }", "`5kB` is no such size"),
            ("{ file: 2GiB }", "`2GiB` is no such size"),
            ("{ keep: { days: 5 } }", "days"),
        ] {
            let text = format!("version: 1\nrecords: {yaml}\n");
            let told = faults(&reading(&text, &[])).join("\n");
            assert!(told.contains(fault), "{yaml}: {told}");
        }
    }
}
